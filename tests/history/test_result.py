"""AgentResult: its JSON, its checksum, who wrote its messages."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from agentkit_py._core.json import dumps
from agentkit_py.errors import InvalidRecordError
from agentkit_py.messages import (
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    Usage,
)
from agentkit_py.results import AgentResult

AT = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
CALL = ToolCall("c1", "lookup", {"id": 7})


def full_result() -> AgentResult:
    """A result that has everything."""
    return AgentResult(
        "billing",
        [ReasoningMessage("hm"), TextMessage("assistant", "one"), ToolCallMessage((CALL,))],
        [ToolResultMessage(CALL, {"data": None})],
        AT,
        [TextMessage("system", "be kind")],
        [TextMessage("user", "hi")],
        reply={"choices": []},
        id="r1",
        usage=Usage(1, 2, 3, 4),
    )


def test_a_full_result_survives_json() -> None:
    """The prompt, the history and the raw answer are part of it."""
    result = full_result()
    assert AgentResult.from_dict(json.loads(dumps(result.to_dict(full=True)))) == result


def test_a_stored_result_has_neither_the_request_nor_the_raw_answer() -> None:
    """The keys come in the order of the TypeScript package, ours after them."""
    record = full_result().to_dict()
    assert list(record) == ["agentName", "output", "toolCalls", "createdAt", "id", "usage"]


def test_a_result_without_extras_exports_the_json_of_typescript() -> None:
    """Times as ``Date.toISOString()`` has them."""
    result = AgentResult(
        "a", [TextMessage("assistant", "hi", stop_reason="stop", agent="a")], (), AT
    )
    assert result.export(full=True) == {
        "agentName": "a",
        "output": [
            {
                "type": "text",
                "role": "assistant",
                "content": "hi",
                "stop_reason": "stop",
                "agent": "a",
            }
        ],
        "toolCalls": [],
        "createdAt": "2024-01-02T03:04:05.000Z",
        "prompt": [],
        "history": [],
    }


def test_results_of_typescript_are_read() -> None:
    """Raw comes as text; ids may be missing, and lists too."""
    result = AgentResult.from_dict(
        {"createdAt": "2024-01-02T03:04:05.006Z", "raw": '{"id":"x"}', "agentName": "a"}
    )
    assert result.created_at == AT + timedelta(milliseconds=6)
    assert (result.output, result.tool_calls, result.reply) == ((), (), {"id": "x"})
    assert (result.id, result.usage, result.prompt, result.history) == (None, None, (), ())


@pytest.mark.parametrize(("raw", "reply"), [("not json", "not json"), ({"a": 1}, {"a": 1})])
def test_a_raw_answer_that_is_no_json_text_is_kept_as_it_is(raw: object, reply: object) -> None:
    """Nothing is thrown away because it looks odd."""
    record = {"agentName": "a", "createdAt": "2024-01-02T03:04:05Z", "raw": raw}
    assert AgentResult.from_dict(record).reply == reply


MESSAGE: dict[str, Any] = {"type": "text", "role": "user", "content": "x"}
GOOD: dict[str, Any] = {
    "agentName": "a",
    "output": [MESSAGE],
    "toolCalls": [],
    "createdAt": "2024-01-02T03:04:05Z",
}


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        ({"agentName": None}, "agentName", "expected a string, got None"),
        ({"output": {}}, "output", "expected a list, got {}"),
        ({"output": [MESSAGE, {**MESSAGE, "role": "x"}]}, "output[1].role", "expected one of"),
        ({"toolCalls": [MESSAGE]}, "toolCalls[0].type", "expected a tool_result"),
        ({"history": [7]}, "history[0]", "expected an object, got 7"),
        ({"createdAt": 1704164645}, "createdAt", "expected an ISO 8601 time, got 1704164645"),
        ({"createdAt": "yesterday"}, "createdAt", "expected an ISO 8601 time, got 'yesterday'"),
        ({"id": 7}, "id", "expected a string, got 7"),
        ({"usage": 7}, "usage", "expected an object, got 7"),
        ({"usage": {"inputTokens": "many"}}, "usage.inputTokens", "expected a whole number"),
        ({"usage": {"outputTokens": True}}, "usage.outputTokens", "expected a whole number"),
    ],
)
def test_a_wrong_record_is_an_error_that_names_position_and_field(
    change: dict[str, Any], field: str, says: str
) -> None:
    """The place and the field are attributes of the error, and part of its text."""
    with pytest.raises(InvalidRecordError) as caught:
        AgentResult.from_dict({**GOOD, **change}, where="line 3")
    assert (caught.value.where, caught.value.field) == ("line 3", field)
    assert says in str(caught.value)


def test_a_record_that_is_no_object_is_named_as_a_whole() -> None:
    """Broken import files have lists or texts in place of records."""
    with pytest.raises(InvalidRecordError, match=r"result, field \(whole\): expected an object"):
        AgentResult.from_dict([])


def test_messages_without_an_author_are_the_agents() -> None:
    """Those of users and systems stay without, and an author that is there stays."""
    result = AgentResult(
        "a",
        [
            TextMessage("assistant", "x"),
            TextMessage("user", "y"),
            TextMessage("assistant", "z", agent="b"),
        ],
        [ToolResultMessage(CALL, 1)],
    )
    assert [message.agent for message in result.messages] == ["a", None, "b", "a"]


def test_messages_that_are_signed_are_kept_object_for_object() -> None:
    """Nothing is copied that need not be."""
    message = TextMessage("assistant", "x", agent="a")
    assert AgentResult("b", [message]).output[0] is message


def test_a_users_turn_is_a_result_of_user() -> None:
    """Content lists too."""
    parts = [TextContent("a"), TextContent("b")]
    result = AgentResult.from_user(parts, id="m1", created_at=AT)
    assert (result.agent_name, result.id, result.created_at) == ("user", "m1", AT)
    assert result.output == (TextMessage("user", tuple(parts)),)
    assert AgentResult.from_user("x").created_at.tzinfo is UTC


def test_the_text_is_that_of_the_assistant() -> None:
    """Messages are joined by line breaks; reasoning and calls are not said."""
    result = full_result().with_messages(
        [*full_result().output, TextMessage("assistant", (TextContent("t"), TextContent("wo")))]
    )
    assert result.text == "one\ntwo"
    assert result.raw == '{"choices":[]}'
    assert AgentResult("a", ()).raw is None


def test_a_time_without_zone_is_utc() -> None:
    """The machine's time zone must not matter."""
    result = AgentResult("a", (), (), datetime(2024, 1, 2, 3, 4, 5))  # noqa: DTZ001 - no time zone, on purpose
    assert result.created_at == AT


def test_the_checksum_is_the_same_on_every_machine() -> None:
    """The time zone must not matter, and the number is part of the interface."""
    there = AT.astimezone(timezone(timedelta(hours=5, minutes=30)))
    results = [AgentResult.from_user("grüezi 🐟", created_at=at) for at in (AT, there)]
    assert [result.checksum for result in results] == ["21268a51a8af6b3681dafe20bdcece27"] * 2


def test_different_results_have_different_checksums() -> None:
    """Content, tool results and the time to the microsecond count; ids do not."""
    results = [
        AgentResult.from_user("a", created_at=AT),
        AgentResult.from_user("b", created_at=AT),
        AgentResult.from_user("a", created_at=AT + timedelta(microseconds=1)),
        AgentResult("user", [TextMessage("user", "a")], [ToolResultMessage(CALL, 1)], AT),
        AgentResult.from_user("\ud800", created_at=AT),
    ]
    assert len({result.checksum for result in results}) == len(results)
    assert AgentResult.from_user("a", id="x", created_at=AT).checksum == results[0].checksum
