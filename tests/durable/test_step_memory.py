"""Outputs of remembered steps are equal in each replay."""

from __future__ import annotations

import json
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, Lifecycle, State, ToolContext, create_tool, openai, tool
from agentkit_py.inngest import AgentKitMiddleware
from agentkit_py.lifecycle import ResultContext
from agentkit_py.messages import ToolCallMessage
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing import FakeProvider, ScriptedModel, tool_call
from agentkit_py.testing.executor import ReplayExecutor

from .world import EVENT, INFERENCES, Inference, at, executor_for

# ------------------------------------------------------------------ nobody changes it for others


def changing_agent() -> tuple[Agent, ScriptedModel, list[Any]]:
    """An agent whose tool and hook change whatever they can; its model, what the tool got."""
    got: list[Any] = []

    def count(given: Any, ctx: ToolContext) -> str:
        got.append(json.loads(json.dumps([given, ctx.call.arguments])))
        given["by"] = 99
        given["list"].append(5)
        given.clear()
        return "counted"

    def on_response(context: ResultContext) -> None:
        for message in context.result.output:
            if isinstance(message, ToolCallMessage):
                arguments: Any = message.tools[0].arguments
                arguments["seen"] = arguments.get("seen", 0) + 1
                arguments["list"].append("hook")

    calls = [tool_call("count", {"by": number, "list": [number]}) for number in (1, 2, 3)]
    model = ScriptedModel(*calls, "Done.")
    agent = Agent(
        name="counter",
        system="S",
        model=model,
        tools=[create_tool(name="count", handler=count)],
        lifecycle=Lifecycle(on_response=on_response),
        max_iter=4,
    )
    return agent, model, got


async def test_tools_and_hooks_that_change_arguments_change_nothing_in_later_replays() -> None:
    """Each replay begins with what the model said, as a direct run does."""
    agent, model, got = changing_agent()
    state = State[dict[str, Any]]()
    await agent.run("Count.", state=state)
    directly = [result.to_dict() for result in state.results]
    requests = model.bodies
    agent, model, durably_got = changing_agent()
    found: list[Any] = []

    async def function(ctx: inngest.Context) -> str:
        state = State[dict[str, Any]]()
        text = (await agent.run("Count.", state=state)).text
        found[:] = [result.to_dict() for result in state.results]
        return text

    run = await executor_for(function, check=False).run(EVENT)
    assert run.output == "Done.", run.error
    assert durably_got == got
    assert [one[0]["list"] for one in got] == [[number, "hook"] for number in (1, 2, 3)]
    assert model.bodies == requests
    assert [one["output"] for one in found] == [one["output"] for one in directly]
    assert [one["output"][0]["tools"][0]["input"]["seen"] for one in found[:3]] == [1, 1, 1]


async def test_a_tool_that_changes_its_arguments_does_not_change_the_models_reply() -> None:
    """The next request repeats the call as it came, with a schema and without one."""

    @tool
    def sort(names: list[Any]) -> str:
        """Sort."""
        names[0].append("new")
        return "sorted"

    def clear(given: Any) -> str:
        given.clear()
        return "cleared"

    calls = [tool_call("sort", {"names": [["a"]]}), tool_call("clear", {"all": [1]}), "Done."]
    model = ScriptedModel(*calls)
    tools = [sort, create_tool(name="clear", handler=clear)]
    await Agent(name="a", system="S", model=model, tools=tools, max_iter=3).run("Go.")
    asked = [m["tool_calls"][0]["function"] for m in model.bodies[2]["messages"][2::2]]
    assert [json.loads(one["arguments"]) for one in asked] == [{"names": [["a"]]}, {"all": [1]}]


@pytest.mark.parametrize("found", [[False, 1, {"a": 0}], [0, 1, {"a": 0.0}]])
async def test_a_tool_that_writes_an_equal_value_is_seen_to_have_changed_the_state(
    found: list[Any],
) -> None:
    """Python takes 0, 0.0 and False for the same; a prompt that says one of them does not."""

    def write(_: object, ctx: ToolContext) -> str:
        ctx.state.data["found"] = found
        return "written"

    model = ScriptedModel(tool_call("write", {}), "Done.")
    tools = [create_tool(name="write", handler=write)]
    agent = Agent(name="a", system="S", model=model, tools=tools, max_iter=2)

    async def function(ctx: inngest.Context) -> str:
        state = State[dict[str, Any]]({"found": [0, 1, {"a": 0}]})
        await agent.run("Go.", state=state)
        return json.dumps(state.data)

    run = await executor_for(function).run(EVENT)
    assert run.output == json.dumps({"found": found}), run.error


# ------------------------------------------------------------------ what middleware gets


class Hooks(inngest.Middleware):
    """Says in each request since when the SDK takes the code for new."""

    new = False
    memos = 0

    async def transform_input(
        self,
        ctx: inngest.Context | inngest.ContextSync,
        function: inngest.Function[Any],
        steps: inngest.StepMemos,
    ) -> None:
        """A request begins."""
        Hooks.new, Hooks.memos = False, steps.size

    async def before_execution(self) -> None:
        """New code begins."""
        Hooks.new = True


async def test_middleware_learns_at_the_same_moment_as_ever_that_code_is_new() -> None:
    """New code begins after the last remembered step, whatever code takes its output."""
    seen: list[tuple[int, int, bool]] = []
    asked = [0]

    def on_response(_: ResultContext) -> None:
        asked[0] += 1
        seen.append((Hooks.memos, 2 * asked[0] - 1, Hooks.new))

    @tool
    async def look() -> str:
        """Look."""
        assert Hooks.new
        return "nothing"

    calls = [tool_call("look", {}) for _ in range(4)]
    agent = Agent(
        name="a",
        system="S",
        model=ScriptedModel(*calls, "Done."),
        tools=[look],
        lifecycle=Lifecycle(on_response=on_response),
        max_iter=5,
    )

    async def function(ctx: inngest.Context) -> str:
        asked[0] = 0
        text = (await agent.run("Go.")).text
        assert Hooks.new == (Hooks.memos <= 9)
        await ctx.step.run("own", own)
        return text

    async def own() -> str:
        assert Hooks.new
        return "done"

    inference: Any = AgentKitMiddleware.configured(inference="local")
    client = inngest.Inngest(app_id="test", is_production=False, middleware=[inference, Hooks])
    make = client.create_function(fn_id="f", trigger=inngest.TriggerEvent(event=EVENT), retries=0)
    executor = ReplayExecutor(client, [make(function)], check=True)
    run = await executor.run(EVENT)
    assert run.output == "Done.", run.error
    assert run.differences == []
    assert len(seen) > 2 * 5
    assert [new for _, _, new in seen] == [taken >= memos for memos, taken, _ in seen]


async def test_own_steps_with_the_names_of_the_agents_are_counted_as_the_sdk_counts() -> None:
    """It numbers names that come twice, and must come to the same numbers on each replay."""
    agent = Agent(
        name="a",
        system="S",
        model=ScriptedModel(tool_call("look", {}), "Done."),
        tools=[create_tool(name="look", handler=lambda: "nothing")],
        max_iter=2,
    )
    happened: list[str] = []

    async def function(ctx: inngest.Context) -> list[Any]:
        async def own(name: str) -> str:
            happened.append(name)
            return name

        first = await ctx.step.run("a.0.infer", own, "before")
        text = (await agent.run("Go.")).text
        second = await ctx.step.run("a.0.infer", own, "again")
        third = await ctx.step.run("a.1.infer", own, "after")
        return [first, text, second, third]

    run = await executor_for(function).run(EVENT)
    assert run.output == ["before", "Done.", "again", "after"], run.error
    assert happened == ["before", "again", "after"]
    assert run.differences == []


def looking(fake: FakeProvider) -> tuple[Agent, list[int]]:
    """An agent that asks ``fake`` and has a tool; the arguments that the tool got."""
    places: list[int] = []

    @tool
    async def look(place: int) -> str:
        """Look."""
        places.append(place)
        return f"place {place}"

    model = at(openai("gpt-4o", api_key="sk-test"), fake)
    return Agent(name="a", system="S", model=model, tools=[look], max_iter=3), places


def executor_with(
    function: Any, fake: FakeProvider, inference: Inference, *middleware: Any
) -> ReplayExecutor:
    """An executor whose functions ask ``fake``."""
    local = DirectRuntime(transport=fake.transport)
    configured: Any = AgentKitMiddleware.configured(inference=inference, local=local)
    client = inngest.Inngest(
        app_id="test", is_production=False, middleware=[configured, *middleware]
    )
    make = client.create_function(fn_id="f", trigger=inngest.TriggerEvent(event=EVENT), retries=0)
    return ReplayExecutor(client, [make(function)], transport=fake.transport, check=True)


@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("name", ["a.0.infer", "a.0.tool.0.look", "a.1.infer"])
async def test_an_own_step_that_is_done_is_not_taken_for_the_agents_of_the_same_name(
    name: str, inference: Inference
) -> None:
    """The agent's step comes second, and so is new: it needs its request, or its arguments."""
    fake = FakeProvider([tool_call("look", {"place": 3}), "Done."])
    agent, places = looking(fake)

    async def own() -> str:
        return "own"

    async def function(ctx: inngest.Context) -> list[Any]:
        return [await ctx.step.run(name, own), (await agent.run("Go.")).text]

    run = await executor_with(function, fake, inference).run(EVENT)
    assert run.output == ["own", "Done."], run.error
    assert run.differences == []
    assert places == [3]
    bodies: list[Any] = [request.body for request in fake.requests]
    assert [len(body["messages"]) for body in bodies] == [2, 4]


class Sealing(inngest.Middleware):
    """Keeps what steps give in another form, as middleware that encrypts does."""

    async def transform_input(
        self,
        ctx: inngest.Context | inngest.ContextSync,
        function: inngest.Function[Any],
        steps: inngest.StepMemos,
    ) -> None:
        """Open all memos."""
        for memo in steps.values():
            sealed: Any = memo.data
            if "sealed" in (sealed or ()):
                memo.data = json.loads(sealed["sealed"])

    async def transform_output(self, result: inngest.TransformOutputResult) -> None:
        """Seal the output of a step."""
        if result.step is not None and result.output is not None:
            result.output = {"sealed": json.dumps(result.output)}


@pytest.mark.parametrize("inference", INFERENCES)
async def test_middleware_that_changes_remembered_steps_has_an_effect(inference: Inference) -> None:
    """The run uses the memos that the SDK returns after its middleware."""
    fake = FakeProvider([*(tool_call("look", {"place": number}) for number in (1, 2)), "Done."])
    agent, places = looking(fake)

    async def function(ctx: inngest.Context) -> str:
        return (await agent.run("Go.")).text

    run = await executor_with(function, fake, inference, Sealing).run(EVENT)
    assert run.output == "Done.", run.error
    assert places == [1, 2]
    assert "sealed" in json.dumps(run.memos)
