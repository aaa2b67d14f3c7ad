"""Messages to JSON and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py._core.json import dumps
from agentkit_py.codec import message_from_dict, message_to_dict
from agentkit_py.errors import InvalidRecordError
from agentkit_py.messages import (
    Message,
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)

texts = st.text()
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
jsons: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
metadata = st.none() | st.dictionaries(texts, jsons, max_size=3)
common: dict[str, Any] = {
    "stop_reason": st.sampled_from([None, "tool", "stop"]),
    "agent": st.none() | texts,
    "provider_metadata": metadata,
}
roles: Any = st.sampled_from(["system", "user", "assistant"])
parts = st.lists(st.builds(TextContent, texts), max_size=3).map(tuple)
calls = st.builds(ToolCall, texts, texts, jsons, st.none() | texts, metadata)
messages = (
    st.builds(TextMessage, roles, texts | parts, **common)
    | st.builds(ToolCallMessage, st.lists(calls, max_size=3).map(tuple), **common)
    | st.builds(ToolResultMessage, calls, jsons, **common)
    | st.builds(ReasoningMessage, texts, **common)
)


@given(messages)
def test_a_message_survives_json(message: Message) -> None:
    """Every field of every kind, through real JSON text."""
    assert message_from_dict(json.loads(dumps(message_to_dict(message)))) == message


CALL = {"type": "tool", "id": "call_1", "name": "get_weather", "input": {"city": "Zürich"}}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            {"type": "text", "role": "assistant", "content": "hi", "stop_reason": "stop"},
            TextMessage("assistant", "hi", stop_reason="stop"),
        ),
        (
            {"content": [{"text": "a", "type": "text"}], "role": "user", "type": "text"},
            TextMessage("user", (TextContent("a"),)),
        ),
        (
            {"type": "tool_call", "role": "assistant", "tools": [CALL], "stop_reason": "tool"},
            ToolCallMessage((ToolCall("call_1", "get_weather", {"city": "Zürich"}),)),
        ),
        (
            {"stop_reason": "tool", "tool": CALL, "content": None, "role": "tool_result",
             "type": "tool_result"},
            ToolResultMessage(ToolCall("call_1", "get_weather", {"city": "Zürich"}), None),
        ),
        (
            {"type": "tool_call", "role": "assistant", "tools": [{"id": "", "name": "x"}]},
            ToolCallMessage((ToolCall("", "x", {}),)),
        ),
    ],
)  # fmt: skip
def test_messages_of_typescript_are_read(record: dict[str, Any], message: Message) -> None:
    """Keys come in any order, and TypeScript's optional ones may be missing."""
    assert message_from_dict(record) == message


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            TextMessage("assistant", "hi", stop_reason="stop"),
            '{"type":"text","role":"assistant","content":"hi","stop_reason":"stop"}',
        ),
        (TextMessage("user", "hi"), '{"type":"text","role":"user","content":"hi"}'),
        (
            ToolCallMessage((ToolCall("c", "n", {"a": 1}),)),
            (
                '{"type":"tool_call","role":"assistant",'
                '"tools":[{"type":"tool","id":"c","name":"n","input":{"a":1}}],"stop_reason":"tool"}'
            ),
        ),
        (
            ToolResultMessage(ToolCall("c", "n", {}), {"data": 1}),
            (
                '{"type":"tool_result","role":"tool_result",'
                '"tool":{"type":"tool","id":"c","name":"n","input":{}},'
                '"content":{"data":1},"stop_reason":"tool"}'
            ),
        ),
    ],
)
def test_the_json_is_that_of_typescript(message: Message, text: str) -> None:
    """Our own keys are left out where they say nothing."""
    assert dumps(message_to_dict(message)) == text


def test_unknown_keys_are_ignored() -> None:
    """A newer version of either language may add some."""
    assert message_from_dict(
        {"type": "text", "role": "user", "content": "hi", "new": 1}
    ) == TextMessage("user", "hi")


def test_which_run_a_message_belongs_to_is_not_stored() -> None:
    """It is another one when the thread is read again."""
    assert "from_history" not in str(message_to_dict(TextMessage("user", "x", from_history=True)))


TEXT = {"type": "text", "role": "user", "content": "x"}
TOOLS = {"type": "tool_call", "role": "assistant"}
RESULT = {"type": "tool_result", "role": "tool_result", "tool": CALL, "content": 1}


@pytest.mark.parametrize(
    ("record", "field", "says"),
    [
        ("x", "m", "expected an object, got 'x'"),
        ([], "m", "expected an object"),
        ({}, "m.type", "missing"),
        ({"type": "image"}, "m.type", "expected one of text, tool_call, tool_result, reasoning"),
        ({"type": ["text"]}, "m.type", "expected one of"),
        ({**TEXT, "role": "tool"}, "m.role", "expected one of system, user, assistant, got 'tool'"),
        ({"type": "text", "role": "user"}, "m.content", "missing"),
        ({**TEXT, "content": None}, "m.content", "expected a string or a list, got None"),
        ({**TEXT, "content": [{"type": "text", "text": "a"}, 7]}, "m.content[1]", "got 7"),
        ({**TEXT, "content": [{"type": "text"}]}, "m.content[0]", "expected {type: text"),
        (
            {**TEXT, "stop_reason": "end"},
            "m.stop_reason",
            "context_window, compaction, error, other, got 'end'",
        ),
        ({**TEXT, "agent": 7}, "m.agent", "expected a string, got 7"),
        ({**TEXT, "providerMetadata": []}, "m.providerMetadata", "expected an object, got []"),
        (TOOLS, "m.tools", "missing"),
        ({**TOOLS, "tools": {}}, "m.tools", "expected a list, got {}"),
        ({**TOOLS, "tools": [CALL, 7]}, "m.tools[1]", "expected an object, got 7"),
        ({**TOOLS, "tools": [{"name": "x"}]}, "m.tools[0].id", "missing"),
        ({**TOOLS, "tools": [{**CALL, "name": 1}]}, "m.tools[0].name", "expected a string, got 1"),
        ({**TOOLS, "tools": [{**CALL, "malformed": 1}]}, "m.tools[0].malformed", "got 1"),
        (
            {**TOOLS, "tools": [{**CALL, "providerMetadata": 1}]},
            "m.tools[0].providerMetadata",
            "expected an object",
        ),
        ({"type": "tool_result", "role": "tool_result"}, "m.tool", "missing"),
        ({**RESULT, "tool": None}, "m.tool", "expected an object, got None"),
        ({"type": "tool_result", "tool": CALL}, "m.content", "missing"),
        ({"type": "reasoning", "content": []}, "m.content", "expected a string, got []"),
    ],
)
def test_a_wrong_record_is_an_error_that_names_position_and_field(
    record: object, field: str, says: str
) -> None:
    """The place and the field are attributes of the error, and part of its text."""
    with pytest.raises(InvalidRecordError) as caught:
        message_from_dict(record, where="line 12", path="m")
    assert (caught.value.where, caught.value.field) == ("line 12", field)
    assert says in str(caught.value)


def test_a_wrong_record_without_a_path_is_named_as_a_whole() -> None:
    """A field still has its own name."""
    with pytest.raises(InvalidRecordError, match=r"message, field \(whole\)"):
        message_from_dict(None)
    with pytest.raises(InvalidRecordError, match=r"message, field tools\[0\]\.id: missing"):
        message_from_dict({"type": "tool_call", "tools": [dict[str, Any]()]})


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_escaped_text_is_utf8_and_reads_as_before(text: str) -> None:
    """Two halves in a row are read as the character they mean, as JavaScript has it."""
    meant = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert json.loads(dumps(text).encode()) == meant


def test_half_a_surrogate_pair_is_written_as_javascript_writes_it() -> None:
    """`JSON.stringify` escapes lone surrogates since ES2019, and keeps whole characters."""
    assert dumps("a\ud800b🐟") == '"a\\ud800b🐟"'
