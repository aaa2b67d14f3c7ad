"""JSON Schema as Gemini's function declarations take it: a part of OpenAPI 3.0.

Source: https://ai.google.dev/api/caching#Schema, and the messages with which the API refuses what
is not listed there (``Unknown name "…"``, ``should be non-empty for OBJECT type``).
"""

from __future__ import annotations

from typing import Any

from agentkit_py._core.json import as_list, as_object, dumps
from agentkit_py.errors import ToolDefinitionError
from agentkit_py.models.schema_walk import (
    Schema,
    object_root,
    resolve,
    types_of,
    types_of_values,
)

_KEPT = frozenset(
    {
        "type", "format", "description", "nullable", "enum", "properties", "required", "items",
        "minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength", "pattern", "anyOf",
    }
)  # fmt: skip
_FORMATS = {
    "string": frozenset({"enum", "date-time"}),
    "number": frozenset({"float", "double"}),
    "integer": frozenset({"int32", "int64"}),
}
_ONLY_FOR = {"properties": "object", "required": "object", "items": "array"}
_FREE_FORM = "A JSON object, written as text."


def gemini_schema(schema: Schema) -> dict[str, Any] | None:
    """The schema for a Gemini function declaration; None where there are no properties at all.

    References are replaced by what they refer to, ``const`` becomes an enum of one, unions with
    null become ``nullable``, and keywords that Gemini does not know are left out. Values that are
    no text cannot be enumerated, so they are listed in the description. Objects without named
    properties are refused by Gemini; they are asked for as JSON text (`drop_added_nulls` reads it).

    Raises:
        ToolDefinitionError: The arguments are no object, or the schema refers to itself.
    """
    converted = _Converter(schema).convert(object_root(schema), ())
    return converted if converted.get("properties") else None


class _Converter:
    def __init__(self, root: Schema) -> None:
        self._root = root

    def convert(self, schema: Any, inside: tuple[str, ...]) -> dict[str, Any]:
        node = as_object(schema)
        if not node:
            return {"type": "string"}  # anything goes, and Gemini wants a type
        ref = node.get("$ref")
        if isinstance(ref, str):
            if ref in inside:
                raise ToolDefinitionError(
                    "", f"its schema refers to itself ({ref}); Gemini cannot take that"
                )
            inside = (*inside, ref)
            node = dict(resolve(node, self._root))
        node = _folded(node)
        options = as_list(node.get("anyOf")) or as_list(node.get("oneOf"))
        if options is not None:
            return self._union(node, options, inside)
        kinds = types_of(node) or _guessed_types(node)
        if len([kind for kind in kinds if kind != "null"]) > 1:
            branches = [{**node, "type": kind} for kind in kinds]
            return self._union({}, branches, inside)
        return self._single(node, kinds, inside)

    def _union(self, node: Schema, options: list[Any], inside: tuple[str, ...]) -> dict[str, Any]:
        some = [option for option in options if not _is_null(option)]
        result: dict[str, Any] = {}
        converted = [self.convert(option, inside) for option in some]
        if len(converted) == 1:
            result = converted[0]
        elif converted:
            result = {"anyOf": converted}
        else:
            result = {"type": "string"}
        if "description" in node:
            result = {**result, "description": node["description"]}
        return {**result, "nullable": True} if len(some) < len(options) else result

    def _single(
        self, node: dict[str, Any], kinds: list[str], inside: tuple[str, ...]
    ) -> dict[str, Any]:
        kind = next((kind for kind in kinds if kind != "null"), "string")
        result = {key: value for key, value in node.items() if key in _KEPT}
        for name in _ONLY_FOR.keys() & result.keys():
            if _ONLY_FOR[name] != kind:
                del result[name]
        result["type"] = kind
        if "null" in kinds:
            result["nullable"] = True
        _enumerate(result, node)
        _bounds(result, node)
        if result.get("format") not in _FORMATS.get(kind, ()):
            result.pop("format", None)
        if kind == "array":
            result["items"] = self.convert(_items(node), inside)
        if kind == "object":
            return self._object(result, inside)
        return result

    def _object(self, result: dict[str, Any], inside: tuple[str, ...]) -> dict[str, Any]:
        properties = as_object(result.get("properties")) or {}
        if not properties:
            described = " ".join(filter(None, [result.get("description"), _FREE_FORM]))
            text: dict[str, Any] = {"type": "string", "description": described}
            return {**text, "nullable": True} if result.get("nullable") else text
        result["properties"] = {
            name: self.convert(item, inside) for name, item in properties.items()
        }
        required = [name for name in as_list(result.get("required")) or [] if name in properties]
        if required:
            result["required"] = required
        else:
            result.pop("required", None)
        return result


def _is_null(schema: Any) -> bool:
    node = as_object(schema)
    return node is not None and types_of(node) == ["null"]


def _folded(node: dict[str, Any]) -> dict[str, Any]:
    """Merge the parts of an ``allOf`` into the schema: Gemini has no word for it."""
    parts = as_list(node.get("allOf"))
    if parts is None:
        return node
    result: dict[str, Any] = {}
    for part in [*map(as_object, parts), {k: v for k, v in node.items() if k != "allOf"}]:
        if part is None:
            continue
        properties = {**result.get("properties", {}), **part.get("properties", {})}
        required = [*result.get("required", []), *part.get("required", [])]
        result = {**result, **part}
        if properties:
            result["properties"] = properties
        if required:
            result["required"] = list(dict.fromkeys(required))
    return result


def _guessed_types(node: Schema) -> list[str]:
    if "properties" in node:
        return ["object"]
    if "items" in node or "prefixItems" in node:
        return ["array"]
    values = as_list(node.get("enum"))
    if values is None and "const" in node:
        values = [node["const"]]
    return types_of_values(values) if values else []


def _enumerate(result: dict[str, Any], node: Schema) -> None:
    """Put the allowed values where Gemini takes them: texts in ``enum``, others in words."""
    values = [node["const"]] if "const" in node else as_list(node.get("enum"))
    result.pop("enum", None)
    if values is None:
        return
    some = [value for value in values if value is not None]
    if len(some) < len(values):
        result["nullable"] = True
    if some and result["type"] == "string" and all(isinstance(v, str) and v for v in some):
        result["enum"] = some
    elif some:
        listed = "One of: " + ", ".join(dumps(value) for value in some) + "."
        described = result.get("description")
        result["description"] = f"{described} {listed}" if described else listed


def _bounds(result: dict[str, Any], node: Schema) -> None:
    """Gemini knows no exclusive bounds; of integers they can be said otherwise."""
    if result["type"] != "integer":
        return
    for exclusive, inclusive, step in (
        ("exclusiveMinimum", "minimum", 1),
        ("exclusiveMaximum", "maximum", -1),
    ):
        bound = node.get(exclusive)
        if isinstance(bound, int) and not isinstance(bound, bool):
            result.setdefault(inclusive, bound + step)


def _items(node: Schema) -> Any:
    """What an array holds; of a tuple any of its items."""
    each = as_list(node.get("prefixItems")) or as_list(node.get("items"))
    return {"anyOf": each} if each else node.get("items")
