"""The places that Claude is told to cache, and the keys of the others."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from agentkit_py._core.json import as_list, as_object
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    Message,
    ReasoningMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.models import (
    Model,
    ModelRequest,
    ToolSpec,
    anthropic,
    azure_openai,
    grok,
    openai,
    openai_responses,
)
from agentkit_py.models.conversations import read_conversation, reader_for

LONG = "Mind the rules of the desk. " * 200  # 1,400 tokens
TOOLS = (ToolSpec("track", LONG), ToolSpec("refund"))
MARK = {"type": "ephemeral"}
TEXT = {"type": "text", "text": "Hi"}
CLAUDE = anthropic("claude-sonnet-4-5")


def said(role: Any, text: str, agent: str | None = None) -> TextMessage:
    """Return a message."""
    return TextMessage(role, text, agent=agent)


def called(agent: str, call_id: str) -> tuple[Message, Message]:
    """Return a call with its result."""
    call = ToolCall(call_id, "track", {"parcel": 1})
    result = ToolResultMessage(call, "In Linz.")
    return ToolCallMessage([call], agent=agent), result


def request(*messages: Message, **options: Any) -> ModelRequest:
    """Return a request of the desk."""
    options = {"agent": "desk", "cache_key": "thread", "tools": TOOLS, **options}
    return ModelRequest(messages=(said("system", LONG), *messages), **options)


def marks(value: Any, path: str = "") -> Iterator[str]:
    """Yield the places of marks."""
    members, items = as_object(value), as_list(value)
    if members is not None and "cache_control" in members:
        yield path
    for name, inner in (members or {}).items():
        yield from marks(inner, f"{path}.{name}".strip("."))
    for index, inner in enumerate(items or []):
        yield from marks(inner, f"{path}[{index}]")


def marked(model: Model, asked: ModelRequest) -> list[str]:
    """Return the marked places of a request."""
    return sorted(marks(model.encode(asked)))


def test_tools_system_prompt_last_request_and_end_are_marked() -> None:
    """The desk's last request ended with the first question, whatever others said since."""
    asked = request(
        said("user", "Where?"),
        *called("desk", "c1"),
        said("assistant", "In Linz.", "desk"),
        said("user", "Refund?"),
        *called("billing", "c2"),
        said("assistant", "Done.", "billing"),
        said("user", "And now?"),
    )
    body = CLAUDE.encode(asked)
    assert sorted(marks(body)) == [
        "messages[2].content[0]",  # the result after which the desk has answered
        "messages[8].content[0]",
        "system[0]",
        "tools[1]",
    ]
    assert body["system"] == [{"type": "text", "text": LONG, "cache_control": MARK}]
    assert body["messages"][-1]["content"][0]["cache_control"] == MARK


def test_a_request_whose_beginning_is_not_repeated_has_no_marks() -> None:
    """Written tokens cost more, so what a processor asks is not marked."""
    assert marked(CLAUDE, request(said("user", "Hi"), cache_key=None)) == []


def test_a_single_question_without_a_thread_has_its_head_marked_only() -> None:
    """Other questions have the same head; the question itself is never sent again."""
    asked = request(said("user", LONG), cache_key="", tools=())
    assert marked(CLAUDE, asked) == ["system[0]"]
    assert marked(CLAUDE, replace(asked, cache_key="t")) == ["messages[0].content[0]", "system[0]"]


@pytest.mark.parametrize(
    ("model", "words", "found"),
    [
        ("claude-opus-5-5", 80, True),
        ("claude-sonnet-4-5", 80, False),
        ("claude-sonnet-4-5", 160, True),
        ("claude-haiku-4-5", 600, False),
        ("claude-haiku-4-5", 700, True),
        ("claude-2.1", 10_000, False),
        ("somebodys-model", 10_000, False),
    ],
)
def test_nothing_is_marked_below_the_minimum_that_the_model_caches(
    model: str, words: int, *, found: bool
) -> None:
    """Each model has a minimum; before Claude 3 there was no cache."""
    asked = replace(request(), messages=(said("user", "Mind the rules of the day. " * words),))
    places = ["messages[0].content[0]"] if found else []
    assert marked(anthropic(model), replace(asked, tools=())) == places


def test_the_lifetime_is_that_of_all_marks() -> None:
    """A longer one must not be behind a shorter one."""
    body = anthropic("claude-opus-5-5", prompt_cache="1h").encode(request(said("user", "Hi")))
    hour = {"type": "ephemeral", "ttl": "1h"}
    assert body["system"][0]["cache_control"] == hour
    assert body["tools"][-1]["cache_control"] == hour
    assert body["messages"][-1]["content"][-1]["cache_control"] == hour


@pytest.mark.parametrize(
    ("options", "places"),
    [
        ({"prompt_cache": False}, []),
        ({"default_parameters": {"cache_control": MARK}}, [""]),
        ({"default_parameters": {"system": [{**TEXT, "cache_control": MARK}]}}, ["system[0]"]),
    ],
)
def test_a_users_own_settings_replace_the_marks(options: Any, places: list[str]) -> None:
    """Ours beside them could be one too many."""
    given = copy.deepcopy(options)
    assert marked(anthropic("claude-opus-5-5", **options), request(said("user", "Hi"))) == places
    assert options == given


def test_tools_of_the_users_own_are_not_changed() -> None:
    """A mark goes into a copy; tools that are loaded later take none."""
    tools: list[Any] = [
        {"name": "a", "description": LONG, "input_schema": {"type": "object"}},
        {"name": "b", "input_schema": {"type": "object"}, "defer_loading": True},
    ]
    model = anthropic("claude-opus-5-5", default_parameters={"tools": tools})
    assert "tools[0]" in marked(model, request(said("user", "Hi")))
    assert list(marks(tools)) == []


def test_marks_are_put_on_blocks_that_take_them() -> None:
    """Not on thinking, and not on an answer that the agent has begun."""
    signed = {"anthropic": {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}}
    asked = request(
        said("user", LONG),
        ReasoningMessage("Hm.", agent="desk", provider_metadata=signed),
        said("assistant", "Yes.", "desk"),
        said("user", "And?"),
        said("assistant", "Well,", "desk"),
        prefill=1,
        tools=(),
    )
    assert marked(CLAUDE, asked) == [
        "messages[0].content[0]",
        "messages[2].content[0]",
        "system[0]",
    ]


def test_marks_of_an_imported_conversation_are_not_sent() -> None:
    """Its sender marked another block in each request, and all of them would be too many."""
    block: Any = {"type": "text", "text": "Yes.", "citations": [], "cache_control": MARK}
    turns: Any = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [block]}] * 5
    read = read_conversation({"system": "S", "messages": turns}, model=reader_for("anthropic"))
    assert len(marked(CLAUDE, request(*read, said("user", "Hi")))) <= 4


KEYED = [
    openai("gpt-4.1"),
    openai("gpt-6.2-sol"),
    openai_responses("gpt-5"),
    azure_openai("gpt-5.6", endpoint="https://r.openai.azure.com", api="responses"),
    grok("grok-4"),
    grok("grok-4", api="responses"),
]
NOT_KEYED = [
    azure_openai("gpt-4o", endpoint="https://r.openai.azure.com"),  # older than the key
    azure_openai("Kimi-K2.5", endpoint="https://r.openai.azure.com", api="responses"),
    openai("llama3.1", base_url="http://localhost:11434/v1"),
    openai("gpt-4.1", base_url="https://gateway.example/v1"),
    openai("gpt-4.1", prompt_cache=False),
    CLAUDE,
]


@pytest.mark.parametrize("model", KEYED, ids=lambda model: f"{model.provider} {model.model}")
def test_openai_and_grok_get_the_key_of_the_thread(model: Model) -> None:
    """The user's own key wins, and without a thread there is none."""
    assert model.encode(request(said("user", "Hi")))["prompt_cache_key"] == "thread"
    assert "prompt_cache_key" not in model.encode(request(said("user", "Hi"), cache_key=""))
    own = model.with_parameters(prompt_cache_key="mine")
    assert own.encode(request(said("user", "Hi")))["prompt_cache_key"] == "mine"


@pytest.mark.parametrize("model", NOT_KEYED, ids=lambda model: f"{model.provider} {model.model}")
def test_hosts_that_may_refuse_a_key_get_none(model: Model) -> None:
    """Azure answers "Unrecognized request argument supplied: prompt_cache_key"."""
    assert "prompt_cache_key" not in model.encode(request(said("user", "Hi")))


def test_another_setting_is_refused() -> None:
    """True says nothing of the lifetime."""
    with pytest.raises(ConfigurationError, match="prompt_cache=True: pass 'auto', '1h' or False"):
        anthropic("claude-opus-5-5", prompt_cache=True)  # type: ignore[arg-type] - it is refused
