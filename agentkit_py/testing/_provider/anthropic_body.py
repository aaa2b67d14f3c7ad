"""Rules for the top level of an Anthropic Messages request: parameters, system, thinking."""

from __future__ import annotations

import re
from typing import Any, cast

from .rules import Inbound, Problem, is_int, is_number, names, rule

# anthropic-python 2.10, types/message_create_params.py, generated from Anthropic's specification,
# and the beta fields of types/beta/message_create_params.py.
_FIELDS = names("""model messages max_tokens cache_control container diagnostics inference_geo
metadata
    output_config service_tier speed stop_sequences stream system temperature thinking tool_choice
    tools top_k top_p user_profile_id context_management mcp_servers output_format""")
_LEAST_BUDGET = 1024
_THINKING = ("enabled", "disabled", "adaptive", "between_tools")
_VERSION = re.compile(r"claude-(?:opus|sonnet|haiku|fable|mythos)-(\d)(?:-(\d{1,2}))?(?![\d])")


def version(model: str) -> tuple[int, int]:
    """Return the generation of a Claude 4 or later model, or (0, 0) if the name does not tell.

    Names with a date instead of a minor version (`claude-sonnet-4-20250514`) are x.0; older names
    (`claude-3-5-sonnet-…`) give (0, 0).
    """
    found = _VERSION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def thinking_type(request: Inbound) -> str | None:
    """Return `thinking.type`, or `None` if the request has no thinking configuration."""
    thinking: Any = request.body.get("thinking")
    return cast("dict[str, Any]", thinking).get("type") if isinstance(thinking, dict) else None


@rule("anthropic")
def missing_field(request: Inbound) -> Problem | None:
    """`model`, `max_tokens` and `messages` are required.

    Source: platform.claude.com/docs/en/api/messages/create.
    """
    for name in ("model", "max_tokens", "messages"):
        if request.body.get(name) is None:
            return Problem(f"{name}: Field required", name)
    if not isinstance(request.body["model"], str) or not request.body["model"]:
        return Problem("model: Input should be a valid string", "model")
    return None


@rule("anthropic")
def unknown_field(request: Inbound) -> Problem | None:
    """The body has no fields but the documented ones.

    Source: anthropic-python types/message_create_params.py for the list; "Extra inputs are not
    permitted" is the API's answer.
    """
    unknown = [name for name in request.body if name not in _FIELDS]
    return Problem(f"{unknown[0]}: Extra inputs are not permitted", unknown[0]) if unknown else None


@rule("anthropic")
def max_tokens_range(request: Inbound) -> Problem | None:
    """`max_tokens` is a whole number that is not negative (0 only fills the prompt cache).

    Source: platform.claude.com/docs/en/api/messages/create ("Set to `0` to populate the prompt
    cache without generating a response"); before 2026 the least was 1.
    """
    value = request.body["max_tokens"]
    if not is_int(value):
        return Problem("max_tokens: Input should be a valid integer", "max_tokens")
    if value < 0:
        words = "max_tokens: Input should be greater than or equal to 0"
        return Problem(words, "max_tokens")
    return None


@rule("anthropic")
def sampling_range(request: Inbound) -> Problem | None:
    """`temperature` and `top_p` lie between 0 and 1; `top_k` is a whole number of at least 0.

    Source: platform.claude.com/docs/en/api/messages/create.
    """
    for name in ("temperature", "top_p"):
        value = request.body.get(name)
        if value is None:
            continue
        if not is_number(value):
            return Problem(f"{name}: Input should be a valid number", name)
        if not 0 <= value <= 1:
            return Problem(f"{name}: range: 0..1", name)
    top_k = request.body.get("top_k")
    if top_k is not None and (not is_int(top_k) or top_k < 0):
        return Problem("top_k: Input should be greater than or equal to 0", "top_k")
    return None


@rule("anthropic")
def temperature_and_top_p(request: Inbound) -> Problem | None:
    """From Claude 4.5 on, `temperature` and `top_p` exclude each other.

    Source: platform.claude.com/docs/en/about-claude/models/migration-guide ("Use only temperature
    or top_p, not both"); the API says "cannot both be specified for this model".
    """
    if request.body.get("temperature") is None or request.body.get("top_p") is None:
        return None
    if version(request.model) < (4, 5):
        return None
    words = (
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
    )
    return Problem(words, "top_p")


@rule("anthropic")
def stop_sequences(request: Inbound) -> Problem | None:
    """`stop_sequences` is a list of strings, each with something else than white space in it.

    Source: platform.claude.com/docs/en/api/messages/create; "each stop sequence must contain
    non-whitespace" is the API's answer.
    """
    stops: Any = request.body.get("stop_sequences")
    if stops is None:
        return None
    if not isinstance(stops, list):
        return Problem("stop_sequences: Input should be a valid list", "stop_sequences")
    for index, stop in enumerate(cast("list[Any]", stops)):
        if not isinstance(stop, str) or not stop.strip():
            words = "stop_sequences: each stop sequence must contain non-whitespace"
            return Problem(words, f"stop_sequences[{index}]")
    return None


@rule("anthropic")
def system_prompt(request: Inbound) -> Problem | None:
    """`system` is a string or a list of text blocks, none of them empty.

    Source: platform.claude.com/docs/en/api/messages/create (system: string or array of
    TextBlockParam); "system: text content blocks must be non-empty" is the API's answer.
    """
    system: Any = request.body.get("system")
    if system is None or isinstance(system, str):
        return None
    if not isinstance(system, list):
        return Problem("system: Input should be a valid list", "system")
    for index, block in enumerate(cast("list[Any]", system)):
        where = f"system[{index}]"
        given = cast("dict[str, Any]", block) if isinstance(block, dict) else {}
        if given.get("type") != "text" or not isinstance(given.get("text"), str):
            return Problem(f"system.{index}: Input should be a valid text block", where)
        if not given["text"]:
            return Problem("system: text content blocks must be non-empty", f"{where}.text")
    return None


@rule("anthropic")
def thinking_config(request: Inbound) -> Problem | None:
    """`thinking` has a known type; `enabled` needs 1,024 ≤ `budget_tokens` < `max_tokens`.

    Source: platform.claude.com/docs/en/build-with-claude/extended-thinking ("Must be ≥1024 and less
    than `max_tokens`"). With the interleaved-thinking beta the budget may be larger.
    """
    thinking: Any = request.body.get("thinking")
    if thinking is None:
        return None
    kind = thinking_type(request)
    if kind not in _THINKING:
        tags = ", ".join(f"'{name}'" for name in _THINKING)
        words = (
            f"thinking: Input tag '{kind}' found using 'type' does not match any of the expected"
        )
        return Problem(f"{words} tags: {tags}", "thinking.type")
    if kind != "enabled":
        return None
    budget: Any = cast("dict[str, Any]", thinking).get("budget_tokens")
    where = "thinking.budget_tokens"
    if not is_int(budget) or budget < _LEAST_BUDGET:
        words = "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
        return Problem(words, where)
    interleaved = "interleaved-thinking" in request.headers.get("anthropic-beta", "")
    if budget >= request.body["max_tokens"] and not interleaved:
        return Problem("`max_tokens` must be greater than `thinking.budget_tokens`.", where)
    return None


@rule("anthropic")
def thinking_with_sampling(request: Inbound) -> Problem | None:
    """With thinking enabled, the temperature is 1 and there is no `top_k`.

    Source: platform.claude.com/docs/en/build-with-claude/extended-thinking, "Feature
    compatibility"; "`temperature` may only be set to 1 when thinking is enabled" is the API's
    answer.
    """
    if thinking_type(request) not in ("enabled", "adaptive"):
        return None
    temperature = request.body.get("temperature")
    link = "Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/"
    if temperature is not None and temperature != 1:
        words = "`temperature` may only be set to 1 when thinking is enabled."
        return Problem(f"{words} {link}extended-thinking", "temperature")
    if request.body.get("top_k") is not None:
        words = "`top_k` must be unset when thinking is enabled."
        return Problem(f"{words} {link}extended-thinking", "top_k")
    return None
