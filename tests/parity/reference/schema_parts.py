"""Common parts of schema forms in the reference model."""

from __future__ import annotations

import json

from ..vectors import Json
from .core import our_failure


def type_of(value: Json) -> str:
    """The JSON type of a value."""
    names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
    return names[type(value)]


def types(node: Json) -> list[str]:
    """The types that a schema names."""
    kind = node.get("type")
    return [] if kind is None else [kind] if isinstance(kind, str) else list(kind)


def resolved(node: Json, root: Json) -> Json:
    """The schema with its reference replaced."""
    while "$ref" in node:
        place = root
        for part in node["$ref"].removeprefix("#").strip("/").split("/"):
            place = place[part] if part else place
        node = {**place, **{k: v for k, v in node.items() if k != "$ref"}}
    return node


def object_root(schema: Json) -> Json:
    """The schema with a root that is an object and no union."""
    root = dict(resolved(schema, schema))
    branches = [
        resolved(branch, schema)
        for union in ("anyOf", "oneOf", "allOf")
        for branch in root.get(union, [])
    ]
    every = "allOf" in root
    for key in ("anyOf", "oneOf", "allOf", "not", "enum", "const"):
        root.pop(key, None)
    for node in (root, *branches):
        if types(node) and "object" not in types(node):
            raise our_failure("ToolDefinitionError")
    if not branches:
        return {"properties": {}, **root, "type": "object"}
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


def takes_null(node: Json, root: Json) -> bool:
    """Return whether null is a value of the schema."""
    node = resolved(node, root)
    if "null" in types(node) or node.get("const", 0) is None or None in node.get("enum", []):
        return True
    options = node.get("anyOf") or node.get("oneOf") or []
    return any(takes_null(option, root) for option in options)


def meant(node: Json, root: Json, value: Json) -> Json:
    """Arguments without what only our forms of a schema make a model write.

    Strict ones have null for what is optional, Gemini's JSON text for objects of any names.
    """
    node = _branch(resolved(node, root), root, value) if isinstance(node, dict) else {}
    if isinstance(value, list):
        return [meant(node.get("items"), root, item) for item in value]
    if isinstance(value, str) and _is_of_any_names(node):
        try:
            read = json.loads(value)
        except ValueError:
            return value
        return read if isinstance(read, dict) else value
    if not isinstance(value, dict):
        return value
    known, required = node.get("properties", {}), node.get("required", [])
    left = {n for n in known if n not in required and not takes_null(known[n], root)}
    return {
        name: meant(known.get(name, node.get("additionalProperties")), root, item)
        for name, item in value.items()
        if item is not None or name not in left
    }


def _is_of_any_names(node: Json) -> bool:
    return types(node) == ["object"] and not node.get("properties")


def _branch(node: Json, root: Json, value: Json) -> Json:
    """The branch of a union that a value was written for; of none: nothing is known of it."""
    options = node.get("anyOf") or node.get("oneOf")
    if not options:
        return node
    fitting = [o for o in (resolved(option, root) for option in options) if _fits(o, value)]
    if not fitting or (isinstance(value, str) and len(fitting) > 1):
        return {}
    return _branch(fitting[0], root, value)


def _fits(node: Json, value: Json) -> bool:
    kinds = {"dict": "object", "list": "array", "str": "string"}
    if types(node) and kinds.get(type(value).__name__) not in types(node):
        return isinstance(value, str) and _is_of_any_names(node)
    if not isinstance(value, dict):
        return True
    known = {name: each for name, each in node.get("properties", {}).items() if name in value}
    named = all(
        value[name] in (each.get("const", value[name]), None) for name, each in known.items()
    )
    return named and value.keys() >= set(node.get("required", []))
