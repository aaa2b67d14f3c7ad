"""What the engine tells whoever measures runs, e.g. `agentkit_py.tracing`.

Observers get events, in an order that a replay repeats, which says little about time: events of
agents that run together wait for each other. So spans have a seam of their own. Where nobody
measures, it costs one comparison with None at each of its places.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from agentkit_py._core.json import JsonValue
from agentkit_py.events.types import Event
from agentkit_py.messages import ToolCall
from agentkit_py.models.base import Model, ModelRequest
from agentkit_py.processors.apply import Around
from agentkit_py.runtime.port import Runtime
from agentkit_py.runtime.watch import Watch

CallTool: TypeAlias = Callable[[], Awaitable[JsonValue]]
"""Carries a call out; what it gives is what the model reads."""


class RunSpans(Protocol):
    """Measures one run, and the runs that stand in it."""

    def told(self, event: Event) -> None:
        """A run of a network or agent began or ended, or a model replied."""
        ...

    def inside(self, run_id: str) -> AbstractContextManager[None]:
        """What happens in the block is part of the run."""
        ...

    def model_call(self, step_id: str, model: Model, request: ModelRequest, run_id: str) -> Watch:
        """A model is about to be asked."""
        ...

    def tool_call(
        self, step_id: str, call: ToolCall, description: str, handler: CallTool, *, lasting: bool
    ) -> CallTool:
        """``handler``, measured.

        Args:
            step_id: Names the call; no other in the run has it.
            call: What the model asked for.
            description: What the tool is for.
            handler: Carries the call out.
            lasting: It is no step by itself: a replay calls it again.
        """
        ...

    def processors(self, step_id: str) -> Around:
        """What measures the processors of one inference."""
        ...


class Spans(Protocol):
    """Measures runs."""

    def of_run(self, runtime: Runtime) -> RunSpans:
        """What measures a run that begins now."""
        ...

    def carrier(self) -> dict[str, str]:
        """What makes a run that another process begins part of what happens here now."""
        ...


_everywhere: list[Spans] = []


def set_spans(spans: Spans | None) -> None:
    """Have all runs of this process measured that are not told otherwise; None: no more."""
    _everywhere[:] = [] if spans is None else [spans]


def carried_trace() -> dict[str, str]:
    """What goes with the event that begins a run elsewhere; nothing where nobody measures."""
    return _everywhere[0].carrier() if _everywhere else {}


def spans_of_run(given: Spans | None, runtime: Runtime) -> RunSpans | None:
    """What measures a run: what it was given, or what measures all."""
    if given is None and not _everywhere:
        return None
    return (given or _everywhere[0]).of_run(runtime)
