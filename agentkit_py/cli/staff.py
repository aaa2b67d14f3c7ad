"""`agentkit staff`: threads that want a person: listing, joining, writing, handing back."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from agentkit_py._core.untrusted import clean
from agentkit_py.cli.console import counted, shorten
from agentkit_py.cli.stores import command_group, store_command
from agentkit_py.history.staff_desk import StaffDesk
from agentkit_py.stores import HistoryStore

app: typer.Typer = command_group(
    "staff", "Threads that people take over from agents: list, join, write, hand back."
)

_Thread = Annotated[str, typer.Argument(metavar="THREAD", help="The thread.")]
_By = Annotated[str, typer.Option("--by", metavar="ID", help="The id of the person.")]
_Name = Annotated[
    str,
    typer.Option(
        "--name",
        help="The name that the user and agents read; else users read Staff, and agents the id.",
    ),
]


@store_command(app)
async def queue(
    store: HistoryStore,
    console: Console,
    *,
    limit: Annotated[int, typer.Option(min=1, help="Number of threads at most.")] = 50,
) -> None:
    """List the threads that a person is on or wanted in, the oldest first."""
    found = await StaffDesk(store).queue(limit=limit)
    table = Table(box=None, header_style="dim")
    for name in ("thread", "user", "state", "who", "reason", "user waits since"):
        table.add_column(name, overflow="fold", no_wrap=name == "thread")
    for one in found:
        who = ", ".join(f"{p.name} ({p.id})" for p in one.people)
        since = one.waiting_since
        waits = "" if since is None else f"{since:%Y-%m-%d %H:%M} UTC"
        about = (one.thread_id, one.user_id or "", one.status or "", who)
        table.add_row(*map(clean, (*about, shorten(one.reason, 200), waits)))
    if found:
        console.print(table)
    console.print(counted(len(found), "thread"), style="dim")


def _say(console: Console, line: str) -> None:
    console.print(clean(line), markup=False, soft_wrap=True)


@store_command(app)
async def join(
    store: HistoryStore, console: Console, thread: _Thread, by: _By, *, name: _Name = ""
) -> None:
    """Join a thread: agents pause until it is handed back.

    Access to the database is enough: the rules of the HTTP API apply to its users only.
    """
    found = await StaffDesk(store).join(thread, by=by, name=name)
    _say(console, f"On {thread} now: {', '.join(one.name for one in found.people)}")


@store_command(app)
async def say(
    store: HistoryStore,
    console: Console,
    thread: _Thread,
    text: Annotated[str, typer.Argument(help="The text.")],
    by: _By,
) -> None:
    """Write to the user of a thread that you have joined."""
    said = await StaffDesk(store).say(thread, text, by=by)
    _say(console, f"{said.agent_name}: {said.text}")


@store_command(app, "hand-back")
async def hand_back(
    store: HistoryStore,
    console: Console,
    thread: _Thread,
    by: _By,
    *,
    name: _Name = "",
    note: Annotated[str, typer.Option(help="A note that agents read and the user does not.")] = "",
) -> None:
    """Leave a thread with a note; after the last person, agents answer again.

    If a person is only requested, the request is withdrawn: so staff decline.
    """
    found = await StaffDesk(store).hand_back(thread, by=by, name=name, note=note)
    left = ", ".join(one.name for one in found.people)
    _say(console, f"Still on {thread}: {left}" if left else f"Agents answer in {thread} again.")
