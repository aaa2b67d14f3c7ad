"""JSON Schema as OpenAI's strict mode takes it, or the news that it cannot be said so.

Source: https://platform.openai.com/docs/guides/structured-outputs#supported-schemas, and the
messages with which the API refuses what is not listed there.
"""

from __future__ import annotations

import re
from typing import Any

from agentkit_py._core.json import as_list, as_object
from agentkit_py.models.schema_walk import (
    Schema,
    accepts_null,
    resolve,
    types_of,
    types_of_values,
)


class NotStrict(Exception):  # noqa: N818 - a signal between two functions, no error
    """The schema means something that strict mode cannot say."""


# Keywords that may go without changing what a valid call is, since arguments are validated again
# against the whole schema: strict mode refuses them, or says nothing about them.
_KEPT = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
        "$ref", "$defs", "definitions", "title", "description", "pattern", "format", "multipleOf",
        "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "minItems", "maxItems",
    }
)  # fmt: skip
_INEXPRESSIBLE = frozenset(
    {
        "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties",
        "propertyNames", "unevaluatedProperties", "unevaluatedItems", "contains", "prefixItems",
        "additionalItems",
    }
)  # fmt: skip
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_LOOKAROUND = re.compile(r"\(\?<?[=!]|\\[1-9]")
_SCALAR_TYPES = frozenset({"string", "number", "integer", "boolean"})
_MAX_DEPTH = 10
_MAX_PROPERTIES = 5000
_MAX_ENUM_VALUES = 1000


def strict_schema(schema: Schema) -> dict[str, Any]:
    """The strict form of ``schema``.

    Raises:
        NotStrict: There is none.
        ToolDefinitionError: A reference is broken.
    """
    root = resolve(schema, schema)
    if types_of(root) != ["object"] or any(key in root for key in ("anyOf", "oneOf", "allOf")):
        raise NotStrict
    return _Converter(schema).convert(root, 0)


class _Converter:
    """One conversion; counts what strict mode limits."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._properties = 0
        self._enum_values = 0

    def convert(self, schema: Any, depth: int) -> dict[str, Any]:
        node = as_object(schema)
        if node is None or depth > _MAX_DEPTH * 3 or not _INEXPRESSIBLE.isdisjoint(node):
            raise NotStrict
        node = _one_union(node)
        if "$ref" in node:
            return self._reference(node)
        result = {key: value for key, value in node.items() if key in _KEPT}
        self._definitions(result)
        if (options := as_list(result.get("anyOf"))) is not None:
            result["anyOf"] = [self.convert(option, depth + 1) for option in options]
            if "properties" in result or not options:
                raise NotStrict
            return result
        self._values(result)
        self._by_type(result, depth)
        return _supported(result)

    def _reference(self, node: dict[str, Any]) -> dict[str, Any]:
        resolve(node, self._root)  # a broken reference is an error here, not at the provider
        beside = {key: node[key] for key in ("title", "description") if key in node}
        ref = {"$ref": node["$ref"]}
        # "$ref cannot have keywords": an annotated reference becomes a union of one.
        return {"anyOf": [ref], **beside} if beside else ref

    def _definitions(self, result: dict[str, Any]) -> None:
        for key in ("$defs", "definitions"):
            if (named := as_object(result.get(key))) is not None:
                result[key] = {name: self.convert(item, 1) for name, item in named.items()}

    def _values(self, result: dict[str, Any]) -> None:
        values = as_list(result.get("enum"))
        if values is None and "const" in result:
            values = [result["const"]]
        if values is None:
            return
        self._enum_values += len(values)
        if not values or self._enum_values > _MAX_ENUM_VALUES:
            raise NotStrict
        if "type" not in result:
            kinds = types_of_values(values)
            result["type"] = kinds[0] if len(kinds) == 1 else kinds

    def _by_type(self, result: dict[str, Any], depth: int) -> None:
        kinds = types_of(result)
        if not kinds:
            raise NotStrict
        if "array" in kinds:
            result["items"] = self.convert(result.get("items"), depth + 1)
        if "object" in kinds:
            self._object(result, depth)

    def _object(self, result: dict[str, Any], depth: int) -> None:
        properties = as_object(result.get("properties"))
        closed = result.get("additionalProperties", properties is None) is False
        if depth >= _MAX_DEPTH or not closed:
            raise NotStrict
        properties = properties or {}
        self._properties += len(properties)
        if self._properties > _MAX_PROPERTIES:
            raise NotStrict
        required = as_list(result.get("required")) or []
        result["properties"] = {
            name: self._property(item, depth, optional=name not in required)
            for name, item in properties.items()
        }
        if properties or "required" in result:
            result["required"] = list(properties)
        result["additionalProperties"] = False

    def _property(self, schema: Any, depth: int, *, optional: bool) -> dict[str, Any]:
        converted = self.convert(schema, depth + 1)
        if not optional or accepts_null(schema, self._root):
            return converted
        return _nullable(converted)


def _one_union(node: dict[str, Any]) -> dict[str, Any]:
    """Write ``oneOf`` as ``anyOf`` and fold an ``allOf`` of one, as pydantic used to write."""
    result = dict(node)
    parts = as_list(result.pop("allOf", None))
    if parts is not None:
        only = as_object(parts[0]) if len(parts) == 1 else None
        if only is None:
            raise NotStrict
        result = {**only, **result}
    if "oneOf" in result:
        if "anyOf" in result:
            raise NotStrict
        result["anyOf"] = result.pop("oneOf")
    return result


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    kinds = types_of(schema)
    if kinds and "const" not in schema and _SCALAR_TYPES.issuperset(kinds):
        widened = {**schema, "type": [*kinds, "null"]}
        if "enum" in schema:
            widened["enum"] = [*schema["enum"], None]
        return widened
    outside = {key: schema[key] for key in ("title", "description") if key in schema}
    inside = {key: value for key, value in schema.items() if key not in outside}
    if set(inside) == {"anyOf"}:
        return {"anyOf": [*inside["anyOf"], {"type": "null"}], **outside}
    return {"anyOf": [inside, {"type": "null"}], **outside}


def _supported(result: dict[str, Any]) -> dict[str, Any]:
    if "format" in result and result["format"] not in _FORMATS:
        del result["format"]
    pattern = result.get("pattern")
    if pattern is not None and _LOOKAROUND.search(str(pattern)):
        del result["pattern"]
    return result
