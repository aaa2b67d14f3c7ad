"""Models at hosts that speak OpenAI's formats: OpenAI itself, Azure, xAI, and compatible servers.

What a host takes stands in its row of `agentkit_py.models.capabilities`.
"""

from __future__ import annotations

import re

from typing_extensions import Unpack

from agentkit_py.errors import ConfigurationError
from agentkit_py.models.base import Model, ModelOptions, checked_url, make_model
from agentkit_py.models.capabilities import AZURE_OPENAI, GROK, OPENAI, OPENAI_RESPONSES
from agentkit_py.models.chat import ChatAdapter
from agentkit_py.models.responses import ResponsesAdapter

API_VERSION = "2024-10-21"
"""The newest version of Azure's data plane API that is generally available and dated."""

_IN_URL = re.compile(r"[A-Za-z0-9._-]+")


def openai(
    model: str,
    *,
    base_url: str | None = None,
    stream_usage: bool = True,
    **options: Unpack[ModelOptions],
) -> Model:
    """Return a model at OpenAI, or at a server of the same format.

    Args:
        model: The model's name, e.g. ``"gpt-4.1"``.
        base_url: Root of the API, e.g. ``"http://localhost:11434/v1"``. A server of one's own may
            go without a key.
        stream_usage: Whether streams are asked for their usage (``stream_options``), which some
            servers of one's own refuse.
        options: See `ModelOptions`; the key's environment variable is ``OPENAI_API_KEY``.

    Raises:
        ConfigurationError: A value cannot work.
    """
    return make_model(
        ChatAdapter(OPENAI, stream_usage=stream_usage),
        model,
        base_url=base_url,
        key_required=base_url is None,
        **options,
    )


def openai_responses(
    model: str,
    *,
    base_url: str | None = None,
    keep_reasoning: bool | None = None,
    **options: Unpack[ModelOptions],
) -> Model:
    """Return a model at OpenAI through its Responses API, which newer models need for tools.

    Nothing is stored at OpenAI (``store: false``); reasoning comes encrypted and is sent back.

    Args:
        model: The model's name, e.g. ``"gpt-5"``.
        base_url: Root of the API. A server of one's own may go without a key.
        keep_reasoning: Whether reasoning is kept and sent back; None: if the model's name says
            that it reasons. Models that do not reason refuse it.
        options: See `ModelOptions`; the key's environment variable is ``OPENAI_API_KEY``.

    Raises:
        ConfigurationError: A value cannot work.
    """
    return make_model(
        ResponsesAdapter(OPENAI_RESPONSES, keep_reasoning=keep_reasoning),
        model,
        base_url=base_url,
        key_required=base_url is None,
        **options,
    )


def azure_openai(
    model: str,
    *,
    endpoint: str,
    deployment: str | None = None,
    api_version: str = API_VERSION,
    stream_usage: bool = True,
    **options: Unpack[ModelOptions],
) -> Model:
    """Return a model at Azure OpenAI.

    Args:
        model: The model's name, e.g. ``"gpt-4o"``; it tells what the deployment can do.
        endpoint: The resource's root, e.g. ``"https://my-resource.openai.azure.com"``.
        deployment: The deployment's name; None: the same as the model's.
        api_version: Version of the API.
        stream_usage: Whether streams are asked for their usage (``stream_options``), which
            versions of the API before 2024-09-01-preview refuse.
        options: See `ModelOptions`; the key's environment variable is ``AZURE_OPENAI_API_KEY``.

    Raises:
        ConfigurationError: A value cannot work.
    """
    deployed = _in_url("deployment", model if deployment is None else deployment)
    version = _in_url("api_version", api_version)
    path = f"/openai/deployments/{deployed}/chat/completions?api-version={version}"
    return make_model(
        ChatAdapter(AZURE_OPENAI, path, stream_usage=stream_usage),
        model,
        base_url=checked_url("endpoint", endpoint),
        **options,
    )


def grok(model: str, *, base_url: str | None = None, **options: Unpack[ModelOptions]) -> Model:
    """Return a Grok model at xAI.

    Args:
        model: The model's name, e.g. ``"grok-4"``.
        base_url: Root of the API. A server of one's own may go without a key.
        options: See `ModelOptions`; the key's environment variable is ``XAI_API_KEY``.

    Raises:
        ConfigurationError: A value cannot work.
    """
    return make_model(
        ChatAdapter(GROK),
        model,
        base_url=base_url,
        key_required=base_url is None,
        **options,
    )


def _in_url(argument: str, value: object) -> str:
    if not isinstance(value, str) or _IN_URL.fullmatch(value) is None:
        raise ConfigurationError(
            f"{argument}={value!r}: pass letters, digits, dots, dashes and underscores only."
        )
    return value
