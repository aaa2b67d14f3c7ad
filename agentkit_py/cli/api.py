"""`agentkit api`: the HTTP API of a network or agent, for this machine."""

from __future__ import annotations

import contextlib
import importlib
import socket
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from agentkit_py.cli.chat import with_history
from agentkit_py.cli.console import make_console
from agentkit_py.cli.serve import listen
from agentkit_py.cli.target import Target, load_target
from agentkit_py.errors import ConfigurationError
from agentkit_py.network import Network

_NEEDED = ("sse_starlette", "starlette", "uvicorn", "websockets")
_HOST = "127.0.0.1"


def api(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:OBJECT", help="A Network or Agent, or a function that makes one."
        ),
    ],
    *,
    db: Annotated[
        Path | None, typer.Option(help="SQLite file for threads, if it has no history of its own.")
    ] = None,
    port: Annotated[int, typer.Option(help="0: any that is free.")] = 8000,
) -> None:
    """Serve the HTTP API that the useAgent React hook talks to, on this machine only.

    Everybody is the same user. To know users, call create_app(auth=…) and serve it yourself.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"agentkit api needs {' and '.join(missing)}: pip install 'pyagentkit[server]'"
        )
    named = load_target(target)
    found, where = with_history(named, db)
    if named.history is None and db is None:
        where = "Threads live as long as this process; --db FILE keeps them."
    app = _app(found)
    console = make_console()
    with listen(_HOST, port) as listening:
        url = f"http://{_HOST}:{listening.getsockname()[1]}"
        lines = [
            f"{type(found).__name__} {found.name} at {url}/api/chat. {where}",
            f"  {url}/openapi.json says what else there is. Ctrl-C ends it.",
        ]
        for line in lines:
            console.print(Text(line), soft_wrap=True)
        _run(app, listening)


def _app(found: Target) -> Any:
    # By name: it needs the extra, and `agentkit --help` must not wait for it.
    server = importlib.import_module("agentkit_py.server")
    kind = "networks" if isinstance(found, Network) else "agents"
    return server.create_app(auth="local", **{kind: [found]})


def _run(app: Any, listening: socket.socket) -> None:
    uvicorn = importlib.import_module("uvicorn")
    config = uvicorn.Config(app, log_level="warning")
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn has finished its requests
        uvicorn.Server(config).run(sockets=[listening])
