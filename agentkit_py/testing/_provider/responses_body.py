"""Rules for the top level of a request to OpenAI's Responses API."""

from __future__ import annotations

import re
from typing import Any, cast

from .rules import Inbound, Problem, is_int, is_name_list, is_number, names, rule

# openai-python 2.x, types/responses/response_create_params.py, is generated from OpenAI's own
# specification: every field of the request body is listed there.
_ARGUMENTS = names("""background context_management conversation include input instructions
    max_output_tokens max_tool_calls metadata model parallel_tool_calls previous_response_id prompt
    prompt_cache_key prompt_cache_retention reasoning safety_identifier service_tier store stream
    stream_options temperature text tool_choice tools top_logprobs top_p truncation user""")
_INCLUDES = names("""file_search_call.results web_search_call.results
    web_search_call.action.sources message.input_image.image_url
    computer_call_output.output.image_url code_interpreter_call.outputs
    reasoning.encrypted_content message.output_text.logprobs""")
_REASONS = re.compile(r"(?:ft:)?(?:o[1-9](-|$)|gpt-5(?!-chat))")
_MIN_OUTPUT = 16


def reasons(model: str) -> bool:
    """Return whether this model reasons: the o-series and gpt-5, but for gpt-5-chat."""
    return _REASONS.match(model) is not None


@rule("openai_responses")
def missing_model(request: Inbound) -> Problem | None:
    """`model` is a non-empty string.

    Source: platform.openai.com/docs/api-reference/responses/create (it is optional only beside a
    stored `prompt`).
    """
    if request.model or request.body.get("prompt"):
        return None
    return Problem("Missing required parameter: 'model'.", "model", "missing_required_parameter")


@rule("openai_responses")
def unknown_parameter(request: Inbound) -> Problem | None:
    """The body has no fields but the documented ones.

    Source: openai-python types/responses/response_create_params.py for the list; "Unknown
    parameter: '…'." is the API's answer.
    """
    unknown = [name for name in request.body if name not in _ARGUMENTS]
    if not unknown:
        return None
    return Problem(f"Unknown parameter: '{unknown[0]}'.", unknown[0], "unknown_parameter")


@rule("openai_responses")
def missing_input(request: Inbound) -> Problem | None:
    """There is something to answer: a text, or a list with at least one item.

    Source: the API's answer "One of "input" or "previous_response_id" or 'prompt' or
    'conversation_id' must be provided."
    """
    given: Any = request.body.get("input")
    if isinstance(given, str | list) and given:
        return None
    if given is not None and not isinstance(given, str | list):
        words = "Invalid type for 'input': expected one of a string or array of input items."
        return Problem(words, "input", "invalid_type")
    words = (
        "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation_id' must be "
        "provided."
    )
    return Problem(words, "input", "missing_required_parameter")


# name: (whole number?, lowest, highest)
_RANGES: dict[str, tuple[bool, float, float]] = {
    "temperature": (False, 0, 2),
    "top_p": (False, 0, 1),
    "max_output_tokens": (True, _MIN_OUTPUT, float("inf")),
    "max_tool_calls": (True, 1, float("inf")),
    "top_logprobs": (True, 0, 20),
}


@rule("openai_responses")
def parameter_range(request: Inbound) -> Problem | None:
    """Numeric parameters are numbers within their documented range, or null.

    Source: platform.openai.com/docs/api-reference/responses/create; the lowest
    `max_output_tokens` is from the API's answer "integer below minimum value. Expected a value >=
    16".
    """
    for name, (whole, low, high) in _RANGES.items():
        value = request.body.get(name)
        if value is None:
            continue
        if not (is_int(value) if whole else is_number(value)):
            kind = "an integer" if whole else "a decimal"
            return Problem(f"Invalid type for '{name}': expected {kind}.", name, "invalid_type")
        if not low <= value <= high:
            words = f"Expected a value between {low} and {high}, but got {value} instead."
            return Problem(f"Invalid '{name}': {words}", name, "out_of_range")
    return None


@rule("openai_responses")
def reasoning_model_sampling(request: Inbound) -> Problem | None:
    """Models that reason take no temperature or top_p other than 1.

    Source: platform.openai.com/docs/guides/reasoning; "Unsupported parameter: 'temperature' is not
    supported with this model" is the API's answer. gpt-5.1 and later take them with effort none
    and are left alone.
    """
    if not reasons(request.model) or request.model.startswith("gpt-5."):
        return None
    for name in ("temperature", "top_p"):
        value = request.body.get(name)
        if value is not None and value != 1:
            words = f"Unsupported parameter: '{name}' is not supported with this model."
            return Problem(words, name, "unsupported_parameter")
    return None


@rule("openai_responses")
def reasoning_of_plain_model(request: Inbound) -> Problem | None:
    """`reasoning` is for models that reason.

    Source: platform.openai.com/docs/api-reference/responses/create ("gpt-5 and o-series models
    only"); "Unsupported parameter: 'reasoning.effort' is not supported with this model" is the
    API's answer.
    """
    wanted: Any = request.body.get("reasoning")
    if not isinstance(wanted, dict) or not wanted or reasons(request.model):
        return None
    name = f"reasoning.{next(iter(cast('dict[str, Any]', wanted)))}"
    words = f"Unsupported parameter: '{name}' is not supported with this model."
    return Problem(words, name, "unsupported_parameter")


@rule("openai_responses")
def include_values(request: Inbound) -> Problem | None:
    """`include` names what can be included.

    Source: platform.openai.com/docs/api-reference/responses/create (include).
    """
    wanted: Any = request.body.get("include")
    if wanted is None:
        return None
    if not is_name_list(wanted):
        return Problem("Invalid type for 'include': expected an array.", "include", "invalid_type")
    for number, name in enumerate(wanted):
        if name not in _INCLUDES:
            supported = ", ".join(f"'{one}'" for one in sorted(_INCLUDES))
            words = f"Invalid value: '{name}'. Supported values are: {supported}."
            return Problem(words, f"include[{number}]", "invalid_value")
    return None


@rule("openai_responses")
def encrypted_content_of_plain_model(request: Inbound) -> Problem | None:
    """Only models that reason have encrypted reasoning.

    Source: the API's answer "Encrypted content is not supported with this model", e.g.
    github.com/OpenHands/software-agent-sdk/pull/1208.
    """
    wanted: list[str] = request.body.get("include") or []
    if "reasoning.encrypted_content" not in wanted or reasons(request.model):
        return None
    return Problem("Encrypted content is not supported with this model.", "include")


@rule("openai_responses")
def stream_options_without_stream(request: Inbound) -> Problem | None:
    """`stream_options` goes with `stream: true` only, and knows no usage.

    Source: platform.openai.com/docs/api-reference/responses/create ("Only set this when you set
    stream: true"; include_obfuscation is all there is).
    """
    options: Any = request.body.get("stream_options")
    if options is None:
        return None
    if request.body.get("stream") is not True:
        words = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        return Problem(words, "stream_options")
    unknown = set(cast("dict[str, Any]", options)) - {"include_obfuscation"}
    if not unknown:
        return None
    name = f"stream_options.{min(unknown)}"
    return Problem(f"Unknown parameter: '{name}'.", name, "unknown_parameter")
