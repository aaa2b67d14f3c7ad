"""`agentkit fit`: the cheapest policy that keeps the values that your conversations needed."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentkit_py._core.awaiting import run_interruptibly
from agentkit_py._core.untrusted import clean
from agentkit_py.cli.console import ProgressBar, counted
from agentkit_py.cli.replay import limited, readable
from agentkit_py.cli.stores import (
    PREFIX,
    SCHEMA,
    PrefixOption,
    SchemaOption,
    StoreOptions,
    UserOption,
    writes_file,
    written_whole,
)
from agentkit_py.cli.target import load_target
from agentkit_py.errors import AgentKitError
from agentkit_py.processors.tokenizers import default_tokenizer

if TYPE_CHECKING:
    from agentkit_py.network import Target
    from agentkit_py.testing.replay import Candidate, Conversation, Fit, Survival

_NOT_FOUND, _UNUSABLE, _INTERRUPTED = 1, 2, 130
_MILLION, _THOUSAND = 1_000_000, 1000
_NONE_NEEDED = "-"
"""The cell of a share of nothing."""

_LISTED = 10
"""Losses that are listed."""


def fit(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="JSON Lines, a conversation per line, as `agentkit replay` reads them."
        ),
    ] = None,
    *,
    db: Annotated[
        str | None,
        typer.Option(
            "--db", metavar="FILE|DSN", help="The threads of a store, in place of a file."
        ),
    ] = None,
    user: UserOption = None,
    schema: SchemaOption = SCHEMA,
    prefix: PrefixOption = PREFIX,
    keep: Annotated[
        float,
        typer.Option(
            min=0,
            max=100,
            metavar="PERCENT",
            help="The calls, and the values of answers, to keep whole at least.",
        ),
    ] = 99,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:OBJECT",
            help="Your own network: its agents, tools and processors. Nothing of it is called.",
        ),
    ] = None,
    price: Annotated[
        float | None,
        typer.Option(min=0, metavar="AMOUNT", help="Of a million input tokens, in any currency."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the first N conversations.")
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="List every policy, not only the best at each price.")
    ] = False,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a picture (SVG).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
) -> None:
    """Find the cheapest context policy for your own conversations.

    Some 50 policies are tried on recorded conversations; no model is called. Each recorded tool
    call and answer needed values: ids, dates, amounts, names. A policy keeps a call if all its
    values are still in the request. The command prints the cheapest policy that keeps enough, what
    it saves and loses, and the line to paste. The choice is cross-validated: it is made on four
    fifths of the conversations, and measured on the fifth that is left out.

    Exit status: 0 if a policy saves something and keeps enough, 1 if none does; 2 if nothing could
    be read; 130 if interrupted.
    """
    conversations = _read(file, StoreOptions(db or "", user, schema, prefix), db, limit)
    own = None if network is None else _target(network)
    try:
        found = _fitted(conversations, keep / 100, own)
    except KeyboardInterrupt:
        typer.echo("Interrupted: no policy was chosen.", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    if picture is not None:
        from agentkit_py.testing.replay import picture as svg  # noqa: PLC0415 - slow to load

        with writes_file("--picture", picture, db), written_whole(picture) as output:
            output.write(svg(found))
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2))
    else:
        _print(ctx.obj.console, found, conversations, price, everything=all_)
    raise typer.Exit(0 if found.found else _NOT_FOUND)


def _stop(problem: str) -> NoReturn:
    typer.echo(f"agentkit fit: {problem}", err=True)
    raise typer.Exit(_UNUSABLE)


def _target(network: str) -> Target:
    try:
        return load_target(network)
    except AgentKitError as error:
        _stop(f"--network {error}")


def _read(
    file: Path | None, options: StoreOptions, db: str | None, limit: int | None
) -> list[Conversation]:
    """Return the conversations of the file or the store."""
    from agentkit_py.testing.replay import read_conversations  # noqa: PLC0415 - slow to load

    if (file is None) == (db is None):
        _stop("give a file of conversations, or --db with a store of threads")
    try:
        with _as_file(file, options) as path:
            read = readable(limited(read_conversations(path), limit))
    except (AgentKitError, OSError) as error:
        _stop(str(error))
    if not read:
        _stop(f"{file or '--db'} holds no conversation that can be read")
    return read


@contextmanager
def _as_file(file: Path | None, options: StoreOptions) -> Generator[Path]:
    """Give the file; or the store's threads in a file that is removed afterwards."""
    if file is not None:
        yield file
        return
    from agentkit_py.stores.interchange import export_threads  # noqa: PLC0415 - slow to load

    with tempfile.TemporaryDirectory(prefix="agentkit-fit-") as folder:
        path = Path(folder) / "threads.jsonl"

        async def export() -> None:
            async with options.open() as store:
                threads = await store.list_threads(None)
                with path.open("w", encoding="utf-8") as lines:
                    async for line in export_threads(store, threads, "openai"):
                        lines.write(f"{line.rstrip()}\n")

        run_interruptibly(export())
        yield path


def _fitted(conversations: Sequence[Conversation], keep: float, network: Target | None) -> Fit:
    from agentkit_py.testing import replay  # noqa: PLC0415 - slow to load

    steps = len(conversations) * len(replay.CANDIDATES)
    with ProgressBar("trying policies", steps) as bar, _without_warnings():
        return run_interruptibly(
            replay.fit(
                conversations,
                keep=keep,
                network=False if network is None else network,
                on_measured=bar.advance,
            )
        )


@contextmanager
def _without_warnings() -> Generator[None]:
    """Leave out the warnings of processors: policies that cut too much are tried on purpose."""
    logger = logging.getLogger("agentkit_py.processors.apply")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _print(
    console: Console,
    fit: Fit,
    conversations: Sequence[Conversation],
    price: float | None,
    *,
    everything: bool,
) -> None:
    for tool in sorted(fit.figures[fit.chosen].unknown_tools):
        typer.echo(
            f"No agent has the tool {clean(tool)!r}; its calls count as the last agent's.", err=True
        )
    console.print(_table(fit, everything=everything))
    console.print()
    for line in (*_choice(fit, price), *_losses(fit)):
        console.print(Text(clean(line)), soft_wrap=True)
    turns = sum(len(conversation.turns) for conversation in conversations)
    note = (
        f"{counted(len(conversations), 'conversation')}, {counted(turns, 'turn')}, "
        f"{len(fit.figures)} policies; tokens of messages, without system prompts, counted by "
        f"{default_tokenizer().key}."
    )
    console.print(Text(note, "dim"), soft_wrap=True)


def _table(fit: Fit, *, everything: bool) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    table.add_column("policy", overflow="fold")
    for title in ("sent", "calls whole", "answers' values"):
        table.add_column(title, justify="right", no_wrap=True)
    shown = fit.frontier
    if everything:
        shown = sorted(fit.figures, key=lambda candidate: fit.figures[candidate].share_sent)
    for candidate in shown:
        is_chosen = candidate == fit.chosen
        cells = (Text(_name(candidate)), *_cells(fit.figures[candidate]))
        table.add_row("*" if is_chosen else "", *cells, style="bold" if is_chosen else "")
    return table


def _name(candidate: Candidate) -> str:
    return candidate.line[1:-1] or "no policy"


def _cells(figures: Survival) -> list[str]:
    shares = (
        figures.share_sent,
        figures.share_of_calls if figures.calls else None,
        figures.share_of_values if figures.values else None,
    )
    return [_NONE_NEEDED if share is None else f"{100 * share:.1f} %" for share in shares]


def _choice(fit: Fit, price: float | None) -> Iterator[str]:
    """Yield the lines about the chosen policy."""
    if not fit.found:
        yield f"No policy sends less and keeps {fit.keep:.1%}; send everything, or ask for less."
        return
    figures = fit.figures[fit.chosen]
    yield f"The cheapest that keeps {fit.keep:.1%} of later calls, and of the values in answers:"
    yield f"    {fit.chosen.imports}"
    yield f"    processors={fit.chosen.line}"
    saved = figures.tokens - figures.tokens_sent
    line = f"It sends {figures.tokens_sent:,} of {figures.tokens:,} tokens; {saved:,} are saved"
    if price is not None:
        each = saved / _MILLION * price / fit.conversations
        line += (
            f", {each * _THOUSAND:,.2f} for a thousand such conversations at {price:g} a million"
        )
    yield f"{line}."
    if fit.held_out is not None:
        sent, *shares = _cells(fit.held_out)
        named = zip(shares, ("calls", "answers' values"), strict=True)
        kept = [f"{share} of {noun} kept" for share, noun in named if share != _NONE_NEEDED]
        same = sum(choice == fit.chosen for choice in fit.choices)
        figures_left_out = ", ".join([f"{sent} sent", *kept])
        yield (
            f"On conversations left out of the choice: {figures_left_out}; chosen in {same} of "
            f"{len(fit.choices)} folds."
        )
        if fit.kept_elsewhere < fit.keep:
            yield (
                f"That is less than {fit.keep:.1%}: the choice depends on single conversations. "
                "Give more of them, or ask for more with --keep."
            )


def _losses(fit: Fit) -> Iterator[str]:
    lost = fit.figures[fit.chosen].losses
    for loss in lost[:_LISTED]:
        reply = loss.call or "an answer"
        values = ", ".join(loss.values)
        yield f"Lost: {loss.conversation}, turn {loss.turn}: {reply} lacks {values}"
    if len(lost) > _LISTED:
        yield f"And {len(lost) - _LISTED} more; --json lists all."
