"""Replies that decode to nothing, or to a call that cannot be run: the model mends them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, tool
from agentkit_py.messages import (
    Message,
    OpaqueMessage,
    ReasoningMessage,
    TextMessage,
    ToolCallMessage,
)
from agentkit_py.models import (
    Model,
    ModelRequest,
    anthropic,
    compatible,
    gemini,
    openai,
    openai_responses,
)
from agentkit_py.testing.provider import FakeProvider, Raw

CHAT = openai("gpt-4o-audio-preview", api_key="k")


def google(*parts: Any) -> Raw:
    """A reply of Gemini's that ends well."""
    content = {"role": "model", "parts": list(parts)} if parts else {"role": "model"}
    body = {"candidates": [{"content": content, "finishReason": "STOP"}], "responseId": "r"}
    return Raw(text=json.dumps(body))


@tool
def look(city: str) -> str:
    """Look."""
    return f"{city}: rain"


CALL = google({"functionCall": {"name": "look", "args": {"city": "Graz"}}})
EMPTY_REPLIES = {
    "no parts": google(),
    "an empty text": google({"text": ""}),
    "a thought alone": google({"text": "Hm.", "thought": True}),
}


@pytest.mark.parametrize("empty", EMPTY_REPLIES.values(), ids=EMPTY_REPLIES)
async def test_an_empty_reply_of_gemini_after_a_tool_is_asked_to_continue(empty: Raw) -> None:
    """What stands for it is in later requests, too, and nothing else of it."""
    with FakeProvider([CALL, empty, google({"text": "Rain."}), google({"text": "Yes."})]) as fake:
        model = gemini("gemini-2.5-flash", api_key="k", base_url=fake.base_url("gemini"))
        agent = Agent(name="a", system="s", model=model, tools=[look], history=MemoryHistory())
        result = await agent.run("Weather?", thread_id="t")
        assert result.text == "Rain."
        assert result.stop_reason is None
        await agent.run("Sure?", thread_id="t")
    assert [request.rejection for request in fake.requests] == [None] * 4
    third, fourth = (request.body["contents"] for request in fake.requests[2:])
    assert third[-1]["parts"][-1] == {"text": "Continue."}
    assert fourth[: len(third)] == third


async def test_a_model_that_stays_silent_is_asked_three_times_at_the_most() -> None:
    """The end of the turn says that the reply was not one."""
    replies = [CALL, *([EMPTY_REPLIES["no parts"]] * 5)]
    with FakeProvider(replies) as fake:
        model = gemini("gemini-2.5-flash", api_key="k", base_url=fake.base_url("gemini"))
        result = await Agent(name="a", system="s", model=model, tools=[look]).run("Weather?")
    assert result.stop_reason == "pause"
    assert len(fake.requests) == 4


NAMELESS: dict[str, tuple[Model, dict[str, Any]]] = {
    "chat": (
        openai("gpt-4o", api_key="k"),
        {"choices": [{"message": {"tool_calls": [{"id": "c", "function": {"arguments": "{}"}}]}}]},
    ),
    "responses": (
        openai_responses("gpt-5", api_key="k"),
        {"status": "completed", "output": [{"type": "function_call", "call_id": "c"}]},
    ),
    "anthropic": (
        anthropic("claude-opus-5", api_key="k"),
        {"type": "message", "content": [{"type": "tool_use", "id": "c", "input": {}}]},
    ),
    "gemini": (
        gemini("gemini-3-pro", api_key="k"),
        {"candidates": [{"content": {"parts": [{"functionCall": {"args": {"a": 1}}}]}}]},
    ),
}


@pytest.mark.parametrize("name", NAMELESS)
def test_a_call_without_a_name_can_be_answered(name: str) -> None:
    """It is a call of which the model reads what was wrong with it."""
    model, body = NAMELESS[name]
    messages = model.decode(body).messages
    (call,) = [call for m in messages if isinstance(m, ToolCallMessage) for call in m.tools]
    assert "without a name" in (call.malformed or "")
    assert call.name
    model.encode(ModelRequest(messages=(TextMessage("user", "Hi"), *messages)))


SOUND = {"id": "audio_1", "data": "UklGRgAA", "expires_at": 1, "transcript": "Hello there"}


def test_an_audio_reply_is_its_words_and_its_sound() -> None:
    """The words go back, the sound does not: hosts keep it for an hour."""
    reply = CHAT.decode({"choices": [{"message": {"audio": SOUND}, "finish_reason": "stop"}]})
    text, sound = reply.messages
    assert isinstance(text, TextMessage)
    assert isinstance(sound, OpaqueMessage)
    assert (text.text, sound.medium and sound.medium.media_type) == ("Hello there", "audio/wav")
    body = CHAT.encode(ModelRequest(messages=(TextMessage("user", "Hi"), *reply.messages)))
    assert body["messages"][1:] == [{"role": "assistant", "content": "Hello there"}]


def test_an_audio_reply_without_words_is_still_seen() -> None:
    """A sound alone is an answer."""
    silent = {key: value for key, value in SOUND.items() if key != "transcript"}
    (sound,) = CHAT.decode({"choices": [{"message": {"audio": silent}}]}).messages
    assert isinstance(sound, OpaqueMessage)


def test_a_streamed_audio_is_the_same_as_a_whole_one() -> None:
    """Its words are shown as they come."""
    assembler = CHAT.adapter.assembler(CHAT)
    assert assembler is not None
    pieces = [
        {"id": "audio_1"},
        {"transcript": "Hello "},
        {"data": "Ukl"},
        {"transcript": "there"},
        {"data": "GRgAA"},
        {"expires_at": 1},
    ]
    events: list[Any] = [{"choices": [{"index": 0, "delta": {"audio": piece}}]} for piece in pieces]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    deltas = [delta for event in events for delta in assembler.feed(None, json.dumps(event))]
    assert "".join(delta.delta for delta in deltas) == "Hello there"
    whole = CHAT.decode({"choices": [{"message": {"audio": SOUND}, "finish_reason": "stop"}]})
    assert CHAT.decode(assembler.finish()).messages == whole.messages


def test_a_picture_next_to_a_text_is_seen() -> None:
    """OpenRouter gives pictures in a member of their own; another request names it."""
    model = compatible("openrouter", "google/gemini-3-image", api_key="k")
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    said = {"content": "Here:", "images": [image]}
    messages = model.decode({"choices": [{"message": said}]}).messages
    assert [m.type for m in messages] == ["text", "opaque"]
    picture = messages[1]
    assert isinstance(picture, OpaqueMessage)
    assert picture.medium is not None


def test_a_call_in_the_form_before_there_were_tools_is_a_call() -> None:
    """``function_call`` of old servers."""
    old = {"name": "look", "arguments": '{"city": "Graz"}'}
    (message,) = CHAT.decode({"choices": [{"message": {"function_call": old}}]}).messages
    assert isinstance(message, ToolCallMessage)
    assert message.tools[0].arguments == {"city": "Graz"}


def test_reasoning_without_an_id_goes_back_with_the_reply_after_it() -> None:
    """Some hosts give none, and none is asked for beside encrypted content."""
    model = openai_responses("gpt-5", api_key="k")
    thought: Any = {"type": "reasoning", "summary": [], "encrypted_content": "gA=="}
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    request = ModelRequest(messages=(TextMessage("user", "Hi"),))
    body: Any = {"status": "completed", "output": [thought, call]}
    said: tuple[Message, ...] = model.bind(request, model.decode(body).messages)
    assert isinstance(said[0], ReasoningMessage)
    sent = model.encode(ModelRequest(messages=(*request.messages, *said)))["input"]
    assert sent[1] == thought
    assert sent[2]["type"] == "function_call"


async def test_a_first_reply_of_blanks_stopped_as_the_provider_said() -> None:
    """It is not continued, so nothing was paused."""
    with FakeProvider([google({"text": "\n"})]) as fake:
        model = gemini("gemini-2.5-flash", api_key="k", base_url=fake.base_url("gemini"))
        result = await Agent(name="a", system="s", model=model).run("Weather?")
    assert [message.stop_reason for message in result.output] == ["stop"]
    assert result.finish_reason == "stop"
