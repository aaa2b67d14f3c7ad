"""Messages and errors as values."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any, TypeVar, cast

import pytest

from agentkit_py import Agent, AgentResult, Message, TextMessage, UserMessage
from agentkit_py.errors import (
    AgentKitError,
    ConfigurationError,
    InvalidRecordError,
    MissingDependencyError,
    MissingModelError,
    ModelResponseError,
    ProcessorError,
    StateConflictError,
    StoreVersionError,
    ThreadNotFoundError,
    ToolDefinitionError,
)
from agentkit_py.messages import (
    ReasoningMessage,
    TextContent,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    Usage,
    text_of,
    token_memo,
)
from agentkit_py.testing import ScriptedModel

from .runner import Runner

T = TypeVar("T")
CALL = ToolCall("c1", "look", {"what": "x"})
KINDS: list[Message] = [
    TextMessage("user", "hi", agent="a"),
    TextMessage("assistant", [TextContent("one"), TextContent("two")]),
    ToolCallMessage([CALL], provider_metadata={"openai": {"x": 1}}),
    ToolResultMessage(CALL, {"data": 1}, from_history=True),
    ReasoningMessage("hm", stop_reason="stop"),
]
EACH = pytest.mark.parametrize("message", KINDS, ids=lambda m: m.type)


@EACH
def test_a_message_cannot_be_changed(message: Message) -> None:
    """Messages are frozen; `replace` makes a changed copy."""
    with pytest.raises(FrozenInstanceError):
        message.agent = "b"  # type: ignore[misc] - what is tested
    assert replace(message, agent="b").agent == "b"


class Marked(TextMessage):
    """A message of somebody's own, without slots."""


def test_a_class_of_ones_own_is_made_signed_and_frozen_like_its_base() -> None:
    """A subclass stays a subclass in a result."""
    made = Marked("assistant", "hi")
    (signed,) = AgentResult("support", [made]).output
    assert isinstance(signed, Marked)
    assert signed == Marked("assistant", "hi", agent="support")
    assert made.agent is None
    with pytest.raises(FrozenInstanceError):
        made.agent = "b"  # type: ignore[misc] - what is tested


def test_calls_without_arguments_share_none() -> None:
    """Each gets a dict of its own, unless one is given."""
    first, second = ToolCall("a", "look"), ToolCall("b", "look")
    assert first.arguments == second.arguments == {}
    assert first.arguments is not second.arguments
    assert ToolCall("a", "look", {}, None, type="tool") == first


@EACH
def test_a_message_survives_pickling_and_copying(message: Message) -> None:
    """Token counts are not copied."""
    token_memo(message)["key"] = 3
    for again in (pickle.loads(pickle.dumps(message)), copy.deepcopy(message), copy.copy(message)):  # noqa: S301 - our own
        assert again == message
        assert token_memo(again) == {}


def test_type_and_role_are_those_of_typescript() -> None:
    """Both languages must read one table of threads."""
    assert [(m.type, m.role, m.stop_reason) for m in KINDS] == [
        ("text", "user", None),
        ("text", "assistant", None),
        ("tool_call", "assistant", "tool"),
        ("tool_result", "tool_result", "tool"),
        ("reasoning", "assistant", "stop"),
    ]


def test_the_text_by_which_a_message_counts_is_its_words_or_its_compact_json() -> None:
    """Counting by compact JSON is the rule of the upstream proposal."""
    assert [text_of(m) for m in KINDS] == [
        "hi",
        '[{"type":"text","text":"one"},{"type":"text","text":"two"}]',
        '[{"type":"tool","id":"c1","name":"look","input":{"what":"x"}}]',
        '{"data":1}',
        "hm",
    ]
    assert text_of(KINDS[1]) is text_of(KINDS[1])
    broken = ToolCallMessage([ToolCall("c", "look", malformed='{"a')])
    assert '"input":"{\\"a"' in text_of(broken)


def test_the_whole_text_of_a_content_list() -> None:
    """Its pieces, as they follow each other."""
    assert TextMessage("user", [TextContent("a "), TextContent("b")]).text == "a b"


def test_an_error_envelope_is_distinguished_from_data() -> None:
    """An envelope with the key ``error`` is an error."""
    assert ToolResultMessage(CALL, {"error": {"name": "E", "message": "m"}}).is_error
    assert not ToolResultMessage(CALL, {"data": {"error": 1}}).is_error
    assert not ToolResultMessage(CALL, "error").is_error


def test_usage_adds_up_field_by_field() -> None:
    """The total is the sum of input and output."""
    total = Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40)
    assert total == Usage(11, 22, 33, 44)
    assert total.total_tokens == 33
    assert total - Usage(1, 2, 3, 4) == Usage(10, 20, 30, 40)


def test_a_user_message_is_the_users() -> None:
    """The role is fixed, and a client's extra fields do not change it."""
    message = UserMessage("q?", "m1", state={"page": 1}, system_prompt="Be kind.")
    assert (message.role, message.content, message.id) == ("user", "q?", "m1")


FACTS: list[tuple[AgentKitError, dict[str, Any], str]] = [
    (MissingModelError("a"), {"agent": "a"}, "'a' has no model"),
    (ToolDefinitionError("t", "bad"), {"tool": "t"}, "Tool 't': bad"),
    (
        MissingDependencyError("rich", "cli", "The demo"),
        {"package": "rich", "extra": "cli"},
        "The demo needs the package 'rich': pip install \"pyagentkit[cli]\"",
    ),
    (StateConflictError(["k"], ("a", "b")), {"keys": ("k",), "tools": ("a", "b")}, "'k'"),
    (ThreadNotFoundError("t1"), {"thread_id": "t1"}, "no thread 't1'"),
    (StoreVersionError("f.db", found=9, supported=2), {"found": 9, "supported": 2}, "f.db"),
    (
        InvalidRecordError("missing", where="line 3", field="role"),
        {"where": "line 3", "field": "role"},
        "line 3, field role: missing",
    ),
    (
        ModelResponseError("odd", provider="p", model="m", excerpt="x" * 600),
        {"excerpt": "x" * 500, "provider": "p", "model": "m", "retriable": False},
        "p model 'm': odd",
    ),
]


@pytest.mark.parametrize(("error", "facts", "words"), FACTS, ids=lambda v: type(v).__name__)
def test_errors_keep_their_facts_as_attributes(
    error: AgentKitError, facts: dict[str, Any], words: str
) -> None:
    """Callers need not parse messages."""
    assert {name: getattr(error, name) for name in facts} == facts
    assert words in str(error)


def test_a_wrong_argument_of_a_developer_is_a_value_error_too() -> None:
    """Callers that do not import this library catch `ValueError`."""
    assert issubclass(ConfigurationError, ValueError)
    assert issubclass(ConfigurationError, AgentKitError)


@pytest.mark.parametrize("role", ["root", "tool", "developer", "", None])
def test_a_text_of_a_role_that_does_not_exist_is_refused(role: Any) -> None:
    """No provider takes it; the error names it and says what there is."""
    with pytest.raises(ConfigurationError, match=f"role={role!r}.*'system', 'user' or 'assistant'"):
        TextMessage(role, "Hello.")


async def test_a_processor_that_makes_up_a_role_is_named(runner: Runner) -> None:
    """Nothing of it is sent."""

    def promote(messages: Any) -> Any:
        return [*messages, TextMessage(cast("Any", "root"), "Obey.")]

    model = ScriptedModel("never")
    agent = Agent(name="a", system="S", model=model, processors=[promote])
    with pytest.raises(ProcessorError, match=r"'promote'.*role='root'"):
        await runner.run(agent, "q?")
    assert model.requests == []


async def test_a_text_in_a_content_list_is_a_part(runner: Runner) -> None:
    """As in the chat APIs that people come from."""
    model = ScriptedModel("done")
    await runner.run(Agent(name="a", system="S", model=model), UserMessage(["one", "two"]))  # type: ignore[list-item] - what is tested

    assert UserMessage(["one"]).content == [TextContent("one")]  # type: ignore[list-item] - what is tested
    model.assert_saw("one", "two")


@pytest.mark.parametrize("content", [[{"type": "text", "text": "x"}], [None], 5, None, b"x"])
def test_a_value_that_is_not_content_is_refused_with_advice(content: Any) -> None:
    """It failed deep in the request before."""
    with pytest.raises(ConfigurationError, match=r"UserMessage: content must be .* ImageContent"):
        UserMessage(content)
