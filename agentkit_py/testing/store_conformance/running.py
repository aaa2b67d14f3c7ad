"""Checks of a store with running agents, in this process and as replayed Inngest functions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from agentkit_py.agent import Agent
from agentkit_py.errors import ModelError
from agentkit_py.models.base import RetryPolicy
from agentkit_py.stores import HistoryStore
from agentkit_py.testing.provider import error, tool_call
from agentkit_py.testing.scripted_model import ScriptedModel
from agentkit_py.testing.store_conformance.values import same
from agentkit_py.tools import tool

Program: TypeAlias = Callable[[], Awaitable[Any]]
"""A run; it may be started again from the top."""

Drive: TypeAlias = Callable[[Sequence[Program]], Awaitable[None]]
"""Runs programs one after another, each until it returns or fails."""


async def _directly(programs: Sequence[Program]) -> None:
    """Run the programs in this process."""
    for program in programs:
        with suppress(ModelError):
            await program()


async def _replayed(programs: Sequence[Program]) -> None:
    """Run the programs as Inngest functions, which start again from the top for each step."""
    from agentkit_py.testing.executor import replay_programs  # noqa: PLC0415 - loads the SDK

    await replay_programs(programs)


@tool
def _look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} is on its way"


async def _turns(store: HistoryStore, drive: Drive) -> None:
    model = ScriptedModel(tool_call(_look_up.name, {"order": "A1"}), "It comes.", "You're welcome.")
    agent = Agent(name="desk", system="S", model=model, tools=[_look_up], max_iter=3, history=store)
    lines = ("Where is A1?", "Thank you.")
    await drive([partial(agent.run, line, thread_id="t") for line in lines])
    model.assert_finished()
    results = await store.load("t")
    same([r.agent_name for r in results], ["user", "desk", "desk", "user", "desk"], "the authors")
    texts = [m.text for m in await store.messages("t") if m.type == "text" and m.text]
    expected = ["Where is A1?", "It comes.", "Thank you.", "You're welcome."]
    same(texts, expected, "the texts")
    same(len({result.id for result in results}), 5, "the number of ids")


async def _failure(store: HistoryStore, drive: Drive) -> None:
    model = ScriptedModel(
        tool_call(_look_up.name, {"order": "A1"}), error(400, "no"), retry=RetryPolicy(attempts=1)
    )
    agent = Agent(name="desk", system="S", model=model, tools=[_look_up], max_iter=3, history=store)
    await drive([partial(agent.run, "Where is A1?", thread_id="t")])
    found = [(r.agent_name, len(r.tool_calls)) for r in await store.load("t")]
    same(found, [("user", 0), ("desk", 1)], "what was finished")


async def runs_fill_a_thread_and_go_on_with_it(store: HistoryStore) -> None:
    """User turns, results and tool results are stored once and in order."""
    await _turns(store, _directly)


async def replayed_runs_fill_a_thread_and_go_on_with_it(store: HistoryStore) -> None:
    """Replayed runs store user turns, results and tool results once and in order."""
    await _turns(store, _replayed)


async def a_run_that_fails_leaves_what_was_finished(store: HistoryStore) -> None:
    """The user's message and the completed results are stored."""
    await _failure(store, _directly)


async def a_replayed_run_that_fails_leaves_what_was_finished(store: HistoryStore) -> None:
    """Replay stores the user's message and the completed results once."""
    await _failure(store, _replayed)
