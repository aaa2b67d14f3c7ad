"""The manifest of tools: JSON Schemas of their inputs and outputs, for front ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypedDict, get_type_hints

from agentkit_py._core.json import JsonObject
from agentkit_py.tools.definition import Tool, ToolLike, as_tool


class ToolSchemas(TypedDict):
    """The JSON Schemas of a tool's input and output."""

    input: JsonObject
    output: JsonObject


def create_tool_manifest(tools: Iterable[ToolLike]) -> dict[str, ToolSchemas]:
    """JSON Schemas (draft 2020-12) of each tool's input and output, by the tool's name.

    The output's schema comes from the handler's return type; ``{}`` (anything) where it has none.

    Raises:
        ToolDefinitionError: An item is not a tool.
    """
    return {
        found.name: ToolSchemas(input=found.parameters or {}, output=_output(found))
        for found in map(as_tool, tools)
    }


def _output(tool: Tool) -> JsonObject:
    from pydantic import TypeAdapter  # noqa: PLC0415 - slow to load
    from pydantic.errors import PydanticUserError  # noqa: PLC0415 - slow to load

    if tool.generator is not None:
        return {}  # its type is that of yielded values, which include progress
    try:
        hint: Any = get_type_hints(tool.handler).get("return", Any)
        return TypeAdapter(hint).json_schema(mode="serialization")
    except (NameError, TypeError, PydanticUserError):
        return {}  # a type that has no schema says as little as no type
