"""Models: what is sent where, and the pure translation of our messages to providers' JSON."""

from __future__ import annotations

from agentkit_py.models.anthropic import anthropic
from agentkit_py.models.base import (
    Adapter,
    Assembler,
    Model,
    ModelOptions,
    ModelReply,
    ModelRequest,
    RetryPolicy,
    ToolChoice,
    ToolSpec,
)
from agentkit_py.models.compatible import azure_openai, grok, openai, openai_responses
from agentkit_py.models.function_model import ModelFunction, function_model
from agentkit_py.models.gemini import gemini

__all__ = [
    "Adapter",
    "Assembler",
    "Model",
    "ModelFunction",
    "ModelOptions",
    "ModelReply",
    "ModelRequest",
    "RetryPolicy",
    "ToolChoice",
    "ToolSpec",
    "anthropic",
    "azure_openai",
    "function_model",
    "gemini",
    "grok",
    "openai",
    "openai_responses",
]
