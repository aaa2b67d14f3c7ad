"""`onBusy`: messages over HTTP that wait, steer or interrupt."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette

from agentkit_py import MemoryHistory, UserMessage, tool
from agentkit_py.history.leases import OnBusy, ThreadLease
from agentkit_py.processors import Redactor
from agentkit_py.testing import tool_call
from tests.server.test_inngest_mode import hosted
from tests.server.world import (
    app_of,
    client_of,
    listening,
    message,
    post,
    served,
    support,
    wait_until_idle,
    waiting,
)


class Posts(MemoryHistory):
    """A store that knows what came into its inboxes."""

    def __init__(self, lease: ThreadLease) -> None:
        super().__init__(lease=lease)
        self.posted: list[object] = []

    async def put_message(
        self, thread_id: str, message: UserMessage, *, interrupts: bool = False
    ) -> None:
        self.posted.append(message.content)
        await super().put_message(thread_id, message, interrupts=interrupts)


def steered(on_busy: OnBusy = "wait") -> Posts:
    """A store whose runs look for messages."""
    return Posts(ThreadLease(seconds=3600, steering=True, on_busy=on_busy))


async def rows(app: Starlette, thread: str = "t1") -> list[str]:
    """The texts of the thread, as a client reads it."""
    async with client_of(app) as client:
        found = (await client.get(f"/api/threads/{thread}")).json()["messages"]
    said = [m.get("content") or m["data"]["output"][0].get("content") for m in found]
    return [one for one in said if one]


async def send(url: str, text: str, on_busy: str | None = None, **fields: Any) -> Any:
    """Send a message to the thread."""
    body = {**message(text, "t1", **fields), "onBusy": on_busy}
    return await post(url, "/api/chat", body)


@pytest.mark.parametrize(("on_busy", "lease"), [("steer", "wait"), (None, "steer")])
async def test_a_message_that_steers_joins_the_reply_under_way(
    on_busy: OnBusy | None, lease: OnBusy
) -> None:
    """Its own stream ends when that one has; it is masked as the first one was."""
    wait, begun, go = waiting()
    network = support(
        tool_call("wait"), "In blue.", tools=(wait,), input_guardrails=[Redactor(["email"])]
    )
    store = steered(lease)
    app = app_of(network, history=store)
    async with served(app) as url, listening(url) as stream:
        await send(url, "Paint it.")
        await begun.wait()
        await send(url, "In blue, ada@example.com.", on_busy)
        go.set()
        await stream.until("stream.ended")
        await stream.until("stream.ended")
        await wait_until_idle(app)
        assert stream.text == "In blue."
        assert "error" not in stream.names
    model: Any = network.default_model
    model.assert_finished()
    assert await rows(app) == ["Paint it.", "In blue, [email].", "In blue."]
    assert set(store.posted) == {"In blue, [email]."}


async def test_a_message_that_interrupts_stops_the_reply_at_once() -> None:
    """The tool is cancelled; a message that waited before is answered with it."""
    wait, begun, _ = waiting()
    network = support(tool_call("wait"), "Stopped.", tools=(wait,))
    app = app_of(network, history=steered())
    async with served(app) as url, listening(url) as stream:
        await send(url, "Paint it.")
        await begun.wait()
        await send(url, "First this.", "wait")
        await send(url, "Stop!", "interrupt")
        ended = await stream.until("run.interrupted")
        assert ended["data"]["reason"] == "interrupted"
        await stream.until("stream.ended")
        await wait_until_idle(app)
    model: Any = network.default_model
    model.assert_finished()
    model.assert_saw("Paint it.", "First this.", "Stop!")
    assert await rows(app) == ["Paint it.", "First this.", "Stop!", "Stopped."]


async def test_a_server_whose_runs_do_not_look_for_messages_refuses_them() -> None:
    """A message may wait nevertheless."""
    for lease in (None, ThreadLease()):
        app = app_of(support("Hi."), history=MemoryHistory(lease=lease))
        async with client_of(app) as client:
            for on_busy, status in (("steer", 400), ("interrupt", 400), ("wait", 200)):
                body = {**message("Hi", "t1"), "onBusy": on_busy}
                answer = await client.post("/api/chat", json=body)
                assert answer.status_code == status, answer.text
        await wait_until_idle(app)


async def test_messages_to_functions_carry_how_they_are_sent() -> None:
    """It reaches the run at work before its own function begins."""

    @tool
    async def wait() -> str:
        """Wait."""
        body = {**message("In blue.", "t1", id="m2"), "onBusy": "steer"}
        assert (await shop.post("/api/chat", body)).status_code == 200
        return "waited"

    shop = hosted(tool_call("wait"), "As you like.", tools=(wait,), store=steered())
    await shop.chat("Paint it.", "t1", id="m1")
    first = await shop.executor.finish(shop.runs[0])
    second = await shop.executor.finish(shop.runs[1])
    assert [run.output["text"] for run in (first, second)] == ["As you like."] * 2
    assert second.events[0]["data"]["onBusy"] == "steer"
    assert await rows(shop.app) == ["Paint it.", "In blue.", "As you like."]
