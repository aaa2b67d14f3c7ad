#!/usr/bin/env python3
"""Write docs/policies.md: what each policy sends to models in recorded conversations.

    scripts/policy_table.py FILE [--limit N] [--output docs/policies.md]

FILE holds conversations, one JSON object per line, as `agentkit replay` reads them. Each policy is
a processor of the replay's network: four agents, three of which have tools, and a strict provider
that refuses what the real one does. Only figures are written, nothing of the conversations.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentkit_py import HistoryProcessor, MemoryHistory, TokenLimiter, ToolCallFilter, openai
from agentkit_py.models import Model
from agentkit_py.processors import (
    Budget,
    ByAuthor,
    Chain,
    ClearToolResults,
    CompressToolResults,
    ContextPolicy,
    Deduplicate,
    DropUnanswered,
    HandoffView,
    KeepImages,
    MessageWindow,
    Pin,
    Recall,
    RecentToolCalls,
    Redact,
    StripImages,
    Summarize,
    TableResults,
    Threshold,
    TruncateToolResults,
    default_tokenizer,
)
from agentkit_py.testing import HashingEmbedder
from agentkit_py.testing.replay import (
    STOCK,
    Conversation,
    Pass,
    RecordedNetwork,
    Replay,
    ReplayFigures,
    Survival,
    read_conversations,
    survival,
)
from agentkit_py.testing.replay.fitting import total

from conversations import generate  # isort: skip

ROOT = Path(__file__).resolve().parent.parent
GENERATED = 100


def summariser() -> Model:
    """A model that answers in this process, with a summary of a usual length."""

    async def respond(_body: dict[str, Any]) -> object:
        message = {"role": "assistant", "content": "The customer asked for a change. " * 20}
        return {"choices": [{"message": message, "finish_reason": "stop"}]}

    return replace(openai("gpt-4o", api_key="none"), answers=respond)


POLICIES: dict[str, Callable[[], list[HistoryProcessor]]] = {
    "none": list,
    "ToolCallFilter()": lambda: [ToolCallFilter()],
    "TokenLimiter(2000)": lambda: [TokenLimiter(2000)],
    "RecentToolCalls(3)": lambda: [RecentToolCalls(3)],
    "MessageWindow(40)": lambda: [MessageWindow()],
    "MessageWindow(10)": lambda: [MessageWindow(10)],
    "DropUnanswered()": lambda: [DropUnanswered()],
    "CompressToolResults()": lambda: [CompressToolResults()],
    "CompressToolResults(100, keep_recent=1)": lambda: [CompressToolResults(100, keep_recent=1)],
    "TruncateToolResults(1000)": lambda: [TruncateToolResults()],
    "ClearToolResults(2000)": lambda: [ClearToolResults(2000)],
    'ByAuthor(drop=["front_desk"])': lambda: [ByAuthor(drop=["front_desk"])],
    "HandoffView()": lambda: [HandoffView()],
    "Deduplicate()": lambda: [Deduplicate()],
    "Pin(refunds), MessageWindow(10)": lambda: [
        Pin.from_settings({"contains": ["refund"]}),
        MessageWindow(10),
    ],
    "StripImages()": lambda: [StripImages()],
    "KeepImages(1)": lambda: [KeepImages()],
    "Redact()": lambda: [Redact()],
    "Threshold(4000, MessageWindow(10))": lambda: [Threshold(4000, then=[MessageWindow(10)])],
    "Chain([HandoffView(), MessageWindow(10)])": lambda: [
        Chain([HandoffView(), MessageWindow(10)])
    ],
    "Summarize(upper=2000, lower=1000)": lambda: [
        Summarize(summariser(), 2000, 1000, min_messages=1, min_new=1)
    ],
    "Recall(3, keep_recent=10)": lambda: [Recall(HashingEmbedder(), 3, keep_recent=10)],
    "Budget(8000)": lambda: [Budget(context_window=8000)],
    "TableResults()": lambda: [TableResults()],
    "TableResults(used_rows=True, keep_recent=1)": lambda: [TableResults(used_rows=True)],
    "Deduplicate(records=True), TableResults()": lambda: [
        Deduplicate(records=True),
        TableResults(),
    ],
    "ContextPolicy.balanced(128000)": lambda: [ContextPolicy.balanced(128_000)],
    "ContextPolicy.lean(128000)": lambda: [ContextPolicy.lean(128_000)],
}
"""Several settings are far below what one would use, since these conversations are short."""

HEAD = """\
# Policies in figures

What each policy sends to models in {conversations} recorded customer-service conversations
({turns:,} turns, {calls:,} model calls, {tools:,} tool calls), run again with each policy for a
network of four agents. The provider refuses what the real one does.

| Policy | Tokens sent | Of none | Requests refused | Threads changed |
| --- | ---: | ---: | ---: | ---: |
"""

COST = """\

## What a policy costs

Of the ids, dates, amounts and names in later tool calls and answers that stood in the full request,
how many are still in the request that a policy makes: strictly, with their key and on one line
with the id of their record, or in their whole line of text; a list of bare values counts as lost.
A call that lacks one could not have been made. Characters are those of messages without system
prompts. `agentkit fit` finds the cheapest policy for your own conversations.

| Policy | One agent: characters | Calls whole | Values | Four: characters | Calls whole | Values |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
"""

TAIL = """\

Tokens are those of the messages, system prompts included, counted by `{tokenizer}`. Prompts are
long and the conversations short ({each:,} tokens a request without any policy), so that much of
each request cannot be saved; several limits are set far below what one would use, to have
something to do. What is stored is the same with every policy. What making summaries and vectors
costs is not in these figures.
"""

FOLDS, LEAST_CALLS, LEAST_VALUES = 5, 0.99, 0.98

FOLDS_HEAD = """\

On four fifths of the conversations the policy of the table is chosen that sends the fewest
characters and keeps 99 % of the calls and 98 % of the values; these are its figures on the fifth
that is left out, for all five fifths together:

| | Chosen | Characters | Calls whole | Values |
| --- | --- | ---: | ---: | ---: |
"""

OTHER_HEAD = """\

## On other data

The same count, for one agent, on {count} conversations each of a shop's desk (records by their ids,
records that differ in a few keys) and of an operator who reads logs (long lists, CSV, Markdown
tables). They are generated by `scripts/conversations.py`.

| Policy | Shop: characters | Calls whole | Values | Logs: characters | Calls whole | Values |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
"""

SMALL = {
    "ContextPolicy.balanced(8000)": lambda: [ContextPolicy.balanced(8000)],
    "ContextPolicy.balanced(4000)": lambda: [ContextPolicy.balanced(4000)],
    "ContextPolicy.lean(4000)": lambda: [ContextPolicy.lean(4000)],
}

END = """
`scripts/policy_table.py` makes this page from a file of conversations.
"""


async def figures(file: Path, limit: int | None) -> tuple[dict[str, ReplayFigures], Replay]:
    """Run every conversation once for each policy."""
    passes = [
        Pass(f"policy-{number}", RecordedNetwork(processors=make()), own_calls=20)
        for number, make in enumerate(POLICIES.values())
    ]
    began, done = time.monotonic(), 0

    def progress() -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            seconds = time.monotonic() - began
            print(f"\r{done} conversations, {seconds:.0f} s", end="", file=sys.stderr)

    store = MemoryHistory()
    job = Replay(store=store, passes=passes, concurrency=2, on_conversation=progress)
    feed = read_conversations(file)
    await job.run(item for number, item in enumerate(feed) if limit is None or number < limit)
    return dict(zip(POLICIES, (one.figures for one in passes), strict=True)), job


Costs = dict[str, tuple[list[Survival], list[Survival]]]
"""By policy: what each conversation keeps, with one agent and with four."""


def conversations(file: Path, limit: int | None) -> list[Conversation]:
    """Return the conversations of a file."""
    return [one for one in read_conversations(file) if isinstance(one, Conversation)][:limit]


def generated(desk: str, limit: int | None) -> list[Conversation]:
    """Return invented conversations of another kind."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "conversations.jsonl"
        lines = (json.dumps(made) for made in generate(desk, GENERATED))
        file.write_text("\n".join(lines), encoding="utf-8")
        return conversations(file, limit)


async def costs(file: Path, limit: int | None) -> Costs:
    """Measure each policy on each conversation, for one agent and for the network of four."""
    feed = conversations(file, limit)
    policies = {**STOCK, **POLICIES, **SMALL}
    return {
        name: (
            [await survival([one], make) for one in feed],
            [await survival([one], make, network=True) for one in feed],
        )
        for name, make in policies.items()
        if not name.startswith(("Summarize", "none"))  # it needs a run's services
    }


async def other_costs(limit: int | None) -> Costs:
    """Measure each policy on generated conversations: of the shop, and of the operator."""
    shop, logs = generated("shop", limit), generated("logs", limit)
    return {
        name: (
            [await survival([one], make) for one in shop],
            [await survival([one], make) for one in logs],
        )
        for name, make in {**STOCK, **POLICIES, **SMALL}.items()
        if not name.startswith(("Summarize", "none"))
    }


def cost_rows(found: Costs) -> str:
    """The rows of the table of costs."""
    rows = ""
    for name, both in found.items():
        shares = [
            share
            for one in map(total, both)
            for share in (one.share_sent, one.share_of_calls, one.share_of_values)
        ]
        rows += f"| `{name}` | {' | '.join(f'{100 * share:.1f} %' for share in shares)} |\n"
    return rows


def is_good(found: Survival) -> bool:
    """Return whether a policy keeps as much as is asked for."""
    return found.share_of_calls >= LEAST_CALLS and found.share_of_values >= LEAST_VALUES


def cross_validated(found: Costs, way: int) -> tuple[Survival, list[str]]:
    """Choose a policy on four fifths and measure it on the other, five times; what, and which."""
    count = len(next(iter(found.values()))[way])
    measured: list[Survival] = []
    names: list[str] = []
    for fold in range(FOLDS):
        train = {
            name: total([one for i, one in enumerate(both[way]) if i % FOLDS != fold])
            for name, both in found.items()
        }
        good = [name for name in train if is_good(train[name])] or list(train)
        best = min(good, key=lambda name: train[name].share_sent)
        measured += [found[best][way][i] for i in range(fold, count, FOLDS)]
        names.append(best)
    return total(measured), names


def fold_lines(found: Costs, columns: tuple[str, str] = ("One agent", "Four agents")) -> str:
    """Return the words about the choice."""
    text = FOLDS_HEAD
    for way, who in enumerate(columns):
        left, names = cross_validated(found, way)
        chosen = ", ".join(f"`{name}` ({names.count(name)} of 5)" for name in dict.fromkeys(names))
        text += (
            f"| {who} | {chosen} | {100 * left.share_sent:.1f} % | "
            f"{100 * left.share_of_calls:.1f} % | {100 * left.share_of_values:.1f} % |\n"
        )
    return text


def page(found: dict[str, ReplayFigures], cost: Costs, other: Costs, tokenizer: str) -> str:
    """The page."""
    none = found["none"]
    text = HEAD.format(
        conversations=none.conversations,
        turns=none.turns,
        calls=none.model_calls,
        tools=none.tool_calls,
    )
    for name, one in found.items():
        share = 100 * one.tokens_sent / max(none.tokens_sent, 1)
        row = (f"`{name}`", f"{one.tokens_sent:,}", f"{share:.1f} %", str(one.rejected))
        text += f"| {' | '.join(row)} | {one.differing} |\n"
    each = round(none.tokens_sent / max(none.model_calls, 1))
    tail = TAIL.format(tokenizer=tokenizer, each=each)
    text += tail + COST + cost_rows(cost) + fold_lines(cost)
    text += OTHER_HEAD.format(count=GENERATED) + cost_rows(other)
    return text + fold_lines(other, ("Shop", "Logs")) + END


def main() -> int:
    """Write the page; 1 if a request was refused or a thread changed."""
    parser = argparse.ArgumentParser(description="What each policy sends, in figures.")
    parser.add_argument("file", type=Path, help="conversations, one JSON object per line")
    parser.add_argument("--limit", type=int, default=None, help="so many conversations only")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "policies.md")
    options = parser.parse_args()
    cache = ROOT / ".cache" / "tiktoken"
    if cache.is_dir():
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(cache))
    found, job = asyncio.run(figures(options.file, options.limit))
    cost = asyncio.run(costs(options.file, options.limit))
    other = asyncio.run(other_costs(options.limit))
    options.output.write_text(page(found, cost, other, default_tokenizer().key), encoding="utf-8")
    print(f"wrote {options.output}")
    for name, one in found.items():
        if one.rejected or one.differing:
            print(f"{name}: {dict(one.rules)}, {one.differing} threads differ", file=sys.stderr)
    return int(not job.fine)


if __name__ == "__main__":
    sys.exit(main())
