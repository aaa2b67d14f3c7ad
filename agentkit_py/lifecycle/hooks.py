"""Hooks into an agent's turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from agentkit_py._core.spellings import options_spelled_here, spelled_here
from agentkit_py.lifecycle.network_run import AgentLike, NetworkRun
from agentkit_py.messages import Message, Messages
from agentkit_py.models.base import Model
from agentkit_py.processors.apply import apply_processors
from agentkit_py.processors.base import Processor, ProcessorContext
from agentkit_py.results import AgentResult
from agentkit_py.state import State, StateT, tenant_of, user_of

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]


@spelled_here
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentContext(Generic[StateT]):
    """The argument of every hook, and of a system prompt that is a function."""

    agent: AgentLike
    network: NetworkRun[StateT] | None
    """The network run the agent is in; None when it runs by itself."""

    state: State[StateT]

    @property
    def user_id(self) -> str | None:
        """The user for whom the run is: ``user_id`` of the state's data."""
        return user_of(self.state)

    @property
    def tenant(self) -> str | None:
        """The tenant for whom the run is: ``tenant`` or ``tenant_id`` of the state's data."""
        return tenant_of(self.state)


ModelChoice: TypeAlias = (
    Model | str | Callable[[AgentContext], Model | str | Awaitable[Model | str]] | None
)
"""A model, its name (``"openai:gpt-4.1"``), a function of the context that returns it, or None."""


@spelled_here
@dataclass(frozen=True, slots=True, kw_only=True)
class StartContext(AgentContext[StateT]):
    """The argument of `on_start`: everything that is about to be sent."""

    input: str
    prompt: Sequence[Message]
    """System prompt, user input and prefill."""

    history: Sequence[Message]
    """The history as the processors left it, calls and results whole."""

    processing: ProcessorContext = field(default_factory=ProcessorContext, repr=False)
    """The context of the processors: the user, the agent's tools, the protected messages."""

    async def apply(self, *processors: Processor | Sequence[Processor]) -> Messages:
        """Return the history as processors leave it; protected messages stay.

        Args:
            processors: Processors in their order, or lists of them as ``processors=`` takes them.

        Raises:
            ConfigurationError: An item is not a processor.
            ProcessorError: A processor failed.
        """
        given: list[Processor] = []
        for one in processors:
            given += one if isinstance(one, Sequence) else [one]
        return await apply_processors(self.history, given, self.processing)


@spelled_here
@dataclass(frozen=True, slots=True, kw_only=True)
class ResultContext(AgentContext[StateT]):
    """The argument of `on_response`, `on_finish` and `on_route`."""

    result: AgentResult


@dataclass(frozen=True, slots=True)
class Start:
    """The return value of `on_start`: the messages to send instead."""

    prompt: Sequence[Message]
    history: Sequence[Message]
    stop: bool = field(default=False, kw_only=True)
    """End the agent's turn without asking the model."""


# No slots: `Lifecycle[Desk](…)` cannot make a frozen object with slots (Python 3.11).
@options_spelled_here
@spelled_here
@dataclass(frozen=True, kw_only=True)
class Lifecycle(Generic[StateT]):
    """Hooks into an agent's turn; each may be sync or async, and all are optional."""

    enabled: Callable[[AgentContext[StateT]], MaybeAwaitable[bool]] | None = None
    """Returns whether the agent may run now; a disabled agent is not offered to routers."""

    on_start: Callable[[StartContext[StateT]], MaybeAwaitable[Start | None]] | None = None
    """Before each inference, after the processors; None leaves everything as it is. Calls that the
    agent made in this run, and their results, are put back if it drops them."""

    on_response: Callable[[ResultContext[StateT]], MaybeAwaitable[AgentResult | None]] | None = None
    """After each inference, before tools; may return another result (None: the same)."""

    on_finish: Callable[[ResultContext[StateT]], MaybeAwaitable[AgentResult | None]] | None = None
    """At the end of the agent's turn, after tools; may return another last result."""

    on_route: Callable[[ResultContext[StateT]], MaybeAwaitable[Sequence[str] | None]] | None = None
    """Routing agents only: names of the agents that are next; None or empty ends the run."""


NO_HOOKS: Lifecycle[Any] = Lifecycle()
"""The default lifecycle of agents: no hooks."""
