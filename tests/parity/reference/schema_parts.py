"""Common parts of schema forms in the reference model."""

from __future__ import annotations

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
