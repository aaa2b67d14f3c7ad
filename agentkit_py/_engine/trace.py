"""Watching model calls from the inside: what each saw, kept so that it can be looked at again.

For tools of developers such as the playground. Where nobody traces, an inference costs one look at
a context variable.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from agentkit_py._engine.emitter import Emitter
from agentkit_py._engine.inputs import RunInput
from agentkit_py._engine.scope import RunScope
from agentkit_py._engine.view import Seen, View
from agentkit_py.errors import ConfigurationError
from agentkit_py.models.base import Model, ModelRequest
from agentkit_py.processors.base import HistoryProcessor, Level
from agentkit_py.processors.report import ContextReport

Chains: TypeAlias = Sequence[tuple[Level, Sequence[HistoryProcessor]]]
"""The processors of a call, level by level, in the order in which they run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEdit:
    """What is to be otherwise when a call is looked at again; None: as it was."""

    system: str | None = None
    """Another system prompt."""

    input: str | None = None
    """Another text of the user."""

    chains: Chains | None = None
    """Other processors."""


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What an edited call would send."""

    model: Model
    report: ContextReport
    request: ModelRequest
    stop: bool = False
    """Whether `on_start` would end the turn instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One model call that is about to be made."""

    run_id: str
    """The agent's run."""

    message_id: str
    step_id: str
    """The id under which the runtime is asked for it."""

    view: View = field(repr=False)
    """What it was put together from, on a copy of the run's state."""

    seen: Seen = field(repr=False)
    problem: str = ""
    """Why it cannot be looked at again, e.g. since its state cannot be copied."""

    @property
    def report(self) -> ContextReport:
        """What each level left."""
        return self.seen.report

    @property
    def chains(self) -> Chains:
        """Its processors."""
        return self.view.chains()

    async def rehearse(self, edit: CallEdit | None = None) -> Rehearsal:
        """What it would send with ``edit``. Nothing is sent or saved.

        Processors and `on_start` run as they would; processors that would call a model only say so
        in the report.

        Raises:
            ConfigurationError: The call cannot be looked at again.
            ProcessorError: A processor failed.
        """
        if self.problem:
            raise ConfigurationError(f"This call cannot be made again: {self.problem}")
        edit = edit or CallEdit()
        view = replace(self.view, scope=_frozen(self.view.scope), others=edit.chains)
        if edit.system is not None:
            view = replace(view, agent=replace(view.agent, system=edit.system))
        if edit.input is not None:
            message = replace(view.scope.input.message, content=edit.input)
            view.scope.input = RunInput(message)
        seen = await view.look()
        return Rehearsal(view.model, seen.report, view.request(seen), seen.stop)


Tracer: TypeAlias = Callable[[ModelCall], None]
"""Gets each model call right before it is made; it must not fail or wait."""

_tracer: ContextVar[Tracer | None] = ContextVar("agentkit_tracer", default=None)


@contextmanager
def tracing(tracer: Tracer) -> Generator[None]:
    """Tell ``tracer`` of the model calls of all runs that begin inside the block."""
    token = _tracer.set(tracer)
    try:
        yield
    finally:
        _tracer.reset(token)


def is_traced() -> bool:
    """Whether anybody is told of calls."""
    return _tracer.get() is not None


def trace_call(view: View, seen: Seen, *, run_id: str, message_id: str, step_id: str) -> None:
    """Tell whoever traces that a call is about to be made."""
    tracer = _tracer.get()
    if tracer is None:
        return
    problem = ""
    try:
        kept = replace(view, scope=_frozen(view.scope), make_host=None)
    except Exception as error:  # noqa: BLE001 - states that cannot be copied may hold anything
        kept = view
        problem = f"the state cannot be copied ({type(error).__name__}: {error})"
    call = ModelCall(
        run_id=run_id,
        message_id=message_id,
        step_id=step_id,
        view=kept,
        seen=seen,
        problem=problem,
    )
    tracer(call)


def _frozen(scope: RunScope) -> RunScope:
    """The scope as it is now, on a state of its own; nothing is saved or told by it."""
    fork = scope.fork(Emitter(scope.runtime))
    if scope.network is not None:
        run = copy.copy(scope.network)
        run.scope, run.agents, run.stack = fork, dict(run.agents), list(run.stack)
        fork.network = run
    return fork
