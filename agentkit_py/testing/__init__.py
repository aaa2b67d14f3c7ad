"""Fakes for tests of agents: no key, no network, and as strict as the real thing."""

from typing import TYPE_CHECKING

from agentkit_py.testing._provider.transport import PacedTransport
from agentkit_py.testing.fakes import EventLog, HashingEmbedder, ScriptedModel
from agentkit_py.testing.provider import (
    FakeProvider,
    Raw,
    ReceivedRequest,
    Rejection,
    Signing,
    error,
    provider_rules,
    text,
    tool_call,
    tool_calls,
)

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
    "Signing",
    "error",
    "kill_points",
    "provider_rules",
    "text",
    "tool_call",
    "tool_calls",
]

# The SDK takes half a second to load, which fakes of providers have no use for.
if not TYPE_CHECKING:  # else every misspelled name would be an Any
    from agentkit_py._core.lazy import lazily as _lazily

    __getattr__ = _lazily(
        __name__, {"agentkit_py.testing.executor": "KillAt ReplayExecutor kill_points"}
    )
