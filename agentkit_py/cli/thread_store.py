"""Which store the commands of `agentkit threads` work on, and how they say how far they are."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from agentkit_py._core.interrupting import run_interruptibly
from agentkit_py.errors import ConfigurationError
from agentkit_py.stores import HistoryStore, PostgresHistory, SqliteHistory, for_user

_AGE = re.compile(r"(\d+)([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}

Db = Annotated[
    str,
    typer.Option(
        "--db",
        envvar="AGENTKIT_DB",
        metavar="FILE|DSN",
        help="An SQLite file, or postgresql://… for a database.",
    ),
]
User = Annotated[
    str | None, typer.Option("--user", metavar="ID", help="Only threads of this user.")
]
Schema = Annotated[
    str, typer.Option("--schema", envvar="AGENTKIT_SCHEMA", help="Of PostgreSQL's tables.")
]
Prefix = Annotated[
    str,
    typer.Option("--prefix", envvar="AGENTKIT_PREFIX", help="What PostgreSQL's tables begin with."),
]
SCHEMA, PREFIX = "public", "agentkit_"


@dataclass(frozen=True, slots=True)
class Where:
    """A store, as a user may see it."""

    db: str
    user: str | None
    schema: str = SCHEMA
    prefix: str = PREFIX
    new: bool = False
    """Whether a file that is not there is made."""

    @property
    def is_server(self) -> bool:
        """Whether it is a database and no file."""
        return "://" in self.db

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[HistoryStore]:
        """The store.

        Raises:
            ConfigurationError: The file is not there, or the address is not PostgreSQL's.
        """
        if self.is_server:
            scheme = self.db.partition("://")[0]  # what stands behind it may hold a password
            if scheme not in ("postgresql", "postgres"):
                raise ConfigurationError(
                    f"--db: {scheme}:// is not known; give a file or postgresql://…."
                )
            store: HistoryStore = PostgresHistory(
                self.db, schema=self.schema, prefix=self.prefix, connections=2
            )
        else:
            if not self.new and not Path(self.db).is_file():  # noqa: ASYNC240 - all that runs
                raise ConfigurationError(f"--db: there is no file {self.db!r}.")
            store = SqliteHistory(self.db)
        async with store:
            yield store if self.user is None else for_user(store, self.user)

    def run(
        self, ctx: typer.Context, work: Callable[[HistoryStore, Console], Awaitable[None]]
    ) -> None:
        """Do ``work`` with the store and the command's console."""

        async def main() -> None:
            async with self.open() as store:
                await work(store, ctx.obj.console)

        run_interruptibly(main())


def age(text: str) -> timedelta:
    """A time like ``7d`` or ``12h``.

    Raises:
        ConfigurationError: It is none.
    """
    match = _AGE.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"{text!r} is no time; write 30m, 12h, 7d or 4w.")
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])


@contextmanager
def progress(what: str, total: float) -> Generator[Callable[[float], None]]:
    """A bar on standard error, if that is a terminal; gives what to call with how much was done."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)
