"""`agentkit dev`: the playground, on this machine."""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
import signal
import socket
import tempfile
import threading
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from agentkit_py.cli.demo.script import QUESTIONS
from agentkit_py.cli.serve import listen, shown_host
from agentkit_py.cli.target import DEV_FOLDER
from agentkit_py.errors import ConfigurationError

DEMO = "agentkit_py.cli.demo.offline:network"
PORT = 8420
_NEEDED = ("sse_starlette", "starlette", "uvicorn", "watchfiles")


def dev(
    ctx: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="[MODULE:OBJECT]",
            help="A Network or Agent, or a function that makes one; the demo's network, which "
            "needs no key, unless given.",
        ),
    ] = DEMO,
    *,
    db: Annotated[
        Path | None,
        typer.Option(
            help="SQLite file of threads, if it has no history of its own; temporary unless given."
        ),
    ] = None,
    prices: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='JSON, per million tokens: {"models": {"gpt-4.1": {"input": 2, "output": 8}}}.',
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Where to listen; beyond this machine a token is needed.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(help=f"{PORT}, or any that is free, unless given.")
    ] = None,
    browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser.")
    ] = True,
    reload: Annotated[
        bool, typer.Option("--reload/--no-reload", help="Start again when code changes.")
    ] = True,
) -> None:
    """Open a page to play with a network or agent, and see what each agent saw.

    Chat with it, follow the run, look at what processors left for every model call, change a
    prompt or a processor and make the call again. Nothing leaves this machine but the model calls
    of your own agents. Ctrl-C ends it.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"agentkit dev needs {' and '.join(missing)}: pip install 'pyagentkit[playground]'"
        )
    server: Any = importlib.import_module("agentkit_py.cli.dev_server")  # needs the extra
    with (
        tempfile.TemporaryDirectory(prefix="agentkit-dev-", ignore_cleanup_errors=True) as folder,
        _listening(host, port) as sock,
    ):
        os.environ.setdefault(DEV_FOLDER, folder)
        token = None if server.is_loopback(host) else secrets.token_urlsafe(24)
        wishes = server.Wishes(
            target=target,
            threads=db or Path(folder) / "dev-threads.db",
            prices=prices,
            token=token,
            examples=QUESTIONS if target == DEMO else (),
        )
        wishes.check()
        url = _url(host, sock, token)
        _say(ctx.obj.console, target, url, watching=reload and target != DEMO, shared=bool(token))
        if browser:
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        with _until_asked_to_end():
            if reload and target != DEMO:
                server.serve_and_watch(sock, wishes)
            else:
                server.serve(sock, wishes)


def _listening(host: str, port: int | None) -> socket.socket:
    """A socket that listens on the port, or on another one if none was asked for.

    Raises:
        ConfigurationError: The address cannot be had.
    """
    if port is not None:
        return listen(host, port)
    try:
        return listen(host, PORT)
    except ConfigurationError:
        return listen(host, 0)


def _url(host: str, sock: socket.socket, token: str | None) -> str:
    url = f"http://{shown_host(host)}:{sock.getsockname()[1]}/"
    return url if token is None else f"{url}?token={token}"


def _say(console: Console, target: str, url: str, *, watching: bool, shared: bool) -> None:
    name = "the demo's network (offline, scripted model)" if target == DEMO else target
    console.print(Text(f"Playground of {name}: {url}"), soft_wrap=True)
    if shared:
        line = "From other machines: the same address, with this machine's name. It is the key."
        console.print(Text(line, "dim"), soft_wrap=True)
    tail = "It starts again when code changes. " if watching else ""
    console.print(Text(f"{tail}Ctrl-C ends it.", "dim"))


@contextlib.contextmanager
def _until_asked_to_end() -> Any:
    """Ctrl-C and a request to terminate both end the block, without a traceback."""

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)
