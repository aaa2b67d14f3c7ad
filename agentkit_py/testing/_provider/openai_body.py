"""Rules for the top level of an OpenAI chat request (also Azure OpenAI and Grok)."""

from __future__ import annotations

import re
from typing import Any, cast

from .rules import OPENAI_AND_AZURE, OPENAI_LIKE, Inbound, Problem, is_int, is_number, names, rule

# openai-python 3.51, types/chat/completion_create_params.py, is generated from OpenAI's own
# specification: every field of the request body is listed there.
_ARGUMENTS = names("""messages model audio frequency_penalty function_call functions logit_bias
logprobs
    max_completion_tokens max_tokens metadata modalities moderation n parallel_tool_calls prediction
    presence_penalty prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort
    response_format safety_identifier seed service_tier stop store stream stream_options temperature
    tool_choice tools top_logprobs top_p user verbosity web_search_options""")
# learn.microsoft.com/azure/ai-services/openai/reference adds "on your data".
_AZURE_ARGUMENTS = _ARGUMENTS | {"data_sources", "user_security_context"}

_MAX_STOPS = 4
_REASONING = re.compile(r"o[134](-|$)|gpt-5(-mini|-nano)?(-\d|$)")
_NO_PARALLEL = re.compile(r"o[134](-|$)")


@rule(*OPENAI_LIKE)
def missing_model(request: Inbound) -> Problem | None:
    """`model` is a non-empty string (with Azure the deployment in the path stands for it).

    Source: platform.openai.com/docs/api-reference/chat/create (model: string, required); the words
    are those of the API.
    """
    if request.model:
        return None
    return Problem("you must provide a model parameter", "model")


@rule(*OPENAI_AND_AZURE)
def unknown_argument(request: Inbound) -> Problem | None:
    """The body has no fields but the documented ones.

    Source: openai-python types/chat/completion_create_params.py for the list; "Unrecognized request
    argument supplied" is the API's answer. Grok is left out: docs.x.ai says it ignores some fields.
    """
    known = _AZURE_ARGUMENTS if request.provider == "azure_openai" else _ARGUMENTS
    unknown = [name for name in request.body if name not in known]
    if not unknown:
        return None
    return Problem(f"Unrecognized request argument supplied: {unknown[0]}", unknown[0])


@rule(*OPENAI_LIKE)
def missing_messages(request: Inbound) -> Problem | None:
    """`messages` is a list with at least one element.

    Source: platform.openai.com/docs/api-reference/chat/create (messages: array, required,
    minItems 1).
    """
    messages = request.body.get("messages")
    if isinstance(messages, list) and messages:
        return None
    if isinstance(messages, list):
        message = (
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an "
            "empty array instead."
        )
        return Problem(message, "messages", "empty_array")
    if messages is None:
        return Problem(
            "Missing required parameter: 'messages'.", "messages", "missing_required_parameter"
        )
    return Problem(
        "Invalid type for 'messages': expected an array of objects.", "messages", "invalid_type"
    )


# name: (whole number?, lowest, highest)
_RANGES: dict[str, tuple[bool, float, float]] = {
    "temperature": (False, 0, 2),
    "top_p": (False, 0, 1),
    "presence_penalty": (False, -2, 2),
    "frequency_penalty": (False, -2, 2),
    "max_tokens": (True, 1, float("inf")),
    "max_completion_tokens": (True, 1, float("inf")),
    "n": (True, 1, 128),
    "top_logprobs": (True, 0, 20),
}


@rule(*OPENAI_LIKE)
def parameter_out_of_range(request: Inbound) -> Problem | None:
    """Numeric parameters are numbers within their documented range, or null.

    Sources: platform.openai.com/docs/api-reference/chat/create and docs.x.ai/docs/api-reference
    ("between 0 and 2", "between -2.0 and 2.0", "between 0 and 20").
    """
    for name, (whole, low, high) in _RANGES.items():
        value = request.body.get(name)
        if value is None:
            continue
        if not (is_int(value) if whole else is_number(value)):
            kind = "an integer" if whole else "a decimal"
            return Problem(f"Invalid type for '{name}': expected {kind}.", name, "invalid_type")
        if value < low:
            words = (
                f"integer below minimum value. Expected a value >= {low}, but got {value} instead."
            )
            return Problem(f"Invalid '{name}': {words}", name, "integer_below_min_value")
        if value > high:
            words = (
                f"decimal above maximum value. Expected a value <= {high}, but got {value} instead."
            )
            return Problem(f"Invalid '{name}': {words}", name, "decimal_above_max_value")
    return None


@rule(*OPENAI_LIKE)
def too_many_stops(request: Inbound) -> Problem | None:
    """`stop` is a string or a list of at most four strings.

    Source: platform.openai.com/docs/api-reference/chat/create ("Up to 4 sequences"); xAI documents
    the same.
    """
    stop: Any = request.body.get("stop")
    if stop is None or isinstance(stop, str):
        return None
    if isinstance(stop, list):
        items = cast("list[Any]", stop)
        if len(items) <= _MAX_STOPS and all(isinstance(item, str) for item in items):
            return None
    return Problem("Invalid 'stop': expected a string or an array of up to 4 strings.", "stop")


@rule(*OPENAI_AND_AZURE)
def reasoning_model_parameter(request: Inbound) -> Problem | None:
    """Reasoning models take neither `max_tokens` nor a temperature or top_p other than 1.

    Source: platform.openai.com/docs/guides/reasoning and learn.microsoft.com/azure/ai-services/
    openai/how-to/reasoning ("Not supported"): o1, o3, o4, gpt-5, gpt-5-mini, gpt-5-nano. Later
    models take a temperature with some efforts and are left alone. With Azure only a deployment
    that bears the model's name can be recognised.
    """
    if not _REASONING.match(request.model):
        return None
    if request.body.get("max_tokens") is not None:
        message = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead."
        )
        return Problem(message, "max_tokens", "unsupported_parameter")
    for name in ("temperature", "top_p"):
        value = request.body.get(name)
        if value is not None and value != 1:
            message = (
                f"Unsupported value: '{name}' does not support {value} with this model. Only the "
                "default (1) value is supported."
            )
            return Problem(message, name, "unsupported_value")
    return None


@rule(*OPENAI_AND_AZURE)
def parallel_calls_on_reasoning_model(request: Inbound) -> Problem | None:
    """The o-series does not know `parallel_tool_calls`.

    Source: learn.microsoft.com/azure/ai-services/openai/how-to/reasoning ("Parallel tool calls: not
    supported" for o1, o3, o4); the API says "Unsupported parameter".
    """
    if "parallel_tool_calls" not in request.body or not _NO_PARALLEL.match(request.model):
        return None
    message = "Unsupported parameter: 'parallel_tool_calls' is not supported with this model."
    return Problem(message, "parallel_tool_calls", "unsupported_parameter")


@rule(*OPENAI_LIKE)
def stream_options_without_stream(request: Inbound) -> Problem | None:
    """`stream_options` goes with `stream: true` only.

    Source: platform.openai.com/docs/api-reference/chat/create ("Only set this when you set
    `stream: true`"); xAI documents the same.
    """
    if request.body.get("stream_options") is None or request.body.get("stream") is True:
        return None
    message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    return Problem(message, "stream_options")


@rule(*OPENAI_AND_AZURE)
def json_mode_without_the_word(request: Inbound) -> Problem | None:
    """`response_format: json_object` needs the word "json" somewhere in the messages.

    Source: platform.openai.com/docs/guides/structured-outputs, "JSON mode" ("the API will throw an
    error if the string "JSON" does not appear somewhere in the context").
    """
    wanted: Any = request.body.get("response_format")
    if not isinstance(wanted, dict) or cast("dict[str, Any]", wanted).get("type") != "json_object":
        return None
    if "json" in str(request.body["messages"]).lower():
        return None
    message = (
        "'messages' must contain the word 'json' in some form, to use 'response_format' of type "
        "'json_object'."
    )
    return Problem(message, "messages")
