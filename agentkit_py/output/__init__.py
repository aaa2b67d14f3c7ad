"""Outputs: the values of an agent's ``output_type``, and the outputs of its runs."""

from __future__ import annotations

from agentkit_py.errors import ModelRetry, OutputError
from agentkit_py.output.types import (
    EndStrategy,
    NativeOutput,
    OutputItem,
    OutputType,
    OutputValidator,
    PromptedOutput,
    ToolOutput,
)
from agentkit_py.results import NO_VALUE, AgentRunResult

__all__ = [
    "NO_VALUE",
    "AgentRunResult",
    "EndStrategy",
    "ModelRetry",
    "NativeOutput",
    "OutputError",
    "OutputItem",
    "OutputType",
    "OutputValidator",
    "PromptedOutput",
    "ToolOutput",
]
