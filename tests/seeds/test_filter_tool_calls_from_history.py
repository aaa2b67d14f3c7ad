"""Agno's history in the context: what is loaded, marked and stored, and the system prompt."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit_py import Agent, MemoryHistory, SqliteHistory
from agentkit_py.errors import ConfigurationError
from agentkit_py.lifecycle import AgentContext
from agentkit_py.processors import RecentToolCalls, RecentTurns
from agentkit_py.testing import ScriptedModel, tool_call
from tests.engine.runner import Runner

MARKDOWN = """\
<additional_information>
- Use markdown to format your answers.
</additional_information>"""


def weather(city: str) -> str:
    """Return the weather."""
    return f"{city}: sunny"


CITIES = ["Tokyo", "Delhi", "Shanghai", "Mumbai", "Beijing", "Cairo"]


def calls_in(body: dict[str, Any]) -> list[str]:
    """Return the cities that a request's calls are about."""
    calls = [call for m in body["messages"] for call in m.get("tool_calls") or ()]
    return [city for call in calls for city in CITIES if city in call["function"]["arguments"]]


async def test_max_tool_calls_from_history_is_three_old_ones_and_the_current() -> None:
    """The table of the seed; the store holds all."""
    store = MemoryHistory()
    for number, city in enumerate(CITIES):
        model = ScriptedModel(tool_call("weather", {"city": city}), "Sunny.")
        agent = Agent(
            name="a",
            system="S",
            model=model,
            tools=[weather],
            history=store,
            processors=[RecentToolCalls.from_settings({"max_tool_calls_from_history": 3})],
        )
        await agent.run(f"{city}?", thread_id="t")
        past = CITIES[max(0, number - 3) : number]
        assert [calls_in(body) for body in model.bodies] == [past, [*past, city]]
    assert sum(m.type == "tool_result" for m in await store.messages("t")) == len(CITIES)


async def test_loaded_messages_have_from_history_true(runner: Runner, tmp_path: Any) -> None:
    """In what processors get, in the state, and in what a store gives."""
    store = SqliteHistory(tmp_path / "t.db")
    seen: list[Any] = runner.again([])

    def note(messages: Any) -> Any:
        seen.append([m.from_history for m in messages])
        return messages

    for _ in range(2):
        model = ScriptedModel(tool_call("weather", {"city": "Linz"}), "Sunny.")
        agent = Agent(
            name="a", system="S", model=model, tools=[weather], history=store, processors=[note]
        )
        await runner.run(agent, "Linz?", thread_id="t")
    assert seen[-2:] == [[True] * 4, [True] * 4 + [False] * 2]
    assert [m.from_history for m in await store.messages("t")] == [True] * 8
    assert all(m.from_history for result in await store.load("t") for m in result.messages)
    await store.close()


@pytest.mark.parametrize("turns", [0, 1, 2, 9])
async def test_a_stored_thread_that_is_not_replayed(runner: Runner, turns: int) -> None:
    """``add_history_to_context=False``, and ``num_history_runs``: as many turns as are wanted."""
    store = MemoryHistory()
    model = ScriptedModel(
        *(
            reply
            for n in range(4)
            for reply in (tool_call("weather", {"city": CITIES[n]}), f"answer {n}")
        )
    )
    agent = Agent(
        name="a",
        system="S",
        model=model,
        tools=[weather],
        history=store,
        processors=[RecentTurns(turns)],
    )
    for number in range(4):
        await runner.run(agent, f"question {number}", thread_id="t")
    body = model.bodies[-1]
    assert calls_in(body) == CITIES[max(0, 3 - turns) : 4]
    asked = [m["content"] for m in body["messages"] if m["role"] == "user"]
    assert asked == [f"question {n}" for n in range(max(0, 3 - turns), 4)]
    assert len(await store.messages("t")) == 16


def named(context: AgentContext) -> str:
    """Return the agent's name as its system prompt."""
    return str(context.agent.name)


PROMPTS: list[tuple[dict[str, Any], str | None]] = [
    ({"instructions": ["Be brief."]}, "Be brief."),
    ({"instructions": "Be brief."}, "Be brief."),
    (
        {"instructions": ["Be brief.", "Be kind."]},
        "<instructions>\n- Be brief.\n- Be kind.\n</instructions>",
    ),
    ({"instructions": ["Be brief."], "markdown": True}, f"Be brief.\n\n{MARKDOWN}"),
    ({"system": "You help.", "markdown": True}, f"You help.\n\n{MARKDOWN}"),
    ({"system": "You help.", "instructions": ["Be brief."]}, "You help.\n\nBe brief."),
    ({"system": lambda: "Now.", "instructions": ["Be brief."]}, "Now.\n\nBe brief."),
    ({"system": named, "markdown": True}, f"a\n\n{MARKDOWN}"),
    ({"system": lambda: "Now."}, "Now."),
    ({"system": ""}, None),
]


@pytest.mark.parametrize(("options", "prompt"), PROMPTS)
async def test_instructions_and_markdown(
    runner: Runner, options: dict[str, Any], prompt: str | None
) -> None:
    """The system prompt of the seed; functions and texts alike."""
    model = ScriptedModel("ok")
    await runner.run(Agent(name="a", model=model, **options), "q?")
    first = model.bodies[0]["messages"][0]
    assert first["content"] == prompt if prompt else first["role"] == "user" or not first["content"]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"instructions": []},
        {"instructions": [7]},
        {"instructions": [""]},
        {"instructions": 7},
        {"instructions": "x", "markdown": 1},
    ],
)
def test_instructions_of_a_wrong_kind_are_refused(wrong: dict[str, Any]) -> None:
    """An agent without any prompt would be a mistake."""
    with pytest.raises(ConfigurationError, match=r"instructions|markdown"):
        Agent(name="a", **wrong)
