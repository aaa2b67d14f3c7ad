"""Models at a `FakeProvider` on loopback, one per wire format."""

from __future__ import annotations

from collections.abc import Callable

from agentkit_py.models import anthropic, azure_openai, gemini, grok, openai
from agentkit_py.models.base import Model, RetryPolicy
from agentkit_py.testing.provider import FakeProvider

_KEY = "sk-replay"
_ONCE = RetryPolicy(attempts=1)  # the fake is never down, so a failure is what it is

_MODELS: dict[str, Callable[[str], Model]] = {
    "openai": lambda url: openai("gpt-4.1", base_url=url, api_key=_KEY, retry=_ONCE),
    "azure_openai": lambda url: azure_openai("gpt-4.1", endpoint=url, api_key=_KEY, retry=_ONCE),
    "anthropic": lambda url: anthropic(
        "claude-sonnet-4-5", base_url=url, api_key=_KEY, retry=_ONCE
    ),
    "gemini": lambda url: gemini("gemini-2.5-flash", base_url=url, api_key=_KEY, retry=_ONCE),
    "grok": lambda url: grok("grok-4", base_url=url, api_key=_KEY, retry=_ONCE),
}

PROVIDERS = tuple(_MODELS)
"""Whose wire formats a replay can speak."""


def model_at(fake: FakeProvider, provider: str) -> Model:
    """A model of this provider, at a fake one that has been started."""
    return _MODELS[provider](fake.base_url(provider))
