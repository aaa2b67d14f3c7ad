"""Tool schemas as TypeScript sends them, and as providers take them."""

from __future__ import annotations

import copy
import re
from typing import Any

from ..handlers import input_schema
from ..vectors import Json
from .core import Failure, Switches, engine_failure, prose_failure
from .schema_gemini import gemini_schema
from .schema_parts import object_root, resolved, takes_null, type_of, types

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
_STRICT_KEYWORDS = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf",
        "$ref", "$defs", "definitions", "title", "description", "pattern", "format", "multipleOf",
        "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "minItems", "maxItems",
    }
)  # fmt: skip
_UNSAYABLE = frozenset(
    {
        "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties",
        "propertyNames", "allOf", "unevaluatedProperties", "unevaluatedItems", "contains",
        "prefixItems", "additionalItems",
    }
)  # fmt: skip


def chat_tools(
    tools: list[Json], *, strict: bool, on: Switches, theirs: bool | None = None
) -> list[Json]:
    """Return the tools in OpenAI's format; ``theirs``: whether TypeScript asks for strict ones."""
    found: list[Json] = []
    for tool in tools:
        function = {"name": tool["name"], **_described(tool, on)}
        parameters, is_strict = _chat_parameters(
            tool, strict=strict, their_strict=strict if theirs is None else theirs, on=on
        )
        if parameters is not None:
            function["parameters"] = parameters
        found.append({"type": "function", "function": {**function, "strict": is_strict}})
    return found


def _described(tool: Json, on: Switches) -> dict[str, Json]:
    """The description, which TypeScript's adapters send as it is."""
    said = tool.get("description")
    kept = said is not None and (said or not on("empty-parts-are-left-out"))
    return {"description": said} if kept else {}


def _chat_parameters(
    tool: Json, *, strict: bool, their_strict: bool, on: Switches
) -> tuple[Json, bool]:
    theirs = _recorded(tool, "draft-7"), _their_strict(tool) if their_strict else False
    try:
        ours = _our_chat_parameters(tool, strict=strict)
    except Failure:
        if on("schemas-providers-take"):
            raise
        return theirs
    return _chosen(theirs, ours, _which(tool, theirs, ours, strict=strict), on)


def _which(tool: Json, theirs: Any, ours: Any, *, strict: bool) -> str:
    if "mcp" in tool:
        return "mcp-schemas-undamaged"
    if tool.get("parameters") is None or theirs[0] == ours[0]:
        return "strict-where-it-can-be"
    if "ours" in tool:
        return "routing-tools"
    if _our_side(tool) != tool["parameters"]["jsonSchema"]["draft-2020-12"]:
        return "schemas-describe-input"
    return "strict-schemas-are-valid" if strict else "schemas-providers-take"


def _own_side(tool: Json, divergence: str) -> str:
    if "mcp" in tool:
        return "mcp-schemas-undamaged"
    return "routing-tools" if "ours" in tool else divergence


def _their_strict(tool: Json) -> bool:
    given = tool.get("strict") if tool["factory"] == "plain" else None
    return tool.get("parameters") is not None if given is None else given


def _recorded(tool: Json, target: str) -> Json:
    if tool.get("parameters") is None:
        return None
    if tool.get("mcp") == "broken":
        raise engine_failure("TypeError")
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
    if theirs in (_NONE, (_NONE, True), (_NONE, False)):
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
    plain = {k: v for k, v in object_root(schema).items() if k != "$schema"}
    plain = plain if strict else _without_circles(plain)
    return {"$schema": DRAFT_7, **_draft_7(plain)}, False


def _without_circles(root: dict[str, Json]) -> dict[str, Json]:
    """What xAI takes: a definition that comes back inside itself is an object, said in words."""
    definitions = root.get("$defs", {})
    made: dict[str, Json] = {}

    def walk(node: Json, inside: tuple[str, ...]) -> Json:
        if isinstance(node, list):
            return [walk(item, inside) for item in node]
        if not isinstance(node, dict):
            return node
        ref = node.get("$ref")
        name = ref.rpartition("/")[2] if isinstance(ref, str) else None
        if ref in inside:
            target = root if ref == "#" else definitions[name]
            words: dict[str, Json] = {"description": f"{name}, once more."}
            loose = {"type": "object", "additionalProperties": True}
            return words | loose if target.get("type") == "object" else words
        if name is not None and name in definitions and name not in made:
            made[name] = {}
            made[name] = walk(definitions[name], (*inside, str(ref)))
        return {key: walk(value, inside) for key, value in node.items()}

    found = walk({k: v for k, v in root.items() if k != "$defs"}, ("#",))
    return {**found, "$defs": made} if made else found


class _NotStrict(Exception):  # noqa: N818 - a signal
    pass


def _strict_root(schema: Json) -> Json:
    root = resolved(schema, schema)
    if root.get("type") != "object" or {"anyOf", "oneOf", "allOf"} & root.keys():
        raise _NotStrict
    return _draft_7(_strict(root, schema, 0))


def _strict(node: Json, root: Json, depth: int) -> Json:
    if not isinstance(node, dict) or depth > 12 or _UNSAYABLE & node.keys():
        raise _NotStrict
    node = dict(node)
    if "oneOf" in node:
        node["anyOf"] = node.pop("oneOf")
    if "$ref" in node:
        siblings = {k: node[k] for k in ("title", "description") if k in node}
        return (
            {"anyOf": [{"$ref": node["$ref"]}], **siblings} if siblings else {"$ref": node["$ref"]}
        )
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
    kinds = types(made)
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
        kind = type_of(value)
        if kind not in kinds:
            kinds.append(kind)
    made["type"] = kinds[0] if len(kinds) == 1 else kinds


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
    if takes_null(item, root):
        return converted
    kinds = types(converted)
    scalars = {"string", "number", "integer", "boolean"}
    if kinds and scalars.issuperset(kinds) and "const" not in converted:
        enum = {"enum": [*converted["enum"], None]} if "enum" in converted else {}
        return {**converted, "type": [*kinds, "null"], **enum}
    outside = {k: v for k, v in converted.items() if k in ("title", "description")}
    inside = {k: v for k, v in converted.items() if k not in outside}
    options = inside["anyOf"] if set(inside) == {"anyOf"} else [inside]
    return {"anyOf": [*options, {"type": "null"}], **outside}


def _draft_7(node: Json) -> Json:
    """The schema in draft 7: ``definitions``, and items on every array."""
    if isinstance(node, list):
        return [_draft_7(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {k: _draft_7(v) for k, v in node.items()}
    if "$defs" in made:
        made["definitions"] = made.pop("$defs")
    if isinstance(made.get("$ref"), str):
        made["$ref"] = made["$ref"].replace("#/$defs/", "#/definitions/")
    if "array" in types(made) if isinstance(made.get("type"), str | list) else False:
        made.setdefault("items", {})
    return made


def anthropic_tools(tools: list[Json], on: Switches, *, strict: bool, forced: bool) -> list[Json]:
    """Return the tools in Anthropic's format.

    Args:
        tools: Those of the agent.
        on: Our differences.
        strict: The model takes strict tools; anthropic.ts `requestParser` sends none.
        forced: One of them must be called, and the model has to be asked for it in words.
    """
    found: list[Json] = []
    for tool in tools:
        made = {"name": tool["name"], **_described(tool, on)}
        wanted = strict and (tool.get("strict") or (forced and tool.get("strict") is None))
        schema = _claudes_strict(_our_side(tool)) if wanted else None
        if schema is not None and on("anthropic-strict-tools"):
            made |= {"input_schema": schema, "strict": True}
        else:
            made["input_schema"] = _anthropic_schema(tool, on)
        found.append(made)
    return found


_CLAUDES_KEYWORDS = frozenset(
    {"type", "properties", "required", "items", "enum", "const", "anyOf", "title", "description"}
)


def _claudes_strict(schema: Json) -> Json:
    """The schema in Claude's strict mode, without references and limits; None: it has none."""
    schema = schema or {"type": "object", "properties": {}}
    if types(resolved(schema, schema)) != ["object"]:
        return None
    try:
        return _claudes(schema, schema, ())
    except _NotStrict:
        return None


def _claudes(node: Json, root: Json, inside: tuple[str, ...]) -> Json:
    if not isinstance(node, dict) or _UNSAYABLE & node.keys() or node.get("$ref") in inside:
        raise _NotStrict
    if "$ref" in node:
        inside, node = (*inside, node["$ref"]), resolved(node, root)
    if "oneOf" in node:
        node = {**node, "anyOf": node["oneOf"]}
    made = {k: v for k, v in node.items() if k in _CLAUDES_KEYWORDS}
    values = [node["const"]] if "const" in node else node.get("enum")
    if values is not None and types(node) != list(dict.fromkeys(map(type_of, values))):
        made.pop("type", None)
    if values is None and not types(node) and "anyOf" not in made:
        raise _NotStrict
    if "anyOf" in made:
        made["anyOf"] = [_claudes(option, root, inside) for option in made["anyOf"]]
    if "array" in types(made):
        made["items"] = _claudes(made.get("items"), root, inside)
    if "object" in types(made):
        properties = node.get("properties")
        if node.get("additionalProperties", properties is None) is not False:
            raise _NotStrict
        properties = properties or {}
        made["properties"] = {n: _claudes(p, root, inside) for n, p in properties.items()}
        made["additionalProperties"] = False
    return made


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
    return _chosen(theirs, ours, _own_side(tool, divergence), on)


def _anthropic_root(schema: Json) -> Json:
    return {k: v for k, v in object_root(schema).items() if k != "$schema"}


def gemini_tools(tools: list[Json], on: Switches) -> list[Json]:
    """Return the tools in Gemini's format."""
    found: list[Json] = []
    for tool in tools:
        declared: dict[str, Json] = {"name": tool["name"], **_described(tool, on)}
        theirs = _their_gemini(tool)
        try:
            ours = None if tool.get("parameters") is None else gemini_schema(_our_side(tool))
        except Failure:
            if on("schemas-providers-take"):
                raise
            ours = theirs
        empty = tool.get("parameters") is None
        which = "gemini-tools-without-arguments" if empty else "schemas-providers-take"
        which = _own_side(tool, which)
        theirs = _chosen(theirs, ours, which, on)
        if theirs is not None:
            declared["parameters"] = theirs
        found.append(declared)
    return found


def _their_gemini(tool: Json) -> Json:
    if tool.get("parameters") is None:
        return {"type": "object", "properties": {}}  # gemini.ts: `z.object({})`
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
