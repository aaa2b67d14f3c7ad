"""A person decides: tools that need approval, checks, and tools that ask by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from agentkit_py import Agent, MemoryHistory, RunLimits, State, Tool, ToolContext, tool
from agentkit_py.errors import ConfigurationError, NonRetriableError
from agentkit_py.events import ApprovalAnswer, ApprovalRequest, Decision
from agentkit_py.events.approvals import resolution_of
from agentkit_py.messages import ToolCall
from agentkit_py.runs import StreamingConfig
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls

from .runner import Runner


@dataclass
class Bank:
    """The effects of refunds, and the approval requests that the person got."""

    budget: int = 1000
    refunds: list[int] = field(default_factory=list[int])
    asked: list[ApprovalRequest] = field(default_factory=list[ApprovalRequest])

    def refund(self, **traits: Any) -> Tool:
        """The tool."""

        @tool(name="refund", **traits)
        def refund(amount: int) -> str:
            """Pay money back."""
            self.refunds.append(amount)
            self.budget -= amount
            return f"paid {amount}"

        return refund

    def within_budget(self, ctx: ToolContext) -> str | None:
        """The check."""
        if ctx.arguments.amount <= self.budget:
            return None
        return f"only {self.budget} left"

    def says(self, answer: Any) -> Callable[[ApprovalRequest], Any]:
        """A person who answers this to everything."""

        def approver(request: ApprovalRequest) -> Any:
            self.asked.append(request)
            return answer(request) if callable(answer) else answer

        return approver


async def nobody(_request: ApprovalRequest) -> bool:
    """Never answers."""
    await anyio.sleep_forever()
    return True


def large(ctx: ToolContext) -> bool:
    """Return whether the call needs approval."""
    return ctx.arguments.amount > 100


def true(_ctx: ToolContext) -> Any:
    """No sentence."""
    return True


def refunds(*amounts: int) -> Any:
    """A reply that wants these refunds."""
    return tool_calls(*(("refund", {"amount": amount}) for amount in amounts))


async def results(runner: Runner, made: Tool, reply: Any, **options: Any) -> list[Any]:
    """Let a model call the tool, and return the contents it then reads."""
    model = ScriptedModel(reply, "done")
    parallel = options.pop("parallel", False)
    agent = Agent(
        name="clerk",
        system="S",
        tools=[made],
        model=model,
        max_iter=2,
        parallel_tools=parallel,
    )
    state: State[Any] = options.setdefault("state", State())
    await runner.run(agent, "q?", **options)
    model.assert_finished()
    return [one.content for one in state.results[-2].tool_calls]


def error_of(content: Any) -> tuple[str, str]:
    """Name and message of an error as the model reads it."""
    return content["error"]["name"], content["error"]["message"]


@pytest.fixture
def bank() -> Bank:
    """A new one."""
    return Bank()


async def test_an_approved_call_is_carried_out(runner: Runner, bank: Bank) -> None:
    """Once, and the model reads its result."""
    found = await results(
        runner, bank.refund(needs_approval=True), refunds(50), approver=bank.says(True)
    )
    assert (found, bank.refunds) == ([{"data": "paid 50"}], [50])


async def test_the_person_sees_agent_tool_and_arguments(runner: Runner, bank: Bank) -> None:
    """The request also has the time at which it expires."""
    await results(runner, bank.refund(needs_approval=True), refunds(50), approver=bank.says(True))
    (request,) = bank.asked
    assert (request.agent, request.timeout) == ("clerk", 4 * 3600)
    assert [(call.name, call.arguments) for call in request.calls] == [("refund", {"amount": 50})]
    assert request.asked_at is not None
    assert request.expires_at == request.asked_at + timedelta(hours=4)


async def test_a_denied_call_is_not_carried_out_and_the_model_reads_why(
    runner: Runner, bank: Bank
) -> None:
    """The reason keeps the model from trying the same call again."""
    answer = ApprovalAnswer(approved=False, reason="Too much for a late train.")
    found = await results(
        runner, bank.refund(needs_approval=True), refunds(50), approver=bank.says(answer)
    )
    assert bank.refunds == []
    assert [error_of(one) for one in found] == [
        (
            "ApprovalDeniedError",
            "A person refused the call of refund. Reason: Too much for a late train.",
        )
    ]


async def test_a_refusal_needs_no_reason(runner: Runner, bank: Bank) -> None:
    """False is an answer."""
    found = await results(
        runner, bank.refund(needs_approval=True), refunds(50), approver=bank.says(False)
    )
    assert error_of(found[0]) == ("ApprovalDeniedError", "A person refused the call of refund.")


async def test_an_unanswered_question_is_refused_after_its_time(runner: Runner, bank: Bank) -> None:
    """The question lapses, nothing is done, and the run continues."""
    made = bank.refund(needs_approval=True, approval_timeout=timedelta(milliseconds=1))
    found = await results(runner, made, refunds(50), approver=nobody)
    assert bank.refunds == []
    assert error_of(found[0])[0] == "ApprovalTimeoutError"


async def test_an_approver_may_be_async(runner: Runner, bank: Bank) -> None:
    """It asks over a network, say."""

    async def approver(request: ApprovalRequest) -> bool:
        await anyio.lowlevel.checkpoint()
        return request.calls[0].name == "refund"

    found = await results(runner, bank.refund(needs_approval=True), refunds(50), approver=approver)
    assert found == [{"data": "paid 50"}]


async def test_an_approver_that_answers_neither_yes_nor_no_approves_nothing(
    runner: Runner, bank: Bank
) -> None:
    """A function without `return` is a mistake, not a yes."""
    with pytest.raises(ConfigurationError, match="must return True, False or an ApprovalAnswer"):
        await results(
            runner, bank.refund(needs_approval=True), refunds(50), approver=bank.says(None)
        )
    assert bank.refunds == []


@pytest.mark.direct_only("an Inngest function can ask: it waits for an event")
async def test_without_an_approver_the_run_fails_with_advice(runner: Runner, bank: Bank) -> None:
    """It must not wait for nobody, nor continue without an answer."""
    with pytest.raises(ConfigurationError, match=r"refund.*Pass approver=…"):
        await results(runner, bank.refund(needs_approval=True), refunds(50))
    assert bank.refunds == []


@pytest.mark.parametrize("parallel", [False, True])
async def test_several_calls_of_one_reply_are_one_question(
    runner: Runner, bank: Bank, parallel: bool
) -> None:
    """Each call gets its own answer."""
    calls = {1: Decision(approved=False, reason="Not this one.")}
    answer = ApprovalAnswer(approved=True, calls=calls)
    made = bank.refund(needs_approval=True)
    reply = refunds(10, 20, 30)
    found = await results(runner, made, reply, approver=bank.says(answer), parallel=parallel)
    assert [len(request.calls) for request in bank.asked] == [3]
    assert (found[0], found[2]) == ({"data": "paid 10"}, {"data": "paid 30"})
    assert error_of(found[1])[1].endswith("Reason: Not this one.")
    assert sorted(bank.refunds) == [10, 30]


async def test_a_predicate_decides_which_calls_need_a_person(runner: Runner, bank: Bank) -> None:
    """Small ones go through; indexes in the answer are those of the question."""
    made = bank.refund(needs_approval=large)
    answer = ApprovalAnswer(approved=True, calls={0: Decision(approved=False)})
    found = await results(runner, made, refunds(50, 200, 300), approver=bank.says(answer))
    assert [[call.arguments for call in request.calls] for request in bank.asked] == [
        [{"amount": 200}, {"amount": 300}]
    ]
    assert bank.refunds == [50, 300]
    assert error_of(found[1])[0] == "ApprovalDeniedError"


async def test_a_predicate_may_be_async_and_read_the_state(runner: Runner, bank: Bank) -> None:
    """Like every callback."""

    async def unless_trusted(ctx: ToolContext) -> bool:
        return not ctx.state.data["trusted"]

    made = bank.refund(needs_approval=unless_trusted)
    found = await results(runner, made, refunds(50), state=State({"trusted": True}))
    assert found == [{"data": "paid 50"}]


async def test_a_predicate_that_fails_lets_nothing_through(runner: Runner, bank: Bank) -> None:
    """The model reads the error, as it reads a tool's."""

    def broken(_ctx: ToolContext) -> bool:
        raise KeyError("trusted")

    found = await results(
        runner, bank.refund(needs_approval=broken), refunds(50), approver=bank.says(True)
    )
    assert error_of(found[0]) == ("KeyError", "'trusted'")
    assert (bank.refunds, bank.asked) == ([], [])


@pytest.mark.parametrize("trait", ["needs_approval", "check"])
async def test_a_callback_can_end_the_run(runner: Runner, bank: Bank, trait: str) -> None:
    """A callback that raises `NonRetriableError` ends the run, like a tool that does."""

    def stop(_ctx: ToolContext) -> Any:
        raise NonRetriableError("no database")

    traits = {"needs_approval": True, trait: stop}
    with pytest.raises(NonRetriableError, match="no database"):
        await results(runner, bank.refund(**traits), refunds(50), approver=bank.says(True))


async def test_no_person_is_asked_about_a_call_that_cannot_be_carried_out(
    runner: Runner, bank: Bank
) -> None:
    """The check comes first."""
    made = bank.refund(needs_approval=True, check=bank.within_budget)
    found = await results(runner, made, refunds(5000, 10), approver=bank.says(True))
    assert error_of(found[0]) == ("PreconditionError", "only 1000 left")
    assert [len(request.calls) for request in bank.asked] == [1]
    assert bank.refunds == [10]


async def test_conditions_that_changed_while_a_person_thought_are_checked_again(
    runner: Runner, bank: Bank
) -> None:
    """An approval is for the world as the person saw it."""

    def meanwhile(_request: ApprovalRequest) -> bool:
        bank.budget = 5
        return True

    made = bank.refund(needs_approval=True, check=bank.within_budget)
    found = await results(runner, made, refunds(50), approver=bank.says(meanwhile))
    assert error_of(found[0]) == ("PreconditionError", "only 5 left")
    assert bank.refunds == []


async def test_a_check_sees_the_effects_of_the_calls_before_it(runner: Runner, bank: Bank) -> None:
    """Both fit alone, together they do not."""
    made = bank.refund(needs_approval=True, check=bank.within_budget)
    found = await results(runner, made, refunds(600, 600), approver=bank.says(True))
    assert bank.refunds == [600]
    assert error_of(found[1]) == ("PreconditionError", "only 400 left")


async def test_a_check_also_guards_calls_without_approval(runner: Runner, bank: Bank) -> None:
    """Just before they are carried out."""
    found = await results(runner, bank.refund(check=bank.within_budget), refunds(600, 600))
    assert bank.refunds == [600]
    assert error_of(found[1])[0] == "PreconditionError"


async def test_a_check_that_fails_is_an_objection(runner: Runner, bank: Bank) -> None:
    """A call that cannot be checked must not be made."""

    async def broken(_ctx: ToolContext) -> str | None:
        raise TimeoutError("no answer from the bank")

    found = await results(runner, bank.refund(check=broken), refunds(50))
    assert error_of(found[0]) == ("TimeoutError", "no answer from the bank")
    assert bank.refunds == []


async def test_a_check_that_gives_no_sentence_is_a_mistake(runner: Runner, bank: Bank) -> None:
    """Is True "all is well" or "something is wrong"? Nobody has to guess."""
    with pytest.raises(ConfigurationError, match="must return a sentence or None, got True"):
        await results(runner, bank.refund(check=true), refunds(50))
    assert bank.refunds == []


async def test_no_person_is_asked_about_invalid_arguments(runner: Runner, bank: Bank) -> None:
    """The model has to mend them first."""
    reply = tool_calls(("refund", {"amount": "all of it"}), ("nothing", {}))
    found = await results(runner, bank.refund(needs_approval=True), reply, approver=bank.says(True))
    assert [error_of(one)[0] for one in found] == ["InvalidArgumentsError", "UnknownToolError"]
    assert bank.asked == []


async def test_a_tool_may_ask_by_itself(runner: Runner) -> None:
    """The tool chooses the question, and may ask more than once."""
    asked: list[tuple[str, int, float]] = []

    def approver(request: ApprovalRequest) -> ApprovalAnswer:
        asked.append((request.message, len(request.calls), request.timeout))
        return ApprovalAnswer(approved=True, data={"seat": "window"})

    @tool(steps=True)
    async def book(ctx: ToolContext) -> Any:
        """Book a seat."""
        first = await ctx.approve("Which seat?", timeout=timedelta(minutes=5))
        second = await ctx.approve("Sure?")
        return [first and first.data["seat"], second and second.approved]

    found = await results(runner, book, tool_call("book"), approver=approver)
    assert found == [{"data": ["window", True]}]
    assert asked == [("Which seat?", 0, 300), ("Sure?", 0, 4 * 3600)]


async def test_a_tool_learns_that_its_question_was_not_answered(runner: Runner) -> None:
    """The tool decides what a missing answer means."""

    @tool(steps=True)
    async def book(ctx: ToolContext) -> str:
        """Book a seat."""
        answer = await ctx.approve("Sure?", timeout=timedelta(milliseconds=1))
        return "lapsed" if answer is None else "answered"

    found = await results(runner, book, tool_call("book"), approver=nobody)
    assert found == [{"data": "lapsed"}]


async def test_time_in_which_a_person_thinks_is_not_the_tools_time(runner: Runner) -> None:
    """A limit of seconds for tools must not cut off what takes minutes."""

    async def slow(_request: ApprovalRequest) -> bool:
        await anyio.sleep(0.05)
        return True

    @tool(steps=True)
    async def book(ctx: ToolContext) -> str:
        """Book a seat."""
        return "booked" if await ctx.approve("Sure?") else "not booked"

    limits = RunLimits(tool_timeout=0.001)
    found = await results(runner, book, tool_call("book"), approver=slow, limits=limits)
    assert found == [{"data": "booked"}]


@pytest.mark.parametrize("what", ["approve", "wait", "step"])
async def test_only_a_tool_made_of_steps_may_wait(runner: Runner, what: str) -> None:
    """Said in a direct run already, not when the network is deployed."""

    @tool
    async def book(ctx: ToolContext) -> None:
        """Book a seat."""
        if what == "approve":
            await ctx.approve("Sure?")
        elif what == "wait":
            await ctx.wait_for_event("seat/freed", timeout=timedelta(hours=1))
        else:
            await ctx.step.sleep("a while", timedelta(0))

    with pytest.raises(ConfigurationError, match=r"needs steps=True: @tool\(steps=True\)"):
        await results(runner, book, tool_call("book"), approver=Bank().says(True))


@pytest.mark.direct_only("an Inngest function can wait for an event")
async def test_an_event_can_only_be_waited_for_in_an_inngest_function(runner: Runner) -> None:
    """A direct run receives no events."""

    @tool(steps=True)
    async def book(ctx: ToolContext) -> None:
        """Book a seat."""
        await ctx.wait_for_event("seat/freed", timeout=timedelta(hours=1))

    with pytest.raises(ConfigurationError, match=r"event 'seat/freed', which only an Inngest"):
        await results(runner, book, tool_call("book"))


async def test_each_call_has_a_key_of_its_own(runner: Runner) -> None:
    """Other systems may use the key to recognise a repeated call."""
    keys: list[str] = []

    @tool
    def pay(ctx: ToolContext) -> None:
        """Pay."""
        keys.extend([ctx.idempotency_key, ctx.idempotency_key])

    await results(runner, pay, tool_calls(("pay", {}), ("pay", {})))
    assert (keys[0], keys[2]) == (keys[1], keys[3])
    assert keys[0] != keys[2]


async def test_nothing_is_locked_while_a_person_thinks(runner: Runner) -> None:
    """A second run on the same thread and store must not wait for the answer."""
    store = MemoryHistory()
    bank = Bank()

    async def meanwhile(_request: ApprovalRequest) -> bool:
        other = Agent(
            name="other", system="S", model=ScriptedModel("Your turn is noted."), history=store
        )
        turn = Runner(runner.mode).run(other, "Are you still there?", thread_id="t")
        await asyncio.create_task(turn, context=Context())  # another request, and no part of this
        return True

    model = ScriptedModel(refunds(50), "Paid.")
    agent = Agent(
        name="clerk",
        system="S",
        tools=[bank.refund(needs_approval=True)],
        model=model,
        max_iter=2,
        history=store,
    )
    await runner.run(agent, "Refund, please.", thread_id="t", approver=meanwhile)
    texts = [m.text for r in await store.load("t") for m in r.output if m.type == "text"]
    assert (bank.refunds, texts[-1]) == ([50], "Paid.")
    assert "Your turn is noted." in texts


async def test_the_question_and_the_answer_are_streamed(runner: Runner, bank: Bank) -> None:
    """Chunks have TypeScript's names; the calls are streamed before the question."""
    chunks: list[dict[str, Any]] = []

    async def publish(chunk: dict[str, Any]) -> None:
        chunks.append(chunk)

    answer = ApprovalAnswer(
        approved=True,
        calls={1: Decision(approved=False, reason="No.")},
        data={"resolvedBy": "u1", "resolvedAt": "2026-01-01T00:00:00Z"},
    )
    await results(
        runner,
        bank.refund(needs_approval=True),
        refunds(10, 20),
        approver=bank.says(answer),
        streaming=StreamingConfig(publish=publish),
    )
    (request,) = bank.asked
    calls = [c["data"] for c in chunks if c["data"].get("type") == "tool-call"]
    parts = [c["partId"] for c in calls if "finalContent" not in c]
    data = {c["event"]: c["data"] for c in chunks if c["event"].startswith("hitl.")}
    asked, resolved = data["hitl.requested"], data["hitl.resolved"]
    assert asked["toolCalls"] == [
        {
            "index": index,
            "toolCallId": request.calls[index].id,
            "toolName": "refund",
            "toolInput": {"amount": amount},
            "partId": parts[index],
        }
        for index, amount in enumerate([10, 20])
    ]
    assert (asked["requestId"], asked["type"]) == (request.id, "tool_approval")
    assert asked["expiresAt"] == request.expires_at.isoformat()  # type: ignore[union-attr] - it has one
    assert len(parts) == 2
    assert resolved["requestId"] == request.id
    assert resolved["resolution"] == "partial"
    assert resolved["approvedTools"] == ["refund"]
    assert [one["approved"] for one in resolved["decisions"]] == [True, False]
    assert resolved["resolvedAt"] == "2026-01-01T00:00:00Z"
    assert "resolvedBy" not in resolved  # the id of a person who is not the user
    order = [c["event"] for c in chunks]
    assert order.index("part.created") < order.index("hitl.requested")
    assert order.index("hitl.resolved") < order.index("tool_call.output.delta")


async def test_a_question_without_calls_is_streamed_with_its_words(runner: Runner) -> None:
    """The question is where TypeScript streams the reason."""
    chunks: list[dict[str, Any]] = []

    async def publish(chunk: dict[str, Any]) -> None:
        chunks.append(chunk)

    @tool(steps=True)
    async def book(ctx: ToolContext) -> str:
        """Book a seat."""
        await ctx.approve("Sure?", timeout=timedelta(milliseconds=1))
        return "asked"

    await results(
        runner,
        book,
        tool_call("book"),
        approver=nobody,
        streaming=StreamingConfig(publish=publish),
    )
    found = {c["event"]: c["data"] for c in chunks if c["event"].startswith("hitl.")}
    asked = found["hitl.requested"]
    assert (asked["type"], asked["toolCalls"]) == ("question", [])
    assert asked["metadata"] == {"reason": "Sure?"}
    assert found["hitl.resolved"]["resolution"] == "expired"


CALL = ToolCall("c", "refund")


@pytest.mark.parametrize(
    ("record", "approved"),
    [
        ({"approved": True}, [True, True]),
        ({"approved": False}, [False, False]),
        ({}, [False, False]),
        ({"approved": "true"}, [False, False]),
        ({"approved": 1}, [False, False]),
        ({"approved": True, "calls": {"1": False}}, [True, False]),
        ({"approved": True, "calls": {"1": {"approved": "yes"}}}, [True, False]),
        ({"calls": {"0": {"approved": True}}}, [True, False]),
        ({"calls": [{"index": 1, "approved": True}]}, [False, True]),
        ({"approved": True, "calls": [{"index": "1", "approved": False}]}, [True, False]),
        ({"approved": True, "calls": [{"approved": False}]}, [False, False]),
        ({"approved": True, "calls": {"second": False}}, [False, False]),
        ({"approved": True, "calls": "all"}, [False, False]),
        ({"approved": True, "calls": {"²": False}}, [False, False]),
        ({"approved": True, "calls": [{"index": True, "approved": True}]}, [False, False]),
        ({"approved": True, "calls": None, "reason": 5}, [True, True]),
    ],
)
def test_only_a_plain_yes_approves(record: dict[str, Any], approved: list[bool]) -> None:
    """Answers come from outside; whatever is not understood is a refusal."""
    answer = ApprovalAnswer.from_dict(record)
    assert [answer.on(index).approved for index in range(2)] == approved
    assert ApprovalAnswer.from_dict(answer.to_dict()) == answer


@pytest.mark.parametrize(
    ("answer", "resolution"),
    [
        (None, "expired"),
        (ApprovalAnswer(approved=True), "approved"),
        (ApprovalAnswer(approved=False), "denied"),
        (ApprovalAnswer(approved=True, calls={0: Decision(approved=False)}), "partial"),
        (ApprovalAnswer(approved=False, calls={0: Decision(True), 1: Decision(True)}), "approved"),
    ],
)
def test_the_resolution_holds_the_outcome_of_the_calls(
    answer: ApprovalAnswer | None, resolution: str
) -> None:
    """Decisions on calls that were not in the question are ignored."""
    request = ApprovalRequest(id="r", agent="a", calls=(CALL, CALL), timeout=1)
    assert resolution_of(request, answer) == resolution
