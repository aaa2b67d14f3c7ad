"""Tools: functions that a model may call, and how front ends learn of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypedDict, get_type_hints

from agentkit_py._core.json import JsonObject
from agentkit_py._engine.nested_runs import AsToolOptions
from agentkit_py._engine.provider_tools import provider_tool
from agentkit_py._engine.tool import (
    Check,
    Condition,
    Tool,
    ToolContext,
    ToolLike,
    ToolTraits,
    as_tool,
    create_tool,
    tool,
)
from agentkit_py.events.types import Progress

if TYPE_CHECKING:
    from agentkit_py._engine.ready_tools import Todo, ask_person, todo_write, todos_of

__all__ = [
    "AsToolOptions",
    "Check",
    "Condition",
    "Progress",
    "Todo",
    "Tool",
    "ToolContext",
    "ToolLike",
    "ToolSchemas",
    "ToolTraits",
    "as_tool",
    "ask_person",
    "create_tool",
    "create_tool_manifest",
    "provider_tool",
    "todo_write",
    "todos_of",
    "tool",
]

if not TYPE_CHECKING:  # else every misspelled name would be an Any
    from agentkit_py._core.lazy import lazily as _lazily

    __getattr__ = _lazily(
        __name__,
        {"agentkit_py._engine.ready_tools": "Todo ask_person todo_write todos_of"},
    )


class ToolSchemas(TypedDict):
    """The JSON Schemas of one tool's input and output."""

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
    from pydantic import TypeAdapter  # noqa: PLC0415 - slow to load
    from pydantic.errors import PydanticUserError  # noqa: PLC0415 - slow to load

    if tool.generator is not None:
        return {}  # its type says what it yields, progress among it
    try:
        hint: Any = get_type_hints(tool.handler).get("return", Any)
        return TypeAdapter(hint).json_schema(mode="serialization")
    except (NameError, TypeError, PydanticUserError):
        return {}  # a type that has no schema says as little as no type
