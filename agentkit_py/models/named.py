"""Models by name: ``"provider:model"``, for agents, runs and the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from agentkit_py.errors import ConfigurationError
from agentkit_py.models.anthropic import anthropic
from agentkit_py.models.base import Model, ModelOptions, make_model, with_settings
from agentkit_py.models.capabilities import COMPATIBLE, capabilities_of
from agentkit_py.models.chat import ChatAdapter
from agentkit_py.models.compatible import grok, openai, openai_responses
from agentkit_py.models.gemini import gemini

if TYPE_CHECKING:
    from agentkit_py.models.settings import CompatibleSettings, ModelSettings

_FACTORIES: Mapping[str, Callable[..., Model]] = {
    "openai": openai,
    "openai_responses": openai_responses,
    "anthropic": anthropic,
    "gemini": gemini,
    "grok": grok,
}
_OTHERS = {
    "azure": "azure_openai(name, endpoint=…)",
    "azure_openai": "azure_openai(name, endpoint=…)",
    "bedrock": "agentkit_py.runtime.cloud.bedrock(name, region=…)",
    "vertex": "agentkit_py.runtime.cloud.vertex(name, project=…, location=…)",
}


def model_named(
    spec: str,
    *,
    base_url: str | None = None,
    settings: ModelSettings | None = None,
    **options: Unpack[ModelOptions],
) -> Model:
    """Return the model that ``"provider:model"`` names, e.g. ``"groq:llama-3.3-70b-versatile"``.

    Args:
        spec: A provider (``openai``, ``openai_responses``, ``anthropic``, ``gemini``, ``grok``), or
            a host of OpenAI's chat completions (see `compatible`), and the provider's model name.
        base_url: Root of the API, if it is not at the provider's own address.
        settings: Settings under the provider's names, checked here.
        options: See `ModelOptions`.

    Raises:
        ConfigurationError: There is no such provider, or it needs more than a name.
    """
    provider, colon, name = spec.partition(":")
    if not (colon and provider and name):
        raise ConfigurationError(f"{spec!r} is not PROVIDER:NAME, e.g. openai:gpt-4.1.")
    if provider in _FACTORIES:
        return _FACTORIES[provider](name, base_url=base_url, settings=settings, **options)
    if provider in COMPATIBLE:
        own: Any = settings  # checked there
        return compatible(provider, name, base_url=base_url, settings=own, **options)
    if provider in _OTHERS:
        raise ConfigurationError(f"{spec!r} needs more than a name: {_OTHERS[provider]}.")
    known = [*_FACTORIES, *COMPATIBLE]
    near = get_close_matches(provider, known, 1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigurationError(
        f"There is no provider {provider!r}; known are {', '.join(known)}.{meant}"
    )


def compatible(
    host: str,
    model: str,
    *,
    base_url: str | None = None,
    settings: CompatibleSettings | None = None,
    **options: Unpack[ModelOptions],
) -> Model:
    """Return a model at a host that speaks OpenAI's chat completions, by the host's name.

    What the host takes is known from its name, so that a server of your own (``ollama``, ``vllm``,
    ``litellm``) may be anywhere.

    Args:
        host: One of `COMPATIBLE`: ``openrouter``, ``groq``, ``mistral``, ``deepseek``, … .
        model: The model's name there.
        base_url: Root of the API, if it is not the host's own.
        settings: Settings of chat completions, checked here.
        options: See `ModelOptions`; the key's environment variable is the host's, e.g.
            ``GROQ_API_KEY``.

    Raises:
        ConfigurationError: A value cannot work.
    """
    row = COMPATIBLE.get(host)
    if row is None:
        raise ConfigurationError(f"host={host!r}: known are {', '.join(COMPATIBLE)}.")
    if options.get("capabilities") is None:
        options = {**options, "capabilities": replace(capabilities_of(model), **row.facts)}
    return make_model(
        ChatAdapter(row),
        model,
        base_url=base_url,
        key_required=row.key_required and base_url is None,
        **with_settings("compatible", settings, options),
    )
