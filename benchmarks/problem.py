"""The work of every contender. Imports no library, so that each is measured alone."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any

QUESTION = "Where is my parcel 17?"
ANSWER = "It arrives tomorrow."
SYSTEM = "You are a helpful support agent. Answer briefly, and only from what the tools say."

called = [0]
"""Number of a tool's calls."""


def _found(parcel: int) -> dict[str, Any]:
    called[0] += 1
    return {"parcel": parcel, "status": "on its way"}


# What a model calls: an argument of its own kind and one that may be left out.
async def track_async(parcel: int, detailed: bool = False) -> dict[str, Any]:  # noqa: ARG001, FBT001, FBT002 - the schema's argument
    """Look up where a parcel is."""
    return _found(parcel)


def track_sync(parcel: int, detailed: bool = False) -> dict[str, Any]:  # noqa: ARG001, FBT001, FBT002 - the schema's argument
    """Look up where a parcel is."""
    return _found(parcel)


def text_reply(text: str = ANSWER) -> dict[str, Any]:
    """A reply that says something."""
    return _reply({"role": "assistant", "content": text}, "stop")


def call_reply(number: int) -> dict[str, Any]:
    """A reply that calls the tool ``track``."""
    function = {"name": "track", "arguments": f'{{"parcel":{number},"detailed":false}}'}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return _reply({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls")


def _reply(message: dict[str, Any], reason: str) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": "gpt-4o-2024-08-06",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 120, "completion_tokens": 12, "total_tokens": 132},
    }


async def bare_turn(
    messages: list[dict[str, Any]],
    model: Callable[[dict[str, Any]], Awaitable[Any]],
    specs: Any,
    function: Callable[..., Any],
) -> str:
    """Run without any library: ask, call the tools, ask again."""
    while True:
        body = {"model": "gpt-4o", "messages": messages, "tools": specs}
        reply = await model(body)
        message = reply["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        for call in message["tool_calls"]:
            arguments = json.loads(call["function"]["arguments"])
            if inspect.iscoroutinefunction(function):
                value = await function(**arguments)
            else:
                # As everywhere: a function that blocks must not stop the event loop.
                value = await asyncio.to_thread(function, **arguments)
            content = json.dumps({"data": value})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
