"""A run that needs a person ends as data, and continues in any process."""

from __future__ import annotations

import asyncio
import itertools
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import (
    Agent,
    MemoryHistory,
    Network,
    NetworkRun,
    RouterContext,
    SqliteHistory,
    State,
    Tool,
    ToolContext,
    UserMessage,
    tool,
)
from agentkit_py.errors import (
    ConfigurationError,
    ModelError,
    ModelResponseError,
    NotPendingError,
    ReplayError,
)
from agentkit_py.events import ApprovalAnswer, Decision
from agentkit_py.history.leases import ThreadLease
from agentkit_py.history.questions import record_answer
from agentkit_py.history.runs import RunRecord
from agentkit_py.processors import MessageWindow
from agentkit_py.routing import together
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.stores import redacted
from agentkit_py.testing import FakeProvider, Raw, ScriptedModel, error, tool_call, tool_calls
from tests.apis import APIS
from tests.stores.record_store import record_store

pytestmark = pytest.mark.direct_only(
    "a function does not pause, it waits for an event: tests/durable/test_questions.py"
)


def clerk_once(context: RouterContext) -> str | None:
    """Return the clerk for one turn."""
    return "clerk" if context.call_count == 0 else None


class World:
    """Traces of the tools, and a store that outlives each process."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.done: list[Any] = []

    def tools(self) -> list[Tool]:
        """Tools that ask, and one that does not."""

        @tool(needs_approval=True, approval_timeout=timedelta(days=3))
        def refund(amount: int, ctx: ToolContext) -> str:
            """Pay money back."""
            self.done.append(("refund", amount))
            data: dict[str, Any] = ctx.state.data
            data["paid"] = data.get("paid", 0) + amount
            return f"paid {amount}"

        @tool
        def look(ctx: ToolContext) -> str:
            """Look."""
            self.done.append("look")
            ctx.state.data["looked"] = True
            return "seen"

        @tool(steps=True)
        async def book(ctx: ToolContext) -> str:
            """Book in steps."""

            async def hold() -> dict[str, int]:
                self.done.append("hold")
                return {"seat": 7}

            held = await ctx.step.run("hold", hold)
            answer = await ctx.approve("At the window?")
            held["seat"] += 1
            return f"{held['seat']} {answer is not None and answer.approved}"

        return [refund, look, book]

    def network(self, *replies: Any, **options: Any) -> Network:
        """The network, as a process that starts now makes it."""
        clerk = Agent(
            name="clerk",
            system="S",
            tools=self.tools(),
            parallel_tools=options.pop("parallel", False),
        )
        options.setdefault("router", clerk_once)
        options.setdefault("default_model", ScriptedModel(*replies))
        return Network(
            name="shop",
            agents=[clerk, *options.pop("agents", ())],
            history=self.store,
            **options,
        )


@pytest.fixture(params=["memory", "sqlite", "leased", "records"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """A store of each kind."""
    if request.param == "memory":
        return World(MemoryHistory())
    if request.param == "records":
        return World(record_store(tmp_path, lease=ThreadLease()))
    lease = ThreadLease() if request.param == "leased" else None
    return World(SqliteHistory(tmp_path / "t.db", lease=lease))


async def test_a_run_pauses_and_resumes_in_a_process_that_does_not_know_it(world: World) -> None:
    """Model calls, tools and changes of the state before the question are not made again."""
    seen: list[str] = []

    def observer(event: object) -> None:
        seen.append(type(event).__name__)

    async with world.store:
        first = world.network(tool_call("look", {}), tool_call("refund", {"amount": 5}))
        run = await first.run("Money back!", observer=observer)
        assert (run.stop_reason, world.done) == ("pending", ["look"])
        (question,) = run.pending
        assert f"waits for an answer to {question.id}: " in str(run)
        assert [(c.name, c.arguments) for c in question.calls] == [("refund", {"amount": 5})]
        thread = run.thread_id
        assert thread is not None
        assert [one.id for one in await first.pending(thread)] == [question.id]
        assert seen[-1] == "HitlRequested"
        seen.clear()
        last = world.network("Done.")
        again = await last.resume(thread, {question.id: True}, by="mia", observer=observer)
        assert (again.stop_reason, again.text) == ("done", "Done.")
        assert again.state.data == {"looked": True, "paid": 5}
        assert world.done == ["look", ("refund", 5)]
        assert (seen[0], seen[-1]) == ("HitlResolved", "RunCompleted")
        stored = [r.agent_name for r in await world.store.load(thread)]
        assert stored == ["user", "clerk", "clerk", "clerk"]
        closed = await world.store.load_question(question.id)
        assert (closed.status, closed.answered_by) == ("answered", "mia")
        with pytest.raises(NotPendingError, match="is answered"):
            await last.resume(thread, {question.id: True})
        with pytest.raises(NotPendingError, match="question does not exist"):
            await last.resume(thread, {"other": True})


@pytest.mark.parametrize("earlier", [0, 3, 60])
async def test_a_resumed_run_shows_the_model_the_same_as_a_run_that_never_waited(
    world: World, earlier: int
) -> None:
    """Rows that the run stored before its question are not loaded again as an earlier turn."""
    before, after = (tool_call("look", {}), tool_call("refund", {"amount": 5})), "Paid."
    loaded: list[int] = []

    def router(context: RouterContext) -> str | None:
        loaded.append(len(context.network.state.transcript))
        return clerk_once(context)

    def network(*replies: Any) -> Network:
        return world.network(
            *replies, router=router, processors=[MessageWindow(max_messages=20)], max_iter=4
        )

    async with world.store:
        for number in range(earlier):
            for thread_id in ("waits", "not"):
                await network("Hello.").run(f"Hello {number}", thread_id=thread_id)
        loaded.clear()
        run = await network(*before).run("Money back!", thread_id="waits")
        at_first, resumed = loaded.copy(), network(after)
        loaded.clear()
        await resumed.resume("waits", {run.pending[0].id: True})
        assert loaded[: len(at_first)] == at_first

        straight = network(*before, after)
        await straight.run("Money back!", thread_id="not", approver=lambda _: True)
        assert sent_last(resumed) == sent_last(straight)


def sent_last(network: Network) -> Any:
    """Return the messages of the last request to a network's model, without ids."""
    model: Any = network.default_model
    return [(one["role"], one.get("content")) for one in model.requests[-1].body["messages"]]


async def test_another_message_is_answered_while_a_run_waits(world: World) -> None:
    """The paused run does not see it, and its results come after."""
    async with world.store:
        run = await world.network(tool_call("refund", {"amount": 5})).run("Money!")
        thread: Any = run.thread_id
        await world.network("Soon.").run("And?", thread_id=thread)
        network = world.network("Paid.")
        again = await network.resume(thread, {run.pending[0].id: ApprovalAnswer(approved=True)})
        assert again.text == "Paid."
        model: Any = network.default_model
        model.assert_not_saw("And?")
        texts = [r.text for r in await world.store.load(thread)]
        assert texts == ["", "", "Soon.", "", "Paid."]


async def test_questions_of_parallel_calls_are_answered_one_by_one(world: World) -> None:
    """Steps of a tool that asks by itself are made once; the run waits again in between."""
    async with world.store:
        both = tool_calls(("book", {}), ("book", {}))
        run = await world.network(both, parallel=True).run("Two seats")
        thread: Any = run.thread_id
        assert (len(run.pending), world.done) == (2, ["hold", "hold"])
        network = world.network(parallel=True)
        run = await network.resume(thread, {run.pending[1].id: False})
        assert (run.stop_reason, len(run.pending)) == ("pending", 1)
        run = await world.network("ok", parallel=True).resume(thread, {run.pending[0].id: True})
        contents = [c.content for c in run.results[0].tool_calls]
        assert contents == [{"data": "8 True"}, {"data": "8 False"}]
        assert world.done == ["hold", "hold"]


async def test_questions_of_parallel_calls_come_in_the_order_of_the_calls(world: World) -> None:
    """Also where the last call asks first: a front end shows them beside the calls."""
    others: dict[str, asyncio.Event] = {name: asyncio.Event() for name in ("c", "b")}

    @tool(steps=True)
    async def ask(name: str, ctx: ToolContext) -> str:
        """Ask after the next call has."""
        if after := {"a": "b", "b": "c"}.get(name):
            await others[after].wait()
        if name in others:
            others[name].set()
        await ctx.approve(name)
        return name

    calls = tool_calls(*(("ask", {"name": name}) for name in "abc"))
    clerk = Agent(name="clerk", system="S", tools=[ask], parallel_tools=True)
    network = Network(
        name="shop",
        agents=[clerk],
        router=clerk_once,
        history=world.store,
        default_model=ScriptedModel(calls),
    )
    async with world.store:
        run = await network.run("Ask!", thread_id="t")
        assert [question.message for question in run.pending] == ["a", "b", "c"]


async def test_agents_in_parallel_and_inside_tools_pause_and_resume() -> None:
    """The whole run waits; what others did meanwhile is kept."""
    world = World(MemoryHistory())

    def make(*replies: Any) -> Network:
        tools = world.tools()
        nested = Agent(
            name="nested", system="S", tools=tools, model=ScriptedModel(*replies[:1])
        ).as_tool(allowed_tools="own")
        boss = Agent(name="boss", system="S", tools=[nested], model=ScriptedModel(*replies[1:2]))
        other = Agent(name="other", system="S", tools=tools, model=ScriptedModel(*replies[2:]))

        def route(context: RouterContext) -> Any:
            return together(boss, other) if context.call_count == 0 else None

        return Network(name="n", agents=[boss, other], router=route, history=world.store)

    run = await make(
        tool_call("refund", {"amount": 1}),
        tool_call("nested", {"task": "Pay"}),
        tool_call("look", {}),
        "Looked.",
    ).run("Go")
    assert (run.stop_reason, world.done) == ("pending", ["look"])
    thread: Any = run.thread_id
    again = await make("Paid.", "Nested paid.").resume(thread, {run.pending[0].id: True})
    assert [r.text for r in again.results if r.text] == ["Nested paid.", "Looked."]
    assert world.done == ["look", ("refund", 1)]


async def test_a_person_changes_arguments_and_the_model_reads_it(world: World) -> None:
    """They are checked as the model's own."""
    async with world.store:
        calls = tool_calls(("refund", {"amount": 5}), ("refund", {"amount": 6}))
        run = await world.network(calls).run("Money!")
        thread: Any = run.thread_id
        changed = {0: Decision(True, arguments={"amount": 2}), 1: Decision(True, arguments={})}
        answer = ApprovalAnswer(approved=True, calls=changed)
        network = world.network("ok")
        await network.resume(thread, {run.pending[0].id: answer})
        assert world.done == [("refund", 2)]
        model: Any = network.default_model
        model.assert_saw("A person changed the arguments", "InvalidArgumentsError")


async def test_an_expired_question_resumes_as_refused() -> None:
    """Whoever looks after the time calls `resume` without answers."""
    world = World(MemoryHistory())

    @tool(needs_approval=True, approval_timeout=timedelta(0))
    def pay() -> str:
        """Pay."""
        raise AssertionError

    model = ScriptedModel(tool_call("pay", {}), "Too late.")
    agent = Agent(name="clerk", system="S", tools=[pay], model=model, history=world.store)
    result = await agent.run("Go", thread_id="t")
    assert result.stop_reason == "pending"
    result = await agent.resume("t")
    assert result.text == "Too late."
    assert (await world.store.list_questions(status=None))[0].status == "expired"


async def test_code_that_decides_otherwise_after_the_answer_ends_the_run(world: World) -> None:
    """A deploy in the middle must not pay somebody else."""
    async with world.store:
        run = await world.network(tool_call("refund", {"amount": 5})).run("Money!")
        thread: Any = run.thread_id

        def other(context: RouterContext) -> str | None:
            return "late" if context.call_count == 0 else None

        late = Agent(name="late", system="S", tools=world.tools())
        changed = world.network("x", router=other, agents=[late])
        with pytest.raises(ReplayError, match="late"):
            await changed.resume(thread, {run.pending[0].id: True})
        assert world.done == []


async def test_a_run_that_cannot_wait_says_why() -> None:
    """State that is no JSON, a store that masks, a history that keeps no questions."""
    world = World(MemoryHistory())
    network = world.network(*[tool_call("refund", {"amount": 5})] * 2)
    with pytest.raises(ConfigurationError, match="who"):
        await network.run("Money!", state=State({"who": object()}))
    with pytest.raises(ConfigurationError, match="give it a history"):
        await World(None).network(tool_call("refund", {"amount": 5})).run("Money!")
    world.store = redacted(MemoryHistory(), ["email"])
    network = world.network(tool_call("refund", {"amount": 5}))
    with pytest.raises(ConfigurationError, match="masks"):
        await network.run("I am ada@example.com")


class Queue(SqliteHistory):
    """Says when somebody stands in line for a thread."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, lease=ThreadLease(seconds=0.2))
        self.entered = asyncio.Event()
        self.was_free = False

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        """As the store does; note whether another could have had the thread before."""
        if run.status == "paused":
            self.was_free = await self.lock_thread(thread_id, "another", 60)
        await super().save_run(thread_id, run)

    async def wait_in_line(self, thread_id: str, owner: str, seconds: float) -> bool:
        """As the store does."""
        found = await super().wait_in_line(thread_id, owner, seconds)
        self.entered.set()
        return found


@pytest.mark.parametrize("held", ["before it pauses", "when it goes on", "both times"])
async def test_a_run_that_waits_for_its_thread_pauses_and_resumes(
    tmp_path: Path, held: str
) -> None:
    """The time that it stood in line is no part of its journal."""
    async with Queue(tmp_path / "q.db") as store:
        world = World(store)
        thread: Any = (await world.network("Hello.").run("Hi")).thread_id

        async def behind_another(call: Any, *, waits: bool) -> Any:
            if not waits:
                return await call
            assert await store.lock_thread(thread, "another", 60)
            store.entered.clear()
            waiting = asyncio.ensure_future(call)
            await store.entered.wait()
            await store.unlock_thread(thread, "another")
            return await waiting

        asks = world.network(tool_call("look", {}), tool_call("refund", {"amount": 5}))
        begins = asks.run("Money!", thread_id=thread)
        run = await behind_another(begins, waits=held != "when it goes on")
        (question,) = run.pending
        goes_on = world.network("Done.").resume(thread, {question.id: True})
        again = await behind_another(goes_on, waits=held != "before it pauses")
        assert (again.stop_reason, again.text) == ("done", "Done.")
        assert world.done == ["look", ("refund", 5)]


async def test_a_run_that_waits_for_its_second_answer_does_not_hold_its_thread(
    tmp_path: Path,
) -> None:
    """Messages that come meanwhile are answered at once."""
    async with SqliteHistory(tmp_path / "t.db", lease=ThreadLease(on_busy="error")) as store:
        world = World(store)
        two = tool_calls(("book", {}), ("book", {}))
        parted = tool_calls(("book", {}), ("refund", {"amount": 5}))
        for asks in (two, parted):
            run = await world.network(asks, parallel=True).run("Money!", thread_id=None)
            thread, questions = run.thread_id, list(run.pending)
            assert thread is not None
            while questions:
                other = await world.network("Hello.").run("Hi", thread_id=thread)
                assert other.text == "Hello."
                network = world.network("Done.", parallel=True)
                run = await network.resume(thread, {questions[0].id: True})
                questions = list(run.pending)
            assert (run.stop_reason, run.text) == ("done", "Done.")


@pytest.mark.parametrize("kind", ["network", "agent"])
async def test_a_message_that_comes_again_while_its_run_waits_finds_the_same_question(
    tmp_path: Path, kind: str
) -> None:
    """A webhook that is delivered twice asks nobody twice, and the answer goes to the one run."""

    def target(*replies: Any) -> Any:
        network = world.network(*replies)
        return network if kind == "network" else on_its_own(network)

    def on_its_own(network: Network) -> Agent:
        (clerk,) = network.agents
        clerk.model, clerk.history = network.default_model, network.history
        return clerk

    async with SqliteHistory(tmp_path / "t.db", lease=ThreadLease()) as store:
        world = World(store)
        thread = (await world.network("Hello.").run("Hi")).thread_id
        assert thread is not None
        message = UserMessage("Money back!", id="m1")
        first = target(tool_call("look", {}), tool_call("refund", {"amount": 5}))
        await first.run(message, thread_id=thread)
        (question,) = await first.pending(thread)
        again = await target().run(message, thread_id=thread)
        assert again.stop_reason == "pending"
        assert [one.id for one in await first.pending(thread)] == [question.id]
        if kind == "network":
            assert [one.id for one in again.pending] == [question.id]
        await record_answer(store, question.id, given=True, by="mia", thread_id=thread)
        done = await target("Done.").run(message, thread_id=thread)
        assert "Done." in str(done)
        assert world.done == ["look", ("refund", 5)]
        assert await first.pending(thread) == []
        texts = [m.content for m in await store.messages(thread) if m.role == "user"]
        assert texts.count("Money back!") == 1


async def test_questions_of_a_dead_attempt_do_not_block_a_later_attempt(
    tmp_path: Path,
) -> None:
    """The run that continues waits for its own second question, not for the dead one's first."""
    message = UserMessage("Money back, twice!", id="m1")
    async with SqliteHistory(tmp_path / "t.db") as store:
        world = World(store)
        thread = (await world.network("Hello.").run("Hi")).thread_id
        assert thread is not None
        first = world.network(tool_call("refund", {"amount": 5}))
        await first.run(message, thread_id=thread)
        network = world.network(
            tool_call("refund", {"amount": 6}), tool_call("refund", {"amount": 7}), "Done."
        )
        run = await network.run(message, thread_id=thread)
        for amount in (6, 7):
            (question,) = run.pending
            assert question.calls[0].arguments == {"amount": amount}
            run = await network.resume(thread, {question.id: True})
        assert (run.stop_reason, run.text) == ("done", "Done.")
        assert world.done == [("refund", 6), ("refund", 7)]


async def test_an_answered_question_of_an_attempt_that_failed_is_not_waited_for_again(
    world: World,
) -> None:
    """The message that is sent again asks a question of its own, once."""
    message = UserMessage("Money back!", id="m1")
    call = tool_call("refund", {"amount": 5})
    run = await world.network(call).run(message, thread_id="t1")
    (first,) = run.pending
    broken = world.network(error(400, "no"))
    with pytest.raises(ModelError):
        await broken.resume("t1", {first.id: True})
    again = await world.network(call).run(message, thread_id="t1")
    (second,) = again.pending
    assert second.id != first.id
    assert (second.status, world.done) == ("open", [("refund", 5)])
    done = await world.network("Done.").resume("t1", {second.id: False})
    assert (done.text, world.done) == ("Done.", [("refund", 5)])
    known = await world.store.list_questions(thread_id="t1", status=None)
    assert [one.status for one in known] == ["answered", "answered"]


@pytest.mark.parametrize("nested", [False, True])
async def test_a_message_that_comes_again_while_its_run_is_active_finds_its_question(
    tmp_path: Path, *, nested: bool
) -> None:
    """It stands in line for the thread, which is free only once the run is stored as paused."""
    async with Queue(tmp_path / "q.db") as store:
        world = World(store)
        thread = (await world.network("Hello.").run("Hi")).thread_id
        assert thread is not None
        message, at_work = UserMessage("Money back!", id="m1"), asyncio.Event()

        @tool
        async def look_up() -> str:
            """Look, until the message has come again."""
            at_work.set()
            await store.entered.wait()
            return "seen"

        async def come_again() -> NetworkRun:
            await at_work.wait()
            return await world.network().run(message, thread_id=thread)

        calls = tool_call("look_up", {}), tool_call("refund", {"amount": 5})
        tools: list[Any] = [look_up, *world.tools()]
        if nested:
            payer = Agent(name="payer", system="S", model=ScriptedModel(*calls), tools=tools)
            calls = (tool_call("payer", {"task": "Pay!"}),)
            tools = [payer.as_tool(allowed_tools="own")]
        first = world.network(*calls)
        first.agents[0].tools = tools
        store.entered.clear()
        run, again = await asyncio.gather(first.run(message, thread_id=thread), come_again())
        assert [run.stop_reason, again.stop_reason] == ["pending", "pending"]
        assert [one.id for one in again.pending] == [one.id for one in run.pending]
        await world.network(tool_call("refund", {"amount": 5})).run("Money!", thread_id=thread)
        assert not store.was_free, "a message that came now would begin anew"


@pytest.mark.parametrize(("first", "then"), list(itertools.permutations(APIS, 2)))
async def test_a_waiting_run_resumes_with_a_model_of_another_api(
    first: str, then: str, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """What the first one said is read as what it is; its reasoning is not sent to the other."""
    call = {"reasoning": "They want it.", **tool_call("refund", {"amount": 5})}
    fake = FakeProvider([call, "Paid."])
    local = DirectRuntime(transport=fake.transport)
    run = await world.network(default_model=APIS[first]).run("Money back!", runtime=local)
    assert run.thread_id is not None
    answers = {run.pending[0].id: True}
    later = await world.network(default_model=APIS[then]).resume(
        run.thread_id, answers, runtime=local
    )
    assert (later.text, world.done, fake.rejections) == ("Paid.", [("refund", 5)], [])
    assert "the model was exchanged since" in caplog.text


async def test_a_reply_of_another_api_that_comes_now_is_an_error(world: World) -> None:
    """The model's base_url is another one's: nothing was exchanged."""
    fake = FakeProvider(
        [Raw(json={"choices": [{"message": {"role": "assistant", "content": "Hi"}}]})]
    )
    local = DirectRuntime(transport=fake.transport)
    with pytest.raises(ModelResponseError, match="the answer is not a message"):
        await world.network(default_model=APIS["anthropic"]).run("Hi", runtime=local)


@pytest.mark.parametrize(("by", "is_said"), [("mia", False), ("bob", True), (None, False)])
async def test_an_answer_of_a_person_who_was_not_asked_is_reported(
    by: str | None, is_said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It counts: `resume` is called by code that knows who answers; servers check approvers."""

    @tool(needs_approval=True, approvers=["mia", "sam"])
    def refund() -> str:
        """Pay money back."""
        return "paid"

    script = ScriptedModel(tool_call("refund"), "Done.")
    clerk = Agent(name="clerk", system="S", model=script, tools=[refund], history=MemoryHistory())
    await clerk.run("Pay!", thread_id="t")
    (question,) = await clerk.pending("t")
    assert (await clerk.resume("t", {question.id: True}, by=by)).text == "Done."
    said = [one for one in caplog.messages if "resume() does not check who may answer" in one]
    assert bool(said) == is_said
    assert all("asks mia, sam" in one for one in said)
