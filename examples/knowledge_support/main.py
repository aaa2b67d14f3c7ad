"""Customer support that answers from documents, each customer from their own. Runs offline."""

# ruff: noqa: E402 - each section shows its own imports

# --8<-- [start:add]
import asyncio
from pathlib import Path

from agentkit_py.knowledge import EQ, OR, Knowledge, SqliteKnowledge
from agentkit_py.testing.fakes import HashingEmbedder

HERE = Path(__file__).parent / "documents"

# In production: LocalEmbedder(), OpenAIEmbedder(), or any object with `key` and `embed(texts)`.
knowledge = Knowledge(store=SqliteKnowledge("documents.db"), embedder=HashingEmbedder())


async def fill() -> None:
    """Adding twice changes nothing."""
    for _ in range(2):
        await knowledge.add(HERE / "refunds.md", source="refunds", metadata={"tenant": "all"})
        await knowledge.add(
            HERE / "contracts.csv", source="globex/contracts", metadata={"tenant": "globex"}
        )
        await knowledge.add(
            "Acme pays within 60 days.",
            source="acme/terms",
            metadata={"tenant": "acme", "year": 2026, "topics": ["payment", "terms"]},
        )
    documents, pieces = await knowledge.count()
    print(f"{documents} documents, {pieces} pieces")
    # --8<-- [end:add]


# --8<-- [start:search]
async def search() -> None:
    """By meaning and by words, among what passes a filter."""
    hits = await knowledge.search("what is ERR-4012?", k=1)
    assert hits[0].source == "refunds"
    hits = await knowledge.search("payment terms", filters=EQ("tenant", "globex"))
    assert {hit.source for hit in hits} == {"globex/contracts"}
    # --8<-- [end:search]


# --8<-- [start:filters]
from agentkit_py.knowledge import CONTAINS, GTE, FilterExpr


async def filters() -> None:
    """Filters are values: put together, written as JSON, and read again."""
    recent = EQ("tenant", "acme") & GTE("year", 2025) & ~CONTAINS("topics", "secret")
    again = FilterExpr.from_dict(recent.to_dict())
    assert again == recent
    hits = await knowledge.search("when does Acme pay?", filters=again)
    assert [hit.source for hit in hits] == ["acme/terms"]
    # --8<-- [end:filters]


# --8<-- [start:agent]
from typing import Any

from agentkit_py import Agent, State
from agentkit_py.testing import ScriptedModel, tool_call


def of_tenant(state: State[Any]) -> FilterExpr:
    """Return the filter of this customer; without a tenant in the state the search fails."""
    return OR(EQ("tenant", "all"), EQ("tenant", state.data["tenant"]))


model = ScriptedModel(
    tool_call("search_knowledge_base", {"query": "response time discount pays"}),
    "We answer within one hour, and you have a discount of 15 %.",
)
support = Agent(
    name="support",
    system="You answer customers of the shop.",
    model=model,
    knowledge=knowledge,
    knowledge_filters=[of_tenant],
    max_iter=4,
)


async def answer() -> None:
    """The model never sees a document of another tenant."""
    result = await support.run("How quickly do you answer us?", state=State({"tenant": "globex"}))
    print(result.text)
    model.assert_saw("globex/contracts", "1 hour")
    model.assert_not_saw("Acme")
    # --8<-- [end:agent]


# --8<-- [start:agentic]
narrowing = ScriptedModel(
    # It asks for another tenant's documents, and then for what may be found.
    tool_call(
        "search_knowledge_base",
        {"query": "terms", "filters": [{"key": "tenant", "op": "EQ", "value": "acme"}]},
    ),
    tool_call(
        "search_knowledge_base", {"query": "refunds", "filters": [{"key": "kind", "value": 1}]}
    ),
    tool_call(
        "search_knowledge_base",
        {"query": "refunds", "filters": [{"key": "tenant", "value": "all"}]},
    ),
    "A refund takes ten days.",
)
careful = Agent(
    name="support",
    system="You answer customers of the shop.",
    model=narrowing,
    knowledge=knowledge,
    knowledge_filters=[of_tenant],
    enable_agentic_knowledge_filters=True,
    max_iter=4,
)


async def narrow() -> None:
    """The model's filters narrow a search; they never widen it."""
    result = await careful.run("How long do refunds take?", state=State({"tenant": "globex"}))
    print(result.text)
    narrowing.assert_saw("Nothing was found", "valid keys: tenant", "within ten days")
    narrowing.assert_not_saw("Acme pays")
    # --8<-- [end:agentic]


# --8<-- [start:remove]
async def remove() -> None:
    """One document by its source, or all that pass a filter."""
    assert await knowledge.remove("acme/terms") == 1
    assert await knowledge.remove(filters=EQ("tenant", "globex")) == 1
    await knowledge.close()
    # --8<-- [end:remove]


async def main() -> None:
    """All of it, in order."""
    for part in (fill, search, filters, answer, narrow, remove):
        await part()


if __name__ == "__main__":
    asyncio.run(main())
