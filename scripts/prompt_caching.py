"""Measure the share of each request that the provider has cached: docs/prompt-caching.md.

    .venv/bin/python scripts/prompt_caching.py           # write the page
    .venv/bin/python scripts/prompt_caching.py --check   # fail if it is not up to date

Conversations with a support desk through the library as users run it: fifty turns with one agent by
policy, twenty turns with networks of one, two and four agents. Models answer in this process.
Tokens are estimated, so that figures are the same everywhere.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from agentkit_py import (
    Agent,
    MemoryHistory,
    Network,
    State,
    TokenLimiter,
    ToolCallFilter,
    anthropic,
    openai,
    tool,
)
from agentkit_py.messages import Usage
from agentkit_py.models import Model
from agentkit_py.models.binding import unmarked
from agentkit_py.processors import (
    ApproximateTokenizer,
    Budget,
    Chain,
    ClearToolResults,
    CompressToolResults,
    HandoffView,
    MessageWindow,
    Processor,
    Recall,
    RecentToolCalls,
    Summarize,
    Threshold,
    TruncateToolResults,
)
from agentkit_py.routing import RouterContext
from agentkit_py.testing import FakeProvider, HashingEmbedder, ReceivedRequest

TURNS = 50
NETWORK_TURNS = 20
MOST = 0.9
"""A request begins as the one before if it has so much of it."""

PAGE = Path(__file__).resolve().parent.parent / "docs" / "prompt-caching.md"
WORDS = ["parcel", "order", "invoice", "address", "courier", "depot", "refund", "Linz", "Graz"]


def words(seed: int, count: int) -> str:
    """Text that is the same each time, and no two alike."""
    return " ".join(WORDS[(seed * 7 + n * (seed % 5 + 1)) % len(WORDS)] for n in range(count))


@tool
def track(parcel: int) -> dict[str, Any]:
    """Say where a parcel is, with all its scans."""
    scans = [{"at": f"{hour:02}:00", "note": words(parcel + hour, 12)} for hour in range(8)]
    return {"parcel": parcel, "status": words(parcel, 3), "scans": scans}


class Provider:
    """Answers each question with a call and a text, and remembers the requests."""

    def __init__(self) -> None:
        """Begin without requests."""
        self.requests: list[bytes] = []

    async def __call__(self, body: dict[str, Any]) -> object:
        """The next answer."""
        # Providers put tools before messages, whatever the order in the JSON.
        self.requests.append(json.dumps([body.get("tools"), body["messages"]]).encode())
        number = len(self.requests)
        if body["messages"][-1]["role"] == "tool":
            return reply({"content": words(number, 60)})
        function = {"name": "track", "arguments": json.dumps({"parcel": number})}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        return reply({"content": None, "tool_calls": [call]})


async def summarise(body: dict[str, Any]) -> object:
    """A summary of a usual length."""
    return reply({"content": words(len(str(body)), 150)})


def reply(message: dict[str, Any]) -> object:
    """A provider's answer."""
    return {"choices": [{"message": {"role": "assistant", **message}, "finish_reason": "stop"}]}


def model(respond: Callable[[dict[str, Any]], Any]) -> Model:
    """A model that is answered in this process."""
    return replace(openai("gpt-4o", api_key="none"), answers=respond)


Policy = Callable[[], Sequence[Processor]]
POLICIES: dict[str, Policy] = {
    "none": list,
    "ToolCallFilter()": lambda: [ToolCallFilter()],
    "TokenLimiter(6000)": lambda: [TokenLimiter(6000)],
    "MessageWindow(40)": lambda: [MessageWindow(40)],
    "MessageWindow(40, lower=40)": lambda: [MessageWindow(40, lower=40)],
    "RecentToolCalls(3)": lambda: [RecentToolCalls(3)],
    "CompressToolResults()": lambda: [CompressToolResults()],
    "TruncateToolResults(500)": lambda: [TruncateToolResults(500)],
    "ClearToolResults(6000)": lambda: [ClearToolResults(6000)],
    "ClearToolResults(6000, clear_at_least=1500)": lambda: [
        ClearToolResults(6000, clear_at_least=1500)
    ],
    "Chain([ClearToolResults(6000), MessageWindow(100)])": lambda: [
        Chain([ClearToolResults(6000), MessageWindow(100)])
    ],
    "Threshold(9000, MessageWindow(40))": lambda: [Threshold(9000, then=[MessageWindow(40)])],
    "Summarize(upper=8000, lower=4000)": lambda: [
        Summarize(model(summarise), 8000, 4000, store=MemoryHistory())
    ],
    "Budget(16_000)": lambda: [Budget(16_000)],
    "Budget(16_000, model=…)": lambda: [
        Budget(16_000, model=model(summarise), store=MemoryHistory())
    ],
    "Recall(keep_recent=20)": lambda: [
        Recall(HashingEmbedder(), 3, keep_recent=20, index=MemoryHistory())
    ],
}


@dataclass(frozen=True)
class Row:
    """Figures of one policy."""

    policy: str
    tokens: int
    """Tokens sent over all requests."""

    share: float
    """Of all bytes sent, those that are a prefix of the request before."""

    rewrites: int
    """Turns whose first request does not begin with nearly all of the request before."""


async def measured(name: str, policy: Policy) -> Row:
    """Run the conversation with a policy."""
    provider = Provider()
    counter = ApproximateTokenizer()
    agent = Agent(
        name="desk",
        system="You are the support desk of a parcel service. " + words(1, 120),
        tools=[track],
        model=model(provider),
        max_iter=3,
        processors=policy(),
        token_counter=counter,
    )
    state: State[Any] = State(thread_id="thread")
    firsts: list[int] = []
    for number in range(TURNS):
        firsts.append(len(provider.requests))
        await agent.run(f"Question {number}: {words(number, 25)}?", state=state)
    return _row(name, provider.requests, firsts)


def _row(name: str, requests: Sequence[bytes], firsts: Sequence[int]) -> Row:
    same = [_common(one, other) for one, other in pairwise(requests)]
    sent = sum(len(request) for request in requests[1:])
    # In both lists, index n - 1 belongs to request n. The last brackets differ in any case.
    kept = [same[n - 1] / len(requests[n - 1]) for n in firsts[1:]]
    return Row(
        name,
        sum(len(request) for request in requests) // 4,
        sum(same) / sent,
        sum(share < MOST for share in kept),
    )


def _common(one: bytes, other: bytes) -> int:
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


async def rows() -> list[Row]:
    """All policies."""
    return [await measured(name, policy) for name, policy in POLICIES.items()]


# ------------------------------------------------------------------------------------- networks


@tool
def refund(parcel: int) -> str:
    """Give the money for a parcel back."""
    return f"Parcel {parcel}: {words(parcel, 20)}"


@tool
def escalate(parcel: int) -> str:
    """Write to the head of the depot."""
    return f"Parcel {parcel}: {words(parcel, 20)}"


NAMES = ("desk", "billing", "courier", "manager")
TOOLS = {"desk": [track], "billing": [refund], "manager": [escalate]}


@dataclass(frozen=True)
class Setting:
    """A network and the history that its agents see."""

    agents: int
    shared: bool
    history: str
    policy: Policy = list


OWN, SHARED = False, True
SETTINGS = (
    Setting(1, OWN, "all"),
    Setting(1, OWN, "`MessageWindow(40)`", lambda: [MessageWindow(40)]),
    Setting(2, OWN, "all"),
    Setting(2, SHARED, "all"),
    Setting(2, OWN, "`HandoffView()`", lambda: [HandoffView()]),
    Setting(4, OWN, "all"),
    Setting(4, SHARED, "all"),
    Setting(4, OWN, "`HandoffView()`", lambda: [HandoffView()]),
    Setting(4, SHARED, "`MessageWindow(40)`", lambda: [MessageWindow(40)]),
    Setting(4, SHARED, "`MessageWindow(60)`", lambda: [MessageWindow(60)]),
)


@dataclass(frozen=True)
class NetworkRow:
    """The figures of one network."""

    setting: Setting
    requests: int
    share: float
    """Of all bytes sent, those with which an earlier request began."""

    read: float
    """Of all tokens sent to Claude, those that were read from its cache."""

    written: float
    """Of all tokens sent to Claude, those that were written to its cache."""


def answered(received: ReceivedRequest) -> dict[str, Any]:
    """Answer; the desk looks something up first where the question is new."""
    messages = received.body["messages"]
    number = len(messages)
    roles = [m for m in messages if m["role"] == "system"] or [received.body["system"]]
    is_desk = "You are the desk" in json.dumps(roles[-1]) or "agent desk" in json.dumps(roles[-1])
    asked = next(m for m in reversed(messages) if m["role"] != "system")
    if is_desk and "Question" in json.dumps(asked):
        return {"tool_calls": [{"name": "track", "arguments": {"parcel": number}}]}
    return {"text": words(number, 60)}


async def network_measured(setting: Setting) -> NetworkRow:
    """Run a conversation with a network of Claude agents, two of whom answer each question."""
    fake = FakeProvider(answered)
    model = replace(anthropic("claude-opus-5", api_key="none"), transport=fake.transport)
    members = [
        Agent(
            name=name,
            system=f"You are the {name} of a parcel service. {words(number, 120)}",
            tools=TOOLS.get(name, []),
            max_iter=3,
        )
        for number, name in enumerate(NAMES[: setting.agents])
    ]
    turn, count = 0, min(2, setting.agents)

    def route(context: RouterContext) -> Agent | None:
        number = turn + context.call_count
        return members[number % len(members)] if context.call_count < count else None

    network = Network(
        name="support",
        agents=members,
        router=route,
        default_model=model,
        prefix="shared" if setting.shared else "own",
        processors=setting.policy(),
    )
    state: State[Any] = State(thread_id="thread")
    used = Usage()
    for turn in range(NETWORK_TURNS):
        run = await network.run(f"Question {turn}: {words(turn, 25)}?", state=state)
        used += run.usage
    assert not fake.rejections
    sent = [content(received.body) for received in fake.requests]
    again = [max((_common(one, two) for two in sent[:n]), default=0) for n, one in enumerate(sent)]
    return NetworkRow(
        setting,
        len(sent),
        sum(again) / sum(map(len, sent)),
        used.cached_tokens / used.input_tokens,
        used.cache_write_tokens / used.input_tokens,
    )


def content(body: dict[str, Any]) -> bytes:
    """Return the parts that Claude compares with earlier requests, in its order."""
    messages = [
        {**m, "content": [{"type": "text", "text": m["content"]}]}  # for which a text is short
        if isinstance(m["content"], str)
        else m
        for m in body["messages"]
    ]
    return json.dumps(unmarked([body.get("tools"), body.get("system"), messages]))[:-4].encode()


async def network_rows() -> list[NetworkRow]:
    """All networks."""
    return [await network_measured(setting) for setting in SETTINGS]


def page(found: Sequence[Row], networks: Sequence[NetworkRow]) -> str:
    """The page with its tables."""
    lines = [
        f"| `{row.policy}` | {row.tokens:,} | {row.share:.0%} | {row.rewrites} of {TURNS - 1} |"
        for row in found
    ]
    more = [
        f"| {row.setting.agents} | {'shared' if row.setting.shared else 'own'} "
        f"| {row.setting.history} | {row.requests} | {row.share:.0%} | {row.read:.0%} "
        f"| {row.written:.0%} |"
        for row in networks
    ]
    return TEXT.format(
        turns=TURNS,
        table="\n".join(lines),
        network_turns=NETWORK_TURNS,
        networks="\n".join(more),
    )


TEXT = """\
# Prompt caching

<!-- made by scripts/prompt_caching.py; do not edit -->

Providers charge a fraction for the beginning of a request that they have seen before. What they
compare is the request's beginning, byte for byte: tools, system prompt, messages. A policy that
changes something old at each turn costs more than it saves.

The library asks for the cache by itself:

- **Claude** keeps what is marked. Requests carry up to four marks: behind the tools, behind the
  system prompt, where the agent's last request on the thread ended, and at the end. Claude looks
  20 blocks back from a mark, so the third one finds the agent's part also after other agents have
  spoken. Nothing is marked below the model's minimum (512 to 4,096 tokens).
- **OpenAI, Azure's v1 API and Grok** keep beginnings without being asked. They get a
  `prompt_cache_key`, a digest of the thread's id, so that a thread's requests reach the server that
  has its beginning. Azure's dated API versions and other hosts may not know the key and get none.
  A key for each thread may cost hits across threads: where many short threads begin with one long
  prompt, set one key for all:
  `openai("gpt-4.1", default_parameters={{"prompt_cache_key": "desk"}})`.
  Too many requests with one key are spread over servers again.
- **Gemini** keeps beginnings without being asked, and has no key.

`prompt_cache="1h"` as an option of a Claude model makes it keep them for an hour instead of five
minutes, at twice the price of a write; `prompt_cache=False` sends neither marks nor keys. Your own
settings come first: with a `cache_control` or `prompt_cache_key` in `default_parameters` (or a mark
in a hosted tool), the library adds none. Requests without a thread, without tools and without
history have only their head marked, since they will not be continued. With
`history_mode="typescript"` nothing is added.

`usage.cached_tokens` and `usage.cache_write_tokens` of each result say what was read and written,
and `Price(cached=…, written=…)` what it costs.

## Networks

A conversation of {network_turns} turns with a network of Claude agents. Of several agents, two
answer each question, by turns. “The same” is the share of all bytes sent with which an earlier
request began: what a cache could give at most. “Read” and “written” are the shares of the tokens
that a stand-in for Claude's cache found through the library's marks, and kept, with the 20 blocks
of Claude.

| Agents | [Prefix](guides/reasoning.md) | History | Requests | The same | Read | Written |
| ---: | --- | --- | ---: | ---: | ---: | ---: |
{networks}

With an own prefix each agent has a cache of its own, and the others' messages in between are new to
it. With a shared one, each agent's messages are in the cache of the next. A window costs all agents
their cache at each cut, and keeps requests short, of which the next question is a greater part: so
the share falls with the window, while fewer tokens are sent in all.

## Policies

A conversation of {turns} turns with one agent, each with a tool call of some 400 tokens, through
each policy. “The same” is here the share of all bytes sent that are byte-identical to the beginning
of the request before. “Rewritten” says at how many turns less than 90 % of the request before was
sent again.

| Policy | Tokens sent | The same | Rewritten |
| --- | ---: | ---: | ---: |
{table}

What makes the difference:

- **Order.** History comes before the question, oldest first, and each request continues where the
  one before ended.
- **Hysteresis.** `Summarize`, `Budget` and `MessageWindow` let the history grow to one
  threshold and then cut it to a lower one at once; `ClearToolResults` clears many results at once.
  Between two cuts the beginning does not change. The cut is a function of the messages alone, so
  that every process comes to the same one.
- **One summary, one rewrite.** A summary is kept with the thread; its text does not change
  until the next one, and its place is right after the system prompt.
- **Recalled turns come last**, right before the question, where nothing after them can be cached
  anyway.

`TokenLimiter` and `RecentToolCalls` drop something at every turn once they are full, and so does a
window with `lower=max_messages`: they are the right choice where requests are short, or prices
without a cache. `CompressToolResults` rewrites one result per turn, near the end.
`ClearToolResults` clears one result per turn once the texts alone come near the trigger;
`clear_at_least` makes it wait for more.

Keep what changes out of the system prompt: a time of day in it makes every request a new one.

Next: [history processors](guides/history-processors.md),
[the log of what a model was sent](guides/context-log.md).
"""


def main(arguments: Sequence[str]) -> int:
    """Write or check the page."""
    text = page(asyncio.run(rows()), asyncio.run(network_rows()))
    if "--check" in arguments:
        return 0 if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
