"""Filters of an agent's searches, as Agno's users write them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from agentkit_py import Agent, MemoryHistory, Network, State, tool
from agentkit_py.errors import ConfigurationError, ReplayError
from agentkit_py.knowledge import EQ, Knowledge, PostgresKnowledge, SqliteKnowledge
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.testing.fakes import HashingEmbedder
from tests.engine.runner import Runner

SEARCH = "search_knowledge_base"


@pytest.fixture
async def recipes(tmp_path: Path) -> AsyncIterator[Knowledge]:
    """Recipes of two kitchens, of two years."""
    made = Knowledge(store=SqliteKnowledge(tmp_path / "recipes.db"), embedder=HashingEmbedder())
    for cuisine in ("thai", "italian"):
        for year in (2020, 2024):
            await made.add(
                f"A {cuisine} soup of {year}",
                source=f"{cuisine}-{year}",
                metadata={"cuisine": cuisine, "year": year},
            )
    yield made
    await made.close()


async def sources(item: Agent | Network, **options: Any) -> Any:
    """Run it; return the sources that its search found, or what the model read instead."""
    state: State[Any] = State({"cuisine": "thai"})
    await item.run("Soup?", state=state, **options)
    content: Any = next(r for r in state.results if r.tool_calls).tool_calls[0].content
    if "error" in content:
        return content["error"]["message"]
    data = content["data"]
    return data if isinstance(data, str) else sorted(hit["source"] for hit in data)


def cook(knowledge: Knowledge, asked: Any = None, **options: Any) -> Agent:
    """Return an agent that searches once, with filters of the model's or without."""
    arguments = {"query": "soup"} | ({} if asked is None else {"filters": asked})
    model = ScriptedModel(tool_call(SEARCH, arguments), "Here you are.")
    agentic = asked is not None
    return Agent(
        name="cook",
        system="S",
        model=model,
        knowledge=knowledge,
        enable_agentic_knowledge_filters=agentic,
        **options,
    )


async def test_knowledge_filters_are_plain_dicts_and_several_are_merged(recipes: Knowledge) -> None:
    """As in Agno; a list of values means one of them."""
    both = ["thai-2020", "thai-2024"]
    assert await sources(cook(recipes, knowledge_filters=[{"cuisine": "thai"}])) == both
    assert await sources(cook(recipes, knowledge_filters={"cuisine": "thai"})) == both

    def of_2020(state: State[Any]) -> Any:
        return {"year": (2020,)}

    of_year = ["italian-2020", "thai-2020"]
    assert await sources(cook(recipes, knowledge_filters=of_2020)) == of_year
    found = await recipes.search("soup", filters={"cuisine": "thai", "year": 2020})
    assert [hit.source for hit in found] == ["thai-2020"]
    merged: list[Any] = [{"cuisine": "thai"}, {"year": 2020}]
    assert await sources(cook(recipes, knowledge_filters=merged)) == ["thai-2020"]
    assert await sources(cook(recipes, knowledge_filters=[merged[0] | merged[1]])) == ["thai-2020"]
    assert await sources(cook(recipes, knowledge_filters=[{"cuisine": ["thai", "greek"]}])) == both

    def of_state(state: State[Any]) -> Any:
        return [{"cuisine": state.data["cuisine"]}]

    made: list[Any] = [of_state, EQ("year", 2024).to_dict()]
    assert await sources(cook(recipes, knowledge_filters=made)) == ["thai-2024"]
    wrongs: list[Any] = [
        [{}],
        [{"cuisine": None}],
        [{"year": {"gt": 2020}}],
        [{"op": "EQ"}],
        {},
    ]
    for wrong in wrongs:
        with pytest.raises(ConfigurationError, match="knowledge_filters"):
            cook(recipes, knowledge_filters=wrong)


async def test_knowledge_filters_per_run_are_added_to_the_agents_own(recipes: Knowledge) -> None:
    """They narrow: a caller cannot reach past what the developer allows."""
    agent = cook(recipes, knowledge_filters=[{"cuisine": "thai"}])
    assert await sources(agent, knowledge_filters=[{"year": 2020}]) == ["thai-2020"]
    free = cook(recipes)
    assert await sources(free, knowledge_filters=[EQ("cuisine", "italian")]) == [
        "italian-2020",
        "italian-2024",
    ]
    network = Network(
        name="n",
        agents=[cook(recipes, knowledge_filters=[{"cuisine": "thai"}])],
        router=lambda ctx: None if ctx.call_count else "cook",
    )
    assert await sources(network, knowledge_filters=[{"cuisine": "italian"}]) == (
        "Nothing was found. Try other words."
    )
    with pytest.raises(ConfigurationError, match="no agent of this run has knowledge"):
        await Agent(name="a", system="S", model=ScriptedModel("ok")).run(
            "hi", knowledge_filters=[{"cuisine": "thai"}]
        )


async def test_knowledge_filters_of_a_run_hold_in_runs_nested_in_it(recipes: Knowledge) -> None:
    """An agent as a tool would else search what its caller's run may not see."""
    inner_model = ScriptedModel(tool_call(SEARCH, {"query": "soup"}), "Soup.")
    inner = Agent(name="inner", system="S", model=inner_model, knowledge=recipes)
    outer = Agent(
        name="outer",
        system="S",
        model=ScriptedModel(tool_call("inner", {"task": "soup"}), "ok"),
        knowledge=recipes,
        tools=[inner.as_tool(allowed_tools="own")],
    )
    await outer.run("hi", knowledge_filters=[{"cuisine": "thai", "year": 2020}])
    inner_model.assert_saw("thai-2020")
    inner_model.assert_not_saw("thai-2024", "italian")


async def test_knowledge_filters_of_a_run_hold_in_each_replay(
    runner: Runner, recipes: Knowledge
) -> None:
    """A durable run searches in a step, and is given the filters again by its function."""
    agent = cook(recipes, knowledge_filters=[{"cuisine": "thai"}])
    await runner.run(agent, "Soup?", knowledge_filters=[{"year": 2020}])
    assert isinstance(agent.model, ScriptedModel)
    agent.model.assert_saw("thai-2020")
    agent.model.assert_not_saw("thai-2024", "italian")


ITALIAN: list[Any] = [{"cuisine": "italian"}]
THAI: list[Any] = [{"cuisine": "thai"}]


@pytest.mark.parametrize("again", [{}, {"knowledge_filters": ITALIAN}, {"knowledge_filters": THAI}])
async def test_a_paused_run_goes_on_with_its_knowledge_filters_only(
    recipes: Knowledge, again: dict[str, Any]
) -> None:
    """Whoever answers cannot widen the search by leaving them out."""

    @tool(needs_approval=True)
    def order() -> str:
        """Order."""
        return "ordered"

    store = MemoryHistory()
    model = ScriptedModel(tool_call("order"), tool_call(SEARCH, {"query": "soup"}), "Soup.")
    agent = Agent(
        name="cook", system="S", model=model, knowledge=recipes, tools=[order], history=store
    )
    await agent.run("Order!", thread_id="t", knowledge_filters=THAI)
    (question,) = await store.list_questions(thread_id="t")
    if again.get("knowledge_filters") is THAI:
        await agent.resume("t", {question.id: True}, **again)
        model.assert_saw("thai-2020")
    else:
        with pytest.raises(ReplayError, match="knowledge_filters"):
            await agent.resume("t", {question.id: True}, **again)
    model.assert_not_saw("italian")


@pytest.mark.parametrize(
    "asked",
    [
        [{"key": "secret", "value": "x"}],
        [{"key": "cuisine", "op": "LIKE", "value": "x"}],
        [{"cuisine": "italian"}],
        "italian",
        7,
    ],
)
async def test_filter_precedence_user_uses_the_users_alone_where_the_models_is_invalid(
    recipes: Knowledge, asked: Any
) -> None:
    """The model's filters are not even read; the schema it is shown is the usual one."""
    agent = cook(recipes, asked, knowledge_filters=[{"cuisine": "thai"}], filter_precedence="user")
    assert await sources(agent) == ["thai-2020", "thai-2024"]
    usual = cook(recipes, []).resolve().tools.knowledge
    search = agent.resolve().tools.knowledge
    assert search is not None
    assert usual is not None
    assert search.tool.spec.parameters == usual.tool.spec.parameters


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"key": "year", "value": "2020"}, "\"2020\" is a text, but 'year' is a number"),
        ({"key": "cuisine", "value": 5}, "5.0 is a number, but 'cuisine' is a text"),
        ({"key": "cuisine", "op": "IN", "value": [True]}, "true is true or false, but 'cuisine'"),
        ({"op": "AND", "filters": [{"key": "year", "value": "2020"}]}, "e.g. 2020"),
        ({"key": "source", "value": 7}, "7.0 is a number, but 'source' is a text"),
    ],
)
async def test_a_filter_value_of_the_wrong_kind_says_so(
    recipes: Knowledge, asked: Any, says: str
) -> None:
    """Else the model would believe that there is nothing."""
    assert says in await sources(cook(recipes, [asked]))


async def test_a_filter_value_of_the_right_kind_that_nothing_has_finds_nothing(
    recipes: Knowledge,
) -> None:
    """Then it is the truth."""
    found = await sources(cook(recipes, [{"key": "year", "value": 1999}]))
    assert found == "Nothing was found. Try other words."


async def test_source_is_filterable(recipes: Knowledge) -> None:
    """By the developer, by the model, and in a store of the version before."""
    agent = cook(recipes, [{"key": "source", "op": "STARTSWITH", "value": "thai"}])
    assert await sources(agent) == ["thai-2020", "thai-2024"]
    assert isinstance(agent.model, ScriptedModel)
    assert "- source: " in agent.model.bodies[0]["messages"][0]["content"]
    assert await sources(cook(recipes, knowledge_filters=[{"source": "thai-2020"}])) == [
        "thai-2020"
    ]
    assert "source" not in await recipes.keys()
    # The metadata's own key of that name counts.
    await recipes.add("A soup", source="mine", metadata={"source": "grandma"})
    assert [hit.source for hit in await recipes.search("soup", filters=EQ("source", "grandma"))]
    assert not await recipes.search("soup", filters=EQ("source", "mine"))


async def test_source_is_filterable_in_a_store_of_the_version_before(
    postgres_url: str, postgres_schema: str
) -> None:
    """It is brought to this version when it is opened."""
    store = PostgresKnowledge(postgres_url, schema=postgres_schema)
    made = Knowledge(store=store, embedder=HashingEmbedder())
    await made.add("Soup", source="old", metadata={"year": 2020})
    await made.close()
    with psycopg.connect(postgres_url) as connection:
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(postgres_schema)))
        connection.execute("DELETE FROM knowledge_facts WHERE key = 'source'")
        connection.execute("UPDATE knowledge_facts_of_store SET value='1' WHERE name = 'version'")
    assert [hit.source for hit in await made.search("soup", filters=EQ("source", "old"))] == ["old"]
    assert await made.keys() == {"year": [2020]}
    await made.close()
