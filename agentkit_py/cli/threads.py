"""`agentkit threads`: look at stored threads, move them, and delete them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentkit_py._core.untrusted import clean, escaped
from agentkit_py.cli.console import ProgressBar, counted, shorten
from agentkit_py.cli.stores import (
    PREFIX,
    SCHEMA,
    PrefixOption,
    SchemaOption,
    StoreOptions,
    YesOption,
    command_group,
    store_command,
    writes_file,
    written_whole,
)
from agentkit_py.errors import ConfigurationError, InvalidRecordError
from agentkit_py.messages import text_of
from agentkit_py.results import USER, AgentResult
from agentkit_py.stores.base import HistoryStore
from agentkit_py.stores.rows import ExportFormat, ThreadInfo
from agentkit_py.stores.words import WordSearch

if TYPE_CHECKING:
    from agentkit_py.cli.printing import RunPrinter

_PAGE = 200
"""Results that are read at once."""

_AGE = re.compile(r"(\d+)([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}

_Files = Annotated[
    Path | None, typer.Option("--workspace", help="The folder with the threads' files.")
]
_Before = Annotated[
    str | None,
    typer.Option(metavar="MESSAGE", help="A message of the user: its id, or its position."),
]
_Back = Annotated[
    int | None,
    typer.Option(min=1, help="The user's message that is so many from the end; 1: the last."),
]

app: typer.Typer = command_group("threads", "Look at stored threads, move them, and delete them.")


@store_command(app, "list", by_user=True)
async def list_(
    store: HistoryStore,
    console: Console,
    *,
    limit: Annotated[int, typer.Option(min=1, help="Number of threads at most.")] = 50,
) -> None:
    """List threads, last changed first."""
    print_threads(console, await store.list_threads(limit))


@store_command(app, by_user=True)
async def show(
    store: HistoryStore,
    console: Console,
    thread: str,
    *,
    last: Annotated[
        int | None, typer.Option(min=1, help="Only this number of results, the last ones.")
    ] = None,
) -> None:
    """Show the messages of a thread, and its forks."""
    from agentkit_py.cli.printing import RunPrinter  # noqa: PLC0415 - slow to load

    printer = RunPrinter(console)
    count = await store.count_results(thread)
    begin = 0 if last is None else max(0, count - last)
    while begin < count:
        stop = min(begin + _PAGE, count)
        for record in await store.page(thread, stop, stop - begin):
            _show(printer, console, record.result)
        begin = stop
    await _show_relatives(store, console, thread)


@store_command(app, by_user=True)
async def fork(
    store: HistoryStore,
    console: Console,
    thread: str,
    *,
    before: _Before = None,
    back: _Back = None,
    title: Annotated[str | None, typer.Option(help="A title; the thread's unless given.")] = None,
) -> None:
    """Make a thread that begins with another's messages: all, or those before a message.

    Nothing is copied, and both are independent.
    """
    whole = before is None and back is None
    place = None if whole else await _place(store, thread, before, back)
    made = await store.fork(thread, place, title=title)
    count = await store.count_results(made)
    console.print(Text(f"{made}  {counted(count, 'result')}"), soft_wrap=True)


@store_command(app, by_user=True)
async def rewind(
    store: HistoryStore,
    console: Console,
    thread: str,
    *,
    before: _Before = None,
    back: _Back = None,
    yes: YesOption = False,
) -> None:
    """Rewind a thread to before a message of the user: the last by default.

    What it had after that is out of reach then, except in forks that were made before.
    """
    place = await _place(store, thread, before, back)
    if not yes:
        typer.confirm(f"Take the thread back to before result {place}?", abort=True)
    await store.rewind(thread, place)
    count = await store.count_results(thread)
    console.print(Text(f"{counted(count, 'result')} left", "dim"))


async def _place(
    store: HistoryStore, thread: str, before: str | None, back: int | None
) -> str | int:
    """Return the message of the user that the options name."""
    if before is not None and back is not None:
        raise ConfigurationError("Give --before or --back, not both.")
    if before is not None:
        return int(before) if before.isdecimal() else before
    found = await store.last_user_message(thread, back or 1)
    if found is None:
        raise ConfigurationError(f"--back: the user has not written {back or 1} messages.")
    return found.position


async def _show_relatives(store: HistoryStore, console: Console, thread: str) -> None:
    """Print the thread that this thread is a fork of, and its forks."""
    info = await store.get_thread(thread)
    relatives = [] if info.forked_from is None else [("fork of", info.forked_from, info)]
    relatives += [("fork", one.id, one) for one in await store.forks(thread, limit=None)]
    for kind, name, one in relatives:
        line = (
            f"{kind} {clean(name)}  before result {one.forked_at}, {one.created_at:%Y-%m-%d %H:%M}"
        )
        console.print(Text(line, "dim"), soft_wrap=True)


def _show(printer: RunPrinter, console: Console, result: AgentResult) -> None:
    is_user = result.agent_name == USER
    name = "you" if is_user else result.agent_name
    for message in result.messages:
        if message.type == "text":
            printer.past(name, message.text, is_user=is_user)
        elif message.type == "opaque":
            console.print(Text(f"  {clean(name)}: {clean(str(message))}", "dim"))
        elif message.type == "tool_call":
            calls = ", ".join(call.name for call in message.tools)
            console.print(Text(f"  {clean(name)} calls {clean(calls)}", "dim"))


@store_command(app, by_user=True)
async def search(
    store: HistoryStore,
    console: Console,
    words: str,
    *,
    limit: Annotated[int, typer.Option(min=1, help="Number of threads at most.")] = 50,
) -> None:
    """Find threads by words of their messages, in any order; the beginning of a word is enough.

    Upper and lower case are the same. Words in double quotes must be adjacent.
    """
    sought = WordSearch.parse(words)
    found = await store.search(words, limit=limit)
    for match in found:
        page = await store.page(match.thread_id, match.position + 1, 1)
        text = _found(page[0].result, sought) if page else match.text
        place = sought.find(text) or 0
        line = shorten(text[max(0, place - 30) : place + 60], 90)
        console.print(Text(f"{clean(match.thread_id)}  {line}"), soft_wrap=True)
    console.print(counted(len(found), "thread"), style="dim")


def _found(result: AgentResult, sought: WordSearch) -> str:
    """Return the text of the first message that holds the words."""
    from agentkit_py.cli.printing import message_line  # noqa: PLC0415 - slow to load

    found = (m for m in result.messages if sought.find(text_of(m)) is not None)
    return next(map(message_line, found), "")


@store_command(app)
async def index(
    store: HistoryStore,
    console: Console,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE:OBJECT",
            help="A network or an agent: make its vectors and summaries, too.",
        ),
    ] = None,
) -> None:
    """Add missing messages to the index of words; until then searches read them individually.

    It lacks messages saved by a Python without SQLite's FTS5, or a store with full_text=False. With
    MODULE:OBJECT, older messages of all threads are embedded and summarised now, as runs would do
    a part at a time; this calls the embedder and the model of its processors.
    """
    if target is not None:
        await _index_turns(target, store, console)
    left = first = await store.index_words(0)
    with ProgressBar("index", first) as bar:
        while left > 0:
            before, left = left, await store.index_words()
            bar.advance(before - left)
    console.print(Text(f"{counted(first, 'result')} added", "dim"))


async def _index_turns(target: str, store: HistoryStore, console: Console) -> None:
    from agentkit_py.cli.target import load_target  # noqa: PLC0415 - slow to load
    from agentkit_py.network import index_thread, on_history  # noqa: PLC0415 - slow to load

    found = load_target(target)
    if found.history is not None:
        store.processors = found.history.processors
    found = on_history(found, store)
    threads = await store.list_threads(None)
    with ProgressBar("index", len(threads)) as bar:
        for thread in threads:
            await index_thread(found, thread.id)
            bar.advance()
    console.print(Text(f"{counted(len(threads), 'thread')} indexed", "dim"))


@store_command(app, "export", by_user=True)
async def export(
    store: HistoryStore,
    console: Console,
    options: StoreOptions,
    threads: Annotated[list[str] | None, typer.Argument(help="Threads; all unless given.")] = None,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file; standard output unless given.")
    ] = None,
    form: Annotated[
        ExportFormat, typer.Option("--format", help="openai: the format of agentkit replay.")
    ] = "archive",
) -> None:
    """Write threads as JSON Lines."""
    del console
    chosen = (
        [await store.get_thread(one) for one in threads]
        if threads
        else await store.list_threads(None)
    )
    if output is None:
        await _write(store, chosen, form, sys.stdout)
        return
    db = None if options.is_server else options.db
    with writes_file("--output", output, db), written_whole(output) as file:
        await _write(store, chosen, form, file)


async def _write(
    store: HistoryStore, threads: Iterable[ThreadInfo], form: ExportFormat, file: IO[str]
) -> None:
    from agentkit_py.stores.interchange import export_threads  # noqa: PLC0415 - slow to load

    chosen = list(threads)
    with ProgressBar("export", len(chosen)) as bar:
        for thread in chosen:
            async for line in export_threads(store, [thread], form):
                file.write(f"{escaped(line.rstrip())}\n")
            bar.advance()


@app.command("import")
def import_(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="JSON Lines of a format of export, or of requests.",
        ),
    ],
    db: Annotated[str, typer.Option("--db", metavar="FILE|DSN", help="Made if it is not there.")],
    *,
    user: Annotated[str | None, typer.Option("--user", help="Whose the threads are.")] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out lines that cannot be read, and say so.")
    ] = False,
    schema: SchemaOption = SCHEMA,
    prefix: PrefixOption = PREFIX,
) -> None:
    """Add threads; stored messages are skipped, so that it can be repeated.

    In addition to the formats of export: requests of OpenAI, Claude and Gemini, tau2's simulations,
    ShareGPT, BFCL's questions, trajectories of SWE-agent and OpenHands, as JSON Lines or as a
    document.

    A message without an id is recognised by its thread, its words and how often they came before,
    so that a second import of the same file adds nothing.
    """

    async def work(store: HistoryStore, console: Console) -> None:
        from agentkit_py.models.chat_records import records_of  # noqa: PLC0415 - slow to load
        from agentkit_py.stores.interchange import import_threads  # noqa: PLC0415 - slow to load

        size = file.stat().st_size
        with file.open("rb") as opened, ProgressBar("import", size) as bar:
            added: list[int] = []
            bad: list[InvalidRecordError] = []
            lines = _lines(records_of(opened), bar.advance)

            def skip(error: InvalidRecordError) -> None:
                bad.append(error)
                bar.print(str(error))

            found = await import_threads(
                store,
                lines,
                user_id=user,
                on_added=added.append,
                on_bad_line=skip if skip_bad else None,
            )
        new = f"{counted(sum(added), 'result')} added"
        console.print(f"{counted(len(found), 'thread')}, {new}", style="dim")
        if bad:
            left = f"{len(bad)} of {counted(len(added) + len(bad), 'line')} left out"
            console.print(f"{left}: they could not be read", style="yellow")

    StoreOptions(db, None, schema, prefix, create=True).run(ctx, work)


def _lines(lines: Iterable[bytes], advance: Callable[[float], None]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            # Editors on Windows write a byte order mark before the first line.
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRecordError(
                f"not UTF-8 (byte {error.start + 1})", where=f"line {number}", field="(whole)"
            ) from error
        advance(len(line))


@store_command(app, by_user=True)
async def delete(
    store: HistoryStore,
    console: Console,
    options: StoreOptions,
    threads: Annotated[list[str] | None, typer.Argument(help="Threads.")] = None,
    *,
    workspace: _Files = None,
    yes: YesOption = False,
) -> None:
    """Delete threads, or everything of a user: messages, summaries, states, vectors and facts.

    Their files are deleted, too, where --workspace says in which folder they are.
    """
    if threads:
        found = [await store.get_thread(one) for one in threads]
        await _delete(store, console, found, workspace, yes=yes)
    elif options.user is None:
        raise ConfigurationError("Name threads, or a user with --user.")
    else:
        found = await store.list_threads(None)
        await _delete(store, console, found, workspace, yes=yes, user=options.user)


@store_command(app, "clean", by_user=True)
async def clean_(
    store: HistoryStore,
    console: Console,
    *,
    older_than: Annotated[str, typer.Option(metavar="AGE", help="E.g. 7d: unchanged since then.")],
    workspace: _Files = None,
    yes: YesOption = False,
) -> None:
    """Delete threads that have not changed for some time."""
    end = _before(older_than)
    found = [thread for thread in await store.list_threads(None) if thread.updated_at < end]
    await _delete(store, console, found, workspace, yes=yes)


async def _delete(
    store: HistoryStore,
    console: Console,
    found: Sequence[ThreadInfo],
    workspace: Path | None,
    *,
    yes: bool,
    user: str | None = None,
) -> None:
    """Delete threads; with a user, also the facts about the user."""
    if workspace is not None:
        from agentkit_py.stores.workspace import Workspace  # noqa: PLC0415 - only here

        store.workspace = Workspace(workspace)
    if (found or user is not None) and not yes:
        rest = "" if user is None else " and the user's facts"
        typer.confirm(f"Delete {counted(len(found), 'thread')}{rest} for good?", abort=True)
    gone = 0
    with ProgressBar("delete", len(found)) as bar:
        for thread in found:
            gone += await store.delete_thread(thread.id)
            bar.advance()
    if user is not None:
        await store.delete_user(user)
    console.print(f"{counted(gone, 'thread')} deleted", style="dim")
    if gone and workspace is None:
        line = "Files of theirs, if there are any, stay: their folder is given by --workspace."
        console.print(Text(line, "dim"), soft_wrap=True)


@store_command(app, by_user=True)
async def stats(store: HistoryStore, console: Console, options: StoreOptions) -> None:
    """Count threads, users, results and messages."""
    found = await store.stats()
    table = Table(box=None, show_header=False, pad_edge=False)
    for name in ("threads", "users", "results", "messages"):
        table.add_row(name, f"{getattr(found, name):,}")
    if not options.is_server:
        table.add_row("bytes", f"{Path(options.db).stat().st_size:,}")  # noqa: ASYNC240 - nothing else runs
    console.print(table)


def _before(age: str) -> datetime:
    """Return the moment that is a time like ``7d`` or ``12h`` ago."""
    match = _AGE.fullmatch(age)
    with suppress(OverflowError):
        if match is not None:
            seconds = int(match[1]) * _SECONDS[match[2]]
            return datetime.now(UTC) - timedelta(seconds=seconds)
    raise ConfigurationError(f"{age!r:.80} is not a time; write 30m, 12h, 7d or 4w.")


def print_threads(console: Console, threads: Iterable[ThreadInfo]) -> None:
    """Print a table of threads with the number of their messages.

    Where it is too narrow titles are cut, not ids: other commands need them.
    """
    table = Table(box=None, pad_edge=False)
    for name in ("thread", "user", "messages", "changed"):
        table.add_column(name, justify="right" if name == "messages" else "left", no_wrap=True)
    table.add_column("title")  # the only column that may become narrower
    for thread in threads:
        changed = thread.updated_at.strftime("%Y-%m-%d %H:%M")
        count = "-" if thread.message_count is None else f"{thread.message_count:,}"
        cells = [clean(thread.id), shorten(thread.user_id or "-", 40), count, changed]
        title = Text(shorten(thread.title, 40), no_wrap=True, overflow="ellipsis")
        table.add_row(*map(Text, cells), title)
    console.print(table)
