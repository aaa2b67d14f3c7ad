"""One agent's turn: inferences with their tools until the model asks for none, and its events."""

from __future__ import annotations

from asyncio import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentkit_py._engine.scope import RunScope
from agentkit_py._engine.tool_calls import calls_of
from agentkit_py._engine.turn import Turn
from agentkit_py.errors import MissingModelError
from agentkit_py.events.types import RunCompleted, RunFailed, RunInterrupted, RunStarted
from agentkit_py.models.base import Model
from agentkit_py.results import AgentResult

if TYPE_CHECKING:
    from agentkit_py.agent import Agent


@dataclass(slots=True)
class AgentRun:
    """How one agent is run in a scope."""

    path: str
    """Step id prefix, unique in the scope."""

    model: Model | None = None
    """Overrides the agent's."""

    default_model: Model | None = None
    """Where neither the run nor the agent has one."""

    max_iter: int | None = None
    parent_run_id: str | None = None
    keep: bool = True
    """Whether results go to the state; those of routing agents do not."""


async def choose_model(scope: RunScope, agent: Agent, how: AgentRun) -> Model:
    """The run's model, the agent's own, or the default.

    Raises:
        MissingModelError: There is none.
    """
    model = how.model or await agent.model_now(scope) or how.default_model
    if model is None:
        raise MissingModelError(agent.name)
    return model


async def run_agent(scope: RunScope, agent: Agent, how: AgentRun) -> AgentResult:
    """One agent's turn with its events; returns the last result, all are in the state."""
    model = await choose_model(scope, agent, how)
    turn = Turn(scope, agent, model, how.path, scope.runtime.new_id(f"{how.path}/message"))
    if scope.is_heard:
        started = RunStarted(
            **_facts(turn),
            parent_run_id=how.parent_run_id,
            thread_id=scope.state.thread_id,
            user_id=scope.user_id,
            routing=not how.keep,
        )
        await scope.tell(started)
    try:
        result = await (_take_turn(turn, how) if scope.spans is None else _measured(turn, how))
        if scope.network is None and scope.thread.config is not None:
            await scope.thread.save_results()
    except CancelledError as error:
        if scope.runtime.is_final(error):
            await scope.tell(RunInterrupted(**_facts(turn)))
        raise
    except Exception as error:
        if scope.runtime.is_final(error):
            await scope.tell(RunFailed(**_facts(turn), error=error))
        raise
    if scope.is_heard:
        await scope.tell(RunCompleted(**_facts(turn), stop_reason=result.stop_reason))
    return result


def _facts(turn: Turn) -> dict[str, Any]:
    """What all events of a turn's beginning and end say."""
    return {
        "run_id": turn.run_id,
        "name": turn.agent.name,
        "scope": "agent",
        "message_id": turn.message_id,
    }


async def _measured(turn: Turn, how: AgentRun) -> AgentResult:
    with turn.scope.measured(turn.run_id):
        return await _take_turn(turn, how)


async def _take_turn(turn: Turn, how: AgentRun) -> AgentResult:
    scope, agent = turn.scope, turn.agent
    limit = max(1, how.max_iter if how.max_iter is not None else agent.max_iter)
    reached = _limit_reached(scope, f"{turn.path}.0")
    if reached is not None:
        return await _stopped(turn, how, reached)
    last: AgentResult | None = None
    for iteration in range(limit):
        result = await turn.infer(iteration)
        if result is None:  # `on_start` stopped the turn before this inference
            break
        wants_more = bool(calls_of(result.output))
        reason = _stop_reason(scope, turn.path, iteration, limit) if wants_more else None
        if reason is not None or not wants_more:
            result = await turn.finish(result, reason)
        last = result
        if how.keep:
            await scope.add(result)
        if reason is not None or not wants_more:
            return result
    return last or await _stopped(turn, how, "on_start")


async def _stopped(turn: Turn, how: AgentRun, reason: str) -> AgentResult:
    blank = turn.blank(reason)
    if how.keep and turn.scope.network is not None:
        await turn.scope.add(blank)
    return blank


def _stop_reason(scope: RunScope, path: str, iteration: int, limit: int) -> str | None:
    if iteration + 1 >= limit:
        return "max_iter"
    return _limit_reached(scope, f"{path}.{iteration}.after")


def _limit_reached(scope: RunScope, key: str) -> str | None:
    return scope.meter.reached(lambda: scope.runtime.now(f"{key}/limit"))
