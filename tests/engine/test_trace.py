"""Tracing: each model call, kept on a copy of the state so that it can be looked at again."""

from __future__ import annotations

from agentkit_py import Agent, Lifecycle, Network, RouterContext, State, ToolCallFilter, ToolContext
from agentkit_py._engine.instrumentation import CallEdit, Instrumentation, ModelCall, instrumented
from agentkit_py.lifecycle import AgentContext, Start, StartContext
from agentkit_py.messages import Message, text_of
from agentkit_py.routing import Together, together
from agentkit_py.testing import ScriptedModel, tool_call

from .runner import Runner


class Calls(Instrumentation):
    """Keeps each model call, with a copy of its state."""

    wants_rehearsals = True

    def __init__(self, calls: list[ModelCall]) -> None:
        self.calls = calls

    def model_call(self, call: ModelCall) -> None:
        """Keep it."""
        self.calls.append(call)


def count(ctx: ToolContext) -> str:
    """Count up."""
    ctx.state.data["count"] = ctx.state.data.get("count", 0) + 1
    return "counted"


def system(context: AgentContext) -> str:
    """A prompt that tells the state."""
    return f"Counted {context.state.data.get('count', 0)}."


def first_text(messages: tuple[Message, ...]) -> str:
    """The system prompt that a request has."""
    return text_of(messages[0])


async def test_each_call_is_traced_before_it_is_made_and_nothing_outside_the_block(
    runner: Runner,
) -> None:
    """The call has the ids of run and step, and the input of the model."""
    calls: list[ModelCall] = runner.again([])
    model = ScriptedModel(tool_call("count"), "Done.", "Again.")
    agent = Agent(name="a", system="S", tools=[count], model=model, max_iter=3)
    with instrumented(Calls(calls)):
        result = await runner.run(agent, "Hi", state=State({}))
    await runner.run(agent, "Hi", state=State({}))
    assert [call.step_id for call in calls] == ["a.0.infer", "a.1.infer"]
    assert len({call.run_id for call in calls}) == 1
    assert result.context is not None
    assert calls[1].report is not None
    assert calls[1].report.sent == result.context.sent


async def test_a_call_is_looked_at_again_on_the_state_of_its_time(runner: Runner) -> None:
    """This works after the run has gone on, and does not change the run's state."""
    calls: list[ModelCall] = runner.again([])
    model = ScriptedModel(tool_call("count"), tool_call("count"), "Done.")
    agent = Agent(name="a", system=system, tools=[count], model=model, max_iter=3)
    state = State({})
    with instrumented(Calls(calls)):
        await runner.run(agent, "Hi", state=state)
    seen = [first_text((await call.rehearse()).request.messages) for call in calls]
    assert seen == ["Counted 0.", "Counted 1.", "Counted 2."]
    assert state.data == {"count": 2}
    model.assert_finished()


async def test_prompt_input_and_processors_can_be_otherwise(runner: Runner) -> None:
    """The changes hold for one rehearsal; the agent is not changed."""
    calls: list[ModelCall] = runner.again([])
    model = ScriptedModel("Done.")
    agent = Agent(name="a", system="S", model=model, processors=[ToolCallFilter()])
    with instrumented(Calls(calls)):
        await runner.run(agent, "Hi")
    edit = CallEdit(system="Other.", input="Bye", chains=[])
    made = await calls[0].rehearse(edit)
    assert [text_of(m) for m in made.request.messages] == ["Other.", "Bye"]
    assert made.report.entries == ()
    again = await calls[0].rehearse()
    assert [text_of(m) for m in again.request.messages] == ["S", "Hi"]
    assert [entry.name for entry in again.report.entries] == ["ToolCallFilter"]


async def test_a_hook_is_asked_again_and_may_stop(runner: Runner) -> None:
    """`on_start` belongs to what a call sees."""

    def hook(context: StartContext) -> Start | None:
        stop = context.input == "Stop"
        return Start(context.prompt, context.history, stop=True) if stop else None

    calls: list[ModelCall] = runner.again([])
    hooks = Lifecycle(on_start=hook)
    agent = Agent(name="a", system="S", model=ScriptedModel("Done."), lifecycle=hooks)
    with instrumented(Calls(calls)):
        await runner.run(agent, "Hi")
    assert not (await calls[0].rehearse()).stop
    assert (await calls[0].rehearse(CallEdit(input="Stop"))).stop


async def test_agents_that_run_together_and_in_tools_are_traced_too(runner: Runner) -> None:
    """Each with its own state."""
    calls: list[ModelCall] = runner.again([])
    helper = Agent(name="helper", system="Help.", model=ScriptedModel("Helped."))
    left_model = ScriptedModel(tool_call("helper", {"task": "x"}), "Left.")
    left = Agent(name="left", system=system, tools=[helper.as_tool()], model=left_model, max_iter=2)
    right = Agent(name="right", system=system, model=ScriptedModel("Right."))

    def route(context: RouterContext) -> Together | None:
        return together(left, right) if context.call_count == 0 else None

    network = Network(name="n", agents=[left, right], router=route)
    with instrumented(Calls(calls)):
        await runner.run(network, "Hi", state=State({}))
    assert sorted(str(call.request.agent) for call in calls) == ["helper", "left", "left", "right"]
    for call in calls:
        assert (await call.rehearse()).report.agent == call.request.agent
