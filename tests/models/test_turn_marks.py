"""Turns of the user's that were put before replies, where processors moved these together."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit_py.messages import (
    Message,
    ReasoningMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.models import Model, ModelRequest, ToolSpec, anthropic, gemini

CLAUDE = anthropic("claude-sonnet-4-5", api_key="sk-test")
GEMINI = gemini("gemini-2.5-flash", api_key="sk-test")
TOOLS = (ToolSpec("look", "Looks.", {"type": "object", "properties": {}}),)


@pytest.mark.parametrize(
    ("model", "host", "place"),
    [
        (CLAUDE, "api.anthropic.com", "messages"),
        (GEMINI, "generativelanguage.googleapis.com", "contents"),
    ],
)
def test_a_marked_reply_between_a_call_and_its_result_opens_no_turn(
    model: Model, host: str, place: str
) -> None:
    """The result has to follow its call; the text stays with the call."""
    before, after = ({"origin": {"host": host, "turn": mark}} for mark in ("one", "two"))
    call = ToolCall("a", "look", {}, provider_metadata=before)
    messages = (
        TextMessage("user", "Hi"),
        ToolCallMessage([call], provider_metadata=before, agent="a"),
        TextMessage("assistant", "ok", agent="a", provider_metadata=after),
        ToolResultMessage(call, {"data": 1}),
    )
    body: Any = model.encode(ModelRequest(messages=messages, tools=TOOLS))
    roles = [turn["role"] for turn in body[place]]
    assert roles == ["user", "assistant" if model is CLAUDE else "model", "user"]


@pytest.mark.parametrize(
    ("model", "place"), [(CLAUDE, "messages"), (GEMINI, "contents")], ids=["claude", "gemini"]
)
def test_a_reply_to_a_question_of_white_space_keeps_the_turn_that_was_sent_before_it(
    model: Model, place: str
) -> None:
    """White space is not sent, so the request ended with an assistant's text and our own turn."""
    said = (TextMessage("assistant", "One.", agent="a"), TextMessage("user", "\u2028"))
    first: Any = model.encode(request := ModelRequest(messages=said))
    (reply,) = model.bind(request, [TextMessage("assistant", "Two.", agent="b")])
    again: Any = model.encode(ModelRequest(messages=(*said, reply, TextMessage("user", "Go on."))))
    assert again[place][: len(first[place])] == first[place]


def test_a_reply_after_geminis_own_white_space_keeps_the_turn_that_was_sent_before_it() -> None:
    """It goes back as it came, so the request ended with it and our own turn."""
    asked = TextMessage("user", "Hi")
    parts: list[dict[str, Any]] = [{"text": " "}, {"functionCall": {"name": "look", "args": {}}}]
    content = {"role": "model", "parts": parts}
    raw: Any = {"candidates": [{"content": content, "finishReason": "STOP"}]}
    blank = GEMINI.decode(raw).messages[:1]  # a hook has dropped the call
    said = (asked, *blank)
    first: Any = GEMINI.encode(request := ModelRequest(messages=said))
    (reply,) = GEMINI.bind(request, [TextMessage("assistant", "Two.", agent="b")])
    again: Any = GEMINI.encode(ModelRequest(messages=(*said, reply, TextMessage("user", "Go on."))))
    assert again["contents"][: len(first["contents"])] == first["contents"]


def test_thinking_that_nothing_follows_takes_no_other_block_with_it() -> None:
    """It is not sent, and what comes into its place in memory is another block."""
    model = anthropic("claude-opus-5-5", api_key="sk-a")
    block = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    thought = ReasoningMessage("Hm.", provider_metadata={"anthropic": block})
    said: list[Message] = []
    for number in range(200):
        call = ToolCall(f"t{number}", "look", {})
        asked = TextMessage("user", f"Question {number}?")
        said += [thought, asked, ToolCallMessage([call]), ToolResultMessage(call, "Linz")]
    request = ModelRequest(messages=tuple(said), tools=(ToolSpec("look"),))
    turns = model.encode(request)["messages"]
    kinds = [part["type"] for turn in turns for part in turn["content"]]
    assert kinds.count("tool_use") == kinds.count("tool_result") == 200


def test_thinking_that_was_signed_over_white_space_is_not_sent_without_it() -> None:
    """White space alone is refused, so what Claude thought after it would be refused, too."""
    model = anthropic("claude-opus-5-5", api_key="sk-a")
    before, after = (
        {"type": "thinking", "thinking": text, "signature": text} for text in ("One", "Two")
    )
    space, answer = ({"type": "text", "text": text} for text in ("\n\n", "Yes."))
    request = ModelRequest(messages=(TextMessage("user", "?"),))
    for content, kept in (
        ([before, space, after, answer], [before, answer]),
        ([before, after, space, answer], [before, after, answer]),
    ):
        said = model.bind(request, model.decode({"content": content}).messages)
        messages = (*request.messages, *said, TextMessage("user", "And?"))
        body = model.encode(ModelRequest(messages=messages))
        assert body["messages"][1]["content"] == kept
