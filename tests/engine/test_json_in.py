"""Input that comes as JSON: user messages, and histories that a client keeps."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agentkit_py import AgentResult, State, create_agent, create_state
from agentkit_py.errors import ConfigurationError, InvalidRecordError, StateError
from agentkit_py.messages import ImageContent, TextContent, TextMessage, UserMessage
from agentkit_py.testing import ScriptedModel

from .runner import Runner

SAID = {"type": "text", "role": "user", "content": "I am Ada."}
RESULT = {
    "agentName": "clerk",
    "output": [{"type": "text", "role": "assistant", "content": "Hello Ada."}],
    "toolCalls": [],
    "createdAt": "2026-11-27T10:00:00Z",
}


async def test_a_run_takes_a_user_message_as_the_json_of_a_front_end(runner: Runner) -> None:
    """`network.run(event.data.userMessage)`."""
    model = ScriptedModel("Hi.")
    agent = create_agent(name="clerk", system="S", model=model)
    sent: dict[str, Any] = {
        "id": "m1",
        "role": "user",
        "content": "Hello",
        "systemPrompt": "Brief.",
    }
    result = await runner.run(agent, sent)
    assert result.text == "Hi."
    assert [m["content"] for m in model.bodies[0]["messages"]] == ["S\n\nBrief.", "Hello"]


def test_a_user_message_has_parts_and_a_time_in_json() -> None:
    """Content parts as in stored messages; the time becomes UTC."""
    parts = [{"type": "text", "text": "See"}, {"type": "image", "url": "https://x/y.png"}]
    message = UserMessage.from_dict(
        {"content": parts, "clientTimestamp": "2026-11-27T12:00:00+02:00"}
    )
    assert message.content == (TextContent("See"), ImageContent(url="https://x/y.png"))
    assert message.client_timestamp == datetime(2026, 11, 27, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({}, "content"),
        ({"content": 7}, "content"),
        ({"content": "x", "id": 7}, "id"),
        ({"content": "x", "state": []}, "state"),
        ({"content": "x", "clientTimestamp": "yesterday"}, "clientTimestamp"),
        ({"content": "x", "client_timestamp": "2026-11-27"}, "client_timestamp"),
        ({"content": "x", "systemPrompt": {}}, "systemPrompt"),
    ],
)
async def test_json_that_is_no_user_message_is_refused_by_name(
    runner: Runner, sent: dict[str, Any], field: str
) -> None:
    """Before anything is asked."""
    model = ScriptedModel("Hi.")
    agent = create_agent(name="clerk", system="S", model=model)
    with pytest.raises(InvalidRecordError) as caught:
        await runner.run(agent, sent)
    assert caught.value.field == field
    assert not model.bodies


async def test_a_state_takes_the_history_that_a_client_keeps_as_json(runner: Runner) -> None:
    """`createState(data, { messages: event.data.history })`."""
    model = ScriptedModel("Ada.")
    agent = create_agent(name="clerk", system="S", model=model)
    state = create_state({}, messages=[SAID], results=[RESULT])
    await runner.run(agent, "Who am I?", state=state)
    said = [m["content"] for m in model.bodies[0]["messages"]]
    assert said == ["S", "I am Ada.", "Hello Ada.", "Who am I?"]


def test_a_state_without_messages_and_results_may_say_none() -> None:
    """As `undefined` in TypeScript: `messages=event.data.get("history")`."""
    assert not create_state({}, messages=None, results=None).is_seeded


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"messages": "hello"}, "messages must be a list"),
        ({"messages": SAID}, "messages must be a list"),
        ({"messages": 7}, "messages must be a list"),
        ({"messages": ["hello"]}, r"messages\[0\] must be a message"),
        ({"results": ["hello"]}, r"results\[0\] must be an AgentResult"),
        ({"messages": [SAID, {"type": "text"}]}, r"messages\[1\]"),
        ({"results": [{"agentName": "a"}]}, r"results\[0\]"),
    ],
)
def test_messages_and_results_of_another_kind_are_refused_by_name(
    options: dict[str, Any], what: str
) -> None:
    """Where the state is made, not in the middle of a run."""
    with pytest.raises((StateError, InvalidRecordError), match=what):
        State({}, **options)


@pytest.mark.parametrize("output", [[SAID], "hello", [TextMessage("user", "x"), 7], None])
def test_a_result_whose_output_is_no_list_of_messages_is_refused_with_the_line(output: Any) -> None:
    """`new AgentResult("user", [{ type: "text", … }], [])`, written line by line."""
    with pytest.raises(ConfigurationError, match=r"AgentResult\.from_user"):
        AgentResult("user", output, [])
