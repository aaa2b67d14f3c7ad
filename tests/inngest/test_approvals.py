"""A person decides, in an Inngest function: it waits for an event, and nothing waits with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, MemoryHistory, Network, RouterContext, Tool, ToolContext, tool
from agentkit_py.events import ApprovalAnswer, ApprovalRequest
from agentkit_py.events.approvals import APPROVAL_EVENT
from agentkit_py.inngest import create_functions
from agentkit_py.routing import together
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls
from agentkit_py.testing.executor import KillAt, ReplayExecutor, Run, Wait, kill_points

EVENT = "bank/network-bank"


@dataclass
class Bank:
    """The effects of refunds."""

    budget: int = 1000
    refunds: list[int] = field(default_factory=list[int])
    checks: int = 0

    def within_budget(self, ctx: ToolContext) -> str | None:
        """The check."""
        self.checks += 1
        return None if ctx.arguments.amount <= self.budget else f"only {self.budget} left"

    def refund(self, **traits: Any) -> Tool:
        """The tool."""
        traits.setdefault("needs_approval", True)

        @tool(name="refund", **traits)
        def refund(amount: int) -> str:
            """Pay money back."""
            self.refunds.append(amount)
            self.budget -= amount
            return f"paid {amount}"

        return refund


@dataclass
class Desk:
    """A network of one clerk, served as an Inngest function."""

    made: Tool
    model: ScriptedModel
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    realtime: bool = False
    parallel_tools: bool = False
    history: MemoryHistory | None = None

    def network(self) -> Network:
        """The network."""
        clerk = Agent(
            name="clerk",
            system="S",
            tools=[self.made],
            model=self.model,
            max_iter=3,
            parallel_tools=self.parallel_tools,
        )
        once = [clerk]

        def router(context: RouterContext) -> Agent | None:
            return once[0] if context.call_count == 0 else None

        return Network(name="bank", agents=[clerk], router=router, history=self.history)

    def executor(self, **options: Any) -> ReplayExecutor:
        """Return an executor of the network's functions."""
        client = inngest.Inngest(app_id="bank", is_production=False)

        def functions() -> list[inngest.Function[Any]]:
            return create_functions(
                client, networks=[self.network()], inference="offload", realtime=self.realtime
            )

        settings: dict[str, Any] = {"transport": self.model.fake.transport, "check": True}
        return ReplayExecutor(client, functions, **{**settings, **options})

    async def run(self, answer: Mapping[str, Any] | None, **options: Any) -> Run:
        """Run it, with one answer to everything."""
        run = await self.executor(**options).run(EVENT, {"input": "q?"}, answer=says(answer))
        assert run.differences == []
        assert run.status == "completed", run.error
        return run


def approval_id(wait: Wait) -> str:
    """The question's id, as the run waits for it."""
    found = re.fullmatch(r"async\.data\.approvalId == '([0-9a-f-]+)'", wait.expression or "")
    assert (wait.event, found is not None) == (APPROVAL_EVENT, True)
    assert found is not None
    return found[1]


def says(answer: Mapping[str, Any] | None) -> Callable[[Wait], Mapping[str, Any] | None]:
    """A person who answers this to every question, or does not."""

    def answerer(wait: Wait) -> Mapping[str, Any] | None:
        return None if answer is None else {"approvalId": approval_id(wait), **answer}

    return answerer


def refunds(*amounts: int) -> Any:
    """A reply that wants these refunds."""
    return tool_calls(*(("refund", {"amount": amount}) for amount in amounts))


def desk(made: Tool, *replies: Any, **settings: Any) -> Desk:
    """A desk whose model says this."""
    return Desk(made, ScriptedModel(*replies), **settings)


def contents(run: Run) -> list[Any]:
    """Return the contents of the tool results that the model got."""
    records = run.output["results"]
    return [call["content"] for record in records for call in record["toolCalls"]]


@pytest.fixture
def bank() -> Bank:
    """A new one."""
    return Bank()


async def test_a_question_costs_one_step_and_its_call_is_carried_out_once(bank: Bank) -> None:
    """Waiting itself; asking, streaming and the answer cost none, and replays repeat nothing."""
    run = await desk(bank.refund(), refunds(50), "Paid.").run({"approved": True})
    assert (contents(run), bank.refunds) == ([{"data": "paid 50"}], [50])
    assert run.output["text"] == "Paid."
    assert run.names == [
        "bank.clerk.0.0.infer",
        "bank.clerk.0.0.approve",
        "bank.clerk.0.0.tool.0.refund",
        "bank.clerk.0.1.infer",
    ]


async def test_a_question_lapses(bank: Bank) -> None:
    """The run continues after four hours, or what the tool says, without having done anything."""
    made = desk(bank.refund(approval_timeout=timedelta(minutes=30)), refunds(50), "Later.")
    executor = made.executor()
    run = await executor.start(EVENT, {"input": "q?"})
    await executor.advance(29 * 60)
    assert (run.status, run.waiting_for) == ("running", [APPROVAL_EVENT])
    await executor.advance(2 * 60)
    assert (run.status, bank.refunds) == ("completed", [])
    assert contents(run)[0]["error"]["name"] == "ApprovalTimeoutError"


@pytest.mark.parametrize("parallel", [False, True])
async def test_several_calls_of_one_reply_are_one_question(bank: Bank, parallel: bool) -> None:
    """Each call gets its own answer, one after another or in parallel."""
    made = desk(bank.refund(), refunds(10, 20, 30), "Two paid.", parallel_tools=parallel)
    run = await made.run({"approved": True, "calls": {"1": {"approved": False, "reason": "No."}}})
    found = contents(run)
    assert sum(name.endswith(".approve") for name in run.names) == 1
    assert (found[0], found[2]) == ({"data": "paid 10"}, {"data": "paid 30"})
    assert found[1]["error"]["name"] == "ApprovalDeniedError"
    made.model.assert_saw("A person refused the call of refund. Reason: No.")
    assert sorted(bank.refunds) == [10, 30]


async def test_an_answer_to_another_question_changes_nothing(bank: Bank) -> None:
    """Two customers wait, one is answered."""
    made = desk(bank.refund(), refunds(50), refunds(60), "Paid.")
    executor = made.executor()
    first = await executor.start(EVENT, {"input": "q?"})
    second = await executor.start(EVENT, {"input": "q?"})
    (wait,) = second.waits.values()
    await executor.send_event(APPROVAL_EVENT, {"approvalId": approval_id(wait), "approved": True})
    assert (first.status, second.status) == ("running", "completed")
    assert bank.refunds == [60]


async def test_a_check_runs_twice_and_no_more(bank: Bank) -> None:
    """It runs before the question and before the call; replays reuse its answer."""
    run = await desk(bank.refund(check=bank.within_budget), refunds(50), "Paid.").run(
        {"approved": True}
    )
    assert bank.checks == 2
    assert [name for name in run.names if "infer" not in name] == [
        "bank.clerk.0.0.before",
        "bank.clerk.0.0.approve",
        "bank.clerk.0.0.tool.0.refund",
    ]


async def test_a_predicate_is_asked_once(bank: Bank) -> None:
    """A replay must not ask it again, since the answer may change."""
    asked: list[int] = []

    def first_time(ctx: ToolContext) -> bool:
        asked.append(ctx.arguments.amount)
        return len(asked) == 1

    run = await desk(bank.refund(needs_approval=first_time), refunds(50), "Paid.").run(
        {"approved": True}
    )
    assert (asked, bank.refunds) == ([50], [50])
    assert sum(name.endswith(".approve") for name in run.names) == 1


async def test_nothing_is_locked_while_a_person_thinks(bank: Bank) -> None:
    """A second run of the same customer on the same thread must not wait for the answer."""
    store = MemoryHistory()
    made = desk(bank.refund(), refunds(50), "I am here.", "Paid.", history=store)
    executor = made.executor()
    first = await executor.start(EVENT, {"input": "Refund, please.", "threadId": "t"})
    second = await executor.run(EVENT, {"input": "Still there?", "threadId": "t"})
    assert (first.status, second.status) == ("running", "completed")
    await executor.finish(first, answer=says({"approved": True}))
    assert first.status == "completed"
    texts = [m.text for r in await store.load("t") for m in r.messages if m.type == "text"]
    assert texts == ["Refund, please.", "Still there?", "I am here.", "Paid."]
    assert bank.refunds == [50]


async def test_a_tool_may_ask_and_wait_by_itself() -> None:
    """Each question and each event is a step of its own, in each call."""

    @tool(steps=True)
    async def book(ctx: ToolContext) -> Any:
        """Book a seat."""
        answer = await ctx.approve("Which seat?")
        freed = await ctx.wait_for_event("seat/freed", timeout=timedelta(hours=1))
        late = await ctx.wait_for_event("seat/freed", timeout=timedelta(hours=1))
        return [answer and answer.data["seat"], freed.data["seat"], late]

    def person(wait: Wait) -> Mapping[str, Any] | None:
        if wait.event == APPROVAL_EVENT:
            return {"approvalId": approval_id(wait), "approved": True, "seat": "window"}
        return {"seat": "12A"} if wait.step.name.endswith("2") else None

    made = desk(book, tool_calls(("book", {}), ("book", {})), "Booked.")
    executor = made.executor()
    run = await executor.run(EVENT, {"input": "q?"}, answer=person)
    assert (run.status, run.differences) == ("completed", [])
    assert contents(run) == [{"data": ["window", "12A", None]}] * 2
    assert [name for name in run.names if ".tool." in name] == [
        f"bank.clerk.0.0.tool.{call}.book.{step}"
        for call in range(2)
        for step in ("approve.1", "wait.seat/freed.2", "wait.seat/freed.3")
    ]


async def test_a_person_in_the_process_is_asked_once() -> None:
    """A replay remembers what the approver said."""
    bank, asked = Bank(), list[ApprovalRequest]()

    async def approver(request: ApprovalRequest) -> ApprovalAnswer:
        asked.append(request)
        return ApprovalAnswer(approved=True, data={"resolvedBy": "u1"})

    made = desk(bank.refund(), refunds(50), "Paid.")
    client = inngest.Inngest(app_id="bank", is_production=False)

    @client.create_function(fn_id="own", trigger=inngest.TriggerEvent(event="own"))
    async def function(ctx: inngest.Context) -> str:
        return (await made.network().run("q?", ctx=ctx, approver=approver)).text

    executor = ReplayExecutor(client, [function], transport=made.model.fake.transport, check=True)
    run = await executor.run("own")
    assert (run.output, run.differences, len(asked), bank.refunds) == ("Paid.", [], 1, [50])


async def test_the_question_is_streamed_when_it_is_asked_and_the_answer_when_it_comes(
    bank: Bank,
) -> None:
    """Each once, over realtime."""
    executor = desk(bank.refund(), refunds(50), "Paid.", realtime=True).executor()
    run = await executor.start(EVENT, {"input": "q?", "userId": "u1"})

    def hitl() -> dict[str, Any]:
        chunks = {one.data["id"]: one.data for one in executor.published}
        names = [chunk["event"] for chunk in chunks.values()]
        assert len(names) == len({*names}) or names.count("hitl.requested") <= 1
        return {c["event"]: c["data"] for c in chunks.values() if c["event"].startswith("hitl.")}

    asked = hitl()
    assert list(asked) == ["hitl.requested"]
    (wait,) = run.waits.values()
    request = asked["hitl.requested"]
    assert request["requestId"] == approval_id(wait)
    assert [call["toolInput"] for call in request["toolCalls"]] == [{"amount": 50}]
    await executor.finish(run, answer=says({"approved": True, "resolvedBy": "u2"}))
    resolved = hitl()["hitl.resolved"]
    assert (resolved["requestId"], resolved["resolution"]) == (request["requestId"], "approved")
    assert "resolvedBy" not in resolved  # ids of staff are not for the user who reads the stream


async def test_agents_at_the_same_time_ask_for_themselves(bank: Bank) -> None:
    """No agent waits for the other's answer."""
    left, right = (
        Agent(
            name=name,
            system="S",
            tools=[bank.refund()],
            model=ScriptedModel(refunds(amount), "Paid."),
            max_iter=2,
        )
        for name, amount in (("left", 1), ("right", 2))
    )

    def router(context: RouterContext) -> Any:
        return together(left, right) if context.call_count == 0 else None

    network = Network(name="bank", agents=[left, right], router=router)
    client = inngest.Inngest(app_id="bank", is_production=False)
    functions = create_functions(client, networks=[network], inference="local")
    executor = ReplayExecutor(client, functions, check=True)
    run = await executor.start(EVENT, {"input": "q?"})
    assert run.waiting_for == [APPROVAL_EVENT] * 2
    await executor.finish(run, answer=says({"approved": True}))
    assert (run.status, run.differences, sorted(bank.refunds)) == ("completed", [], [1, 2])


async def test_a_kill_anywhere_around_a_question_changes_nothing() -> None:
    """The question is the same, its answer counts, and what is approved happens once."""

    async def outcome(**options: Any) -> tuple[Run, list[int]]:
        bank = Bank()
        made = desk(bank.refund(check=bank.within_budget), refunds(10, 20), "Paid.")
        return await made.run({"approved": True}, check=False, **options), bank.refunds

    reference, refunded = await outcome()
    assert refunded == [10, 20]
    points = list(kill_points(reference.requests))
    assert len(points) >= 18
    for point in points:
        run, happened = await outcome(kill=point)
        # A step that is killed while it runs happens again, and only that one.
        assert set(happened) == {10, 20}
        assert len(happened) <= 2 + (point.when == "inside"), point
        assert contents(run) == contents(reference), point
        assert run.names == reference.names, point


async def test_a_worker_that_dies_while_a_person_thinks_is_not_missed(bank: Bank) -> None:
    """No code runs during the wait, so nothing is lost."""
    executor = desk(bank.refund(), refunds(50), "Paid.").executor()
    run = await executor.start(EVENT, {"input": "q?"})
    executor.restart()
    await executor.finish(run, answer=says({"approved": True}))
    assert (run.status, bank.refunds) == ("completed", [50])


async def test_a_call_that_is_made_again_has_the_key_of_the_first() -> None:
    """No other call has the key."""
    keys: list[str] = []

    @tool
    def refund(amount: int, ctx: ToolContext) -> str:
        """Pay money back."""
        assert ctx.idempotency_key == ctx.idempotency_key
        keys.append(ctx.idempotency_key)
        return f"paid {amount}"

    made = desk(refund, refunds(5, 5), "Paid.")
    kill = KillAt(step="bank.clerk.0.0.tool.0.refund", when="inside")
    await made.run({}, check=False, kill=kill)
    assert (len(keys), keys[0] == keys[1], len(set(keys))) == (3, True, 2)


async def test_a_model_cannot_answer_for_the_person() -> None:
    """An ``approved`` argument of the model is an argument like any other."""
    bank = Bank()
    made = desk(bank.refund(), tool_call("refund", {"amount": 5, "approved": True}), "No.")
    run = await made.run({})
    assert bank.refunds == []
    assert "error" in contents(run)[0]
