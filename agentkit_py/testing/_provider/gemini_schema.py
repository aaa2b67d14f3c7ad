"""Schemas as Gemini reads them: a subset of OpenAPI 3.0, checked by a parser and then a service."""

from __future__ import annotations

from typing import Any, cast

from .gemini_body import camel, camel_keys, unknown_name
from .rules import Problem, is_name_list, names

# ai.google.dev/api/caching#Schema.
_FIELDS = names("""type format title description nullable enum maxItems minItems properties required
    minProperties maxProperties minLength maxLength pattern example anyOf propertyOrdering default
    items minimum maximum""")
_TYPES = names("TYPE_UNSPECIFIED STRING NUMBER INTEGER BOOLEAN ARRAY OBJECT NULL")
_STRING_FORMATS = ("enum", "date-time")
_MAX_DEPTH = 32


def _children(schema: dict[str, Any], where: str, *, values: str) -> list[tuple[str, Any]]:
    """Return the schemas directly inside one; the parser and the service name them differently."""
    found: list[tuple[str, Any]] = []
    properties: Any = schema.get("properties")
    if isinstance(properties, dict):
        for number, (name, inner) in enumerate(cast("dict[str, Any]", properties).items()):
            place = f"[{number}].value" if values == "number" else f"[{name}]"
            found.append((f"{where}.properties{place}", inner))
    if schema.get("items") is not None:
        found.append((f"{where}.items", schema["items"]))
    options: Any = schema.get("anyOf")
    if isinstance(options, list):
        for number, inner in enumerate(cast("list[Any]", options)):
            found.append((f"{where}.any_of[{number}]", inner))
    return found


def parser_trouble(schema: Any, where: str, depth: int = 0) -> Problem | None:
    """Return what Google's JSON parser objects to: unknown fields, wrong kinds of values."""
    if not isinstance(schema, dict):
        return Problem(f"Invalid value at '{where}' (Schema), {schema!r}", where)
    given = cast("dict[str, Any]", schema)
    for name in given:
        if camel(name) not in _FIELDS:
            return unknown_name(name, where)
    clean = camel_keys(given)
    problem = _value_problem(clean, where)
    if problem is not None:
        return problem
    if depth >= _MAX_DEPTH:
        return Problem(f"'{where}': message nested too deeply.", where)
    for place, inner in _children(clean, where, values="number"):
        trouble = parser_trouble(inner, place, depth + 1)
        if trouble is not None:
            return trouble
    return None


def _value_problem(clean: dict[str, Any], where: str) -> Problem | None:
    kind = clean.get("type")
    if isinstance(kind, list):
        words = 'Invalid JSON payload received. Unknown name "type" at '
        tail = "Proto field is not repeating, cannot start list."
        return Problem(f"{words}'{where}': {tail}", f"{where}.type")
    if kind is not None and (not isinstance(kind, str) or kind.upper() not in _TYPES):
        return Problem(f"Invalid value at '{where}.type' (Type), \"{kind}\"", f"{where}.type")
    for name, expected in (
        ("properties", dict),
        ("required", list),
        ("enum", list),
        ("anyOf", list),
    ):
        value = clean.get(name)
        if value is not None and not isinstance(value, expected):
            return Problem(f"Invalid value at '{where}.{name}', {value!r}", f"{where}.{name}")
    if not is_name_list(clean.get("required") or []):
        place = f"{where}.required"
        return Problem(f"Invalid value at '{place}' (TYPE_STRING), {clean['required']!r}", place)
    for number, value in enumerate(clean.get("enum") or []):
        if not isinstance(value, str):
            place = f"{where}.enum[{number}]"
            return Problem(f"Invalid value at '{place}' (TYPE_STRING), {value!r}", place)
    return None


def service_trouble(schema: dict[str, Any], where: str, *, top: bool = False) -> Problem | None:
    """Return what the service objects to in a schema that could be parsed."""
    clean = camel_keys(schema)
    trouble = _own_trouble(clean, top=top)
    if trouble is not None:
        field, words = trouble
        return Problem(f"* GenerateContentRequest.{where}{field}: {words}\n", f"{where}{field}")
    for place, inner in _children(clean, where, values="name"):
        problem = service_trouble(cast("dict[str, Any]", inner), place)
        if problem is not None:
            return problem
    return None


def _own_trouble(schema: dict[str, Any], *, top: bool) -> tuple[str, str] | None:
    kind = str(schema.get("type") or "").upper()
    if top and kind != "OBJECT":
        return "", "functionDeclaration parameters schema should be of type OBJECT."
    properties = cast("dict[str, Any]", schema.get("properties") or {})
    if kind == "OBJECT" and not properties:
        return ".properties", "should be non-empty for OBJECT type"
    if properties and kind != "OBJECT":
        return ".properties", "only allowed for OBJECT type"
    for number, name in enumerate(cast("list[Any]", schema.get("required") or [])):
        if name not in properties:
            return f".required[{number}]", "property is not defined"
    if (kind == "ARRAY") != (schema.get("items") is not None):
        return ".items", "missing field." if kind == "ARRAY" else "only allowed for ARRAY type"
    return _string_trouble(schema, kind)


def _string_trouble(schema: dict[str, Any], kind: str) -> tuple[str, str] | None:
    enum = cast("list[str]", schema.get("enum") or [])
    if enum and kind != "STRING":
        return ".enum", "only allowed for STRING type"
    if "" in enum:
        return f".enum[{enum.index('')}]", "cannot be empty"
    format_ = schema.get("format")
    if kind == "STRING" and format_ and format_ not in _STRING_FORMATS:
        return ".format", "only 'enum' and 'date-time' are supported for STRING type"
    return None
