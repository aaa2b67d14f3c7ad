"""Documents in a vector database that the library does not know."""

# --8<-- [start:recipe]
import asyncio
from tempfile import TemporaryDirectory

from qdrant_knowledge import QdrantKnowledge

from agentkit_py import Agent, State
from agentkit_py.knowledge import EQ, Knowledge
from agentkit_py.testing import HashingEmbedder, ScriptedModel, tool_call


async def main(folder: str) -> None:
    """Each tenant's agent finds its own documents."""
    knowledge = Knowledge(store=QdrantKnowledge(folder), embedder=HashingEmbedder())
    await knowledge.add("Refunds take ten days.", source="acme", metadata={"tenant": "acme"})
    await knowledge.add("Refunds take a year.", source="other", metadata={"tenant": "other"})
    model = ScriptedModel(tool_call("search_knowledge_base", {"query": "refunds"}), "Ten days.")
    clerk = Agent(
        name="clerk",
        system="You answer customers.",
        model=model,
        knowledge=knowledge,
        knowledge_filters=[lambda state: EQ("tenant", state.data["tenant"])],
    )
    print((await clerk.run("How long?", state=State({"tenant": "acme"}))).text)
    model.assert_saw("ten days")
    model.assert_not_saw("a year")
    await knowledge.close()


with TemporaryDirectory() as folder:
    asyncio.run(main(folder))
# --8<-- [end:recipe]
