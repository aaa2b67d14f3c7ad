"""Agents that search."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentkit_py import Agent, AgentResult, Network, State, explain, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.knowledge import CONTAINS, EQ, FilterExpr, Knowledge, SqliteKnowledge
from agentkit_py.knowledge.postgres import PostgresKnowledge
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.testing.fakes import HashingEmbedder

SEARCH = "search_knowledge_base"


@pytest.fixture
async def filled(knowledge: Knowledge) -> Knowledge:
    """Recipes of two tenants."""
    for tenant in ("a", "b"):
        for cuisine in ("thai", "italian"):
            await knowledge.add(
                f"{cuisine} soup of tenant {tenant}",
                source=f"{tenant}-{cuisine}",
                metadata={"tenant": tenant, "cuisine": cuisine, "year": 2020},
            )
    return knowledge


def searching(arguments: dict[str, Any]) -> ScriptedModel:
    """A model that searches once, and then says something."""
    return ScriptedModel(tool_call(SEARCH, arguments), "Here you are.")


def found(result: AgentResult | None, state: State[Any]) -> Any:
    """Return the sources that the first search gave, or its error."""
    del result
    message = next(r for r in state.results if r.tool_calls)
    content: Any = message.tool_calls[0].content
    if "error" in content:
        return content["error"]
    data = content["data"]
    return data if isinstance(data, str) else [hit["source"] for hit in data]


async def test_the_developers_filter_confines_each_search(filled: Knowledge) -> None:
    """The model has a query and nothing else; the prompt says that there is a search."""
    model = searching({"query": "soup"})
    agent = Agent(
        name="cook",
        system="You cook.",
        model=model,
        knowledge=filled,
        knowledge_filters=[EQ("cuisine", "thai")],
        max_iter=2,
    )
    state: State[Any] = State()
    result = await agent.run("Soup?", state=state)
    assert sorted(found(result, state)) == ["a-thai", "b-thai"]
    body = model.bodies[0]
    assert list(body["tools"][0]["function"]["parameters"]["properties"]) == ["query"]
    system = body["messages"][0]["content"]
    assert system.startswith("You cook.\n\n<knowledge_base>\nYou have a knowledge base")
    assert "italian" not in json.dumps(body)
    model.assert_finished()


async def test_results_carry_source_and_score_and_the_report_counts_them(filled: Knowledge) -> None:
    """Like any tool's result."""
    model = searching({"query": "thai soup"})
    agent = Agent(name="cook", system="S", model=model, knowledge=filled, max_iter=2)
    state: State[Any] = State()
    result = await agent.run("Soup?", state=state)
    first = next(r for r in state.results if r.tool_calls)
    content: Any = first.tool_calls[0].content
    assert all({"source", "score", "text"} == hit.keys() for hit in content["data"])
    assert result.context is not None
    assert first.context is not None
    text = "".join(hit["text"] for hit in content["data"])
    more = result.context.tokens_after - first.context.tokens_after
    assert more > agent.tokenizer.count(text)


async def test_a_filter_may_be_a_function_of_the_runs_state(filled: Knowledge) -> None:
    """One agent serves every tenant."""

    async def tenant(state: State[Any]) -> FilterExpr:
        return EQ("tenant", state.data["tenant"])

    for name in ("a", "b"):
        agent = Agent(
            name="cook",
            system="S",
            model=searching({"query": "soup"}),
            knowledge=filled,
            knowledge_filters=[tenant, lambda state: [EQ("cuisine", "thai")]],
            max_iter=2,
        )
        state: State[Any] = State({"tenant": name})
        assert found(await agent.run("Soup?", state=state), state) == [f"{name}-thai"]


@pytest.mark.parametrize("gives", [None, [], {}, [None], "tenant"])
async def test_a_function_that_gives_no_filter_ends_the_run(filled: Knowledge, gives: Any) -> None:
    """Rather than to search everything."""
    agent = Agent(
        name="cook",
        system="S",
        model=searching({"query": "soup"}),
        knowledge=filled,
        knowledge_filters=lambda state: gives,
        max_iter=2,
    )
    with pytest.raises(ConfigurationError, match="nothing was searched"):
        await agent.run("Soup?")


async def test_a_tenant_that_is_missing_finds_nothing(filled: Knowledge) -> None:
    """The function's error is what the model reads."""
    agent = Agent(
        name="cook",
        system="S",
        model=searching({"query": "soup"}),
        knowledge=filled,
        knowledge_filters=lambda state: EQ("tenant", state.data["tenant"]),
        max_iter=2,
    )
    state: State[Any] = State({})
    assert found(await agent.run("Soup?", state=state), state)["name"] == "KeyError"


def agentic(knowledge: Knowledge, filters: Any, **options: Any) -> tuple[Agent, ScriptedModel]:
    """An agent whose model gives these filters, confined to tenant a."""
    model = searching({"query": "soup", "filters": filters})
    options.setdefault("knowledge_filters", EQ("tenant", "a"))
    agent = Agent(
        name="cook",
        system="S",
        model=model,
        knowledge=knowledge,
        enable_agentic_knowledge_filters=True,
        max_iter=2,
        **options,
    )
    return agent, model


async def test_the_prompt_lists_keys_and_values_of_documents_that_pass_the_filter(
    filled: Knowledge,
) -> None:
    """Other documents are left out; `explain` shows the same."""
    agent, model = agentic(filled, [{"key": "cuisine", "value": "thai"}])
    state: State[Any] = State()
    assert found(await agent.run("Soup?", state=state), state) == ["a-thai"]
    system = model.bodies[0]["messages"][0]["content"]
    assert '- cuisine: "italian", "thai"' in system
    assert '- tenant: "a"\n' in system
    assert "- year: 2020" in system
    assert '"b"' not in system
    report = await explain(agent, input="Soup?")
    assert report.prompt[0].content == system  # type: ignore[union-attr] - its kind is known here


NOT_UNDERSTOOD: list[tuple[Any, str]] = [
    ([{"key": "secret", "value": "x"}], "valid keys: cuisine, tenant, year"),
    ([{"key": "cuisine", "op": "LIKE", "value": "%"}], "valid operators: EQ, NEQ"),
    (
        [
            {
                "op": "OR",
                "filters": [{"key": "cuisine", "value": "thai"}, {"key": "x", "value": 1}],
            }
        ],
        "valid keys: cuisine, tenant, year",
    ),
    ([{"op": "NOT", "filters": [{"op": "NOT", "filters": [{"op": "NOR"}]}]}], "operator 'NOR'"),
    ([{"op": "AND", "filters": []}], "needs a list of filters"),
    ([{"key": "cuisine"}], "needs a key and a value"),
    ([{"secret": "x"}], "valid keys: cuisine, tenant, year"),
    ([{"cuisine": {"is": "thai"}}], "cuisine"),
    ([{"cuisine": "thai", "op": "EQ"}], "needs a key and a value"),
]


@pytest.mark.parametrize(
    "filters",
    [[{"cuisine": "thai"}], [{"cuisine": ["thai"]}], [{"cuisine": "thai", "tenant": "a"}]],
)
async def test_a_model_may_write_the_value_under_its_key(filled: Knowledge, filters: Any) -> None:
    """As many models do; several keys are all asked for."""
    agent, _ = agentic(filled, filters)
    state: State[Any] = State()
    assert found(await agent.run("Soup?", state=state), state) == ["a-thai"]


@pytest.mark.parametrize(("filters", "says"), NOT_UNDERSTOOD)
async def test_an_invalid_filter_of_the_model_is_an_error_result(
    filled: Knowledge, filters: Any, says: str
) -> None:
    """The whole tree is checked, and nothing is searched without what was asked for."""
    agent, _ = agentic(filled, filters)
    state: State[Any] = State()
    error = found(await agent.run("Soup?", state=state), state)
    assert error["name"] == "FilterError"
    assert says in error["message"]


async def test_the_models_filter_cannot_reach_past_the_developers(filled: Knowledge) -> None:
    """Naming the other tenant, or a negation, does not help."""
    for filters in (
        [{"key": "tenant", "value": "b"}],
        [{"key": "tenant", "op": "NEQ", "value": "a"}],
        [{"op": "NOT", "filters": [{"key": "tenant", "value": "a"}]}],
    ):
        agent, _ = agentic(filled, filters)
        state: State[Any] = State()
        assert found(await agent.run("Soup?", state=state), state) == (
            "Nothing was found. Try other words."
        )


@pytest.mark.parametrize(
    ("own", "asked", "sources"),
    [
        (None, "thai", ["a-thai", "b-thai"]),
        (EQ("tenant", "a"), "thai", ["a-italian", "a-thai"]),
        (EQ("tenant", "a"), None, ["a-italian", "a-thai"]),
        (None, None, ["a-italian", "a-thai", "b-italian", "b-thai"]),
    ],
)
async def test_user_precedence_ignores_the_models_filter_where_there_is_a_developers(
    filled: Knowledge, own: Any, asked: str | None, sources: list[str]
) -> None:
    """The model's alone, the developer's alone, the developer's, none."""
    filters = None if asked is None else [{"key": "cuisine", "value": asked}]
    agent, _ = agentic(filled, filters, knowledge_filters=own, filter_precedence="user")
    state: State[Any] = State()
    assert sorted(found(await agent.run("Soup?", state=state), state)) == sources


async def test_the_search_works_in_networks_and_can_be_turned_off_or_replaced(
    filled: Knowledge,
) -> None:
    """A tool of that name in ``tools`` replaces it."""
    model = searching({"query": "thai soup"})
    agent = Agent(name="cook", system="S", knowledge=filled, max_iter=2)
    network = Network(
        name="n",
        agents=[agent],
        default_model=model,
        router=lambda context: agent if context.call_count == 0 else None,
    )
    run = await network.run("Soup?")
    assert found(None, run.state)[0].endswith("-thai")
    assert (
        SEARCH
        not in Agent(
            name="c", system="S", knowledge=filled, search_knowledge=False, max_iter=1
        ).tool_map
    )

    @tool(name=SEARCH)
    def own(query: str) -> str:
        """Mine."""
        return query

    assert (
        Agent(name="c", system="S", knowledge=filled, tools=[own], max_iter=1).tool_map[SEARCH]
        is own
    )


def test_settings_that_would_filter_nothing_are_refused() -> None:
    """A filter that does not hold is worse than none."""
    knowledge = Knowledge(store=SqliteKnowledge(":memory:"), embedder=HashingEmbedder())
    bad: list[dict[str, Any]] = [
        {"knowledge_filters": [EQ("a", 1)]},
        {"enable_agentic_knowledge_filters": True},
        {"knowledge": knowledge, "knowledge_filters": []},
        {"knowledge": knowledge, "knowledge_filters": {"tenant": None}},
        {"knowledge": knowledge, "knowledge_filters": ["tenant"]},
        {"knowledge": knowledge, "filter_precedence": "model"},
    ]
    for options in bad:
        with pytest.raises(ConfigurationError):
            Agent(name="c", system="S", **options)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 2020),
        st.sampled_from(["a", "b", "thai", "' OR 1"]),
    ),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=3,
)
OPERATORS = st.sampled_from(["EQ", "NEQ", "GT", "LTE", "IN", "CONTAINS", "STARTSWITH"])
LEAF: dict[str, st.SearchStrategy[Any]] = {
    "key": st.sampled_from(["tenant", "tenant", "cuisine", "year", "tenant'--", "x"]),
    "value": JSON,
    "op": OPERATORS,
}
FITTING: dict[str, st.SearchStrategy[Any]] = {
    "key": st.sampled_from(["tenant", "cuisine"]),
    "value": st.sampled_from(["a", "b", "thai", "t", ""]),
    "op": st.sampled_from(["EQ", "NEQ", "CONTAINS", "STARTSWITH", "GTE", "LTE"]),
}
WILD: st.SearchStrategy[Any] = st.fixed_dictionaries(LEAF)
SOUND: st.SearchStrategy[Any] = st.fixed_dictionaries(FITTING)


def group(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Filters put together."""
    several: dict[str, st.SearchStrategy[Any]] = {
        "op": st.sampled_from(["AND", "OR", "NOT", "not"]),
        "filters": st.lists(inner, min_size=1, max_size=3),
    }
    return st.fixed_dictionaries(several)


FILTERS: st.SearchStrategy[Any] = st.one_of(
    st.lists(st.recursive(SOUND, group, max_leaves=6), min_size=1, max_size=2),
    st.lists(st.recursive(SOUND, group, max_leaves=6), min_size=1, max_size=2),
    st.lists(st.recursive(st.one_of(WILD, SOUND), group, max_leaves=6), max_size=3),
)


@pytest.fixture(params=["sqlite", "postgres"], scope="module")
def url(request: pytest.FixtureRequest) -> str | None:
    """The server's address; None: SQLite."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    filters=FILTERS,
    own=st.sampled_from([EQ("tenant", "a"), ~EQ("tenant", "b"), CONTAINS("tenant", "A")]),
    query=st.sampled_from(["soup", "tenant b", "' OR 1=1 --", ""]),
    precedence=st.sampled_from(["both", "user"]),
)
def test_no_document_outside_the_developers_filter_is_ever_found(
    url: str | None, filters: Any, own: FilterExpr, query: str, precedence: Any
) -> None:
    """The model's filters are random."""

    async def look() -> None:
        store = SqliteKnowledge(":memory:") if url is None else PostgresKnowledge(url, schema="own")
        knowledge = Knowledge(store=store, embedder=HashingEmbedder(), k=50)
        for tenant in ("a", "b"):
            for cuisine in ("thai", "' OR 1"):
                await knowledge.add(
                    f"{cuisine} soup of tenant {tenant}",
                    source=f"{tenant}-{cuisine}",
                    metadata={"tenant": tenant, "cuisine": cuisine, "year": 2020},
                )
        model = searching({"query": query, "filters": filters})
        agent = Agent(
            name="cook",
            system="S",
            model=model,
            knowledge=knowledge,
            knowledge_filters=own,
            enable_agentic_knowledge_filters=True,
            filter_precedence=precedence,
            max_iter=2,
        )
        state: State[Any] = State()
        await agent.run("Soup?", state=state)
        content = next(r for r in state.results if r.tool_calls).tool_calls[0].content
        assert "tenant b" not in json.dumps(content.get("data"))  # type: ignore[union-attr] - its kind is known here
        await store.close()

    import anyio  # noqa: PLC0415 - hypothesis runs no coroutines

    anyio.run(look)
