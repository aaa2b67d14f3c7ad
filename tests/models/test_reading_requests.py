"""Requests that others have sent, read as conversations."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit_py.errors import InvalidRecordError
from agentkit_py.messages import TextMessage
from agentkit_py.models import ModelRequest, openai_responses
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
