"""Agents and networks as tools: what they share with the run they are called in, and what not."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from agentkit_py import Agent, MemoryHistory, Network, RunLimits, State, ToolContext, tool
from agentkit_py.errors import ConfigurationError, NonRetriableError
from agentkit_py.testing import EventLog, ScriptedModel, tool_call

from .runner import Runner


@tool
def look(what: str, ctx: ToolContext) -> str:
    """Look something up."""
    ctx.state.data["looked"] = what
    return "raw " * 100


def ask(name: str = "researcher") -> Any:
    """A call of the nested agent."""
    return tool_call(name, {"task": "find x"})


def answer_in(result: Any) -> dict[str, Any]:
    """Return the nested run's answer to the model."""
    (message,) = result.tool_calls
    return message.content["data"]


def researcher(model: ScriptedModel | None, **more: Any) -> Agent:
    """An agent with a tool."""
    return Agent(name="researcher", system="R", model=model, tools=[look], **more)


async def test_only_the_call_and_the_answer_come_back(runner: Runner) -> None:
    """State, thread and history of the nested run are its own."""
    store = MemoryHistory()
    inner = ScriptedModel(tool_call("look", {"what": "x"}), "x is 7")
    outer = ScriptedModel(ask(), "It is 7.")
    nested = researcher(inner, history=store).as_tool(allowed_tools=["look"])
    parent = Agent(name="clerk", system="S", model=outer, tools=[nested], max_iter=3)
    state = State({"mine": 1}, thread_id="main-thread")
    await runner.run(parent, "What is x?", state=state)
    outer.assert_finished()
    inner.assert_finished()
    assert state.data == {"mine": 1}
    first, second = [r for r in state.results if r.agent_name == "clerk"]
    answer = answer_in(first)
    assert (answer["ok"], answer["result"], answer["loops"]) == (True, "x is 7", 2)
    assert answer["context_id"].startswith("subagent-")
    assert second.text == "It is 7."
    outer.assert_not_saw("raw")
    inner.assert_not_saw("What is x?", request=0)
    inner.assert_saw("R", "find x", request=0)
    (thread,) = await store.list_threads()
    assert thread.id == answer["context_id"]
    assert len(await store.load(thread.id)) == 3


async def test_each_call_begins_with_a_fresh_state(runner: Runner) -> None:
    """Two calls are two contexts."""
    inner = ScriptedModel("One.", "Two.")
    outer = ScriptedModel(ask(), ask(), "Done.")
    parent = Agent(
        name="clerk", system="S", model=outer, tools=[researcher(inner).as_tool()], max_iter=4
    )
    state: State[Any] = State()
    await runner.run(parent, "Go", state=state)
    ids = {answer_in(r)["context_id"] for r in state.results if r.tool_calls}
    assert len(ids) == 2
    inner.assert_not_saw("One.", request=1)


async def test_it_may_use_no_tool_that_it_was_not_given(runner: Runner) -> None:
    """Rights begin at none: the model is offered none, and may call none."""
    inner = ScriptedModel(tool_call("look", {"what": "x"}), "I cannot.", strict=False)
    outer = ScriptedModel(ask(), "Done.")
    agent = researcher(inner)
    parent = Agent(name="clerk", system="S", model=outer, tools=[agent.as_tool()], max_iter=3)
    await runner.run(parent, "Go")
    assert "tools" not in inner.bodies[0]
    inner.assert_saw("may not be called now", request=1)


async def test_it_may_be_given_all_of_its_own(runner: Runner) -> None:
    """``allowed_tools="own"`` gives it the tools that it has by itself."""
    inner = ScriptedModel("Yes.")
    tool_of_it = researcher(inner).as_tool(allowed_tools="own")
    outer = ScriptedModel(ask(), "Done.")
    await runner.run(Agent(name="c", system="S", model=outer, tools=[tool_of_it], max_iter=2), "Go")
    assert len(inner.bodies[0]["tools"]) == 1


async def test_a_network_is_a_tool_too(runner: Runner) -> None:
    """Each of its agents has only the tools that were given."""
    inner = ScriptedModel("One says.", "Two says.")
    network = Network(
        name="Back Office", default_model=inner,
        agents=[researcher(None), Agent(name="writer", system="W", tools=[look])],
        router=lambda c: [["researcher"], ["writer"], []][c.call_count],
    )  # fmt: skip
    outer = ScriptedModel(ask("back_office"), "Done.")
    parent = Agent(name="clerk", system="S", model=outer, tools=[network.as_tool()], max_iter=2)
    state: State[Any] = State()
    await runner.run(parent, "Go", state=state)
    answer = answer_in(next(r for r in state.results if r.tool_calls))
    assert (answer["ok"], answer["result"], answer["loops"]) == (True, "Two says.", 2)
    assert all("tools" not in body for body in inner.bodies)


async def test_its_loops_end_at_its_own_limit(runner: Runner) -> None:
    """The parent reads that it was stopped, and continues."""
    calls = [tool_call("look", {"what": str(n)}) for n in range(5)]
    inner = ScriptedModel(*calls)
    outer = ScriptedModel(ask(), "Done.")
    nested = researcher(inner).as_tool(allowed_tools="own", max_iter=2)
    state: State[Any] = State()
    await runner.run(
        Agent(name="c", system="S", model=outer, tools=[nested], max_iter=2), "Go", state=state
    )
    answer = answer_in(next(r for r in state.results if r.tool_calls))
    assert (answer["ok"], answer["loops"]) == (False, 2)
    assert "max_iter" in answer["result"]


async def test_its_model_calls_count_for_the_limits_of_the_whole(runner: Runner) -> None:
    """Limits per network and over all of a run."""
    inner = ScriptedModel(*[tool_call("look", {"what": "x"}) for _ in range(9)])
    outer = ScriptedModel(ask(), "never")
    nested = researcher(inner).as_tool(allowed_tools="own", max_iter=9)
    parent = Agent(name="c", system="S", model=outer, tools=[nested], max_iter=5)
    result = await runner.run(parent, "Go", limits=RunLimits(max_inferences=4))
    assert result.stop_reason == "max_inferences"
    assert len(outer.requests) + len(inner.requests) == 4


async def test_a_failure_is_an_answer(runner: Runner) -> None:
    """The model reads the cause of the failure and continues."""
    inner = ScriptedModel()
    outer = ScriptedModel(ask(), "Then not.")
    state: State[Any] = State()
    parent = Agent(
        name="c", system="S", model=outer, tools=[researcher(inner).as_tool()], max_iter=2
    )
    result = await runner.run(parent, "Go", state=state)
    assert result.text == "Then not."
    answer = answer_in(next(r for r in state.results if r.tool_calls))
    assert answer["ok"] is False
    assert "ProviderUnavailableError" in answer["result"]


async def test_errors_that_end_a_run_end_both(runner: Runner) -> None:
    """`NonRetriableError` is nothing to read."""

    @tool
    def stop() -> None:
        """Stop."""
        raise NonRetriableError("enough")

    inner = ScriptedModel(tool_call("stop"))
    outer = ScriptedModel(ask("stopper"))
    nested = Agent(name="stopper", system="S", model=inner, tools=[stop])
    parent = Agent(
        name="c", system="S", model=outer, tools=[nested.as_tool(allowed_tools="own")], max_iter=2
    )
    with pytest.raises(NonRetriableError):
        await runner.run(parent, "Go")


async def test_nesting_is_bounded(runner: Runner) -> None:
    """At the limit, the model gets a `NestingError` in place of another run."""
    model = ScriptedModel(
        ask("echo"), ask("echo"), ask("echo"), "deepest", "third", "second", "first"
    )
    echo = Agent(name="echo", system="S", model=model)
    inner: Any = echo
    for _ in range(3):
        inner = Agent(
            name="echo", system="S", model=model,
            tools=[inner.as_tool(allowed_tools="own", max_depth=2)], max_iter=3,
        )  # fmt: skip
    state: State[Any] = State()
    await runner.run(inner, "Go", state=state)
    model.assert_saw("NestingError", "would be nested 3 runs deep, and may be 2", request=3)


async def test_it_uses_the_callers_model_if_it_has_none(runner: Runner) -> None:
    """A model given for the nested run overrides it."""
    outer = ScriptedModel(ask(), "inner answer", "Done.")
    parent = Agent(
        name="c", system="S", model=outer, tools=[researcher(None).as_tool()], max_iter=2
    )
    await runner.run(parent, "Go")
    outer.assert_finished()
    own = ScriptedModel("inner answer")
    outer = ScriptedModel(ask(), "Done.")
    nested = researcher(None).as_tool(model=own)
    await runner.run(Agent(name="c", system="S", model=outer, tools=[nested], max_iter=2), "Go")
    own.assert_finished()


async def test_its_state_names_the_run_that_called_it(runner: Runner) -> None:
    """The application may make the state."""
    states: list[State[Any]] = runner.again([])

    def make() -> State[Any]:
        states.append(State({"tenant": "a"}))
        return states[-1]

    inner = ScriptedModel("Yes.")
    outer = ScriptedModel(ask(), "Done.")
    nested = researcher(inner).as_tool(state=make)
    await runner.run(Agent(name="c", system="S", model=outer, tools=[nested], max_iter=2), "Go")
    (state,) = states
    assert state.data["tenant"] == "a"
    assert state.data["context_id"] == state.thread_id
    assert state.data["parent_context"] == "main"


async def test_observers_see_the_nested_run(runner: Runner) -> None:
    """Events of the nested run name the outer run."""
    log = EventLog()
    outer = ScriptedModel(ask(), "Done.")
    nested = researcher(ScriptedModel("Yes.")).as_tool()
    await runner.run(
        Agent(name="c", system="S", model=outer, tools=[nested], max_iter=2), "Go", observer=log
    )
    assert log.story.count("RunStarted agent researcher") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"allowed_tools": ["loook"]}, "loook"),
        ({"allowed_tools": "look"}, "list of names"),
        ({"max_iter": 0}, "max_iter"),
        ({"max_depth": 0}, "max_depth"),
        ({"max_loops": 3}, "no option 'max_loops'"),
        ({"inherit": "all"}, r"inherit='all'\): True or False"),
    ],
)
def test_meaningless_options_are_refused(options: dict[str, Any], said: str) -> None:
    """The error comes when the tool is made."""
    with pytest.raises(ConfigurationError, match=said):
        researcher(None).as_tool(**options)
    with pytest.raises(ConfigurationError, match=said):
        Network(name="n", agents=[researcher(None)]).as_tool(**options)


async def test_an_agent_that_may_use_none_of_its_tools_is_named_once(
    runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    """Its model would say that it cannot help, and nothing would say why; ``[]`` is meant."""

    @tool
    def look() -> str:
        """Look."""
        return "found"

    model = ScriptedModel(tool_call("look", {}), "I cannot look.")
    name = f"inner {uuid4()}"
    inner = Agent(name=name, system="S", model=model, tools=[look])
    meant = [
        inner.as_tool(name="a", allowed_tools=[]),
        inner.as_tool(name="b", allowed_tools="own"),
    ]
    assert not caplog.records
    outer_model = ScriptedModel(tool_call("c", {"task": "Look."}), "Sorry.")
    plain = [inner.as_tool(name="c"), inner.as_tool(name="d")]
    outer = Agent(name="outer", system="S", model=outer_model, tools=[*meant, *plain])
    await runner.run(outer, "Hi")
    lines = [record.getMessage() for record in caplog.records if "as_tool" in record.getMessage()]
    (line,) = lines
    assert line.startswith(f"{name!r} as a tool may use none of its own tools")
    assert all(way in line for way in ("allowed_tools=", '"own"', "[]"))
    model.assert_saw("ToolNotAllowedError")
