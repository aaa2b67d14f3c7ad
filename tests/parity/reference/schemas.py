"""Tool schemas as TypeScript sends them, and as providers take them."""

from __future__ import annotations

import copy
import re
from typing import Any

from ..handlers import input_schema
from ..vectors import Json
from .core import Failure, Switches, our_failure, prose_failure

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
_STRICT_KEYWORDS = frozenset(
    "type properties required additionalProperties items enum const anyOf $ref $defs definitions title "
    "description pattern format multipleOf maximum exclusiveMaximum minimum exclusiveMinimum minItems "
    "maxItems".split()
)
_UNSAYABLE = frozenset(
    "not if then else dependentRequired dependentSchemas patternProperties propertyNames allOf "
    "unevaluatedProperties unevaluatedItems contains prefixItems additionalItems".split()
)


def chat_tools(tools: list[Json], *, strict: bool, on: Switches) -> list[Json]:
    """Tools for OpenAI's format."""
    found: list[Json] = []
    for tool in tools:
        function: dict[str, Json] = {"name": tool["name"]}
        if tool.get("description"):
            function["description"] = tool["description"]
        parameters, is_strict = _chat_parameters(tool, strict=strict, on=on)
        if parameters is not None:
            function["parameters"] = parameters
        found.append({"type": "function", "function": {**function, "strict": is_strict}})
    return found


def _chat_parameters(tool: Json, *, strict: bool, on: Switches) -> tuple[Json, bool]:
    theirs = _recorded(tool, "draft-7"), _their_strict(tool) if strict else False
    try:
        ours = _our_chat_parameters(tool, strict=strict)
    except Failure:
        if on("schemas-providers-take"):
            raise
        return theirs
    return _chosen(theirs, ours, _which(tool, theirs, ours, strict=strict), on)


def _which(tool: Json, theirs: Any, ours: Any, *, strict: bool) -> str:
    if tool.get("parameters") is None or theirs[0] == ours[0]:
        return "strict-where-it-can-be"
    if "ours" in tool:
        return "routing-tools"
    if _our_side(tool) != tool["parameters"]["jsonSchema"]["draft-2020-12"]:
        return "schemas-describe-input"
    return "strict-schemas-are-valid" if strict else "schemas-providers-take"


def _their_strict(tool: Json) -> bool:
    given = tool.get("strict") if tool["factory"] == "plain" else None
    return tool.get("parameters") is not None if given is None else given


def _recorded(tool: Json, target: str) -> Json:
    if tool.get("parameters") is None:
        return None
    schema = tool["parameters"]["jsonSchema"].get(target)
    return _NONE if "$error" in schema else copy.deepcopy(schema)


_NONE = {"$error": True}
"""Zod has no schema for it on this side."""


def _chosen(theirs: Json, ours: Json, divergence: str, on: Switches) -> Json:
    """One of the two, where they differ.

    Raises:
        Failure: TypeScript has none.
    """
    if theirs == ours or on(divergence):
        return ours
    if theirs == _NONE or theirs == (_NONE, True) or theirs == (_NONE, False):
        raise prose_failure("no-schema")
    return theirs


def _our_side(tool: Json) -> Json:
    if tool.get("parameters") is None:
        return None
    return tool["ours"] if "ours" in tool else input_schema(tool["parameters"])


def _our_chat_parameters(tool: Json, *, strict: bool) -> tuple[Json, bool]:
    schema = _our_side(tool)
    if schema is None:
        return None, False
    if strict and tool.get("strict") is not False:
        try:
            return {"$schema": DRAFT_7, **_strict_root(schema)}, True
        except _NotStrict:
            pass
    return {"$schema": DRAFT_7, **_draft_7(_object_root(schema))}, False


class _NotStrict(Exception):  # noqa: N818 - a signal
    pass


def _strict_root(schema: Json) -> Json:
    root = _resolved(schema, schema)
    if root.get("type") != "object" or {"anyOf", "oneOf", "allOf"} & root.keys():
        raise _NotStrict
    return _draft_7(_strict(root, schema, 0))


def _strict(node: Json, root: Json, depth: int) -> Json:
    if not isinstance(node, dict) or depth > 12 or _UNSAYABLE & node.keys():  # noqa: PLR2004
        raise _NotStrict
    node = dict(node)
    if "oneOf" in node:
        node["anyOf"] = node.pop("oneOf")
    if "$ref" in node:
        beside = {k: node[k] for k in ("title", "description") if k in node}
        return {"anyOf": [{"$ref": node["$ref"]}], **beside} if beside else {"$ref": node["$ref"]}
    made = {k: v for k, v in node.items() if k in _STRICT_KEYWORDS}
    for key in ("$defs", "definitions"):
        if key in made:
            made[key] = {name: _strict(item, root, 1) for name, item in made[key].items()}
    if "anyOf" in made:
        made["anyOf"] = [_strict(option, root, depth + 1) for option in made["anyOf"]]
        return made
    return _strict_typed(made, root, depth)


def _strict_typed(made: Json, root: Json, depth: int) -> Json:
    _typed_by_values(made)
    kinds = _types(made)
    if not kinds:
        raise _NotStrict
    if "array" in kinds:
        made["items"] = _strict(made.get("items"), root, depth + 1)
    if "object" in kinds:
        _strict_object(made, root, depth)
    if made.get("format", "uuid") not in _FORMATS:
        del made["format"]
    if re.search(r"\(\?<?[=!]|\\[1-9]", made.get("pattern", "")):
        del made["pattern"]
    return made


def _typed_by_values(made: Json) -> None:
    values = [made["const"]] if "const" in made else made.get("enum")
    if values is None or "type" in made:
        return
    if not values:
        raise _NotStrict
    kinds: list[str] = []
    for value in values:
        kind = _type_of(value)
        if kind not in kinds:
            kinds.append(kind)
    made["type"] = kinds[0] if len(kinds) == 1 else kinds


def _type_of(value: Json) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
    return names[type(value)]


def _strict_object(made: Json, root: Json, depth: int) -> None:
    properties = made.get("properties")
    if made.get("additionalProperties", properties is None) is not False:
        raise _NotStrict
    required = made.get("required") or []
    converted = {
        name: _strict(item, root, depth + 1) if name in required else _optional(item, root, depth)
        for name, item in (properties or {}).items()
    }
    if converted or "required" in made:
        made["required"] = list(converted)
    made["properties"] = converted
    made["additionalProperties"] = False


def _optional(item: Json, root: Json, depth: int) -> Json:
    converted = _strict(item, root, depth + 1)
    if _takes_null(item, root):
        return converted
    kinds = _types(converted)
    scalars = {"string", "number", "integer", "boolean"}
    if kinds and scalars.issuperset(kinds) and "const" not in converted:
        enum = {"enum": [*converted["enum"], None]} if "enum" in converted else {}
        return {**converted, "type": [*kinds, "null"], **enum}
    outside = {k: v for k, v in converted.items() if k in ("title", "description")}
    inside = {k: v for k, v in converted.items() if k not in outside}
    options = inside["anyOf"] if set(inside) == {"anyOf"} else [inside]
    return {"anyOf": [*options, {"type": "null"}], **outside}


def _takes_null(node: Json, root: Json) -> bool:
    node = _resolved(node, root)
    if "null" in _types(node) or node.get("const", 0) is None or None in node.get("enum", []):
        return True
    options = node.get("anyOf") or node.get("oneOf") or []
    return any(_takes_null(option, root) for option in options)


def _types(node: Json) -> list[str]:
    kind = node.get("type")
    return [] if kind is None else [kind] if isinstance(kind, str) else list(kind)


def _resolved(node: Json, root: Json) -> Json:
    while "$ref" in node:
        place = root
        for part in node["$ref"].removeprefix("#").strip("/").split("/"):
            place = place[part] if part else place
        node = {**place, **{k: v for k, v in node.items() if k != "$ref"}}
    return node


def _object_root(schema: Json) -> Json:
    root = dict(_resolved(schema, schema))
    branches = [
        _resolved(branch, schema)
        for union in ("anyOf", "oneOf", "allOf")
        for branch in root.get(union, [])
    ]
    every = "allOf" in root
    for key in ("anyOf", "oneOf", "allOf", "not", "enum", "const"):
        root.pop(key, None)
    for node in (root, *branches):
        if _types(node) and "object" not in _types(node):
            raise our_failure("ToolDefinitionError")
    if not branches:
        return {"type": "object", "properties": {}, **root, **{"type": "object"}}
    return _merged_branches(root, branches, every=every)


def _merged_branches(root: Json, branches: list[Json], *, every: bool) -> Json:
    properties = dict(root.get("properties", {}))
    required = [set(branch.get("required", [])) for branch in branches]
    common = set.union(*required) if every else set.intersection(*required)
    for branch in branches:
        for name, schema in branch.get("properties", {}).items():
            known = properties.get(name, schema)
            properties[name] = schema if known == schema else {"anyOf": [known, schema]}
    needed = common | set(root.get("required", []))
    rest = {k: v for k, v in root.items() if k != "additionalProperties"}
    names = [name for name in properties if name in needed]
    return {**rest, "type": "object", "properties": properties, "required": names}


def _draft_7(node: Json) -> Json:
    """The schema in draft 7: ``definitions``, and items on every array."""
    if isinstance(node, list):
        return [_draft_7(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {k: _draft_7(v) for k, v in node.items() if k != "$schema"}
    if "$defs" in made:
        made["definitions"] = made.pop("$defs")
    if isinstance(made.get("$ref"), str):
        made["$ref"] = made["$ref"].replace("#/$defs/", "#/definitions/")
    if "array" in _types(made) if isinstance(made.get("type"), str | list) else False:
        made.setdefault("items", {})
    return made


def anthropic_tools(tools: list[Json], on: Switches) -> list[Json]:
    """Tools for Anthropic."""
    found: list[Json] = []
    for tool in tools:
        described = {"description": tool["description"]} if tool.get("description") else {}
        found.append(
            {"name": tool["name"], **described, "input_schema": _anthropic_schema(tool, on)}
        )
    return found


def _anthropic_schema(tool: Json, on: Switches) -> Json:
    if tool.get("parameters") is None:
        empty = {"type": "object", "properties": {}, "additionalProperties": False}
        return {"$schema": DRAFT_2020, **empty}
    theirs = _recorded(tool, "draft-2020-12")
    side = _our_side(tool)
    try:
        ours = {"$schema": DRAFT_2020, **_anthropic_root(side)}
    except Failure:
        if on("schemas-providers-take"):
            raise
        return theirs
    divergence = "schemas-describe-input" if side != theirs else "schemas-providers-take"
    return _chosen(theirs, ours, "routing-tools" if "ours" in tool else divergence, on)


def _anthropic_root(schema: Json) -> Json:
    return {k: v for k, v in _object_root(schema).items() if k != "$schema"}


def gemini_tools(tools: list[Json], on: Switches) -> list[Json]:
    """Tools for Gemini."""
    found: list[Json] = []
    for tool in tools:
        described = {"description": tool["description"]} if tool.get("description") else {}
        declared: dict[str, Json] = {"name": tool["name"], **described}
        theirs = _their_gemini(tool)
        try:
            ours = None if tool.get("parameters") is None else gemini_schema(_our_side(tool))
        except Failure:
            if on("schemas-providers-take"):
                raise
            ours = theirs
        which = "routing-tools" if "ours" in tool else "schemas-providers-take"
        theirs = _chosen(theirs, ours, which, on)
        if theirs is not None:
            declared["parameters"] = theirs
        found.append(declared)
    return found


def _their_gemini(tool: Json) -> Json:
    if tool.get("parameters") is None:
        return None
    return _without_extra(_recorded(tool, "openapi-3.0(io=input)"))


def _without_extra(schema: Json) -> Json:
    if isinstance(schema, list):
        return [_without_extra(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        k: _without_extra(v)
        for k, v in schema.items()
        if k not in ("additionalProperties", "$schema")
    }


def gemini_schema(schema: Json) -> Json:
    """The part of OpenAPI that Gemini takes; None: no parameters at all."""
    made = _Gemini(schema).convert(_object_root(schema), ())
    return made if made.get("properties") else None


class _Gemini:
    KEPT = frozenset(
        "type format description nullable enum properties required items minItems maxItems minimum "
        "maximum minLength maxLength pattern anyOf".split()
    )
    FORMATS = {
        "string": {"enum", "date-time"},
        "number": {"float", "double"},
        "integer": {"int32", "int64"},
    }

    def __init__(self, root: Json) -> None:
        self._root = root

    def convert(self, node: Json, inside: tuple[str, ...]) -> Json:
        if not isinstance(node, dict) or not node:
            return {"type": "string"}
        if "$ref" in node:
            if node["$ref"] in inside:
                raise our_failure("ToolDefinitionError")
            inside = (*inside, node["$ref"])
            node = _resolved(node, self._root)
        node = _folded(node)
        options = node.get("anyOf") or node.get("oneOf")
        if options is not None:
            return self._union(node, options, inside)
        kinds = _types(node) or _guessed(node)
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
        made = {k: v for k, v in node.items() if k in self.KEPT and k not in ("enum", "type")}
        made["type"] = kind
        if kind != "object":
            made = {k: v for k, v in made.items() if k not in ("properties", "required")}
        if kind != "array":
            made.pop("items", None)
        if "null" in kinds:
            made["nullable"] = True
        _values(made, node)
        _bounds(made, node)
        if made.get("format") not in self.FORMATS.get(kind, ()):
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
    return list(dict.fromkeys(map(_type_of, values)))


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
        from .js import stringify

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
