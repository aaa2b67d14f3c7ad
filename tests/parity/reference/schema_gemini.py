"""Gemini's form of schemas in the reference model."""

from __future__ import annotations

from ..vectors import Json
from .core import our_failure
from .js import stringify
from .schema_parts import object_root, resolved, type_of, types


def gemini_schema(schema: Json) -> Json:
    """The part of OpenAPI that Gemini takes; None: no parameters at all."""
    made = _Gemini(schema).convert(object_root(schema), ())
    return made if made.get("properties") else None


_KEPT = frozenset(
    {
        "type", "format", "description", "nullable", "enum", "properties", "required", "items",
        "minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength", "pattern", "anyOf",
    }
)  # fmt: skip
_FORMATS: dict[str, set[str]] = {
    "string": {"enum", "date-time"},
    "number": {"float", "double"},
    "integer": {"int32", "int64"},
}


class _Gemini:
    def __init__(self, root: Json) -> None:
        self._root = root

    def convert(self, node: Json, inside: tuple[str, ...]) -> Json:
        if not isinstance(node, dict) or not node:
            return {"type": "string"}
        if "$ref" in node:
            if node["$ref"] in inside:
                raise our_failure("ToolDefinitionError")
            inside = (*inside, node["$ref"])
            node = resolved(node, self._root)
        node = _folded(node)
        options = node.get("anyOf") or node.get("oneOf")
        if options is not None:
            return self._union(node, options, inside)
        kinds = types(node) or _guessed(node)
        if len([k for k in kinds if k != "null"]) > 1:
            return self._union({}, [{**node, "type": kind} for kind in kinds], inside)
        return self._single(node, kinds, inside)

    def _union(self, node: Json, options: list[Json], inside: tuple[str, ...]) -> Json:
        some = [o for o in options if o.get("type") != "null"]
        made = [self.convert(option, inside) for option in some]
        result = made[0] if len(made) == 1 else {"anyOf": made} if made else {"type": "string"}
        if "description" in node:
            result = {**result, "description": node["description"]}
        return {**result, "nullable": True} if len(some) < len(options) else result

    def _single(self, node: Json, kinds: list[str], inside: tuple[str, ...]) -> Json:
        kind = next((k for k in kinds if k != "null"), "string")
        made = {k: v for k, v in node.items() if k in _KEPT and k not in ("enum", "type")}
        made["type"] = kind
        if kind != "object":
            made = {k: v for k, v in made.items() if k not in ("properties", "required")}
        if kind != "array":
            made.pop("items", None)
        if "null" in kinds:
            made["nullable"] = True
        _values(made, node)
        _bounds(made, node)
        if made.get("format") not in _FORMATS.get(kind, ()):
            made.pop("format", None)
        if kind == "array":
            each = node.get("prefixItems")
            made["items"] = self.convert({"anyOf": each} if each else node.get("items"), inside)
        return self._object(made, inside) if kind == "object" else made

    def _object(self, made: Json, inside: tuple[str, ...]) -> Json:
        properties = made.get("properties") or {}
        if not properties:
            words = " ".join(
                filter(None, [made.get("description"), "A JSON object, written as text."])
            )
            text = {"type": "string", "description": words}
            return {**text, "nullable": True} if made.get("nullable") else text
        made["properties"] = {name: self.convert(p, inside) for name, p in properties.items()}
        required = [name for name in made.get("required") or [] if name in properties]
        made.pop("required", None)
        return {**made, "required": required} if required else made


def _folded(node: Json) -> Json:
    if "allOf" not in node:
        return node
    made: dict[str, Json] = {}
    for part in [*node["allOf"], {k: v for k, v in node.items() if k != "allOf"}]:
        properties = {**made.get("properties", {}), **part.get("properties", {})}
        required = [*made.get("required", []), *part.get("required", [])]
        made = {**made, **part}
        made |= {"properties": properties} if properties else {}
        made |= {"required": list(dict.fromkeys(required))} if required else {}
    return made


def _guessed(node: Json) -> list[str]:
    if "properties" in node:
        return ["object"]
    if "items" in node or "prefixItems" in node:
        return ["array"]
    values = [node["const"]] if "const" in node else node.get("enum") or []
    return list(dict.fromkeys(map(type_of, values)))


def _values(made: Json, node: Json) -> None:
    values = [node["const"]] if "const" in node else node.get("enum")
    if values is None:
        return
    some = [value for value in values if value is not None]
    if len(some) < len(values):
        made["nullable"] = True
    if made["type"] == "string" and some and all(isinstance(v, str) and v for v in some):
        made["enum"] = some
    elif some:
        listed = "One of: " + ", ".join(map(stringify, some)) + "."
        made["description"] = " ".join(filter(None, [made.get("description"), listed]))


def _bounds(made: Json, node: Json) -> None:
    if made["type"] != "integer":
        return
    for exclusive, inclusive, step in (
        ("exclusiveMinimum", "minimum", 1),
        ("exclusiveMaximum", "maximum", -1),
    ):
        if isinstance(node.get(exclusive), int):
            made.setdefault(inclusive, node[exclusive] + step)
