"""How much of each request is what the provider has cached: docs/prompt-caching.md, by policy.

    .venv/bin/python scripts/prompt_caching.py           # write the page
    .venv/bin/python scripts/prompt_caching.py --check   # fail if it is not up to date

Fifty turns of a support conversation, each with a tool call, through the library as users run it;
the model answers in this process. Tokens are estimated, so that figures are the same everywhere.
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

from agentkit_py import Agent, MemoryHistory, State, TokenLimiter, ToolCallFilter, openai, tool
from agentkit_py.models import Model
from agentkit_py.processors import (
    ApproximateTokenizer,
    Budget,
    Chain,
    ClearToolResults,
    CompressToolResults,
    MessageWindow,
    Processor,
    Recall,
    RecentToolCalls,
    Summarize,
    Threshold,
    TruncateToolResults,
)
from agentkit_py.testing import HashingEmbedder

TURNS = 50
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
    """What one policy gives."""

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


def page(found: Sequence[Row]) -> str:
    """The page with its table."""
    lines = [
        f"| `{row.policy}` | {row.tokens:,} | {row.share:.0%} | {row.rewrites} of {TURNS - 1} |"
        for row in found
    ]
    return TEXT.format(turns=TURNS, table="\n".join(lines))


TEXT = """\
# Prompt caching

<!-- made by scripts/prompt_caching.py; do not edit -->

Providers charge a fraction for the beginning of a request that they have seen before (OpenAI,
Gemini and Grok by themselves, Anthropic where the request marks it). What they compare is the
request's beginning, byte for byte: tools, system prompt, messages. A policy that changes
something old at each turn costs more than it saves.

A conversation of {turns} turns, each with a tool call of some 400 tokens, through each policy.
“The same” is the share of all bytes sent that are byte-identical to the beginning of the request
before. “Rewritten” says at how many turns less than 90 % of the request before was sent again.

| Policy | Tokens sent | The same | Rewritten |
| --- | ---: | ---: | ---: |
{table}

What makes the difference:

- **Order.** History stands before the question, oldest first, and each request goes on where the
  one before ended.
- **Hysteresis.** `Summarize`, `Budget` and `MessageWindow` let the history grow to one threshold
  and then cut it to a lower one at once; `ClearToolResults` clears many results at once. Between
  two cuts the beginning does not change. The cut is a function of the messages alone, so that
  every process comes to the same one.
- **One summary, one rewrite.** A summary is kept beside the thread, its text does not change
  until the next one, and it stands right after the system prompt.
- **Recalled turns come last**, right before the question, where nothing after them can be cached
  anyway.

`TokenLimiter` and `RecentToolCalls` drop something at every turn once they are full, and so does a
window with `lower=max_messages`: they are the right choice where requests are short, or prices
without a cache. `CompressToolResults` rewrites one result per turn, near the end.
`ClearToolResults` clears one result per turn once the texts alone come near the trigger;
`clear_at_least` makes it wait for more.

Keep what changes out of the system prompt: a time of day in it makes every request a new one.
"""


def main(arguments: Sequence[str]) -> int:
    """Write or check the page."""
    text = page(asyncio.run(rows()))
    if "--check" in arguments:
        return 0 if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
