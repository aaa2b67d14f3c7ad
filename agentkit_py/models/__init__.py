"""Models: what is sent where, and the pure translation of our messages to providers' JSON."""

from __future__ import annotations

from agentkit_py.models.answering import AnswerFunction, answering
from agentkit_py.models.anthropic import anthropic
from agentkit_py.models.azure_openai import azure_openai
from agentkit_py.models.base import (
    Adapter,
    Assembler,
    Model,
    ModelReply,
    ModelRequest,
    RetryPolicy,
    StreamingAdapter,
    ToolChoice,
    ToolSpec,
    Usage,
)
from agentkit_py.models.gemini import gemini
from agentkit_py.models.grok import grok
from agentkit_py.models.openai import openai
from agentkit_py.models.openai_responses import openai_responses

__all__ = [
    "Adapter",
    "AnswerFunction",
    "Assembler",
    "Model",
    "ModelReply",
    "ModelRequest",
    "RetryPolicy",
    "StreamingAdapter",
    "ToolChoice",
    "ToolSpec",
    "Usage",
    "answering",
    "anthropic",
    "azure_openai",
    "gemini",
    "grok",
    "openai",
    "openai_responses",
]
