"""JSON Schemas of tools, from which a front end can generate types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict, get_type_hints

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from agentkit_py._core.json import JsonObject
from agentkit_py.engine.tool import Tool, ToolLike, as_tool


class ToolSchemas(TypedDict):
    """What goes into one tool and what comes out."""

    input: JsonObject
    output: JsonObject


def create_tool_manifest(tools: Iterable[ToolLike]) -> dict[str, ToolSchemas]:
    """JSON Schemas (draft 2020-12) of each tool's input and output, by the tool's name.

    The output's schema comes from the handler's return type; ``{}`` (anything) where it has none.

    Raises:
        ToolDefinitionError: One of them is no tool.
    """
    return {
        found.name: ToolSchemas(input=found.parameters or {}, output=_output(found))
        for found in map(as_tool, tools)
    }


def _output(tool: Tool) -> JsonObject:
    try:
        hint: Any = get_type_hints(tool.handler).get("return", Any)
        return TypeAdapter(hint).json_schema(mode="serialization")
    except (NameError, TypeError, PydanticUserError):
        return {}  # a type that has no schema says as little as no type
