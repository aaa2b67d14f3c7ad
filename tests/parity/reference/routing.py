"""The default routing agent of the reference model; a placeholder stands for each side's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..vectors import Json
from .core import Result

if TYPE_CHECKING:
    from .networks import NetworkRun

WORDS = "<prose>"
"""Stands for descriptions, which are each side's own."""

_TEXT = {"type": "string", "description": WORDS}


def _ours(properties: dict[str, Json], required: list[str]) -> Json:
    """Return the schema of the arguments as pydantic describes them."""
    described: dict[str, Json] = {}
    for name in properties:
        either = [{"type": "string"}, {"type": "null"}]
        kind = {"type": "string"} if name in required else {"anyOf": either, "default": None}
        described[name] = {**kind, "description": WORDS}
    needed = {"required": required} if required else {}
    return {"properties": described, **needed, "type": "object"}


def _tool(name: str, properties: dict[str, Json], required: list[str], op: str) -> Json:
    schema: dict[str, Json] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    closed = {**schema, "additionalProperties": False}
    forms = {
        "draft-7": {"$schema": "http://json-schema.org/draft-07/schema#", **closed},
        "draft-2020-12": {"$schema": "https://json-schema.org/draft/2020-12/schema", **closed},
        "openapi-3.0(io=input)": schema,
    }
    return {
        "factory": "createTool",
        "name": name,
        "description": WORDS,
        "parameters": {"jsonSchema": forms},
        "handler": {"op": op},
        "routing": True,
        "ours": _ours(properties, required),
    }


SELECT = _tool("select_agent", {"name": _TEXT, "reason": _TEXT}, ["name"], "select")
DONE = _tool("done", {"summary": _TEXT}, [], "done")

DEFAULT_ROUTING: dict[str, Json] = {
    "type": "routing",
    "name": "Default routing agent",
    "system": {"fn": {"default-routing": True}},
    "toolChoice": "any",
}


def default_route(result: Result, run: NetworkRun) -> list[str]:
    """Return the agents chosen by the default routing agent's first call."""
    first = result.tool_calls[0] if result.tool_calls else None
    if first is None or first["tool"]["name"] != "select_agent":
        return []
    content = first["content"]
    name = content.get("data") if isinstance(content, dict) else None
    if isinstance(name, str) and name in run.agents:
        return [name]
    return ["(nobody)"]
