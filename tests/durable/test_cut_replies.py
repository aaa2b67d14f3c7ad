"""What users saw of a reply of a function's run is in the thread when the run is stopped."""

from __future__ import annotations

import asyncio
import contextvars
from pathlib import Path
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, MemoryHistory, Network, RouterContext, SqliteHistory, tool
from agentkit_py.guardrails import Guardrail, Tripwire
from agentkit_py.history import stopping
from agentkit_py.history.leases import ThreadLease
from agentkit_py.history.stopping import stop_run
from agentkit_py.inngest import stop_function
from agentkit_py.messages import TextMessage, ToolCall, ToolCallMessage
from agentkit_py.results import AgentResult
from agentkit_py.runs import StreamingConfig
from agentkit_py.stores import HistoryStore, StoredResult
from agentkit_py.testing import Raw, ScriptedModel
from agentkit_py.testing.executor import KillAt, ReplayExecutor

LONG = "Your refund of 120 EUR was approved and will arrive on Monday. " * 3


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Note replies every few milliseconds."""
    monkeypatch.setattr(stopping, "NOTE_SECONDS", 0.005)


@pytest.fixture(params=["memory", "sqlite", "no lease"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> HistoryStore:
    """Stores with leases, and one without."""
    lease = None if request.param == "no lease" else ThreadLease(seconds=3600)
    if request.param == "memory":
        return MemoryHistory(lease=lease)
    return SqliteHistory(tmp_path / "threads.db", lease=lease)


class Desk:
    """A function of a network that streams, and what its users have seen."""

    def __init__(self, store: HistoryStore, *replies: Any, **options: Any) -> None:
        self.store = store
        self.seen: list[str] = []
        self.stops_at: int | None = None
        self.model = ScriptedModel(*replies)
        self.context = contextvars.copy_context()
        clerk = Agent(name="clerk", system="S", model=self.model, **options)

        def router(context: RouterContext) -> Agent | None:
            return None if context.call_count else clerk

        network = Network(name="desk", agents=[clerk], router=router, history=store)

        async def desk(ctx: inngest.Context) -> str:
            run = await network.run(
                str(ctx.event.data["input"]),
                ctx=ctx,
                thread_id="t",
                streaming=StreamingConfig(publish=self.publish),
            )
            return run.text

        client = inngest.Inngest(app_id="app", is_production=False)
        trigger = inngest.TriggerEvent(event="desk")
        function = client.create_function(fn_id="desk", trigger=trigger, retries=1)(desk)
        self.executor = ReplayExecutor(
            client, [function, stop_function(client, [store])], transport=self.model.transport
        )

    async def publish(self, chunk: dict[str, Any]) -> None:
        """Show a piece of text, and stop the run after some pieces."""
        if chunk["event"] != "text.delta":
            return
        self.seen.append(chunk["data"]["delta"])
        if len(self.seen) == self.stops_at:
            await asyncio.create_task(self.stopped(), context=self.context)

    async def stopped(self) -> None:
        """Cancel the run, and let its thread be freed."""
        self.executor.cancel(self.executor.runs[0])
        while await self.executor.do_next(timeouts=False):
            pass

    async def said(self) -> list[tuple[str, str, str]]:
        """Roles, texts and ends of the thread's texts."""
        rows = await self.store.messages("t")
        return [(one.role, one.text, str(one.stop_reason)) for one in rows if one.type == "text"]


async def test_a_reply_is_kept_as_far_as_users_saw_it(store: HistoryStore) -> None:
    """All that was shown, and no more; the next message's model reads it."""
    async with store:
        desk = Desk(store, Raw(reply=LONG, pause=0.001), "I told you of your refund.")
        desk.stops_at = 5
        run = await desk.executor.run("desk", {"input": "q?"})

        assert run.status == "cancelled"
        assert len(desk.seen) >= 5
        _, (role, text, end) = await desk.said()
        assert (role, text, end) == ("assistant", "".join(desk.seen), "error")
        result = (await store.load("t"))[-1]
        assert result.agent_name == "clerk"
        assert result.finish is not None
        assert result.finish.is_cut

        after = await desk.executor.run("desk", {"input": "What did you say?"})
        assert after.output == "I told you of your refund."
        desk.model.assert_saw("".join(desk.seen[:5]).rstrip())
        assert [role for role, *_ in await desk.said()] == ["user", "assistant"] * 2


async def test_of_a_worker_that_died_its_last_note_is_kept(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is cancelled before another worker takes its step."""
    monkeypatch.setattr(stopping, "GRACE_SECONDS", 0.01)
    async with store:
        desk = Desk(store, Raw(reply=LONG, pause=0.001))
        noted = asyncio.Event()
        keeps: Any = store
        note = keeps.note_calls

        async def note_and_say(*args: Any) -> bool:
            kept: bool = await note(*args)
            noted.set()
            return kept

        monkeypatch.setattr(store, "note_calls", note_and_say)

        async def die() -> None:
            await noted.wait()
            running.cancel()

        desk.stops_at, desk.stopped = 3, die
        running = asyncio.create_task(desk.executor.run("desk", {"input": "q?"}))
        await asyncio.wait([running])
        assert running.cancelled()
        await Desk.stopped(desk)

        _, (role, text, end) = await desk.said()
        assert (role, end) == ("assistant", "error")
        assert "".join(desk.seen).startswith(text)


async def test_a_whole_reply_whose_run_is_stopped_before_it_is_saved_is_not_cut(
    store: HistoryStore,
) -> None:
    """Its worker dies, and the run is cancelled before another worker takes its step."""
    async with store:
        desk = Desk(store, LONG)
        executor = desk.executor
        executor.receive({"name": "desk", "data": {"input": "q?"}})
        executor.kills = [KillAt(step="desk.clerk.0.0.infer", when="inside")]
        while not executor.journal or executor.journal[-1].outcome != "killed inside":
            assert await executor.do_next(timeouts=False)
        await desk.stopped()

        assert executor.runs[0].status == "cancelled"
        assert (await desk.said())[1:] == [("assistant", LONG, "stop")]
        assert not (await store.load("t"))[-1].finish


async def test_a_whole_reply_that_a_guardrail_may_refuse_is_not_kept_unchecked(
    store: HistoryStore,
) -> None:
    """Its worker dies before the check, and the run is cancelled."""
    async with store:
        check = Guardrail(lambda _: None, name="check")
        desk = Desk(store, LONG, output_guardrails=[check], stream_before_response=True)
        executor = desk.executor
        executor.receive({"name": "desk", "data": {"input": "q?"}})
        executor.kills = [KillAt(step="desk.clerk.0.0.infer", when="inside")]
        while not executor.journal or executor.journal[-1].outcome != "killed inside":
            assert await executor.do_next(timeouts=False)
        await desk.stopped()
        assert [role for role, *_ in await desk.said()] == ["user"]


class Watched(MemoryHistory):
    """A store that counts how often somebody looks for a reply in a thread."""

    looks = 0

    async def newest(self, thread_id: str, limit: int) -> tuple[int, list[StoredResult]]:
        """Count, and read."""
        self.looks += 1
        return await super().newest(thread_id, limit)


async def nobody(_: str) -> None:
    """Wake nobody."""


def written(text: str, **fields: Any) -> dict[str, Any]:
    """Return the note of a reply's text."""
    return {"kind": "written", "id": "r", "reply": reply_of(text).to_dict(), **fields}


def reply_of(text: str, *calls: ToolCall) -> AgentResult:
    """Return a reply of the clerk."""
    said = TextMessage("assistant", text)
    return AgentResult("clerk", [said, *([ToolCallMessage(calls)] if calls else ())], id="r")


async def test_of_a_reply_whose_text_is_noted_after_its_calls_the_calls_are_kept() -> None:
    """A worker that was away for long writes its note when another has the whole reply."""
    store = MemoryHistory()
    await store.add_thread("t")
    whole = reply_of(LONG, ToolCall("c1", "pay", {}))
    await store.note_calls(
        "t",
        "run/1",
        {
            "reply/r": {"kind": "reply", "id": "r", "reply": whole.to_dict()},
            "call/0/r": {"kind": "call", "id": "r", "index": 0, "content": {"data": "paid"}},
        },
    )
    await store.note_calls("t", "run/1", {"written/r": written(LONG[:20])})
    assert await stop_run(store, "run", nobody) == 1
    [row] = await store.load("t")
    assert row.text == LONG
    assert [one.content for one in row.tool_calls] == [{"data": "paid"}]


@pytest.mark.parametrize(("is_whole", "waits"), [(True, False), (False, True)])
async def test_only_for_a_reply_that_is_not_whole_is_its_writer_waited_for(
    is_whole: bool, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody adds to a whole one: the thread would be taken for as long as a writer may take."""
    monkeypatch.setattr(stopping, "GRACE_SECONDS", 0.01)
    store = Watched()
    await store.add_thread("t")
    await store.note_calls("t", "run/1", {"written/r": written(LONG, isWhole=is_whole)})
    assert await stop_run(store, "run", nobody) == 1
    assert (store.looks > 1) is waits, "it is looked at once where the note is added"
    assert [row.text for row in await store.load("t")] == [LONG]


async def test_a_reply_with_calls_is_in_the_thread_once(store: HistoryStore) -> None:
    """The run is stopped in the call; its text was noted when it was written, too."""

    @tool
    async def pay() -> str:
        """Pay."""
        await asyncio.create_task(desk.stopped(), context=desk.context)
        return "paid"

    async with store:
        reply = [TextMessage("assistant", LONG), ToolCallMessage([ToolCall("c1", "pay", {})])]
        desk = Desk(store, reply, tools=[pay])
        await desk.executor.run("desk", {"input": "q?"})
        replies = [one for one in await store.load("t") if one.agent_name == "clerk"]
        assert [one.text for one in replies] == [LONG, ""]  # the second is the call's late result
        assert "Whether it took effect is not known" in str(replies[0].tool_calls[0].content)


async def test_a_reply_that_a_guardrail_refused_is_not_kept(store: HistoryStore) -> None:
    """Though users saw it before it was checked, and the run fails."""
    async with store:
        refuse = Guardrail(lambda _: Tripwire("No."), name="no")
        desk = Desk(store, LONG, output_guardrails=[refuse], stream_before_response=True)
        run = await desk.executor.run("desk", {"input": "q?"})
        assert run.status == "failed"
        assert "".join(desk.seen) == LONG
        assert LONG not in str(await desk.said())


@pytest.mark.parametrize("keeps", [True, False])
async def test_a_run_that_is_not_stopped_leaves_no_notes(store: HistoryStore, keeps: bool) -> None:
    """And its reply is not doubled; with the option off no text is noted."""
    async with store:
        desk = Desk(store, LONG, keep_cut_replies=keeps)
        run = await desk.executor.run("desk", {"input": "q?"})
        assert run.output == LONG
        runs: Any = store
        assert await runs.stop_execution(run.id) == []
        assert [text for _, text, _ in await desk.said()] == ["q?", LONG]


async def test_with_the_option_off_nothing_of_a_stopped_reply_is_kept(store: HistoryStore) -> None:
    """As in a direct run."""
    async with store:
        desk = Desk(store, Raw(reply=LONG, pause=0.001), keep_cut_replies=False)
        desk.stops_at = 3
        await desk.executor.run("desk", {"input": "q?"})
        assert [role for role, *_ in await desk.said()] == ["user"]
