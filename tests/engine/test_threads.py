"""A run's dealings with its store: what is called, when, and with what."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from agentkit_py import (
    Agent,
    AgentResult,
    HistoryConfig,
    Lifecycle,
    MemoryHistory,
    Network,
    State,
    TextMessage,
    ToolContext,
    UserMessage,
)
from agentkit_py.errors import MissingModelError, NonRetriableError
from agentkit_py.history import HistoryContext
from agentkit_py.testing import EventLog, ScriptedModel, tool_call

from .runner import Runner

OLD = [AgentResult.from_user("old?"), AgentResult("a", [TextMessage("assistant", "old")])]


class Store:
    """Callbacks that write down how they were called."""

    def __init__(self, thread: str | None = "t-new", results: Sequence[AgentResult] = OLD) -> None:
        self.thread, self.results = thread, results
        self.calls: list[str] = []
        self.contexts: list[HistoryContext] = []
        self.saved: list[AgentResult] = []
        self.broken: set[str] = set()

    def _note(self, name: str, context: HistoryContext) -> None:
        self.calls.append(name)
        self.contexts.append(context)
        if name in self.broken:
            raise OSError(f"{name} failed")

    def create_thread(self, context: HistoryContext) -> str | None:
        """Sync on purpose; the others are async."""
        self._note("create_thread", context)
        return self.thread

    async def get(self, context: HistoryContext) -> Sequence[AgentResult]:
        self._note("get", context)
        return self.results

    async def append_user_message(self, context: HistoryContext) -> None:
        self._note("append_user_message", context)
        assert context.user_result is not None
        self.saved.append(context.user_result)

    async def append_results(self, context: HistoryContext) -> None:
        self._note("append_results", context)
        self.saved.extend(context.new_results)

    def config(self, *names: str, **options: Any) -> HistoryConfig:
        """A config with these callbacks; all unless named."""
        names = names or ("create_thread", "get", "append_user_message", "append_results")
        callbacks: Any = {name: getattr(self, name) for name in names}
        return HistoryConfig(**callbacks, **options)


def look() -> str:
    """Look something up."""
    return "found"


def stop() -> None:
    """Stop the run."""
    raise NonRetriableError("stopped")


def network_with(history: HistoryConfig, model: ScriptedModel, **options: Any) -> Network:
    """A network of one agent."""
    agent = Agent(name="a", system="S", tools=[look, stop], model=model, **options)
    return Network(
        name="n", agents=[agent], history=history, router=lambda c: None if c.call_count else "a"
    )


def agent_with(history: HistoryConfig, model: ScriptedModel, **options: Any) -> Agent:
    """An agent by itself."""
    return Agent(name="a", system="S", tools=[look, stop], model=model, history=history, **options)


EITHER = pytest.mark.parametrize("make", [network_with, agent_with])


def texts(results: Sequence[AgentResult]) -> list[str]:
    """Return the texts of the results."""
    return [m.text for r in results for m in r.output if isinstance(m, TextMessage)]


@EITHER
async def test_a_thread_that_the_client_names_is_loaded_before_the_message_is_saved(
    runner: Runner,
    make: Any,
) -> None:
    """Otherwise the new message would be loaded as an old one."""
    store = Store(thread=None)
    model = ScriptedModel("new")
    state = State[Any]()
    await runner.run(make(store.config(), model), "new?", thread_id="t1", state=state)
    assert store.calls == ["create_thread", "get", "append_user_message", "append_results"]
    assert {context.thread_id for context in store.contexts} == {"t1"}
    assert texts(store.saved) == ["new?", "new"]
    assert texts(state.transcript) == ["old?", "old", "new?", "new"]
    model.assert_saw("old?", "old", "new?")
    assert len(model.bodies[0]["messages"]) == 4


@EITHER
async def test_a_new_thread_has_nothing_to_load(runner: Runner, make: Any) -> None:
    """Its id comes from the store."""
    store = Store()
    model = ScriptedModel("new")
    state = State[Any]()
    await runner.run(make(store.config(), model), "new?", state=state)
    assert store.calls == ["create_thread", "append_user_message", "append_results"]
    assert [context.thread_id for context in store.contexts] == [None, "t-new", "t-new"]
    assert state.thread_id == "t-new"
    model.assert_not_saw("old?")


@EITHER
@pytest.mark.parametrize(
    "seed", [{"results": OLD[:1]}, {"messages": [TextMessage("user", "from the client")]}]
)
async def test_a_client_that_brings_results_or_messages_is_believed(
    runner: Runner, make: Any, seed: dict[str, Any]
) -> None:
    """The thread is not loaded, and only new entries are saved."""
    store = Store()
    model = ScriptedModel("new")
    state = State[Any](thread_id="t1", **seed)
    await runner.run(make(store.config(), model), "new?", state=state)
    assert store.calls == ["create_thread", "append_user_message", "append_results"]
    assert texts(store.saved) == ["new?", "new"]


@EITHER
async def test_without_create_thread_a_store_that_loads_gets_an_id_made_up(
    runner: Runner, make: Any
) -> None:
    """Otherwise nobody could continue the thread."""
    store = Store()
    state = State[Any]()
    history = store.config("get", "append_results")
    await runner.run(make(history, ScriptedModel("new")), "q?", state=state)
    assert state.thread_id
    assert store.calls == ["append_results"]


@EITHER
async def test_a_store_that_only_writes_needs_no_thread(runner: Runner, make: Any) -> None:
    """A log, say."""
    store = Store()
    state = State[Any]()
    await runner.run(make(store.config("append_results"), ScriptedModel("new")), "q?", state=state)
    assert (state.thread_id, texts(store.saved)) == (None, ["new"])


@EITHER
async def test_a_store_without_callbacks_changes_nothing(runner: Runner, make: Any) -> None:
    """It may be there for its processors only."""
    state = State[Any](thread_id="t1")
    await runner.run(make(HistoryConfig(), ScriptedModel("new")), "q?", state=state)
    assert (state.thread_id, texts(state.transcript)) == ("t1", ["q?", "new"])


@EITHER
async def test_a_store_that_returns_another_thread_moves_the_run_there(
    runner: Runner, make: Any
) -> None:
    """It has the last word."""
    store = Store(thread="t-other")
    state = State[Any](thread_id="t1")
    await runner.run(make(store.config(), ScriptedModel("new")), "q?", state=state)
    assert state.thread_id == "t-other"
    assert store.calls[:2] == ["create_thread", "get"]


@pytest.mark.direct_only("each execution of a function has a run of its own; hooks are in a step")
async def test_hooks_get_network_and_steps() -> None:
    """The run itself, and steps that simply happen."""
    store = Store()
    run = await network_with(store.config(), ScriptedModel("new")).run("q?")
    for context in store.contexts:
        assert context.network is run

        async def work() -> int:
            return 1

        assert await context.step.run("s", work) == 1


async def test_hooks_get_input_and_state(runner: Runner) -> None:
    """The user message has its id and time."""
    store, state = Store(), State[Any]()
    network = network_with(store.config(), ScriptedModel("new"))
    run = await runner.run(network, UserMessage("q?", state={"page": 3}), state=state)
    assert {context.input for context in store.contexts} == {"q?"}
    assert {id(context.state) for context in store.contexts} == {id(state)} == {id(run.state)}
    saved = store.contexts[1].user_message
    assert saved is not None
    assert saved.id
    assert saved.client_timestamp is not None
    assert saved.state == {"page": 3}
    assert store.contexts[1].user_result is not None
    assert store.contexts[1].user_result.id == saved.id
    assert store.contexts[1].user_result.created_at == saved.client_timestamp


async def test_all_results_of_a_turn_are_saved_together_at_the_end(runner: Runner) -> None:
    """A store may ask for each result at once instead."""
    store = Store()
    model = ScriptedModel(tool_call("look"), "new")
    await runner.run(agent_with(store.config(), model, max_iter=2), "q?")
    assert store.calls.count("append_results") == 1
    assert [len(r.tool_calls) for r in store.saved] == [0, 1, 0]


async def test_a_store_may_want_each_result_at_once(runner: Runner) -> None:
    """A crash later loses none of them; none is saved twice."""
    store = Store()
    model = ScriptedModel(tool_call("look"), "new")
    await runner.run(agent_with(store.config(save_each=True), model, max_iter=2), "q?")
    assert store.calls.count("append_results") == 2
    assert [len(c.new_results) for c in store.contexts if c.new_results] == [1, 1]
    assert [len(r.tool_calls) for r in store.saved] == [0, 1, 0]


@EITHER
@pytest.mark.parametrize("save_each", [True, False])
async def test_results_completed_before_a_failure_are_saved(
    runner: Runner, make: Any, save_each: bool
) -> None:
    """Once; the error is the run's own."""
    store = Store()
    model = ScriptedModel(tool_call("look"), tool_call("stop"))
    with pytest.raises(NonRetriableError, match="stopped"):
        await runner.run(make(store.config(save_each=save_each), model, max_iter=3), "q?")
    assert [len(r.tool_calls) for r in store.saved] == [0, 1, 1]  # the call that failed, too


async def test_results_of_agents_before_the_one_that_failed_are_saved(runner: Runner) -> None:
    """The conversation continues from there."""
    store = Store()
    model = ScriptedModel("from a", tool_call("stop"))
    agents = [Agent(name=name, system="S", tools=[stop], model=model) for name in "ab"]
    network = Network(
        name="n", agents=agents, history=store.config(), router=lambda c: "ab"[c.call_count]
    )
    with pytest.raises(NonRetriableError):
        await runner.run(network, "q?")
    assert texts(store.saved) == ["q?", "from a"]


async def test_a_result_that_on_finish_replaced_is_not_saved_with_its_replacement(
    runner: Runner,
) -> None:
    """Not even where a later agent fails, and what was under way is saved."""
    store = Store()
    said = AgentResult("other", [TextMessage("assistant", "instead")])  # it has no id
    first = Agent(
        name="a",
        system="S",
        tools=[look],
        max_iter=1,
        model=ScriptedModel(tool_call("look")),
        lifecycle=Lifecycle(on_finish=lambda _: said),
    )
    second = Agent(name="b", system="S", tools=[stop], model=ScriptedModel(tool_call("stop")))
    network = Network(
        name="n",
        agents=[first, second],
        history=store.config(),
        router=lambda c: "ab"[c.call_count],
    )
    with pytest.raises(NonRetriableError):
        await runner.run(network, "q?")
    assert texts(store.saved) == ["q?", "instead"]
    assert [len(result.tool_calls) for result in store.saved] == [0, 0, 1]


@EITHER
async def test_a_store_that_fails_while_the_run_fails_keeps_the_runs_error(
    runner: Runner, make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The store's is in the log."""
    store = Store()
    store.broken.add("append_results")
    model = ScriptedModel(tool_call("look"), tool_call("stop"))
    with (
        caplog.at_level(logging.ERROR, logger="agentkit_py"),
        pytest.raises(NonRetriableError, match="stopped"),
    ):
        await runner.run(make(store.config(), model, max_iter=3), "q?")
    assert "append_results failed" in caplog.text


@EITHER
@pytest.mark.parametrize("name", ["create_thread", "get", "append_user_message"])
async def test_a_store_that_fails_at_the_start_fails_the_run_before_any_model_is_asked(
    runner: Runner, make: Any, name: str
) -> None:
    """The error is the store's own."""
    store = Store()
    store.broken.add(name)
    model = ScriptedModel()
    with runner.raises(OSError, match=f"{name} failed"):
        await runner.run(make(store.config(), model), "q?", thread_id="t1")
    model.assert_finished()


@EITHER
async def test_a_store_that_fails_at_the_end_fails_the_run_and_says_so_to_observers(
    runner: Runner,
    make: Any,
) -> None:
    """A run whose results are lost is not complete."""
    store, log = Store(), EventLog()
    store.broken.add("append_results")
    with runner.raises(OSError, match="append_results failed"):
        await runner.run(make(store.config(), ScriptedModel("new")), "q?", observer=log)
    assert log.story[-1].startswith("RunFailed")


async def test_inside_a_network_only_the_networks_store_is_used(runner: Runner) -> None:
    """An agent's own is for when it runs by itself; its processors apply."""
    of_network, of_agent = Store(), Store()
    model = ScriptedModel("new")
    agent = agent_with(of_agent.config(), model)
    network = Network(
        name="n", agents=[agent], history=of_network.config(),
        router=lambda c: None if c.call_count else "a",
    )  # fmt: skip
    await runner.run(network, "q?")
    assert of_agent.calls == []
    assert texts(of_network.saved) == ["q?", "new"]


@EITHER
async def test_an_empty_input_is_not_saved_as_a_message(runner: Runner, make: Any) -> None:
    """The state has no such message either."""
    store = Store()
    state = State[Any]()
    await runner.run(make(store.config(), ScriptedModel("new")), "", state=state)
    assert "append_user_message" not in store.calls
    assert texts(store.saved) == texts(state.transcript) == ["new"]


async def test_typescript_mode_saves_the_users_message_too(runner: Runner) -> None:
    """Only the state does without."""
    store = Store()
    state = State[Any]()
    agent = agent_with(store.config(), ScriptedModel("new"), history_mode="typescript")
    await runner.run(agent, "q?", state=state)
    assert texts(store.saved) == ["q?", "new"]
    assert texts(state.transcript) == ["new"]


async def test_a_reused_state_saves_new_results_only(runner: Runner) -> None:
    """Turn after turn."""
    store = Store()
    state = State[Any]()
    agent = agent_with(store.config(), ScriptedModel("one", "two"))
    await runner.run(agent, "first?", state=state)
    await runner.run(agent, "second?", state=state)
    assert texts(store.saved) == ["first?", "one", "second?", "two"]
    assert "get" not in store.calls


async def test_runs_of_two_threads_in_one_store_stay_apart(runner: Runner) -> None:
    """Both runs continue at the same time."""
    history = MemoryHistory()
    model = ScriptedModel("hi", "hi")
    agent = agent_with(history, model)
    states = [State[Any](), State[Any]()]
    await asyncio.gather(*(runner.run(agent, f"from {i}", state=s) for i, s in enumerate(states)))
    for number, state in enumerate(states):
        assert state.thread_id is not None
        assert texts(await history.load(state.thread_id)) == [f"from {number}", "hi"]


async def test_results_are_stored_also_when_a_tool_shortens_the_states_results(
    runner: Runner,
) -> None:
    """A tool that clears the state's results must not lose the stored ones."""
    store = MemoryHistory()

    def forget(ctx: ToolContext) -> str:
        """Forget everything but the last result."""
        ctx.state.set_results([])
        return "forgotten"

    model = ScriptedModel(tool_call("forget", {}), "A fresh start.")
    agent = Agent(name="a", system="s", tools=[forget], max_iter=3, history=store, model=model)
    state = State(thread_id="t")
    await runner.run(agent, "Forget it", state=state)
    stored = await store.load("t")
    assert [result.agent_name for result in stored] == ["user", "a", "a"]
    assert stored[-1].text == "A fresh start."


async def test_no_thread_is_made_for_an_agent_without_a_model(runner: Runner) -> None:
    """The mistake is noticed before anything is saved."""
    store = Store()
    with pytest.raises(MissingModelError):
        await runner.run(Agent(name="a", system="S", history=store.config()), "q?")
    assert store.calls == []


@pytest.mark.parametrize("output_type", [None, str], ids=["plain", "with an output"])
async def test_an_agents_result_names_the_thread_that_was_made(
    runner: Runner, output_type: Any
) -> None:
    """So that the next run can continue it."""
    model = ScriptedModel("Hello Ada.", "You are Ada.")
    agent = agent_with(MemoryHistory(), model, output_type=output_type)
    first = await runner.run(agent, "I am Ada.")
    assert first.thread_id is not None
    second = await runner.run(agent, "Who am I?", thread_id=first.thread_id)
    assert second.thread_id == first.thread_id
    model.assert_saw("I am Ada.", "Hello Ada.", "Who am I?")


async def test_an_agents_result_has_no_thread_without_a_store(runner: Runner) -> None:
    """There is nothing to continue."""
    agent = Agent(name="a", system="S", model=ScriptedModel("Hello."))
    assert (await runner.run(agent, "Hi")).thread_id is None
