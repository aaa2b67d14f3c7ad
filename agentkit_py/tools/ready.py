"""Ready-made tools: an agent's list of tasks, and a request for a member of staff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator

from agentkit_py._core.json import JsonObject
from agentkit_py.errors import StateError
from agentkit_py.tools.definition import Tool, ToolContext, create_tool, tool

KEY = "todos"
MAX_TODOS = 50


class Todo(BaseModel):
    """A task of the list."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    content: str = Field(min_length=1, max_length=500, description="The task")
    status: Literal["pending", "in_progress", "completed"] = Field(
        default="pending", description="At most one item is in progress"
    )


class _Todos(BaseModel):
    todos: list[Todo] = Field(
        max_length=MAX_TODOS, description="The whole list; it replaces the previous list"
    )

    @field_validator("todos")
    @classmethod
    def _one_at_a_time(cls, todos: list[Todo]) -> list[Todo]:
        if sum(todo.status == "in_progress" for todo in todos) > 1:
            raise ValueError("at most one item may be in progress")
        return todos


def _write(given: _Todos, ctx: ToolContext) -> JsonObject:
    items = [todo.model_dump() for todo in given.todos]
    data: Any = ctx.state.data
    if isinstance(data, dict):
        cast("dict[str, Any]", data)[KEY] = items
    elif hasattr(data, KEY):
        setattr(data, KEY, items)
    else:
        raise StateError(f"The state's data, {type(data).__name__}, has no {KEY!r} to write to")
    return {"todos": items, "open": sum(todo.status != "completed" for todo in given.todos)}


todo_write: Tool = create_tool(
    name="todo_write",
    description="Write your list of tasks, and keep it up to date as you work: use it for work of "
    "several steps. Each call gives the whole list.",
    parameters=_Todos,
    handler=_write,
)
"""Keeps an agent's list of tasks in ``state.data["todos"]``, each item checked."""


def todos_of(data: Mapping[str, Any] | object) -> Sequence[Todo]:
    """The list in a state's data, for a system prompt that shows it."""
    found: Any = (
        cast("Mapping[str, Any]", data).get(KEY)
        if isinstance(data, Mapping)
        else getattr(data, KEY, None)
    )
    return [Todo.model_validate(item) for item in found or ()]


_ON_IT = "{names} of our team already has this conversation, and answers from now on."
_ASKED = "A colleague has been asked to join. Inform the user, and help until then."


async def _ask(
    reason: Annotated[str, Field(min_length=1, max_length=500, description="Why, in a sentence")],
    ctx: ToolContext,
) -> str:
    found = await ctx.ask_for_person(reason)
    names = " and ".join(one.name for one in found.people)
    return _ON_IT.format(names=names) if names else _ASKED


ask_person: Tool = tool(
    name="ask_person",
    description="Ask a human colleague to take this conversation over: when the user asks for a "
    "person, or when you cannot help.",
    title="Ask a colleague to join",
)(_ask)
"""Puts the thread into the queue of staff; agents answer until a person joins."""
