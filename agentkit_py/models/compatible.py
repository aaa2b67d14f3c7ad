"""Models by name, and at hosts that speak OpenAI's formats: OpenAI, Azure, xAI, compatible servers.

A host's features are in its row of `agentkit_py.models.capabilities`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from typing_extensions import Unpack

from agentkit_py._core.json import as_object
from agentkit_py._core.spellings import explained
from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import ConfigurationError
from agentkit_py.models.anthropic import anthropic
from agentkit_py.models.base import Model, ModelOptions, checked_url, make_model
from agentkit_py.models.capabilities import (
    AZURE_OPENAI,
    COMPATIBLE,
    GROK,
    OPENAI,
    OPENAI_RESPONSES,
    Capabilities,
    capabilities_of,
)
from agentkit_py.models.chat import ChatAdapter
from agentkit_py.models.chat import taken_parameters as chat_parameters
from agentkit_py.models.encoding import warn_of_refused, with_settings
from agentkit_py.models.gemini import gemini
from agentkit_py.models.responses import ResponsesAdapter
from agentkit_py.models.responses import taken_parameters as responses_parameters
from agentkit_py.models.think_tags import THINK_TAGS, ThinkTags, checked_tags

if TYPE_CHECKING:
    from agentkit_py.models.settings import (
        ChatSettings,
        CompatibleSettings,
        ModelSettings,
        ResponsesSettings,
    )

logger: logging.Logger = get_logger("agentkit_py")

API_VERSION = "2024-10-21"
"""The newest version of Azure's data plane API that is generally available and dated."""

OpenAIFormat: TypeAlias = Literal["chat", "responses"]
"""Which of OpenAI's two formats is spoken."""

_IN_URL = re.compile(r"[A-Za-z0-9._-]+")


def openai(
    model: str,
    *,
    base_url: str | None = None,
    stream_usage: bool = True,
    think_tags: ThinkTags | None = THINK_TAGS,
    settings: ChatSettings | None = None,
    **options: Unpack[ModelOptions],
) -> Model:
    """Return a model at OpenAI, or at a server of the same format.

    Newer models take tools only through the Responses API (`Capabilities.chat_tools`): they are
    asked there, with the parameters under that API's names.

    Args:
        model: The model's name, e.g. ``"gpt-4.1"``.
        base_url: Root of the API, e.g. ``"http://localhost:11434/v1"``. Self-hosted servers may
            go without a key.
        stream_usage: Whether streams are asked for their usage (``stream_options``), which some
            self-hosted servers refuse.
        think_tags: With a ``base_url``: the tags around reasoning at the beginning of a text, which
            is neither shown nor sent back as text; None: it is text.
        settings: Settings under the names of chat completions, checked here.
        options: See `ModelOptions`; the key's environment variable is ``OPENAI_API_KEY``.

    Raises:
        ConfigurationError: A value cannot work.
    """
    tags = checked_tags(think_tags)
    return _made(
        model,
        ChatAdapter(
            OPENAI, stream_usage=stream_usage, think_tags=None if base_url is None else tags
        ),
        ResponsesAdapter(OPENAI_RESPONSES),
        base_url=base_url,
        key_required=base_url is None,
        options=with_settings("chat", settings, options),
    )


def openai_responses(
    model: str,
    *,
    base_url: str | None = None,
    keep_reasoning: bool | None = None,
    settings: ResponsesSettings | None = None,
    **options: Unpack[ModelOptions],
) -> Model:
    """Return a model at OpenAI through its Responses API, which newer models need for tools.

    Nothing is stored at OpenAI (``store: false``); reasoning comes encrypted and is sent back.

    Args:
        model: The model's name, e.g. ``"gpt-5"``.
        base_url: Root of the API. Self-hosted servers may need no key.
        keep_reasoning: Whether reasoning is kept and sent back; None: if the model's name says
            that it reasons. Models that do not reason refuse it.
        settings: Settings under the API's names, checked here.
        options: See `ModelOptions`; the key's environment variable is ``OPENAI_API_KEY``.

    Raises:
        ConfigurationError: A value cannot work.
    """
    return _at_responses(
        ResponsesAdapter(OPENAI_RESPONSES, keep_reasoning=keep_reasoning),
        model,
        base_url,
        key_required=base_url is None,
        options=with_settings("responses", settings, options),
    )


@explained
def azure_openai(
    model: str,
    *,
    endpoint: str,
    deployment: str | None = None,
    api_version: str = API_VERSION,
    stream_usage: bool = True,
    api: OpenAIFormat | None = None,
    settings: ChatSettings | None = None,
    **options: Unpack[ModelOptions],
) -> Model:
    """Return a model at Azure OpenAI.

    Args:
        model: The model's name, e.g. ``"gpt-4o"``; it determines the deployment's features.
        endpoint: The resource's root, e.g. ``"https://my-resource.openai.azure.com"``.
        deployment: The deployment's name; None: the same as the model's.
        api_version: Version of the API.
        stream_usage: Whether streams are asked for their usage (``stream_options``), which
            versions of the API before 2024-09-01-preview refuse.
        api: ``"chat"``, or ``"responses"`` (the v1 API, without ``api_version``); None: the API in
            which the model takes tools.
        settings: Settings under the names of chat completions, checked here.
        options: See `ModelOptions`; the key's environment variable is ``AZURE_OPENAI_API_KEY``.

    Raises:
        ConfigurationError: A value cannot work.
    """
    deployed = _in_url("deployment", model if deployment is None else deployment)
    version = _in_url("api_version", api_version)
    path = f"/openai/deployments/{deployed}/chat/completions?api-version={version}"
    return _made(
        model,
        ChatAdapter(AZURE_OPENAI, path, stream_usage=stream_usage, cache_keys=False),
        ResponsesAdapter(AZURE_OPENAI, "/openai/v1/responses", deployment=deployed),
        base_url=checked_url("endpoint", endpoint),
        key_required=True,
        options=with_settings("chat", settings, options),
        api=api,
    )


def grok(
    model: str,
    *,
    base_url: str | None = None,
    api: OpenAIFormat | None = None,
    settings: ChatSettings | None = None,
    **options: Unpack[ModelOptions],
) -> Model:
    """Return a Grok model at xAI.

    Args:
        model: The model's name, e.g. ``"grok-4"``.
        base_url: Root of the API. Self-hosted servers may need no key.
        api: ``"responses"`` for the newer API, in which reasoning is kept and sent back; None and
            ``"chat"``: chat completions.
        settings: Settings under the names of chat completions, checked here.
        options: See `ModelOptions`; the key's environment variable is ``XAI_API_KEY``.

    Raises:
        ConfigurationError: A value cannot work.
    """
    return _made(
        model,
        ChatAdapter(GROK),
        ResponsesAdapter(GROK),
        base_url=base_url,
        key_required=base_url is None,
        options=with_settings("chat", settings, options),
        api=api,
    )


def _made(
    model: str,
    chat: ChatAdapter,
    responses: ResponsesAdapter,
    *,
    base_url: str | None,
    key_required: bool,
    options: ModelOptions,
    api: OpenAIFormat | None = None,
) -> Model:
    """Return a model in the format asked for, else in the format that takes its tools."""
    if api not in (None, "chat", "responses"):
        raise ConfigurationError(f"api={api!r}: pass 'chat' or 'responses', or None.")
    moved = api is None and _needs_responses(model, options)
    if moved:
        options = _for_responses(model, options)
    if api == "responses" or moved:
        return _at_responses(responses, model, base_url, key_required, options)
    made = make_model(chat, model, base_url=base_url, key_required=key_required, **options)
    warn_of_refused(made, chat_parameters(made.default_parameters, made.takes))
    return made


def _at_responses(
    adapter: ResponsesAdapter,
    model: str,
    base_url: str | None,
    key_required: bool,  # noqa: FBT001 - private
    options: ModelOptions,
) -> Model:
    """Return a model of the Responses API; settings that it does not take are logged."""
    made = make_model(adapter, model, base_url=base_url, key_required=key_required, **options)
    warn_of_refused(made, responses_parameters(made.default_parameters, made.takes))
    return made


def _needs_responses(model: object, options: ModelOptions) -> bool:
    """Return whether chat completions would refuse this model's tools."""
    given, parameters = options.get("capabilities"), options.get("default_parameters") or {}
    if given is None and isinstance(model, str):
        given = capabilities_of(model)
    if not isinstance(given, Capabilities) or not isinstance(parameters, Mapping):
        return False
    effort = parameters.get("reasoning_effort")
    match given.chat_tools:
        case "taken":
            return False
        case "without_effort":
            return effort not in (None, "none")
        case "not_reasoning":
            return effort != "none"
        case "refused":
            return True


_LENGTHS = ("max_tokens", "max_completion_tokens")
_ONLY_CHAT = (
    *("n", "stop", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "seed"),
    *("stream_options", "modalities", "audio", "prediction", "functions", "function_call"),
)


def _for_responses(model: str, options: ModelOptions) -> ModelOptions:
    """Return the options with the parameters of chat completions as the Responses API has them.

    Parameters that only chat completions have are logged and left out.
    """
    parameters: dict[str, Any] = {}
    text: dict[str, Any] = {}
    dropped: list[str] = []
    for name, value in (options.get("default_parameters") or {}).items():
        if name in _LENGTHS:
            parameters["max_output_tokens"] = value
        elif name == "reasoning_effort":
            parameters["reasoning"] = {"effort": value}
        elif name == "verbosity":
            text["verbosity"] = value
        elif name == "response_format" and (form := as_object(value)) is not None:
            kept = {key: part for key, part in form.items() if key != "json_schema"}
            text["format"] = kept | (as_object(form.get("json_schema")) or {})
        elif name in _ONLY_CHAT:
            dropped.append(name)
        else:
            parameters[name] = value
    if dropped:
        logger.warning(
            "%s is asked through the Responses API, which does not have these settings of chat "
            "completions, so they are left out: %s.",
            model,
            ", ".join(dropped),
        )
    if text:
        parameters["text"] = text
    return {**options, "default_parameters": parameters}


def _in_url(argument: str, value: object) -> str:
    if not isinstance(value, str) or _IN_URL.fullmatch(value) is None:
        raise ConfigurationError(
            f"{argument}={value!r}: pass letters, digits, dots, dashes and underscores only."
        )
    return value


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
        ConfigurationError: The provider is unknown, or it needs more than a name.
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
    from difflib import get_close_matches  # noqa: PLC0415 - for errors only

    known = [*_FACTORIES, *COMPATIBLE]
    near = get_close_matches(provider, known, 1)
    meant = f" Did you mean {near[0]!r}?" if near else ""
    raise ConfigurationError(f"Unknown provider {provider!r}; known are {', '.join(known)}.{meant}")


@explained
def compatible(
    host: str,
    model: str,
    *,
    base_url: str | None = None,
    think_tags: ThinkTags | None = THINK_TAGS,
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
        think_tags: The tags around reasoning at the beginning of a text, which is neither shown
            nor sent back as text; None: it is text.
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
    made = make_model(
        ChatAdapter(row, think_tags=checked_tags(think_tags)),
        model,
        base_url=base_url,
        key_required=row.key_required and base_url is None,
        **with_settings("compatible", settings, options),
    )
    warn_of_refused(made, chat_parameters(made.default_parameters, made.takes))
    return made
