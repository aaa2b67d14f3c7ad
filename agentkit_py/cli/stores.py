"""The store that a command works on, as its options name it, and commands made of functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from inspect import Parameter
from pathlib import Path
from typing import IO, Annotated, Any, TypeVar

import typer
from rich.console import Console

from agentkit_py._core.awaiting import run_interruptibly
from agentkit_py._core.databases import create_private
from agentkit_py.errors import ConfigurationError
from agentkit_py.stores.base import HistoryStore
from agentkit_py.stores.sqlite import SqliteHistory

StoreOption = Annotated[
    str,
    typer.Option(
        "--db",
        envvar="AGENTKIT_DB",
        metavar="FILE|DSN",
        help="An SQLite file, or postgresql://… for a database.",
    ),
]
UserOption = Annotated[
    str | None, typer.Option("--user", metavar="ID", help="Only threads of this user.")
]
SchemaOption = Annotated[
    str, typer.Option("--schema", envvar="AGENTKIT_SCHEMA", help="Of PostgreSQL's tables.")
]
PrefixOption = Annotated[
    str,
    typer.Option("--prefix", envvar="AGENTKIT_PREFIX", help="What PostgreSQL's tables begin with."),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

SCHEMA, PREFIX = "public", "agentkit_"


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The store that a command works on, as its options name it."""

    db: str
    user: str | None = None
    schema: str = SCHEMA
    prefix: str = PREFIX
    create: bool = False
    """Create the file if it is missing."""

    @property
    def is_server(self) -> bool:
        """True for a database server, False for a file."""
        return "://" in self.db

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[HistoryStore]:
        """Open the store, as the user may see it."""
        async with self._store() as store:
            if self.user is None:
                yield store
                return
            from agentkit_py.stores.wrappers import for_user  # noqa: PLC0415 - slow to load

            yield for_user(store, self.user)

    def _store(self) -> HistoryStore:
        if not self.is_server:
            if not self.create:
                check_is_file(Path(self.db))
            return SqliteHistory(self.db)
        scheme = self.db.partition("://")[0]  # the rest may hold a password
        if scheme not in ("postgresql", "postgres"):
            raise ConfigurationError(
                f"--db: {scheme}:// is not known; give a file or postgresql://…."
            )
        from agentkit_py.stores.postgres import PostgresHistory  # noqa: PLC0415 - slow to load

        return PostgresHistory(self.db, schema=self.schema, prefix=self.prefix, connections=2)

    def run(
        self, ctx: typer.Context, work: Callable[[HistoryStore, Console], Awaitable[None]]
    ) -> None:
        """Do ``work`` with the store and the command's console."""

        async def main() -> None:
            async with self.open() as store:
                await work(store, ctx.obj.console)

        run_interruptibly(main())


def check_is_file(db: Path) -> None:
    """Refuse a --db that is not a file."""
    with suppress(OSError):  # the name may be too long for a file
        if db.is_file():
            return
    raise ConfigurationError(f"--db: there is no file {str(db)!r:.80}.")


@contextmanager
def writes_file(option: str, path: Path, db: str | Path | None) -> Generator[None]:
    """Report as a single line why a file cannot be written; it must not be the database.

    Raises:
        ConfigurationError: It is, or it cannot.
    """
    try:
        if db is not None and path.exists() and path.samefile(db):
            raise ConfigurationError(f"{option}: {path} is the database.")
        yield
    except OSError as error:
        raise ConfigurationError(f"{option}: {path} cannot be written: {error}") from error


def command_group(name: str, about: str) -> typer.Typer:
    """Return a group of commands."""
    return typer.Typer(name=name, help=about, no_args_is_help=True, rich_markup_mode="markdown")


W = TypeVar("W", bound=Callable[..., Awaitable[None]])


def store_command(
    app: typer.Typer, name: str | None = None, *, by_user: bool = False
) -> Callable[[W], W]:
    """Return the decorator that makes a command of an async function of a store and a console.

    The command has the function's other parameters, and the options that name the store; a
    function with a parameter ``options`` gets those, too.

    Args:
        app: The group of the command.
        name: Its name; the function's unless given.
        by_user: Whether ``--user`` leaves only threads of a user.
    """
    shared = {"schema": (SchemaOption, SCHEMA), "prefix": (PrefixOption, PREFIX)}
    if by_user:
        shared = {"user": (UserOption, None), **shared}

    def register(work: W) -> W:
        @functools.wraps(work)
        def command(ctx: typer.Context, db: str, **given: Any) -> None:
            options = StoreOptions(db, **{option: given.pop(option) for option in shared})
            if takes_options:
                given["options"] = options
            options.run(ctx, functools.partial(work, **given))

        _, _, *own = inspect.signature(work, eval_str=True).parameters.values()
        takes_options = any(one.name == "options" for one in own)
        parameters = [
            _parameter("ctx", typer.Context),
            _parameter("db", StoreOption),
            *(one.replace(kind=Parameter.KEYWORD_ONLY) for one in own if one.name != "options"),
            *(_parameter(option, *about) for option, about in shared.items()),
        ]
        made: Any = command
        made.__signature__ = inspect.Signature(parameters)
        app.command(name)(made)
        return work

    return register


def _parameter(name: str, kind: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)


@contextmanager
def written_whole(path: Path) -> Generator[IO[str]]:
    """Open a file that takes the place of ``path`` once all is written; a pipe is written to."""
    to = path.resolve()
    is_new = not to.exists()
    made = to.with_name(f".{to.name}.part") if is_new or to.is_file() else to
    if made != to:
        made.unlink(missing_ok=True)
        create_private(made)
    try:
        with made.open("w", encoding="utf-8", newline="\n") as file:
            yield file
        if made != to:
            if not is_new:
                made.chmod(to.stat().st_mode)
            made.replace(to)
    finally:
        if made != to:
            made.unlink(missing_ok=True)
