"""The upstream proposal of history processors."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import Agent, HistoryConfig, MemoryHistory, Message, State, TokenLimiter
from agentkit_py.errors import ConfigurationError, ProcessorError
from agentkit_py.history import HistoryContext
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import ApproximateTokenizer, apply_processors
from agentkit_py.testing import ScriptedModel, tool_call


def test_token_limiter_info() -> None:
    """Nothing is loaded to say how tokens are counted."""
    for limiter, kind, encoding in (
        (TokenLimiter(8, use_tiktoken=False), "approximate", "o200k_base"),
        (TokenLimiter(8, use_tiktoken=False, encoding="cl100k_base"), "approximate", "cl100k_base"),
        (TokenLimiter(8, tokenizer=ApproximateTokenizer("gpt2")), "approximate", "gpt2"),
        (TokenLimiter(8, tokenizer=len), "custom", None),
    ):
        info = limiter.info
        assert (info.limit, info.kind, info.encoding) == (8, kind, encoding)
    undecided = TokenLimiter(8, encoding="p50k_edit").info
    assert (undecided.kind, undecided.encoding) == ("auto", "p50k_edit")


@pytest.mark.parametrize("wrong", [TokenLimiter(3), TokenLimiter, "x", {"type": "x"}, 3])
def test_a_wrong_shape_of_processors_is_refused_where_it_is_configured(wrong: Any) -> None:
    """By each level, with the line to write instead."""
    makers: list[Any] = [
        lambda: Agent(name="a", system="S", processors=wrong),
        lambda: HistoryConfig(processors=wrong),
        lambda: MemoryHistory(processors=wrong),
    ]
    for make in makers:
        with pytest.raises(ConfigurationError, match=r"\[|processor_from_settings"):
            make()


def test_processors_that_can_be_read_only_once_are_refused() -> None:
    """The second run would have none."""
    with pytest.raises(ConfigurationError, match="only once"):
        Agent(name="a", system="S", processors=iter([TokenLimiter(3)]))  # type: ignore[arg-type] - refused
    assert HistoryConfig(processors=None).chain == ()  # type: ignore[arg-type] - as agents take it


def test_no_example_names_an_agents_tools_in_a_filter(root: Path) -> None:
    """Each is named once, where the agent gets it; ``include="own"`` knows the rest."""
    files = [*(root / "examples").rglob("*.py"), *(root / "agentkit_py/cli/demo").rglob("*.py")]
    assert len(files) > 40
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "ToolCallFilter":
                named = [k.arg for k in node.keywords if not isinstance(k.value, ast.Constant)]
                assert named == [], f"{file}: {ast.unparse(node)}"


def weather(city: str) -> dict[str, Any]:
    """Return the weather."""
    return {"city": city, "days": [{"degrees": 7}]}


def in_place(messages: Sequence[Message]) -> Sequence[Message]:
    """Hide values, as careless processors do."""
    for message in messages:
        found: Any = message
        if isinstance(message, ToolResultMessage):
            found.content["data"]["days"][0]["degrees"] = "hidden"
        elif isinstance(message, ToolCallMessage):
            found.tools[0].arguments["city"] = "hidden"
    return messages


async def test_a_processor_that_edits_json_in_place_cannot_change_what_is_stored() -> None:
    """Neither in the state, nor in a store that saves at the end; and it is told."""
    saved: list[Any] = []

    def save(context: HistoryContext) -> None:
        saved.extend(context.new_results)

    agent = Agent(
        name="a",
        system="S",
        model=ScriptedModel(tool_call("weather", {"city": "Linz"}), "ok"),
        tools=[weather],
        history=HistoryConfig(append_results=save),
        processors=[in_place],
    )
    state = State[Any]()
    with pytest.raises(ProcessorError, match=r"'in_place'.* in place.*dataclasses\.replace"):
        await agent.run("q?", state=state)
    for result in (state.results[0], saved[0]):
        call: Any = result.output[0]
        answer = result.tool_calls[0]
        assert call.tools[0].arguments == {"city": "Linz"}
        assert answer.content == {"data": {"city": "Linz", "days": [{"degrees": 7}]}}


async def test_json_edited_in_place_is_put_back_where_the_processor_fails_or_breaks_it() -> None:
    """Whatever it puts there, and whether it ends or not."""

    def breaks(messages: Sequence[Message]) -> Sequence[Message]:
        in_place(messages)
        found: Any = messages[1]
        found.content["data"] = object()
        raise ValueError("no")

    call = ToolCall("c", "weather", {"city": "Linz"}, provider_metadata={"p": [1]})
    past = [
        ToolCallMessage([call]),
        ToolResultMessage(call, weather("Linz") | {"data": weather("")}),
    ]
    with pytest.raises(ProcessorError, match="in place"):
        await apply_processors(past, [breaks])
    assert past[0].tools[0].arguments == {"city": "Linz"}  # type: ignore[union-attr] - its kind is known here
    assert past[1].content == weather("Linz") | {"data": weather("")}  # type: ignore[union-attr] - its kind is known here
