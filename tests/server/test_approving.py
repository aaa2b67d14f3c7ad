"""A person's word, by `POST /api/approve-tool`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, Network, SqliteHistory, Tool, ToolContext, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.events import ApprovalAnswer
from agentkit_py.history.questions import Question
from agentkit_py.history.runs import RunRecord
from agentkit_py.messages import UserMessage
from agentkit_py.server import ServerLimits, lifespan
from agentkit_py.stores import ThreadLease
from agentkit_py.stores.wrappers import for_user
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls
from tests.server.world import (
    app_of,
    client_of,
    listening,
    message,
    once,
    post,
    question_of,
    said,
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


async def test_a_customers_own_question_is_listed_behind_a_thousand_of_others() -> None:
    """One request looks at so many; who has one open must find it."""
    store, now = MemoryHistory(), datetime.now(UTC)
    for user in ("bob", "ada"):
        await store.add_thread(user, user_id=user)
    questions = [("bob", f"q{n}") for n in range(1000)] + [("ada", "mine")]
    for thread, name in questions:
        await store.save_question(question_of(name, thread, now))
    app = app_of(support(), history=store, approvers=["mia"])
    async with client_of(app) as ada:
        found = (await ada.get("/api/approvals")).json()["approvals"]
    assert [one["id"] for one in found] == ["mine"]


async def test_a_refusal_does_not_show_strangers_the_question_of_a_thread() -> None:
    """A call that waits, one that does not, and a thread that is not there: the same refusal."""
    app = app_of(support(tool_call("refund", {"amount": 5}), tools=(refund([]),)))
    async with client_of(app) as ada, client_of(app, "eve") as eve:
        await ada.post("/api/chat", json=message("Money back!", "t1"))
        await wait_until_idle(app)
        (asked,) = (await ada.get("/api/approvals")).json()["approvals"]
        found: list[tuple[int, str]] = []
        for thread in ("t1", "t2"):
            for call in (asked["id"], asked["calls"][0]["toolCallId"], "call_9"):
                body = {"toolCallId": call, "threadId": thread, "action": "approve"}
                answer = await eve.post("/api/approve-tool", json=body)
                found.append((answer.status_code, answer.text))
    assert len(set(found)) == 1
    assert found[0][0] == 404


@pytest.mark.parametrize(
    "given", ["NaN", "-Infinity", "1e400", '{"a":' * 100 + "1" + "}" * 100], ids=len
)
async def test_arguments_that_could_not_be_kept_are_refused_before_anything_is_decided(
    given: str,
) -> None:
    """Python reads more than JSON has; what is nested without end would end the run later."""
    app = app_of(support(tool_call("refund", {"amount": 5}), tools=(refund([]),)))
    async with client_of(app) as client:
        await client.post("/api/chat", json=message("Money back!", "t1"))
        await wait_until_idle(app)
        (asked,) = (await client.get("/api/approvals")).json()["approvals"]
        call = f'{{"index": 0, "action": "approve", "arguments": {{"amount": {given}}}}}'
        path = f"/api/approvals/{asked['id']}"
        answer = await client.post(path, content=f'{{"calls": [{call}]}}'.encode())
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
        assert "calls.0.arguments" in answer.json()["error"]["message"]
        (still,) = (await client.get("/api/approvals")).json()["approvals"]
    assert still == asked


class Dying(MemoryHistory):
    """A store whose process ends between the question and the paused run."""

    dies = True

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        """Save the record of a run."""
        if self.dies and run.status == "paused":
            raise OSError("the process was killed")
        await super().save_run(thread_id, run)


async def test_a_question_whose_run_died_is_refused_and_closed_and_the_message_asks_again() -> None:
    """Its answer would do nothing; another worker finds out who looks into the store alone."""
    paid: list[int] = []
    store, call = Dying(), tool_call("refund", {"amount": 5})
    body = message("Money back!", "t1", id="m1")

    def worker(*replies: Any) -> Any:
        return app_of(support(*replies, tools=(refund(paid),)), history=store, leases=False)

    first = worker(call)
    async with client_of(first) as ada:
        await ada.post("/api/chat", json=body)
        await wait_until_idle(first)
    store.dies, second = False, worker(call, "done")
    async with client_of(second) as ada:
        (lost,) = (await ada.get("/api/approvals")).json()["approvals"]
        before = datetime.now(UTC) - timedelta(minutes=1)  # a run may still be about to pause
        asked = question_of(lost["id"], "t1", before, run="m1").request
        await store.change_question(lost["id"], lambda known: replace(known, request=asked))
        answer = await ada.post(f"/api/approvals/{lost['id']}", json={"action": "approve"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "run_lost")
        assert (await ada.get("/api/threads/t1")).json()["pending"] == []
        (closed,) = (await ada.get("/api/approvals?status=stopped")).json()["approvals"]
        assert closed["id"] == lost["id"]
        await ada.post("/api/chat", json=body)
        await wait_until_idle(second)
        (again,) = (await ada.get("/api/approvals")).json()["approvals"]
        answer = await ada.post(f"/api/approvals/{again['id']}", json={"action": "approve"})
        await wait_until_idle(second)
    assert (answer.status_code, paid) == (200, [5])
    assert [str(one) for one in await store.load("t1")][-1] == "clerk: done"


async def test_a_run_that_asks_again_closes_the_questions_of_its_attempt_that_died() -> None:
    """Else a question would be open that nobody can answer, and the thread never rewound."""
    store, call = Dying(), tool_call("refund", {"amount": 5})
    network = support(call, call, tools=(refund([]),), history=store)
    said = UserMessage("Money back!", "m1")
    with pytest.raises(OSError, match="killed"):
        await network.run(said, thread_id="t1")
    store.dies = False
    run = await network.run(said, thread_id="t1")
    assert await network.pending("t1") == run.pending
    assert [one.status for one in await store.list_questions(status=None)] == ["stopped", "open"]


async def test_a_question_whose_run_died_long_ago_is_closed_by_the_server() -> None:
    """No run can be at work any more; one that is stored as paused stays, however old."""
    store, old = MemoryHistory(), datetime.now(UTC) - timedelta(days=1)
    await store.add_thread("t1", user_id="ada")
    await store.save_run("t1", RunRecord(id="kept", status="paused", journal={}))
    for name in ("kept", "lost"):
        question = question_of(name, "t1", old, run=name)
        await store.save_question(question)
    async with served(app_of(support(), history=store)):
        while len(await store.list_questions()) > 1:  # noqa: ASYNC110 - a look of the server's
            await asyncio.sleep(0.005)
    found = {one.id: one.status for one in await store.list_questions(status=None)}
    assert found == {"kept": "open", "lost": "stopped"}


class PausingSlowly(MemoryHistory):
    """A store in which an answer comes while the run pauses: before it is stored so, or after."""

    def __init__(self, *, is_stored: bool) -> None:
        super().__init__()
        self.is_stored = is_stored
        self.pausing, self.taken = asyncio.Event(), asyncio.Event()

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        if run.status != "paused" or self.is_stored:
            await super().save_run(thread_id, run)
        if run.status == "paused":
            self.pausing.set()
            await self.taken.wait()
            if not self.is_stored:
                await super().save_run(thread_id, run)

    async def change_run(
        self,
        thread_id: str,
        run_id: str,
        change: Callable[[RunRecord], RunRecord | None],
    ) -> RunRecord | None:
        found = await super().change_run(thread_id, run_id, change)
        self.taken.set()
        return found


@pytest.mark.parametrize("is_stored", [True, False])
async def test_an_answer_that_comes_while_the_run_pauses_does_not_ask_again(
    *, is_stored: bool
) -> None:
    """A reader that answers each question it reads would answer a question twice."""
    store = PausingSlowly(is_stored=is_stored)
    paid: list[int] = []
    network = support(tool_call("refund", {"amount": 5}), "done", tools=(refund(paid),))
    app = app_of(network, history=store)
    async with served(app) as url, listening(url) as stream:
        await ask(url)
        asked = (await stream.until("hitl.requested"))["data"]
        await store.pausing.wait()
        assert (await decide(url, asked["requestId"])).status_code == 200
        await stream.until("stream.ended")
        await wait_until_idle(app)
        async with client_of(app) as client:
            thread = (await client.get("/api/threads/t1")).json()
    assert paid == [5]
    assert stream.resets == []
    assert stream.names.count("hitl.requested") == stream.names.count("hitl.resolved") == 1
    assert thread["running"] == [], "the run that paused is not taken for one that still waits"


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
    """400, and the question continues waiting."""
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
        asked = (await stream.until("hitl.requested"))["data"]["requestId"]
        assert (await stream.until("hitl.resolved"))["data"]["resolution"] == "expired"
        await stream.until("stream.ended")
        late = await decide(url, asked)
        assert (late.status_code, late.json()["error"]["code"]) == (409, "expired")
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
        go.set()
        second = (await stream.until("hitl.requested"))["data"]
        await stream.until("stream.ended")
        assert paid == [5]
        await decide(url, second["requestId"])
        await stream.until("stream.ended")
    assert paid == [5, 6]


@tool(steps=True)
async def sure(ctx: ToolContext) -> str:
    """Ask a person."""
    answer = await ctx.approve("Sure?")
    return str(answer is not None and answer.approved)


async def test_two_parallel_questions_are_answered_one_after_the_other() -> None:
    """The run gives its slot back while it waits for the second."""
    wait, begun, go = waiting()
    model = ScriptedModel(tool_calls(("sure", {}), ("sure", {})), tool_call("wait", {}), *"abc")
    clerk = Agent(name="clerk", system="S", tools=[sure, wait], parallel_tools=True, max_iter=5)
    network = Network(name="support", agents=[clerk], router=once, default_model=model)
    app = app_of(network, limits=ServerLimits(runs=1))
    async with served(app) as url, listening(url) as ada, listening(url, "bob") as bob:
        await ask(url)
        asked = (await ada.until("hitl.requested"))["data"]
        again = (await ada.until("hitl.requested"))["data"]
        await wait_until_idle(app)
        await post(url, "/api/chat", message("Hello?", "t2"), "bob")
        await begun.wait()
        await decide(url, asked["requestId"])
        go.set()
        await bob.until("stream.ended")
        await ada.until("hitl.resolved")
        await wait_until_idle(app)
        async with listening(url, "eve") as eve:
            assert (await post(url, "/api/chat", message("Me?", "t3"), "eve")).status_code == 200
            await eve.until("stream.ended")
        await decide(url, again["requestId"])
        await ada.until("stream.ended")
    model.assert_finished()


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
        await post(url, "/api/chat/cancel", {"threadId": "t1"})
        await ada.until("stream.ended")
        assert (await post(url, "/api/chat", message("Me?", "t3"), "eve")).status_code == 503
        go.set()
        await wait_until_idle(app)
        assert (await post(url, "/api/chat", message("Now?", "t3"), "eve")).status_code == 200
        await wait_until_idle(app)
    assert paid == []


async def test_questions_count_as_runs_of_their_user() -> None:
    """Else one user could make any number of paused runs; others are answered."""
    paid: list[int] = []
    replies = [tool_call("refund", {"amount": 5}), "bob's", "ada's"]
    app = app_of(support(*replies, tools=(refund(paid),)), limits=ServerLimits(runs_per_user=1))
    async with served(app) as url, listening(url) as stream:
        await ask(url)
        asked = (await stream.until("hitl.requested"))["data"]
        await wait_until_idle(app)
        assert (await post(url, "/api/chat", message("Me?", "t2"))).status_code == 429
        assert (await post(url, "/api/chat", message("Me?", "t3"), "bob")).status_code == 200
        await wait_until_idle(app)
        await decide(url, asked["requestId"])
        await stream.until("stream.ended")
    assert paid == [5]


async def test_an_edit_that_open_questions_refuse_leaves_the_thread_as_it_was() -> None:
    """429 comes before anything is taken away."""
    replies = ["One.", tool_call("refund", {"amount": 5}), "Instead."]
    app = app_of(support(*replies, tools=(refund([]),)), limits=ServerLimits(runs_per_user=1))
    async with served(app) as url, listening(url) as stream:
        await post(url, "/api/chat", message("first", "t", id="m1"))
        await wait_until_idle(app)
        await ask(url)
        await stream.until("hitl.requested")
        await wait_until_idle(app)
        edit = {**message("other", "t"), "edits": "m1"}
        assert (await post(url, "/api/chat", edit)).status_code == 429
    async with client_of(app) as client:
        kept = await client.get("/api/threads/t")
    assert "One." in kept.text


STAFF = {"approvers": ["mia"]}


async def answer(url: str, question: str, user: str, **body: Any) -> Any:
    """An answer by the queue's own endpoint."""
    body.setdefault("action", "approve")
    return await post(url, f"/api/approvals/{question}", body, user)


async def queue(app: Any, user: str, **filters: str) -> list[Any]:
    """Return the questions that a user sees."""
    async with client_of(app, user) as client:
        found = await client.get("/api/approvals", params=filters)
        assert found.status_code == 200, found.text
        return found.json()["approvals"]


async def test_staff_answer_questions_that_the_customer_may_not_answer() -> None:
    """The customer sees the question and cannot answer it; strangers see nothing."""
    paid: list[int] = []
    network = support(tool_call("refund", {"amount": 249}), "done", tools=(refund(paid),))
    app = app_of(network, **STAFF)
    async with served(app) as url, listening(url) as stream:
        await ask(url)
        asked = (await stream.until("hitl.requested"))["data"]["requestId"]
        await wait_until_idle(app)
        refused = await decide(url, asked)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_allowed")
        assert [(one["id"], one["mayAnswer"]) for one in await queue(app, "ada")] == [
            (asked, False)
        ]
        assert await queue(app, "eve") == []
        assert (await answer(url, asked, "eve")).status_code == 404
        (seen,) = await queue(app, "mia", agent="clerk", tool="refund", threadId="t1")
        assert (seen["calls"][0]["toolInput"], seen["mayAnswer"]) == ({"amount": 249}, True)
        assert await queue(app, "mia", tool="other") == []
        assert paid == []
        words = {"reason": "late train", "toUser": "Our apologies."}
        assert (await answer(url, asked, "mia", **words)).json() == {"success": True}
        resolved = (await stream.until("hitl.resolved"))["data"]
        await stream.until("stream.ended")
        assert (await answer(url, asked, "mia")).status_code == 409
    assert "resolvedBy" not in resolved
    assert resolved["reason"] == "Our apologies."
    (closed,) = await queue(app, "mia", status="answered")
    assert (closed["answeredBy"], closed["reason"], paid) == ("mia", "late train", [249])
    (own,) = await queue(app, "ada", status="answered")
    assert (own["answeredBy"], own["reason"], own["approvers"]) == (None, "Our apologies.", [])


@pytest.mark.parametrize("lease", [None, ThreadLease()], ids=["no lease", "lease"])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_an_answer_stays_in_the_thread_while_another_message_waits(
    tmp_path: Path, kind: str, lease: ThreadLease | None
) -> None:
    """Only the results of the run that waits are left out."""
    file = tmp_path / "threads.db"
    store = MemoryHistory(lease=lease) if kind == "memory" else SqliteHistory(file, lease=lease)
    replies = (tool_call("refund", {"amount": 5}), "We open at nine.", "Paid back.")
    app = app_of(support(*replies, tools=(refund([]),), history=store), approvers=["mia"])
    async with lifespan(app), client_of(app, "ada") as ada:

        async def texts() -> str:
            return (await ada.get("/api/threads/t1")).text

        await said(app, "Money back!", "t1")
        await said(app, "When do you open?", "t1")
        assert "We open at nine." in await texts()
        (question,) = (await ada.get("/api/approvals")).json()["approvals"]
        async with client_of(app, "mia") as mia:
            approved = {"action": "approve"}
            path = f"/api/approvals/{question['id']}"
            assert (await mia.post(path, json=approved)).status_code == 200
        await wait_until_idle(app)
        shown = await texts()
        assert "We open at nine." in shown
        assert "Paid back." in shown


@pytest.mark.parametrize("action", ["approve", "deny"])
async def test_words_and_ids_of_staff_reach_no_customer(action: str) -> None:
    """A reason is for the agent: no stream, thread or list of the customer's holds it."""
    secret = "SECRET-REASON"
    network = support(tool_call("refund", {"amount": 249}), "Well.", tools=(refund([]),))
    app = app_of(network, approvers=["mia-of-staff", "zoe-of-staff"])
    async with served(app) as url, listening(url) as stream:
        await ask(url)
        asked = (await stream.until("hitl.requested"))["data"]["requestId"]
        await wait_until_idle(app)
        seen: list[str] = []
        async with client_of(app, "ada") as ada:

            async def look() -> None:
                for path in ("/api/threads/t1", "/api/threads", "/api/approvals?status=all"):
                    response = await ada.get(path)
                    assert response.status_code == 200, path
                    seen.append(response.text)

            await look()
            words = {"action": action, "reason": secret, "toUser": "Sorry."}
            assert (await answer(url, asked, "mia-of-staff", **words)).status_code == 200
            await stream.until("stream.ended")
            await look()
        seen += [json.dumps(chunk) for chunk in stream.chunks]
    assert any("Sorry." in text for text in seen)
    for text in seen:
        assert secret not in text
        assert "of-staff" not in text


async def test_a_tool_says_who_decides_and_to_whom_a_question_escalates() -> None:
    """The application's rule may know more: it is asked with user and question."""
    traits: dict[str, Any] = {"escalate_after": timedelta(0), "escalate_to": ["boss"]}
    tools = (refund([], approvers=["mia"], **traits),)
    app = app_of(support(tool_call("refund", {"amount": 5}), "done", tools=tools))
    async with served(app) as url, listening(url) as stream:
        await ask(url)
        asked = (await stream.until("hitl.requested"))["data"]["requestId"]
        await wait_until_idle(app)
        mine = [await queue(app, user) for user in ("ada", "mia", "boss", "eve")]
        assert [[one["mayAnswer"] for one in found] for found in mine] == [
            [False],
            [True],
            [True],
            [],
        ]
        assert (await answer(url, asked, "boss", action="deny")).status_code == 200
        await stream.until("stream.ended")

    async def by_amount(user: str, question: Question) -> bool:
        arguments: Any = question.calls[0].arguments
        return user == ("boss" if arguments["amount"] > 100 else "mia")

    network = support(tool_call("refund", {"amount": 249}), "done", tools=(refund([]),))
    app = app_of(network, may_answer=by_amount)
    async with served(app) as url, listening(url) as stream:
        await ask(url)
        await stream.until("hitl.requested")
        await wait_until_idle(app)
        assert [len(await queue(app, user)) for user in ("mia", "boss")] == [0, 1]
        await post(url, "/api/chat/cancel", {"threadId": "t1"})
        assert await queue(app, "boss") == []


async def test_a_person_changes_the_arguments_of_one_call_and_refuses_another() -> None:
    """The tool gets the new arguments, checked as the model's are; the model reads of it."""
    paid: list[int] = []
    calls = tool_calls(*(("refund", {"amount": amount}) for amount in (1, 2, 3)))
    network = support(calls, "done", tools=(refund(paid),))
    app = app_of(network, **STAFF)
    async with served(app) as url, listening(url) as stream:
        await ask(url)
        asked = (await stream.until("hitl.requested"))["data"]["requestId"]
        edited = {"index": 0, "action": "approve", "arguments": {"amount": 10}}
        denied = {"index": 1, "action": "deny", "reason": "too much"}
        said = await answer(url, asked, "mia", action=None, calls=[edited, denied])
        assert said.status_code == 200
        assert paid == []
        late = await answer(url, asked, "mia", action=None, calls=[denied | {"action": "approve"}])
        assert (late.status_code, late.json()["error"]["code"]) == (409, "already_answered")
        assert (
            await answer(url, asked, "mia", calls=[{"index": 7, "action": "deny"}])
        ).status_code == 400
        await answer(url, asked, "mia", action="deny", reason="no")
        await stream.until("stream.ended")
    assert paid == [10]
    model: Any = network.default_model
    model.assert_saw("A person changed the arguments", "too much", "refused the call")


async def test_changed_arguments_that_the_tool_does_not_take_are_refused_at_once() -> None:
    """The reason is told to those who may answer, and to nobody else."""
    paid: list[int] = []
    app = app_of(
        support(tool_call("refund", {"amount": 5}), "done", tools=(refund(paid),)), **STAFF
    )
    async with served(app) as url:
        await ask(url)
        await wait_until_idle(app)
        (asked,) = await queue(app, "mia")
        for given in ({"amount": "much"}, {"amount": [5]}, {}, {"amount": 5, "more": 1}):
            call = {"index": 0, "action": "approve", "arguments": given}
            said = await answer(url, asked["id"], "mia", action=None, calls=[call])
            assert (said.status_code, said.json()["error"]["code"]) == (400, "invalid_request")
            words = said.json()["error"]["message"]
            assert words.startswith("calls.0.arguments: "), words
            assert ("more" if "more" in given else "amount") in words
            assert (await answer(url, asked["id"], "eve", calls=[call])).status_code == 404
        twice = [{"index": 0, "action": action} for action in ("approve", "deny")]
        said = await answer(url, asked["id"], "mia", action=None, calls=twice)
        assert said.status_code == 400
        assert await queue(app, "mia") == [asked]
        call = {"index": 0, "action": "approve", "arguments": {"amount": 7}}
        assert (await answer(url, asked["id"], "mia", calls=[call])).status_code == 200
        await wait_until_idle(app)
    assert paid == [7]


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
async def test_a_refund_is_approved_on_another_worker_and_paid_once(
    kind: str, tmp_path: Path
) -> None:
    """The first worker is gone; staff answer at another, and the customer's page is told there."""
    paid: list[int] = []
    store: Any = SqliteHistory(tmp_path / "t.db") if kind == "sqlite" else MemoryHistory()

    def worker(*replies: Any) -> Any:
        tools = (refund(paid),)
        return app_of(support(*replies, tools=tools, history=store), **STAFF)

    first = worker("Let me see", tool_call("refund", {"amount": 249}))
    async with served(first) as url, listening(url) as stream:
        await post(url, "/api/chat", message("Hello", "t1"))
        await stream.until("stream.ended")
        await ask(url)
        before = await stream.until("hitl.requested")
    other = worker("Done, 249 are yours.")
    async with served(other) as url, listening(url, last_id=stream.last_id) as page:
        async with client_of(other) as client:
            shown = (await client.get("/api/threads/t1")).json()["pending"]
        assert [one["id"] for one in shown] == [before["data"]["requestId"]]
        answers = [answer(url, shown[0]["id"], "mia") for _ in range(3)]
        codes = [one.status_code for one in await asyncio.gather(*answers)]
        assert sorted(codes) == [200, 409, 409]
        await page.until("stream.ended")
    assert page.text.endswith("Done, 249 are yours.")
    assert page.names.count("hitl.requested") == 1
    again = next(one for one in page.chunks if one["event"] == "hitl.requested")
    assert (again["id"], again["sequenceNumber"]) == (before["id"], before["sequenceNumber"])
    assert paid == [249]


async def test_a_run_whose_answerer_died_is_gone_on_with_by_the_next_look() -> None:
    """The answer was stored, and its process died before it took the run."""
    paid: list[int] = []
    store = MemoryHistory()

    def worker(*replies: Any) -> Any:
        return app_of(support(*replies, tools=(refund(paid),), history=store), **STAFF)

    async with (
        served(worker(tool_call("refund", {"amount": 249}))) as url,
        listening(url) as stream,
    ):
        await ask(url)
        await stream.until("hitl.requested")
    (question,) = await store.list_questions()
    answer = ApprovalAnswer(approved=True, data={"resolvedBy": "mia"})
    at = datetime.now(UTC) - timedelta(minutes=1)
    await store.change_question(question.id, lambda known: known.closed(answer, at))
    async with served(worker("Done.")):
        while await store.list_questions(status="undelivered"):  # noqa: ASYNC110 - a look of the server's
            await asyncio.sleep(0.005)
    assert paid == [249]


async def test_the_queue_streams_questions_as_they_come_and_go() -> None:
    """Only those that the reader may see."""
    app = app_of(support(tool_call("refund", {"amount": 5}), "done", tools=(refund([]),)), **STAFF)
    async with (
        served(app) as url,
        listening(url, "mia", path="/api/approvals/stream") as staff,
        listening(url) as stream,
    ):
        await ask(url)
        asked = (await stream.until("hitl.requested"))["data"]["requestId"]
        kind, seen = await staff.next()
        assert (kind, seen["id"], seen["status"]) == ("approval", asked, "open")
        await answer(url, asked, "mia")
        _, closed = await staff.next()
        assert (closed["id"], closed["status"], closed["answeredBy"]) == (asked, "answered", "mia")


def test_an_api_without_anyone_to_answer_its_questions_is_refused() -> None:
    """It would wait for ever."""
    network = support(tools=(refund([]),))
    with pytest.raises(ConfigurationError, match=r"'refund' of 'clerk'.*approvers"):
        app_of(network, approvers=[])
    app_of(support(tools=(refund([], approvers=["mia"]),)), approvers=[])


async def test_a_run_that_another_process_took_and_died_with_hides_no_later_reply(
    tmp_path: Path,
) -> None:
    """This process heard nothing of it; it finds out when it looks at what is open."""
    begun = asyncio.Event()

    @tool(name="refund", needs_approval=True)
    async def forever(amount: int) -> str:
        """Take for ever."""
        del amount
        begun.set()
        return await asyncio.Future[str]()

    call, path = tool_call("refund", {"amount": 5}), tmp_path / "t.db"
    app = app_of(support(call, "Later.", call, tools=(refund([]),)), history=SqliteHistory(path))
    async with client_of(app) as client, lifespan(app):
        await said(app, "Money back!", "t1", id="m1")
        (question,) = (await client.get("/api/approvals")).json()["approvals"]
        async with SqliteHistory(path) as store:
            other = support("done", tools=(forever,), history=for_user(store, "ada"))
            resumed = asyncio.create_task(other.resume("t1", {question["id"]: True}))
            await begun.wait()
            await said(app, "And now?", "t1", id="m2")
            found = (await client.get("/api/threads/t1")).json()
            assert [m["type"] for m in found["messages"]] == ["user", "user", "agent"]
            await said(app, "Money back!", "t2")  # it looks whenever a question is asked
            while found["running"]:
                found = (await client.get("/api/threads/t1")).json()
            assert [m["type"] for m in found["messages"]] == ["user", "user", "agent"]
            resumed.cancel()
            await asyncio.gather(resumed, return_exceptions=True)


class TakenSlowly(MemoryHistory):
    """A store that takes its time once a paused run is taken, and counts looks at all questions."""

    def __init__(self) -> None:
        super().__init__()
        self.taken, self.goes_on = asyncio.Event(), asyncio.Event()
        self.looks = 0

    async def change_run(
        self,
        thread_id: str,
        run_id: str,
        change: Callable[[RunRecord], RunRecord | None],
    ) -> RunRecord | None:
        found = await super().change_run(thread_id, run_id, change)
        if found is not None and found.status == "running" and not self.taken.is_set():
            self.taken.set()
            await self.goes_on.wait()
        return found

    async def list_questions(self, **filters: Any) -> list[Question]:
        self.looks += self.taken.is_set() and filters == {"limit": None}
        return await super().list_questions(**filters)


class TakenWhileItPauses(TakenSlowly):
    """A store in which a run comes to its pause while its answer lets it continue."""

    def __init__(self) -> None:
        super().__init__()
        self.pausing = asyncio.Event()

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        await super().save_run(thread_id, run)
        if run.status == "paused":
            self.pausing.set()
            await self.taken.wait()


@pytest.mark.parametrize("kind", [TakenSlowly, TakenWhileItPauses])
async def test_a_look_during_a_run_does_not_take_it_for_a_run_of_another_process(
    kind: type[TakenSlowly],
) -> None:
    """Its readers were told that something is lost, and asked the same again."""
    store, paid = kind(), list[int]()
    call = tool_call("refund", {"amount": 5})
    app = app_of(support(call, call, call, call, tools=(refund(paid),)), history=store)
    async with served(app) as url, listening(url) as stream:
        await ask(url)
        asked = (await stream.until("hitl.requested"))["data"]
        if isinstance(store, TakenWhileItPauses):
            await store.pausing.wait()
        else:
            await wait_until_idle(app)
        answering = asyncio.create_task(decide(url, asked["requestId"]))
        await store.taken.wait()
        await wait_until_idle(app)
        for number in (2, 3, 4):  # it looks whenever a question is asked
            if store.looks < 2:
                await said(app, "Money back!", f"t{number}", user="eve")
        store.goes_on.set()
        assert (await answering).status_code == 200
        await stream.until("hitl.resolved")
    assert store.looks > 1
    assert stream.resets == []
    assert stream.names.count("hitl.requested") == 1
