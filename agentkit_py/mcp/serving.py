"""The other way round: an agent or a network as an MCP server."""

from __future__ import annotations

import socket
from typing import Annotated, TypeAlias

import uvicorn
from mcp.server import MCPServer as Host
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from agentkit_py._core.naming import TOOL_NAME, slugify
from agentkit_py.engine.agent import Agent
from agentkit_py.engine.network import Network
from agentkit_py.errors import AgentKitError
from agentkit_py.events.types import Event, RunStarted, ToolStarted

Target: TypeAlias = Agent | Network

PATH = "/mcp"
"""Where `serve_http` listens."""


def make_host(target: Target) -> Host:
    """A server with one tool, which runs ``target`` and gives its answer.

    What agents begin is reported as progress; a client that cancels the call ends the run.
    """
    name = slugify(target.name)
    name = name if TOOL_NAME.fullmatch(name) else f"run-{name}"[:64]
    description = target.description or f"Ask {target.name}."
    host = Host(name)

    async def run(
        input: Annotated[str, Field(description="What to say or ask.")],  # noqa: A002
        ctx: Context,
        thread_id: Annotated[
            str | None, Field(description="The conversation to go on with; a new one unless given.")
        ] = None,
    ) -> str:
        reporter = _Reporter(ctx)
        options = {} if thread_id is None else {"thread_id": thread_id}
        try:
            done = await target.run(input, observer=reporter, **options)
        except AgentKitError as error:
            raise ToolError(f"{type(error).__name__}: {error}") from error
        return done.text

    host.add_tool(run, name=name, description=description, structured_output=False)
    return host


class _Reporter:
    """Tells a client what a run is doing."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._count = 0

    async def __call__(self, event: Event) -> None:
        match event:
            case RunStarted(name=name, scope="agent"):
                said = f"{name} begins"
            case ToolStarted(name=name, call=call):
                said = f"{name} calls {call.name}"
            case _:
                return
        self._count += 1
        await self._context.report_progress(self._count, message=said)


async def serve_stdio(target: Target) -> None:
    """Serve over standard input and output, until the client closes them."""
    async with target:
        await make_host(target).run_stdio_async()


async def serve_http(target: Target, listening: socket.socket) -> None:
    """Serve streamable HTTP at `PATH` on a socket that listens."""
    app = make_host(target).streamable_http_app(streamable_http_path=PATH)
    async with target:
        await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve([listening])
