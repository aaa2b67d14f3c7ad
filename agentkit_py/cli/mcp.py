"""`agentkit mcp`: an agent or a network as an MCP server."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from importlib.util import find_spec
from types import ModuleType
from typing import Annotated

import typer

from agentkit_py._core.interrupting import run_interruptibly
from agentkit_py.cli.serve import listen, shown_host
from agentkit_py.cli.target import load_target
from agentkit_py.errors import MissingDependencyError


def mcp(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:OBJECT", help="An agent, a network, or a function.")
    ],
    *,
    http: Annotated[
        bool, typer.Option("--http", help="Streamable HTTP on /mcp instead of stdin and stdout.")
    ] = False,
    host: Annotated[str, typer.Option(help="Where to listen with --http.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any that is free.")] = 8000,
) -> None:
    """Serve an agent or a network as an MCP server with one tool.

    Over stdin and stdout, as desktop clients start their servers, or with --http at a URL, which
    has no authentication: put it behind something that has.
    """
    if find_spec("mcp") is None:
        raise MissingDependencyError("mcp", "mcp", "agentkit mcp")
    # By name: it needs the extra, and `agentkit --help` must not wait for it.
    serving: ModuleType = importlib.import_module("agentkit_py.mcp.serving")
    found = load_target(target)
    with contextlib.suppress(KeyboardInterrupt):
        if not http:
            run_interruptibly(serving.serve_stdio(found))
            return
        with listen(host, port) as listening:
            url = f"http://{shown_host(host)}:{listening.getsockname()[1]}{serving.PATH}"
            typer.echo(f"{found.name!r} at {url}", err=True)
            asyncio.run(serving.serve_http(found, listening))
