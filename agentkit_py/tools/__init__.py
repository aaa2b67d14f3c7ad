"""Tools: functions that a model may call, and how front ends learn of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentkit_py.events.types import Progress
from agentkit_py.tools.definition import (
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
from agentkit_py.tools.manifest import ToolSchemas, create_tool_manifest
from agentkit_py.tools.nested import AsToolOptions
from agentkit_py.tools.provider_tools import provider_tool

if TYPE_CHECKING:
    from agentkit_py.tools.ready import Todo, ask_person, todo_write, todos_of

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
        {"agentkit_py.tools.ready": "Todo ask_person todo_write todos_of"},
    )
