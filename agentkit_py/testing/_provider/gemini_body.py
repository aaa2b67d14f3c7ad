"""Rules for the shape of a Gemini request: fields, contents, parts."""

from __future__ import annotations

import re
from typing import Any, cast

from .rules import Inbound, Problem, is_int, is_name_list, is_number, names, rule

# ai.google.dev/api/generate-content, "Request body", plus google-genai 3.3 (models.py, *_to_mldev).
# Google's JSON takes the camelCase and the snake_case name of every field.
_FIELDS = names("""model contents tools toolConfig safetySettings systemInstruction generationConfig
    cachedContent store serviceTier""")
_CONFIG_FIELDS = names("""stopSequences responseMimeType responseSchema responseJsonSchema
responseFormat
    responseModalities candidateCount maxOutputTokens temperature topP topK seed presencePenalty
    frequencyPenalty responseLogprobs logprobs enableEnhancedCivicAnswers speechConfig
    thinkingConfig imageConfig mediaResolution routingConfig audioTimestamp""")
_DATA = names("""text inlineData functionCall functionResponse fileData executableCode
codeExecutionResult
    toolCall toolResponse""")
_BESIDES = names("""thought thoughtSignature videoMetadata partMetadata mediaResolution
audioTranscription
    mediaProcessing speechMetadata""")
_CALL_FIELDS = frozenset({"id", "name", "args", "partialArgs", "willContinue"})
_RESPONSE_FIELDS = frozenset({"id", "name", "response", "willContinue", "scheduling", "parts"})
_MAX_STOPS = 5
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
_CAMEL: dict[str, str] = {}


def camel(name: str) -> str:
    """Return the camelCase form of a field name, `function_call` being `functionCall`."""
    found = _CAMEL.get(name)
    if found is None:
        head, *rest = name.split("_")
        found = _CAMEL[name] = head + "".join(word[:1].upper() + word[1:] for word in rest)
    return found


def camel_keys(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object with its own keys in camelCase; what is inside stays as it is."""
    return {camel(name): inner for name, inner in value.items()}


def body(request: Inbound) -> dict[str, Any]:
    """Return the request body with camelCase keys at its top level."""
    found: dict[str, Any] | None = request.memo.get("gemini_body")
    if found is None:
        found = request.memo["gemini_body"] = camel_keys(request.body)
    return found


def contents(request: Inbound) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the conversation as (role, parts), parts with camelCase keys; no role means user."""
    found: list[tuple[str, list[dict[str, Any]]]] | None = request.memo.get("gemini_contents")
    if found is None:
        given = cast("list[dict[str, Any]]", body(request)["contents"])
        found = [
            (content.get("role") or "user", [camel_keys(part) for part in content["parts"]])
            for content in given
        ]
        request.memo["gemini_contents"] = found
    return found


def unknown_name(name: str, where: str) -> Problem:
    """Return the answer of Google's JSON parser to a field that it does not know."""
    place = f" at '{where}'" if where else ""
    words = f'Invalid JSON payload received. Unknown name "{name}"{place}: Cannot find field.'
    return Problem(words, f"{where}.{name}" if where else name)


@rule("gemini")
def unknown_field(request: Inbound) -> Problem | None:
    """The body has no fields but the documented ones.

    Source: ai.google.dev/api/generate-content, "Request body"; "Unknown name … Cannot find field"
    is the answer of Google's JSON parser.
    """
    for name in request.body:
        if camel(name) not in _FIELDS:
            return unknown_name(name, "")
    return None


@rule("gemini")
def empty_contents(request: Inbound) -> Problem | None:
    """`contents` is a list with at least one content.

    Source: the API's answer "* GenerateContentRequest.contents: contents is not specified".
    """
    given: Any = body(request).get("contents")
    if isinstance(given, list) and given:
        return None
    return Problem("* GenerateContentRequest.contents: contents is not specified\n", "contents")


@rule("gemini")
def content_shape(request: Inbound) -> Problem | None:
    """A content is `{role, parts}` with a list of objects as parts, and nothing else.

    Source: ai.google.dev/api/caching#Content; "Unknown name … Cannot find field" is the answer of
    Google's JSON parser, e.g. github.com/gera2ld/ai.nvim/issues/13.
    """
    for index, content in enumerate(cast("list[Any]", body(request)["contents"])):
        where = f"contents[{index}]"
        if not isinstance(content, dict):
            words = f"Invalid value at '{where}' (Content), {content!r}"
            return Problem(words, where)
        given = cast("dict[str, Any]", content)
        for name in given:
            if name not in ("role", "parts"):
                return unknown_name(name, where)
        parts: Any = given.get("parts", [])
        if not isinstance(parts, list):
            return Problem(f"Invalid value at '{where}.parts' (Part), {parts!r}", f"{where}.parts")
        for number, part in enumerate(cast("list[Any]", parts)):
            if not isinstance(part, dict):
                place = f"{where}.parts[{number}]"
                return Problem(f"Invalid value at '{place}' (Part), {part!r}", place)
    return None


@rule("gemini")
def empty_parts(request: Inbound) -> Problem | None:
    """A content has at least one part.

    Source: the API's answer "* GenerateContentRequest.contents[0].parts: contents.parts must not be
    empty."
    """
    for index, content in enumerate(cast("list[dict[str, Any]]", body(request)["contents"])):
        if not content.get("parts"):
            where = f"contents[{index}].parts"
            words = f"* GenerateContentRequest.{where}: contents.parts must not be empty.\n"
            return Problem(words, where)
    return None


@rule("gemini")
def unknown_role(request: Inbound) -> Problem | None:
    """A role is user or model (function is taken for results, none for single turns).

    Source: ai.google.dev/api/caching#Content ("Must be either 'user' or 'model'"); "Please use a
    valid role: user, model." is the API's answer, e.g. github.com/langbot-app/LangBot/issues/1486.
    """
    for index, (role, _) in enumerate(contents(request)):
        if role not in ("user", "model", "function"):
            return Problem("Please use a valid role: user, model.", f"contents[{index}].role")
    return None


@rule("gemini")
def part_fields(request: Inbound) -> Problem | None:
    """A part has one data field and known others.

    Source: ai.google.dev/api/caching#Part ("Union field data can be only one of …"); "oneof field
    'data' is already set" is the answer of Google's JSON parser.
    """
    for index, (_, parts) in enumerate(contents(request)):
        for number, part in enumerate(parts):
            where = f"contents[{index}].parts[{number}]"
            for name in part:
                if name not in _DATA and name not in _BESIDES:
                    return unknown_name(name, where)
            data = [name for name in part if name in _DATA]
            if len(data) > 1:
                words = f"oneof field 'data' is already set. Cannot set '{data[1]}'"
                return Problem(f"Invalid value at '{where}' (oneof), {words}", where)
    return None


@rule("gemini")
def part_without_data(request: Inbound) -> Problem | None:
    """A part has a data field, and an empty text is none (unless it carries a thought signature).

    Source: the API's answer "required oneof field 'data' must have one initialized field", e.g.
    github.com/router-for-me/CLIProxyAPI/issues/1293;
    ai.google.dev/gemini-api/docs/thought-signatures for signatures that arrive in a part with empty
    text and go back in one.
    """
    for index, (_, parts) in enumerate(contents(request)):
        for number, part in enumerate(parts):
            text = part.get("text")
            if part.keys() & _DATA and (text != "" or part.get("thoughtSignature")):
                continue
            where = f"contents[{index}].parts[{number}].data"
            words = "required oneof field 'data' must have one initialized field"
            return Problem(f"* GenerateContentRequest.{where}: {words}\n", where)
    return None


@rule("gemini")
def part_value(request: Inbound) -> Problem | None:
    """Data is of its type: text a string; calls and responses objects with a name and an object.

    Source: ai.google.dev/api/caching#FunctionCall (name required, args: Struct) and
    #FunctionResponse (name required, response: Struct, required).
    """
    for index, (_, parts) in enumerate(contents(request)):
        for number, part in enumerate(parts):
            where = f"contents[{index}].parts[{number}]"
            if "text" in part and not isinstance(part["text"], str):
                place = f"{where}.text"
                return Problem(f"Invalid value at '{place}' (TYPE_STRING), {part['text']!r}", place)
            if "functionCall" in part:
                problem = _call_problem(part["functionCall"], f"{where}.function_call")
            elif "functionResponse" in part:
                problem = _response_problem(part["functionResponse"], f"{where}.function_response")
            else:
                continue
            if problem is not None:
                return problem
    return None


def _call_problem(value: Any, where: str) -> Problem | None:
    given = cast("dict[str, Any]", value) if isinstance(value, dict) else None
    if given is None:
        return Problem(f"Invalid value at '{where}' (FunctionCall), {value!r}", where)
    for name in given:
        if camel(name) not in _CALL_FIELDS:
            return unknown_name(name, where)
    if not isinstance(given.get("name"), str) or not given["name"]:
        words = f"* GenerateContentRequest.{where}.name: Name cannot be empty.\n"
        return Problem(words, f"{where}.name")
    if not isinstance(given.get("id", ""), str):
        return Problem(f"Invalid value at '{where}.id' (TYPE_STRING)", f"{where}.id")
    args = given.get("args")
    if args is not None and not isinstance(args, dict):
        struct = "(type.googleapis.com/google.protobuf.Struct)"
        words = f"Invalid value at '{where}.args' {struct}, {args!r}"
        return Problem(words, f"{where}.args")
    return None


def _response_problem(value: Any, where: str) -> Problem | None:
    given = cast("dict[str, Any]", value) if isinstance(value, dict) else None
    if given is None:
        return Problem(f"Invalid value at '{where}' (FunctionResponse), {value!r}", where)
    for name in given:
        if camel(name) not in _RESPONSE_FIELDS:
            return unknown_name(name, where)
    if not isinstance(given.get("name"), str) or not given["name"]:
        words = f"* GenerateContentRequest.{where}.name: Name cannot be empty.\n"
        return Problem(words, f"{where}.name")
    if not isinstance(given.get("id", ""), str):
        return Problem(f"Invalid value at '{where}.id' (TYPE_STRING)", f"{where}.id")
    response = given.get("response")
    if not isinstance(response, dict):
        struct = "(type.googleapis.com/google.protobuf.Struct)"
        words = f"Invalid value at '{where}.response' {struct}, {response!r}"
        return Problem(words, f"{where}.response")
    return None


@rule("gemini")
def signature_not_base64(request: Inbound) -> Problem | None:
    """A thought signature is base64.

    Source: ai.google.dev/api/caching#Part (thoughtSignature: "A base64-encoded string"); "Base64
    decoding failed" is the answer of Google's JSON parser.
    """
    for index, (_, parts) in enumerate(contents(request)):
        for number, part in enumerate(parts):
            value = part.get("thoughtSignature")
            if value is None:
                continue
            ok = isinstance(value, str) and _BASE64.fullmatch(value) is not None
            if not ok or len(value.rstrip("=")) % 4 == 1:
                where = f"contents[{index}].parts[{number}].thought_signature"
                words = f"Invalid value at '{where}' (TYPE_BYTES), Base64 decoding failed for "
                return Problem(f"{words}{value!r}", where)
    return None


@rule("gemini")
def system_instruction(request: Inbound) -> Problem | None:
    """`systemInstruction` is a content of text parts, none of them empty.

    Source: ai.google.dev/api/generate-content (systemInstruction: Content, "Currently, text only");
    for empty texts github.com/songquanpeng/one-api/issues/2243.
    """
    given: Any = body(request).get("systemInstruction")
    if given is None:
        return None
    where = "system_instruction"
    parts: Any = cast("dict[str, Any]", given).get("parts") if isinstance(given, dict) else None
    if isinstance(parts, dict):
        parts = [parts]  # Google's JSON reads a lone object as a list of one
    if not isinstance(parts, list):
        return Problem(f"Invalid value at '{where}' (Content), {given!r}", where)
    if not parts:
        words = f"* GenerateContentRequest.{where}.parts: contents.parts must not be empty.\n"
        return Problem(words, f"{where}.parts")
    for number, part in enumerate(cast("list[Any]", parts)):
        text: Any = cast("dict[str, Any]", part).get("text") if isinstance(part, dict) else None
        if not isinstance(text, str) or not text:
            place = f"{where}.parts[{number}].data"
            words = "required oneof field 'data' must have one initialized field"
            return Problem(f"* GenerateContentRequest.{place}: {words}\n", place)
    return None


# name: (whole number?, lowest, highest)
_RANGES: dict[str, tuple[bool, float, float]] = {
    "temperature": (False, 0, 2),
    "topP": (False, 0, 1),
    "maxOutputTokens": (True, 1, float("inf")),
    "candidateCount": (True, 1, 8),
}


@rule("gemini")
def generation_config(request: Inbound) -> Problem | None:
    """`generationConfig` has known fields, with numbers in their range and at most five stops.

    Source: ai.google.dev/api/generate-content#generationconfig (temperature "[0.0, 2.0]",
    stopSequences "up to 5").
    """
    given: Any = body(request).get("generationConfig")
    if given is None:
        return None
    where = "generation_config"
    if not isinstance(given, dict):
        return Problem(f"Invalid value at '{where}' (GenerationConfig), {given!r}", where)
    config = cast("dict[str, Any]", given)
    for name in config:
        if camel(name) not in _CONFIG_FIELDS:
            return unknown_name(name, where)
    return _range_problem(camel_keys(config), where)


def _range_problem(clean: dict[str, Any], where: str) -> Problem | None:
    for name, (whole, low, high) in _RANGES.items():
        value = clean.get(name)
        if value is None:
            continue
        kind_ok = is_int(value) if whole else is_number(value)
        if not kind_ok or not low <= value <= high:
            words = f"{name} must be in the range [{low}, {high}].\n"
            words = f"* GenerateContentRequest.{where}.{name}: {words}"
            return Problem(words, f"{where}.{name}")
    stops: Any = clean.get("stopSequences") or []
    if not is_name_list(stops) or len(stops) > _MAX_STOPS:
        place = f"{where}.stop_sequences"
        return Problem(
            f"* GenerateContentRequest.{place}: at most 5 stop sequences, all strings.\n", place
        )
    return None
