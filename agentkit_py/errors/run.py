"""What ends a run: users' own errors, and those of processors, routers, tools and state."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from agentkit_py.errors.base import AgentKitError


class NonRetriableError(AgentKitError):
    """Raise it in a tool, router or hook to fail the run without another attempt."""


class RetryAfterError(AgentKitError):
    """Raise it in a tool, router or hook to fail this attempt and ask for one later.

    Attributes:
        retry_after: Seconds to wait before the next attempt.
    """

    def __init__(self, message: str, retry_after: float | timedelta) -> None:
        super().__init__(message)
        seconds = retry_after.total_seconds() if isinstance(retry_after, timedelta) else retry_after
        self.retry_after: float = float(seconds)


class ProcessorError(AgentKitError):
    """A history processor failed or returned something that is no list of messages.

    Attributes:
        processor: Its name.
        level: ``"history"``, ``"network"``, ``"agent"`` or ``"chain"``.
    """

    def __init__(self, message: str, *, processor: str, level: str) -> None:
        super().__init__(f"Processor {processor!r} ({level} level): {message}")
        self.processor = processor
        self.level = level


class NestingError(AgentKitError):
    """An agent or network was called as a tool too deep inside of others.

    Attributes:
        name: Its name.
        depth: How many runs it would have stood in.
        most: How many it may stand in.
    """

    def __init__(self, name: str, *, depth: int, most: int) -> None:
        super().__init__(
            f"{name!r} would stand in {depth} runs, and may in {most} at the most "
            "(as_tool(max_depth=…)). Do it here instead."
        )
        self.name = name
        self.depth = depth
        self.most = most


class RoutingError(AgentKitError):
    """A router returned something that is neither an agent, a list of agents nor None.

    Attributes:
        network: Name of the network.
    """

    def __init__(self, message: str, *, network: str) -> None:
        super().__init__(f"Network {network!r}: {message}")
        self.network = network


class StateError(AgentKitError):
    """State data cannot be used, merged, or stored as JSON."""


class StateConflictError(StateError):
    """Two tools that ran in parallel changed the same key.

    Attributes:
        keys: The keys that both changed.
        tools: The two tools.
    """

    def __init__(self, keys: Sequence[str], tools: tuple[str, str]) -> None:
        names = ", ".join(repr(key) for key in keys)
        super().__init__(
            f"Tools {tools[0]!r} and {tools[1]!r} ran in parallel and both changed state key(s) "
            f"{names}. Let only one write each key, or run them with parallel_tools=False."
        )
        self.keys: tuple[str, ...] = tuple(keys)
        self.tools = tools


class ToolSourceError(AgentKitError):
    """A server that has tools cannot be reached or used.

    Attributes:
        source: The name by which the agent knows it.
        reason: What went wrong.
    """

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"Tool server {source!r}: {reason}")
        self.source = source
        self.reason = reason


class ScriptError(AgentKitError):
    """A scripted model was asked for more than it was given, or saw what it should not."""


def passes_through(error: Exception) -> bool:
    """Whether ``error``, raised by a user's tool, must fail the run instead of going to the model.

    Ours and the Inngest SDK's error of the same name both do. The SDK's are known by name, since
    the engine imports no SDK.
    """
    if isinstance(error, NonRetriableError | RetryAfterError):
        return True
    return any(
        cls.__module__.startswith("inngest") and cls.__name__ in _SDK_CONTROL
        for cls in type(error).__mro__
    )


_SDK_CONTROL = frozenset({"NonRetriableError", "RetryAfterError"})
