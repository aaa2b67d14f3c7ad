"""`agentkit serve`: a module's agents and networks as Inngest functions, over HTTP."""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
from importlib.util import find_spec
from types import ModuleType
from typing import Annotated, Literal, TypeAlias

import typer
from rich.console import Console
from rich.text import Text

from agentkit_py.cli.console import make_console
from agentkit_py.cli.target import find_object, import_module
from agentkit_py.errors import ConfigurationError

_NEEDED = ("fastapi", "uvicorn")

_Inference: TypeAlias = Literal["offload", "local"]


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
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any that is free.")] = 8000,
    inference: Annotated[
        _Inference,
        typer.Option(help="Who calls the models: the Inngest server, or this process in a step."),
    ] = "offload",
    realtime: Annotated[
        bool, typer.Option("--realtime", help="Stream to the channel user:{data.userId}.")
    ] = False,
    app_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Of the app; the module's name unless given.")
    ] = None,
) -> None:
    """Serve a module's agents and networks as Inngest functions on /api/inngest.

    Without INNGEST_SIGNING_KEY (and with INNGEST_DEV=1) it talks to a Dev Server on this machine.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"agentkit serve needs {' and '.join(missing)}: pip install 'pyagentkit[serve]'"
        )
    developing = _choose_mode()
    # By name: it needs the extra, and `agentkit --help` must not wait for it.
    serving: ModuleType = importlib.import_module("agentkit_py.inngest.serving")
    name, _, path = target.partition(":")
    module = import_module(name)
    chosen = find_object(target, module, path) if path else None
    wishes = serving.Wishes(app_id=app_id, inference=inference, realtime=realtime)
    served = serving.what_to_serve(name, module, chosen, wishes=wishes)
    app = serving.make_app(served)
    with listen(host, port) as listening:
        url = f"http://{shown_host(host)}:{listening.getsockname()[1]}{serving.SERVE_PATH}"
        _say(make_console(), served.client.app_id, served.events, url, developing=developing)
        _run(app, listening)


def _choose_mode() -> bool:
    """Whether this is development: the SDK takes production for granted, and asks for a key."""
    if "INNGEST_DEV" not in os.environ and "INNGEST_SIGNING_KEY" not in os.environ:
        os.environ["INNGEST_DEV"] = "1"
    return os.environ.get("INNGEST_DEV", "0") not in ("0", "false", "")


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Raises:
        ConfigurationError: The address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(f"{host}:{port} cannot be listened on: {error}") from error


def shown_host(host: str) -> str:
    """The host as a server on this machine reaches it."""
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - it is asked for
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def _say(
    console: Console, app_id: str, events: dict[str, str], url: str, *, developing: bool
) -> None:
    lines = [f"App {app_id!r} at {url}"]
    lines += [f"  {function}  started by {event}" for function, event in events.items()]
    if developing:
        lines += [
            "Development mode. Start the Dev Server beside it, if it is not running:",
            f"  inngest dev --no-discovery -u {url}",
            "and send an event, e.g. from its page or with",
            f"  curl http://127.0.0.1:8288/e/key -d '{_example(events)}'",
        ]
    else:
        lines += ["Production mode: requests must be signed. Sync the app's URL with Inngest."]
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def _example(events: dict[str, str]) -> str:
    name = next(iter(events.values())).split(", ")[0]
    return f'{{"name": "{name}", "data": {{"input": "Hello"}}}}'


def _run(app: object, listening: socket.socket) -> None:
    uvicorn = importlib.import_module("uvicorn")
    config = uvicorn.Config(app, log_level="warning")
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn has finished its requests
        uvicorn.Server(config).run(sockets=[listening])
