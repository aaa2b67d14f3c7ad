"""Gemini's generateContent: rules, schemas, replies, streams, errors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from http import HTTPStatus
from itertools import pairwise
from typing import Any

from agentkit_py.models.capabilities import capabilities_of

from .replies import Ids, ReplyContent, TokenCounts, interleaved, pieces
from .rules import (
    Problem,
    Request,
    is_int,
    is_name_list,
    is_number,
    items_of,
    names,
    not_known,
    numbered,
    object_of,
    repeated,
    rules_of,
    view,
)
from .types import SseEvent

_rule = rules_of("gemini")

_API = "ai.google.dev/api/generate-content"
_TYPES = "ai.google.dev/api/caching"
_PARSER = "the answer of Google's JSON parser"
_ANSWER = "the API's answer"
_CALLING = "ai.google.dev/gemini-api/docs/function-calling"
_SIGNATURES = "ai.google.dev/gemini-api/docs/thought-signatures"

# https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def error_body(status: int, message: str) -> dict[str, Any]:
    """Return the JSON of an error."""
    failed = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    name = _STATUSES.get(status, "INTERNAL" if failed else "INVALID_ARGUMENT")
    return {"error": {"code": status, "message": message, "status": name}}


def _unknown_name(name: str, where: str) -> Problem:
    """Return the answer of Google's JSON parser to a field that it does not know."""
    place = f" at '{where}'" if where else ""
    words = f'Invalid JSON payload received. Unknown name "{name}"{place}: Cannot find field.'
    return Problem(words, f"{where}.{name}" if where else name)


def _unknown_names(value: Any, known: frozenset[str], where: str) -> Iterator[Problem]:
    for name in object_of(value):
        if _camel(name) not in known:
            yield _unknown_name(name, where)


def _invalid(where: str, kind: str, *value: Any) -> Problem:
    """Return the parser's answer to a value of another type."""
    shown = "".join(f", {one!r}" for one in value)
    return Problem(f"Invalid value at '{where}' ({kind}){shown}", where)


def _refused(where: str, words: str) -> Problem:
    """Return the service's answer to a request that could be parsed."""
    return Problem(f"* GenerateContentRequest.{where}: {words}\n", where)


# ------------------------------------------------------------------------------- fields and parts

# ai.google.dev/api/generate-content, "Request body", plus google-genai 3.3 (models.py, *_to_mldev).
# Google's JSON takes the camelCase and the snake_case name of every field.
# `labels` and `modelArmorConfig` are Vertex AI's.
_FIELDS = names("""model contents tools toolConfig safetySettings systemInstruction generationConfig
    cachedContent continuationToken store serviceTier labels modelArmorConfig""")
_CONFIG_FIELDS = names("""stopSequences responseMimeType responseSchema responseJsonSchema
    responseFormat responseModalities candidateCount maxOutputTokens temperature topP topK seed
    presencePenalty frequencyPenalty responseLogprobs logprobs enableEnhancedCivicAnswers
    speechConfig thinkingConfig imageConfig mediaResolution routingConfig audioTimestamp""")
_DATA = names("""text inlineData functionCall functionResponse fileData executableCode
    codeExecutionResult toolCall toolResponse""")
_BESIDES = names("""thought thoughtSignature videoMetadata partMetadata mediaResolution
    audioTranscription mediaProcessing speechMetadata""")
_CALL_FIELDS = names("id name args partialArgs willContinue")
_RESPONSE_FIELDS = names("id name response willContinue scheduling parts")
_NO_DATA = "required oneof field 'data' must have one initialized field"
_STRUCT = "type.googleapis.com/google.protobuf.Struct"
_MAX_STOPS = 5
_SIGNATURE = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
_RANGES: dict[str, tuple[type[int] | type[float], float, float]] = {
    "temperature": (float, 0, 2),
    "topP": (float, 0, 1),
    "maxOutputTokens": (int, 1, float("inf")),
    "candidateCount": (int, 1, 8),
}

Part = tuple[str, dict[str, Any]]
Content = tuple[str, list[dict[str, Any]]]


@cache
def _camel(name: str) -> str:
    """Return the camelCase form of a field name, `function_call` being `functionCall`."""
    head, *rest = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


def _camel_keys(value: Any) -> dict[str, Any]:
    """Return an object with its own keys in camelCase; nested values are unchanged."""
    return {_camel(name): inner for name, inner in object_of(value).items()}


@view
def _body(request: Request) -> dict[str, Any]:
    """Return the request body with camelCase keys at its top level.

    A lone content, or part, is a list of one: 14 recorded exchanges with Gemini 1.5.
    """
    body = _camel_keys(request.body)
    given: Any = body.get("contents")
    if not isinstance(given, dict | list):
        return body
    contents = items_of([given] if isinstance(given, dict) else given)
    return {**body, "contents": [_with_listed_parts(content) for content in contents]}


def _with_listed_parts(content: Any) -> Any:
    given = object_of(content)
    return {**given, "parts": [given["parts"]]} if isinstance(given.get("parts"), dict) else content


@view
def _contents(request: Request) -> list[Content]:
    """Return the conversation as (role, parts), parts with camelCase keys; no role means user."""
    return [
        (content.get("role") or "user", list(map(_camel_keys, content["parts"])))
        for content in _body(request)["contents"]
    ]


def _parts(request: Request) -> Iterator[Part]:
    """Yield every part of the conversation with its pointer."""
    for index, (_, given) in enumerate(_contents(request)):
        yield from numbered(f"contents[{index}].parts", given)


@_rule(f"{_API}, request body; {_PARSER}")
def unknown_field(request: Request) -> Iterator[Problem]:
    """The body has no fields but the documented ones."""
    for name in request.body:
        if _camel(name) not in _FIELDS:
            yield not_known(f"the field {name!r} of generateContent", name)


@_rule(_ANSWER, "observed")
def empty_contents(request: Request) -> Iterator[Problem]:
    """`contents` is a list with a content or more."""
    if not items_of(_body(request).get("contents")):
        words = "* GenerateContentRequest.contents: contents is not specified\n"
        yield Problem(words, "contents")


@_rule(f"{_TYPES}#Content; github.com/gera2ld/ai.nvim/issues/13")
def content_shape(request: Request) -> Iterator[Problem]:
    """A content is `{role, parts}` with a list of objects as parts, and nothing else."""
    for where, content in numbered("contents", _body(request)["contents"]):
        if not isinstance(content, dict):
            yield _invalid(where, "Content", content)
            return
        for name in object_of(content):
            if name not in ("role", "parts"):
                yield _unknown_name(name, where)
        given = object_of(content).get("parts", [])
        if not isinstance(given, list):
            yield _invalid(f"{where}.parts", "Part", given)
        for place, part in numbered(f"{where}.parts", given):
            if not isinstance(part, dict):
                yield _invalid(place, "Part", part)


@_rule(_ANSWER, "observed")
def empty_parts(request: Request) -> Iterator[Problem]:
    """A content has a part or more."""
    for where, content in numbered("contents", _body(request)["contents"]):
        if not content.get("parts"):
            yield _refused(f"{where}.parts", "contents.parts must not be empty.")


@_rule(f"{_TYPES}#Content; github.com/langbot-app/LangBot/issues/1486")
def unknown_role(request: Request) -> Iterator[Problem]:
    """A role is user or model (function is taken for results, none for single turns)."""
    for index, (role, _) in enumerate(_contents(request)):
        if role not in ("user", "model", "function"):
            yield Problem("Please use a valid role: user, model.", f"contents[{index}].role")


@_rule(f"{_TYPES}#Part (union field data can be only one of …); {_PARSER}")
def part_fields(request: Request) -> Iterator[Problem]:
    """A part has a single data field and known others."""
    for where, part in _parts(request):
        yield from _unknown_names(part, _DATA | _BESIDES, where)
        data = [name for name in part if name in _DATA]
        if len(data) > 1:
            words = f"oneof field 'data' is already set. Cannot set '{data[1]}'"
            yield Problem(f"Invalid value at '{where}' (oneof), {words}", where)


@_rule("github.com/router-for-me/CLIProxyAPI/issues/1293", "observed")
def part_without_data(request: Request) -> Iterator[Problem]:
    """A part has a data field; a part for a video or a signature needs none.

    An empty text is data: models since 2.5 answered it. gemini-3-flash-preview took a thought with
    nothing but its signature in two recorded exchanges of 2026.
    """
    for where, part in _parts(request):
        if not part.keys() & (_DATA | {"videoMetadata", "thoughtSignature"}):
            yield _refused(f"{where}.data", _NO_DATA)


@_rule(f"{_TYPES}#FunctionCall (args: Struct) and #FunctionResponse")
def part_value(request: Request) -> Iterator[Problem]:
    """Data is of its type: text a string; calls and responses objects with a name and an object."""
    for where, part in _parts(request):
        if not isinstance(part.get("text", ""), str):
            yield _invalid(f"{where}.text", "TYPE_STRING", part["text"])
        if "functionCall" in part:
            place = f"{where}.function_call"
            yield from _call_problems(part["functionCall"], place, "FunctionCall", "args")
        elif "functionResponse" in part:
            place = f"{where}.function_response"
            yield from _call_problems(
                part["functionResponse"], place, "FunctionResponse", "response"
            )


def _call_problems(value: Any, where: str, kind: str, payload: str) -> Iterator[Problem]:
    """Yield the problems of a call or a response, whose payload may be missing.

    gemini-3.5-flash took a response without one in a recorded exchange of 2026 (a single one).
    """
    if not isinstance(value, dict):
        yield _invalid(where, kind, value)
        return
    given = object_of(value)
    is_call = kind == "FunctionCall"
    yield from _unknown_names(given, _CALL_FIELDS if is_call else _RESPONSE_FIELDS, where)
    if not isinstance(given.get("name"), str) or not given["name"]:
        yield _refused(f"{where}.name", "Name cannot be empty.")
    if not isinstance(given.get("id", ""), str):
        yield _invalid(f"{where}.id", "TYPE_STRING")
    found = given.get(payload)
    if not isinstance(found, dict) and not (found is None and (is_call or payload not in given)):
        yield _invalid(f"{where}.{payload}", _STRUCT, found)


@_rule(f"{_TYPES}#Part (thoughtSignature: a base64-encoded string); {_PARSER}")
def signature_not_base64(request: Request) -> Iterator[Problem]:
    """A thought signature is base64."""
    for where, part in _parts(request):
        value = part.get("thoughtSignature")
        if value is None:
            continue
        ok = isinstance(value, str) and _SIGNATURE.fullmatch(value) is not None
        if not ok or len(value.rstrip("=")) % 4 == 1:
            place = f"{where}.thought_signature"
            words = f"Invalid value at '{place}' (TYPE_BYTES), Base64 decoding failed for "
            yield Problem(f"{words}{value!r}", place)


@_rule(
    f"{_API} (systemInstruction: Content, currently, text only); for empty texts "
    "github.com/songquanpeng/one-api/issues/2243"
)
def system_instruction(request: Request) -> Iterator[Problem]:
    """`systemInstruction` is a content of text parts, none of them empty before Gemini 2.5.

    gemini-3.5-flash took an empty text in 13 recorded exchanges of 2026, and gemini-2.5-flash-image
    in one of October 2025.
    """
    given: Any = _body(request).get("systemInstruction")
    if given is None:
        return
    where = "system_instruction"
    found: Any = object_of(given).get("parts")
    if isinstance(found, dict):
        found = [found]  # Google's JSON reads a lone object as a list
    if not isinstance(found, list):
        yield _invalid(where, "Content", given)
    elif not found:
        yield _refused(f"{where}.parts", "contents.parts must not be empty.")
    for place, part in numbered(f"{where}.parts", found):
        text = object_of(part).get("text")
        if not isinstance(text, str) or not (text or _version(request.model) >= (2, 5)):
            yield _refused(f"{place}.data", _NO_DATA)


@_rule(f"{_API}#generationconfig (temperature [0.0, 2.0], stopSequences up to 5)")
def generation_config(request: Request) -> Iterator[Problem]:
    """`generationConfig` has known fields, with numbers in their range and at most five stops."""
    given: Any = _body(request).get("generationConfig")
    where = "generation_config"
    if not isinstance(given, dict | None):
        yield _invalid(where, "GenerationConfig", given)
    yield from _unknown_names(given, _CONFIG_FIELDS, where)
    config = _camel_keys(given)
    for name, (kind, low, high) in _RANGES.items():
        value = config.get(name)
        fits = is_int(value) if kind is int else is_number(value)
        if value is not None and (not fits or not low <= value <= high):
            words = f"{name} must be in the range [{low}, {high}]."
            yield _refused(f"{where}.{name}", words)
    stops: Any = config.get("stopSequences") or []
    if not is_name_list(stops) or len(stops) > _MAX_STOPS:
        yield _refused(f"{where}.stop_sequences", "at most 5 stop sequences, all strings.")


_VERSION = re.compile(r"gemini-(\d+)(?:\.(\d+))?")


def _version(model: str) -> tuple[int, int]:
    found = _VERSION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


@_rule("ai.google.dev/gemini-api/docs/thinking (November 2026)")
def thinking_of_model(request: Request) -> Iterator[Problem]:
    """Gemini 3 takes a level or a budget, 3.5 on no budget, and 3.8 on no minimal level.

    gemini-3.5-flash took a budget in a recorded exchange of 2026, so the Flash models may.
    """
    given = _camel_keys(object_of(_body(request).get("generationConfig")))
    config = _camel_keys(object_of(given.get("thinkingConfig")))
    version, where = _version(request.model), "generation_config.thinking_config"
    level, budget = config.get("thinkingLevel"), config.get("thinkingBudget")
    if version >= (3, 0) and level is not None and budget is not None:
        yield _refused(where, "thinking_level and thinking_budget are not supported together.")
    if version >= (3, 5) and budget is not None and "flash" not in request.model:
        yield _refused(where, "thinking_budget is not supported by this model.")
    if version >= (3, 8) and str(level).lower() == "minimal":
        yield _refused(where, "thinking_level minimal is not supported by this model.")


# ---------------------------------------------------------------------- turns, calls and responses

_CALL_TURN = (
    "Please ensure that function call turn comes immediately after a user turn or after a function "
    "response turn."
)
_RESPONSE_TURN = (
    "Please ensure that function response turn comes immediately after a function call turn."
)
_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function "
    "call parts of the function call turn."
)


def _of(given: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [part[name] for part in given if name in part]


@view
def _turns(request: Request) -> list[tuple[int, Content]]:
    """Return the turns, consecutive contents of the model merged, with the number of the last."""
    found: list[tuple[int, Content]] = []
    for index, (role, given) in enumerate(_contents(request)):
        goes_on = role == "model" and found and found[-1][1][0] == role
        before = found.pop()[1][1] if goes_on else []
        found.append((index, (role, [*before, *given])))
    return found


def _with_responses_joined(turns: list[tuple[int, Content]]) -> list[tuple[int, Content]]:
    """Return the turns, consecutive contents of responses merged.

    gemini-2.5-flash took parallel responses so in two recorded exchanges of 2026.
    """
    joined: list[tuple[int, Content]] = []
    for index, (role, parts) in turns:
        last: Content = joined[-1][1] if joined else ("", [])
        both = [*last[1], *parts]
        if last[0] == role and last[1] and all("functionResponse" in part for part in both):
            joined[-1] = (joined[-1][0], (role, both))
        else:
            joined.append((index, (role, parts)))
    return joined


@view
def _rounds(request: Request) -> list[tuple[int, list[dict[str, Any]], list[dict[str, Any]]]]:
    """Return for each turn its number, its calls, and the responses in the next turn."""
    turns = _turns(request)
    if _version(request.model)[0] == 2:  # noqa: PLR2004 - Gemini 2
        turns = _with_responses_joined(turns)
    given = [*turns, (0, ("user", list[dict[str, Any]]()))]
    return [
        (index, _of(before[1], "functionCall"), _of(after[1], "functionResponse"))
        for (index, before), (_, after) in pairwise(given)
    ]


@_rule(
    "ai.google.dev/gemini-api/docs/text-generation, multi-turn conversations; "
    "github.com/strands-agents/sdk-python/issues/1749"
)
def first_role(request: Request) -> Iterator[Problem]:
    """The first content is the user's."""
    role, given = _contents(request)[0]
    if role == "model" and _of(given, "functionCall"):
        yield Problem(_CALL_TURN, "contents[0]")
    elif role == "model":
        words = "Please ensure that multiturn requests start with a user role."
        yield Problem(words, "contents[0].role")


@_rule(
    "github.com/songquanpeng/one-api/issues/836, github.com/crewAIInc/crewAI/pull/6973", "observed"
)
def last_role(request: Request) -> Iterator[Problem]:
    """The last content is the user's, or a function response.

    gemini-2.5-flash took a text of the model's in a recorded exchange of 2026.
    """
    given = _contents(request)
    may_end = _version(request.model)[0] == 2 and not _of(given[-1][1], "functionCall")  # noqa: PLR2004 - Gemini 2
    if given[-1][0] == "model" and not may_end:
        words = (
            "Please ensure that multiturn requests ends with a user role or a function response."
        )
        yield Problem(words, f"contents[{len(given) - 1}].role")


@_rule(f"{_CALLING} (the response is sent as role user)")
def misplaced_function_part(request: Request) -> Iterator[Problem]:
    """The model calls, the user (or function) responds; a content does not do both."""
    for index, (role, given) in enumerate(_contents(request)):
        if role != "model" and _of(given, "functionCall"):
            yield Problem(_CALL_TURN, f"contents[{index}]")
        if role == "model" and _of(given, "functionResponse"):
            yield Problem(_RESPONSE_TURN, f"contents[{index}]")


def _signs_calls(model: str) -> bool:
    return capabilities_of(model).signed_calls


def _since_3_5(model: str) -> bool:
    return _version(model) >= (3, 5)


def _checks_turns(model: str) -> bool:
    return not _signs_calls(model)


@_rule(
    "github.com/google-gemini/gemini-cli/issues/11814; Gemini 3 takes it",
    "observed",
    models=_checks_turns,
)
def function_call_turn(request: Request) -> Iterator[Problem]:
    """A function call turn follows a user turn or a function response turn."""
    for index, ((before, _), (role, given)) in enumerate(pairwise(_contents(request)), start=1):
        if role == before == "model" and _of(given, "functionCall"):
            yield Problem(_CALL_TURN, f"contents[{index}]")


@_rule("github.com/langchain-ai/langchain/issues/27799", "observed")
def function_response_turn(request: Request) -> Iterator[Problem]:
    """A function response turn comes right after a function call turn."""
    if _of(_contents(request)[0][1], "functionResponse"):
        yield Problem(_RESPONSE_TURN, "contents[0]")
    for index, calls, responses in _rounds(request):
        if responses and not calls:
            yield Problem(_RESPONSE_TURN, f"contents[{index + 1}]")


@_rule("github.com/google-gemini/gemini-cli/issues/3124", "observed")
def function_response_count(request: Request) -> Iterator[Problem]:
    """The content after a call turn has a response for each call.

    Gemini 2 takes a text of the user's instead of all responses: six recorded exchanges of October
    2025, all of one project, with 2.0 and 2.5.
    """
    last = len(_contents(request)) - 1
    may_go_on = _version(request.model)[0] in (0, 2)  # a name without a number was Gemini 2's
    for index, calls, responses in _rounds(request):
        if may_go_on and not responses and index < last:
            continue
        if calls and len(calls) != len(responses):
            yield Problem(_COUNT, f"contents[{min(index + 1, last)}]")


@_rule(f"{_CALLING} (the name and id must match those of the function call)")
def function_response_name(request: Request) -> Iterator[Problem]:
    """Responses name the functions that were called, and their ids where the calls had ids.

    The order may differ: parallel results are matched by name and id.
    """
    for index, calls, responses in _rounds(request):
        where = f"contents[{index + 1}]"
        if not responses:
            continue  # see `function_response_count`
        if Counter(one["name"] for one in calls) != Counter(one["name"] for one in responses):
            words = "Please ensure that the function response names match the function call names"
            yield Problem(f"{words} of the function call turn.", where)
        ids, known = _ids(responses), _ids(calls)
        if ids and known and Counter(ids) != Counter(known):
            words = "Please ensure that the function response ids match the function call ids."
            yield Problem(words, where)


def _ids(given: list[dict[str, Any]]) -> list[Any]:
    return [one["id"] for one in given if one.get("id")]


@_rule(f"{_CALLING}; docs.litellm.ai, Gemini 3.5 (strict since then)", models=_since_3_5)
def function_response_id(request: Request) -> Iterator[Problem]:
    """A response has the id of its call, where the call has an id."""
    for index, calls, responses in _rounds(request):
        if Counter(_ids(calls)) != Counter(_ids(responses)):
            words = "functionResponse.id does not match functionCall.id"
            yield Problem(words, f"contents[{index + 1}]")


@_rule(f"{_SIGNATURES} (Gemini 3: strict validation, 400)", models=_signs_calls)
def missing_thought_signature(request: Request) -> Iterator[Problem]:
    """Gemini 3 wants a thought signature on the first call of each step of the current turn.

    The current turn begins at the last user content that is more than function responses; of
    parallel calls only the first is signed.
    """
    given = _contents(request)
    start = 0
    for index, (role, content) in enumerate(given):
        if role == "user" and not _of(content, "functionResponse"):
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
            yield Problem(words, f"contents[{index}]")


# ------------------------------------------------------------------------------------------ tools

# google-genai 3.3 gives 128 characters; ai.google.dev/api/caching#FunctionDeclaration still says
# 64.
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")
_TOOL_FIELDS = names("""functionDeclarations googleSearch googleSearchRetrieval codeExecution
    urlContext computerUse fileSearch googleMaps mcpServers retrieval""")
_DECLARATION_FIELDS = names("""name description parameters parametersJsonSchema response
    responseJsonSchema behavior""")
_MODES = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")
_CONFIG = "tool_config.function_calling_config"


def _listed(value: Any) -> list[Any]:
    """Return a list; Google's JSON reads a lone object as a list."""
    return items_of(value) if isinstance(value, list) else [value] if value else []


@view
def _declarations(request: Request) -> list[Part]:
    """Return every function declaration with its pointer, keys in camelCase."""
    return [
        (place, _camel_keys(one))
        for where, tool in numbered("tools", _listed(_body(request).get("tools")))
        for place, one in numbered(
            f"{where}.function_declarations",
            _listed(_camel_keys(tool).get("functionDeclarations")),
        )
    ]


@_rule(f"{_TYPES}#Tool; {_PARSER}")
def tool_shape(request: Request) -> Iterator[Problem]:
    """`tools` is a list of objects with known fields, function declarations being objects too."""
    given: Any = _body(request).get("tools")
    if not isinstance(given, list | dict | None):
        yield _invalid("tools", "Tool", given)
    for where, tool in numbered("tools", _listed(given)):
        if not isinstance(tool, dict):
            yield _invalid(where, "Tool", tool)
        yield from _unknown_names(tool, _TOOL_FIELDS, where)
        listed = _listed(_camel_keys(tool).get("functionDeclarations"))
        if not all(isinstance(one, dict) for one in listed):
            yield _invalid(f"{where}.function_declarations", "FunctionDeclaration")


@_rule(f"{_TYPES}#FunctionDeclaration; {_PARSER}")
def declaration_fields(request: Request) -> Iterator[Problem]:
    """A function declaration is an object with known fields."""
    for where, one in _declarations(request):
        yield from _unknown_names(one, _DECLARATION_FIELDS, where)


@_rule("google-genai 3.3, types.FunctionDeclaration.name", "sdk")
def function_name(request: Request) -> Iterator[Problem]:
    """A function's name starts with a letter or `_`, then letters, digits, `_.:-`, at most 128."""
    for where, one in _declarations(request):
        name = one.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            words = (
                "Invalid function name. Must start with a letter or an underscore. Must be "
                "alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), "
                "with a maximum length of 128."
            )
            yield _refused(f"{where}.name", words)


@_rule(_ANSWER, "observed")
def duplicate_function_name(request: Request) -> Iterator[Problem]:
    """No two functions have the same name."""
    for where, name in repeated((f"{w}.name", one["name"]) for w, one in _declarations(request)):
        yield Problem(f"Duplicate function declaration found: {name}", where)


@_rule(
    f"{_TYPES}#Schema; github.com/BerriAI/litellm/issues/14330, "
    "github.com/zed-industries/zed/issues/44875 and 53919 (no list of types)"
)
def unknown_schema_field(request: Request) -> Iterator[Problem]:
    """A schema has only the fields of Gemini's OpenAPI subset, each with a single type.

    So no `$schema`, `additionalProperties`, `$ref`, `$defs`, `const`, `exclusiveMinimum`, ….
    """
    for where, one in _declarations(request):
        for name in ("parameters", "response"):
            if one.get(name) is not None:
                yield from _parser_problems(one[name], f"{where}.{name}")
    config = _camel_keys(_body(request).get("generationConfig"))
    if config.get("responseSchema") is not None:
        yield from _parser_problems(config["responseSchema"], "generation_config.response_schema")


@_rule(f"{_ANSWER}; github.com/agno-agi/agno/issues/2112", "observed")
def invalid_schema(request: Request) -> Iterator[Problem]:
    """A schema makes sense: objects with properties, arrays with items, known required names.

    A function without parameters leaves `parameters` out.
    """
    for where, one in _declarations(request):
        if one.get("parameters") is not None:
            yield from _service_problems(one["parameters"], f"{where}.parameters", top=True)


@_rule("ai.google.dev/api/generate-content#generationconfig (responseSchema, responseJsonSchema)")
def response_schema(request: Request) -> Iterator[Problem]:
    """There is at most 1 schema of the answer; it is valid and comes with a JSON media type."""
    config = _camel_keys(_body(request).get("generationConfig"))
    names = [name for name in ("responseSchema", "responseJsonSchema") if config.get(name)]
    where = "generation_config.response_schema"
    if len(names) > 1:
        yield _refused(where, "response_schema and response_json_schema cannot both be set.")
    kind = config.get("responseMimeType")
    if names and kind not in ("application/json", "text/x.enum"):
        words = "a schema needs response_mime_type application/json or text/x.enum."
        yield _refused("generation_config.response_mime_type", words)
    if config.get("responseSchema") is not None:
        yield from _service_problems(config["responseSchema"], where)


def _speaks(model: str) -> bool:
    return model.endswith("-tts")


@_rule("the API's answer in twelve recorded exchanges of 2025", "observed", models=_speaks)
def speech_alone(request: Request) -> Iterator[Problem]:
    """A model that speaks is asked for audio."""
    config = _camel_keys(_body(request).get("generationConfig"))
    wanted = [str(one).upper() for one in items_of(config.get("responseModalities"))] or ["TEXT"]
    if wanted != ["AUDIO"]:
        words = (
            f"The requested combination of response modalities ({', '.join(wanted)}) is not "
            f"supported by the model. models/{request.model} accepts the following combination of "
            "response modalities:\n* AUDIO\n"
        )
        yield Problem(words, "generation_config.response_modalities")


def _draws_alone(model: str) -> bool:
    return "2.5-flash-image" in model


@_rule("the API's answer in two recorded exchanges of 2025", "observed", models=_draws_alone)
def no_json_of_images(request: Request) -> Iterator[Problem]:
    """gemini-2.5-flash-image writes no JSON."""
    config = _camel_keys(_body(request).get("generationConfig"))
    if config.get("responseMimeType") == "application/json":
        words = f"JSON mode is not enabled for models/{request.model}"
        yield Problem(words, "generation_config.response_mime_type")


@_rule("google-genai 3.3, types.FunctionDeclaration.parameters_json_schema", "sdk")
def two_parameter_schemas(request: Request) -> Iterator[Problem]:
    """`parameters` and `parametersJsonSchema` exclude each other."""
    for where, one in _declarations(request):
        if one.get("parameters") is not None and one.get("parametersJsonSchema") is not None:
            yield _refused(where, "parameters and parameters_json_schema cannot both be set.")


def _calling_config(request: Request) -> dict[str, Any]:
    config = _camel_keys(_body(request).get("toolConfig"))
    found = _camel_keys(config.get("functionCallingConfig"))
    mode = found.get("mode")
    # Google reads the names of modes in any case: three recorded exchanges with gemini-2.5-flash.
    return found | {"mode": mode.upper()} if isinstance(mode, str) else found


@_rule(f"{_TYPES}#FunctionCallingConfig (enum Mode)")
def calling_mode(request: Request) -> Iterator[Problem]:
    """The function calling mode is AUTO, ANY, NONE or VALIDATED."""
    mode = _calling_config(request).get("mode")
    if mode is not None and mode not in _MODES:
        words = f"Invalid value at '{_CONFIG}.mode' (Mode), \"{mode}\""
        yield Problem(words, f"{_CONFIG}.mode")


@_rule("github.com/AstrBotDevs/AstrBot/pull/7407", "observed")
def calling_config_without_functions(request: Request) -> Iterator[Problem]:
    """A function calling config (but for mode NONE) needs functions; Gemini 3 takes any tool."""
    mode = _calling_config(request).get("mode")
    any_tool = _signs_calls(request.model) and _body(request).get("tools")
    if mode not in (None, "NONE", "MODE_UNSPECIFIED") and not (any_tool or _declarations(request)):
        words = "Function calling config is set without function_declarations."
        yield Problem(words, _CONFIG)


@_rule(f"{_TYPES}#FunctionCallingConfig (only when the mode is ANY or VALIDATED)")
def allowed_function_names(request: Request) -> Iterator[Problem]:
    """`allowedFunctionNames` goes with mode ANY or VALIDATED and names declared functions."""
    config = _calling_config(request)
    listed: Any = config.get("allowedFunctionNames")
    where = f"{_CONFIG}.allowed_function_names"
    if not listed:
        return
    if config.get("mode") not in ("ANY", "VALIDATED"):
        words = "allowed_function_names should be set only when function calling mode is ANY."
        yield Problem(words, where)
    if not is_name_list(listed):
        yield _invalid(where, "TYPE_STRING", listed)
    declared = {one["name"] for _, one in _declarations(request)}
    for name in listed:
        if name not in declared:
            words = f"allowed_function_names: {name} is not among the function_declarations."
            yield Problem(words, where)


# ---------------------------------------------------------------------------------------- schemas

# A subset of OpenAPI 3.0, checked by a parser and then by the service: ai.google.dev/api/
# caching#Schema.
_SCHEMA_FIELDS = names("""type format title description nullable enum maxItems minItems properties
    required minProperties maxProperties minLength maxLength pattern example anyOf propertyOrdering
    default items minimum maximum""")
_NUMBERED_TYPES = [
    "TYPE_UNSPECIFIED",
    "STRING",
    "NUMBER",
    "INTEGER",
    "BOOLEAN",
    "ARRAY",
    "OBJECT",
    "NULL",
]
"""The types by their numbers."""

_SCHEMA_TYPES = frozenset(_NUMBERED_TYPES)
_FIELD_TYPES = {"properties": dict, "required": list, "enum": list, "anyOf": list}
_STRING_FORMATS = ("enum", "date-time")
_MAX_DEPTH = 32


def _children(schema: dict[str, Any], where: str, *, by_name: bool) -> Iterator[tuple[str, Any]]:
    """Yield a schema's direct subschemas; the parser and the service name them differently."""
    for number, (name, inner) in enumerate(object_of(schema.get("properties")).items()):
        yield f"{where}.properties" + (f"[{name}]" if by_name else f"[{number}].value"), inner
    if schema.get("items") is not None:
        yield f"{where}.items", schema["items"]
    yield from numbered(f"{where}.any_of", schema.get("anyOf"))


def _parser_problems(schema: Any, where: str, depth: int = 0) -> Iterator[Problem]:
    """Yield the objections of Google's JSON parser: unknown fields, wrong kinds of values."""
    if not isinstance(schema, dict):
        yield _invalid(where, "Schema", schema)
        return
    yield from _unknown_names(schema, _SCHEMA_FIELDS, where)
    clean = _camel_keys(schema)
    yield from _value_problems(clean, where)
    if depth >= _MAX_DEPTH:
        yield Problem(f"'{where}': message nested too deeply.", where)
        return
    for place, inner in _children(clean, where, by_name=False):
        yield from _parser_problems(inner, place, depth + 1)


def _type_name(kind: Any) -> str:
    """Return a type's name; Google's own clients send its number (8 recorded exchanges)."""
    if type(kind) is int and 0 <= kind < len(_NUMBERED_TYPES):
        return _NUMBERED_TYPES[kind]
    return str(kind or "").upper()


def _value_problems(clean: dict[str, Any], where: str) -> Iterator[Problem]:
    kind = clean.get("type")
    if isinstance(kind, list):
        words = 'Invalid JSON payload received. Unknown name "type" at'
        tail = "Proto field is not repeating, cannot start list."
        yield Problem(f"{words} '{where}': {tail}", f"{where}.type")
    elif kind is not None and _type_name(kind) not in _SCHEMA_TYPES:
        yield Problem(f"Invalid value at '{where}.type' (Type), \"{kind}\"", f"{where}.type")
    for name, expected in _FIELD_TYPES.items():
        if not isinstance(clean.get(name), expected | None):
            words = f"Invalid value at '{where}.{name}', {clean[name]!r}"
            yield Problem(words, f"{where}.{name}")
    if not is_name_list(clean.get("required") or []):
        yield _invalid(f"{where}.required", "TYPE_STRING", clean["required"])
    for place, value in numbered(f"{where}.enum", clean.get("enum")):
        if not isinstance(value, str):
            yield _invalid(place, "TYPE_STRING", value)


def _service_problems(schema: Any, where: str, *, top: bool = False) -> Iterator[Problem]:
    """Yield the service's objections to a schema that could be parsed."""
    clean = _camel_keys(schema)
    for place, words in _senseless(clean, top=top):
        yield _refused(f"{where}{place}", words)
    for place, inner in _children(clean, where, by_name=True):
        yield from _service_problems(inner, place)


def _senseless(schema: dict[str, Any], *, top: bool) -> Iterator[tuple[str, str]]:
    kind = _type_name(schema.get("type"))
    if top and kind != "OBJECT":
        yield "", "functionDeclaration parameters schema should be of type OBJECT."
    properties = object_of(schema.get("properties"))
    if kind == "OBJECT" and not properties and not top:
        yield ".properties", "should be non-empty for OBJECT type"
    if properties and kind != "OBJECT":
        yield ".properties", "only allowed for OBJECT type"
    for place, name in numbered(".required", schema.get("required")):
        if name not in properties:
            yield place, "property is not defined"
    if (kind == "ARRAY") != (schema.get("items") is not None):
        yield ".items", "missing field." if kind == "ARRAY" else "only allowed for ARRAY type"
    yield from _senseless_string(schema, is_string=kind == "STRING")


def _senseless_string(schema: dict[str, Any], *, is_string: bool) -> Iterator[tuple[str, str]]:
    enum = items_of(schema.get("enum"))
    if enum and not is_string:
        yield ".enum", "only allowed for STRING type"
    if "" in enum:
        yield f".enum[{enum.index('')}]", "cannot be empty"
    format_ = schema.get("format")
    if is_string and format_ and format_ not in _STRING_FORMATS:
        yield ".format", "only 'enum' and 'date-time' are supported for STRING type"


# ------------------------------------------------------------------------------------------ media

_REFUSED_IMAGES = ("image/svg+xml", "image/svg", "image/xml", "image/jpg")
_DOCUMENTS = ("application/pdf", "application/json")


@_rule(
    "ai.google.dev/api/caching (Blob: mimeType, data; FileData: mimeType, fileUri required);"
    " github.com/google-gemini/gemini-cli/issues/3054, github.com/google/adk-python/pull/5694",
)
def media_part(request: Request) -> Iterator[Problem]:
    """Bytes have a known media type and base64 data, files a URI.

    SVG, archives and office documents are refused.
    """
    for where, part in _parts(request):
        if "inlineData" in part:
            kind = _text_in(part["inlineData"], "mimeType", "mime_type")
            if not kind or not _SIGNATURE.fullmatch(_text_in(part["inlineData"], "data")):
                words = f"Invalid value at '{where}.inline_data' (TYPE_BYTES), Base64 decoding"
                yield Problem(f"{words} failed", where)
            if not _takes_media(kind):
                yield Problem(f"Unsupported MIME type: {kind}", where)
        if "fileData" in part and not _text_in(part["fileData"], "fileUri", "file_uri"):
            yield Problem(f"{where}.file_data.file_uri: required field is missing", where)


def _takes_media(kind: str) -> bool:
    if kind.startswith("image/"):
        return kind not in _REFUSED_IMAGES
    return kind.startswith(("audio/", "video/", "text/")) or kind in _DOCUMENTS


def _text_in(value: Any, *names: str) -> str:
    """Return a field's text, under any of its names; empty if it is missing."""
    fields = object_of(value)
    found = next((fields[name] for name in names if name in fields), "")
    return found if isinstance(found, str) else ""


# ---------------------------------------------------------------------------------------- replies

_FINISH = {
    "stop": "STOP",
    "tool": "STOP",
    "length": "MAX_TOKENS",
    "filter": "SAFETY",
    "refusal": "PROHIBITED_CONTENT",
}


def rendered(reply: ReplyContent, usage: TokenCounts, model: str, ids: Ids) -> dict[str, Any]:
    """Return the JSON with which Gemini would give that reply."""
    candidate: dict[str, Any] = {"index": 0}
    if any(call.parsed is None for call in reply.calls):
        candidate["finishReason"] = "MALFORMED_FUNCTION_CALL"  # without content, as the real API
    else:
        candidate["content"] = {"role": "model", "parts": _reply_parts(reply, model, ids)}
        candidate["finishReason"] = _FINISH[reply.finish]
    return {
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": usage.prompt,
            "candidatesTokenCount": usage.completion - min(usage.reasoning, usage.completion),
            "thoughtsTokenCount": usage.reasoning,
            "cachedContentTokenCount": usage.cached,
            "totalTokenCount": usage.prompt + usage.completion,
        },
        "modelVersion": model,
        "responseId": ids.next("resp_"),
    }


def _reply_parts(reply: ReplyContent, model: str, ids: Ids) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if reply.text:
        found.append({"text": reply.text})
    for position, call in enumerate(reply.calls):
        made: dict[str, Any] = {"name": call.name, "args": call.parsed}
        if call.id is not None or _since_3_5(model):
            made["id"] = call.id or ids.next("fc")
        part: dict[str, Any] = {"functionCall": made}
        if position == 0 and _signs_calls(model):
            part["thoughtSignature"] = f"c2ln{ids.next('').zfill(4)}"
        found.append(part)
    return interleaved([{"text": text, "thought": True} for text in reply.thoughts], found)


def streamed(plain: Mapping[str, Any]) -> Iterator[SseEvent]:
    """Yield the chunks of a response; each has the shape of a response."""
    candidate = plain["candidates"][0]
    rest = {name: value for name, value in candidate.items() if name != "content"}
    head = {name: value for name, value in plain.items() if name != "candidates"}
    content = candidate.get("content")
    cut = [] if content is None else list(_cut_parts(content["parts"]))
    for part in cut[:-1]:
        begun = {"content": {"role": "model", "parts": [part]}, "index": rest["index"]}
        yield {"candidates": [begun], **head}
    last = {} if content is None else {"content": {**content, "parts": cut[-1:]}}
    yield {"candidates": [{**last, **rest}], **head}


def _cut_parts(given: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for part in given:
        for piece in pieces(part.get("text", "")):
            yield {**part, "text": piece}
        if not part.get("text"):
            yield part
