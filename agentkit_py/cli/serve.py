"""`agentkit serve`, `api`, `a2a`, `mcp`: networks and agents over HTTP, or on stdin and stdout."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer
from rich.text import Text

from agentkit_py._core.awaiting import run_interruptibly
from agentkit_py._core.urls import is_loopback
from agentkit_py.cli.console import make_console
from agentkit_py.cli.target import (
    DbOption,
    TargetArgument,
    check_installed,
    find_object,
    import_module,
    load_target,
    with_history,
)
from agentkit_py.errors import ConfigurationError
from agentkit_py.network import Network, Target

LOCALHOST = "127.0.0.1"
_PORT = 8000

Inference: TypeAlias = Literal["offload", "local"]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")]


def serve(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE[:OBJECT]",
            help="Networks, agents or Inngest functions; without OBJECT the module's `functions`, "
            "else its networks, else its agents.",
        ),
    ],
    *,
    host: Annotated[str, typer.Option(help="Where to listen.")] = LOCALHOST,
    port: PortOption = _PORT,
    inference: Annotated[
        Inference,
        typer.Option(help="Who calls the models: the Inngest server, or this process in a step."),
    ] = "local",
    realtime: Annotated[
        bool, typer.Option("--realtime", help="Stream to the channel user:{data.userId}.")
    ] = False,
    app_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Of the app; the module's name unless given.")
    ] = None,
    connects: Annotated[
        bool,
        typer.Option(
            "--connect", help="Open a connection to the server instead of listening for it."
        ),
    ] = False,
) -> None:
    """Serve a module's agents and networks as Inngest functions on /api/inngest.

    Without INNGEST_SIGNING_KEY (and with INNGEST_DEV=1) it talks to a Dev Server on this machine.
    """
    needed = ("psutil", "websockets") if connects else ("fastapi", "uvicorn")
    check_installed("serve", "inngest", *needed)
    if connects and (host, port) != (LOCALHOST, _PORT):
        raise ConfigurationError("With --connect nothing is listened on: leave out --host, --port.")
    serving = importlib.import_module("agentkit_py.inngest.serving")
    if not (os.environ.keys() & {"INNGEST_DEV", "INNGEST_SIGNING_KEY"} or is_loopback(host)):
        raise ConfigurationError(
            f"--host {host} is reached by other machines, and without INNGEST_SIGNING_KEY "
            "anybody could start runs: set it, or INNGEST_DEV=1 if all of them are yours."
        )
    serving.default_to_development()
    name, _, path = target.partition(":")
    module = import_module(name)
    chosen = find_object(target, module, path) if path else None
    options = serving.ServeOptions(app_id=app_id, inference=inference, realtime=realtime)
    served = serving.find_functions(name, module, chosen, options=options)
    functions = [f"  {name}  started by {event}" for name, event in served.events.items()]
    if connects:
        server = served.client.api_origin
        _announce([f"App {served.client.app_id!r} connects to {server}", *functions])
        connected = functools.partial(_announce, ["Connected. Ctrl-C ends it."])
        run_interruptibly(serving.run_connected(served, connected))
        return
    app = serving.make_app(served)
    with listen(host, port) as sock:
        url = f"{url_of(host, sock)}{serving.SERVE_PATH}"
        _announce([f"App {served.client.app_id!r} at {url}", *functions])
        _announce(_next_steps(served.events, url))
        run_server(app, sock)


def _next_steps(events: dict[str, str], url: str) -> list[str]:
    if os.environ.get("INNGEST_DEV", "0") in ("0", "false", ""):
        return ["Production mode: requests must be signed. Sync the app's URL with Inngest."]
    event = next(iter(events.values())).split(", ")[0]
    body = f'{{"name": "{event}", "data": {{"input": "Hello"}}}}'
    return [
        "Development mode. Start the Dev Server, too, if it is not running:",
        f"  inngest dev --no-discovery -u {url}",
        "and send an event, e.g. from its page or with",
        f"  curl http://127.0.0.1:8288/e/key -d '{body}'",
    ]


def api(target: TargetArgument, *, db: DbOption = None, port: PortOption = 8000) -> None:
    """Serve the HTTP API that the useAgent React hook talks to, on this machine only.

    All requests come from a single user. To know users, call create_app(auth=…) and serve it
    yourself.
    """
    check_installed("api", "api", "starlette", "sse_starlette", "uvicorn", "websockets")
    app, found, where = _local_app(target, db)
    with listen(LOCALHOST, port) as sock:
        url = url_of(LOCALHOST, sock)
        _announce(
            [
                f"{type(found).__name__} {found.name} at {url}/api/chat. {where}",
                f"  {url}/openapi.json describes all endpoints. Ctrl-C ends it.",
            ]
        )
        run_server(app, sock)


def _local_app(target: str, db: Path | None) -> tuple[Any, Target, str]:
    """Return the HTTP API of a target, the target, and where its threads are."""
    named = load_target(target)
    found, where = with_history(named, db)
    if named.history is None and db is None:
        where = "Threads live as long as this process; --db FILE keeps them."
    kind = "networks" if isinstance(found, Network) else "agents"
    app = importlib.import_module("agentkit_py.server").create_app(auth="local", **{kind: [found]})
    return app, found, where


def a2a(target: TargetArgument, *, db: DbOption = None, port: PortOption = 8000) -> None:
    """Serve a network or an agent over A2A, beside its HTTP API, on this machine only.

    All requests come from a single user. To know users, call
    agentkit_py.a2a.create_a2a_app(create_app(auth=…), url=…) and serve it yourself.
    """
    check_installed("a2a", "a2a", "a2a", "starlette", "sse_starlette", "uvicorn")
    app, found, where = _local_app(target, db)
    with listen(LOCALHOST, port) as sock:
        url = url_of(LOCALHOST, sock)
        card = f"{url}/.well-known/agent-card.json"
        _announce([f"{type(found).__name__} {found.name} at {card}. {where}", "Ctrl-C ends it."])
        served = importlib.import_module("agentkit_py.a2a").create_a2a_app(app, url=url)
        run_server(served, sock)


def mcp(
    target: TargetArgument,
    *,
    http: Annotated[
        bool, typer.Option("--http", help="Streamable HTTP on /mcp instead of stdin and stdout.")
    ] = False,
    host: Annotated[
        str, typer.Option(help="Where to listen with --http; 0.0.0.0: for other machines, too.")
    ] = LOCALHOST,
    port: PortOption = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name, no address, by which clients reach it."),
    ] = None,
) -> None:
    """Serve an agent or a network as an MCP server with a single tool.

    Over stdin and stdout, as desktop clients start their servers, or with --http at a URL, which
    has no authentication: put it behind something that has.
    """
    check_installed("mcp", "mcp", "mcp", "jsonschema")
    serving = importlib.import_module("agentkit_py.mcp.serving")
    found = load_target(target)
    with contextlib.suppress(KeyboardInterrupt):
        if not http:
            run_interruptibly(serving.serve_stdio(found))
            return
        with listen(host, port) as sock:
            typer.echo(f"{found.name!r} at {url_of(host, sock)}{serving.PATH}", err=True)
            if host != LOCALHOST:
                hint = "Reach it by an address, or by a name that --allow-host names."
                typer.echo(f"{hint} It has no authentication.", err=True)
            asyncio.run(serving.serve_http(found, sock, [host, *(allow_host or ())]))


def _announce(lines: Sequence[str]) -> None:
    console = make_console()
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigurationError(f"{host}:{port} cannot be listened on: {error}") from error


def url_of(host: str, sock: socket.socket) -> str:
    """Return the address at which a program on this machine reaches a listening socket."""
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - it is asked for
        host = LOCALHOST
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{sock.getsockname()[1]}"


def run_server(app: Any, sock: socket.socket) -> None:
    """Serve an ASGI app until Ctrl-C."""
    uvicorn = importlib.import_module("uvicorn")
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn has finished its requests
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[sock])
