"""A support agent whose tools are those of an MCP server. Runs offline: the model is scripted."""

import asyncio
import sys
from pathlib import Path

from agentkit_py import Agent, Network
from agentkit_py.mcp import MCPServer, Stdio
from agentkit_py.testing import ScriptedModel, tool_call

# --8<-- [start:server]
orders = MCPServer(
    "orders",
    Stdio(
        sys.executable,
        [str(Path(__file__).with_name("orders.py"))],
        env={"SHOP": "hats"},  # beside PATH, HOME and their like, all that it gets
    ),
    exclude=["delete_everything"],
    timeout=20,
    on_progress=lambda tool, done, total, said: print(f"  {tool}: {done}/{total} {said}"),
)
# --8<-- [end:server]

# --8<-- [start:optional]
reviews = MCPServer("reviews", "http://127.0.0.1:9/mcp", required=False, connect_timeout=5)
# --8<-- [end:optional]

# --8<-- [start:agent]
model = ScriptedModel(  # or openai("gpt-4.1"), …
    tool_call("orders-find_order", {"number": 1001}),
    tool_call("orders-refund", {"number": 7, "reason": "late"}),
    "Your order 1001 was shipped on Monday. I know of no order 7.",
)
support = Agent(
    name="support",
    system="You help the customers of a hat shop.",
    mcp_servers=[orders, reviews],
    model=model,
    max_iter=4,
)
shop = Network(
    name="shop",
    agents=[support],
    router=lambda context: support if context.call_count == 0 else None,
)


async def main() -> None:
    """Ask about an order that there is, and one that there is not."""
    async with shop:  # connects; a server that is required and missing fails here
        run = await shop.run("Where is 1001? And give me my money back for 7.")
    for result in run.results:
        for called in result.tool_calls:
            print(called.tool.name, called.content)
    print(run.text)


# --8<-- [end:agent]

if __name__ == "__main__":
    asyncio.run(main())
    model.assert_finished()
