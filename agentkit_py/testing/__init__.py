"""Fakes for tests of agents: no key, no network, and as strict as the real thing."""

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

__all__ = [
    "EventLog",
    "FakeProvider",
    "HashingEmbedder",
    "Raw",
    "ReceivedRequest",
    "Rejection",
    "ScriptedModel",
    "error",
    "provider_rules",
    "text",
    "tool_call",
    "tool_calls",
]
