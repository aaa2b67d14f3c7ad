"""A thread's life in one run: which callbacks are called, in which order, with what."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from agentkit_py.history.config import HistoryConfig, HistoryContext
from agentkit_py.history.thread import Thread
from agentkit_py.messages import TextMessage, UserMessage
from agentkit_py.results import AgentResult
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.state import State

OLD = AgentResult("a", [TextMessage("assistant", "old")])
NEW = AgentResult("a", [TextMessage("assistant", "new")])
MESSAGE = UserMessage("hi", "m1", client_timestamp=datetime(2024, 1, 1, tzinfo=UTC))


class NoChanges:
    """The record of callbacks without side effects."""

    def begin(self) -> None:
        return None

    def record(self, before: object, /) -> None:
        return None

    def replay(self, recorded: object, /) -> None:
        return None


class Recorder:
    """Callbacks that write down what they get."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.saved: list[AgentResult] = []

    def create(self, context: HistoryContext) -> str:
        self.calls.append(f"create {context.thread_id}")
        return context.thread_id or "made"

    async def get(self, context: HistoryContext) -> Sequence[AgentResult]:
        self.calls.append(f"get {context.thread_id}")
        return [OLD]

    def append_user(self, context: HistoryContext) -> None:
        self.calls.append("user")

    async def append(self, context: HistoryContext) -> None:
        self.calls.append(f"append {len(context.new_results)}")
        self.saved.extend(context.new_results)

    def config(self) -> HistoryConfig:
        """All four callbacks, sync and async ones mixed."""
        return HistoryConfig(
            create_thread=self.create,
            get=self.get,
            append_user_message=self.append_user,
            append_results=self.append,
        )


def thread_of(config: HistoryConfig | None, state: State[Any]) -> Thread:
    """A run's thread."""
    return Thread(config, state, "hi", DirectRuntime(), "run", NoChanges())


async def take_turn(thread: Thread) -> None:
    """Open, the user's message, one result, the end."""
    await thread.open()
    turn = AgentResult.from_user("hi", id="m1", created_at=MESSAGE.client_timestamp)
    thread.state.append_result(turn)
    await thread.save_user_message(MESSAGE, turn)
    thread.state.append_result(NEW)
    await thread.result_done()
    await thread.save_results()


async def test_a_thread_that_the_client_names_is_loaded_before_the_message_is_saved() -> None:
    """Otherwise the new message would be loaded as an old one."""
    recorder, state = Recorder(), State[Any](thread_id="t")
    await take_turn(thread_of(recorder.config(), state))
    assert recorder.calls == ["create t", "get t", "user", "append 1"]
    assert [result.agent_name for result in state.transcript] == ["a", "user", "a"]
    assert recorder.saved == [NEW]


async def test_a_save_that_failed_is_made_up_for_by_the_next() -> None:
    """Nothing counts as saved before the store says so."""
    saved: list[AgentResult] = []
    failures = [OSError("gone")]

    def append(context: HistoryContext) -> None:
        if failures:
            raise failures.pop()
        saved.extend(context.new_results)

    thread = thread_of(HistoryConfig(append_results=append), State[Any]())
    await thread.open()
    thread.state.append_result(NEW)
    with pytest.raises(OSError, match="gone"):
        await thread.save_results()
    assert thread.unsaved() == [NEW]
    await thread.save_results()
    assert (saved, thread.unsaved()) == ([NEW], [])


async def test_a_thread_without_a_store_does_nothing() -> None:
    """No id is made, and nothing counts as saved."""
    state = State[Any](results=[OLD])
    await take_turn(thread_of(None, state))
    assert state.thread_id is None


@pytest.mark.parametrize("made", [None, ""])
async def test_create_thread_that_returns_nothing_keeps_the_thread_there_is(
    made: str | None,
) -> None:
    """TypeScript does the same."""

    def create(context: HistoryContext) -> str | None:
        return made

    state = State[Any](thread_id="t")
    await take_turn(thread_of(HistoryConfig(create_thread=create), state))
    assert state.thread_id == "t"


async def test_an_empty_thread_id_is_none() -> None:
    """Front ends send an empty string before there is a thread."""
    recorder, state = Recorder(), State[Any](thread_id="")
    await take_turn(thread_of(recorder.config(), state))
    assert recorder.calls == ["create None", "user", "append 1"]
    assert state.thread_id == "made"


async def test_a_store_that_failed_is_not_asked_again_for_a_lost_run() -> None:
    """It may have written half of what it was given."""
    calls: list[int] = []

    def refuse(context: HistoryContext) -> None:
        calls.append(len(context.new_results))
        raise OSError("disk full")

    thread = thread_of(HistoryConfig(append_results=refuse), State[Any]())
    await thread.open()
    thread.state.append_result(NEW)
    with pytest.raises(OSError, match="disk full"):
        await thread.save_results()
    await thread.save_results(lost=True)
    assert calls == [1]


async def test_a_new_thread_in_the_place_of_the_one_the_client_named_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """TypeScript ignores what createThread returns there, so that a port begins again each time."""
    config = HistoryConfig(create_thread=lambda ctx: ctx.new_thread_id)
    for _ in range(2):
        await take_turn(thread_of(config, State(thread_id="t1")))
    (record,) = caplog.records
    assert "named the thread 't1'" in record.getMessage()
    assert "return ctx.thread_id where it is set" in record.getMessage()
