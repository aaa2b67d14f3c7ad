"""Requests that others have sent, read as conversations."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit_py.codec import message_from_dict, message_to_dict
from agentkit_py.errors import InvalidRecordError
from agentkit_py.messages import (
    FileContent,
    ImageContent,
    TextMessage,
    part_to_json,
    result_parts,
)
from agentkit_py.models import ModelRequest, anthropic, openai_responses
from agentkit_py.models.conversations import read_conversation


def said(body: dict[str, Any]) -> list[tuple[str, str]]:
    """The texts of a conversation with their roles."""
    messages = read_conversation(body)
    assert all(isinstance(message, TextMessage) for message in messages)
    return [(m.role, m.text) for m in messages if isinstance(m, TextMessage)]


def test_an_answer_without_a_type_is_read_and_sent_back() -> None:
    """The Responses API takes messages so."""
    answer = {"role": "assistant", "content": [{"type": "output_text", "text": "Wellington"}]}
    body: dict[str, Any] = {"model": "gpt-4.1", "input": [{"role": "user", "content": "?"}, answer]}
    assert said(body) == [("user", "?"), ("assistant", "Wellington")]
    request = ModelRequest(messages=tuple(read_conversation(body)))
    sent = openai_responses("gpt-4.1", api_key="k").encode(request)["input"]
    assert "Wellington" in str(sent)


@pytest.mark.parametrize(
    "instruction",
    [
        {"parts": [{"text": "Be brief."}]},
        {"parts": {"text": "Be brief."}},
        "Be brief.",
    ],
)
def test_a_system_instruction_of_gemini_is_read_in_each_form(instruction: Any) -> None:
    """Google's JSON reads a lone object as a list of one."""
    contents = [{"role": "user", "parts": [{"text": "hi"}]}]
    body = {"contents": contents, "systemInstruction": instruction}
    assert said(body) == [("system", "Be brief."), ("user", "hi")]


def test_a_system_instruction_of_no_known_form_is_refused() -> None:
    """The error says where it stands."""
    body = {"contents": [], "systemInstruction": ["Be brief."]}
    with pytest.raises(InvalidRecordError, match="systemInstruction"):
        read_conversation(body)


def test_an_image_by_a_bare_address_is_read() -> None:
    """Mistral's ``image_url`` is a text."""
    part = {"type": "image_url", "image_url": "https://pics.example/cat.png"}
    (message,) = read_conversation({"messages": [{"role": "user", "content": [part]}]})
    assert isinstance(message, TextMessage)
    assert list(message.content) == [ImageContent(url="https://pics.example/cat.png")]


@pytest.mark.parametrize(
    "source",
    [
        {"type": "text", "media_type": "text/plain", "data": "The sky is blue."},
        {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
        {"type": "url", "url": "https://docs.example/sky.pdf"},
    ],
)
def test_a_citable_document_is_written_as_it_was_read(source: Any) -> None:
    """Its title and its flag go back with it, also out of a store."""
    document = {
        "type": "document",
        "source": source,
        "title": "Sky",
        "citations": {"enabled": True},
    }
    said = {"role": "user", "content": [document, {"type": "text", "text": "Which colour?"}]}
    (message,) = read_conversation({"system": "s", "messages": [said]})[1:]
    stored = message_from_dict(message_to_dict(message), where="test")
    assert isinstance(message, TextMessage)
    assert isinstance(stored, TextMessage)
    assert list(stored.content) == list(message.content)
    model = anthropic("claude-opus-5", api_key="k")
    sent = model.encode(ModelRequest(messages=(stored,)))["messages"][0]["content"]
    assert sent[0] == document


def test_a_file_says_whether_it_is_to_be_cited() -> None:
    """A tool's result may hold one, too."""
    file = FileContent("aGk=", None, "text/plain", "note", citations=True)
    assert part_to_json(file)["citations"] is True
    assert result_parts({"data": part_to_json(file)}) == [file]
