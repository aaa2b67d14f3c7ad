"""An agent's turn: how often it asks the model, what it keeps, and why it ends."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from typing import Any, cast

import pytest

from agentkit_py import (
    Agent,
    AgentResult,
    HistoryConfig,
    MemoryHistory,
    Network,
    State,
    TextMessage,
    UserMessage,
    create_agent,
    openai,
)
from agentkit_py.errors import ConfigurationError, MissingModelError, ToolDefinitionError
from agentkit_py.messages import TextContent, ToolCallMessage, Usage
from agentkit_py.runtime.current import use_runtime
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing import FakeProvider, Raw, ScriptedModel, text, tool_call, tool_calls

from .runner import Runner


def look() -> str:
    """Look something up."""
    return "found"


def other() -> str:
    """Do something else."""
    return "done"


def agent_with(model: ScriptedModel, **options: Any) -> Agent:
    """An agent that can look things up."""
    return Agent(name="a", system="S", tools=[look], model=model, **options)


@pytest.mark.parametrize("max_iter", [None, 0, 1])
async def test_without_more_iterations_a_turn_is_one_inference_with_its_tools(
    runner: Runner,
    max_iter: int | None,
) -> None:
    """0 and 1 both mean one, as in TypeScript."""
    model = ScriptedModel(tool_call("look"))
    result = await runner.run(agent_with(model, max_iter=1), "q?", max_iter=max_iter)
    assert [m.content for m in result.tool_calls] == [{"data": "found"}]
    assert result.stop_reason == "max_iter"
    model.assert_finished()


async def test_the_loop_ends_when_the_model_asks_for_no_tool(runner: Runner) -> None:
    """Though more iterations were allowed."""
    model = ScriptedModel(tool_call("look"), tool_call("look"), "done")
    result = await runner.run(agent_with(model, max_iter=10), "q?")
    assert (result.text, result.stop_reason) == ("done", None)
    model.assert_finished()


async def test_the_loop_ends_at_max_iter_though_the_model_wants_more(runner: Runner) -> None:
    """The tools of the last inference have run by then."""
    model = ScriptedModel(tool_call("look"), tool_call("look"))
    state = State[Any]()
    result = await runner.run(agent_with(model, max_iter=2), "q?", state=state)
    assert result.stop_reason == "max_iter"
    assert [len(r.tool_calls) for r in state.results] == [1, 1]
    assert state.results[-1] == result
    model.assert_finished()


async def test_a_runs_own_max_iter_overrides_the_agents(runner: Runner) -> None:
    """Whichever is larger."""
    model = ScriptedModel(tool_call("look"), "done")
    assert (await runner.run(agent_with(model), "q?", max_iter=2)).text == "done"
    model.assert_finished()


@pytest.mark.parametrize("finish", ["stop", "length", "tool"])
async def test_the_loop_continues_for_a_tool_call_whatever_the_finish_reason(
    runner: Runner, finish: str
) -> None:
    """Some servers say stop although there are calls."""
    model = ScriptedModel({**tool_call("look"), "finish": finish}, "done")
    assert (await runner.run(agent_with(model, max_iter=3), "q?")).text == "done"
    model.assert_finished()


async def test_every_inference_gives_a_result_and_the_last_one_is_returned(runner: Runner) -> None:
    """All are in the state, in order, after the user's turn."""
    model = ScriptedModel(
        tool_calls(("look", {}), text="Let me see."), tool_call("look"), text("done")
    )
    state = State[Any]()
    result = await runner.run(agent_with(model, max_iter=5), "q?", state=state)
    assert [r.agent_name for r in state.transcript] == ["user", "a", "a", "a"]
    assert state.transcript[0].output[0].role == "user"
    assert state.results == state.transcript[1:]
    assert state.results[0].text == "Let me see."
    assert isinstance(state.results[1].output[0], ToolCallMessage)
    assert state.results[2] is result
    assert len({r.id for r in state.transcript}) == 4


async def test_a_result_holds_the_request_and_the_reply(runner: Runner) -> None:
    """Prompt, history, raw reply, usage and the report."""
    usage = {"input_tokens": 10, "output_tokens": 5}
    model = ScriptedModel("old", text("new", usage=usage))
    state = State[Any]()
    agent = agent_with(model)
    await runner.run(agent, "old?", state=state)
    result = await runner.run(agent, "new?", state=state)
    assert [m.role for m in result.prompt] == ["system", "user"]
    assert [m.role for m in result.history] == ["user", "assistant"]
    assert result.raw is not None
    assert '"content":"new"' in result.raw
    assert result.usage == Usage(10, 5)
    assert result.context is not None
    assert result.context.agent == "a"
    assert result.output[0].agent == "a"


async def test_tool_results_of_one_iteration_are_in_the_history_of_the_next(runner: Runner) -> None:
    """TypeScript's own loop loses them."""
    model = ScriptedModel(tool_call("look", id="c1"), "done")
    await runner.run(agent_with(model, max_iter=2), "q?")
    assert model.bodies[1]["messages"][-1] == {
        "role": "tool", "tool_call_id": "c1", "content": '{"data":"found"}',
    }  # fmt: skip


async def test_calls_run_one_after_another_in_their_order(runner: Runner) -> None:
    """`parallel_tools=True` changes that."""
    order: list[str] = []

    async def one() -> None:
        """First."""
        order.append("one begins")
        await asyncio.sleep(0)
        order.append("one ends")

    async def two() -> None:
        """Second."""
        order.append("two")

    model = ScriptedModel(tool_calls(("one", {}), ("two", {})))
    await runner.run(Agent(name="a", system="S", tools=[one, two], model=model, max_iter=1), "q?")
    assert order == ["one begins", "one ends", "two"]


async def test_the_runs_model_overrides_the_agents(runner: Runner) -> None:
    """The agent keeps its own."""
    own, given = ScriptedModel(), ScriptedModel("from the run's")
    assert (await runner.run(agent_with(own), "q?", model=given)).text == "from the run's"
    own.assert_finished()


async def test_an_agent_without_a_model_says_where_to_put_one(runner: Runner) -> None:
    """The error comes before any call, so no reply is lost."""
    with pytest.raises(MissingModelError, match="Pass model=") as caught:
        await runner.run(Agent(name="lonely", system="S"), "q?")
    assert caught.value.agent == "lonely"


async def test_with_model_keeps_everything_else() -> None:
    """TypeScript loses history, tool choice and more."""
    model = ScriptedModel("hi")
    agent = Agent(
        name="a",
        system="S",
        tools=[look],
        tool_choice="look",
        history=HistoryConfig(),
        max_iter=3,
        description="D",
        assistant="P",
        parallel_tools=True,
        processors=[lambda messages: messages],
        token_counter=len,
        history_mode="typescript",
    )
    copy = agent.with_model(model)
    assert (copy.model, agent.model) == (model, None)
    kept = [f.name for f in fields(Agent) if f.init and f.name != "model"]
    assert [n for n in kept if getattr(copy, n) != getattr(agent, n)] == []


@pytest.mark.direct_only("tools of several runs meet in one process; a function has one")
async def test_an_agent_may_run_many_times_at_once() -> None:
    """It holds nothing of a run."""
    meeting = asyncio.Barrier(3)

    async def meet(who: str) -> str:
        """Wait for the others."""
        await meeting.wait()
        return who

    def answer(request: Any) -> Any:
        last = request.body["messages"][-1]
        if last["role"] == "tool":
            return last["content"]
        return tool_call("meet", {"who": last["content"]})

    fake = FakeProvider(answer)
    model = ScriptedModel()
    object.__setattr__(model, "transport", fake.transport)
    agent = Agent(name="a", system="S", tools=[meet], model=model, max_iter=2)
    results = await asyncio.gather(*(agent.run(who) for who in "xyz"))
    assert [r.text for r in results] == ['{"data":"x"}', '{"data":"y"}', '{"data":"z"}']
    assert not fake.rejections


@pytest.mark.parametrize("name", ["", None, 5])
def test_an_agents_name_is_a_text(name: Any) -> None:
    """Histories and routers call it by its name."""
    with pytest.raises(ConfigurationError, match="name"):
        Agent(name=name, system="S")


def test_a_negative_max_iter_is_refused() -> None:
    """Silently running nothing helps nobody."""
    with pytest.raises(ConfigurationError, match="max_iter must be 0 or more, got -1"):
        Agent(name="a", system="S", max_iter=-1)


def test_two_tools_of_one_name_are_refused() -> None:
    """The model could not say which it means."""
    with pytest.raises(ConfigurationError, match="two tools called 'look'"):
        Agent(name="a", system="S", tools=[look, look])


@pytest.mark.parametrize("tools", [[], [other]])
def test_a_tool_choice_that_the_agent_does_not_have_is_refused(tools: list[Any]) -> None:
    """The error comes when the agent is made, not when the provider gets it."""
    with pytest.raises(ConfigurationError, match="tool_choice='look' is not among its tools"):
        Agent(name="a", system="S", tools=tools, tool_choice="look")


@pytest.mark.parametrize("choice", ["auto", "any", "look"])
async def test_a_tool_choice_is_sent(runner: Runner, choice: str) -> None:
    """Each provider gets its own form."""
    model = ScriptedModel(tool_call("look"))
    await runner.run(agent_with(model, tool_choice=choice, max_iter=1), "q?")
    named = {"type": "function", "function": {"name": "look"}}
    expected: dict[str, Any] = {"auto": "auto", "any": "required", "look": named}
    assert model.bodies[0].get("tool_choice", "auto") == expected[choice]


def test_a_value_that_is_not_a_tool_is_refused() -> None:
    """The error names the value."""
    with pytest.raises(ToolDefinitionError, match="a tool must be a Tool or a function"):
        Agent(name="a", system="S", tools=[cast("Any", "look")])


def test_create_agent_makes_an_agent_under_the_typescript_name() -> None:
    """The options are those of `Agent`, with TypeScript's default of one inference."""
    made = create_agent(name="a", system="S", description="d")
    assert isinstance(made, Agent)
    assert (made.name, made.description, made.max_iter) == ("a", "d", 1)


@pytest.mark.direct_only("the test chooses the runtime itself")
async def test_the_ambient_runtime_is_used_where_none_is_given() -> None:
    """Inngest functions set it for everything inside."""
    fake = FakeProvider(["hi"], api_keys={"openai": "sk-ambient"})
    runtime = DirectRuntime(transport=fake.transport, environment={"OPENAI_API_KEY": "sk-ambient"})
    agent = Agent(name="a", system="S", model=openai("gpt-4o"))
    with use_runtime(runtime):
        assert (await agent.run("q?")).text == "hi"


# What a run may be given.


async def test_a_user_message_keeps_its_id_in_the_state(runner: Runner) -> None:
    """A client finds its own message by the id."""
    model = ScriptedModel("hi")
    state = State[Any]()
    await runner.run(agent_with(model), UserMessage("q?", "msg-1"), state=state)
    assert state.transcript[0].id == "msg-1"


async def test_a_user_message_without_an_id_gets_one(runner: Runner) -> None:
    """Each its own."""
    model = ScriptedModel("hi", "hi")
    state = State[Any]()
    agent = agent_with(model)
    await runner.run(agent, "q?", state=state)
    await runner.run(agent, UserMessage("q?"), state=state)
    first, second = state.transcript[0].id, state.transcript[2].id
    assert first
    assert second
    assert first != second


class Question(UserMessage):
    """A user's message of somebody's own, made in its own way."""

    def __init__(self, words: list[str]) -> None:
        super().__init__(" ".join(words))


async def test_a_user_message_of_a_class_of_ones_own_gets_an_id_too(runner: Runner) -> None:
    """Its own way to be made is not gone again."""
    state = State[Any]()
    await runner.run(agent_with(ScriptedModel("ok")), Question(["How", "much?"]), state=state)
    assert state.transcript[0].id
    assert state.transcript[0].output == (TextMessage("user", "How much?"),)


async def test_a_user_messages_system_prompt_follows_the_agents(runner: Runner) -> None:
    """TypeScript loses it in networks."""
    model = ScriptedModel("hi", "hi")
    agent = agent_with(model)
    message = UserMessage("q?", system_prompt="Be kind.")
    await runner.run(agent, message)
    network = Network(name="n", agents=[agent], router=lambda c: None if c.call_count else agent)
    await runner.run(network, message)
    for body in model.bodies:
        assert body["messages"][0] == {"role": "system", "content": "S\n\nBe kind."}


async def test_content_parts_are_one_user_message(runner: Runner) -> None:
    """The model, the state and the router get the same message."""
    model = ScriptedModel("hi")
    parts = [TextContent("What "), TextContent("now?")]
    inputs: list[str] = runner.again([])

    def router(context: Any) -> Any:
        inputs.append(context.input)
        return None if context.call_count else "a"

    network = Network(name="n", agents=[agent_with(model)], router=router)
    run = await runner.run(network, UserMessage(parts))
    assert inputs[0] == "What now?"
    model.assert_saw("What ", "now?")
    assert [m.text for m in run.state.format_history() if m.type == "text"] == ["What now?", "hi"]


@pytest.mark.parametrize("given", [None, 5, ["q?"], ({"content": "q?"},)])
async def test_an_input_that_is_neither_text_nor_user_message_is_refused(
    runner: Runner, given: Any
) -> None:
    """The error comes before anything runs."""
    with pytest.raises(ConfigurationError, match="input must be a str or a UserMessage"):
        await runner.run(agent_with(ScriptedModel()), given)


async def test_a_plain_dict_as_state_keeps_results_and_thread(runner: Runner) -> None:
    """TypeScript's clients send states as plain objects."""
    model = ScriptedModel("hi")
    old = AgentResult.from_user("old?").to_dict()
    plain = {"data": {"k": 1}, "results": [old], "threadId": "t1"}
    seen: list[Any] = runner.again([])

    def system(context: Any) -> str:
        seen.append((context.state.data, context.state.thread_id))
        return "S"

    await runner.run(Agent(name="a", system=system, model=model), "new?", state=plain)
    assert seen == [({"k": 1}, "t1")]
    model.assert_saw("old?", "new?")


@pytest.mark.parametrize("given", [5, "state", [1]])
async def test_a_state_that_is_none_is_refused(runner: Runner, given: Any) -> None:
    """The error names the value."""
    with pytest.raises(ConfigurationError, match="state must be a State or a dict"):
        await runner.run(agent_with(ScriptedModel()), "q?", state=given)


async def test_two_different_thread_ids_are_refused(runner: Runner) -> None:
    """The two ids contradict each other."""
    with pytest.raises(ConfigurationError, match="'t2' was given with a state of thread 't1'"):
        await runner.run(
            agent_with(ScriptedModel()), "q?", state=State(thread_id="t1"), thread_id="t2"
        )


async def test_the_same_thread_id_twice_is_fine(runner: Runner) -> None:
    """The state keeps it."""
    model = ScriptedModel("hi")
    state = State[Any](thread_id="t1")
    await runner.run(agent_with(model, history=MemoryHistory()), "q?", state=state, thread_id="t1")
    assert state.thread_id == "t1"


async def test_an_option_that_run_does_not_have_is_refused(runner: Runner) -> None:
    """A typo would otherwise be lost."""
    options: dict[str, Any] = {"max_iters": 3}
    with pytest.raises(ConfigurationError, match="no option 'max_iters'"):
        await runner.run(agent_with(ScriptedModel()), "q?", **options)


# Without an event loop.


def test_run_sync_runs_to_the_end() -> None:
    """A script needs no event loop of its own."""
    model = ScriptedModel(tool_call("look"), "done")
    assert agent_with(model).run_sync("q?", max_iter=2).text == "done"
    model.assert_finished()


def test_run_sync_works_again_and_again_over_http() -> None:
    """Each call has an event loop of its own, and leaves no connection open."""
    with FakeProvider(["one", "two"]) as provider:
        model = openai("gpt-4o", api_key="sk-x", base_url=provider.base_url("openai"))
        agent = Agent(name="a", system="S", model=model)
        assert [agent.run_sync("q?").text, agent.run_sync("q?").text] == ["one", "two"]


async def test_a_reply_without_any_message_ends_the_turn(runner: Runner) -> None:
    """Grok and others send empty texts at times."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": None},
        "finish_reason": "stop",
    }
    model = ScriptedModel(Raw(json={"choices": [choice]}))
    result = await runner.run(agent_with(model, max_iter=4), "q?")
    assert (result.text, result.usage) == ("", None)
    model.assert_finished()
