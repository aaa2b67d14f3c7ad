#!/usr/bin/env python3
"""Generate conversations for docs/policies.md: a shop's desk, or an operator who reads logs.

    scripts/conversations.py shop|logs [--count 100] [--seed 1] > FILE

One JSON object per line in OpenAI's chat format, as `agentkit replay` reads it. The shapes of the
results are those that airline data lacks: records by their id, records that differ in a few keys,
long lists of plain values, CSV, Markdown tables and log lines. All values are invented.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

Messages = list[dict[str, Any]]

FIRST = ("Ada", "Bela", "Chen", "Dora", "Emil", "Fay", "Gus", "Hana", "Ines", "Jon", "Kim", "Lea")
LAST = ("Abel", "Boyd", "Cole", "Diaz", "Egan", "Ford", "Gray", "Hale", "Ives", "Jung", "Kerr")
STREETS = ("Oak Avenue", "River Road", "Hill Street", "Park Lane", "Mill Way", "Station Road")
CITIES = ("Leeds", "York", "Bath", "Derby", "Truro", "Wells")
KINDS: dict[str, dict[str, list[str]]] = {
    "Kettle": {"litres": ["1", "1.5", "2"], "shell": ["steel", "glass"], "hue": ["white", "black"]},
    "Rain Jacket": {
        "fit": ["XS", "S", "M", "L", "XL"],
        "hue": ["navy", "olive", "red"],
        "hood": ["fixed", "detachable"],
    },
    "Desk Lamp": {
        "power": ["battery", "mains"],
        "glow": ["low", "medium", "high"],
        "arm": ["fixed", "swivel"],
    },
    "Headset": {"link": ["wired", "wireless"], "hue": ["grey", "black"], "guard": ["IPX4", "none"]},
    "Backpack": {
        "room": ["small", "medium", "large"],
        "cloth": ["canvas", "nylon", "leather"],
        "slot": ["laptop", "camera"],
        "hue": ["green", "black", "navy"],
    },
    "Puzzle": {
        "pieces": ["500", "1000", "2000"],
        "theme": ["animals", "art", "fantasy"],
        "level": ["beginner", "expert"],
    },
}


class Chat:
    """A conversation under construction."""

    def __init__(self, seed: random.Random, system: str) -> None:
        self.seed = seed
        self.messages: Messages = [{"role": "system", "content": system}]
        self._calls = 0

    def user(self, text: str) -> None:
        """Add a message of the user."""
        self.messages.append({"role": "user", "content": text})

    def says(self, text: str) -> None:
        """Add an answer of the assistant."""
        self.messages.append({"role": "assistant", "content": text})

    def call(self, name: str, result: object, **arguments: object) -> None:
        """Add a call with its result; a result that is no text is JSON."""
        self._calls += 1
        ident = f"call_{self._calls}"
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": ident, "type": "function", "function": function}
        self.messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = result if isinstance(result, str) else json.dumps(result)
        self.messages.append({"role": "tool", "tool_call_id": ident, "content": text})


def digits(seed: random.Random, count: int = 10) -> str:
    """Return a number of so many digits as text."""
    return str(seed.randrange(10 ** (count - 1), 10**count))


def article(seed: random.Random, name: str) -> dict[str, Any]:
    """Return a page of the catalogue with its variants by id."""
    variants: dict[str, Any] = {}
    for _ in range(seed.randint(6, 16)):
        ident = digits(seed)
        options = {key: seed.choice(values) for key, values in KINDS[name].items()}
        variants[ident] = {
            "article_id": ident,
            "traits": options,
            "in_stock": seed.random() < 0.7,
            "price": round(seed.uniform(20, 400), 2),
        }
    return {"title": name, "line_id": digits(seed), "variants": variants}


def purchase(seed: random.Random, catalogue: dict[str, Any], account: str) -> dict[str, Any]:
    """Return an order of a few articles."""
    lines: list[dict[str, Any]] = []
    for name in seed.sample(list(catalogue), seed.randint(1, 4)):
        variant = seed.choice(list(catalogue[name]["variants"].values()))
        lines.append(
            {
                "title": name,
                "line_id": catalogue[name]["line_id"],
                "article_id": variant["article_id"],
                "price": variant["price"],
                "traits": variant["traits"],
            }
        )
    total = round(sum(one["price"] for one in lines), 2)
    return {
        "purchase_id": f"#P{digits(seed, 7)}",
        "account_id": account,
        "ship_to": place(seed),
        "lines": lines,
        "parcels": [
            {"tracking_id": [digits(seed, 12)], "article_ids": [one["article_id"] for one in lines]}
        ],
        "state": seed.choice(["pending", "delivered", "processed"]),
        "payments": [
            {"kind": "payment", "amount": total, "method_id": f"voucher_{digits(seed, 7)}"}
        ],
    }


def place(seed: random.Random) -> dict[str, Any]:
    """Return an address."""
    return {
        "street": f"{seed.randint(1, 900)} {seed.choice(STREETS)}",
        "flat": f"Suite {seed.randint(100, 999)}",
        "town": seed.choice(CITIES),
        "country": "GB",
        "code": digits(seed, 5),
    }


def shop(seed: random.Random) -> Messages:
    """A customer returns, exchanges or asks, as in a shop's help desk."""
    first, last = seed.choice(FIRST), seed.choice(LAST)
    account = f"{first}_{last}_{digits(seed, 4)}".lower()
    catalogue = {name: article(seed, name) for name in KINDS}
    purchases = [purchase(seed, catalogue, account) for _ in range(seed.randint(2, 4))]
    chat = Chat(seed, "You are the desk of a shop. Ask for the account before anything else. " * 8)
    code = digits(seed, 5)
    chat.user(
        f"Hi! I bought a few things and I am not happy with all of them. My name is {first} {last}."
    )
    chat.says("I am sorry to hear that. To find your account, could you tell me your postcode?")
    chat.user(f"Sure, it is {code}.")
    chat.call("find_account", account, first=first, last=last, code=code)
    profile = {
        "name": {"first": first, "last": last},
        "home": {**place(seed), "code": code},
        "mail": f"{first}.{last}{digits(seed, 4)}@example.com".lower(),
        "methods": {
            f"card_{number}": {
                "kind": "card",
                "brand": "visa",
                "ends": number[-4:],
                "id": f"card_{number}",
            }
            for number in (digits(seed, 7) for _ in range(2))
        },
        "purchases": [one["purchase_id"] for one in purchases],
    }
    chat.call("account", profile, account_id=account)
    for one in purchases:
        chat.call("purchase", one, purchase_id=one["purchase_id"])
    chosen = seed.choice(purchases)
    line = seed.choice(chosen["lines"])
    chat.says(
        f"Thank you, {first}. I see purchase {chosen['purchase_id']} with a {line['title']} for"
        f" ${line['price']}. Is this what you write about, and would you like to return or to"
        " exchange it?"
    )
    chat.user(f"Yes, the {line['title']}. Can I have another kind of it? What is there?")
    if seed.random() < 0.4:
        chat.call("catalogue", {name: page["line_id"] for name, page in catalogue.items()})
    page = catalogue[line["title"]]
    chat.call("article", page, line_id=page["line_id"])
    free = [one for one in page["variants"].values() if one["in_stock"]]
    wanted = seed.choice(free or list(page["variants"].values()))
    traits = ", ".join(f"{key}: {value}" for key, value in wanted["traits"].items())
    chat.says(
        f"There are {len(free)} kinds in stock. For example, {traits} for ${wanted['price']}"
        f" (article {wanted['article_id']}). Shall I exchange it?"
    )
    for other in seed.sample(list(catalogue), seed.randint(0, 2)):
        chat.user(f"Maybe. And what do you have as a {other}?")
        page = catalogue[other]
        chat.call("article", page, line_id=page["line_id"])
        cheap = min(page["variants"].values(), key=lambda one: one["price"])
        chat.says(
            f"The cheapest {other} costs ${cheap['price']}, article {cheap['article_id']}:"
            f" {', '.join(map(str, cheap['traits'].values()))}."
        )
    chat.user("Good. Please exchange the first for the one that you named, to the same method.")
    method = chosen["payments"][0]["method_id"]
    changed = {**chosen, "state": "exchange requested", "new_articles": [wanted["article_id"]]}
    chat.call(
        "exchange", changed, purchase_id=chosen["purchase_id"], old=[line["article_id"]],
        new=[wanted["article_id"]], method_id=method,
    )  # fmt: skip
    chat.says(
        f"Done: {line['article_id']} is exchanged for {wanted['article_id']}; the difference of"
        f" ${abs(wanted['price'] - line['price']):.2f} goes to {method}."
    )
    chat.user("Thank you! And where does the last of my purchases go to?")
    last_one = purchases[-1]
    chat.says(
        f"{last_one['purchase_id']} goes to {last_one['ship_to']['street']},"
        f" {last_one['ship_to']['town']} {last_one['ship_to']['code']}."
    )
    chat.user("Great, that is all.")
    chat.says("Have a good day!")
    return chat.messages


SERVICES = ["gate", "basket", "ledger", "mailer", "search", "stock"]


def as_csv(rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def as_markdown(rows: list[dict[str, Any]]) -> str:
    """Return rows as a padded Markdown table."""
    keys = list(rows[0])
    widths = [max(len(key), *(len(str(row[key])) for row in rows)) for key in keys]
    lines = [keys, ["-" * width for width in widths]]
    lines += [[str(row[key]) for key in keys] for row in rows]
    return "\n".join(
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


def logs(seed: random.Random) -> Messages:
    """An operator looks for the cause of a failure in logs, hosts and deploys."""
    chat = Chat(seed, "You are on call. Find the cause before you act. " * 8)
    service = seed.choice(SERVICES)
    chat.user(f"{service} is slow since this morning, please have a look.")
    hosts = {
        f"{service}-{number}": {
            "zone": seed.choice("abc"),
            "cpu": round(seed.uniform(1, 99), 1),
            "memory_mb": seed.randint(200, 9000),
            "restarts": seed.randint(0, 9),
            **({"note": "draining"} if seed.random() < 0.2 else {}),
        }
        for number in range(1, seed.randint(6, 20))
    }
    chat.call("hosts", {"service": service, "hosts": hosts}, service=service)
    worst = max(hosts, key=lambda name: hosts[name]["restarts"])
    chat.says(f"{worst} was restarted {hosts[worst]['restarts']} times. I read its log.")
    for _ in range(seed.randint(1, 3)):
        entries = [
            {
                "time": f"2026-11-2{seed.randint(0, 6)}T{seed.randint(0, 23):02}:"
                f"{seed.randint(0, 59):02}:{seed.randint(0, 59):02}Z",
                "level": seed.choice(["INFO", "INFO", "WARN", "ERROR"]),
                "request_id": f"r-{digits(seed, 6)}",
                "message": seed.choice(["timeout of the pool", "slow query", "served", "retry"]),
                "ms": seed.randint(1, 9000),
                **({"query_id": f"q-{digits(seed, 4)}"} if seed.random() < 0.3 else {}),
            }
            for _ in range(seed.randint(20, 60))
        ]
        chat.call("log", entries, host=worst)
        slow = max(entries, key=lambda one: one["ms"])
        chat.says(
            f"The slowest is {slow['request_id']} with {slow['ms']} ms: {slow['message']}."
            " I look at its trace."
        )
        spans = [
            {"span_id": f"s-{digits(seed, 5)}", "name": seed.choice(SERVICES),
             "ms": seed.randint(1, 900), "rows": seed.randint(0, 5000)}
            for _ in range(seed.randint(8, 30))
        ]  # fmt: skip
        made = seed.choice([as_csv, as_markdown])
        chat.call("trace", made(spans), request_id=slow["request_id"])
        long = max(spans, key=lambda one: one["ms"])
        chat.says(f"Span {long['span_id']} of {long['name']} takes {long['ms']} ms.")
        chat.user("What was deployed before that?")
        deploys = [
            {"deploy_id": f"d-{digits(seed, 4)}", "service": seed.choice(SERVICES),
             "commits": [digits(seed, 8) for _ in range(seed.randint(1, 12))],
             "by": seed.choice(FIRST)}
            for _ in range(seed.randint(3, 9))
        ]  # fmt: skip
        chat.call("deploys", {"deploys": deploys}, service=long["name"])
        one = seed.choice(deploys)
        chat.says(f"{one['deploy_id']} by {one['by']} went out last.")
        chat.user(f"Roll {one['deploy_id']} back, please.")
        chat.call("roll_back", {"status": "done"}, deploy_id=one["deploy_id"])
        chat.says(f"{one['deploy_id']} is rolled back.")
    chat.user("Better, thanks.")
    chat.says("You are welcome.")
    return chat.messages


DESKS: dict[str, Callable[[random.Random], Messages]] = {"shop": shop, "logs": logs}


def generate(desk: str, count: int, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Yield conversations of a desk; the same for the same seed."""
    for number in range(count):
        messages = DESKS[desk](random.Random(f"{desk}-{seed}-{number}"))
        yield {"id": f"{desk}-{number:03}", "messages": messages}


def main() -> None:
    """Print conversations."""
    parser = argparse.ArgumentParser(description="Generate conversations.")
    parser.add_argument("desk", choices=list(DESKS))
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for conversation in generate(options.desk, options.count, options.seed):
        print(json.dumps(conversation))


if __name__ == "__main__":
    main()
