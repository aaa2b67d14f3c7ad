"""A tool by which an agent asks for a person of the staff."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from agentkit_py._engine.tool import Tool, ToolContext, tool

_ON_IT = "{names} of the staff is on this conversation already, and answers from here on."
_ASKED = "A person of the staff has been asked to join. Tell the user so, and help until then."


async def _ask(
    reason: Annotated[str, Field(min_length=1, max_length=500, description="Why, in a sentence")],
    ctx: ToolContext,
) -> str:
    found = await ctx.ask_for_person(reason)
    names = " and ".join(one.name for one in found.people)
    return _ON_IT.format(names=names) if names else _ASKED


ask_person: Tool = tool(
    name="ask_person",
    description="Ask for a person of the staff to take this conversation over: when the user asks "
    "for one, or when you cannot help.",
)(_ask)
"""Puts the thread into the queue of staff; agents answer until a person joins."""
