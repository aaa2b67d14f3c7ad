"""Every provider's tool loop, accepted by a provider that refuses what the real one does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from agentkit_py import Agent, Network, RouterContext, SqliteHistory, State, create_tool
from agentkit_py.messages import ToolResultMessage
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls

Provider = Literal["openai", "azure_openai", "anthropic", "gemini", "grok"]
ALL: list[Provider] = ["openai", "azure_openai", "anthropic", "gemini", "grok"]

# Each provider's usual model, one that signs its calls, and one that takes a prefill.
OTHERS: list[tuple[Provider, str]] = [
    ("gemini", "gemini-3-pro-preview"),
    ("anthropic", "claude-3-5-haiku-latest"),
    ("openai", "gpt-5"),
    ("openai", "o3"),
]

Case = tuple[Provider, dict[str, Any]]
USUAL: list[Case] = [(provider, {}) for provider in ALL]
CASES: list[Case] = USUAL + [(provider, {"model": name}) for provider, name in OTHERS]

pytestmark = pytest.mark.parametrize(
    "case", CASES, ids=[f"{p}-{options.get('model', 'usual')}" for p, options in CASES]
)


class Seat(BaseModel):
    row: int
    letter: str | None = None


def get_weather(city: str, days: int = 1) -> dict[str, Any]:
    """Get the weather."""
    return {"city": city, "days": days, "sky": "clear"}


def fail() -> None:
    """Fail."""
    raise LookupError("no booking 42")


def _book(seat: Seat) -> int:
    return seat.row


book = create_tool(name="book", description="Book a seat", parameters=Seat, handler=_book)
TOOLS = [get_weather, fail, book]


def scripted(case: Case, *replies: Any) -> ScriptedModel:
    """A model of the case's provider."""
    provider, options = case
    return ScriptedModel(*replies, provider=provider, **options)


async def run(model: ScriptedModel, **options: Any) -> list[ToolResultMessage]:
    """Run an agent with the tools to its end; all tool results, in order."""
    state = State[Any]()
    options = {"tools": TOOLS, "max_iter": 9, **options}
    await Agent(name="a", system="Be brief.", model=model, **options).run("q?", state=state)
    model.assert_finished()
    return [result for r in state.results for result in r.tool_calls]


async def test_one_call(case: Case) -> None:
    """The result goes back and the answer comes."""
    model = scripted(case, tool_call("get_weather", {"city": "Paris"}), "Clear.")
    (result,) = await run(model)
    assert result.content == {"data": {"city": "Paris", "days": 1, "sky": "clear"}}
    model.assert_saw("q?", "Paris", "clear")


@pytest.mark.parametrize("parallel", [True, False])
async def test_calls_in_parallel(case: Case, parallel: bool) -> None:
    """Two of the same tool and one of another in one reply."""
    calls = tool_calls(
        ("get_weather", {"city": "Paris"}), ("book", {"row": 3}), ("get_weather", {"city": "Rome"})
    )
    model = scripted(case, calls, "Done.")
    results = await run(model, parallel_tools=parallel)
    assert [r.tool.name for r in results] == ["get_weather", "book", "get_weather"]
    assert results[1].content == {"data": 3}
    model.assert_saw("q?", "Paris", "Rome")


async def test_an_error_result(case: Case) -> None:
    """The model reads what went wrong."""
    model = scripted(case, tool_call("fail"), "Sorry.")
    (result,) = await run(model)
    assert result.is_error
    model.assert_saw("no booking 42")


@pytest.mark.parametrize("given", ["cut \ud83d", {"cut \ud83d": ["\ude00"], "n": float("inf")}])
async def test_half_an_emoji_in_a_result(case: Case, given: Any) -> None:
    """In a text or as a field's name, the provider gets text that UTF-8 can carry."""

    def cut() -> Any:
        """Give it."""
        return given

    model = scripted(case, tool_call("cut"), "Done.")
    (result,) = await run(model, tools=[cut])
    assert not result.is_error
    model.assert_saw("cut ")
    for request in model.requests:
        str(request.body).encode()
        json.dumps(request.body, ensure_ascii=False).encode()


@pytest.mark.parametrize("tools", [TOOLS, []])
async def test_an_unknown_tool(case: Case, tools: list[Any]) -> None:
    """One that the agent does not have, or any where it has none."""
    model = scripted(case, tool_call("fly_to-moon", {"by": "rocket"}), "Sorry.")
    (result,) = await run(model, tools=tools)
    assert result.is_error
    model.assert_saw("Unknown tool")


async def test_invalid_arguments(case: Case) -> None:
    """A second, valid call succeeds."""
    model = scripted(
        case, tool_call("book", {"row": "front", "x": [1]}), tool_call("book", {"row": 1}), "Done."
    )
    first, second = await run(model)
    assert (first.is_error, second.content) == (True, {"data": 1})
    model.assert_saw("valid integer")


@pytest.mark.parametrize("written", ['{"row": 1', "row=1", "[1, 2]", '"text"', "null", ""])
async def test_malformed_arguments(case: Case, written: str) -> None:
    """They go back as something that the provider takes, and the model reads what was wrong."""
    model = scripted(case, tool_call("book", written), "Sorry.")
    (result,) = await run(model)
    assert result.is_error


async def test_three_rounds(case: Case) -> None:
    """One after another, the last with two calls."""
    model = scripted(
        case,
        tool_call("get_weather", {"city": "Paris"}),
        tool_call("book", {"row": 7, "letter": "C"}),
        tool_calls(("get_weather", {"city": "Rome"}), ("fail", {})),
        "All done.",
    )
    assert len(await run(model)) == 4
    model.assert_saw("Paris", "Rome", "no booking 42")


async def test_repeated_ids(case: Case) -> None:
    """Within a reply and over several: real models do that."""
    twice = {
        "tool_calls": [
            {"id": "same", "name": "get_weather", "arguments": {"city": "Paris"}},
            {"id": "same", "name": "book", "arguments": {"row": 1}},
        ]
    }
    results = await run(scripted(case, twice, twice, "Done."))
    assert [r.is_error for r in results] == [False] * 4


async def test_text_with_calls(case: Case) -> None:
    """A reply may say something and call tools, too."""
    model = scripted(
        case, tool_calls(("get_weather", {"city": "Oslo"}), text="Let me see."), "Clear."
    )
    await run(model)
    model.assert_saw("Let me see.", "Oslo")


async def test_reasoning_with_calls(case: Case) -> None:
    """Signed by those that sign it, and sent back where it must be."""
    thinking = {**tool_call("get_weather", {"city": "Oslo"}), "reasoning": "I should look."}
    await run(scripted(case, thinking, {"text": "Clear.", "reasoning": "It is clear."}))


async def test_a_prefill(case: Case) -> None:
    """It ends each request, or is asked for where the model takes none."""
    model = scripted(case, tool_call("get_weather", {"city": "Oslo"}), "the sky is clear.")
    await run(model, assistant="Well, ")
    for number in range(2):
        model.assert_saw("Well,", request=number)


async def test_a_forced_tool(case: Case) -> None:
    """The choices are any tool, and one by name."""
    for choice in ("any", "get_weather"):
        model = scripted(case, tool_call("get_weather", {"city": "Oslo"}))
        await run(model, tool_choice=choice, max_iter=1)


@pytest.mark.parametrize("order", ["tools first", "none first", "to and fro"])
async def test_agents_with_and_without_tools_follow_each_other(case: Case, order: str) -> None:
    """Calls of one are history of the other."""
    plan = {
        "tools first": ["with", "without"],
        "none first": ["without", "with", "other"],
        "to and fro": ["with", "without", "other", "with", "without"],
    }[order]
    replies: dict[str, list[Any]] = {
        "with": [tool_call("get_weather", {"city": "Oslo"}), "Clear."],
        "without": ["I have no tools."],
        "other": [tool_calls(("book", {"row": 1}), text="One moment."), "Booked."],
    }
    model = scripted(case, *(reply for name in plan for reply in replies[name]))
    agents = [
        Agent(name="with", system="S", tools=[get_weather], max_iter=5),
        Agent(name="without", system="S"),
        Agent(name="other", system="S", tools=[book], max_iter=5),
    ]

    def router(context: RouterContext) -> str | None:
        return plan[context.call_count] if context.call_count < len(plan) else None

    await Network(name="n", agents=agents, default_model=model, router=router).run("q?")
    model.assert_finished()


async def test_a_routing_agent_that_chooses_by_tool(case: Case) -> None:
    """The default one, which must call a tool."""
    model = scripted(
        case,
        tool_call("select_agent", {"name": "with"}),
        tool_call("get_weather", {"city": "Oslo"}),
        "Clear.",
        tool_call("select_agent", {"name": "without", "reason": "no tools needed"}),
        "I have no tools.",
        tool_call("done", {}),
    )
    agents = [
        Agent(name="with", system="S", tools=[get_weather], max_iter=5),
        Agent(name="without", system="S"),
    ]
    run = await Network(name="n", agents=agents, default_model=model).run("q?")
    assert run.stop_reason == "done"
    model.assert_finished()


async def test_a_second_turn_resumed_from_a_store(case: Case, tmp_path: Path) -> None:
    """The store keeps all that a provider needs to have back."""
    path = tmp_path / "threads.db"
    thinking = {"text": "Clear.", "reasoning": "It is clear."}
    calls = tool_calls(("get_weather", {"city": "Oslo"}), ("book", {"row": 1}), text="Wait.")
    first = scripted(case, {**calls, "reasoning": "I should look."}, thinking)
    state = State[Any]()
    async with SqliteHistory(path) as history:
        agent = Agent(name="a", system="S", tools=TOOLS, model=first, history=history, max_iter=5)
        await agent.run("Weather in Oslo?", state=state)
    second = scripted(case, tool_call("get_weather", {"city": "Bergen"}), "Rain.")
    async with SqliteHistory(path) as history:
        agent = Agent(name="a", system="S", tools=TOOLS, model=second, history=history, max_iter=5)
        await agent.run("And in Bergen?", thread_id=state.thread_id)
    first.assert_finished()
    second.assert_finished()
    second.assert_saw("Weather in Oslo?", "Oslo", "Clear.", "And in Bergen?", "Bergen")
