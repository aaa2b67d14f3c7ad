"""`agentkit threads`: look at stored threads, move them, and delete them."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentkit_py.cli.console import Commands, clean, shorten
from agentkit_py.cli.thread_store import (
    PREFIX,
    SCHEMA,
    Db,
    Prefix,
    Schema,
    User,
    Where,
    age,
    progress,
)
from agentkit_py.cli.thread_table import print_threads
from agentkit_py.cli.transcript import Transcript, message_line
from agentkit_py.errors import ConfigurationError, InvalidRecordError
from agentkit_py.messages import text_of
from agentkit_py.results import USER, AgentResult
from agentkit_py.stores import HistoryStore, ThreadInfo
from agentkit_py.stores.interchange import Format, export_threads, import_threads
from agentkit_py.stores.workspace import Workspace

app: typer.Typer = typer.Typer(
    name="threads",
    cls=Commands,
    help="Look at stored threads, move them, and delete them.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

_Files = Annotated[
    Path | None, typer.Option("--workspace", help="The folder with the threads' files.")
]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

_PAGE = 200
"""Results that are read at once."""


@app.command("list")
def list_(
    ctx: typer.Context,
    db: Db,
    *,
    user: User = None,
    schema: Schema = SCHEMA,
    prefix: Prefix = PREFIX,
    limit: Annotated[int, typer.Option(help="How many at the most.")] = 50,
) -> None:
    """List threads, those changed last first."""

    async def work(store: HistoryStore, console: Console) -> None:
        print_threads(console, await store.list_threads(limit))

    Where(db, user, schema, prefix).run(ctx, work)


@app.command()
def show(
    ctx: typer.Context,
    thread: str,
    db: Db,
    *,
    last: Annotated[
        int | None, typer.Option(min=1, help="Only so many results at the end.")
    ] = None,
    user: User = None,
    schema: Schema = SCHEMA,
    prefix: Prefix = PREFIX,
) -> None:
    """Show what was said in a thread."""

    async def work(store: HistoryStore, console: Console) -> None:
        transcript = Transcript(console)
        count = await store.count_results(thread)
        begin = 0 if last is None else max(0, count - last)
        while begin < count:
            stop = min(begin + _PAGE, count)
            for record in await store.page(thread, stop, stop - begin):
                _show(transcript, console, record.result)
            begin = stop

    Where(db, user, schema, prefix).run(ctx, work)


def _show(transcript: Transcript, console: Console, result: AgentResult) -> None:
    is_user = result.agent_name == USER
    name = "you" if is_user else result.agent_name
    for message in result.messages:
        if message.type == "text":
            transcript.past(name, message.text, is_user=is_user)
        elif message.type == "tool_call":
            calls = ", ".join(call.name for call in message.tools)
            console.print(Text(f"  {clean(name)} calls {clean(calls)}", "dim"))


@app.command()
def search(
    ctx: typer.Context,
    words: str,
    db: Db,
    *,
    limit: Annotated[int, typer.Option(help="How many threads at the most.")] = 50,
    user: User = None,
    schema: Schema = SCHEMA,
    prefix: Prefix = PREFIX,
) -> None:
    """Find threads in which something was said; upper and lower case are the same."""

    async def work(store: HistoryStore, console: Console) -> None:
        found = await store.search(words, limit=limit)
        for match in found:
            page = await store.page(match.thread_id, match.position + 1, 1)
            text = _found(page[0].result, words) if page else match.text
            place = text.lower().find(words.lower())
            line = shorten(text[max(0, place - 30) : place + 60], 90)
            console.print(Text(f"{clean(match.thread_id)}  {line}"), soft_wrap=True)
        console.print(_threads(len(found)), style="dim")

    Where(db, user, schema, prefix).run(ctx, work)


def _found(result: AgentResult, words: str) -> str:
    """The first message in which something is found, as one reads it."""
    sought = words.lower()
    return next((message_line(m) for m in result.messages if sought in text_of(m).lower()), "")


@app.command("export")
def export(
    ctx: typer.Context,
    db: Db,
    threads: Annotated[list[str] | None, typer.Argument(help="Threads; all unless given.")] = None,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file; standard output unless given.")
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="archive, openai (what replay reads), or typescript.")
    ] = "archive",
    user: User = None,
    schema: Schema = SCHEMA,
    prefix: Prefix = PREFIX,
) -> None:
    """Write threads as JSON Lines."""

    async def work(store: HistoryStore, console: Console) -> None:
        del console
        chosen = (
            [await store.get_thread(one) for one in threads]
            if threads
            else await store.list_threads(None)
        )
        if output is None:
            await _write(store, chosen, _format(form), sys.stdout)
            return
        try:
            with output.open("w", encoding="utf-8", newline="\n") as file:
                await _write(store, chosen, _format(form), file)
        except OSError as error:
            raise ConfigurationError(f"--output: {output} cannot be written: {error}") from error

    Where(db, user, schema, prefix).run(ctx, work)


async def _write(
    store: HistoryStore, threads: Iterable[ThreadInfo], form: Format, file: IO[str]
) -> None:
    chosen = list(threads)
    with progress("export", len(chosen)) as advance:
        for thread in chosen:
            async for line in export_threads(store, [thread], form):
                file.write(line)
            advance(1)


def _format(given: str) -> Format:
    if given in ("archive", "openai", "typescript"):
        return given
    raise ConfigurationError(f"--format must be archive, openai or typescript, not {given!r}.")


@app.command("import")
def import_(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            exists=True, dir_okay=False, help="JSON Lines of any of the formats of export."
        ),
    ],
    db: Annotated[str, typer.Option("--db", metavar="FILE|DSN", help="Made if it is not there.")],
    *,
    user: Annotated[str | None, typer.Option("--user", help="Whose the threads are.")] = None,
    schema: Schema = SCHEMA,
    prefix: Prefix = PREFIX,
) -> None:
    """Add threads; what is there already is left out, so that it can be repeated.

    What has no id is known by its thread, its words and how often they were said before, so that a
    second import of the same file adds nothing.
    """

    async def work(store: HistoryStore, console: Console) -> None:
        size = file.stat().st_size
        with file.open("rb") as opened, progress("import", size) as advance:
            found = await import_threads(store, _told(opened, advance), user_id=user)
        console.print(_threads(len(found)), style="dim")

    Where(db, None, schema, prefix, new=True).run(ctx, work)


def _told(lines: Iterable[bytes], advance: Callable[[float], None]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            # A byte order mark, as editors on Windows write it, stands before the first line.
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRecordError(
                f"not UTF-8 (byte {error.start + 1})", where=f"line {number}", field="(whole)"
            ) from error
        advance(len(line))


def _threads(count: int) -> str:
    return f"{count} thread" if count == 1 else f"{count} threads"


@app.command()
def delete(
    ctx: typer.Context,
    db: Db,
    threads: Annotated[list[str] | None, typer.Argument(help="Threads.")] = None,
    *,
    user: User = None,
    schema: Schema = SCHEMA,
    prefix: Prefix = PREFIX,
    workspace: _Files = None,
    yes: _Yes = False,
) -> None:
    """Delete threads, or everything of a user: messages, summaries, states and vectors.

    Their files are deleted, too, where --workspace says in which folder they are.
    """
    if not threads and user is None:
        raise ConfigurationError("Name threads, or a user with --user.")

    async def find(store: HistoryStore) -> list[ThreadInfo]:
        if threads:
            return [await store.get_thread(one) for one in threads]
        return await store.list_threads(None)

    _delete(ctx, Where(db, user, schema, prefix), workspace, find, yes=yes)


@app.command("clean")
def clean_(
    ctx: typer.Context,
    db: Db,
    *,
    older_than: Annotated[str, typer.Option(metavar="AGE", help="E.g. 7d: unchanged since then.")],
    user: User = None,
    schema: Schema = SCHEMA,
    prefix: Prefix = PREFIX,
    workspace: _Files = None,
    yes: _Yes = False,
) -> None:
    """Delete threads that nobody has added to for some time."""
    end = datetime.now(UTC) - age(older_than)

    async def find(store: HistoryStore) -> list[ThreadInfo]:
        return [thread for thread in await store.list_threads(None) if thread.updated_at < end]

    _delete(ctx, Where(db, user, schema, prefix), workspace, find, yes=yes)


def _delete(
    ctx: typer.Context,
    where: Where,
    workspace: Path | None,
    find: Callable[[HistoryStore], Awaitable[list[ThreadInfo]]],
    *,
    yes: bool,
) -> None:
    async def work(store: HistoryStore, console: Console) -> None:
        if workspace is not None:
            store.workspace = Workspace(workspace)
        found = await find(store)
        if found and not yes:
            typer.confirm(f"Delete {_threads(len(found))} for good?", abort=True)
        gone = 0
        with progress("delete", len(found)) as advance:
            for thread in found:
                gone += await store.delete_thread(thread.id)
                advance(1)
        console.print(f"{_threads(gone)} deleted", style="dim")
        if gone and workspace is None:
            line = "Files of theirs, if there are any, stay: their folder is given by --workspace."
            console.print(Text(line, "dim"), soft_wrap=True)

    where.run(ctx, work)


@app.command()
def stats(
    ctx: typer.Context,
    db: Db,
    *,
    user: User = None,
    schema: Schema = SCHEMA,
    prefix: Prefix = PREFIX,
) -> None:
    """Count threads, users, results and messages."""
    where = Where(db, user, schema, prefix)

    async def work(store: HistoryStore, console: Console) -> None:
        found = await store.stats()
        table = Table(box=None, show_header=False, pad_edge=False)
        for name in ("threads", "users", "results", "messages"):
            table.add_row(name, f"{getattr(found, name):,}")
        if not where.is_server:
            table.add_row("bytes", f"{Path(db).stat().st_size:,}")  # noqa: ASYNC240 - nothing else runs
        console.print(table)

    where.run(ctx, work)
