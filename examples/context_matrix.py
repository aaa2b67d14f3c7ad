"""A page that shows each message of a conversation in each of its model calls. Offline."""

import asyncio
import tempfile
from pathlib import Path

from agentkit_py import Agent, MemoryHistory, Network
from agentkit_py.matrix import ContextMatrix, matrix_page
from agentkit_py.network import explain_thread
from agentkit_py.processors import MessageWindow
from agentkit_py.testing import ScriptedModel

clerk = Agent(name="clerk", system="You answer questions on parcels.")
editor = Agent(name="editor", system="You shorten answers.", processors=[MessageWindow(1)])
network = Network(
    name="parcels",
    agents=[clerk, editor],
    default_model=ScriptedModel("It is in Linz, on its way to you.", "In Linz."),
    router=lambda context: ["clerk", "editor", None][context.call_count],
    history=MemoryHistory(),
)


async def main() -> None:
    """Ask once, then write the page of the stored thread."""
    run = await network.run("Where is my parcel?", thread_id="t1")
    matrix = ContextMatrix.of(run.results)
    for call in matrix.calls:
        print(f"{call.agent} was sent {call.tokens} tokens")
    stored = ContextMatrix.of(await explain_thread(network, "t1"))
    page = Path(tempfile.mkdtemp()) / "conversation.html"
    page.write_text(matrix_page(stored), encoding="utf-8")
    print(f"Open {page}")


if __name__ == "__main__":
    asyncio.run(main())
