"""Fakes for tests of agents: no key, no network, and as strict as the real thing."""

from typing import TYPE_CHECKING, Any

from agentkit_py.testing._provider.transport import PacedTransport
from agentkit_py.testing.embedder import HashingEmbedder
from agentkit_py.testing.event_log import EventLog
from agentkit_py.testing.provider import (
    FakeProvider,
    Raw,
    ReceivedRequest,
    Rejection,
    error,
    provider_rules,
    text,
    tool_call,
    tool_calls,
)
from agentkit_py.testing.scripted_model import ScriptedModel

if TYPE_CHECKING:
    from agentkit_py.testing.executor import KillAt, ReplayExecutor, kill_points

__all__ = [
    "EventLog",
    "FakeProvider",
    "HashingEmbedder",
    "KillAt",
    "PacedTransport",
    "Raw",
    "ReceivedRequest",
    "Rejection",
    "ReplayExecutor",
    "ScriptedModel",
    "error",
    "kill_points",
    "provider_rules",
    "text",
    "tool_call",
    "tool_calls",
]

_LAZY = ("KillAt", "ReplayExecutor", "kill_points")


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # The SDK takes half a second to load, which fakes of providers have no use for.
    from agentkit_py.testing import executor  # noqa: PLC0415 - loaded only where it is used

    return getattr(executor, name)
