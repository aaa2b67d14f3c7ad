"""The processes behind `agentkit dev`: one that serves, and one that starts it again."""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing.process import BaseProcess
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from watchfiles import PythonFilter, watch

from agentkit_py.cli.chat import with_history
from agentkit_py.cli.target import load_target
from agentkit_py.errors import ConfigurationError
from agentkit_py.playground.app import Broken, Server, create_playground
from agentkit_py.playground.prices import Prices
from agentkit_py.playground.runs import Playground
from agentkit_py.playground.security import Access, is_loopback

__all__ = ["Wishes", "is_loopback", "make_app", "serve", "serve_and_watch"]

_GRACE = 2
"""Seconds that open answers have when the server ends."""

_PATIENCE = 5.0
"""Seconds after which a process that does not end is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the command line said; it crosses to the process that serves."""

    target: str
    threads: Path
    """SQLite file for targets without a history."""

    prices: Path | None = None
    token: str | None = None
    examples: Sequence[str] = ()
    """Messages that the page proposes."""

    def check(self) -> None:
        """Refuse what cannot work before anything is served.

        Raises:
            ConfigurationError: The target is not of the form MODULE:OBJECT, or there are no prices.
        """
        name, colon, path = self.target.partition(":")
        if not (colon and name and path):
            raise ConfigurationError(
                f"{self.target!r} is not MODULE:OBJECT, e.g. support:network for the object "
                "`network` in support.py."
            )
        self.price_list()

    def price_list(self) -> Prices:
        """The prices, if there are any."""
        return Prices() if self.prices is None else Prices.read(self.prices)


def make_app(wishes: Wishes) -> Starlette:
    """The playground's application; of a page that says what is wrong, if the target is broken."""
    return create_playground(_playground(wishes), target=wishes.target, access=Access(wishes.token))


def _playground(wishes: Wishes) -> Playground | Broken:
    try:
        target, _ = with_history(load_target(wishes.target), wishes.threads)
        return Playground(target, wishes.price_list(), wishes.examples)
    except ConfigurationError as error:
        cause = error.__cause__ or error
        details = "".join(traceback.format_exception(cause))
        return Broken(str(error), details)
    except SystemExit as error:
        return Broken(f"{wishes.target!r} ended the process while it was imported: {error}")


def serve(sock: socket.socket, wishes: Wishes) -> None:
    """Serve until asked to end."""
    config = uvicorn.Config(
        make_app(wishes),
        log_level="warning",
        timeout_graceful_shutdown=_GRACE,
        server_header=False,
    )
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn has finished its requests
        Server(config).run(sockets=[sock])


def serve_and_watch(sock: socket.socket, wishes: Wishes) -> None:
    """Serve in a process of its own, and in a new one whenever code has changed.

    The socket stays open meanwhile, so that the page waits instead of failing.

    Raises:
        KeyboardInterrupt: Somebody wants it to end.
    """
    process = _begin(sock, wishes)
    try:
        for _ in watch(*_folders(wishes.target), watch_filter=PythonFilter(), raise_interrupt=True):
            _end(process)
            process = _begin(sock, wishes)
    finally:
        _end(process)


def _begin(sock: socket.socket, wishes: Wishes) -> BaseProcess:
    # Not a fork: the new process must import the changed code afresh.
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=serve, args=(sock, wishes), daemon=False)
    process.start()
    return process


def _end(process: BaseProcess) -> None:
    process.terminate()
    process.join(_PATIENCE)
    if process.is_alive():
        process.kill()
        process.join()


def _folders(target: str) -> list[Path]:
    """Where code may change: here, and where the target's package is."""
    here = Path.cwd()
    if str(here) not in sys.path:
        sys.path.insert(0, str(here))
    folders: list[str] = []
    with contextlib.suppress(ImportError, ValueError):
        spec = find_spec(target.partition(":")[0].partition(".")[0])
        folders = list(spec.submodule_search_locations or ()) if spec else []
    return [here, *(Path(f) for f in folders if not Path(f).is_relative_to(here))]
