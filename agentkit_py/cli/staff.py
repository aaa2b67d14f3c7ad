"""`agentkit staff`: threads that want a person, joining one, writing in it, handing it back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from agentkit_py._core.untrusted import clean
from agentkit_py.cli.console import shorten
from agentkit_py.cli.threads import PREFIX, SCHEMA, StoreOptions
from agentkit_py.history.staff import StaffDesk, Takeover
from agentkit_py.stores import HistoryStore

app: typer.Typer = typer.Typer(
    name="staff",
    help="Threads that people take over from agents: list, join, write, hand back.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

_Db = Annotated[
    str, typer.Option("--db", envvar="AGENTKIT_DB", metavar="FILE|DSN", help="The threads' store.")
]
_Thread = Annotated[str, typer.Argument(metavar="THREAD", help="The thread.")]
_By = Annotated[str, typer.Option("--by", metavar="ID", help="The id of the person.")]
_Name = Annotated[
    str, typer.Option("--name", help="The name that the user and agents read; the id unless given.")
]
_Schema = Annotated[str, typer.Option("--schema", help="Of PostgreSQL's tables.")]
_Prefix = Annotated[str, typer.Option("--prefix", help="What PostgreSQL's tables begin with.")]


def _run(
    ctx: typer.Context, options: StoreOptions, work: Callable[[StaffDesk], Awaitable[str]]
) -> None:
    """Work at the desk of a store, and print what was done."""

    async def at_desk(store: HistoryStore, console: Console) -> None:
        console.print(clean(await work(StaffDesk(store))), markup=False, soft_wrap=True)

    options.run(ctx, at_desk)


@app.command()
def queue(
    ctx: typer.Context,
    db: _Db,
    *,
    limit: Annotated[int, typer.Option(min=1, help="Number of threads at most.")] = 50,
    schema: _Schema = SCHEMA,
    prefix: _Prefix = PREFIX,
) -> None:
    """List the threads that a person is on or wanted in, the oldest first."""

    async def work(store: HistoryStore, console: Console) -> None:
        found = await StaffDesk(store).queue(limit=limit)
        table = Table(box=None, header_style="dim")
        for name in ("thread", "user", "state", "who", "reason", "user waits since"):
            table.add_column(name, overflow="fold", no_wrap=name == "thread")
        for one in found:
            who = ", ".join(f"{p.name} ({p.id})" for p in one.people)
            about = (one.thread_id, one.user_id or "", one.status or "", who)
            table.add_row(*map(clean, (*about, shorten(one.reason, 200), _waiting(one))))
        if found:
            console.print(table)
        count = len(found)
        console.print(f"{count} thread{'' if count == 1 else 's'}", style="dim")

    StoreOptions(db, None, schema, prefix).run(ctx, work)


def _waiting(takeover: Takeover) -> str:
    since = takeover.waiting_since
    return "" if since is None else f"{since:%Y-%m-%d %H:%M} UTC"


@app.command()
def join(
    ctx: typer.Context,
    thread: _Thread,
    db: _Db,
    by: _By,
    *,
    name: _Name = "",
    schema: _Schema = SCHEMA,
    prefix: _Prefix = PREFIX,
) -> None:
    """Join a thread: agents pause until it is handed back.

    Whoever has the database may: the rules of the HTTP API hold there.
    """

    async def work(desk: StaffDesk) -> str:
        found = await desk.join(thread, by=by, name=name)
        return f"On {thread} now: {', '.join(one.name for one in found.people)}"

    _run(ctx, StoreOptions(db, None, schema, prefix), work)


@app.command()
def say(
    ctx: typer.Context,
    thread: _Thread,
    text: Annotated[str, typer.Argument(help="The text.")],
    db: _Db,
    by: _By,
    *,
    schema: _Schema = SCHEMA,
    prefix: _Prefix = PREFIX,
) -> None:
    """Write to the user of a thread that you have joined."""

    async def work(desk: StaffDesk) -> str:
        said = await desk.say(thread, text, by=by)
        return f"{said.agent_name}: {said.text}"

    _run(ctx, StoreOptions(db, None, schema, prefix), work)


@app.command("hand-back")
def hand_back(
    ctx: typer.Context,
    thread: _Thread,
    db: _Db,
    by: _By,
    *,
    name: _Name = "",
    note: Annotated[str, typer.Option(help="A note that agents read and the user does not.")] = "",
    schema: _Schema = SCHEMA,
    prefix: _Prefix = PREFIX,
) -> None:
    """Leave a thread with a note; when nobody is left on it, agents answer again.

    Where a person is only asked for, nobody is any more: so staff decline.
    """

    async def work(desk: StaffDesk) -> str:
        found = await desk.hand_back(thread, by=by, name=name, note=note)
        left = ", ".join(one.name for one in found.people)
        return f"Still on {thread}: {left}" if left else f"Agents answer in {thread} again."

    _run(ctx, StoreOptions(db, None, schema, prefix), work)
