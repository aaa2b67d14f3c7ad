"""Blocks of Claude's own in tools' results: search results to cite, the state of a browser."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, State, anthropic, gemini, openai
from agentkit_py.messages import TextMessage, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.models import Model, ModelRequest, ToolSpec, openai_responses
from agentkit_py.models.conversations import read_conversation
from agentkit_py.testing import FakeProvider, Raw, tool_call

FOUND: dict[str, Any] = {
    "type": "search_result",
    "source": "https://example.com/ruby",
    "title": "Ruby",
    "content": [{"type": "text", "text": "Ruby came in 1995."}],
    "citations": {"enabled": True},
}
CITED = {
    "type": "search_result_location",
    "source": FOUND["source"],
    "title": "Ruby",
    "cited_text": "Ruby came in 1995.",
    "search_result_index": 0,
    "start_block_index": 0,
    "end_block_index": 1,
}
CALL = ToolCall("c1", "look_up", {})
CLAUDE = anthropic("claude-sonnet-4-5", api_key="k")


def sent(model: Model, content: Any) -> dict[str, Any]:
    """A request with a tool's result."""
    messages = (
        TextMessage("user", "?"),
        ToolCallMessage([CALL]),
        ToolResultMessage(CALL, content),
    )
    return model.encode(ModelRequest(messages=messages, tools=(ToolSpec("look_up"),)))


def result_in(content: Any) -> Any:
    """What Claude gets as the content of a result."""
    return sent(CLAUDE, content)["messages"][-1]["content"][0]["content"]


@pytest.mark.parametrize(
    ("content", "blocks"),
    [
        (FOUND, [FOUND]),
        ({"data": FOUND}, [FOUND]),
        ({"data": [FOUND, FOUND]}, [FOUND, FOUND]),
        (["Two were found:", FOUND], [{"type": "text", "text": "Two were found:"}, FOUND]),
        ([{"type": "text", "text": " "}, FOUND, {"rest": 3}], [FOUND, '{"rest":3}']),
    ],
)
def test_search_results_reach_claude_as_blocks(content: Any, blocks: list[Any]) -> None:
    """Alone or in a list, beside anything else."""
    expected = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
    assert result_in(content) == expected


@pytest.mark.parametrize(
    "changed",
    [
        {"content": []},
        {"content": [{"type": "text", "text": " "}]},
        {"content": [{"type": "image"}]},
        {"title": None},
        {"rank": 3},
    ],
)
def test_a_search_result_that_claude_would_refuse_is_json(changed: dict[str, Any]) -> None:
    """Some tool's own records have the same type."""
    record = {**FOUND, **changed}
    assert json.loads(result_in([record])) == [record]


def test_marks_of_a_cache_are_the_librarys_to_set() -> None:
    """There may be four in a request."""
    assert result_in({**FOUND, "cache_control": {"type": "ephemeral"}}) == [FOUND]


def test_the_state_of_a_browser_is_json_for_any_other_tool() -> None:
    """The API takes it in results of its browser only."""
    state: Any = {"type": "browser_state", "tabs": []}
    assert result_in(state) == [{"type": "text", "text": '{"type":"browser_state","tabs":[]}'}]


@pytest.mark.parametrize(
    "model",
    [
        openai("gpt-4.1", api_key="k"),
        openai_responses("gpt-4.1", api_key="k"),
        gemini("gemini-2.5-flash", api_key="k"),
    ],
    ids=["chat", "responses", "gemini"],
)
def test_other_formats_read_search_results_as_json(model: Model) -> None:
    """All of them is there."""
    written = json.dumps(sent(model, {"data": [FOUND]}))
    assert "search_result" in written
    assert "Ruby came in 1995." in written


async def test_citations_of_a_search_result_come_back_and_are_sent_again() -> None:
    """The next request holds the text as it came."""
    answer = {"type": "text", "text": "In 1995.", "citations": [CITED]}
    reply = {"type": "message", "role": "assistant", "content": [answer]}
    body = {**reply, "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}

    def look_up() -> Any:
        """Look it up."""
        return [FOUND]

    with FakeProvider([tool_call("look_up", {}), Raw(text=json.dumps(body)), "Bye."]) as fake:
        model = anthropic("claude-sonnet-4-5", api_key="k", base_url=fake.base_url("anthropic"))
        agent = Agent(name="a", system="s", model=model, tools=[look_up], history=MemoryHistory())
        first = await agent.run("When?", state=State[Any](thread_id="t"))
        assert first.text == "In 1995."
        await agent.run("Bye", state=State[Any](thread_id="t"))
    assert [request.rejection for request in fake.requests] == [None] * 3
    blocks = [b for m in fake.requests[-1].body["messages"] for b in m["content"]]
    assert answer in blocks
    assert FOUND in next(b for b in blocks if b["type"] == "tool_result")["content"]


def test_search_results_are_read_from_a_request_and_written_as_they_were() -> None:
    """A conversation of another program's continues."""
    words = {"type": "text", "text": "Found:"}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "When?"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "look_up", "input": {}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [words, FOUND]}],
        },
    ]
    request = ModelRequest(
        messages=read_conversation({"messages": messages}), tools=(ToolSpec("look_up"),)
    )
    again = CLAUDE.encode(request)["messages"]
    assert again[-1]["content"][0]["content"] == [words, FOUND]
