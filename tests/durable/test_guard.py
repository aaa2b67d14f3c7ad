"""The guard: steps that overlap, code that differs between replays, numbers and sizes."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import inngest
import pytest

from agentkit_py import (
    Agent,
    Lifecycle,
    MemoryHistory,
    Network,
    RouterContext,
    State,
    ToolContext,
    openai,
    tool,
)
from agentkit_py.inngest import AgentKitMiddleware, FunctionOptions, create_functions
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing import FakeProvider, ScriptedModel, tool_call, tool_calls
from agentkit_py.testing.executor import ReplayExecutor, Run

from .world import EVENT, INFERENCES, Inference, Script, at, executor_for


def failed(run: Run) -> str:
    """The message of the run's error; it must have failed."""
    assert run.status == "failed", run.output
    assert run.error is not None
    return str(run.error["message"])


# ------------------------------------------------------------------ steps that overlap


def gathering(how: str, happened: list[str]) -> Agent:
    """An agent whose tool has three steps at the same time."""

    @tool(steps=True)
    async def pay(ctx: ToolContext) -> str:
        """Pay three times."""

        def step(name: str) -> Callable[[], Awaitable[str]]:
            async def work() -> str:
                happened.append(name)
                if how != "at once":
                    await asyncio.sleep(0)
                return name

            return work

        steps = [ctx.step.run(name, step(name)) for name in ("one", "two", "three")]
        if how == "caught":
            found: list[Any] = await asyncio.gather(*steps, return_exceptions=True)
        else:
            found = await asyncio.gather(*steps)
        return str(found)

    model = ScriptedModel(tool_call("pay", {}), "Paid.")
    return Agent(name="a", system="S", tools=[pay], model=model, max_iter=2)


@pytest.mark.parametrize("how", ["at once", "later", "caught"])
async def test_steps_that_are_gathered_are_refused_before_any_of_them_runs(how: str) -> None:
    """The error names both, whatever their handlers do, and also where the code catches it."""
    happened: list[str] = []
    agent = gathering(how, happened)

    async def handler(ctx: inngest.Context) -> str:
        return (await agent.run("Pay.")).text

    message = failed(await executor_for(handler).run(EVENT))
    assert "'a.0.tool.0.pay.one'" in message
    assert "'a.0.tool.0.pay.two'" in message
    assert happened == []


@pytest.mark.parametrize("inference", INFERENCES)
async def test_runs_that_are_gathered_are_refused_before_anything_happens(
    inference: Inference,
) -> None:
    """Two networks in a function of one's own made five payments instead of two."""
    paid: Counter[str] = Counter()

    @tool
    async def pay(order: str) -> str:
        """Pay."""
        paid[order] += 1
        await asyncio.sleep(0)
        return "paid"

    def network(name: str) -> Network:
        model = ScriptedModel(tool_call("pay", {"order": name}), "Done.")
        agent = Agent(name="a", system="S", tools=[pay], model=model, max_iter=2)
        return Network(name=name, agents=[agent], router=once(agent))

    async def handler(ctx: inngest.Context) -> None:
        await asyncio.gather(network("left").run("Go."), network("right").run("Go."))

    message = failed(await executor_for(handler, inference=inference).run(EVENT))
    assert "'left.a.0.0.infer'" in message
    assert "'right.a.0.0.infer'" in message
    assert not paid


async def test_runs_in_the_groups_of_the_sdk_continue_together() -> None:
    """It is the way for whole runs."""
    paid: Counter[str] = Counter()

    @tool
    async def pay(order: str) -> str:
        """Pay."""
        paid[order] += 1
        return "paid"

    models = {
        name: ScriptedModel(tool_call("pay", {"order": name}), f"{name} is done.")
        for name in ("left", "right")
    }
    agents = [
        Agent(name=name, system="S", tools=[pay], model=model, max_iter=2)
        for name, model in models.items()
    ]

    async def handler(ctx: inngest.Context) -> list[str]:
        runs = await ctx.group.parallel(
            (lambda: agents[0].run("Go."), lambda: agents[1].run("Go."))
        )
        return [run.text for run in runs]

    run = await executor_for(handler).run(EVENT)
    assert run.output == ["left is done.", "right is done."], run.error
    assert paid == {"left": 1, "right": 1}
    assert run.differences == []


async def test_runs_that_wait_for_a_lock_are_done_once_each() -> None:
    """They are gathered, but never at work at the same time."""
    paid: Counter[str] = Counter()
    lock = asyncio.Lock()

    @tool
    async def pay(order: str) -> str:
        """Pay."""
        paid[order] += 1
        await asyncio.sleep(0)
        return "paid"

    def agent(name: str) -> Agent:
        model = ScriptedModel(tool_call("pay", {"order": name}), "Done.")
        return Agent(name=name, system="S", tools=[pay], model=model, max_iter=2)

    agents = [agent("left"), agent("right")]

    async def one(agent: Agent) -> str:
        async with lock:
            return (await agent.run("Go.")).text

    async def handler(ctx: inngest.Context) -> list[str]:
        return list(await asyncio.gather(*map(one, agents)))

    run = await executor_for(handler, check=False).run(EVENT)
    assert run.output == ["Done.", "Done."], run.error
    assert paid == {"left": 1, "right": 1}


async def test_a_function_that_swallows_the_end_of_a_request_fails() -> None:
    """Its result was made without the step's."""
    agent = Agent(name="a", system="S", model=ScriptedModel("Done."))

    async def handler(ctx: inngest.Context) -> str:
        try:
            return (await agent.run("Go.")).text
        except BaseException:  # noqa: BLE001 - what must not be done
            return "finished"

    message = failed(await executor_for(handler, check=False).run(EVENT))
    assert "'a.0.infer'" in message
    assert "BaseException" in message


# ------------------------------------------------------------------ code that differs


def once(agent: Agent) -> Any:
    """A router that lets an agent act once."""

    def router(context: RouterContext) -> Agent | None:
        return agent if context.call_count == 0 else None

    return router


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("seed", range(8))
async def test_a_router_that_decides_by_chance_ends_the_run(
    inference: Inference, seed: int
) -> None:
    """Eight model calls instead of three, and a wrong thread, COMPLETED."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    looked: Counter[str] = Counter()
    names = ["one", "two", "three"]
    fake = FakeProvider(Script({n: [tool_call("look", {"place": n}), "Done."] * 20 for n in names}))

    @tool
    def look(place: str) -> str:
        """Look."""
        looked[place] += 1
        return "nothing"

    model = at(openai("gpt-4o", api_key="sk-test"), fake)
    agents = [Agent(name=n, system=n, tools=[look], model=model, max_iter=2) for n in names]

    def router(context: RouterContext) -> Agent | None:
        return chance.choice(agents) if context.call_count < 3 else None

    network = Network(name="net", agents=agents, router=router)

    async def handler(ctx: inngest.Context) -> str:
        return (await network.run("Go.")).text

    executor = executor_for(
        handler, inference=inference, check=False, transport=fake.transport, retries=0
    )
    run = await executor.run(EVENT)
    message = failed(run)
    assert "The router of 'net'" in message
    assert "'net." in message
    assert all(count == 1 for count in looked.values())


def told_by(place: str, clock: Callable[[], float]) -> Network:
    """A network in which code outside of steps writes a clock down, or says it."""

    def note(context: Any) -> None:
        context.state.data["at"] = clock()

    @tool
    def charge(ctx: ToolContext) -> str:
        """Charge what the clock says."""
        return f"charged {ctx.state.data.get('at')}"

    @tool(steps=True)
    async def ask(ctx: ToolContext) -> str:
        """Say the time."""

        async def work() -> str:
            return "asked"

        await ctx.step.run("ask", work)
        if place == "tool's state":
            note(ctx)
            return "asked"
        return f"asked at {clock()}" if place == "tool's result" else "asked"

    hooks: dict[str, Any] = {place: note} if place.startswith("on_") else {}
    model = ScriptedModel(tool_call("ask", {}), tool_call("charge", {}), "Done.")
    agent = Agent(
        name="a", system="S", tools=[ask, charge], model=model, lifecycle=Lifecycle(**hooks)
    )

    def router(context: RouterContext) -> Agent | None:
        if place == "router":
            note(context)
        return agent if context.call_count == 0 else None

    return Network(name="net", agents=[agent], router=router)


@pytest.mark.parametrize(
    "place", ["router", "on_start", "on_response", "tool's state", "tool's result", "nowhere"]
)
async def test_a_clock_outside_of_steps_that_comes_into_the_record_ends_the_run(place: str) -> None:
    """What the tools and the model were given was not what the run said at its end."""
    times = iter(range(1000))
    network = told_by(place, lambda: next(times))

    async def handler(ctx: inngest.Context) -> Any:
        return (await network.run("Go.")).text

    run = await executor_for(handler, check=False).run(EVENT)
    if place == "nowhere":
        assert run.output == "Done."
    else:
        message = failed(run)
        assert "ReplayError" in message
        assert ("Tool 'ask' of 'a'" if place == "tool's result" else "the run's state") in message


async def test_a_default_that_differs_in_each_replay_is_no_change_of_the_state() -> None:
    """Each replay makes its own; what a tool has recorded wins."""

    @dataclass
    class Desk:
        session: str = field(default_factory=lambda: uuid.uuid4().hex)
        calls: int = 0

    @tool
    def count(ctx: ToolContext) -> str:
        """Count."""
        ctx.state.data.calls += 1
        return str(ctx.state.data.session)

    model = ScriptedModel(*[tool_call("count", {})] * 3, "Done.")
    agent = Agent(name="a", system="S", tools=[count], model=model, max_iter=4)
    network = Network(name="net", agents=[agent], router=once(agent), state_type=Desk)

    async def handler(ctx: inngest.Context) -> list[Any]:
        run = await network.run("Go.")
        seen = {str(call.content) for result in run.results for call in result.tool_calls}
        return [run.state.data.calls, len(seen)]

    run = await executor_for(handler, check=False).run(EVENT)
    assert run.output == [3, 1], run.error


async def test_steps_that_are_left_at_the_end_are_an_error_that_names_them() -> None:
    """Nobody would see that the run has done more than it says."""
    asked = [0]
    agent = Agent(name="a", system="S", model=ScriptedModel("1", "2", "3", "4"))

    async def handler(ctx: inngest.Context) -> str:
        asked[0] += 1
        if asked[0] < 3:
            await agent.run("Go.")
            await agent.run("Go on.")
        return "done"

    message = failed(await executor_for(handler, check=False).run(EVENT))
    assert "'a.0.infer'" in message
    assert "'a:2.0.infer'" in message


# ------------------------------------------------------------------ numbers


BAN = 1150000000000000001


@pytest.mark.parametrize("value", [BAN, -BAN, 1.0, -0.0, 1e300, [{"id": BAN}], {"$number": "1"}])
async def test_numbers_survive_in_states_arguments_and_outputs(value: Any) -> None:
    """The server keeps numbers as doubles: 1150000000000000001 became …000, and 1.0 became 1."""
    got: list[str] = []

    @tool
    def store(value: Any, ctx: ToolContext) -> Any:
        """Store."""
        got.append(json.dumps(value))
        ctx.state.data["value"] = value
        return value

    @tool(steps=True)
    async def ban(value: Any, ctx: ToolContext) -> Any:
        """Ban."""

        async def work() -> Any:
            got.append(json.dumps(value))
            return [value, ctx.state.data["value"]]

        return await ctx.step.run("ban", work)

    calls = [tool_call("store", {"value": value}), tool_call("ban", {"value": value})]
    model = ScriptedModel(*calls, "Done.")
    agent = Agent(name="a", system="S", tools=[store, ban], model=model, max_iter=3)

    async def handler(ctx: inngest.Context) -> str:
        state = State[dict[str, Any]]()
        await agent.run("Go.", state=state)
        return json.dumps([state.data["value"], state.results[1].tool_calls[0].content])

    run = await executor_for(handler).run(EVENT)
    assert run.output == json.dumps([value, {"data": [value, value]}]), run.error
    assert got == [json.dumps(value)] * 2


async def test_objects_keep_the_order_of_their_keys() -> None:
    """The server sorts them: the model read a tool's result in another order than it was given."""
    given: dict[str, Any] = {"zone": 1, "area": {"y": [], "x": [{"b": 1.0, "a": {}}]}, "name": "n"}
    got: list[str] = []

    @tool
    def look(ctx: ToolContext) -> Any:
        """Look."""
        ctx.state.data["last"] = given
        return given

    @tool
    def check(ctx: ToolContext) -> str:
        """Check."""
        got.append(json.dumps(ctx.state.data["last"]))
        return "checked"

    model = ScriptedModel(tool_call("look", {}), tool_call("check", {}), "Done.")
    agent = Agent(name="a", system="S", tools=[look, check], model=model, max_iter=3)

    async def handler(ctx: inngest.Context) -> str:
        state = State[dict[str, Any]]()
        await agent.run("Go.", state=state)
        return json.dumps(state.results[0].tool_calls[0].content)

    run = await executor_for(handler).run(EVENT)
    assert run.output == json.dumps({"data": given}), run.error
    assert got == [json.dumps(given)]


async def test_an_event_with_a_number_that_was_rounded_is_refused_by_name() -> None:
    """Nobody can know any more which number it was."""

    @tool(steps=True)
    async def wait(ctx: ToolContext) -> Any:
        """Wait for a ban."""
        event = await ctx.step.wait_for_event("ban", event="test/ban", timeout=1000)
        return event.data["user"]

    model = ScriptedModel(tool_call("wait", {}), "Done.")
    agent = Agent(name="a", system="S", tools=[wait], model=model, max_iter=2)

    async def handler(ctx: inngest.Context) -> str:
        return (await agent.run("Go.")).text

    run = await executor_for(handler).run(EVENT, answer=lambda _: {"user": {"id": BAN}})
    assert "event.data of step 'a.0.tool.0.wait.ban'.user.id is the number" in failed(run)


async def test_a_number_that_the_server_would_round_is_not_given_to_another_function() -> None:
    """The other function does not know our form of it."""

    @tool(steps=True)
    async def call(ctx: ToolContext) -> Any:
        """Call."""
        return await ctx.step.invoke_by_id("other", function_id="other", data={"users": [BAN]})

    model = ScriptedModel(tool_call("call", {}), "Done.")
    agent = Agent(name="a", system="S", tools=[call], model=model, max_iter=2)

    async def handler(ctx: inngest.Context) -> str:
        return (await agent.run("Go.")).text

    run = await executor_for(handler).run(EVENT)
    assert ".users[0] is the number 1150000000000000001" in failed(run)
    assert run.names == ["a.0.infer"]


# ------------------------------------------------------------------ sizes


@pytest.mark.parametrize("inference", INFERENCES)
async def test_a_prompt_above_4_mb_is_a_clear_error_where_the_server_asks(
    inference: Inference,
) -> None:
    """The server fails unreadably; a process that asks itself may send it."""
    fake = FakeProvider(["Done."])
    agent = Agent(
        name="a", system="x" * (4 * 1024 * 1024), model=at(openai("gpt-4o", api_key="k"), fake)
    )

    async def handler(ctx: inngest.Context) -> str:
        return (await agent.run("Go.", ctx=ctx)).text

    middleware: Any = AgentKitMiddleware.configured(
        inference=inference, local=DirectRuntime(transport=fake.transport)
    )
    client = inngest.Inngest(app_id="test", is_production=False, middleware=[middleware])
    make = client.create_function(fn_id="f", trigger=inngest.TriggerEvent(event=EVENT), retries=0)
    run = await ReplayExecutor(client, [make(handler)], transport=fake.transport).run(EVENT)
    if inference == "local":
        assert run.output == "Done."
    else:
        message = failed(run)
        assert "'a.0.infer'" in message
        assert 'inference="local"' in message


async def test_outputs_of_more_than_32_mb_are_a_clear_error_before_the_servers() -> None:
    """It names the step that was one too many."""

    @tool
    def read() -> str:
        """Read."""
        return "x" * (4 * 1000 * 1000)

    model = ScriptedModel(*[tool_calls(*[("read", dict[str, Any]())] * 9)], "Done.")
    agent = Agent(name="a", system="S", tools=[read], model=model, max_iter=2)

    async def handler(ctx: inngest.Context) -> str:
        return (await agent.run("Go.")).text

    message = failed(await executor_for(handler, check=False).run(EVENT))
    assert "'a.0.tool.8.read'" in message
    assert "33,554,432" in message


async def test_an_event_with_a_number_beyond_the_doubles_is_refused_unless_it_is_a_text() -> None:
    """The server has rounded it already; our own form of it survives, in both directions."""
    client = inngest.Inngest(app_id="app", is_production=False)
    agent = Agent(name="a", system="S", model=ScriptedModel("Done.", "Done."))
    functions = create_functions(client, agents=[agent], inference="local")
    executor = ReplayExecutor(client, functions)
    run = await executor.run("app/agent-a", {"input": "Go.", "state": {"user": {"id": BAN}}})
    assert "event.data.state.user.id is the number" in failed(run)
    exact = {"user": {"id": {"$number": str(BAN)}}}
    run = await executor.run("app/agent-a", {"input": "Go.", "state": exact})
    assert run.output["state"] == exact, run.error


@pytest.mark.parametrize(
    "state",
    [*({"n": {"$number": text}} for text in ("abc", "²", "--5", "1e400", "1" * 5000, 5)), [1], "x"],
)
async def test_an_event_whose_state_cannot_be_read_is_refused_by_name(state: Any) -> None:
    """It was tried five times, or taken for an empty state."""
    client = inngest.Inngest(app_id="app", is_production=False)
    agent = Agent(name="a", system="S", model=ScriptedModel())
    executor = ReplayExecutor(client, create_functions(client, agents=[agent]))
    run = await executor.run("app/agent-a", {"input": "Go.", "state": state})
    assert "ConfigurationError" in failed(run)
    assert run.requests == 1


@pytest.mark.parametrize("stored", [True, False])
async def test_a_run_near_the_limit_of_steps_continues_in_a_new_run(stored: bool) -> None:
    """Thread and state are carried over; each order is paid once."""
    paid: list[int] = []

    @tool
    def pay(ctx: ToolContext) -> str:
        """Pay the next order."""
        number = ctx.state.data["next"] = ctx.state.data.get("next", 0) + 1
        paid.append(number)
        return f"paid {number}"

    fake = FakeProvider(lambda request: _next_payment(request.body))
    payer = Agent(
        name="payer",
        system="payer",
        tools=[pay],
        model=at(openai("gpt-4o", api_key="sk-test"), fake),
        max_iter=50,
    )

    def router(context: RouterContext) -> Agent | None:
        return payer if context.state.data.get("next", 0) < 20 else None

    history = MemoryHistory() if stored else None
    network = Network(name="net", agents=[payer], router=router, history=history)
    client = inngest.Inngest(app_id="app", is_production=False)
    functions = create_functions(
        client,
        networks=[network],
        options={"net": FunctionOptions(continue_as_new=15)},
        inference="local",
        local=DirectRuntime(transport=fake.transport),
    )
    executor = ReplayExecutor(client, functions, check=True)
    first = await executor.run("app/network-net", {"input": "Pay all.", "threadId": "t"})
    assert first.output["stopReason"] == "max_steps"
    assert first.output["continuedAs"] == executor.events[-1]["id"] or len(executor.runs) > 2
    for run in executor.runs:  # it grows
        await executor.finish(run)
    assert [run.status for run in executor.runs] == ["completed"] * len(executor.runs)
    assert len(executor.runs) > 2
    assert all(len(run.names) < 25 for run in executor.runs)
    assert paid == list(range(1, 21))
    assert executor.runs[-1].output["stopReason"] == "done"
    assert executor.runs[-1].output["state"] == {"next": 20}
    if history is not None:
        rows = await history.load("t")
        assert sum(row.agent_name == "user" for row in rows) == 1
        assert sum(len(row.tool_calls) for row in rows) == 20


def _next_payment(body: Any) -> Any:
    done = sum(message["role"] == "tool" for message in body["messages"])
    return tool_call("pay", {}) if done < 20 else "All is paid."
