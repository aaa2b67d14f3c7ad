"""Hooks into an agent's turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from agentkit_py._engine.network_run import AgentLike, NetworkRun
from agentkit_py.messages import Message
from agentkit_py.results import AgentResult
from agentkit_py.state import State

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentContext:
    """The argument of every hook, and of a system prompt that is a function."""

    agent: AgentLike
    network: NetworkRun | None
    """The network run the agent is in; None when it runs by itself."""

    state: State[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartContext(AgentContext):
    """The argument of `on_start`: everything that is about to be sent."""

    input: str
    prompt: Sequence[Message]
    """System prompt, user input and prefill."""

    history: Sequence[Message]
    """The history as the processors left it, calls and results whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultContext(AgentContext):
    """The argument of `on_response`, `on_finish` and `on_route`."""

    result: AgentResult


@dataclass(frozen=True, slots=True)
class Start:
    """The return value of `on_start`: the messages to send instead."""

    prompt: Sequence[Message]
    history: Sequence[Message]
    stop: bool = field(default=False, kw_only=True)
    """End the agent's turn without asking the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """Hooks into an agent's turn; each may be sync or async, and all are optional."""

    enabled: Callable[[AgentContext], MaybeAwaitable[bool]] | None = None
    """Returns whether the agent may run now; a disabled agent is not offered to routers."""

    on_start: Callable[[StartContext], MaybeAwaitable[Start | None]] | None = None
    """Before each inference, after the processors; None leaves everything as it is."""

    on_response: Callable[[ResultContext], MaybeAwaitable[AgentResult | None]] | None = None
    """After each inference, before tools; may return another result (None: the same)."""

    on_finish: Callable[[ResultContext], MaybeAwaitable[AgentResult | None]] | None = None
    """At the end of the agent's turn, after tools; may return another last result."""

    on_route: Callable[[ResultContext], MaybeAwaitable[Sequence[str] | None]] | None = None
    """Routing agents only: names of the agents that are next; None or empty ends the run."""


NO_HOOKS = Lifecycle()
"""The default lifecycle of agents: no hooks."""
