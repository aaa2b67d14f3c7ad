"""Rules for the order of a Gemini conversation: turns, calls, responses, thought signatures."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .gemini_body import contents
from .rules import Inbound, Problem, rule

_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function "
    "call parts of the function call turn."
)


def _of(parts: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [part[name] for part in parts if name in part]


@rule("gemini")
def first_role(request: Inbound) -> Problem | None:
    """The first content is the user's.

    Source: ai.google.dev/gemini-api/docs/text-generation, "Multi-turn conversations"; seen in
    github.com/strands-agents/sdk-python/issues/1749 (a conversation that starts with the model gets
    a 400).
    """
    role, parts = contents(request)[0]
    if role != "model":
        return None
    if _of(parts, "functionCall"):
        return Problem(_CALL_TURN, "contents[0]")
    words = "Please ensure that multiturn requests start with a user role."
    return Problem(words, "contents[0].role")


_CALL_TURN = (
    "Please ensure that function call turn comes immediately after a user turn or after a function "
    "response turn."
)


@rule("gemini")
def last_role(request: Inbound) -> Problem | None:
    """The last content is the user's, or a function response.

    Source: the API's answer "Please ensure that multiturn requests ends with a user role or a
    function response", e.g. github.com/songquanpeng/one-api/issues/836; still refused in 2026:
    github.com/crewAIInc/crewAI/pull/6973.
    """
    given = contents(request)
    if given[-1][0] != "model":
        return None
    words = "Please ensure that multiturn requests ends with a user role or a function response."
    return Problem(words, f"contents[{len(given) - 1}].role")


@rule("gemini")
def misplaced_function_part(request: Inbound) -> Problem | None:
    """The model calls, the user (or function) responds; one content does not do both.

    Source: ai.google.dev/gemini-api/docs/function-calling: calls are in the model's content, and
    the response is sent "as role user". Google words it as the turn's place.
    """
    for index, (role, parts) in enumerate(contents(request)):
        if role != "model" and _of(parts, "functionCall"):
            return Problem(_CALL_TURN, f"contents[{index}]")
        if role == "model" and _of(parts, "functionResponse"):
            return Problem(_RESPONSE_TURN, f"contents[{index}]")
    return None


_RESPONSE_TURN = (
    "Please ensure that function response turn comes immediately after a function call turn."
)


@rule("gemini")
def function_call_turn(request: Inbound) -> Problem | None:
    """A function call turn follows a user turn or a function response turn.

    Source: the API's answer, word for word, e.g. github.com/google-gemini/gemini-cli/issues/11814.
    """
    given = contents(request)
    for index, (role, parts) in enumerate(given):
        if role == "model" and _of(parts, "functionCall") and given[index - 1][0] == "model":
            return Problem(_CALL_TURN, f"contents[{index}]")
    return None


@rule("gemini")
def function_response_turn(request: Inbound) -> Problem | None:
    """A function response turn comes right after a function call turn.

    Source: the API's answer, word for word, e.g. github.com/langchain-ai/langchain/issues/27799.
    """
    given = contents(request)
    for index, (_, parts) in enumerate(given):
        if not _of(parts, "functionResponse"):
            continue
        if index == 0 or not _of(given[index - 1][1], "functionCall"):
            return Problem(_RESPONSE_TURN, f"contents[{index}]")
    return None


@rule("gemini")
def function_response_count(request: Inbound) -> Problem | None:
    """The content after a call turn has one response for each call.

    Source: the API's answer, word for word, e.g. github.com/google-gemini/gemini-cli/issues/3124.
    """
    given = contents(request)
    for index, (_, parts) in enumerate(given):
        calls = len(_of(parts, "functionCall"))
        if not calls:
            continue
        after = given[index + 1][1] if index + 1 < len(given) else []
        if len(_of(after, "functionResponse")) != calls:
            return Problem(_COUNT, f"contents[{min(index + 1, len(given) - 1)}]")
    return None


@rule("gemini")
def function_response_name(request: Inbound) -> Problem | None:
    """Responses name the functions that were called, and their ids where the calls had ids.

    Source: ai.google.dev/gemini-api/docs/function-calling ("the name … and id … must match those of
    the function call"). The order may differ: parallel results are matched by name and id.
    """
    given = contents(request)
    for index, (_, parts) in enumerate(given):
        responses = _of(parts, "functionResponse")
        if not responses:
            continue
        calls = _of(given[index - 1][1], "functionCall")
        where = f"contents[{index}]"
        if Counter(one["name"] for one in calls) != Counter(one["name"] for one in responses):
            words = (
                "Please ensure that the function response names match the function call names of "
                "the function call turn."
            )
            return Problem(words, where)
        ids = [one["id"] for one in responses if one.get("id")]
        known = [one["id"] for one in calls if one.get("id")]
        if ids and known and Counter(ids) != Counter(known):
            words = "Please ensure that the function response ids match the function call ids."
            return Problem(words, where)
    return None


@rule("gemini")
def missing_thought_signature(request: Inbound) -> Problem | None:
    """Gemini 3 wants a thought signature on the first call of each step of the current turn.

    Source: ai.google.dev/gemini-api/docs/thought-signatures ("Gemini 3 … strict validation … 400";
    the current turn begins at the last user content that is more than function responses; of
    parallel calls only the first is signed).
    """
    if not request.model.startswith("gemini-3"):
        return None
    given = contents(request)
    start = 0
    for index, (role, parts) in enumerate(given):
        if role == "user" and not _of(parts, "functionResponse"):
            start = index
    for index in range(start, len(given)):
        first = next((part for part in given[index][1] if "functionCall" in part), None)
        if first is not None and not first.get("thoughtSignature"):
            words = (
                "Function call is missing a thought_signature in functionCall parts. This is "
                "required for tools to work correctly, and missing thought_signature may lead to "
                "degraded model performance. Additional data, function call "
                f"`default_api:{first['functionCall']['name']}` , position {index + 1}. "
                "Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more "
                "details."
            )
            return Problem(words, f"contents[{index}]")
    return None
