"""Serve an agent or a network as an MCP server."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlsplit

import uvicorn
from mcp.server import MCPServer as Host
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult, TextContent
from pydantic import Field
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from agentkit_py._core.validation import TOOL_NAME, slugify
from agentkit_py.agent import Agent
from agentkit_py.errors import AgentKitError
from agentkit_py.events.types import Event, RunStarted, ToolStarted
from agentkit_py.network import Target
from agentkit_py.state import State

PATH = "/mcp"
"""The path of `serve_http`'s endpoint."""


def make_host(target: Target) -> Host:
    """Return a server with a single tool, which runs ``target`` and returns its answer.

    Agents and tools that start are reported as progress; cancelling the call ends the run. Where
    the target keeps threads, the tool takes and returns a ``thread_id``.
    """
    name = slugify(target.name)
    name = name if TOOL_NAME.fullmatch(name) else f"run-{name}"[:64]
    description = target.description or f"Ask {target.name}."
    host = Host(name, log_level="WARNING")  # its INFO is each request, on the client's terminal

    async def ask(input: InputText, ctx: Context) -> CallToolResult:  # noqa: A002 - as in run()
        return await _run(target, input, None, ctx)

    async def converse(
        input: InputText,  # noqa: A002 - the name that clients send
        ctx: Context,
        thread_id: ThreadArgument = None,
    ) -> CallToolResult:
        return await _run(target, input, thread_id, ctx)

    handler = ask if target.history is None else converse
    host.add_tool(handler, name=name, description=description, structured_output=False)
    return host


InputText: TypeAlias = Annotated[str, Field(description="What to say or ask.")]
ThreadArgument: TypeAlias = Annotated[
    str | None, Field(description="The conversation to continue; a new conversation unless given.")
]


async def _run(
    target: Target, said: str, thread_id: str | None, context: Context
) -> CallToolResult:
    state = State[Any](thread_id=thread_id)
    reporter = _Reporter(context)
    try:
        if isinstance(target, Agent):
            text = (await target.run(said, state=state, observer=reporter)).text
        else:
            given = state if thread_id is not None or target.default_state is None else None
            run = await target.run(said, state=given, observer=reporter)
            text, state = run.text, run.state
    except AgentKitError as error:
        raise ToolError(f"{type(error).__name__}: {error}") from error
    words = [text]
    if target.history is not None and state.thread_id is not None:
        words.append(f"thread_id: {state.thread_id}")
    return CallToolResult(content=[TextContent(text=each) for each in words])


class _Reporter:
    """Reports the steps of a run as the call's progress."""

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


async def serve_http(target: Target, listening: socket.socket, hosts: Collection[str] = ()) -> None:
    """Serve streamable HTTP at `PATH` on a socket that listens.

    Args:
        target: What is served.
        listening: The socket.
        hosts: Names by which clients reach it, in addition to ``localhost`` and all addresses.
    """
    checked_here = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = make_host(target).streamable_http_app(
        streamable_http_path=PATH, transport_security=checked_here
    )
    config = uvicorn.Config(KnownHosts(app, hosts), log_level="warning")
    async with target:
        await uvicorn.Server(config).serve([listening])


class KnownHosts:
    """Refuses requests for unlisted hosts, and those of other origins' pages.

    A page in a browser can let its own name point to this machine (DNS rebinding), but it cannot
    send a request whose Host is an address or a name of ours. So addresses need no list.
    """

    def __init__(self, app: ASGIApp, names: Collection[str]) -> None:
        """Wrap an application; the server's names are compared in lower case."""
        self._app = app
        self._names = {"localhost", *(name.lower() for name in names)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_known(host):
            words = "Unknown host. Start the server with --allow-host NAME for this name."
            await PlainTextResponse(words, 421)(scope, receive, send)
        elif origin is not None and urlsplit(origin).netloc != host:
            words = "Pages of other hosts are refused."
            await PlainTextResponse(words, 403)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _is_known(self, host: str) -> bool:
        if set(host) & set("@/?#"):  # characters that would move the name
            return False
        try:
            name = urlsplit(f"//{host}").hostname or ""
            if name in self._names:
                return True
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True
