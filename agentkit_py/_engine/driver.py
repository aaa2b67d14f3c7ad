"""Driver: the way of every run from its beginning to its end.

Agents, networks, both as tools, and agents that a guardrail asks differ in the work of their runs
only, which is a `RunBody`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, TypeVar

from agentkit_py._engine.instrumentation import logger
from agentkit_py._engine.limits import MAX_ITER
from agentkit_py._engine.run_context import RunContext, RunSetup
from agentkit_py.events.types import (
    Event,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
)
from agentkit_py.history.questions import Question
from agentkit_py.history.runs import RunRecord
from agentkit_py.history.staff import TAKEN_OVER
from agentkit_py.lifecycle.network_run import DONE, AgentLike
from agentkit_py.results import AgentResult
from agentkit_py.runtime.containing import contained

T = TypeVar("T")


class RunBody(ABC, Generic[T]):
    """The work of a run, and its outcome."""

    kind: ClassVar[Literal["agent", "network"]]
    router: object = None
    """What says which agent is next, in a network."""

    def __init__(self, context: RunContext) -> None:
        """Keep the run's context."""
        self.context: RunContext = context

    @property
    @abstractmethod
    def agents(self) -> Iterable[AgentLike]:
        """The agents that may run."""

    @property
    def facts(self) -> Mapping[str, Any] | None:
        """The fields that events of the run have; None: its turns are its only events."""
        return None

    @property
    @abstractmethod
    def last(self) -> AgentResult | None:
        """The last result of the run so far."""

    @abstractmethod
    def work(self) -> Awaitable[Any]:
        """Do the work; return the argument of `end`."""

    @abstractmethod
    def end(self, outcome: Any) -> str | None:
        """Apply the result of `work`; return the run's stop reason."""

    @abstractmethod
    def end_without_work(self, stop_reason: str, pending: Sequence[Question] = ()) -> None:
        """End the run without an answer: others give it, or the run waits for a person."""

    @abstractmethod
    def repeat(self, outcome: RunRecord) -> None:
        """Take over the outcome of an earlier run for the same user message."""

    @abstractmethod
    def result(self) -> T:
        """Return the caller's result of the run."""

    @abstractmethod
    def answer(self) -> tuple[str, str | None]:
        """Return the text for the model that called it as a tool, and the limit that ended it."""


@dataclass(frozen=True, slots=True)
class RunPlan(Generic[T]):
    """A run that is about to begin: its settings, and the factory of its body."""

    setup: RunSetup
    body: Callable[[RunContext], RunBody[T]]


async def drive(body: RunBody[Any]) -> None:
    """Begin a run, do its work, save and end it.

    A run whose message was answered before takes over the earlier outcome. If the run is not
    retried, its error is final: completed results are saved, and observers get the error.
    """
    run, thread = body.context, body.context.thread
    await run.begin(body.agents, router=body.router)
    if thread.outcome is not None:
        if not thread.outcome.is_paused:
            body.repeat(thread.outcome)
        return
    facts = body.facts if run.monitor.is_active else None
    if facts is not None:
        thread_id, user_id = run.state.thread_id, run.user_id
        await run.monitor.emit_now(RunStarted(**facts, thread_id=thread_id, user_id=user_id))
    try:
        with nullcontext() if facts is None else run.monitor.inside(facts["run_id"]):
            if thread.is_taken_over:
                body.end_without_work(stop_reason := TAKEN_OVER)
            else:
                stop_reason = body.end(await contained(body.work))
        if thread.config is not None:
            await thread.save_results()
            await thread.end(stop_reason=stop_reason)
    except CancelledError as error:
        await _fail(run, error, None if facts is None else RunInterrupted(**facts))
        raise
    except Exception as error:
        await _fail(run, error, None if facts is None else RunFailed(**facts, error=error))
        run.raise_to_caller(error)
        raise
    if facts is not None:
        await run.monitor.emit_now(RunCompleted(**facts, stop_reason=stop_reason))
    # A function that ends the run has its reason, e.g. a value that a tool put into the state.
    by_own_rule = stop_reason == DONE and callable(body.router)
    if not run.nesting.depth and not by_own_rule:
        _warn_of_unread_results(body.last)


async def _fail(run: RunContext, error: Exception | CancelledError, event: Event | None) -> None:
    run.thread.name_store(error)
    await run.finalize(error)
    if event is not None and run.runtime.is_final(error):
        await run.monitor.emit_now(event)


def _warn_of_unread_results(last: AgentResult | None) -> None:
    """Log that a run ends with tool results that no model has read."""
    if last is not None and last.tool_calls and last.stop_reason == MAX_ITER:
        logger.warning(
            "The run ends with results of tools that no model has read: agent %r has used up its "
            "inferences. Give it more with Agent(max_iter=…).",
            last.agent_name,
        )
