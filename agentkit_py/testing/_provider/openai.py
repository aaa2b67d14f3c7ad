"""Shared by OpenAI's two APIs and those that copy them: error words, ranges, tools, schemas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from .rules import (
    Problem,
    Request,
    is_int,
    is_name_list,
    is_number,
    items_of,
    names,
    object_of,
    repeated,
    types_of,
)
from .types import ProviderName

FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MAX_TOOLS = 128

# https://platform.openai.com/docs/guides/error-codes/api-errors
_TYPES = {429: "rate_limit_exceeded", 500: "server_error", 503: "server_error"}
_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
# github.com/livekit/agents/issues/3114 shows 400; the others follow the same gRPC wording.
_GROK_CODES = {
    400: "Client specified an invalid argument",
    401: "Unauthenticated",
    403: "The caller does not have permission to execute the specified operation",
    404: "Some requested entity was not found",
    429: "Some resource has been exhausted",
}


def error_body(
    provider: ProviderName, status: int, message: str, param: str | None, code: str | None
) -> dict[str, Any]:
    """Return the JSON of an error of OpenAI, Azure or Grok."""
    if provider == "grok":
        # xAI takes OpenAI's requests but has errors of its own, flat and with a text for a code:
        # github.com/livekit/agents/issues/3114.
        prefix = "Invalid request content: " if status == HTTPStatus.BAD_REQUEST else ""
        return {"code": _GROK_CODES.get(status, "Internal error"), "error": prefix + message}
    failed = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    kind = _TYPES.get(status, "server_error" if failed else "invalid_request_error")
    given = {"param": param or None, "code": code or _CODES.get(status)}
    return {"error": {"message": message, "type": kind, **given}}


# The API's words for a problem with a field of a request.


def missing(where: str) -> Problem:
    """Return the answer to a field that is not there."""
    return Problem(f"Missing required parameter: '{where}'.", where, "missing_required_parameter")


def wrong_type(where: str, expected: str) -> Problem:
    """Return the answer to a value of another JSON type."""
    return Problem(f"Invalid type for '{where}': expected {expected}.", where, "invalid_type")


def wrong_value(where: str, value: Any, supported: str) -> Problem:
    """Return the answer to a value that is none of a list."""
    words = f"Invalid value: '{value}'. Supported values are: {supported}."
    return Problem(words, where, "invalid_value")


def quoted(values: Iterable[str], joiner: str = ", ") -> str:
    """Return names as the API lists them."""
    return joiner.join(f"'{value}'" for value in values)


def wrong_name(where: str, pattern: str = "^[a-zA-Z0-9_-]+$") -> Problem:
    """Return the answer to a name that does not match its pattern."""
    words = "string does not match pattern. Expected a string that matches the pattern"
    return Problem(f"Invalid '{where}': {words} '{pattern}'.", where, "invalid_value")


def too_long(where: str, limit: int, length: int) -> Problem:
    """Return the answer to a string that is too long."""
    words = (
        f"Invalid '{where}': string too long. Expected a string with maximum length {limit}, but "
        f"got a string with length {length} instead."
    )
    return Problem(words, where, "string_above_max_length")


def empty_array(where: str, before: str = "") -> Problem:
    """Return the answer to a list without items."""
    words = "empty array. Expected an array with minimum length 1, but got an empty array instead."
    return Problem(f"{before}Invalid '{where}': {words}", where, "empty_array")


def unknown_field(where: str) -> Problem:
    """Return the Responses API's answer to a field that it does not know."""
    return Problem(f"Unknown parameter: '{where}'.", where, "unknown_parameter")


Ranges = Mapping[str, tuple[type[int] | type[float], float, float]]


def out_of_range(body: dict[str, Any], ranges: Ranges) -> Iterator[Problem]:
    """Yield the parameters that are not numbers or are out of range; null is ignored."""
    for name, (kind, low, high) in ranges.items():
        value = body.get(name)
        if value is None:
            continue
        if not (is_int(value) if kind is int else is_number(value)):
            yield wrong_type(name, "an integer" if kind is int else "a decimal")
        elif value < low:
            words = f"below minimum value. Expected a value >= {low}, but got {value} instead."
            yield Problem(f"Invalid '{name}': integer {words}", name, "integer_below_min_value")
        elif value > high:
            words = f"above maximum value. Expected a value <= {high}, but got {value} instead."
            yield Problem(f"Invalid '{name}': decimal {words}", name, "decimal_above_max_value")


_EFFORTS = (  # Azure's page of reasoning models; for 5.1 github.com/anomalyco/opencode/issues/4451
    (re.compile(r"o[134](-mini)?(-\d|$)"), ("low", "medium", "high")),
    (re.compile(r"gpt-5(-mini|-nano)?(-\d|$)"), ("minimal", "low", "medium", "high")),
    (re.compile(r"gpt-5\.1(-\d|$)"), ("none", "low", "medium", "high")),
)


def has_known_efforts(model: str) -> bool:
    """Return whether it is known which efforts a model takes."""
    return any(pattern.match(model) for pattern, _ in _EFFORTS)


def refused_effort(model: str, effort: Any, where: str) -> Iterator[Problem]:
    """Yield the API's answer to an effort that a model does not take."""
    efforts = next(efforts for pattern, efforts in _EFFORTS if pattern.match(model))
    if isinstance(effort, str) and effort not in efforts:
        listed = f"{quoted(efforts[:-1])}, and '{efforts[-1]}'"
        words = f"Unsupported value: '{effort}' is not supported with the '{model}' model."
        yield Problem(f"{words} Supported values are: {listed}.", where, "unsupported_value")


DeclaredFunctions = list[tuple[str, dict[str, Any]]]
"""Declared functions with their pointers, such as `tools[0].function`."""


def duplicate_names(functions: DeclaredFunctions) -> Iterator[Problem]:
    """Yield the functions whose name another has."""
    for where, name in repeated((f"{where}.name", one["name"]) for where, one in functions):
        yield Problem(f"Invalid '{where}': duplicate tool name '{name}'.", where)


def tools_over_limit(tools: Any) -> Iterator[Problem]:
    """Yield a problem if there are more tools than 128."""
    count = len(items_of(tools))
    if count > MAX_TOOLS:
        words = f"Expected an array with maximum length {MAX_TOOLS}, but got an array with length"
        message = f"Invalid 'tools': array too long. {words} {count} instead."
        yield Problem(message, "tools", "array_above_max_length")


def invalid_parameters(
    function: dict[str, Any], where: str, trouble: str | None
) -> Iterator[Problem]:
    """Yield the API's answer to a function whose schema has this trouble."""
    if trouble is not None:
        words = f"Invalid schema for function '{function['name']}': {trouble}"
        yield Problem(words, f"{where}.parameters", "invalid_function_parameters")


# Schemas: the general checks and the subset of strict mode.

# From platform.openai.com/docs/guides/structured-outputs#supported-schemas: types, "Supported
# properties" of strings (pattern, format), numbers (multipleOf and the four bounds), arrays
# (minItems, maxItems), enum, const, anyOf, definitions and references. Annotations ($schema, title,
# description) pass. github.com/openai/openai-node/pull/1988 had minLength and maxLength refused;
# gpt-4o took minLength in two recorded exchanges of July 2026.
_STRICT_KEYWORDS = names("""$schema $id $comment $defs $ref definitions title description type enum
    const anyOf properties required additionalProperties items pattern format multipleOf minimum
    maximum exclusiveMinimum exclusiveMaximum minItems maxItems minLength maxLength""")
_SCHEMA_TYPES = names("string number integer boolean object array null")
_MAX_DEPTH = 64

Context = tuple[str, ...]


def _schemas(schema: Any, context: Context = ()) -> Iterator[tuple[Context, Any]]:
    """Yield a schema and every schema inside it, each with the path that the API would name."""
    yield context, schema
    if isinstance(schema, dict) and len(context) <= _MAX_DEPTH:
        for step, inner in _inside(object_of(schema)):
            yield from _schemas(inner, (*context, *step))


def _inside(schema: dict[str, Any]) -> Iterator[tuple[Context, Any]]:
    for key in ("properties", "$defs", "definitions"):
        for name, value in object_of(schema.get(key)).items():
            yield (key, name), value
    for key in ("anyOf", "oneOf", "allOf"):
        for number, value in enumerate(items_of(schema.get(key))):
            yield (key, str(number)), value
    single = ("items", "additionalProperties")
    yield from (((key,), schema[key]) for key in single if isinstance(schema.get(key), dict))


def schema_trouble(schema: Any, *, lenient: bool = False) -> str | None:
    """Return the API's objections to a function's parameters, strict or not."""
    if not isinstance(schema, dict):
        return f"{schema!r} is not of type 'object', 'boolean'."
    if object_of(schema).get("type") != "object":
        return _no_object(object_of(schema))
    if lenient:
        return None
    for context, inner in _schemas(object_of(schema)):
        if not isinstance(inner, dict):
            if isinstance(inner, bool):
                continue
            return f"In context={context}, {inner!r} is not of type 'object', 'boolean'."
        trouble = _shape_trouble(object_of(inner), top=not context)
        if trouble is not None:
            return f"In context={context}, {trouble}"
    return None


def _no_object(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    return f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."


def _shape_trouble(schema: dict[str, Any], *, top: bool) -> str | None:
    for kind in types_of(schema):
        if kind is not None and not (isinstance(kind, str) and kind in _SCHEMA_TYPES):
            return f"{kind!r} is not valid under any of the given schemas."
    if top and "properties" not in schema:
        return "object schema missing properties."
    if "properties" in schema and not isinstance(schema["properties"], dict):
        return f"{schema['properties']!r} is not of type 'object'."
    if not is_name_list(schema.get("required", [])):
        return f"{schema['required']!r} is not of type 'array' of strings."
    if "array" in types_of(schema) and "items" not in schema:
        return "array schema missing items."
    return None


def takes_defaults(request: Request) -> bool:
    """Return whether `default` is allowed in a strict schema.

    The documentation leaves it out. OpenAI took it in 79 recorded exchanges of 2026, from gpt-4o
    on; Azure does not: github.com/openai/openai-agents-python/issues/4390.
    """
    return request.provider != "azure_openai"


def strict_trouble(schema: Any, *, defaults: bool) -> str | None:
    """Return strict mode's objection, or `None`; `defaults`: whether `default` is allowed."""
    if object_of(schema).get("type") != "object":
        return _no_object(object_of(schema))
    trouble = schema_trouble(schema)
    if trouble is not None:
        return trouble
    allowed = _STRICT_KEYWORDS | {"default"} if defaults else _STRICT_KEYWORDS
    for context, inner in _schemas(schema):
        if not isinstance(inner, dict):
            return f"In context={context}, schema must have a 'type' key."
        trouble = _strict_shape_trouble(object_of(inner), allowed)
        if trouble is not None:
            return f"In context={context}, {trouble}"
    return None


def _strict_shape_trouble(schema: dict[str, Any], allowed: frozenset[str]) -> str | None:
    if "$ref" in schema:
        siblings = sorted(
            schema.keys() - {"$ref"} - {"description", "title", "$defs", "definitions"}
        )
        # A description next to a $ref was refused once and is taken now; other keywords are not.
        return f"$ref cannot have keywords {set(siblings)}." if siblings else None
    for keyword in schema:
        # `strict` inside of the schema is not read: six recorded exchanges with gpt-4o-mini, 2026.
        if keyword not in allowed and keyword != "strict":
            return f"'{keyword}' is not permitted."
    if not schema.keys() & {"type", "anyOf", "enum", "const"}:
        return "schema must have a 'type' key."
    return _strict_object_trouble(schema) if "object" in types_of(schema) else None


def _strict_object_trouble(schema: dict[str, Any]) -> str | None:
    rest = schema.get("additionalProperties")
    # gpt-4o-mini took a map that may be null in two recorded exchanges of one project, of 2025.
    if types_of(schema) == ["object", "null"] and isinstance(rest, dict):
        return None
    if rest is not False:
        return "'additionalProperties' is required to be supplied and to be false."
    properties = object_of(schema.get("properties"))
    required = items_of(schema.get("required"))
    words = "'required' is required to be supplied and to be an array including every key in"
    for name in properties:
        if name not in required:
            return f"{words} properties. Missing '{name}'."
    for name in required:
        if name not in properties:
            return f"{words} properties. Extra required key '{name}' supplied."
    return None
