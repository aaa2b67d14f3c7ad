"""An MCP server over stdin and stdout, with the shop's orders. Started by main.py."""

from typing import Annotated, Literal

from mcp.server import MCPServer
from mcp_types import CallToolResult, TextContent
from pydantic import Field

server = MCPServer("orders", log_level="ERROR")
ORDERS = {1001: "shipped on Monday", 1002: "waiting for payment"}


@server.tool()
def find_order(number: Annotated[int, Field(description="The order's number.", ge=1)]) -> str:
    """Find an order."""
    return f"Order {number}: {ORDERS[number]}."


@server.tool()
def refund(number: int, reason: Literal["damaged", "late", "other"] = "other") -> CallToolResult:
    """Refund an order."""
    if number not in ORDERS:
        said = f"There is no order {number}."
        return CallToolResult(content=[TextContent(text=said)], is_error=True)
    return CallToolResult(content=[TextContent(text=f"Refunded {number} ({reason}).")])


@server.tool()
def delete_everything() -> str:
    """Not for agents."""
    return "deleted"


if __name__ == "__main__":
    server.run()
