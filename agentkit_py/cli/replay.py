"""`agentkit replay`: recorded conversations through a network, and what came of it."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from agentkit_py._core.interrupting import run_interruptibly
from agentkit_py.cli.console import clean, make_console
from agentkit_py.cli.replay_table import figures_of, print_figures
from agentkit_py.cli.target import load_target
from agentkit_py.errors import AgentKitError, InvalidRecordError
from agentkit_py.stores.sqlite import SqliteHistory
from agentkit_py.testing.replay import (
    Conversation,
    Outcome,
    OwnNetwork,
    Pass,
    RecordedNetwork,
    Replay,
    read_conversations,
)

WRONG, UNUSABLE, INTERRUPTED = 1, 2, 130


class ProviderOption(StrEnum):
    """Whose wire format is spoken: the replay's `PROVIDERS`."""

    openai = "openai"
    azure_openai = "azure_openai"
    anthropic = "anthropic"
    gemini = "gemini"
    grok = "grok"


class ProcessorsOption(StrEnum):
    """What the second pass measures."""

    default = "default"
    none = "none"


@dataclass(slots=True)
class Progressing:
    """The bar on stderr, and the lines about what went wrong above it."""

    bar: Progress
    task: TaskID

    def bad_line(self, error: InvalidRecordError) -> None:
        """Say which line and field."""
        self.say(str(error))

    def outcome(self, one: Pass, outcome: Outcome) -> None:
        """Say what was wrong with a conversation, if anything was."""
        where = f"line {outcome.line}, {outcome.conversation!r:.80} ({one.name})"
        for rejection in outcome.rejections:
            self.say(f"{where}: refused by {rejection.rule}: {rejection.message}")
        if outcome.difference is not None:
            self.say(f"{where}: {outcome.difference}")

    def conversation(self) -> None:
        """One more is done."""
        self.bar.advance(self.task)

    def say(self, line: str) -> None:
        """One line on stderr."""
        self.bar.console.print(clean(line), markup=False, highlight=False, soft_wrap=True)


def replay(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(help="JSON Lines, one conversation in OpenAI's chat format per line."),
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
        typer.Option(metavar="MODULE:OBJECT", help="Your own network; its models are not asked."),
    ] = None,
    processors: Annotated[
        ProcessorsOption,
        typer.Option(
            help="default: run again with a ToolCallFilter per agent and TokenLimiter(2000), or "
            "with your network's own processors. none: run once, without."
        ),
    ] = ProcessorsOption.default,
    concurrency: Annotated[
        int, typer.Option(min=1, max=64, metavar="N", help="Conversations at a time.")
    ] = 4,
    provider: Annotated[
        ProviderOption, typer.Option(help="Whose wire format is spoken.")
    ] = ProviderOption.openai,
    live_tools: Annotated[
        bool,
        typer.Option(
            "--live-tools", help="Call your network's tools really, side effects and all."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Run recorded conversations again, and compare the threads with the recording.

    Each conversation becomes a thread, each user message of it a run of the network. Recorded
    assistant messages are the model's replies, over HTTP, from a provider that refuses what the
    real one would refuse; recorded tool messages are the tools' answers. The thread must then equal
    the recording message for message; system messages are left out, they are no part of a thread.

    Exit status: 0 if every line could be read, no request was refused and no thread differs, else
    1; 2 if nothing could be replayed; 130 if interrupted.
    """
    _check_file(file)
    passes = _passes(network, live_tools=live_tools, once=processors is ProcessorsOption.none)
    began = time.monotonic()
    with _database(db) as path, _progress(file, limit) as progress:
        job = Replay(
            store=SqliteHistory(path),
            passes=passes,
            provider=provider.value,
            concurrency=concurrency,
            on_bad_line=progress.bad_line,
            on_outcome=progress.outcome,
            on_conversation=progress.conversation,
        )
        interrupted = _run_to_end(job, _limited(read_conversations(file), limit))
    seconds = time.monotonic() - began
    _conclude(ctx, file, job, db=db, seconds=seconds, interrupted=interrupted, as_json=as_json)


def _conclude(
    ctx: typer.Context,
    file: Path,
    job: Replay,
    *,
    db: Path | None,
    seconds: float,
    interrupted: bool,
    as_json: bool,
) -> NoReturn:
    if not (interrupted or job.bad_lines or job.passes[0].figures.conversations):
        _stop(f"{file} holds no conversation: it is empty")
    if as_json:
        facts = {"file": str(file), "database": None if db is None else str(db)}
        figures = figures_of(job, seconds=seconds, interrupted=interrupted)
        typer.echo(json.dumps({**facts, **figures}, indent=2))
    else:
        print_figures(_console(ctx), job, db, interrupted=interrupted)
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
    if network is None:
        if live_tools:
            _stop("--live-tools needs --network: a recording has answers, but no tools")
        plain = Pass("none", RecordedNetwork())
        return (
            [plain]
            if once
            else [
                plain,
                Pass("default", RecordedNetwork.with_default_processors()),
            ]
        )
    try:
        given = load_target(network)
    except AgentKitError as error:
        _stop(f"--network {error}")
    own = OwnNetwork(given, live_tools=live_tools)
    plain = Pass("none", OwnNetwork(given, strip=True, live_tools=live_tools))
    return [plain] if once or not own.has_processors else [plain, Pass("own", own)]


@contextmanager
def _database(given: Path | None) -> Generator[Path]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="agentkit-replay-") as folder:
        yield Path(folder) / "threads.db"


@contextmanager
def _progress(file: Path, limit: int | None) -> Generator[Progressing]:
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("replaying"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("conversations"),
        TimeElapsedColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )
    total = _count(file, limit) if console.is_terminal else None
    with bar:
        yield Progressing(bar, bar.add_task("", total=total))


def _count(file: Path, limit: int | None) -> int | None:
    """How many conversations there seem to be; None where counting would use the input up."""
    if not file.is_file():
        return limit
    with file.open("rb") as lines:
        found = sum(1 for line in lines if line.strip())
    return found if limit is None else min(found, limit)


def _limited(
    feed: Iterator[Conversation | InvalidRecordError], limit: int | None
) -> Iterator[Conversation | InvalidRecordError]:
    left = limit
    for item in feed:
        yield item
        if left is not None and isinstance(item, Conversation):
            left -= 1
            if not left:
                return


def _run_to_end(job: Replay, feed: Iterator[Conversation | InvalidRecordError]) -> bool:
    """Run; whether the user interrupted it."""

    async def run() -> None:
        async with job.store:
            await job.run(feed)

    try:
        run_interruptibly(run())
    except KeyboardInterrupt:
        return True
    except (AgentKitError, OSError) as error:
        _stop(str(error))
    return False


def _console(ctx: typer.Context) -> Console:
    found = getattr(ctx.obj, "console", None)
    return found if isinstance(found, Console) else make_console()
