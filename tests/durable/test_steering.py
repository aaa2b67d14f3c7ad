"""A message that comes while agents work on its thread waits, steers or interrupts."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from os import environ
from pathlib import Path
from typing import Any, Literal, TypeAlias

import inngest
import pytest

from agentkit_py import (
    Agent,
    AgentResult,
    MemoryHistory,
    Network,
    RouterContext,
    RoutingAgent,
    TextMessage,
    ToolContext,
    UserMessage,
    tool,
)
from agentkit_py.errors import ConfigurationError
from agentkit_py.guardrails import Guardrail, Tripwire
from agentkit_py.history import StaffDesk
from agentkit_py.history.leases import OnBusy, ThreadLease
from agentkit_py.history.runs import LeaseClaim, OpenedRun
from agentkit_py.inngest import create_functions
from agentkit_py.lifecycle import Lifecycle, ResultContext
from agentkit_py.messages import ImageContent, TextContent, text_of
from agentkit_py.processors import MessageWindow, Redactor
from agentkit_py.routing import together
from agentkit_py.stores import HistoryStore, PostgresHistory, SqliteHistory
from agentkit_py.testing import FakeProvider, Raw, ReceivedRequest, ScriptedModel, error, tool_call
from agentkit_py.testing.executor import KillAt, ReplayExecutor, Run
from agentkit_py.testing.executor.runs import kill_points
from agentkit_py.testing.fakes import model_of

Way: TypeAlias = Literal["direct", "inngest"]
Said: TypeAlias = tuple[str, OnBusy]
"""The text of a message, which is its id as well, and how it is sent."""


class Line(MemoryHistory):
    """A store that says when a run waits in line."""

    def __init__(self, lease: ThreadLease) -> None:
        super().__init__(lease=lease)
        self.waiting = asyncio.Event()

    async def wait_in_line(self, thread_id: str, owner: str, seconds: float) -> bool:
        found = await super().wait_in_line(thread_id, owner, seconds)
        self.waiting.set()
        return found


class Desk:
    """A network whose tool is told what the user says while it works."""

    def __init__(
        self,
        way: Way,
        *replies: Any,
        store: HistoryStore | None = None,
        plan: Mapping[str, Sequence[Said]] | None = None,
        agents: Callable[[Desk], Sequence[Agent]] | None = None,
        router: Any = None,
        kill: Any = (),
        model: Any = None,
        **options: Any,
    ) -> None:
        self.way: Way = way
        self.line = Line(ThreadLease(steering=True, seconds=3600))
        self.store = store or self.line
        self.plan = dict(plan or {})
        self.model: Any = ScriptedModel(*replies) if model is None else model
        self.others: list[Any] = []
        """The runs of messages that were sent while a tool worked."""

        self._context = contextvars.copy_context()

        @tool
        async def work(about: str, ctx: ToolContext) -> str:
            """Work."""
            for text, on_busy in self.plan.pop(about, ()):
                await self.send(text, on_busy)
            return f"did {about}"

        self.work = work
        made = [self.agent("clerk")] if agents is None else agents(self)

        def once(context: RouterContext) -> Agent | None:
            return None if context.call_count else made[0]

        self.network = Network(
            name="desk", agents=made, router=router or once, history=self.store, **options
        )
        client = inngest.Inngest(app_id="app", is_production=False)
        functions = create_functions(client, networks=[self.network])
        self.executor = ReplayExecutor(client, functions, seed=None, kill=kill)

    def agent(self, name: str, **options: Any) -> Agent:
        """An agent with the tool and the script."""
        given: dict[str, Any] = {"tools": [self.work], "model": self.model, "max_iter": 6}
        return Agent(name=name, system="S", **{**given, **options})

    async def send(self, text: str, on_busy: OnBusy) -> None:
        """Send a message while a run is at work, and continue when it waits."""
        task = asyncio.create_task(self._send(text, on_busy), context=self._context)
        self.others.append(task if self.way == "direct" else await task)
        if self.way == "direct":
            self.line.waiting.clear()
            await self.line.waiting.wait()

    async def _send(self, text: str, on_busy: OnBusy) -> Any:
        if self.way == "direct":
            return await self.say(text, on_busy)
        return await self.executor.start("app/network-desk", self.event(text, on_busy))

    def event(self, text: str, on_busy: OnBusy | None) -> dict[str, Any]:
        return {"input": {"content": text, "id": text}, "threadId": "t", "onBusy": on_busy}

    async def say(self, text: str, on_busy: OnBusy | None = None) -> tuple[str, str | None]:
        """Send a message; return text and stop reason of its run."""
        if self.way == "direct":
            run = await self.network.run(UserMessage(text, text), thread_id="t", on_busy=on_busy)
            return run.text, run.stop_reason
        return outcome(await self.executor.run("app/network-desk", self.event(text, on_busy)))

    async def ends(self) -> list[tuple[str, str | None]]:
        """Return the ends of runs whose messages were sent while a tool worked."""
        if self.way == "direct":
            return list(await asyncio.gather(*self.others))
        return [outcome(await self.executor.finish(run)) for run in self.others]

    async def rows(self) -> list[str]:
        """The thread, a word for each row."""
        return [told(one) for one in await self.store.load("t")]


def outcome(run: Run) -> tuple[str, str | None]:
    """Return the text and stop reason of a function's run."""
    assert (run.status, run.differences) == ("completed", []), run.error
    return run.output["text"], run.output["stopReason"]


def told(row: AgentResult) -> str:
    """Return the text of a row, or what was done in it."""
    said = " ".join(text_of(one) for one in row.output if one.type == "text")
    return said or " ".join(str(one.content) for one in row.tool_calls) or "-"


def work(about: str) -> Any:
    """A reply that calls the tool."""
    return tool_call("work", {"about": about})


def did(about: str) -> str:
    """The row of a call of the tool."""
    return str({"data": f"did {about}"})


@tool
def look(about: str) -> str:
    """Look."""
    return f"did {about}"


@pytest.fixture(params=["direct", "inngest"])
def way(request: pytest.FixtureRequest) -> Way:
    """Directly, and as Inngest functions."""
    return request.param


async def test_a_message_that_steers_reaches_the_next_model_call_once(way: Way) -> None:
    """Its own run finds it answered, and the thread is in the order of the conversation."""
    desk = Desk(way, work("1"), work("2"), "Blue it is.", plan={"1": [("in blue", "steer")]})
    assert await desk.say("paint") == ("Blue it is.", "done")
    assert await desk.ends() == [("Blue it is.", "done")]
    desk.model.assert_finished()
    desk.model.assert_not_saw("in blue", request=0)
    desk.model.assert_saw("paint", "did 1", "in blue", request=1)
    desk.model.assert_saw("paint", "did 1", "in blue", "did 2", request=2)
    assert await desk.rows() == ["paint", did("1"), "in blue", did("2"), "Blue it is."]


async def test_messages_that_steer_come_in_order_and_one_that_waits_after_them(way: Way) -> None:
    """The one that waits was sent first, and is a turn of its own."""
    plan: Any = {"1": [("later", "wait"), ("a", "steer"), ("b", "steer")]}
    desk = Desk(way, work("1"), "Both.", "Now this.", plan=plan)
    assert await desk.say("paint") == ("Both.", "done")
    assert await desk.ends() == [("Now this.", "done"), ("Both.", "done"), ("Both.", "done")]
    desk.model.assert_finished()
    assert await desk.rows() == ["paint", did("1"), "a", "b", "Both.", "later", "Now this."]


class Forgetful(Line):
    """A store that ends a lease when it is told to, as if its seconds were over."""

    owner = ""

    async def open_run(
        self, thread_id: str, claim: LeaseClaim, run_id: str, limit: int
    ) -> OpenedRun | None:
        """Take the lease, and hold the name of the first owner."""
        self.owner = self.owner or claim.owner
        return await super().open_run(thread_id, claim, run_id, limit)


async def test_the_answer_of_another_run_to_a_message_that_steered_is_kept() -> None:
    """The run that took the message was away for longer than its lease, and ends after it."""

    @tool
    async def rest() -> str:
        """Be away."""
        await store.unlock_thread("t", store.owner)
        assert await desk.say("in blue") == ("Blue.", "done")
        return "rested"

    def clerk(desk: Desk) -> list[Agent]:
        return [desk.agent("clerk", tools=[desk.work, rest])]

    store = Forgetful(ThreadLease(steering=True, seconds=3600))
    replies = [work("1"), tool_call("rest", {}), "Blue.", "Done."]
    plan: Any = {"1": [("in blue", "steer")]}
    desk = Desk("direct", *replies, store=store, plan=plan, agents=clerk)
    desk.line = store
    assert await desk.say("paint") == ("Done.", "done")
    assert await desk.ends() == [("Blue.", "done")]
    assert await desk.say("in blue") == ("Blue.", "done")
    desk.model.assert_finished()


async def test_a_message_that_no_run_took_becomes_a_turn(way: Way) -> None:
    """The run at work asks no model any more."""

    def clerk(desk: Desk) -> list[Agent]:
        return [desk.agent("clerk", max_iter=1)]

    plan: Any = {"1": [("a", "steer"), ("b", "steer")]}
    desk = Desk(way, work("1"), "Both.", plan=plan, agents=clerk)
    await desk.say("paint")
    assert await desk.ends() == [("Both.", "done"), ("Both.", "done")]
    desk.model.assert_finished()
    assert await desk.rows() == ["paint", did("1"), "a", "b", "Both."]


async def test_an_interrupted_run_asks_no_model_again_and_the_message_is_next(way: Way) -> None:
    """Finished work stands; messages that were sent before and after are answered with it."""
    plan: Any = {"1": [("a", "steer"), ("stop", "interrupt"), ("c", "steer")]}
    desk = Desk(way, work("1"), "Stopped.", plan=plan)
    assert await desk.say("paint") == ("", "interrupted")
    assert await desk.ends() == [("Stopped.", "done")] * 3
    desk.model.assert_finished()
    desk.model.assert_saw("paint", "did 1", '"a"', "stop", '"c"')
    assert await desk.rows() == ["paint", did("1"), "a", "stop", "c", "Stopped."]
    record = await desk.line.load_run("t", "paint")
    assert record is not None
    assert record.stop_reason == "interrupted"


async def test_a_message_that_comes_twice_does_not_interrupt_its_own_run(way: Way) -> None:
    """Nobody would answer it then."""
    desk = Desk(way, work("1"), "Blue it is.", plan={"1": [("paint", "interrupt")]})
    assert await desk.say("paint") == ("Blue it is.", "done")
    assert await desk.ends() == [("Blue it is.", "done")]
    desk.model.assert_finished()
    assert await desk.rows() == ["paint", did("1"), "Blue it is."]


async def test_an_answered_message_interrupts_no_run(way: Way) -> None:
    """It gets its answer; the message whose run it met would get none."""
    plan: Any = {"1": [("hello", "interrupt")]}
    desk = Desk(way, "Hello.", work("1"), "Blue it is.", plan=plan)
    assert await desk.say("hello") == ("Hello.", "done")
    assert await desk.say("paint") == ("Blue it is.", "done")
    assert await desk.ends() == [("Hello.", "done")]
    desk.model.assert_finished()


async def test_a_later_agent_of_a_network_takes_or_is_interrupted(way: Way) -> None:
    """Its turn does not begin then."""

    def two(desk: Desk) -> list[Agent]:
        return [desk.agent("ann", max_iter=1), desk.agent("bob")]

    def route(context: RouterContext) -> str | None:
        return ("ann", "bob", None)[context.call_count]

    ends: Any = (("steer", "Bob.", "done"), ("interrupt", "", "interrupted"))
    for on_busy, said, end in ends:
        desk = Desk(
            way, work("1"), "Bob.", *(["Next."] if said == "" else []),
            plan={"1": [("a", on_busy)]}, agents=two, router=route,
        )  # fmt: skip
        assert await desk.say("paint") == (said, end)
        await desk.ends()


async def test_agents_that_run_together_take_nothing(way: Way) -> None:
    """The next one does."""
    ann = ScriptedModel(work("1"), "Ann.")

    def three(desk: Desk) -> list[Agent]:
        return [
            desk.agent("ann", model=ann),
            desk.agent("bob", model=ScriptedModel("Bob.")),
            desk.agent("cid"),
        ]

    def route(context: RouterContext) -> Any:
        return {0: together("ann", "bob"), 2: "cid"}.get(context.call_count)

    desk = Desk(way, "Cid.", plan={"1": [("a", "steer")]}, agents=three, router=route)
    assert await desk.say("paint") == ("Cid.", "done")
    assert await desk.ends() == [("Cid.", "done")]
    ann.assert_not_saw('"a"')
    desk.model.assert_saw("Bob.", '"a"')


async def test_an_agent_that_is_a_tool_takes_nothing(way: Way) -> None:
    """The one that called it does."""

    def nested(desk: Desk) -> list[Agent]:
        inner = desk.agent("inner", history=desk.line)
        return [desk.agent("outer", tools=[inner.as_tool(allowed_tools="own", name="ask")])]

    asked = tool_call("ask", {"task": "x"})
    plan: Any = {"1": [("a", "steer")]}
    desk = Desk(way, asked, work("1"), "Inner.", "Outer.", plan=plan, agents=nested)
    assert await desk.say("paint") == ("Outer.", "done")
    assert await desk.ends() == [("Outer.", "done")]
    desk.model.assert_not_saw('"a"', request=2)
    desk.model.assert_saw('"a"', request=3)
    steps = [step.name for run in desk.executor.runs for step in run.steps]
    assert not [name for name in steps if "inner" in name and "inbox" in name]


async def test_a_routing_agent_takes_nothing(way: Way) -> None:
    """The agent that it chooses does."""

    def two(desk: Desk) -> list[Agent]:
        return [desk.agent("ann", max_iter=1), desk.agent("bob")]

    def choose(context: ResultContext) -> list[str] | None:
        assert context.network is not None
        return {0: ["ann"], 1: ["bob"]}.get(context.network.call_count)

    chosen = Lifecycle(on_route=choose)
    asked = ScriptedModel("Ann.", "Bob.", "Nobody.")
    router = RoutingAgent(name="router", system="R", lifecycle=chosen, model=asked)
    desk = Desk(way, work("1"), "Bob.", plan={"1": [("a", "steer")]}, agents=two, router=router)
    assert await desk.say("paint") == ("Bob.", "done")
    assert await desk.ends() == [("Bob.", "done")]
    asked.assert_not_saw('"a"', request=1)
    desk.model.assert_saw('"a"')


async def test_agents_whose_history_is_that_of_typescript_take_nothing(way: Way) -> None:
    """States keep no words of users there: the message is a turn."""
    desk = Desk(
        way, work("1"), "One.", "Two.", plan={"1": [("a", "steer")]}, history_mode="typescript"
    )
    assert await desk.say("paint") == ("One.", "done")
    assert await desk.ends() == [("Two.", "done")]


async def test_a_message_comes_after_results_that_are_saved_at_the_end(way: Way) -> None:
    """They are saved before it."""
    desk = Desk(way, work("1"), "Yes.", plan={"1": [("a", "steer")]})
    desk.store.save_each = False
    await desk.say("paint")
    assert await desk.rows() == ["paint", did("1"), "a", "Yes."]


def strict(*, beside: bool = False) -> Guardrail[Any]:
    """A guardrail against one word."""

    def judge(context: Any, text: str) -> Tripwire | None:
        return Tripwire("no swearing") if "damn" in text else None

    return Guardrail(judge, name="polite", reply="Please be polite.", run_in_parallel=beside)


@pytest.mark.parametrize("beside", [False, True])
async def test_a_guardrail_that_trips_on_a_message_ends_the_run(way: Way, beside: bool) -> None:
    """The message is withheld; what came before it is answered by its own run."""
    plan: Any = {"1": [("a", "steer"), ("damn", "steer"), ("c", "steer")]}
    desk = Desk(
        way, work("1"), "Yes.", "Yes, c.", plan=plan, input_guardrails=[strict(beside=beside)]
    )
    assert await desk.say("paint") == ("Please be polite.", "guardrail")
    tripped = ("Please be polite.", "guardrail")
    assert await desk.ends() == [("Yes.", "done"), tripped, ("Yes, c.", "done")]
    desk.model.assert_finished()
    for request in (1, 2):
        desk.model.assert_not_saw("damn", request=request)
    assert await desk.rows() == [
        *("paint", did("1"), "a", "damn", "Please be polite.", "Yes.", "c", "Yes, c.")
    ]


async def test_a_tripwire_parallel_to_the_call_withholds_the_message_that_it_is_about(
    way: Way,
) -> None:
    """Another one came between it and the reply."""

    def two(desk: Desk) -> list[Agent]:
        later = desk.agent("bob", input_guardrails=[strict(beside=True)])
        return [desk.agent("ann"), later]

    def route(context: RouterContext) -> str | None:
        return ("ann", "bob", None)[context.call_count]

    plan: Any = {"1": [("damn", "steer"), ("b", "steer")]}
    desk = Desk(way, work("1"), "Ann.", "Bob.", "Next.", plan=plan, agents=two, router=route)
    assert await desk.say("paint") == ("Please be polite.", "guardrail")
    assert await desk.ends() == [("Please be polite.", "guardrail")] * 2
    desk.network.router = lambda context: None if context.call_count else desk.network.agents[0]
    desk.model.reply("Again.")
    await desk.say("and")
    desk.model.assert_not_saw("damn")
    desk.model.assert_saw("paint", '"b"', "and")


async def test_a_message_is_masked_and_whole(way: Way) -> None:
    """Parts, times and the client's state survive the inbox."""
    parts = (TextContent("to ada@example.com"), ImageContent("AP8=", media_type="image/png"))
    message = UserMessage(parts, "m", state={"page": 1})
    desk = Desk(way, work("1"), "Sent.", input_guardrails=[Redactor(["email"])])

    @tool
    async def work_on(ctx: ToolContext) -> str:
        """Work."""
        await desk.line.put_message("t", message)
        return "ok"

    desk.model = ScriptedModel(tool_call("work_on"), "Sent.")
    clerk = Agent(name="clerk", system="S", model=desk.model, tools=[work_on], max_iter=3)
    desk.network.agents = [clerk]
    desk.network.router = lambda context: None if context.call_count else clerk
    assert await desk.say("mail") == ("Sent.", "done")
    desk.model.assert_saw("to [email]", "AP8=")
    row = (await desk.line.stored_results("t"))[2]
    assert row.result.id == "m"
    assert row.metadata == {"state": {"page": 1}}


async def test_a_run_ends_where_a_person_answers_the_message(way: Way) -> None:
    """Staff have joined meanwhile."""
    desk = Desk(way, work("1"), plan={"1": [("a", "steer")]})
    join = desk.send

    async def send(text: str, on_busy: OnBusy) -> None:
        await StaffDesk(desk.store).join("t", by="mia")
        await join(text, on_busy)

    desk.send = send
    assert await desk.say("paint") == ("", "taken_over")
    assert await desk.ends() == [("", "taken_over")]
    desk.model.assert_finished()
    assert await desk.rows() == ["paint", did("1"), "a"]


async def test_a_message_of_a_run_that_failed_is_answered_by_its_own(way: Way) -> None:
    """It is stored once."""
    desk = Desk(way, work("1"), error(400, "no"), "Yes.", plan={"1": [("a", "steer")]})
    with pytest.raises((AssertionError, Exception)):
        await desk.say("paint")
    assert await desk.ends() == [("Yes.", "done")]
    assert await desk.rows() == ["paint", did("1"), "a", "Yes."]


async def test_a_message_that_was_answered_is_not_taken_again(way: Way) -> None:
    """A client that lost the connection has sent it again."""
    desk = Desk(way, "Hello.", work("1"), "Done.", plan={"1": [("hi", "steer")]})
    await desk.say("hi")
    assert await desk.say("paint") == ("Done.", "done")
    assert await desk.ends() == [("Hello.", "done")]
    assert await desk.rows() == ["hi", "Hello.", "paint", did("1"), "Done."]


async def test_a_message_that_was_answered_long_ago_is_not_taken_again() -> None:
    """Only the end of the thread is loaded."""
    desk = Desk("direct", "Hello.", work("1"), "Done.", processors=[MessageWindow(4)])
    await desk.say("hi")
    now = datetime.now(UTC)
    said = [TextMessage("assistant", "x")]
    rows = [AgentResult("clerk", said, (), now, id=f"r{n}") for n in range(100)]
    await desk.store.append("t", rows)
    desk.plan["1"] = [("hi", "steer")]
    assert await desk.say("paint") == ("Done.", "done")
    assert (await desk.rows()).count("hi") == 1
    desk.model.assert_not_saw('"hi"')
    assert await desk.ends() == [("Hello.", "done")]


async def test_a_message_does_not_come_between_a_paused_reply_and_its_end() -> None:
    """The provider wants its reply back as the last thing."""
    call: dict[str, Any] = {
        "type": "server_tool_use",
        "id": "s1",
        "name": "web_search",
        "input": {"query": "x"},
    }
    found: dict[str, Any] = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    paused: dict[str, Any] = {
        "type": "message", "role": "assistant", "content": [call, found],
        "stop_reason": "pause_turn",
    }  # fmt: skip
    store = MemoryHistory(lease=ThreadLease(steering=True))
    search = [{"type": "web_search_20250305", "name": "web_search"}]
    model = ScriptedModel(
        Raw(json=paused), tool_call("look", {"about": "1"}), "Done.", provider="anthropic",
        default_parameters={"tools": search},
    )  # fmt: skip

    async def told(context: ResultContext) -> None:
        await store.put_message("t", UserMessage("in blue", "a"))

    agent = Agent(
        name="clerk", system="S", model=model, history=store, tools=[look],
        lifecycle=Lifecycle(on_response=told),
    )  # fmt: skip
    assert (await agent.run("paint", thread_id="t")).text == "Done."
    model.assert_finished()
    model.assert_not_saw("in blue", request=1)
    model.assert_saw("in blue", request=2)


async def test_runs_that_do_not_look_for_messages_cannot_be_steered() -> None:
    """The error says what to write."""
    for store in (None, MemoryHistory(), MemoryHistory(lease=ThreadLease())):
        agent = Agent(name="a", system="S", model=ScriptedModel(), history=store)
        with pytest.raises(ConfigurationError, match=r"lease=ThreadLease\(steering=True\)"):
            await agent.run("hi", on_busy="steer")
    with pytest.raises(ConfigurationError, match="steering=True"):
        ThreadLease(on_busy="interrupt")
    with pytest.raises(ConfigurationError, match="on_busy must be one of 'wait', 'error'"):
        ThreadLease(on_busy="stop")  # pyright: ignore[reportArgumentType] - the point


async def test_a_look_is_one_step_before_each_model_call() -> None:
    """Its name and those of what is stored are pinned: a deploy finds them again."""
    desk = Desk("inngest", work("1"), "Blue.", plan={"1": [("a", "steer")]})
    await desk.say("paint")
    found = [step.name for step in desk.executor.runs[0].steps]
    assert found == [
        "desk.history.open.0",
        "desk.history.append-user-message",
        "desk.clerk.0.0.inbox",
        "desk.clerk.0.0.infer",
        "desk.clerk.0.0.tool.0.work",
        "desk.history.append-results.clerk.0",
        "desk.clerk.0.1.inbox",
        "desk.history.append-user-message.1",
        "desk.clerk.0.1.infer",
        "desk.history.append-results.clerk.1",
        "desk.history.turn.end",
    ]
    desk = Desk("inngest", work("1"), "Blue.", store=MemoryHistory(lease=ThreadLease()))
    await desk.say("paint")
    assert not [s for s in desk.executor.runs[0].steps if "inbox" in s.name]


async def test_a_worker_that_dies_anywhere_loses_and_repeats_no_message() -> None:
    """It dies before, in and after a request; ``MESSAGE_SEQUENCES=…`` tries each of them."""
    plan: Any = {"1": [("a", "steer"), ("b", "steer")], "2": [("stop", "interrupt")]}

    def answer(request: ReceivedRequest) -> Any:
        seen = str(request.body)
        if "stop" in seen:
            return "Stopped."
        return work("2" if "did 1" in seen else "1")

    requests = 0
    every = 1 if "MESSAGE_SEQUENCES" in environ else 8
    for kill in (None, *[*kill_points(60)][::every]):
        if kill is not None and (kill.request or 0) > requests > 0:
            break
        model = replace(model_of("openai"), transport=FakeProvider(answer).transport)
        desk = Desk("inngest", plan=plan, kill=kill or (), model=model)
        assert await desk.say("paint") == ("", "interrupted")
        assert await desk.ends() == [("", "interrupted")] * 2 + [("Stopped.", "done")]
        requests = requests or len(desk.executor.journal)
        rows = ["paint", did("1"), "a", "b", did("2"), "stop", "Stopped."]
        assert await desk.rows() == rows, kill


async def test_a_run_that_pauses_resumes_with_the_messages_that_it_took() -> None:
    """Their own runs do not wait for the person."""
    desk = Desk("direct", work("1"), tool_call("pay"), "Paid.", plan={"1": [("a", "steer")]})

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    desk.network.agents = [desk.agent("clerk", tools=[desk.work, pay])]
    desk.network.router = lambda context: None if context.call_count else desk.network.agents[0]
    assert (await desk.say("paint"))[1] == "pending"
    assert await desk.ends() == [("", "steered")]
    (question,) = await desk.network.pending("t")
    assert (await desk.network.resume("t", {question.id: True})).text == "Paid."
    assert await desk.say("a", "steer") == ("Paid.", "done")
    desk.model.assert_finished()
    desk.model.assert_saw("paint", "did 1", '"a"', "paid")
    paid = str({"data": "paid"})
    assert await desk.rows() == ["paint", did("1"), "a", paid, "Paid."]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_databases_carry_messages_between_functions(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """One message is taken, one interrupts."""
    lease = ThreadLease(steering=True, seconds=3600)
    store: HistoryStore = SqliteHistory(tmp_path / "threads.db", lease=lease)
    if kind == "postgres":
        url, schema = map(request.getfixturevalue, ("postgres_url", "postgres_schema"))
        store = PostgresHistory(url, schema=schema, connections=4, lease=lease)
    async with store:
        plan: Any = {"1": [("a", "steer")], "2": [("stop", "interrupt")]}
        desk = Desk("inngest", work("1"), work("2"), "Stopped.", plan=plan, store=store)
        assert await desk.say("paint") == ("", "interrupted")
        assert await desk.ends() == [("", "interrupted"), ("Stopped.", "done")]
        desk.model.assert_finished()
        assert await desk.rows() == ["paint", did("1"), "a", did("2"), "stop", "Stopped."]


async def test_the_output_of_an_agents_function_has_all_results_of_its_run() -> None:
    """Those before the user's second message as well."""
    store = MemoryHistory(lease=ThreadLease(steering=True))

    @tool
    async def wait() -> str:
        """Wait."""
        await store.put_message("t", UserMessage("in blue", "a"))
        return "waited"

    model = ScriptedModel(tool_call("wait"), "Blue it is.")
    agent = Agent(name="clerk", system="S", model=model, tools=[wait], history=store)
    client = inngest.Inngest(app_id="app", is_production=False)
    executor = ReplayExecutor(client, create_functions(client, agents=[agent]))
    run = await executor.run("app/agent-clerk", {"input": "paint", "threadId": "t"})
    assert [len(one["toolCalls"]) for one in run.output["results"]] == [1, 0]


@pytest.mark.parametrize("before", [False, True])
async def test_steering_is_switched_on_and_off_under_runs_under_way(before: bool) -> None:
    """Looks that are remembered stand, and none is put before what is done."""
    client = inngest.Inngest(app_id="app", is_production=False)
    number, requests = 0, 20
    while (number := number + 1) <= requests:
        store = MemoryHistory()

        model = ScriptedModel(tool_call("look", {"about": "1"}), "Blue it is.")
        agent = Agent(name="clerk", system="S", model=model, tools=[look], history=store)
        functions = create_functions(client, agents=[agent])
        leases = iter([ThreadLease(steering=before)])

        def deployed(store: Any = store, leases: Any = leases, functions: Any = functions) -> Any:
            store.lease = next(leases, ThreadLease(steering=not before))
            return functions

        executor = ReplayExecutor(client, deployed, kill=KillAt(request=number, when="after"))
        run = await executor.run("app/agent-clerk", {"input": "paint", "threadId": "t"})
        assert run.status == "completed", (number, run.error)
        requests = len(executor.journal)
        model.assert_finished()
