"""Context windows by model name: one table, to be overridden where it is wrong or behind."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

CONTEXT_WINDOWS: Mapping[str, int] = {
    # OpenAI
    "gpt-5": 400_000,
    "gpt-5-chat": 128_000,
    "gpt-4.1": 1_047_576,
    "gpt-4o": 128_000,
    "chatgpt-4o": 128_000,
    "gpt-4-turbo": 128_000,
    "gpt-4-1106": 128_000,
    "gpt-4-0125": 128_000,
    "gpt-4-32k": 32_768,
    "gpt-4": 8_192,
    "gpt-3.5-turbo": 16_385,
    "gpt-3.5-turbo-instruct": 4_096,
    "gpt-oss": 131_072,
    "o1": 200_000,
    "o1-mini": 128_000,
    "o1-preview": 128_000,
    "o3": 200_000,
    "o4-mini": 200_000,
    # Anthropic
    "claude": 200_000,
    "claude-2.0": 100_000,
    "claude-instant": 100_000,
    # Google
    "gemini-1.5-pro": 2_097_152,
    "gemini-1.5-flash": 1_048_576,
    "gemini-2": 1_048_576,
    "gemini-3": 1_048_576,
    "gemini-1.0": 32_760,
    # xAI
    "grok-2": 131_072,
    "grok-2-vision": 32_768,
    "grok-3": 131_072,
    "grok-4": 256_000,
    "grok-4-fast": 2_000_000,
    "grok-4-1-fast": 2_000_000,
    "grok-code-fast": 256_000,
    # Others that speak OpenAI's format
    "deepseek": 128_000,
    "mistral-large": 128_000,
    "llama-3.1": 131_072,
    "llama-3.3": 131_072,
    "qwen3": 131_072,
}
"""Tokens by the beginning of a model's name; the longest beginning that fits is the one."""


def window_of(model: str, overrides: Mapping[str, int] | None = None) -> int | None:
    """The context window of a model in tokens; None: not known.

    Args:
        model: The provider's name of it; what stands before the last ``/`` is left out.
        overrides: Windows by the beginning of a model's name, before those of the table.
    """
    name = model.rpartition("/")[2].lower()
    own = _longest(name, overrides) if overrides else None
    return _known(name) if own is None else own


@lru_cache(maxsize=256)
def _known(name: str) -> int | None:
    """What the table says: it is asked at every inference, mostly for the same model."""
    return _longest(name, CONTEXT_WINDOWS)


def _longest(name: str, table: Mapping[str, int]) -> int | None:
    fitting = [prefix for prefix in table if name.startswith(prefix.lower())]
    return table[max(fitting, key=len)] if fitting else None
