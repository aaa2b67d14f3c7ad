"""Older turns that matter for the question, found by meaning."""

import asyncio

from agentkit_py import Agent, SqliteHistory, State, TextMessage
from agentkit_py.knowledge import OpenAIEmbedder
from agentkit_py.processors import Recall
from agentkit_py.testing import HashingEmbedder, ScriptedModel

embedder = OpenAIEmbedder("text-embedding-3-small")  # asked when it is needed, with your key
support = Agent(
    name="support",
    system="You answer questions on parcels.",
    history=SqliteHistory("support.db"),  # keeps the vectors beside the thread
    processors=[Recall(embedder, k=3)],
)


async def main() -> None:
    """In tests the embedder is one that needs no model."""
    said = ["My hotel is the Astoria.", *(f"Small talk {n}." for n in range(30))]
    model = ScriptedModel("The Astoria.")
    agent = Agent(
        name="clerk",
        system="You remember.",
        model=model,
        processors=[Recall(HashingEmbedder(), k=1, keep_recent=4)],
    )
    history = [TextMessage("user", text) for text in said]
    await agent.run("Which hotel is mine?", state=State(messages=history))
    model.assert_saw("Small talk 29", "<recalled_messages>", "the Astoria", "Which hotel is mine?")
    model.assert_not_saw("Small talk 3.")


if __name__ == "__main__":
    asyncio.run(main())
