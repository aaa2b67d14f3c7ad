"""Which call a result answers, and what belongs together."""

from __future__ import annotations

from agentkit_py.messages import (
    Message,
    ReasoningMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.processors.cutting import segments
from agentkit_py.processors.pairing import CallGroup, call_groups, pair

USER = TextMessage("user", "hello")
ASSISTANT = TextMessage("assistant", "let me see")
REASONING = ReasoningMessage("because")


def calls(*names: str, id: str = "a") -> ToolCallMessage:  # noqa: A002 - what it is
    """One message with calls that share an id."""
    return ToolCallMessage([ToolCall(id, name) for name in names])


def result(name: str, id: str = "a") -> ToolResultMessage:  # noqa: A002 - what it is
    """A result by id and tool."""
    return ToolResultMessage(ToolCall(id, name), {"data": 1})


def answers(*messages: Message) -> dict[int, list[int | None]]:
    """Per call message, the results' indices."""
    return pair(messages).answers


def stretches(*messages: Message) -> list[list[int]]:
    """The segments as lists."""
    return [list(segment) for segment in segments(messages)]


def test_equal_ids_within_a_reply_are_distinguished_by_tool() -> None:
    """Gemini gives none, and recorded conversations repeat them."""
    assert answers(calls("x", "y"), result("y"), result("x")) == {0: [2, 1]}


def test_equal_calls_of_one_reply_are_answered_in_order() -> None:
    """The calls may be spread over several messages."""
    assert answers(calls("x", "x"), calls("x"), *[result("x")] * 3) == {0: [2, 3], 1: [4]}


def test_a_result_answers_the_newest_reply_that_waits_for_it() -> None:
    """An older call that was never answered does not take it, but may take the next."""
    assert answers(calls("x"), USER, calls("x"), result("x")) == {0: [None], 2: [3]}
    assert answers(calls("x"), USER, calls("x"), *[result("x")] * 2) == {0: [4], 2: [3]}


def test_a_reply_that_was_cut_short_has_its_first_results() -> None:
    """Tools run in order, so a stopped run lacks the results of the last calls."""
    assert answers(calls("x", "x"), result("x")) == {0: [1, None]}


def test_after_a_text_of_the_model_the_newer_calls_come_first() -> None:
    """It may have been another reply; if all have results it makes no difference."""
    assert answers(calls("x"), ASSISTANT, calls("x"), result("x")) == {0: [None], 2: [3]}
    both = answers(calls("x"), ASSISTANT, calls("x"), *[result("x")] * 2)
    assert both == {0: [3], 2: [4]}


def test_a_result_without_a_tool_name_is_paired_by_its_id() -> None:
    """Clients of chat formats send it so."""
    assert answers(calls("x"), result("")) == {0: [1]}
    assert answers(calls("x"), result("", id="other")) == {0: [None]}
    assert pair([result("x"), calls("x")]).calls == {}
    # It takes only what no result with a name answers, of the newest reply first.
    assert answers(calls("x", "y"), result(""), result("x")) == {0: [2, 1]}
    assert answers(calls("x"), USER, calls("y"), *[result("")] * 3) == {0: [4], 2: [3]}


def test_a_result_of_another_tool_answers_nothing() -> None:
    """The id alone is not enough."""
    assert answers(calls("x"), result("y")) == {0: [None]}


def test_the_same_object_twice_is_two_messages() -> None:
    """Careless processors repeat what they were given."""
    call, answer = calls("x"), result("x")
    assert answers(call, answer, call, answer) == {0: [1], 2: [3]}


def test_an_exchange_has_calls_reasoning_and_results_of_one_reply() -> None:
    """Texts between its calls stay between them."""
    messages = [REASONING, calls("x"), REASONING, ASSISTANT, calls("y"), result("y"), result("x")]
    (group,) = call_groups(messages)
    assert group == CallGroup(calls=(0, 1, 2, 3, 4), results=(5, 6))
    assert group.members == (0, 1, 2, 3, 4, 5, 6)


def test_calls_after_a_result_or_a_user_begin_a_new_exchange() -> None:
    """Calls after a text begin one, too, if all calls before the text are answered."""
    groups = call_groups([calls("x"), result("x"), calls("y"), USER, calls("z"), result("z")])
    assert [group.calls for group in groups] == [(0,), (2,), (4,)]
    assert len(call_groups([calls("x"), ASSISTANT, calls("y"), result("y")])) == 2


def test_messages_without_calls_belong_to_no_exchange() -> None:
    """They neither begin one nor part one."""
    groups = call_groups([ToolCallMessage([]), calls("x"), ToolCallMessage([]), calls("y")])
    assert [group.calls for group in groups] == [(1, 2, 3)]


def test_segments_keep_calls_with_results_and_reasoning_with_the_reply_after_it() -> None:
    """The shortest stretches for which that holds."""
    assert stretches() == []
    assert stretches(USER, REASONING, ASSISTANT, USER) == [[0], [1, 2], [3]]
    assert stretches(REASONING, calls("x"), result("x"), USER) == [[0, 1, 2], [3]]
    assert stretches(calls("x"), calls("y"), result("y"), result("x")) == [[0, 1, 2, 3]]
    assert stretches(REASONING, USER) == [[0], [1]]
    assert stretches(calls("x"), USER, ASSISTANT) == [[0], [1], [2]]
    assert stretches(calls("x"), USER, result("x"), USER) == [[0, 1, 2], [3]]
