"""Models: provider settings, and the pure translation of our messages to providers' JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentkit_py.models.anthropic import anthropic
from agentkit_py.models.base import (
    Adapter,
    ApiKey,
    Assembler,
    CallGuard,
    GuardedCall,
    Model,
    ModelOptions,
    ModelReply,
    ModelRequest,
    RetryPolicy,
    Signer,
    ToolChoice,
    ToolSpec,
)
from agentkit_py.models.capabilities import Capabilities, capabilities_of
from agentkit_py.models.compatible import (
    azure_openai,
    compatible,
    grok,
    model_named,
    openai,
    openai_responses,
)
from agentkit_py.models.fallback import FallbackModel
from agentkit_py.models.function_model import ModelFunction, function_model
from agentkit_py.models.gemini import gemini

if TYPE_CHECKING:
    from agentkit_py.models.settings import (
        AnthropicSettings,
        ChatSettings,
        CompatibleSettings,
        GeminiSettings,
        ModelSettings,
        ResponsesSettings,
    )

__all__ = [
    "Adapter",
    "AnthropicSettings",
    "ApiKey",
    "Assembler",
    "CallGuard",
    "Capabilities",
    "ChatSettings",
    "CompatibleSettings",
    "FallbackModel",
    "GeminiSettings",
    "GuardedCall",
    "Model",
    "ModelFunction",
    "ModelOptions",
    "ModelReply",
    "ModelRequest",
    "ModelSettings",
    "ResponsesSettings",
    "RetryPolicy",
    "Signer",
    "ToolChoice",
    "ToolSpec",
    "anthropic",
    "azure_openai",
    "capabilities_of",
    "compatible",
    "function_model",
    "gemini",
    "grok",
    "model_named",
    "openai",
    "openai_responses",
]

if not TYPE_CHECKING:  # else every misspelled name would be an Any
    from agentkit_py._core.lazy import lazily as _lazily

    __getattr__ = _lazily(
        __name__,
        {
            "agentkit_py.models.settings": "AnthropicSettings ChatSettings CompatibleSettings "
            "GeminiSettings ModelSettings ResponsesSettings",
        },
    )
