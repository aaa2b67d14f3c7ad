"""`agentkit threads`: look at stored threads, move them, and delete them."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentkit_py.cli.console import clean, shorten
from agentkit_py.cli.thread_table import print_threads
from agentkit_py.cli.transcript import Transcript
from agentkit_py.errors import ConfigurationError, ThreadNotFoundError
from agentkit_py.history.result import USER
from agentkit_py.messages import text_of
from agentkit_py.stores import HistoryStore, PostgresHistory, SqliteHistory, ThreadInfo, for_user
from agentkit_py.stores.interchange import Format, export_threads, import_threads
from agentkit_py.stores.workspace import Workspace

app: typer.Typer = typer.Typer(
    name="threads",
    help="Look at stored threads, move them, and delete them.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

_AGE = re.compile(r"(\d+)([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}

_Db = Annotated[
    str,
    typer.Option(
        "--db",
        envvar="AGENTKIT_DB",
        metavar="FILE|DSN",
        help="An SQLite file, or postgresql://… for a database.",
    ),
]
_User = Annotated[
    str | None, typer.Option("--user", metavar="ID", help="Only threads of this user.")
]
_Files = Annotated[
    Path | None, typer.Option("--workspace", help="The folder with the threads' files.")
]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@asynccontextmanager
async def open_store(db: str, user: str | None = None) -> AsyncGenerator[HistoryStore]:
    """The store of a file or DSN, as ``user`` may see it.

    Raises:
        ConfigurationError: The file is not there.
    """
    if "://" in db:
        store: HistoryStore = PostgresHistory(db)
    else:
        if not Path(db).is_file():  # noqa: ASYNC240 - nothing else runs here
            raise ConfigurationError(f"--db: there is no file {db}.")
        store = SqliteHistory(db)
    async with store:
        yield store if user is None else for_user(store, user)


def age(text: str) -> timedelta:
    """A time like ``7d`` or ``12h``.

    Raises:
        ConfigurationError: It is none.
    """
    match = _AGE.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"{text!r} is no time; write 30m, 12h, 7d or 4w.")
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])


def _run(
    ctx: typer.Context, db: str, user: str | None, work: Callable[[HistoryStore, Console], Any]
) -> None:
    async def main() -> None:
        async with open_store(db, user) as store:
            await work(store, ctx.obj.console)

    asyncio.run(main())


@app.command("list")
def list_(
    ctx: typer.Context,
    db: _Db,
    *,
    user: _User = None,
    limit: Annotated[int, typer.Option(help="How many at the most.")] = 50,
) -> None:
    """List threads, those changed last first."""

    async def work(store: HistoryStore, console: Console) -> None:
        print_threads(console, await _counted(store, await store.list_threads(limit)))

    _run(ctx, db, user, work)


async def _counted(
    store: HistoryStore, threads: Iterable[ThreadInfo]
) -> list[tuple[ThreadInfo, int]]:
    return [(thread, await store.count_results(thread.id)) for thread in threads]


@app.command()
def show(ctx: typer.Context, thread: str, db: _Db, *, user: _User = None) -> None:
    """Show what was said in a thread."""

    async def work(store: HistoryStore, console: Console) -> None:
        transcript = Transcript(console)
        for result in await store.load(thread):
            is_user = result.agent_name == USER
            name = "you" if is_user else result.agent_name
            for message in result.messages:
                if message.type == "text":
                    transcript.past(name, message.text, is_user=is_user)
                elif message.type == "tool_call":
                    calls = ", ".join(call.name for call in message.tools)
                    console.print(Text(f"  {clean(name)} calls {clean(calls)}", "dim"))

    _run(ctx, db, user, work)


@app.command()
def search(ctx: typer.Context, words: str, db: _Db, *, user: _User = None) -> None:
    """Find threads in which something was said; upper and lower case are the same."""

    async def work(store: HistoryStore, console: Console) -> None:
        sought, found = words.casefold(), 0
        for thread in await store.list_threads(None):
            for message in await store.messages(thread.id):
                text = text_of(message)
                place = text.casefold().find(sought)
                if place >= 0:
                    found += 1
                    line = shorten(text[max(0, place - 30) : place + 60], 90)
                    console.print(Text(f"{clean(thread.id)}  {line}"), soft_wrap=True)
                    break
        console.print(f"{found} threads", style="dim")

    _run(ctx, db, user, work)


@app.command("export")
def export(
    ctx: typer.Context,
    db: _Db,
    threads: Annotated[list[str] | None, typer.Argument(help="Threads; all unless given.")] = None,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file; standard output unless given.")
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="archive, openai (what replay reads), or typescript.")
    ] = "archive",
    user: _User = None,
) -> None:
    """Write threads as JSON Lines."""

    async def work(store: HistoryStore, console: Console) -> None:
        del console
        chosen = (
            [await store.get_thread(one) for one in threads]
            if threads
            else await store.list_threads(None)
        )
        lines = export_threads(store, chosen, _format(form))
        if output is None:
            async for line in lines:
                sys.stdout.write(line)
            return
        with output.open("w", encoding="utf-8", newline="\n") as file:
            async for line in lines:
                file.write(line)

    _run(ctx, db, user, work)


def _format(given: str) -> Format:
    if given in ("archive", "openai", "typescript"):
        return given
    raise ConfigurationError(f"--format must be archive, openai or typescript, not {given!r}.")


@app.command("import")
def import_(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="JSON Lines of any of the formats of export.")],
    db: Annotated[str, typer.Option("--db", metavar="FILE|DSN", help="Made if it is not there.")],
    *,
    user: Annotated[str | None, typer.Option("--user", help="Whose the threads are.")] = None,
) -> None:
    """Add threads; what is there already is left out, so that it can be repeated."""

    async def main() -> int:
        store = PostgresHistory(db) if "://" in db else SqliteHistory(db)
        async with store:
            with file.open(encoding="utf-8") as lines:
                return len(await import_threads(store, lines, user_id=user))

    ctx.obj.console.print(f"{asyncio.run(main())} threads", style="dim")


@app.command()
def delete(
    ctx: typer.Context,
    db: _Db,
    threads: Annotated[list[str] | None, typer.Argument(help="Threads.")] = None,
    *,
    user: _User = None,
    workspace: _Files = None,
    yes: _Yes = False,
) -> None:
    """Delete threads, or everything of a user: messages, summaries, states, vectors and files."""
    if not threads and user is None:
        raise ConfigurationError("Name threads, or a user with --user.")

    async def find(store: HistoryStore) -> list[ThreadInfo]:
        if threads:
            return [await store.get_thread(one) for one in threads]
        return await store.list_threads(None)

    _delete(ctx, (db, user, workspace), find, yes=yes)


@app.command("clean")
def clean_(
    ctx: typer.Context,
    db: _Db,
    *,
    older_than: Annotated[str, typer.Option(metavar="AGE", help="E.g. 7d: unchanged since then.")],
    user: _User = None,
    workspace: _Files = None,
    yes: _Yes = False,
) -> None:
    """Delete threads that nobody has added to for some time."""
    end = datetime.now(UTC) - age(older_than)

    async def find(store: HistoryStore) -> list[ThreadInfo]:
        return [thread for thread in await store.list_threads(None) if thread.updated_at < end]

    _delete(ctx, (db, user, workspace), find, yes=yes)


def _delete(
    ctx: typer.Context,
    where: tuple[str, str | None, Path | None],
    find: Callable[[HistoryStore], Awaitable[list[ThreadInfo]]],
    *,
    yes: bool,
) -> None:
    db, user, workspace = where

    async def work(store: HistoryStore, console: Console) -> None:
        if workspace is not None:
            store.workspace = Workspace(workspace)
        found = await find(store)
        if found and not yes:
            typer.confirm(f"Delete {len(found)} threads for good?", abort=True)
        gone = sum([await store.delete_thread(thread.id) for thread in found])
        console.print(f"{gone} threads deleted", style="dim")

    _run(ctx, db, user, work)


@app.command()
def stats(ctx: typer.Context, db: _Db, *, user: _User = None) -> None:
    """Count threads, users, results and messages."""

    async def work(store: HistoryStore, console: Console) -> None:
        threads = await store.list_threads(None)
        results = messages = 0
        for thread in threads:
            try:
                loaded = await store.load(thread.id)
            except ThreadNotFoundError:  # deleted meanwhile
                continue
            results += len(loaded)
            messages += sum(len(result.messages) for result in loaded)
        users = {thread.user_id for thread in threads if thread.user_id is not None}
        table = Table(box=None, show_header=False, pad_edge=False)
        rows = {"threads": threads, "users": users}
        for name, found in rows.items():
            table.add_row(name, f"{len(found):,}")
        table.add_row("results", f"{results:,}")
        table.add_row("messages", f"{messages:,}")
        if "://" not in db:
            table.add_row("bytes", f"{Path(db).stat().st_size:,}")  # noqa: ASYNC240
        console.print(table)

    _run(ctx, db, user, work)
