"""What all wire formats share: names, clean texts, and the words we put in ourselves."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from agentkit_py._core.json import JsonValue, dumps
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message, TextMessage, ToolCall
from agentkit_py.models.arguments import arguments_text
from agentkit_py.models.base import ModelRequest
from agentkit_py.models.media import text_pieces

EMPTY_TURN = "Continue."
"""The user's turn where a provider wants one and there is none at all."""

OPENING_TURN = "(The conversation so far:)"
"""The user's turn before a conversation that begins with an assistant, where one is required."""

AUTHOR_TURN = "Agent {agent} said:\n\n{text}"
"""A user turn with the text of another agent that was last to speak."""

OWN_TURN = "You said:\n\n{text}"
"""A user turn with the text of the agent itself, which was last to speak."""

UNKNOWN_AUTHOR_TURN = "The assistant said:\n\n{text}"
"""A user turn with the last text where nobody knows who wrote it."""

PREFILL_TURN = "Begin your reply with exactly this text, and continue from there:\n\n{text}"
"""A user turn in place of a prefill, for models that refuse to continue a turn of their own."""

CALL_TEXT = "[Called tool {name} with {arguments}]"
"""A tool call as text, where the request has no tools."""

RESULT_TEXT = "[Result of tool {name}: {content}]"
"""A tool's result as text, where the request has no tools."""

NO_RESULT = "No result."
"""Result of a call that has none. The engine never sends one; encoders stay total."""

_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_NAME = 64
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")


def wire_name(name: str) -> str:
    """``name`` as a tool may be called everywhere; history may hold names from anywhere."""
    if _NAME.fullmatch(name):
        return name
    cleaned = _NOT_IN_NAME.sub("_", name)[:_MAX_NAME]
    return cleaned if _NAME.fullmatch(cleaned) else f"_{cleaned}"[:_MAX_NAME]


def result_text(content: JsonValue) -> str:
    """A tool result as text: strings as they are, all else as JSON."""
    return clean(content if isinstance(content, str) else dumps(content))


def clean(text: str) -> str:
    """``text`` without lone surrogates, which UTF-8 has no form for and providers refuse."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def clean_json(value: dict[str, Any]) -> dict[str, Any]:
    """JSON without lone surrogates; the same object where there are none."""
    text = dumps(value)
    cleaned = clean(text)
    return value if cleaned is text else json.loads(cleaned)


def texts(message: TextMessage) -> list[str]:
    """The message's pieces of text that hold more than whitespace; images and files in words."""
    content = message.content
    if isinstance(content, str):
        return [clean(content)] if content.strip() else []
    return [clean(piece) for piece in text_pieces(content) if piece.strip()]


def closing_turn(message: TextMessage, text: str, reader: str) -> str:
    """What ``message`` reads like as a user's turn that says who wrote it.

    Anthropic and Gemini take a conversation that ends with an assistant for a reply to continue,
    or refuse it; so an agent that answers another one's closing text gets it as the user's words.
    """
    if message.agent is None:
        return UNKNOWN_AUTHOR_TURN.format(text=text)
    if message.agent == reader:
        return OWN_TURN.format(text=text)
    return AUTHOR_TURN.format(agent=message.agent, text=text)


def call_text(call: ToolCall) -> str:
    """A tool call as text."""
    return clean(CALL_TEXT.format(name=call.name, arguments=arguments_text(call)))


def call_result_text(call: ToolCall, content: JsonValue) -> str:
    """A tool result as text."""
    return clean(RESULT_TEXT.format(name=call.name, content=result_text(content)))


def split_prefill(request: ModelRequest) -> tuple[Sequence[Message], str]:
    """The conversation, and the text with which the agent wants its answer to begin."""
    if request.prefill <= 0:
        return request.messages, ""
    conversation = request.messages[: -request.prefill]
    texts_ = [
        piece
        for message in request.messages[-request.prefill :]
        if isinstance(message, TextMessage)
        for piece in texts(message)
    ]
    return conversation, "".join(texts_).rstrip()


def named_choice(request: ModelRequest) -> str:
    """The name of the tool that must be called.

    Raises:
        ConfigurationError: The agent has no such tool.
    """
    names = [spec.name for spec in request.tools]
    if request.tool_choice not in names:
        raise ConfigurationError(
            f"tool_choice={request.tool_choice!r}: agent {request.agent!r} has no such tool, only "
            f"{', '.join(names)}."
        )
    return request.tool_choice
