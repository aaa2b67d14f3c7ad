"""Guardrails: checks of an agent's input, its output, and its tool calls."""

from __future__ import annotations

from agentkit_py.errors import GuardrailTripped
from agentkit_py.lifecycle.guardrails import (
    Guardrail,
    GuardrailStage,
    GuardrailVerdict,
    InputGuardrail,
    OutputGuardrail,
    Tripwire,
)
from agentkit_py.processors.redaction import Redactor
from agentkit_py.tools.definition import ToolGuardrail

__all__ = [
    "Guardrail",
    "GuardrailStage",
    "GuardrailTripped",
    "GuardrailVerdict",
    "InputGuardrail",
    "OutputGuardrail",
    "Redactor",
    "ToolGuardrail",
    "Tripwire",
]
