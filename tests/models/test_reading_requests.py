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
    ToolResultMessage,
    part_to_json,
    result_parts,
)
from agentkit_py.models import Model, ModelRequest, anthropic, gemini, openai_responses
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


def test_a_result_in_several_texts_is_read_as_text() -> None:
    """The model reads words, not JSON of their parts."""
    call: dict[str, Any] = {"type": "tool_use", "id": "c1", "name": "ask", "input": {}}
    texts = [{"type": "text", "text": "It is 4."}, {"type": "text", "text": "Ask\nagain."}]
    result = {"type": "tool_result", "tool_use_id": "c1", "content": texts}
    body: dict[str, Any] = {
        "messages": [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]
    }
    found = read_conversation(body)[-1]
    assert isinstance(found, ToolResultMessage)
    assert found.content == "It is 4.\nAsk\nagain."


def test_an_image_in_a_result_of_a_chat_is_read() -> None:
    """Some hosts take images there."""
    url = "data:image/png;base64,iVBORw0KGgo="
    call = {"id": "c1", "type": "function", "function": {"name": "draw", "arguments": "{}"}}
    image = {"type": "image_url", "image_url": {"url": url}}
    body: dict[str, Any] = {
        "messages": [
            {"role": "user", "content": "?"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": [image]},
        ]
    }
    found = read_conversation(body)[-1]
    assert isinstance(found, ToolResultMessage)
    assert result_parts(found.content) == [ImageContent("iVBORw0KGgo=", None, "image/png")]


@pytest.mark.parametrize("stored", [True, False])
def test_reasoning_by_its_id_goes_back_where_openai_stores_replies(*, stored: bool) -> None:
    """Elsewhere it would name what nobody has."""
    reasoning: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": []}
    text: dict[str, Any] = {"type": "output_text", "text": "4", "annotations": []}
    answer = {"type": "message", "id": "msg_1", "role": "assistant", "content": [text]}
    body: dict[str, Any] = {"input": [{"role": "user", "content": "2+2?"}, reasoning, answer]}
    model = openai_responses("gpt-5-mini", api_key="k", settings={"store": stored})
    messages = read_conversation(body, form="responses", model=model)
    again = model.encode(ModelRequest(messages=(*messages, TextMessage("user", "Sure?"))))
    assert (reasoning in again["input"]) is stored


def test_a_summary_of_claude_is_read_with_the_summarised_messages() -> None:
    """A model of the same key sends it back; another one sends the messages themselves."""
    summary = {"type": "compaction", "content": "They said hello."}
    body: dict[str, Any] = {
        "messages": [
            {"role": "user", "content": "Hello!"},
            {"role": "assistant", "content": [summary, {"type": "text", "text": "Hi."}]},
            {"role": "user", "content": "What did I say?"},
        ]
    }
    edits: dict[str, Any] = {"context_management": {"edits": [{"type": "compact_20260112"}]}}
    mine, other = (
        anthropic("claude-sonnet-4-6", api_key=key, default_parameters=edits)
        for key in ("mine", "other")
    )
    request = ModelRequest(messages=read_conversation(body, form="anthropic", model=mine))
    assert summary in mine.encode(request)["messages"][0]["content"]
    assert "They said hello." not in str(other.encode(request))
    assert "Hello!" in str(other.encode(request))


def test_a_signed_thought_without_words_goes_back_to_gemini() -> None:
    """So a client writes a signature that it got beside the answer."""
    thought = {"thought": True, "thoughtSignature": "ErcGCrQGARFNMg=="}
    contents = [
        {"role": "user", "parts": [{"text": "Bob?"}]},
        {"role": "model", "parts": [thought, {"text": "Bob."}]},
        {"role": "user", "parts": [{"text": "Ruby?"}]},
    ]
    model = gemini("gemini-3-flash-preview", api_key="k")
    messages = read_conversation({"contents": contents}, form="gemini", model=model)
    assert model.encode(ModelRequest(messages=messages))["contents"] == contents


@pytest.mark.parametrize(("data", "kind"), [("//PExABc", "audio/mpeg"), ("UklGRv//", "audio/wav")])
def test_sound_that_is_a_text_alone_is_read(data: str, kind: str) -> None:
    """As Mistral takes it; the format is that of the first bytes."""
    part = {"type": "input_audio", "input_audio": data}
    (message,) = read_conversation({"messages": [{"role": "user", "content": [part]}]})
    assert isinstance(message, TextMessage)
    assert message.content == [FileContent(data, None, kind)]


OPEN: dict[str, Any] = {
    "content": [{"type": "reasoning_text", "text": "Hm."}],
    "encrypted_content": "gAAA",
}


@pytest.mark.parametrize(
    ("model", "item", "sent"),
    [
        (openai_responses("m", base_url="http://gpu:8000/v1"), OPEN, OPEN),
        (openai_responses("grok-3-mini", base_url="https://api.x.ai/v1", api_key="k"), {}, None),
        (
            openai_responses(
                "grok-3-mini",
                base_url="https://api.x.ai/v1",
                api_key="k",
                default_parameters={"store": True},
            ),
            {},
            {},
        ),
    ],
    ids=["a server of one's own", "xAI", "xAI, which stores it"],
)
def test_reasoning_goes_back_to_hosts_that_took_it(
    model: Model, item: dict[str, Any], sent: dict[str, Any] | None
) -> None:
    """Open reasoning as it came, and xAI's summaries by their ids where the replies are stored."""
    reasoning: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], **item}
    if not item:
        reasoning["summary"] = [{"type": "summary_text", "text": "Hm."}]
    answer = {"type": "message", "role": "assistant", "content": "Hi."}
    question = {"role": "user", "content": "?"}
    body: dict[str, Any] = {"input": [question, reasoning, answer, question]}
    messages = read_conversation(body, form="responses", model=model)
    given = model.encode(ModelRequest(messages=messages))["input"]
    items = [one for one in given if one["type"] == "reasoning"]
    assert items == ([] if sent is None else [reasoning])


def test_a_text_that_is_called_a_value_is_a_text() -> None:
    """LLaMA-Factory writes the parts of its newer data so."""
    body = {"messages": [{"role": "user", "content": [{"type": "text", "value": "Hi."}]}]}
    assert said(body) == [("user", "Hi.")]


def test_a_lone_content_of_gemini_is_a_list_of_one() -> None:
    """And so is a lone part, as Google's JSON reads them."""
    assert said({"contents": {"role": "user", "parts": {"text": "Hi."}}}) == [("user", "Hi.")]
