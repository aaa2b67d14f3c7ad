"""Hooks into an agent's turn, and their contexts."""

from __future__ import annotations

from agentkit_py.lifecycle.hooks import (
    AgentContext,
    Lifecycle,
    ResultContext,
    Start,
    StartContext,
)

__all__ = ["AgentContext", "Lifecycle", "ResultContext", "Start", "StartContext"]
