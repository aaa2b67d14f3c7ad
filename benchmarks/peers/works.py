"""What is measured, in which unit, and what ours has to reach (issue 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Unit: TypeAlias = Literal["µs", "ms", "KiB", "MiB"]
SCALES: dict[str, float] = {"µs": 1e6, "ms": 1e3, "KiB": 2**-10, "MiB": 2**-20}
"""By what seconds or bytes are multiplied."""

OURS, FLOOR, BEST = "ours", "floor", "best"
"""Names of contenders; `BEST` is the quickest Python framework besides ours."""

NODE = "typescript"
"""The original, in another language: shown, and no peer of whom `BEST` is taken."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Ours, divided by something, is at the most ``limit``."""

    limit: float
    against: str
    """A contender, `BEST`, or the unit of an absolute limit."""

    work: str = ""
    """What the other one does; empty: the same work."""

    words: str = ""
    """How the table says it; empty: made from the rest."""

    def __str__(self) -> str:
        if self.words:
            return self.words
        return f"≤ {self.limit:g} × {_WORDS.get(self.against, self.against)}"


_WORDS = {BEST: "the fastest peer", FLOOR: "floor"}


@dataclass(frozen=True, slots=True)
class Work:
    """One row."""

    key: str
    name: str
    unit: Unit
    goals: tuple[Goal, ...] = ()
    count: int | None = None
    """Operations in a round, where the time they take must not decide."""

    rounds: int | None = None
    """Rounds at the most, for what takes long."""

    waits: bool = False
    """Whether waiting is part of it, so that wall time is what counts, and not the CPU's."""


_HALF = (Goal(0.5, BEST),)
_TRIM = (Goal(1.0, "langgraph", "window", "≤ langchain `trim_messages(len)`"),)
_WIRE = "through OpenAI's wire format"
_FLAT = "≤ 1.3 × the run on 100 messages"

WORKS: tuple[Work, ...] = (
    Work("import", "import", "ms", (Goal(1.0, BEST, words="below every peer"),), count=1),
    Work("create", "create an agent with a prebuilt tool", "µs", (Goal(0.6, "agno"),)),
    Work("first_run", "create it, and its first run", "µs"),
    Work(
        "memory",
        "memory of such an agent",
        "KiB",
        (Goal(1.0, "openai-agents", words="≤ openai-agents"),),
        count=200,
        rounds=2,
    ),
    Work("text", "run, text reply", "µs", _HALF),
    Work("tool1_async", "run, one async tool call and reply", "µs", _HALF),
    Work("tool1_sync", "run, one sync tool call and reply", "µs", _HALF),
    Work("tool10_async", "run, ten async tool calls", "µs", _HALF),
    Work("tool10_sync", "run, ten sync tool calls", "µs", _HALF),
    Work("text_wire", f"run, text reply, {_WIRE}", "µs"),
    Work("tool1_wire", f"run, one async tool call, {_WIRE}", "µs"),
    Work("tool10_wire", f"run, ten async tool calls, {_WIRE}", "µs"),
    Work("two_agents", "two agents, one after the other", "µs", _HALF),
    Work(
        "concurrent",
        "1,000 runs at once, model sleeping 50 ms",
        "ms",
        (Goal(2.2, FLOOR),),
        count=1,
        rounds=5,
        waits=True,
    ),
    Work("filter_calls", "ToolCallFilter, 10,000 messages", "µs", _TRIM),
    Work("recent_calls", "RecentToolCalls, 10,000 messages", "µs", _TRIM),
    Work("window", "MessageWindow, 10,000 messages", "µs", _TRIM),
    Work(
        "limit_approximate",
        "TokenLimiter, approximate, 10,000 messages",
        "µs",
        (Goal(0.25, "langgraph", words="≤ 0.25 × langchain's approximate"),),
        count=3,
    ),
    Work(
        "tiktoken_first",
        "TokenLimiter, tiktoken, 10,000 messages, first time",
        "ms",
        (Goal(1.15, FLOOR, words="≤ 1.15 × a loop of `encode_ordinary`"),),
        count=1,
    ),
    Work("tiktoken_again", "the same again", "ms", (Goal(2.0, "ms", words="≤ 2 ms"),)),
    Work("thread_100", "run on a stored thread of 100 messages", "ms", count=10),
    Work(
        "thread_10000",
        "run on a stored thread of 10,000",
        "ms",
        (Goal(1.3, OURS, "thread_100", _FLAT),),
        count=10,
    ),
    Work(
        "thread_1000000",
        "run on a stored thread of 1,000,000",
        "ms",
        (Goal(1.3, OURS, "thread_100", _FLAT),),
        count=10,
        rounds=7,
    ),
    Work(
        "turn",
        "SQLite turn at 10,000 messages",
        "ms",
        (Goal(3.0, FLOOR, words="≤ 3 × raw inserts"), Goal(0.25, BEST)),
        count=10,
        waits=True,
    ),
    Work(
        "body",
        "request body of 10,000 messages",
        "ms",
        (Goal(1.5, FLOOR, words="≤ 1.5 × `json.dumps` of it"),),
        count=1,
    ),
    Work(
        "inngest",
        "Inngest function of 200 steps, CPU of all replays",
        "ms",
        (Goal(1.5, FLOOR, words="≤ 1.5 × the bare SDK function"),),
        count=1,
        rounds=3,
    ),
    Work(
        "idle",
        "peak memory of 10,000 networks of 5 agents",
        "MiB",
        (Goal(1.0, "agno", words="below agno's"),),
        count=1,
        rounds=3,
    ),
)
LENGTHS = {"thread_100": 100, "thread_10000": 10_000, "thread_1000000": 1_000_000}
"""Messages of the stored threads."""


def chosen(pattern: str, works: Sequence[Work] = WORKS) -> list[Work]:
    """Those whose key or name has one of the words, which commas part; all without words."""
    words = [word.strip().lower() for word in pattern.split(",") if word.strip()]
    return [
        work
        for work in works
        if not words or any(word in work.key or word in work.name.lower() for word in words)
    ]
