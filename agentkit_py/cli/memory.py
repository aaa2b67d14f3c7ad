"""`agentkit memory`: what is remembered of a user across threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from agentkit_py._core.untrusted import clean
from agentkit_py.cli.threads import PREFIX, SCHEMA, StoreOptions
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.users import FactStore
from agentkit_py.memory import Memory, UserMemory
from agentkit_py.stores import HistoryStore

app: typer.Typer = typer.Typer(
    name="memory",
    help="What is remembered of a user across threads: list, correct and forget it.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)

_Db = Annotated[
    str,
    typer.Option("--db", envvar="AGENTKIT_DB", metavar="FILE|DSN", help="The threads' store."),
]
_User = Annotated[str, typer.Option("--user", metavar="ID", help="The user.")]
_Tenant = Annotated[str, typer.Option("--tenant", metavar="ID", help="The user's tenant.")]
_Schema = Annotated[
    str, typer.Option("--schema", envvar="AGENTKIT_SCHEMA", help="Of PostgreSQL's tables.")
]
_Prefix = Annotated[
    str,
    typer.Option("--prefix", envvar="AGENTKIT_PREFIX", help="What PostgreSQL's tables begin with."),
]
_Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command("list")
def list_(
    ctx: typer.Context,
    db: _Db,
    user: _User,
    tenant: _Tenant,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Also facts that others have replaced.")
    ] = False,
    schema: _Schema = SCHEMA,
    prefix: _Prefix = PREFIX,
) -> None:
    """List a user's facts, the newest first."""

    async def work(mine: UserMemory, console: Console) -> None:
        found = await mine.facts(replaced=everything)
        table = Table(box=None, header_style="dim")
        for name in ("id", "fact", "agent", "thread", "message", "since", "replaced by"):
            table.add_column(name, overflow="fold", no_wrap=name == "id")
        for one in found:
            source = (one.agent or "", one.thread_id or "", one.message_id or "")
            when = f"{one.created_at:%Y-%m-%d}"
            table.add_row(*map(clean, (one.id, one.text, *source, when, one.replaced_by or "")))
        if found:
            console.print(table)
        console.print(_facts(len(found)), style="dim")

    _run(ctx, StoreOptions(db, None, schema, prefix), user, tenant, work)


@app.command()
def correct(
    ctx: typer.Context,
    fact: Annotated[str, typer.Argument(metavar="ID", help="The fact.")],
    text: Annotated[str, typer.Argument(help="What holds instead.")],
    db: _Db,
    user: _User,
    tenant: _Tenant,
    *,
    schema: _Schema = SCHEMA,
    prefix: _Prefix = PREFIX,
) -> None:
    """Put another text in place of a fact."""

    async def work(mine: UserMemory, console: Console) -> None:
        made = await mine.correct(fact, text)
        console.print(f"{made.id} takes the place of {clean(fact)}", style="dim", markup=False)

    _run(ctx, StoreOptions(db, None, schema, prefix), user, tenant, work)


@app.command()
def forget(
    ctx: typer.Context,
    db: _Db,
    user: _User,
    tenant: _Tenant,
    facts: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="All unless given.")
    ] = None,
    *,
    schema: _Schema = SCHEMA,
    prefix: _Prefix = PREFIX,
    yes: _Yes = False,
) -> None:
    """Delete facts for good, with those that they replaced and that replaced them."""

    async def work(mine: UserMemory, console: Console) -> None:
        known = {one.id for one in await mine.facts(replaced=True)}
        chosen = set(facts or known)
        if chosen - known:
            raise ConfigurationError(f"There is no fact {min(chosen - known)!r}.")
        if chosen and not yes:
            typer.confirm(f"Delete {_facts(len(chosen))} for good?", abort=True)
        for one in chosen:
            await mine.forget(one)
        left = {one.id for one in await mine.facts(replaced=True)}
        console.print(f"{_facts(len(known - left))} deleted", style="dim")

    _run(ctx, StoreOptions(db, None, schema, prefix), user, tenant, work)


def _run(
    ctx: typer.Context,
    options: StoreOptions,
    user: str,
    tenant: str,
    work: Callable[[UserMemory, Console], Awaitable[None]],
) -> None:
    async def begin(store: HistoryStore, console: Console) -> None:
        if not isinstance(store, FactStore):
            raise ConfigurationError(f"{store!r:.80} keeps no facts.")
        await work(Memory(store).of(user=user, tenant=tenant), console)

    options.run(ctx, begin)


def _facts(count: int) -> str:
    return f"{count} fact" if count == 1 else f"{count} facts"
