"""Hooks into an agent's turn, and their contexts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentkit_py.lifecycle.hooks import (
    AgentContext,
    Lifecycle,
    ResultContext,
    Start,
    StartContext,
)

__all__ = ["AgentContext", "Lifecycle", "ResultContext", "Start", "StartContext"]

if not TYPE_CHECKING:  # else every misspelled name would be an Any
    from agentkit_py._core.lazy import lazily as _lazily

    __getattr__ = _lazily(__name__, {})
