"""ThreadSteps: the steps in which a run's thread is read and written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from agentkit_py.history.config import HistoryContext, RunView
from agentkit_py.runtime.containing import contained
from agentkit_py.runtime.port import Codec, Recordable, Runtime
from agentkit_py.runtime.steps import Steps
from agentkit_py.state import State

T = TypeVar("T")


class HookSteps(Steps):
    """The steps of history hooks, which run inside a step: ``run`` is part of that step.

    Adapters for TypeScript do their queries in ``step.run(…)`` where there are steps.
    """

    async def run(self, step_id: str, handler: Callable[[], Awaitable[T]], /) -> T:
        """Run a sync or async ``handler``; the hook's own step records the result."""
        del step_id
        return await contained(handler)


@dataclass(frozen=True, slots=True)
class ThreadSteps:
    """Does each thing of a run's thread once, with the context that a store's methods get."""

    state: State[Any]
    input: str
    runtime: Runtime
    prefix: str
    """The run's step id prefix."""

    changes: Recordable
    """Records side effects of callbacks."""

    network: RunView | None

    def context(self, **facts: Any) -> HistoryContext:
        """Return the context of a store's method."""
        return HistoryContext(
            state=self.state,
            input=self.input,
            thread_id=self.state.thread_id,
            network=self.network,
            step=HookSteps(self.runtime),
            **facts,
        )

    async def once(
        self, name: str, call: Callable[[], Awaitable[T]], codec: Codec[T] | None = None
    ) -> T:
        """Do the work, or return its recorded result."""
        return await self.runtime.effect(f"{self.prefix}.history.{name}", call, self.changes, codec)

    def remembers(self, name: str) -> bool:
        """Return whether something was done before."""
        return self.runtime.remembers(f"{self.prefix}.history.{name}")
