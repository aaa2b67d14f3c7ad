"""An MCP server made with the SDK, of the newest protocol: over stdio, or HTTP on a port.

Usage: modern.py [stdio | http | sse] [FOLDER]. In the folder it leaves word of what happened.
"""

from __future__ import annotations

import base64
import os
import socket
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import (
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import Field

HOW = sys.argv[1] if len(sys.argv) > 1 else "stdio"
FOLDER = Path(sys.argv[2]) if len(sys.argv) > 2 else Path()
server = MCPServer("modern", log_level="ERROR")


def note(what: str) -> None:
    """Leave word."""
    with (FOLDER / "notes").open("a") as notes:
        notes.write(f"{what}\n")


@server.tool(title="\x1b[31mAdd\n\u202e {two}\tlengths" + " and more" * 1000)
def add(
    a: Annotated[int, Field(description="first", ge=0)], b: int, unit: Literal["cm", "m"] = "cm"
) -> str:
    """Add two lengths."""
    note(f"add {a} {b}")
    return f"{a + b} {unit}"


@server.tool(annotations=ToolAnnotations(title="Give up"))
def fail() -> CallToolResult:
    """Say that it failed."""
    return CallToolResult(content=[TextContent(text="no such order")], is_error=True)


@server.tool()
def show() -> CallToolResult:
    """A picture, a resource and a link."""
    picture = base64.b64encode(b"png").decode()
    return CallToolResult(
        content=[
            ImageContent(data=picture, mime_type="image/png"),
            EmbeddedResource(
                resource=TextResourceContents(uri="file:///a.txt", text="A", mime_type="text/plain")
            ),
            ResourceLink(uri="https://example.com/b", name="b"),
        ]
    )


@server.tool()
def structured() -> dict[str, Any]:
    """An object, which the SDK sends as a text, too."""
    return {"total": 3}


@server.tool()
def environment() -> dict[str, str]:
    """Return the environment of the server's process."""
    return dict(os.environ)


@server.tool()
def big(size: int) -> str:
    """A long text."""
    return "x" * size


@server.tool()
def die() -> str:
    """End the process in the middle of the call."""
    note(f"die {os.getpid()}")
    os._exit(3)


@server.tool()
def pid() -> str:
    """The process."""
    return str(os.getpid())


@server.tool()
async def hang() -> str:
    """Wait for ever, and tell when somebody ends it."""
    note("hang begins")
    try:
        await anyio.sleep_forever()
    finally:
        note("hang cancelled")
    return "never"


@server.tool()
async def slow(ctx: Context, steps: int, seconds: float) -> str:
    """Take a while, and say how far it is."""
    for step in range(steps):
        await anyio.sleep(seconds)
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
    return "done"


@server.tool()
async def grow(ctx: Context) -> str:
    """Have another tool from now on."""

    def grown() -> str:
        """New."""
        return "grown"

    server.add_tool(grown, name="grown")
    await ctx.notify_tools_changed()
    return "ok"


async def main() -> None:
    """Serve."""
    if HOW == "stdio":
        await server.run_stdio_async()
        return
    app = server.streamable_http_app() if HOW == "http" else server.sse_app()
    wanted = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    listening = socket.create_server(("127.0.0.1", wanted))
    port = listening.getsockname()[1]
    print(f"port {port}", flush=True)  # noqa: T201 - the test reads it
    await uvicorn.Server(uvicorn.Config(app, log_level="error")).serve([listening])


if __name__ == "__main__":
    anyio.run(main)
