"""Runs: their options, limits and streams."""

from __future__ import annotations

from agentkit_py._engine.approvals import Approver
from agentkit_py._engine.emitter import StreamingConfig
from agentkit_py._engine.limits import RunLimits
from agentkit_py._engine.options import RunOptions
from agentkit_py._engine.stream import RunStream

__all__ = ["Approver", "RunLimits", "RunOptions", "RunStream", "StreamingConfig"]
