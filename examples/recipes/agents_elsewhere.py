"""An agent behind A2A that another agent asks, and the network that is served."""

# --8<-- [start:recipe]
import asyncio

import httpx

from agentkit_py import Agent, MemoryHistory
from agentkit_py.a2a import A2AAgent, create_a2a_app
from agentkit_py.server import create_app
from agentkit_py.testing import ScriptedModel, tool_call

billing = Agent(name="billing", system="You know invoices.", model=ScriptedModel("It is paid."))
api = create_app(agents=[billing], history=MemoryHistory(), auth=lambda r: r.headers.get("x-user"))
served = create_a2a_app(api, url="http://billing")  # an app for uvicorn

model = ScriptedModel(tool_call("billing", {"task": "Is invoice 7 paid?"}), "Yes, it is paid.")


async def main() -> None:
    """Ask the agent behind A2A, here without a network."""
    transport = httpx.ASGITransport(served)
    elsewhere = A2AAgent(
        name="billing",
        description="Knows invoices.",
        url="http://billing",
        headers={"x-user": "desk"},
        transport=transport,
    )
    clerk = Agent(name="clerk", system="You help.", model=model, tools=[elsewhere.as_tool()])
    async with served.router.lifespan_context(served):  # uvicorn does that
        print((await clerk.run("What about invoice 7?")).text)


asyncio.run(main())
# --8<-- [end:recipe]
model.assert_saw("It is paid.")
