"""Walking JSON Schemas: where sub-schemas stand, references, null, object roots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from agentkit_py._core.json import as_list, as_object
from agentkit_py.errors import ToolDefinitionError

Schema = Mapping[str, Any]

_ONE = frozenset(
    {
        "items", "additionalItems", "additionalProperties", "unevaluatedItems",
        "unevaluatedProperties", "contains", "propertyNames", "not", "if", "then", "else",
    }
)  # fmt: skip
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_SCALARS = {"string": str, "boolean": bool, "integer": int, "number": float}
_UNIONS = ("anyOf", "oneOf")


def map_subschemas(schema: Schema, change: Callable[[Any], Any]) -> dict[str, Any]:
    """A copy of ``schema`` with each direct sub-schema replaced by what ``change`` makes of it.

    Names of properties and values of enums are data, never keywords.
    """
    return {key: _changed(key, value, change) for key, value in schema.items()}


def _changed(key: str, value: Any, change: Callable[[Any], Any]) -> Any:
    if key in _MAPS and (named := as_object(value)) is not None:
        return {name: change(item) for name, item in named.items()}
    if key in _LISTS and (many := as_list(value)) is not None:
        return [change(item) for item in many]
    if key in _ONE and isinstance(value, dict | bool):
        return change(value)
    return value


def resolve(schema: Schema, root: Schema) -> Schema:
    """``schema``, or what its ``$ref`` says in the end, with the keywords that stand beside it.

    Raises:
        ToolDefinitionError: The reference points nowhere, outside, or only to itself.
    """
    seen: set[str] = set()
    while (ref := schema.get("$ref")) is not None:
        if not isinstance(ref, str) or ref in seen:
            raise ToolDefinitionError("", f"the schema's $ref {ref!r} goes in a circle")
        seen.add(ref)
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**_target(ref, root), **beside}
    return schema


def _target(ref: str, root: Schema) -> Schema:
    found: Any = root
    path = ref.removeprefix("#").strip("/")
    for step in path.split("/") if path else ():
        key = step.replace("~1", "/").replace("~0", "~")
        found = cast("dict[str, Any]", found).get(key) if isinstance(found, dict) else None
    target = as_object(found)
    if target is None or not ref.startswith("#"):
        raise ToolDefinitionError("", f"the schema's $ref {ref!r} points to no schema in it")
    return target


def accepts_null(schema: Any, root: Schema, depth: int = 0) -> bool:
    """Whether null satisfies ``schema``, as far as types, enums and unions tell."""
    node = as_object(schema)
    if node is None:
        return schema is not False
    if depth > _DEEP:
        return False
    node = resolve(node, root)
    for union in _UNIONS:
        if (options := as_list(node.get(union))) is not None:
            return any(accepts_null(option, root, depth + 1) for option in options)
    if (parts := as_list(node.get("allOf"))) is not None:
        return all(accepts_null(part, root, depth + 1) for part in parts)
    if "const" in node:
        return node["const"] is None
    if (values := as_list(node.get("enum"))) is not None:
        return None in values
    kinds = types_of(node)
    return not kinds or "null" in kinds


_DEEP = 50  # unions inside unions; deeper is a loop


def types_of(schema: Schema) -> list[str]:
    """The types a schema names itself; empty: any."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return [kind]
    return [item for item in as_list(kind) or [] if isinstance(item, str)]


def types_of_values(values: list[Any]) -> list[str]:
    """The JSON types of ``values``, each once."""
    return list(dict.fromkeys(_type_name(value) for value in values))


def _type_name(value: object) -> str:
    if value is None:
        return "null"
    for name, kind in _SCALARS.items():
        if isinstance(value, kind):
            return name
    return "array" if isinstance(value, list) else "object"


def is_free_form(schema: Schema) -> bool:
    """Whether the schema is an object whose properties nobody has named."""
    return types_of(schema) == ["object"] and not schema.get("properties")


def object_root(schema: Schema) -> dict[str, Any]:
    """``schema`` with a root that is an object without union, which all providers ask for.

    A root reference is replaced by what it refers to. Of a root union, all properties are kept and
    those that every branch requires stay required: looser than the union, so what a model sends
    is still to be validated against the original.

    Raises:
        ToolDefinitionError: The root cannot be an object.
    """
    root = dict(resolve(schema, schema))
    branches = [
        resolve(branch, schema)
        for union in (*_UNIONS, "allOf")
        for branch in map(as_object, as_list(root.get(union)) or [])
        if branch is not None
    ]
    every = "allOf" in root
    for key in (*_UNIONS, "allOf", "not", "enum", "const", "discriminator"):
        root.pop(key, None)
    for branch in branches:
        _require_object(branch)
    _require_object(root)
    return _with_branches(root, branches, every=every) if branches else _as_object_schema(root)


def _require_object(schema: Schema) -> None:
    kinds = types_of(schema)
    if kinds and "object" not in kinds:
        raise ToolDefinitionError(
            "", f"its arguments are of type {kinds[0]}; providers take nothing but objects"
        )


def _as_object_schema(root: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {"type": "object", "properties": {}, **root}
    result["type"] = "object"
    return result


def _with_branches(root: dict[str, Any], branches: list[Schema], *, every: bool) -> dict[str, Any]:
    properties = dict(as_object(root.get("properties")) or {})
    needed = [_required(branch) for branch in branches]
    common = needed[0].union(*needed) if every else needed[0].intersection(*needed)
    for branch in branches:
        for name, schema in (as_object(branch.get("properties")) or {}).items():
            known = properties.get(name, schema)
            properties[name] = schema if known == schema else {"anyOf": [known, schema]}
    required = [name for name in properties if name in common | _required(root)]
    open_again = {key: value for key, value in root.items() if key != "additionalProperties"}
    return {**open_again, "type": "object", "properties": properties, "required": required}


def _required(schema: Schema) -> set[str]:
    return {name for name in as_list(schema.get("required")) or [] if isinstance(name, str)}
