"""`agentkit replay`: recorded conversations, run through a network and its processors."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, TypeAlias

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentkit_py._core.awaiting import run_interruptibly
from agentkit_py._core.untrusted import clean
from agentkit_py.cli.console import ProgressBar, counted, make_console
from agentkit_py.cli.target import load_target
from agentkit_py.errors import AgentKitError, InvalidRecordError
from agentkit_py.processors.tokenizers import default_tokenizer
from agentkit_py.stores.sqlite import SqliteHistory

if TYPE_CHECKING:
    from agentkit_py.network import Target
    from agentkit_py.testing.replay import (
        Conversation,
        Pass,
        Replay,
        ReplayFigures,
        ReplayOutcome,
        Survival,
    )
    from agentkit_py.testing.replay.survival import Policy

WRONG, UNUSABLE, INTERRUPTED = 1, 2, 130

Provider: TypeAlias = Literal["openai", "azure_openai", "anthropic", "gemini", "grok"]
"""Wire formats: the replay's `PROVIDERS`."""

_TITLES = {"none": "no processors", "default": "filter + limit", "own": "own processors"}
_ROWS = (
    ("conversations", "conversations"),
    ("turns", "turns (user messages)"),
    ("model_calls", "model calls"),
    ("tool_calls", "tool calls"),
    ("tokens_sent", "tokens sent"),
    ("foreign_calls", "tool calls sent to an agent without the tool"),
    ("wrong_reports", "context reports that do not add up"),
    ("rejected", "requests rejected"),
    ("differing", "threads that differ from the recording"),
)
_MUST_BE_ZERO = ("wrong_reports", "rejected", "differing")


def replay(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(help="JSON Lines, a conversation or a provider's request per line."),
    ],
    *,
    db: Annotated[
        Path | None, typer.Option(help="SQLite file for the threads; temporary unless given.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the first N conversations.")
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(metavar="MODULE:OBJECT", help="Your own network; its models are not called."),
    ] = None,
    processors: Annotated[
        Literal["default", "none"],
        typer.Option(
            help="default: run again with a ToolCallFilter per agent and TokenLimiter(2000), or "
            "with your network's own processors. none: run once, without."
        ),
    ] = "default",
    concurrency: Annotated[
        int, typer.Option(min=1, max=64, metavar="N", help="Conversations at a time.")
    ] = 4,
    provider: Annotated[Provider, typer.Option(help="The wire format to speak.")] = "openai",
    live_tools: Annotated[
        bool,
        typer.Option(
            "--live-tools", help="Really call your network's tools, with their side effects."
        ),
    ] = False,
    survival: Annotated[
        bool,
        typer.Option(
            "--survival",
            help="Run nothing; measure how many values needed by later calls and answers each "
            "policy keeps, and list the calls that lost some. With --network: its processors "
            "and its agents' own.",
        ),
    ] = False,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="Lines that cannot be read are counted, and no failure."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Run recorded conversations again, and compare the threads with the recording.

    Each conversation becomes a thread, each user message of it a run of the network. Recorded
    assistant messages are the model's replies, over HTTP, from a fake provider that refuses what
    the real one would refuse; recorded tool messages are the tools' answers. The thread must then
    equal the recording message for message, except for system messages, which are not part of a
    thread.

    Exit status: 0 if every line could be read, no request was refused and no thread differs, else
    1; 2 if nothing could be replayed; 130 if interrupted.
    """
    from agentkit_py.testing.replay import STOCK, Replay, read_conversations  # noqa: PLC0415 - slow to load

    _check_file(file)
    if survival:
        own = None if network is None else _target(network)
        feed = limited(read_conversations(file), limit)
        if not print_survival(ctx.obj.console, feed, STOCK, own, as_json=as_json):
            _stop(f"{file} holds no conversation that could be read")
        return
    passes = _passes(network, live_tools=live_tools, once=processors == "none")
    began = time.monotonic()
    total = _count(file, limit) if make_console(stderr=True).is_terminal else None
    with _database(db) as path, ProgressBar("replaying conversations", total) as bar:
        job = Replay(
            store=SqliteHistory(path),
            passes=passes,
            provider=provider,
            concurrency=concurrency,
            on_bad_line=lambda error: bar.print(str(error)),
            on_outcome=partial(_print_problems, bar),
            on_conversation=bar.advance,
        )
        interrupted = _run_to_end(job, limited(read_conversations(file), limit))
    seconds = time.monotonic() - began
    if not (interrupted or job.bad_lines or job.passes[0].figures.conversations):
        _stop(f"{file} holds no conversation: it is empty")
    if as_json:
        facts = {"file": str(file), "database": None if db is None else str(db)}
        figures = _figures_json(job, seconds=seconds, interrupted=interrupted)
        typer.echo(json.dumps({**facts, **figures}, indent=2))
    else:
        _print_figures(ctx.obj.console, job, db, interrupted=interrupted)
    if skip_bad and job.bad_lines:
        read = job.passes[0].figures.conversations
        left = f"{job.bad_lines} of {counted(job.bad_lines + read, 'line')} left out"
        typer.echo(f"{left}: they could not be read", err=True)
        job.bad_lines = 0
    raise typer.Exit(INTERRUPTED if interrupted else 0 if job.fine else WRONG)


def _stop(problem: str) -> NoReturn:
    typer.echo(f"agentkit replay: {problem}", err=True)
    raise typer.Exit(UNUSABLE)


def _check_file(file: Path) -> None:
    if not file.exists():
        _stop(f"there is no file {file}")
    if not (file.is_file() or file.is_dir()):
        return  # a pipe: to open it twice would lose its writer
    try:
        with file.open("rb"):
            return
    except OSError as error:
        _stop(f"{file} cannot be read: {error.strerror}")


def _passes(network: str | None, *, live_tools: bool, once: bool) -> Sequence[Pass]:
    from agentkit_py.testing.replay import OwnNetwork, Pass, RecordedNetwork  # noqa: PLC0415 - slow to load

    if network is None:
        if live_tools:
            _stop("--live-tools needs --network: a recording has answers, but no tools")
        plain = Pass("none", RecordedNetwork())
        default = Pass("default", RecordedNetwork.with_default_processors())
        return [plain] if once else [plain, default]
    given = _target(network)
    own = OwnNetwork(given, live_tools=live_tools)
    plain = Pass("none", OwnNetwork(given, strip=True, live_tools=live_tools))
    return [plain] if once or not own.has_processors else [plain, Pass("own", own)]


def _target(network: str) -> Target:
    try:
        return load_target(network)
    except AgentKitError as error:
        _stop(f"--network {error}")


@contextmanager
def _database(given: Path | None) -> Generator[Path]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="agentkit-replay-") as folder:
        yield Path(folder) / "threads.db"


def limited(
    feed: Iterator[Conversation | InvalidRecordError], limit: int | None
) -> Iterator[Conversation | InvalidRecordError]:
    """Yield a recording's lines up to its first ``limit`` conversations; None: all lines."""
    left = limit
    for item in feed:
        yield item
        if left is not None and not isinstance(item, InvalidRecordError):
            left -= 1
            if not left:
                return


def _run_to_end(job: Replay, feed: Iterator[Conversation | InvalidRecordError]) -> bool:
    """Run, and return whether the user interrupted it."""

    async def run() -> None:
        async with job.store:
            await job.run(feed)

    try:
        run_interruptibly(run())
    except KeyboardInterrupt:
        return True
    except BrokenPipeError:
        raise typer.Exit(WRONG) from None
    except (AgentKitError, OSError) as error:
        _stop(str(error))
    return False


def _print_problems(bar: ProgressBar, one: Pass, outcome: ReplayOutcome) -> None:
    """Print the problems of a conversation."""
    where = f"line {outcome.line}, {outcome.conversation!r:.80} ({one.name})"
    for rejection in outcome.rejections:
        bar.print(f"{where}: refused by {rejection.rule}: {rejection.message}")
    if outcome.difference is not None:
        bar.print(f"{where}: {outcome.difference}")


def _count(file: Path, limit: int | None) -> int | None:
    """Estimate the number of conversations; None where counting would use the input up."""
    if not file.is_file():
        return limit
    with file.open("rb") as lines:
        found = sum(1 for line in lines if line.strip())
    return found if limit is None else min(found, limit)


def _figures_json(job: Replay, *, seconds: float, interrupted: bool) -> dict[str, Any]:
    return {
        "provider": job.provider,
        "tokenizer": default_tokenizer().key,
        "seconds": round(seconds, 1),
        "interrupted": interrupted,
        "linesNotRead": job.bad_lines,
        "passes": {one.name: one.figures.to_dict() for one in job.passes},
    }


def _print_figures(console: Console, job: Replay, db: Path | None, *, interrupted: bool) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    for one in job.passes:
        table.add_column(_TITLES[one.name], justify="right", no_wrap=True)
    for name, title in _ROWS:
        table.add_row(title, *(_cell(one.figures, name) for one in job.passes))
    console.print(table)
    console.print()
    for note in _notes(job, db, interrupted=interrupted):
        console.print(Text(note, "dim"))


def _cell(figures: ReplayFigures, name: str) -> Text:
    value: int = getattr(figures, name)
    bad = value and name in _MUST_BE_ZERO
    return Text(f"{value:,}", "bold red" if bad else "")


def _notes(job: Replay, db: Path | None, *, interrupted: bool) -> list[str]:
    found: list[str] = []
    if interrupted:
        found.append("Interrupted: these are the conversations that were finished.")
    if job.bad_lines:
        found.append(f"Lines that could not be read: {job.bad_lines}.")
    for rule, count in sum((one.figures.rules for one in job.passes), Counter[str]()).items():
        found.append(f"Broken {count} times: {rule}.")
    for tool, count in job.passes[0].figures.missing_tools.items():
        found.append(f"Called in {count} conversations, but no agent has it: {tool}.")
    found.append(_tokens_note(job))
    found.append("Threads were compared without system messages, which they do not hold.")
    if db is not None:
        names = " and ".join(f"ID:{one.name}" for one in job.passes)
        found.append(f"The threads are in {db}, as {names}.")
    if job.existing:
        found.append(
            f"{job.existing} of these thread ids were there already, from an earlier replay; the "
            "new ones end in ~2, ~3, …"
        )
    return found


def _tokens_note(job: Replay) -> str:
    counted = f"Tokens are those of prompt and history, counted by {default_tokenizer().key}"
    first, last = job.passes[0].figures.tokens_sent, job.passes[-1].figures.tokens_sent
    if len(job.passes) == 1 or not first:
        return f"{counted}."
    return f"{counted}; processors saved {1 - last / first:.0%} of them."


LISTED = 20
"""Calls that are listed for each policy."""


def print_survival(
    console: Console,
    feed: Iterable[Conversation | InvalidRecordError],
    policies: Mapping[str, Policy],
    network: Target | None,
    *,
    as_json: bool,
) -> bool:
    """Measure policies, or a network's own, and print the figures; False: nothing could be read."""
    from agentkit_py.testing.replay import survival  # noqa: PLC0415 - slow to load

    read = readable(feed)
    if not read:
        return False

    async def measure() -> dict[str, Survival]:
        if network is not None:
            return {"its processors": await survival(read, network=network)}
        return {name: await survival(read, policy) for name, policy in policies.items()}

    found = run_interruptibly(measure())
    for tool in sorted({tool for one in found.values() for tool in one.unknown_tools}):
        typer.echo(
            f"No agent has the tool {clean(tool)!r}; its calls count as the last agent's.", err=True
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


def readable(feed: Iterable[Conversation | InvalidRecordError]) -> list[Conversation]:
    """Return the conversations; report the problems of the others, and how many they are."""
    read: list[Conversation] = []
    unread = 0
    for item in feed:
        if isinstance(item, InvalidRecordError):
            typer.echo(str(item), err=True)
            unread += 1
        else:
            read.append(item)
    if unread:
        typer.echo(f"{unread} of {counted(unread + len(read), 'line')} left out.", err=True)
    return read


def _list_losses(console: Console, name: str, found: Survival) -> None:
    lost = [loss for loss in found.losses if loss.call]
    for loss in lost[:LISTED]:
        values = ", ".join(loss.values)
        line = f"{name}: {loss.conversation}, turn {loss.turn}: {loss.call} lacks {values}"
        console.print(Text(clean(line), "dim"), soft_wrap=True)
    if len(lost) > LISTED:
        console.print(Text(f"{name}: and {len(lost) - LISTED} more; --json lists all", "dim"))
