"""Events reach observers in order, and observers cannot disturb a run."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, Network, RouterContext, State
from agentkit_py.errors import NonRetriableError
from agentkit_py.events.types import (
    ContextBuilt,
    Event,
    ModelReplied,
    RunCompleted,
    RunFailed,
    RunStarted,
    ToolFinished,
    ToolStarted,
)
from agentkit_py.messages import Usage
from agentkit_py.runs import StreamingConfig
from agentkit_py.testing import EventLog, ScriptedModel, text, tool_call, tool_calls

from .runner import Runner


def look() -> str:
    """Look something up."""
    return "found"


def stop() -> None:
    """Stop the run."""
    raise NonRetriableError("stopped")


def network_of(model: ScriptedModel, *names: str) -> Network:
    """A network of two agents that take turns in this order."""
    agents = [
        Agent(name=name, system="S", tools=[look, stop], model=model, max_iter=1) for name in "ab"
    ]

    def router(context: RouterContext) -> str | None:
        return names[context.call_count] if context.call_count < len(names) else None

    return Network(name="n", agents=agents, router=router)


async def test_the_events_of_an_agents_run_come_in_order(runner: Runner) -> None:
    """The order of all events is pinned from start to end."""
    log = EventLog()
    model = ScriptedModel(tool_call("look"), "done")
    await runner.run(
        Agent(name="a", system="S", tools=[look], model=model, max_iter=2), "q?", observer=log
    )
    assert log.story == [
        "RunStarted agent a",
        "ContextBuilt a",
        "ModelReplied a",
        "ToolStarted a",
        "ToolFinished a",
        "ContextBuilt a",
        "ModelReplied a",
        "RunCompleted agent a",
    ]


async def test_the_events_of_a_network_name_each_chosen_agent_and_its_calls(runner: Runner) -> None:
    """Agents' runs inside it name it as their parent."""
    log = EventLog()
    model = ScriptedModel("one", "two")
    await runner.run(network_of(model, "a", "b"), "q?", observer=log, thread_id="t1")
    one_turn = ["RunStarted agent {0}", "ContextBuilt {0}", "ModelReplied {0}"]
    turn = [*one_turn, "RunCompleted agent {0}", "AgentsRouted n"]
    assert log.story == [
        "RunStarted network n",
        "AgentsRouted n",
        *(line.format("a") for line in turn),
        *(line.format("b") for line in turn),
        "RunCompleted network n",
    ]
    network, first, second = log.of(RunStarted)
    assert network.parent_run_id is None
    assert first.parent_run_id == second.parent_run_id == network.run_id
    assert {event.thread_id for event in log.of(RunStarted)} == {"t1"}
    assert len({network.run_id, first.run_id, second.run_id}) == 3


async def test_events_hold_the_facts_of_a_run(runner: Runner) -> None:
    """Messages, usage, calls, results, the report."""
    log = EventLog()
    usage = {"input_tokens": 3, "output_tokens": 2}
    model = ScriptedModel({**tool_calls(("look", {})), "usage": usage}, text("done", usage=usage))
    state = State[Any]()
    agent = Agent(name="a", system="S", tools=[look], model=model, max_iter=2)
    await runner.run(agent, "q?", observer=log, state=state)
    assert [e.messages for e in log.of(ModelReplied)] == [r.output for r in state.results]
    assert [e.usage for e in log.of(ModelReplied)] == [Usage(3, 2)] * 2
    (started,), (finished,) = log.of(ToolStarted), log.of(ToolFinished)
    assert started.call == finished.result.tool
    assert finished.result == state.results[0].tool_calls[0]
    assert [e.report for e in log.of(ContextBuilt)] == [r.context for r in state.results]


async def test_the_end_says_why_it_ended(runner: Runner) -> None:
    """Limits, and the router's being done."""
    log = EventLog()
    model = ScriptedModel(tool_call("look"))
    await runner.run(network_of(model, "a"), "q?", observer=log)
    assert [e.stop_reason for e in log.of(RunCompleted)] == ["max_iter", "done"]


async def test_a_failed_run_says_so_for_agent_and_network_and_nothing_after(runner: Runner) -> None:
    """TypeScript continues to say that it completed."""
    log = EventLog()
    with pytest.raises(NonRetriableError) as caught:
        await runner.run(network_of(ScriptedModel(tool_call("stop")), "a"), "q?", observer=log)
    failed = log.of(RunFailed)
    assert [event.scope for event in failed] == ["agent", "network"]
    assert all(event.error is caught.value for event in failed)
    assert log.events[-2:] == failed
    assert log.of(RunCompleted) == []


async def test_every_run_that_started_ends_once(runner: Runner) -> None:
    """A run is completed or failed, once by its id."""
    log = EventLog()
    model = ScriptedModel("one", tool_call("stop"))
    with pytest.raises(NonRetriableError):
        await runner.run(network_of(model, "a", "b"), "q?", observer=log)
    started = sorted(event.run_id for event in log.of(RunStarted))
    ended = sorted(event.run_id for event in (*log.of(RunCompleted), *log.of(RunFailed)))
    assert started == ended


@pytest.mark.parametrize("sync", [True, False])
async def test_an_observer_that_fails_disturbs_nothing(
    runner: Runner, sync: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has its error."""
    received: set[type[Event]] = set()

    def fail(event: Event) -> None:
        received.add(type(event))
        raise LookupError("observer")

    async def fail_later(event: Event) -> None:
        fail(event)

    model = ScriptedModel(tool_call("look"), "done")
    agent = Agent(name="a", system="S", tools=[look], model=model, max_iter=2)
    with caplog.at_level(logging.ERROR, logger="agentkit_py"):
        result = await runner.run(agent, "q?", observer=fail if sync else fail_later)
    assert result.text == "done"
    kinds = {RunStarted, ContextBuilt, ModelReplied, ToolStarted, ToolFinished, RunCompleted}
    assert received == kinds
    assert "An observer failed on RunStarted" in caplog.text


async def test_a_run_without_an_observer_emits_nothing(runner: Runner) -> None:
    """The result is the same."""
    assert (
        await runner.run(Agent(name="a", system="S", model=ScriptedModel("hi")), "q?")
    ).text == "hi"


async def test_the_start_names_the_thread_that_the_store_made(runner: Runner) -> None:
    """TypeScript's leaves it out."""
    log = EventLog()
    agent = Agent(name="a", system="S", model=ScriptedModel("hi"), history=MemoryHistory())
    state = State[Any]()
    await runner.run(agent, "q?", observer=log, state=state)
    assert [event.thread_id for event in log.of(RunStarted)] == [state.thread_id]
    assert state.thread_id is not None


def test_an_event_log_finds_events_by_kind() -> None:
    """The events keep their order."""
    log = EventLog()
    first = RunStarted(run_id="1", name="a", scope="agent", message_id="m")
    last = RunCompleted(run_id="1", name="a", scope="agent", message_id="m")
    log(first)
    log(last)
    assert log.of(RunStarted) == [first]
    assert log.of(RunFailed) == []
    assert log.story == ["RunStarted agent a", "RunCompleted agent a"]


@pytest.mark.direct_only("a task is cancelled in this process")
async def test_a_cancelled_run_says_that_it_was_interrupted() -> None:
    """Listeners learn of the end of a run that nobody waits for any more."""
    begun = asyncio.Event()

    async def wait() -> str:
        """Wait for ever."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    agent = Agent(name="a", system="s", tools=[wait], model=ScriptedModel(tool_call("wait", {})))
    chunks: list[dict[str, Any]] = []
    log = EventLog()
    run = asyncio.create_task(
        Network(name="n", agents=[agent], router=lambda _: agent).run(
            "hi",
            observer=log,
            streaming=StreamingConfig(publish=chunks.append),
        )
    )
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert log.story[-2:] == ["RunInterrupted agent a", "RunInterrupted network n"]
    ends = [chunk["event"] for chunk in chunks][-3:]
    assert ends == ["run.interrupted", "run.interrupted", "stream.ended"]
