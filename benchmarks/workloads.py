"""What is worked on: a model that answers at once, tools, and conversations of any length."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from agentkit_py import (
    AgentResult,
    ImageContent,
    Message,
    Model,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    openai,
)

QUESTION = "Where is my parcel 17?"
ANSWER = "It arrives tomorrow."
SYSTEM = "You are a helpful support agent. Answer briefly, and only from what the tools say."


class Replies:
    """Answers in a circle, at once and in this process; counts how often it was asked."""

    def __init__(self, *replies: dict[str, Any]) -> None:
        self.replies = replies
        self.asked = 0
        self.recorded: list[dict[str, Any]] | None = None

    async def __call__(self, body: dict[str, Any]) -> object:
        """The next reply, as OpenAI's JSON."""
        if self.recorded is not None:
            self.recorded.append(body)
        reply = self.replies[self.asked % len(self.replies)]
        self.asked += 1
        return reply


def model_of(replies: Replies) -> Model:
    """A model that is answered by ``replies``."""
    return dataclasses.replace(openai("gpt-4o", api_key="x"), respond=replies)


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


TOOLS = ("track", "refund", "invoice", "booking", "weather")
PICTURE = ImageContent("iVBORw0KGgo=", media_type="image/png")
KEPT = ("track", "refund")
"""The tools whose calls a filter with ``include`` leaves."""


def conversation(count: int) -> list[Message]:
    """``count`` new messages: question, call, result, answer, and again."""
    found: list[Message] = []
    for number in range(-(-count // 4)):
        found += turn(number)
    return found[:count]


def turn(number: int) -> tuple[TextMessage, ToolCallMessage, ToolResultMessage, TextMessage]:
    """One question with everything that answers it."""
    name = TOOLS[number % len(TOOLS)]
    call = ToolCall(f"call_{number}", name, {"parcel": number, "detailed": number % 2 == 0})
    found = {"parcel": number, "status": "on its way", "stops": ["Graz", "Linz", "Wien"]}
    return (
        TextMessage("user", f"Hello again, could you tell me where my parcel {number} is today?"),
        ToolCallMessage((call,), agent="support"),
        ToolResultMessage(call, {"data": found}, agent="support"),
        TextMessage(
            "assistant",
            f"Parcel {number} has left Linz this morning and is expected in Wien tomorrow.",
            stop_reason="stop",
            agent="support",
        ),
    )


def eventful(count: int) -> list[Message]:
    """As many messages with long results, some images, and some calls without a result."""
    found: list[Message] = []
    for number in range(-(-count // 4) + count // 200):
        question, calls, answer, text = turn(number)
        stops = [{"stop": stop, "note": "on time " * 4} for stop in range(12)]
        found.append(
            question
            if number % 40
            else dataclasses.replace(question, content=(TextContent(question.text), PICTURE))
        )
        found.append(calls)
        if number % 50:
            data = {"parcel": number % 100, "mail": "ada@example.com", "stops": stops}
            found.append(dataclasses.replace(answer, content={"data": data}))
        found.append(text)
    return found[:count]


def results(count: int) -> list[AgentResult]:
    """The same conversation as ``count`` messages of a state or thread."""
    found: list[AgentResult] = []
    for number in range(count // 4):
        question, calls, answer, text = turn(number)
        found += [
            AgentResult.from_user(question.content, id=f"user-{number}"),
            AgentResult("support", (calls,), (answer,), id=f"calls-{number}"),
            AgentResult("support", (text,), id=f"text-{number}"),
        ]
    return found


def as_dicts(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The same in OpenAI's format, as a program without a library would keep it."""
    found: list[dict[str, Any]] = []
    for message in messages:
        match message:
            case ToolCallMessage():
                calls = [{"id": c.id, "function": {"name": c.name}} for c in message.tools]
                found.append({"role": "assistant", "tool_calls": calls})
            case ToolResultMessage():
                found.append({"role": "tool", "tool_call_id": message.tool.id, "content": "{}"})
            case _:
                found.append({"role": message.role, "content": message.content})
    return found
