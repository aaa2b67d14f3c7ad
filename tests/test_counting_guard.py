"""Work is done once: counted, not timed, so that a busy machine decides nothing.

What is counted: texts whose tokens are counted, contents that are written as JSON, rows that are
read, messages and results that are made. Each is counted where the library offers a place for it (a
tokenizer, a store, a model, a message's content), and objects and calls by Python's own profiler.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Self

import pytest

from agentkit_py import (
    Agent,
    AgentResult,
    SqliteHistory,
    State,
    TextMessage,
    TokenLimiter,
    tool,
)
from agentkit_py.history.runs import LeaseClaim
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.models import Model
from agentkit_py.stores import StoredResult
from agentkit_py.stores.rows import Row
from agentkit_py.testing import ScriptedModel, tool_call

ROUNDS = 10


class CountingTokenizer:
    """Counts by length, and remembers which texts it was asked for."""

    def __init__(self) -> None:
        self.texts: Counter[str] = Counter()

    def count(self, text: str) -> int:
        self.texts[text] += 1
        return len(text) // 4 + 1


class CountingStore(SqliteHistory):
    """Remembers how many rows were read and written."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.read = 0
        self.written = 0

    async def stored_results(self, thread_id: str) -> list[StoredResult]:
        return self._counted(await super().stored_results(thread_id))

    async def page(self, thread_id: str, before: int, limit: int) -> list[StoredResult]:
        return self._counted(await super().page(thread_id, before, limit))

    async def newest(self, thread_id: str, limit: int) -> tuple[int, list[StoredResult]]:
        count, found = await super().newest(thread_id, limit)
        return count, self._counted(found)

    async def append(self, thread_id: str, results: Sequence[AgentResult]) -> None:
        self.written += len(results)
        await super().append(thread_id, results)

    async def append_user_row(self, thread_id: str, row: Row, claim: LeaseClaim | None) -> bool:
        self.written += 1
        return await super().append_user_row(thread_id, row, claim)

    def _counted(self, rows: list[StoredResult]) -> list[StoredResult]:
        self.read += len(rows)
        return rows


PAGE = 48
"""Results that a run loads at first."""


class Profile:
    """Counts calls of Python functions in this thread, and which objects of ours they made."""

    def __init__(self, package: str = "agentkit_py") -> None:
        self._package = package
        self.calls = 0
        self.functions: Counter[str] = Counter()
        self.made: Counter[str] = Counter()

    def __enter__(self) -> Self:
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _seen(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        module: str = frame.f_globals.get("__name__", "")
        if event != "call" or not module.startswith(self._package):
            return
        self.calls += 1
        self.functions[code.co_name] += 1
        if code.co_name == "__init__":
            self.made[type(frame.f_locals.get("self")).__name__] += 1
        elif code.co_name == "changed":
            self.made[type(frame.f_locals.get("value")).__name__] += 1


def asking(rounds: int) -> list[Any]:
    """Replies that call a tool, one after the other, and end with a text."""
    calls = [tool_call("track", {"parcel": number}) for number in range(rounds)]
    return [*calls, "All of them arrive tomorrow."]


def agent_of(model: Model, **options: Any) -> Agent:
    """An agent with one async tool."""

    @tool
    async def track(parcel: int) -> dict[str, Any]:
        """Look up where a parcel is."""
        return {"parcel": parcel, "status": f"on its way, stop {parcel}"}

    return Agent(name="support", system="s", tools=[track], model=model, **options)


def past(count: int) -> list[AgentResult]:
    """``count`` messages: question, call, result, answer, and again; every text is another one."""
    found: list[AgentResult] = []
    for number in range(count // 4):
        call = ToolCall(f"call_{number}", "track", {"parcel": -number})
        result = ToolResultMessage(call, {"data": f"old stop {number}"})
        found += [
            AgentResult.from_user(f"Where is my old parcel {number}?", id=f"user-{number}"),
            AgentResult("support", (ToolCallMessage((call,)),), (result,), id=f"calls-{number}"),
            AgentResult("support", (TextMessage("assistant", f"Old answer {number}."),)),
        ]
    return found


@pytest.mark.parametrize("length", [400, 10_000])
async def test_ten_tool_rounds_on_a_stored_thread_read_and_count_nothing_twice(
    tmp_path: Path, length: int
) -> None:
    """Two pages are read of a thread of any length, and each text is counted once."""
    store = CountingStore(tmp_path / "threads.db")
    await store.add_thread("t")
    await store.append("t", past(length))
    store.written = 0
    tokenizer = CountingTokenizer()
    limiter = TokenLimiter(400, tokenizer=tokenizer)
    model = ScriptedModel(*asking(ROUNDS))
    agent = agent_of(model, history=store, processors=[limiter], max_iter=ROUNDS + 1)
    await agent.run("Where are my parcels?", thread_id="t")
    model.assert_finished()
    assert store.read <= 48
    assert store.written == 1 + ROUNDS + 1
    assert tokenizer.texts.most_common(1)[0][1] == 1
    # What the first request has of the past, one more that did not fit, and the rounds' own.
    assert tokenizer.texts.total() <= 80 + 2 * ROUNDS
    await store.close()


@pytest.mark.parametrize("length", [400, 10_000])
@pytest.mark.parametrize(
    ("window", "read", "asked"), [(100, PAGE, 4), (400, PAGE, 4), (800, PAGE + PAGE // 2, 5)]
)
async def test_a_turn_asks_its_file_for_the_newest_page_and_saves_twice(
    tmp_path: Path, length: int, window: int, read: int, asked: int
) -> None:
    """Each is one way to a thread and back, and one transaction; a wide window has a page more.

    One saves the state, which is new here.
    """
    store = CountingStore(tmp_path / "threads.db")
    await store.add_thread("t")
    await store.append("t", past(length))
    limiter = TokenLimiter(window, tokenizer=CountingTokenizer())
    agent = agent_of(ScriptedModel("It arrives tomorrow."), history=store, processors=[limiter])
    with Profile() as profile:
        await agent.run("Where is my parcel?", thread_id="t")
    assert profile.functions["_database"] == asked
    assert store.read == read
    await store.close()


async def test_a_new_thread_is_looked_for_made_and_loaded(tmp_path: Path) -> None:
    """Looking does not lock the file for writers; only the first run pays for it."""
    store = SqliteHistory(tmp_path / "threads.db")
    agent = agent_of(ScriptedModel("Hello.", "Hello again."), history=store)
    asked: list[int] = []
    for _ in range(2):
        with Profile() as profile:
            await agent.run("Hi", thread_id="t")
        asked.append(profile.functions["_database"])
    assert asked == [6, 3]
    await store.close()


async def test_a_long_state_costs_no_more_calls_than_a_short_one() -> None:
    """Past messages are read in one pass, without a Python call for each."""
    calls: list[int] = []
    for length in (400, 10_000):
        remembered = past(length)
        processors = [TokenLimiter(400, use_tiktoken=False)]
        model = ScriptedModel("It arrives tomorrow.")
        agent = Agent(name="support", system="s", model=model, processors=processors)
        with Profile() as profile:
            await agent.run("Where is my parcel?", state=State(results=remembered))
        calls.append(profile.calls)
    assert calls[1] - calls[0] < 50


async def test_an_event_without_an_observer_is_not_made() -> None:
    """Events and chunks cost nothing where nobody listens; with an observer they are made."""
    silent, observed = Profile(), Profile()
    with silent:
        await agent_of(ScriptedModel(*asking(1)), max_iter=2).run("q?")
    events: list[object] = []
    with observed:
        await agent_of(ScriptedModel(*asking(1)), max_iter=2).run("q?", observer=events.append)
    assert not silent.made.keys() & {type(event).__name__ for event in events}
    assert observed.made["RunStarted"] == observed.made["RunCompleted"] == 1
