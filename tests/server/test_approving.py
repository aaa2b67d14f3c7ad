"""A person's word, by `POST /api/approve-tool`."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from agentkit_py import Agent, Network, Tool, ToolContext, tool
from agentkit_py.server import ServerLimits
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls
from tests.server.world import (
    app_of,
    client_of,
    listening,
    message,
    once,
    post,
    served,
    support,
    wait_until_idle,
    waiting,
)


def refund(paid: list[int], **traits: Any) -> Tool:
    """A tool that needs a person."""
    traits.setdefault("needs_approval", True)

    @tool(name="refund", **traits)
    def refund(amount: int) -> str:
        """Pay money back."""
        paid.append(amount)
        return f"paid {amount}"

    return refund


async def ask(url: str, thread_id: str = "t1") -> None:
    """Ask for a refund."""
    await post(url, "/api/chat", message("Money back!", thread_id))


async def decide(url: str, call: str, action: str = "approve", **fields: Any) -> Any:
    """A person's word, as the hook sends it."""
    body = {"toolCallId": call, "threadId": "t1", "action": action, **fields}
    return await post(url, "/api/approve-tool", body)


@pytest.mark.parametrize("which", ["requestId", "partId", "toolCallId"])
async def test_an_approved_call_runs(which: str) -> None:
    """The call is named by the question's id, the hook's id or the provider's id."""
    paid: list[int] = []
    network = support(tool_call("refund", {"amount": 5}), "done", tools=(refund(paid),))
    async with served(app_of(network)) as url, listening(url) as stream:
        await ask(url)
        asked = (await stream.until("hitl.requested"))["data"]
        call = asked["requestId"] if which == "requestId" else asked["toolCalls"][0][which]
        assert paid == []
        answer = await decide(url, call)
        assert (answer.status_code, answer.json()) == (200, {"success": True})
        resolved = (await stream.until("hitl.resolved"))["data"]
        await stream.until("stream.ended")
    assert paid == [5]
    assert (resolved["resolution"], resolved["resolvedBy"]) == ("approved", "ada")


async def test_a_denied_call_does_not_run() -> None:
    """The model reads the reason."""
    paid: list[int] = []
    network = support(tool_call("refund", {"amount": 5}), "sorry", tools=(refund(paid),))
    async with served(app_of(network)) as url, listening(url) as stream:
        await ask(url)
        asked = (await stream.until("hitl.requested"))["data"]
        await decide(url, asked["requestId"], "deny", reason="too much")
        await stream.until("stream.ended")
    assert paid == []
    model: Any = network.default_model
    model.assert_saw("ApprovalDeniedError", "too much")


async def test_calls_of_one_request_are_decided_one_by_one() -> None:
    """It waits until all have one."""
    paid: list[int] = []
    calls = tool_calls(*(("refund", {"amount": amount}) for amount in (1, 2, 3)))
    network = support(calls, "done", tools=(refund(paid),))
    async with served(app_of(network)) as url, listening(url) as stream:
        await ask(url)
        parts = [c["partId"] for c in (await stream.until("hitl.requested"))["data"]["toolCalls"]]
        await decide(url, parts[1], "deny", reason="not this one")
        await decide(url, parts[2])
        assert paid == []
        await decide(url, parts[0])
        resolved = (await stream.until("hitl.resolved"))["data"]
        await stream.until("stream.ended")
    assert paid == [1, 3]
    assert resolved["resolution"] == "partial"
    assert [one["approved"] for one in resolved["decisions"]] == [True, False, True]


async def test_undecided_calls_of_a_request_can_be_decided_at_once() -> None:
    """Earlier decisions on single calls stand."""
    paid: list[int] = []
    calls = tool_calls(*(("refund", {"amount": amount}) for amount in (1, 2, 3)))
    network = support(calls, "done", tools=(refund(paid),))
    async with served(app_of(network)) as url, listening(url) as stream:
        await ask(url)
        asked = (await stream.until("hitl.requested"))["data"]
        await decide(url, asked["toolCalls"][1]["partId"], "deny")
        await decide(url, asked["requestId"])
        await stream.until("stream.ended")
    assert paid == [1, 3]


async def test_a_tools_own_question_can_be_answered() -> None:
    """The question has no calls, only an id."""

    @tool(steps=True)
    async def seat(ctx: ToolContext) -> str:
        """Book a seat."""
        answer = await ctx.approve("At the window?")
        return f"window: {answer is not None and answer.approved}"

    network = support(tool_call("seat", {}), "done", tools=(seat,))
    async with served(app_of(network)) as url, listening(url) as stream:
        await ask(url)
        asked = (await stream.until("hitl.requested"))["data"]
        await decide(url, asked["requestId"])
        await stream.until("stream.ended")
    model: Any = network.default_model
    model.assert_saw("window: True")


async def test_unknown_approvals_give_404_and_decided_ones_409() -> None:
    """404 and 409."""
    paid: list[int] = []
    wait, begun, go = waiting()
    replies = [tool_call("refund", {"amount": 5}), tool_call("wait", {}), "done"]
    app = app_of(support(*replies, tools=(refund(paid), wait)))
    async with served(app) as url, listening(url) as stream:
        await ask(url)
        asked = (await stream.until("hitl.requested"))["data"]
        missing = await decide(url, "nothing")
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "question_not_found")
        await decide(url, asked["requestId"])
        await begun.wait()
        late = await decide(url, asked["requestId"], "deny")
        assert (late.status_code, late.json()["error"]["code"]) == (409, "already_answered")
        go.set()
        await wait_until_idle(app)
    assert paid == [5]


@pytest.mark.parametrize("action", ["maybe", "", None, True, "APPROVE"])
async def test_an_invalid_decision_is_refused(action: Any) -> None:
    """400, and the question goes on waiting."""
    paid: list[int] = []
    network = support(tool_call("refund", {"amount": 5}), "done", tools=(refund(paid),))
    app = app_of(network)
    async with served(app) as url, listening(url) as stream:
        await ask(url)
        asked = (await stream.until("hitl.requested"))["data"]
        assert (await decide(url, asked["requestId"], action)).status_code == 400
        assert paid == []
        await post(url, "/api/chat/cancel", {"threadId": "t1"})
        await wait_until_idle(app)


async def test_an_unanswered_approval_expires() -> None:
    """The model reads that."""
    paid: list[int] = []
    lapsing = refund(paid, approval_timeout=timedelta(milliseconds=20))
    network = support(tool_call("refund", {"amount": 5}), "sorry", tools=(lapsing,))
    async with served(app_of(network)) as url, listening(url) as stream:
        await ask(url)
        assert (await stream.until("hitl.resolved"))["data"]["resolution"] == "expired"
        await stream.until("stream.ended")
    model: Any = network.default_model
    model.assert_saw("ApprovalTimeoutError")


async def test_a_thread_is_free_while_an_approval_is_pending() -> None:
    """Another message is answered meanwhile, and the time does not count."""
    paid: list[int] = []
    replies = [tool_call("refund", {"amount": 5}), "meanwhile", "paid"]
    app = app_of(support(*replies, tools=(refund(paid),)), limits=ServerLimits(run_seconds=5))
    async with served(app) as url, listening(url) as stream:
        await ask(url)
        asked = (await stream.until("hitl.requested"))["data"]
        await post(url, "/api/chat", message("Hello?", "t1"))
        await stream.until("stream.ended")
        assert stream.text == "meanwhile"
        await decide(url, asked["requestId"])
        await stream.until("stream.ended")
    assert paid == [5]
    assert stream.text == "meanwhilepaid"


async def test_a_new_reader_gets_the_pending_approval_again() -> None:
    """The stream begins with the run that waits, and the answer is taken."""
    paid: list[int] = []
    app = app_of(support(tool_call("refund", {"amount": 5}), "done", tools=(refund(paid),)))
    async with served(app) as url:
        async with listening(url) as first:
            await ask(url)
            await first.until("hitl.requested")
        async with listening(url) as second:
            asked = (await second.until("hitl.requested"))["data"]
            await decide(url, asked["toolCalls"][0]["partId"])
            await second.until("stream.ended")
    assert paid == [5]
    async with client_of(app) as client:
        assert (await client.get("/api/threads/t1")).json()["running"] == []


async def test_a_run_with_a_pending_approval_gives_up_its_slot() -> None:
    """With room for one run, others are answered while the person thinks."""
    paid: list[int] = []
    replies = [tool_call("refund", {"amount": 5}), "meanwhile", "paid"]
    app = app_of(support(*replies, tools=(refund(paid),)), limits=ServerLimits(runs=1))
    async with served(app) as url, listening(url) as ada, listening(url, "bob") as bob:
        await ask(url)
        asked = (await ada.until("hitl.requested"))["data"]
        assert (await post(url, "/api/chat", message("Hello?", "t2"), "bob")).status_code == 200
        await bob.until("stream.ended")
        assert bob.text == "meanwhile"
        await decide(url, asked["requestId"])
        await ada.until("stream.ended")
    assert paid == [5]
    assert ada.text == "paid"


async def test_a_decided_run_gets_the_next_free_slot() -> None:
    """New messages are refused until it has one; its tool is not called before."""
    paid: list[int] = []
    wait, begun, go = waiting()
    replies = [tool_call("refund", {"amount": 5}), tool_call("wait", {}), "bob's", "ada's"]
    app = app_of(support(*replies, tools=(refund(paid), wait)), limits=ServerLimits(runs=1))
    async with served(app) as url, listening(url) as ada, listening(url, "bob") as bob:
        await ask(url)
        asked = (await ada.until("hitl.requested"))["data"]
        await post(url, "/api/chat", message("Hello?", "t2"), "bob")
        await begun.wait()
        await decide(url, asked["requestId"])
        await ada.until("hitl.resolved")
        assert paid == []
        assert (await post(url, "/api/chat", message("Me?", "t3"), "eve")).status_code == 503
        go.set()
        await bob.until("stream.ended")
        await ada.until("stream.ended")
        await wait_until_idle(app)
        assert (await post(url, "/api/chat", message("Now?", "t3"), "eve")).status_code == 200
        await wait_until_idle(app)
    assert (paid, ada.text, bob.text) == ([5], "ada's", "bob's")


async def test_a_decided_run_waits_for_slot_and_thread_without_a_deadlock() -> None:
    """Others of its thread have both, ask in their turn, and all of them end."""
    paid: list[int] = []
    wait, begun, go = waiting()
    asks = tool_call("refund", {"amount": 5})
    replies = [asks, tool_call("wait", {}), tool_call("refund", {"amount": 6}), "a", "b"]
    app = app_of(support(*replies, tools=(refund(paid), wait)), limits=ServerLimits(runs=1))
    async with served(app) as url, listening(url) as stream:
        await ask(url)
        first = (await stream.until("hitl.requested"))["data"]
        assert (await post(url, "/api/chat", message("Two", "t1"))).status_code == 200
        await begun.wait()
        await decide(url, first["requestId"])
        await stream.until("hitl.resolved")
        go.set()
        second = (await stream.until("hitl.requested"))["data"]
        await stream.until("stream.ended")
        assert paid == [5]
        await decide(url, second["requestId"])
        await stream.until("stream.ended")
    assert paid == [5, 6]


def asking_twice(ended: asyncio.Event, later: asyncio.Event) -> list[Tool]:
    """Two tools that ask; an event that says the first has an answer, and one for the second."""

    @tool(steps=True)
    async def early(ctx: ToolContext) -> str:
        """Ask at once."""
        await ctx.approve("Early?")
        ended.set()
        return "early"

    @tool(steps=True)
    async def late(ctx: ToolContext) -> str:
        """Ask later."""
        await later.wait()
        await ctx.approve("Late?")
        return "late"

    return [early, late]


async def test_a_run_that_asks_again_before_it_has_a_slot_gives_it_back() -> None:
    """Two parallel tools: one is answered, the other asks while the run waits for a slot."""
    ended, later = asyncio.Event(), asyncio.Event()
    wait, begun, go = waiting()
    tools = [*asking_twice(ended, later), wait]
    both = tool_calls(("early", {}), ("late", {}))
    model = ScriptedModel(both, tool_call("wait", {}), *"abc")
    clerk = Agent(name="clerk", system="S", tools=tools, parallel_tools=True, max_iter=5)
    network = Network(name="support", agents=[clerk], router=once, default_model=model)
    app = app_of(network, limits=ServerLimits(runs=1))
    async with served(app) as url, listening(url) as ada, listening(url, "bob") as bob:
        await ask(url)
        asked = (await ada.until("hitl.requested"))["data"]
        await post(url, "/api/chat", message("Hello?", "t2"), "bob")
        await begun.wait()
        await decide(url, asked["requestId"])
        await ada.until("hitl.resolved")
        later.set()
        again = (await ada.until("hitl.requested"))["data"]
        go.set()
        await bob.until("stream.ended")
        await ended.wait()
        async with listening(url, "eve") as eve:
            assert (await post(url, "/api/chat", message("Me?", "t3"), "eve")).status_code == 200
            await eve.until("stream.ended")
        await decide(url, again["requestId"])
        await ada.until("stream.ended")


async def test_a_cancelled_run_releases_its_slot_once() -> None:
    """The slot is released once, whether the run waits for a person or for a place."""
    paid: list[int] = []
    wait, begun, go = waiting()
    replies = [tool_call("refund", {"amount": 5}), tool_call("wait", {}), "bob's", "eve's"]
    app = app_of(support(*replies, tools=(refund(paid), wait)), limits=ServerLimits(runs=1))
    async with served(app) as url, listening(url) as ada:
        await ask(url)
        asked = (await ada.until("hitl.requested"))["data"]
        await post(url, "/api/chat", message("Hello?", "t2"), "bob")
        await begun.wait()
        await decide(url, asked["requestId"])
        await ada.until("hitl.resolved")
        await post(url, "/api/chat/cancel", {"threadId": "t1"})
        await ada.until("stream.ended")
        assert (await post(url, "/api/chat", message("Me?", "t3"), "eve")).status_code == 503
        go.set()
        await wait_until_idle(app)
        assert (await post(url, "/api/chat", message("Now?", "t3"), "eve")).status_code == 200
        await wait_until_idle(app)
    assert paid == []


async def test_one_waiting_run_too_many_is_refused() -> None:
    """Each waiting run takes memory, so no new one begins even with free slots."""
    paid: list[int] = []
    network = support(tool_call("refund", {"amount": 5}), "done", tools=(refund(paid),))
    app = app_of(network, limits=ServerLimits(waiting_runs=1))
    async with served(app) as url, listening(url) as stream:
        await ask(url)
        asked = (await stream.until("hitl.requested"))["data"]
        assert (await post(url, "/api/chat", message("Me?", "t2"), "bob")).status_code == 503
        await decide(url, asked["requestId"])
        await stream.until("stream.ended")
    assert paid == [5]
