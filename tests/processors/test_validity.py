"""Validity: each repair, and what needs none."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentkit_py.errors import ProcessorError
from agentkit_py.messages import (
    Message,
    ReasoningMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.processors import ensure_valid
from agentkit_py.processors.validity import Repair

USER = TextMessage("user", "hello")
ASSISTANT = TextMessage("assistant", "one moment")
REASONING = ReasoningMessage("because")
X, Y = ToolCall("1", "x"), ToolCall("2", "y")
CALL_X, CALL_Y, CALL_XY = ToolCallMessage([X]), ToolCallMessage([Y]), ToolCallMessage([X, Y])
RESULT_X, RESULT_Y = ToolResultMessage(X, {"data": 1}), ToolResultMessage(Y, {"data": 2})


def repaired(*messages: Message) -> tuple[Sequence[Message], list[tuple[str, str]]]:
    """The list, and kind and tool of each repair."""
    whole, repairs = ensure_valid(messages)
    return whole, [(repair.kind, repair.name) for repair in repairs]


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [USER, ASSISTANT, REASONING],
        [USER, CALL_X, RESULT_X, USER],
        [CALL_XY, RESULT_Y, RESULT_X],
        [CALL_X, CALL_Y, RESULT_X, RESULT_Y],
        [REASONING, CALL_X, REASONING, CALL_Y, RESULT_Y, RESULT_X],
        [CALL_X, RESULT_X, CALL_X, RESULT_X],
        [CALL_X, CALL_X, RESULT_X, RESULT_X],
        [CALL_X, ToolResultMessage(ToolCall("1", ""), "nameless")],
    ],
)
def test_valid_list_is_returned_itself(messages: list[Message]) -> None:
    """A valid list is not copied, and there is no repair."""
    whole, repairs = ensure_valid(messages)
    assert whole is messages
    assert repairs == []


def test_a_result_without_its_call_is_dropped() -> None:
    """Providers refuse it; also one that comes before its call."""
    assert repaired(USER, RESULT_X) == ([USER], [("dropped_orphan", "x")])
    whole, kinds = repaired(RESULT_X, CALL_X)
    assert kinds == [("dropped_orphan", "x"), ("answered", "x")]
    assert [m.type for m in whole] == ["tool_call", "tool_result"]


def test_a_second_result_of_one_call_is_dropped() -> None:
    """The first one stays."""
    second = ToolResultMessage(X, {"data": 3})
    assert repaired(CALL_X, RESULT_X, second) == (
        [CALL_X, RESULT_X],
        [("dropped_duplicate", "x")],
    )


def test_a_call_without_result_is_answered_with_an_error() -> None:
    """The error takes the result's place, with its side of history and its agent."""
    call = ToolCallMessage([X, Y], from_history=True, agent="billing")
    whole, kinds = repaired(USER, call, RESULT_Y, ASSISTANT)
    assert kinds == [("answered", "x")]
    answer = whole[3]
    assert isinstance(answer, ToolResultMessage)
    assert answer.tool is X
    assert answer.is_error
    assert answer.from_history is True
    assert answer.agent == "billing"
    assert answer.content == {
        "error": {
            "name": "MissingToolResult",
            "message": "The result of this call of x is not available.",
        }
    }
    assert whole == [USER, call, RESULT_Y, answer, ASSISTANT]


def test_a_late_result_moves_up_to_its_call() -> None:
    """The messages between them follow the result."""
    assert repaired(CALL_XY, RESULT_Y, USER, RESULT_X) == (
        [CALL_XY, RESULT_Y, RESULT_X, USER],
        [("moved_result", "x")],
    )


def test_a_text_between_or_after_the_calls_of_one_reply_keeps_its_position() -> None:
    """A reply goes back as it came; only a user's text parts calls from results."""
    for reply in ((REASONING, ASSISTANT, CALL_Y), (CALL_Y, ASSISTANT)):
        messages = [CALL_X, *reply, RESULT_X, RESULT_Y]
        assert list(repaired(*messages)[0]) == messages
    assert repaired(CALL_X, USER, RESULT_X)[1] == [("moved_result", "x")]


def test_messages_without_calls_are_dropped() -> None:
    """Calls around them do not matter; reasoning before them stays in place."""
    empty = ToolCallMessage([])
    assert repaired(USER, empty) == ([USER], [("dropped_empty", "")])
    assert repaired(CALL_X, REASONING, empty, RESULT_X) == (
        [CALL_X, RESULT_X, REASONING],
        [("moved_result", "x"), ("dropped_empty", "")],
    )
    assert repaired(CALL_X, empty, CALL_Y, RESULT_X, RESULT_Y)[1] == [("dropped_empty", "")]


def test_a_repeated_call_is_answered_twice() -> None:
    """Careless processors repeat messages; each place needs its own answer."""
    whole, kinds = repaired(CALL_X, RESULT_X, CALL_X)
    assert kinds == [("answered", "x")]
    assert list(whole[:3]) == [CALL_X, RESULT_X, CALL_X]


def test_a_repair_is_reported_in_json_and_in_words() -> None:
    """Reports show both."""
    (repair,) = ensure_valid([RESULT_X])[1]
    assert repair == Repair("dropped_orphan", "1", "x")
    assert repair.to_dict() == {"kind": "dropped_orphan", "toolCallId": "1", "name": "x"}
    assert str(repair) == "dropped_orphan 'x' (1)"
    assert str(Repair("dropped_empty")) == "dropped_empty"


@pytest.mark.parametrize("before", [[], [RESULT_X]])
def test_a_value_that_is_no_message_raises_processor_error(before: list[Message]) -> None:
    """The error does not depend on other faults before it."""
    hostile: list[Message] = [*before, {"type": "text"}]  # type: ignore[list-item]
    with pytest.raises(ProcessorError, match="dict"):
        ensure_valid(hostile)
