"""`agentkit dev`: the playground on this machine, started again when code changes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import secrets
import signal
import socket
import sys
import tempfile
import threading
import traceback
import webbrowser
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from agentkit_py._core.urls import is_loopback
from agentkit_py.cli.serve import LOCALHOST, listen, url_of
from agentkit_py.cli.target import (
    DEV_FOLDER,
    check_installed,
    load_target,
    split_target,
    with_history,
)
from agentkit_py.errors import ConfigurationError

if TYPE_CHECKING:
    from agentkit_py.playground.app import BrokenTarget
    from agentkit_py.playground.runs import Playground

DEMO = "agentkit_py.cli.demo.play:offline_network"
PORT = 8420

_GRACE = 2
"""Seconds that open responses have when the server ends."""

_PATIENCE = 5.0
"""Seconds after which a process that does not end is killed."""


def dev(
    ctx: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="[MODULE:OBJECT]",
            help="A Network or Agent, or a function that makes it; the demo's network, which "
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
    ] = LOCALHOST,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help=f"{PORT}, or any that is free, unless given."),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in the browser.")
    ] = True,
    reload: Annotated[
        bool, typer.Option("--reload/--no-reload", help="Start again when code changes.")
    ] = True,
) -> None:
    """Open a page to try a network or agent, and inspect each agent's model input.

    Chat with it, follow the run, inspect the input of every model call, change a
    prompt or a processor and make the call again. Nothing leaves this machine but the model calls
    of your own agents. Ctrl-C ends it.
    """
    needed = ("starlette", "sse_starlette", "uvicorn", "watchfiles")
    check_installed("dev", "playground", *needed)
    from agentkit_py.budgets import Prices  # noqa: PLC0415 - needs the extra

    split_target(target)
    if prices is not None:
        Prices.read(prices)
    token = None if is_loopback(host) else secrets.token_urlsafe(24)
    watching = reload and target != DEMO
    with (
        tempfile.TemporaryDirectory(prefix="agentkit-dev-", ignore_cleanup_errors=True) as folder,
        _listening(host, port) as sock,
    ):
        os.environ.setdefault(DEV_FOLDER, folder)
        options = DevOptions(target, db or Path(folder) / "dev-threads.db", prices, token)
        url = f"{url_of(host, sock)}/" + ("" if token is None else f"?token={token}")
        _announce(ctx.obj.console, target, url, watching=watching, shared=token is not None)
        if browser:
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
        with _ended_by_signals():
            (_serve_and_watch if watching else _serve)(sock, options)


@dataclass(frozen=True, slots=True)
class DevOptions:
    """Options of the command that go to the process that serves."""

    target: str
    threads: Path
    """SQLite file for targets without a history."""

    prices: Path | None
    token: str | None


def _listening(host: str, port: int | None) -> socket.socket:
    """Listen on the port; by default on the usual port, or any free port."""
    if port is not None:
        return listen(host, port)
    try:
        return listen(host, PORT)
    except ConfigurationError:
        return listen(host, 0)


def _announce(console: Console, target: str, url: str, *, watching: bool, shared: bool) -> None:
    name = "the demo's network (offline, scripted model)" if target == DEMO else target
    console.print(Text(f"Playground of {name}: {url}"), soft_wrap=True)
    if shared:
        line = "From other machines: the same address, with this machine's name. It is the key."
        console.print(Text(line, "dim"), soft_wrap=True)
    tail = "It starts again when code changes. " if watching else ""
    console.print(Text(f"{tail}Ctrl-C ends it.", "dim"))


@contextlib.contextmanager
def _ended_by_signals() -> Generator[None]:
    """Let Ctrl-C and SIGTERM end the block without a traceback."""

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _serve(sock: socket.socket, options: DevOptions) -> None:
    """Serve the playground; an error page, if the target is broken."""
    import uvicorn  # noqa: PLC0415 - needs the extra

    from agentkit_py.playground.app import (  # noqa: PLC0415 - as above
        Access,
        Server,
        create_playground,
    )

    app = create_playground(
        _playground(options), target=options.target, access=Access(options.token)
    )
    config = uvicorn.Config(
        app, log_level="warning", timeout_graceful_shutdown=_GRACE, server_header=False
    )
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn has finished its requests
        Server(config).run(sockets=[sock])


def _playground(options: DevOptions) -> Playground | BrokenTarget:
    from agentkit_py.budgets import Prices  # noqa: PLC0415 - as above
    from agentkit_py.cli.demo.script import QUESTIONS  # noqa: PLC0415 - slow to load
    from agentkit_py.playground.app import BrokenTarget  # noqa: PLC0415 - needs the extra
    from agentkit_py.playground.runs import Playground  # noqa: PLC0415 - as above

    try:
        prices = Prices() if options.prices is None else Prices.read(options.prices)
        target, _ = with_history(load_target(options.target), options.threads)
        return Playground(target, prices, QUESTIONS if options.target == DEMO else ())
    except ConfigurationError as error:
        details = "".join(traceback.format_exception(error.__cause__ or error))
        return BrokenTarget(str(error), details)
    except SystemExit as error:
        return BrokenTarget(f"{options.target!r} ended the process while it was imported: {error}")


def _serve_and_watch(sock: socket.socket, options: DevOptions) -> None:
    """Serve in a process of its own, and in a new process whenever code has changed.

    The socket stays open meanwhile, so that the page waits instead of failing.
    """
    from watchfiles import PythonFilter, watch  # noqa: PLC0415 - needs the extra

    process = _start(sock, options)
    folders = _folders(options.target)
    try:
        for _ in watch(*folders, watch_filter=PythonFilter(), raise_interrupt=True):
            _stop(process)
            process = _start(sock, options)
    finally:
        _stop(process)


def _start(sock: socket.socket, options: DevOptions) -> BaseProcess:
    # Not a fork: the new process must import the changed code afresh.
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_serve, args=(sock, options), daemon=False)
    process.start()
    return process


def _stop(process: BaseProcess) -> None:
    process.terminate()
    process.join(_PATIENCE)
    if process.is_alive():
        process.kill()
        process.join()


def _folders(target: str) -> Sequence[Path]:
    """Return where code may change: the current folder, and that of the target's package."""
    here = Path.cwd()
    if str(here) not in sys.path:
        sys.path.insert(0, str(here))
    folders: list[str] = []
    with contextlib.suppress(ImportError, ValueError):
        spec = find_spec(target.partition(":")[0].partition(".")[0])
        folders = list(spec.submodule_search_locations or ()) if spec else []
    return [here, *(Path(f) for f in folders if not Path(f).is_relative_to(here))]
