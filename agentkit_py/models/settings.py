"""Settings of models, typed for each provider and under its own names.

They go into each request as `default_parameters` do, but are checked where they are given. What
these types do not know goes into ``default_parameters``, unchecked.

Sources: developers.openai.com/api/reference (chat and responses, create),
platform.claude.com/docs/en/api/messages, ai.google.dev/api/generate-content (November 2026).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, cast, get_args

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict, get_type_hints, is_typeddict

from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import ConfigurationError

logger: logging.Logger = get_logger("agentkit_py")

_CLOSED = ConfigDict(extra="forbid", strict=True)

Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""The effort of reasoning; which ones a model takes depends on it."""

Verbosity: TypeAlias = Literal["low", "medium", "high"]
ServiceTier: TypeAlias = Literal["auto", "default", "flex", "scale", "priority"]


Count: TypeAlias = Annotated[int, Field(ge=1)]
"""A whole number, 1 or more."""

Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
"""0 to 1."""

Temperature: TypeAlias = Annotated[float, Field(ge=0, le=2)]
"""0 to 2."""

Penalty: TypeAlias = Annotated[float, Field(ge=-2, le=2)]
"""-2 to 2."""

Logprobs: TypeAlias = Annotated[int, Field(ge=0, le=20)]
"""0 to 20."""


class _OpenAI(TypedDict, total=False):
    """Settings that OpenAI's two formats share."""

    temperature: Temperature
    top_p: Share
    top_logprobs: Logprobs
    parallel_tool_calls: bool
    service_tier: ServiceTier
    store: bool
    metadata: dict[str, str]
    user: str
    safety_identifier: str
    """A stable id of the user, by which OpenAI finds misuse; a hash rather than a name."""

    prompt_cache_key: str
    prompt_cache_retention: Literal["in_memory", "in-memory", "24h"]
    prompt_cache_options: dict[str, Any]
    moderation: dict[str, Any]


@with_config(_CLOSED)
class ChatSettings(_OpenAI, total=False):
    """Settings of OpenAI's chat completions: `openai`, `azure_openai`, `grok`.

    Models that are asked by the Responses API get them under that API's names.
    """

    max_tokens: Count
    max_completion_tokens: Count
    """Tokens of a reply, those of its reasoning included."""

    stop: str | list[str]
    seed: int
    presence_penalty: Penalty
    frequency_penalty: Penalty
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]]
    logprobs: bool
    reasoning_effort: Effort
    verbosity: Verbosity
    modalities: list[Literal["text", "audio"]]
    audio: dict[str, Any]
    prediction: dict[str, Any]
    response_format: dict[str, Any]
    web_search_options: dict[str, Any]


@with_config(_CLOSED)
class CompatibleSettings(ChatSettings, total=False):
    """Settings of other hosts that speak chat completions: `compatible`.

    No host takes all of them; its 400 names the settings that it refuses.
    """

    top_k: Annotated[int, Field(ge=-1)]
    """-1: no limit, at some hosts."""

    min_p: Share
    repetition_penalty: Annotated[float, Field(gt=0)]
    random_seed: int
    """Mistral's ``seed``."""

    safe_prompt: bool
    prompt_mode: str
    thinking: dict[str, Any]
    """DeepSeek, Moonshot: ``{"type": "enabled"}``."""

    reasoning: dict[str, Any]
    """OpenRouter: ``{"effort": "high"}``."""

    provider: dict[str, Any]
    """OpenRouter: which providers may answer."""

    models: list[str]
    """OpenRouter: the models that it falls back to by itself."""

    reasoning_format: str
    chat_template_kwargs: dict[str, Any]


@with_config(_CLOSED)
class ReasoningSettings(TypedDict, total=False):
    """``reasoning`` of the Responses API."""

    effort: Effort
    summary: Literal["auto", "concise", "detailed"]
    context: Literal["auto", "current_turn", "all_turns"]


@with_config(_CLOSED)
class TextSettings(TypedDict, total=False):
    """``text`` of the Responses API."""

    verbosity: Verbosity
    format: dict[str, Any]


@with_config(_CLOSED)
class ResponsesSettings(_OpenAI, total=False):
    """Settings of OpenAI's Responses API: `openai_responses`."""

    max_output_tokens: Annotated[int, Field(ge=16)]
    """Tokens of a reply, those of its reasoning included; at least 16."""

    max_tool_calls: Count
    """Calls of hosted tools in a reply."""

    reasoning: ReasoningSettings
    text: TextSettings
    include: list[str]
    truncation: Literal["auto", "disabled"]
    context_management: list[dict[str, Any]]


@with_config(_CLOSED)
class ThinkingSettings(TypedDict, total=False):
    """``thinking`` of Claude."""

    type: Literal["enabled", "disabled", "adaptive", "between_tools"]
    budget_tokens: Annotated[int, Field(ge=1024)]
    """For ``enabled``: at least 1024, and less than ``max_tokens``."""

    display: Literal["summarized", "omitted"]


@with_config(_CLOSED)
class OutputSettings(TypedDict, total=False):
    """``output_config`` of Claude."""

    effort: Effort
    format: dict[str, Any]


@with_config(_CLOSED)
class AnthropicSettings(TypedDict, total=False):
    """Settings of Claude: `anthropic`, and `agentkit_py.runtime.cloud`."""

    max_tokens: Annotated[int, Field(ge=0)]
    """0: the prompt goes into the cache, without a reply."""

    temperature: Share
    top_p: Share
    top_k: Annotated[int, Field(ge=0)]
    stop_sequences: list[str]
    thinking: ThinkingSettings
    output_config: OutputSettings
    metadata: dict[str, str]
    """``{"user_id": …}``."""

    service_tier: Literal["auto", "standard_only"]
    speed: Literal["standard", "fast"]
    inference_geo: str
    cache_control: dict[str, Any]
    container: str | dict[str, Any]
    context_management: dict[str, Any]


@with_config(_CLOSED)
class GeminiThinking(TypedDict, total=False):
    """``generationConfig.thinkingConfig`` of Gemini."""

    thinkingBudget: Annotated[int, Field(ge=-1)]
    """Gemini 2.5: tokens; 0: none, -1: as the model thinks fit."""

    thinkingLevel: Literal["minimal", "low", "medium", "high", "MINIMAL", "LOW", "MEDIUM", "HIGH"]
    """Gemini 3 and later."""

    includeThoughts: bool


@with_config(_CLOSED)
class GenerationConfig(TypedDict, total=False):
    """``generationConfig`` of Gemini."""

    temperature: Temperature
    topP: Share
    topK: Count
    maxOutputTokens: Count
    stopSequences: list[str]
    seed: int
    presencePenalty: Penalty
    frequencyPenalty: Penalty
    thinkingConfig: GeminiThinking
    responseMimeType: str
    responseSchema: dict[str, Any]
    responseJsonSchema: dict[str, Any]
    responseModalities: list[str]
    responseLogprobs: bool
    logprobs: Logprobs
    mediaResolution: str
    speechConfig: dict[str, Any]
    imageConfig: dict[str, Any]


@with_config(_CLOSED)
class SafetySetting(TypedDict, total=False):
    """One of ``safetySettings`` of Gemini."""

    category: str
    threshold: str
    method: str
    """Vertex only."""


@with_config(_CLOSED)
class GeminiSettings(TypedDict, total=False):
    """Settings of Gemini: `gemini`, and `vertex` of `agentkit_py.runtime.cloud`."""

    generationConfig: GenerationConfig
    safetySettings: list[SafetySetting]
    cachedContent: str
    labels: dict[str, str]
    serviceTier: str


ModelSettings: TypeAlias = (
    ChatSettings | CompatibleSettings | ResponsesSettings | AnthropicSettings | GeminiSettings
)
"""The settings of some provider."""

_KINDS: Mapping[str, Any] = {
    "chat": ChatSettings,
    "compatible": CompatibleSettings,
    "responses": ResponsesSettings,
    "anthropic": AnthropicSettings,
    "gemini": GeminiSettings,
}

_OF_OPENAI = ("chat", "compatible", "responses")
"""Kinds whose models may be asked in another of these formats, under its names."""

_OF_THE_BODY = {"model", "messages", "input", "tools", "contents", "stream"}


def checked_settings(kind: str, settings: object) -> dict[str, Any]:
    """Return settings as parameters of a request.

    Args:
        kind: ``"chat"``, ``"compatible"``, ``"responses"``, ``"anthropic"`` or ``"gemini"``.
        settings: The settings as they were given.

    Raises:
        ConfigurationError: A setting is unknown or has a wrong value; the message names it.
    """
    try:
        _adapter(kind).validate_python(settings)
    except ValidationError as error:
        raise ConfigurationError(_problem(_KINDS[kind], settings, error)) from None
    return dict(cast("Mapping[str, Any]", settings))  # as given: 1 stays an integer


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(_KINDS[kind])


def _problem(kind: Any, settings: object, error: ValidationError) -> str:
    """Return the problem of the first invalid setting, as a single line."""
    found = error.errors(include_url=False)
    where, value = _place(settings, found[0]["loc"])
    path = "".join(f"[{part!r}]" for part in where)
    shown = f"settings{path}={value!r:.120}"
    if found[0]["type"] != "extra_forbidden":
        said = dict.fromkeys(f["msg"] for f in found if _place(settings, f["loc"])[0] == where)
        newer = " Pass a newer value as default_parameters={…}."
        closed = any(f["type"] == "literal_error" for f in found)
        return f"{shown}: {' or '.join(said)}.{newer if closed else ''}"
    names = dict(_names(kind))
    near = get_close_matches(str(where[-1]), names, 1)
    meant = f" Did you mean {names[near[0]]}?" if near else ""
    return (
        f"{shown}: {kind.__name__} has no such setting.{meant} Pass other settings as "
        "default_parameters={…}."
    )


def warn_of_misspelt(kind: str, parameters: Mapping[str, Any]) -> None:
    """Log parameters that are nearly a known setting's name, each once.

    Others pass in silence: providers have parameters that this table does not know yet.

    Args:
        kind: As for `checked_settings`.
        parameters: The ``default_parameters`` as they were given.
    """
    kinds = _OF_OPENAI if kind in _OF_OPENAI else (kind,)
    _look_at(tuple(_KINDS[one] for one in kinds), parameters, "default_parameters")


def _look_at(kinds: tuple[Any, ...], given: Mapping[str, Any], path: str) -> None:
    known = {name: hint for one in kinds for name, hint in _hints(one).items()}
    plain = {_plain(name): name for name in known}
    for name, value in given.items():
        inner = [h for h in (known.get(name), *get_args(known.get(name))) if is_typeddict(h)]
        if inner and isinstance(value, Mapping):
            _look_at(tuple(inner), cast("Mapping[str, Any]", value), f"{path}[{name!r}]")
        if name not in known and name not in _OF_THE_BODY:
            near = get_close_matches(_plain(str(name)), plain, 1, 0.85)
            if near:
                _say_misspelt(f"{path}[{name!r}]", plain[near[0]])


@cache
def _say_misspelt(where: str, meant: str) -> None:
    logger.warning(
        "%s is sent as it is, and no setting is known by that name; did you mean %r? Providers may "
        "ignore unknown parameters.",
        *(where, meant),
    )


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _place(value: object, location: tuple[int | str, ...]) -> tuple[list[int | str], object]:
    """Return the part of a location that exists in the value, and the value there.

    Locations also hold the names of types.
    """
    path: list[int | str] = []
    for part in location:
        try:
            value = cast("Any", value)[part]
        except (KeyError, IndexError, TypeError):
            break
        path.append(part)
    return path, value


def _names(kind: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Yield the names of settings, each with its path."""
    for name, hint in get_type_hints(kind).items():
        for inner in (hint, *get_args(hint)):
            if is_typeddict(inner):
                yield from _names(inner, f"{before}{name}.")
        yield name, f"{before}{name}"
