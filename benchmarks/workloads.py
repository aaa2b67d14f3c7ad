"""Conversations of any length, and a model that answers at once."""

from __future__ import annotations

import dataclasses

from problem import Replies, turn_of

from agentkit_py import AgentResult, Message, TextMessage, openai
from agentkit_py.messages import (
    ImageContent,
    TextContent,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.models import Model


def model_of(replies: Replies) -> Model:
    """A model that is answered by ``replies``."""
    return dataclasses.replace(openai("gpt-4o", api_key="x"), respond=replies)


PICTURE = ImageContent("iVBORw0KGgo=", media_type="image/png")


def conversation(count: int) -> list[Message]:
    """``count`` new messages: question, call, result, answer, and again."""
    found: list[Message] = []
    for number in range(-(-count // 4)):
        found += turn(number)
    return found[:count]


def turn(number: int) -> tuple[TextMessage, ToolCallMessage, ToolResultMessage, TextMessage]:
    """One question with everything that answers it."""
    said = turn_of(number)
    call = ToolCall(said.call_id, said.tool, said.arguments)
    return (
        TextMessage("user", said.question),
        ToolCallMessage((call,), agent="support"),
        ToolResultMessage(call, {"data": said.result}, agent="support"),
        TextMessage("assistant", said.answer, stop_reason="stop", agent="support"),
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
