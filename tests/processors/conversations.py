"""Conversations that tests of single processors share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any

from agentkit_py._core.json import dumps
from agentkit_py.messages import Message, TextMessage, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import (
    ApproximateTokenizer,
    HistoryProcessor,
    Processor,
    ProcessorContext,
    apply_processors,
)

CONTEXT = ProcessorContext(agent="me", tokenizer=ApproximateTokenizer())


def call(number: int, name: str = "search", **given: Any) -> ToolCall:
    """A call with an id of its own."""
    return ToolCall(f"call_{number}", name, given)


def asked(*calls: ToolCall, agent: str | None = None) -> ToolCallMessage:
    """A message with calls."""
    return ToolCallMessage(calls, agent=agent)


def gave(answered: ToolCall, data: Any = "found", agent: str | None = None) -> ToolResultMessage:
    """A result, in the engine's envelope."""
    return ToolResultMessage(answered, {"data": data}, agent=agent)


def user(text: str) -> TextMessage:
    """Return a user's message."""
    return TextMessage("user", text)


def said(text: str, agent: str | None = None) -> TextMessage:
    """Return an agent's message."""
    return TextMessage("assistant", text, agent=agent)


def turns(count: int) -> list[Message]:
    """Question, call, result, answer, and again."""
    found: list[Message] = []
    for number in range(count):
        one = call(number, q=number)
        found += [user(f"q{number}"), asked(one), gave(one, f"r{number}"), said(f"a{number}")]
    return found


def left(
    messages: Sequence[Message], *chain: Processor, context: ProcessorContext = CONTEXT
) -> list[Message]:
    """Return the messages that the processors leave."""
    return list(asyncio.run(apply_processors(messages, chain, context)))


def processed(
    processor: HistoryProcessor, messages: Sequence[Message], context: ProcessorContext = CONTEXT
) -> Sequence[Message]:
    """Return one processor's result: the very list where it changes nothing."""

    async def result() -> Sequence[Message]:
        found = processor.process(messages, context)
        return await found if isinstance(found, Awaitable) else found

    return asyncio.run(result())


def shown(messages: Sequence[Message]) -> list[str]:
    """Messages in short: texts as they are, calls by their ids, results by their content."""
    return [_short(message) for message in messages]


def _short(message: Message) -> str:
    if message.type == "tool_call":
        return "calls " + " ".join(c.id for c in message.tools)
    if message.type == "tool_result":
        return f"{message.tool.id}: {dumps(message.content)}"
    if message.type == "opaque":
        return str(message)
    return message.text if message.type == "text" else message.content


class Counting:
    """A tokenizer that notes what it was asked to count."""

    key = "counting"

    def __init__(self) -> None:
        self.counted: list[str] = []

    def count(self, text: str) -> int:
        """One token per four characters."""
        self.counted.append(text)
        return len(text) // 4
