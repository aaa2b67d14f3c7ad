"""JSON schemas as OpenAI reads them: the general checks and the subset of strict mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from .rules import is_name_list, names

# From platform.openai.com/docs/guides/structured-outputs#supported-schemas: types, "Supported
# properties" of strings (pattern, format), numbers (multipleOf and the four bounds), arrays
# (minItems, maxItems), enum, const, anyOf, definitions and references. Annotations ($schema, title,
# description) pass. github.com/openai/openai-node/pull/1988 confirms minLength, maxLength and
# default as outside of it.
_STRICT_KEYWORDS = names("""$schema $id $comment $defs $ref definitions title description type enum
const anyOf properties
    required additionalProperties items pattern format multipleOf minimum maximum exclusiveMinimum
    exclusiveMaximum minItems maxItems""")
_TYPES = names("string number integer boolean object array null")
_MAX_DEPTH = 64

Context = tuple[str, ...]


def _types(schema: dict[str, Any]) -> list[Any]:
    kind = schema.get("type")
    return cast("list[Any]", kind) if isinstance(kind, list) else [kind]


def schemas(schema: Any, context: Context = ()) -> Iterator[tuple[Context, Any]]:
    """Yield a schema and every schema inside it, each with the path that the API would name."""
    yield context, schema
    if isinstance(schema, dict) and len(context) <= _MAX_DEPTH:
        for step, inner in _inside(cast("dict[str, Any]", schema)):
            yield from schemas(inner, (*context, *step))


def _inside(schema: dict[str, Any]) -> Iterator[tuple[Context, Any]]:
    for key in ("properties", "$defs", "definitions"):
        if isinstance(schema.get(key), dict):
            for name, value in cast("dict[str, Any]", schema[key]).items():
                yield (key, name), value
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list):
            for number, value in enumerate(cast("list[Any]", schema[key])):
                yield (key, str(number)), value
    single = ("items", "additionalProperties")
    yield from (((key,), schema[key]) for key in single if isinstance(schema.get(key), dict))


def schema_trouble(schema: Any, *, lenient: bool = False) -> str | None:
    """Return what the API objects to in a function's parameters, strict or not."""
    if not isinstance(schema, dict):
        return f"{schema!r} is not of type 'object', 'boolean'."
    kind: Any = cast("dict[str, Any]", schema).get("type")
    if kind != "object":
        return f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."
    if lenient:
        return None
    for context, inner in schemas(cast("Any", schema)):
        if not isinstance(inner, dict):
            if isinstance(inner, bool):
                continue
            return f"In context={context}, {inner!r} is not of type 'object', 'boolean'."
        trouble = _shape_trouble(cast("dict[str, Any]", inner), top=not context)
        if trouble is not None:
            return f"In context={context}, {trouble}"
    return None


def _shape_trouble(schema: dict[str, Any], *, top: bool) -> str | None:
    for kind in _types(schema):
        if kind is not None and not (isinstance(kind, str) and kind in _TYPES):
            return f"{kind!r} is not valid under any of the given schemas."
    if top and "properties" not in schema:
        return "object schema missing properties."
    if "properties" in schema and not isinstance(schema["properties"], dict):
        return f"{schema['properties']!r} is not of type 'object'."
    if not is_name_list(schema.get("required", [])):
        return f"{schema['required']!r} is not of type 'array' of strings."
    if "array" in _types(schema) and "items" not in schema:
        return "array schema missing items."
    return None


def strict_trouble(schema: Any, *, defaults: bool) -> str | None:
    """Return what strict mode objects to, or `None`.

    Args:
        schema: The schema of a function's parameters or of a response format.
        defaults: Whether `default` is taken.
    """
    if not isinstance(schema, dict) or cast("dict[str, Any]", schema).get("type") != "object":
        kind: Any = cast("dict[str, Any]", schema).get("type") if isinstance(schema, dict) else None
        return f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."
    trouble = schema_trouble(schema)
    if trouble is not None:
        return trouble
    allowed = _STRICT_KEYWORDS | {"default"} if defaults else _STRICT_KEYWORDS
    for context, inner in schemas(cast("Any", schema)):
        if not isinstance(inner, dict):
            return f"In context={context}, schema must have a 'type' key."
        trouble = _strict_shape_trouble(cast("dict[str, Any]", inner), allowed)
        if trouble is not None:
            return f"In context={context}, {trouble}"
    return None


def _strict_shape_trouble(schema: dict[str, Any], allowed: frozenset[str]) -> str | None:
    if "$ref" in schema:
        beside = sorted(schema.keys() - {"$ref"} - {"description", "title", "$defs", "definitions"})
        # A description beside a $ref was refused once and is taken now; other keywords are not.
        return f"$ref cannot have keywords {set(beside)}." if beside else None
    for keyword in schema:
        if keyword not in allowed:
            return f"'{keyword}' is not permitted."
    if "type" not in schema and "anyOf" not in schema and not schema.keys() & {"enum", "const"}:
        return "schema must have a 'type' key."
    return _strict_object_trouble(schema) if "object" in _types(schema) else None


def _strict_object_trouble(schema: dict[str, Any]) -> str | None:
    if schema.get("additionalProperties") is not False:
        return "'additionalProperties' is required to be supplied and to be false."
    properties = cast("dict[str, Any]", schema.get("properties") or {})
    required = cast("list[str]", schema.get("required") or [])
    missing = [name for name in properties if name not in required]
    extra = [name for name in required if name not in properties]
    if missing or extra:
        words = "'required' is required to be supplied and to be an array including every key in "
        if missing:
            return f"{words}properties. Missing '{missing[0]}'."
        return f"{words}properties. Extra required key '{extra[0]}' supplied."
    return None
