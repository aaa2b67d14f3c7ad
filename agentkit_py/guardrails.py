"""Guardrails: checks of what an agent is asked, of what it says, and of its tool calls."""

from __future__ import annotations

from agentkit_py._engine.guardrails import (
    Guardrail,
    GuardrailStage,
    InputGuardrail,
    OutputGuardrail,
    Tripwire,
    Verdict,
)
from agentkit_py._engine.tool import ToolGuardrail
from agentkit_py.errors import GuardrailTripped
from agentkit_py.processors.redaction import Redactor

__all__ = [
    "Guardrail",
    "GuardrailStage",
    "GuardrailTripped",
    "InputGuardrail",
    "OutputGuardrail",
    "Redactor",
    "ToolGuardrail",
    "Tripwire",
    "Verdict",
]
