"""`agentkit memory`: the facts remembered of a user across threads."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from agentkit_py._core.untrusted import clean
from agentkit_py.cli.console import counted
from agentkit_py.cli.stores import YesOption, command_group, store_command
from agentkit_py.errors import ConfigurationError
from agentkit_py.memory import Memory, UserMemory
from agentkit_py.stores import HistoryStore

app: typer.Typer = command_group(
    "memory", "What is remembered of a user across threads: list, correct and forget it."
)

_User = Annotated[str, typer.Option("--user", metavar="ID", help="The user.")]
_Tenant = Annotated[str, typer.Option("--tenant", metavar="ID", help="The user's tenant.")]


def _remembered(store: HistoryStore, user: str, tenant: str) -> UserMemory:
    """Return a store's facts about a user."""
    facts = store.abilities.facts
    if facts is None:
        raise ConfigurationError(f"{store!r:.80} keeps no facts.")
    return Memory(facts).of(user=user, tenant=tenant)


@store_command(app, "list")
async def list_(
    store: HistoryStore,
    console: Console,
    user: _User,
    tenant: _Tenant,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Also facts that others have replaced.")
    ] = False,
) -> None:
    """List a user's facts, the newest first."""
    found = await _remembered(store, user, tenant).facts(replaced=everything)
    table = Table(box=None, header_style="dim")
    for name in ("id", "fact", "agent", "thread", "message", "since", "replaced by"):
        table.add_column(name, overflow="fold", no_wrap=name == "id")
    for one in found:
        source = (one.agent or "", one.thread_id or "", one.message_id or "")
        when = f"{one.created_at:%Y-%m-%d}"
        table.add_row(*map(clean, (one.id, one.text, *source, when, one.replaced_by or "")))
    if found:
        console.print(table)
    console.print(counted(len(found), "fact"), style="dim")


@store_command(app)
async def correct(
    store: HistoryStore,
    console: Console,
    fact: Annotated[str, typer.Argument(metavar="ID", help="The fact.")],
    text: Annotated[str, typer.Argument(help="What holds instead.")],
    user: _User,
    tenant: _Tenant,
) -> None:
    """Put another text in place of a fact."""
    made = await _remembered(store, user, tenant).correct(fact, text)
    console.print(f"{made.id} takes the place of {clean(fact)}", style="dim", markup=False)


@store_command(app)
async def forget(
    store: HistoryStore,
    console: Console,
    user: _User,
    tenant: _Tenant,
    facts: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="All unless given.")
    ] = None,
    *,
    yes: YesOption = False,
) -> None:
    """Delete facts for good, with those that they replaced and that replaced them."""
    mine = _remembered(store, user, tenant)
    known = {one.id for one in await mine.facts(replaced=True)}
    chosen = set(facts or known)
    if chosen - known:
        raise ConfigurationError(f"Unknown fact {min(chosen - known)!r}.")
    if chosen and not yes:
        typer.confirm(f"Delete {counted(len(chosen), 'fact')} for good?", abort=True)
    for one in chosen:
        await mine.forget(one)
    left = {one.id for one in await mine.facts(replaced=True)}
    console.print(f"{counted(len(known - left), 'fact')} deleted", style="dim")
