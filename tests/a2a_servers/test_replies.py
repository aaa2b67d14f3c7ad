"""Replies of agents behind A2A: streamed, slow, too long, and asked for again after a kill."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import httpx
import inngest
import pytest
from a2a.types import ListTasksRequest, TaskState

from agentkit_py import MemoryHistory, Network, State
from agentkit_py.a2a import A2AAgent, A2ATaskError, calling
from agentkit_py.events.types import ReplyDelta
from agentkit_py.inngest import create_functions
from agentkit_py.runs import StreamingConfig
from agentkit_py.testing import ReplayExecutor
from agentkit_py.testing.executor import KillAt, Run
from tests.server.world import served

from .foreign import Foreign, foreign_app, remote
from .world import URL, sdk, serving


class Apart(httpx.ASGITransport):
    """A server of another process knows of no step of this one."""

    def __init__(self, app: Any) -> None:
        super().__init__(app, client=("127.0.0.1", 1))
        self.context = contextvars.copy_context()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_async_request(request)
        return await asyncio.create_task(answer, context=self.context)


async def replayed(agent: A2AAgent, *kills: KillAt) -> Run:
    """A network of an agent as a function, whose worker is killed."""
    network = Network(name="n", agents=[agent], router=lambda c: None if c.call_count else agent)
    client = inngest.Inngest(app_id="t", is_production=False)
    functions = create_functions(client, networks=[network], inference="local")
    executor = ReplayExecutor(client, functions)
    executor.kills = list(kills)
    return await executor.run("t/network-n", {"input": "How much?"})


async def test_a_step_that_is_repeated_after_a_kill_begins_no_second_task() -> None:
    """The worker dies with the reply: the message is sent again under its id."""
    asked: list[Any] = []

    def answer(request: Any) -> str:
        asked.append(request)
        return "Ten euros."

    async with serving(answer) as app:
        agent = A2AAgent(name="billing", url=URL, transport=Apart(app), headers={"x-user": "ada"})
        kill = KillAt(step="n.billing.0.0.infer", when="inside")
        run = await replayed(agent, kill)
        assert run.output["text"] == "Ten euros."
        async with sdk(app) as client:
            tasks = (await client.list_tasks(ListTasksRequest())).tasks
    assert [task.status.state for task in tasks] == [TaskState.TASK_STATE_COMPLETED]
    assert len(asked) == 1


async def test_an_attempt_sends_the_same_id_to_a_server_that_is_not_ours() -> None:
    """Another call of the same agent has another id."""
    executor = Foreign()
    agent = remote(foreign_app(executor))
    await replayed(agent, KillAt(step="n.billing.0.0.infer", when="inside"))
    await agent.run("a")
    first, second, other = executor.ids
    assert first == second != other


async def test_a_reply_is_streamed_while_it_arrives() -> None:
    """Each text once, though the server sends it whole at its end; replays add none."""
    async with serving("Hats are ten euros.") as app:
        agent = remote(app, headers={"x-user": "ada"})
        async with agent.stream("How much?") as stream:
            shown = [e.delta.delta async for e in stream if isinstance(e, ReplyDelta)]
        assert len(shown) > 1
        assert "".join(shown) == stream.result.text == "Hats are ten euros."


async def test_several_texts_are_streamed_as_they_are_put_together() -> None:
    """With an empty line between them; a text that is written again is not shown again."""
    executor = Foreign()
    shown: list[str] = []

    async def watch(event: Any) -> None:
        if isinstance(event, ReplyDelta):
            shown.append(event.delta.delta)

    agent = remote(foreign_app(executor))
    result = await agent.run(
        "several", observer=watch, streaming=StreamingConfig(publish=lambda _: None)
    )
    assert "".join(shown) == result.text == "One.\n\nTwo."


async def test_a_stream_that_is_too_long_is_cut_off_and_its_task_cancelled() -> None:
    """It is not read to its end first."""
    executor = Foreign()
    app = foreign_app(executor)
    async with served(app) as url:  # over a socket: here an app is heard once it has ended
        app.state.card.supported_interfaces[0].url = f"{url}/rpc"
        agent = A2AAgent(name="billing", url=url, max_reply_bytes=1000)
        with pytest.raises(A2ATaskError, match="more than 1000 bytes"):
            await agent.run("endless", streaming=StreamingConfig(publish=lambda _: None))
        await executor.cancelled.wait()


class Hours:
    """The module `asyncio`, whose time-outs take hours until they are let run out."""

    def __init__(self) -> None:
        self.timeouts: list[asyncio.Timeout] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    def timeout(self, _seconds: float) -> asyncio.Timeout:
        self.timeouts.append(asyncio.timeout(9999))
        return self.timeouts[-1]


async def test_a_reply_that_takes_too_long_is_an_error_and_its_task_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server works no more for somebody who does not listen."""
    hours = Hours()
    monkeypatch.setattr(calling, "asyncio", hours)
    monkeypatch.setattr(calling, "_POLL_SECONDS", 0.001)
    executor = Foreign()
    agent = remote(foreign_app(executor, streams=False), timeout=7)
    running = asyncio.create_task(agent.run("slow"))
    await executor.looked_at.wait()
    hours.timeouts[-1].reschedule(0)
    with pytest.raises(A2ATaskError, match="no reply within 7 s") as caught:
        await running
    assert caught.value.task_id
    assert executor.cancelled.is_set()


async def test_a_server_without_streams_is_asked_until_the_task_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may answer at once with a task that works."""
    monkeypatch.setattr(calling, "_POLL_SECONDS", 0.001)
    executor = Foreign()
    running = asyncio.create_task(remote(foreign_app(executor, streams=False)).run("slow"))
    await executor.looked_at.wait()
    executor.free.set()
    assert (await running).text == "Slowly."


async def test_a_task_that_needs_a_login_ends_the_turn_with_its_words() -> None:
    """And is continued by the next message."""
    executor = Foreign()
    agent = remote(foreign_app(executor), history=MemoryHistory())
    asked = await agent.run("login", state=State(thread_id="t"))
    answered = await agent.run("done", state=State(thread_id="t"))
    assert (asked.text, answered.text) == ("For which order?", "You said done")
    (_, first, _), (_, second, _) = executor.said
    assert first == second
