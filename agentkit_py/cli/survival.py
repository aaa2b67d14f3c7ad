"""`agentkit replay --survival`: what policies keep of what recorded replies needed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentkit_py._core.awaiting import run_interruptibly
from agentkit_py._core.untrusted import clean
from agentkit_py.agent import Agent
from agentkit_py.errors import InvalidRecordError
from agentkit_py.network import Network
from agentkit_py.testing.replay import Conversation, Survival, survival
from agentkit_py.testing.replay.survival import Policy

LISTED = 20
"""Calls that are listed for each policy."""


def print_survival(
    console: Console,
    feed: Iterable[Conversation | InvalidRecordError],
    policies: Mapping[str, Policy],
    network: Network[Any, Any] | Agent[Any, Any] | None,
    *,
    as_json: bool,
) -> bool:
    """Measure policies, or a network's own, and print the figures; False: nothing could be read."""
    read = _readable(feed)
    if not read:
        return False

    async def measure() -> dict[str, Survival]:
        if network is not None:
            return {"its processors": await survival(read, network=network)}
        return {name: await survival(read, policy) for name, policy in policies.items()}

    found = run_interruptibly(measure())
    for tool in sorted({tool for one in found.values() for tool in one.unknown_tools}):
        typer.echo(
            f"No agent has the tool {clean(tool)!r}; its calls count as the last one's.", err=True
        )
    if as_json:
        typer.echo(json.dumps({name: one.to_dict() for name, one in found.items()}, indent=2))
        return True
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("policy", no_wrap=True)
    for title in ("characters", "calls whole", "answers' values"):
        table.add_column(title, justify="right", no_wrap=True)
    for name, one in found.items():
        shares = (one.share_sent, one.share_of_calls, one.share_of_values)
        table.add_row(Text(name), *(f"{100 * share:.1f} %" for share in shares))
    console.print(table)
    for name, one in found.items():
        _list_losses(console, name, one)
    return True


def _readable(feed: Iterable[Conversation | InvalidRecordError]) -> list[Conversation]:
    """Return the conversations; say what is wrong with the others."""
    read: list[Conversation] = []
    for item in feed:
        if isinstance(item, Conversation):
            read.append(item)
        else:
            typer.echo(str(item), err=True)
    return read


def _list_losses(console: Console, name: str, found: Survival) -> None:
    lost = [loss for loss in found.losses if loss.call]
    for loss in lost[:LISTED]:
        values = ", ".join(loss.values)
        line = f"{name}: {loss.conversation}, turn {loss.turn}: {loss.call} lacks {values}"
        console.print(Text(clean(line), "dim"), soft_wrap=True)
    if len(lost) > LISTED:
        console.print(Text(f"{name}: and {len(lost) - LISTED} more; --json lists all", "dim"))
