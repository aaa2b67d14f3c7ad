"""Tables of what hosts and models take: the one place to look when a provider's rules change.

A host's row says what its server takes whatever the model; a family's rows say since which version
its models take what. A version that is newer than all rows counts as the newest row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""The kinds of images that OpenAI and Anthropic read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A provider's API: how it is asked, and what requests to it may hold."""

    provider: str
    """The name of the provider in errors, traces and messages' opaque data."""

    base_url: str = ""
    """The root of its API; empty: each user has an own one."""

    key_variable: str
    """The environment variable that holds the API key where none was given."""

    key_header: str = "authorization"
    """The header of the key; in ``authorization`` it is a bearer token."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Sent with each request."""

    strict_schemas: bool = True
    """It takes strict tool schemas."""

    empty_messages: bool = True
    """It takes messages without text."""

    tool_description: int | None = None
    """The length of a tool's description at the most; longer ones are cut."""

    image_types: frozenset[str] = IMAGE_TYPES
    pdf_files: bool = True


OPENAI = Host(
    provider="openai", base_url="https://api.openai.com/v1", key_variable="OPENAI_API_KEY"
)
OPENAI_RESPONSES = replace(OPENAI, provider="openai-responses")
AZURE_OPENAI = Host(
    provider="azure-openai",
    key_variable="AZURE_OPENAI_API_KEY",
    key_header="api-key",
    tool_description=1024,
)
# "Each message must have at least one content element"; "jpg/jpeg or png".
# Source: https://docs.x.ai/docs/guides/image-understanding
GROK = Host(
    provider="grok",
    base_url="https://api.x.ai/v1",
    key_variable="XAI_API_KEY",
    strict_schemas=False,
    empty_messages=False,
    image_types=frozenset({"image/jpeg", "image/png"}),
    pdf_files=False,
)
ANTHROPIC = Host(
    provider="anthropic",
    base_url="https://api.anthropic.com/v1",
    key_variable="ANTHROPIC_API_KEY",
    key_header="x-api-key",
    headers={"anthropic-version": "2023-06-01"},
)
# The key has a header of its own: URLs end up in logs.
GEMINI = Host(
    provider="gemini",
    base_url="https://generativelanguage.googleapis.com/v1beta",
    key_variable="GEMINI_API_KEY",
    key_header="x-goog-api-key",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Facts about a model that decide over requests; the defaults are for unknown models."""

    parallel_tool_calls: bool = True
    """OpenAI: takes the parameter of this name."""

    reasoning_items: bool = False
    """OpenAI's Responses: reasons, gives its reasoning encrypted and takes it back."""

    prefill: bool = False
    """Anthropic: goes on with an assistant's turn at the end."""

    signed_calls: bool = False
    """Gemini: refuses function calls without a thought signature."""


Version: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Family:
    """Models of one name: `pattern` finds it and its version, none of which is the newest."""

    pattern: re.Pattern[str]
    since: Mapping[Version, Capabilities]
    """Rows by the first version that they hold for, in rising order."""

    def capabilities(self, found: re.Match[str]) -> Capabilities:
        version = tuple(int(part) for part in found.groups() if part is not None)
        fitting = [row for first, row in self.since.items() if not version or first <= version]
        return fitting[-1] if fitting else Capabilities()


# A family's name stands alone in the model's: o3, o4-mini, openai/o1, my-o3-finetune; not gpt-4o.
_FAMILIES = (
    # The o-series answers "Unsupported parameter: 'parallel_tool_calls'".
    _Family(
        re.compile(r"(?<![a-z0-9])o([1-9])(?![a-z0-9])"),
        {(1,): Capabilities(parallel_tool_calls=False, reasoning_items=True)},
    ),
    # gpt-5-chat does not reason.
    _Family(
        re.compile(r"(?<![a-z0-9])gpt-(\d{1,2})(?!.*-chat)"),
        {(5,): Capabilities(reasoning_items=True)},
    ),
    # claude-3-5-haiku-latest, claude-sonnet-4-20250514, us.anthropic.claude-opus-4-6-v1
    _Family(
        re.compile(r"claude(?:-(?:[a-z]+-)?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?)?"),
        {(0,): Capabilities(prefill=True), (4, 6): Capabilities()},
    ),
    # gemini-flash-latest is an alias of the newest model.
    _Family(
        re.compile(r"gemini-(?:(\d+)|.*-latest$)"),
        {(3,): Capabilities(signed_calls=True)},
    ),
)


def capabilities_of(model: str) -> Capabilities:
    """Return what requests to the model of this name may hold."""
    name = model.lower()
    for family in _FAMILIES:
        found = family.pattern.search(name)
        if found is not None:
            return family.capabilities(found)
    return Capabilities()


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
    """Return the context window of a model in tokens; None: not known.

    Args:
        model: The provider's name of it; what stands before the last ``/`` is left out.
        overrides: Windows by the beginning of a model's name, before those of the table.
    """
    name = model.rpartition("/")[2].lower()
    for table in (overrides or {}, CONTEXT_WINDOWS):
        fitting = [prefix for prefix in table if name.startswith(prefix.lower())]
        if fitting:
            return table[max(fitting, key=len)]
    return None
