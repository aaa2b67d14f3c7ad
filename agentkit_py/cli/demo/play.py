"""`agentkit demo`: the scripted customer, the report, and the second process."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from rich.console import Console
from rich.text import Text

from agentkit_py.cli.demo.network import support_network
from agentkit_py.cli.demo.script import CUSTOMER, LATER, QUESTIONS, scripted_model
from agentkit_py.cli.demo.travel import TravelData
from agentkit_py.cli.explain import print_context
from agentkit_py.cli.printing import RunPrinter
from agentkit_py.cli.target import DEV_FOLDER, check_file, load_model
from agentkit_py.messages import Usage
from agentkit_py.models import openai
from agentkit_py.models.base import Model
from agentkit_py.network import Network
from agentkit_py.processors.tokenizers import ApproximateTokenizer
from agentkit_py.runtime.current import close_shared_runtime
from agentkit_py.stores import SqliteHistory
from agentkit_py.testing import FakeProvider, PacedTransport

_SCRIPTED = "scripted"
_PARALLEL = {"parallel_tool_calls": True}
_PAUSE = 0.012
"""Seconds between two pieces of a reply on the playground's page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Options of the command."""

    model: str | None = None
    """PROVIDER:NAME; None: the scripted fake, over HTTP on loopback."""

    base_url: str | None = None
    db: Path | None = None
    keep: bool = False
    report: bool = True
    delay: float = 0.0
    flags: Sequence[str] = ()
    """Options of the terminal for the second process."""


@dataclass(frozen=True, slots=True)
class Desk:
    """The network with its parts."""

    network: Network[Any, Any]
    history: SqliteHistory
    model: Model
    provider: FakeProvider | None = None
    """The fake provider; None: a real provider, or another process's."""


@contextmanager
def open_desk(options: DemoOptions, threads: Path, thread_id: str) -> Generator[Desk, None, None]:
    """Open the network on the files of a thread, with the provider that answers."""
    # One file per thread, next to the threads' file: the tools' changes belong to the thread.
    data = TravelData(threads.with_name(f"{threads.name}.travel-{thread_id}"))
    offline = options.model is None
    provider = FakeProvider(scripted_model) if offline and options.base_url is None else None
    try:
        if provider is not None:
            provider.start()
        model = _model(options, provider)
        # Offline nothing is fetched, tiktoken's encoding neither: tokens are estimated.
        tokenizer = ApproximateTokenizer() if offline else None
        network = support_network(data, model, threads=threads, tokenizer=tokenizer)
        assert isinstance(network.history, SqliteHistory)
        yield Desk(network, network.history, model, provider)
    finally:
        if provider is not None:
            provider.stop()


def _model(options: DemoOptions, provider: FakeProvider | None) -> Model:
    if options.model is not None:
        return load_model(options.model, base_url=options.base_url)
    url = provider.base_url("openai") if provider is not None else options.base_url
    return openai(_SCRIPTED, api_key="sk-demo", base_url=url, default_parameters=_PARALLEL)


async def ask(
    desk: Desk, console: Console, thread_id: str, question: str, options: DemoOptions
) -> Usage:
    """Ask a question, print answer and report, and return the tokens."""
    printer = RunPrinter(console, delay=options.delay)
    await printer.user(CUSTOMER, question)
    run = await desk.network.run(question, thread_id=thread_id, observer=printer)
    if options.report:
        print_context(console, run.context)
    return run.usage


async def answer_later(
    desk: Desk, console: Console, thread_id: str, question: str, options: DemoOptions
) -> None:
    """Continue a thread of another process: its messages come from the file."""
    loaded = len(await desk.history.messages(thread_id))
    line = f"Process {os.getpid()} loads {loaded} messages of the thread from {desk.history.path}."
    console.print(Text(line, "dim"), soft_wrap=True)
    console.print()
    try:
        await ask(desk, console, thread_id, question, options)
    finally:
        await _close(desk)


async def play(console: Console, options: DemoOptions) -> int:
    """Play the whole demo; return the exit code."""
    if options.model is not None:  # wrong options are refused before anything is shown or written
        load_model(options.model, base_url=options.base_url)
    if options.db is not None:
        check_file(options.db)
    with _folder(options) as threads:
        thread_id = f"demo-{uuid4().hex[:8]}"
        with open_desk(options, threads, thread_id) as desk:
            _introduce(console, options)
            total = Usage()
            try:
                for number, question in enumerate(QUESTIONS, 1):
                    _rule(console, f"Turn {number}")
                    total += await ask(desk, console, thread_id, question, options)
            finally:
                await _close(desk)
            _rule(console, f"Turn {len(QUESTIONS) + 1}, in a second process")
            code = second_process(desk, threads, thread_id, options)
            _rule(console, "Done")
            refused = _summarise(console, desk, total)
            if options.keep or options.db:
                model = f" --model {options.model}" if options.model else ""
                command = f"agentkit demo --db {threads} --resume {thread_id}{model}"
                console.print(Text(f"Go on with this thread: {command}"), soft_wrap=True)
    return 1 if code or refused else 0


@contextmanager
def _folder(options: DemoOptions) -> Generator[Path, None, None]:
    """Yield the file for threads, in a temporary folder unless it is kept."""
    if options.db is not None:
        yield options.db.absolute()
    elif options.keep:
        yield Path(tempfile.mkdtemp(prefix="agentkit-demo-")) / "threads.db"
    else:
        # On Windows a file that a child still holds cannot be removed; it is in the temp folder.
        with tempfile.TemporaryDirectory(
            prefix="agentkit-demo-", ignore_cleanup_errors=True
        ) as name:
            yield Path(name) / "threads.db"


def second_process(desk: Desk, threads: Path, thread_id: str, options: DemoOptions) -> int:
    """Ask the last question in a process of its own; return its exit code."""
    url = desk.provider.base_url("openai") if desk.provider is not None else options.base_url
    given = {"--model": options.model, "--base-url": url}
    command = [sys.executable, "-m", "agentkit_py.cli", *options.flags, "demo"]
    command += ["--resume", thread_id, "--db", str(threads), "--ask", LATER]
    command += [part for name, value in given.items() if value for part in (name, value)]
    command += [] if options.report else ["--no-report"]
    command += [] if options.delay else ["--no-delay"]
    sys.stdout.flush()
    return subprocess.run(command, check=False).returncode  # noqa: S603 - our own command


def _introduce(console: Console, options: DemoOptions) -> None:
    console.print(Text("Wayfarer Lane, a travel company that does not exist", "bold"))
    if options.model is None:
        console.print(
            "At its support desk: triage, billing, bookings, handoff. The model is a script "
            "behind a strict fake provider, asked over HTTP on this machine; tokens are "
            "estimated. --model openai:gpt-4.1 asks a real model."
        )
    else:
        console.print(
            f"At its support desk: triage, billing, bookings, handoff, all {options.model}."
        )


def _summarise(console: Console, desk: Desk, total: Usage) -> int:
    """Print the figures; return the number of refused requests."""
    if desk.provider is None:
        console.print(f"{total.input_tokens} tokens in, {total.output_tokens} out (first process).")
        return 0
    refused = desk.provider.rejections
    for rejection in refused:
        console.print(Text(f"  ✗ {rejection.rule}: {rejection.message}", "red"))
    made = len(desk.provider.requests)
    console.print(f"{len(QUESTIONS) + 1} turns, {made} model requests, {len(refused)} rejected.")
    return len(refused)


async def _close(desk: Desk) -> None:
    await close_shared_runtime()
    await desk.history.close()


def _rule(console: Console, title: str) -> None:
    console.print()
    console.rule(f"[bold]{title}[/]", style="dim", align="left")


def offline_network(folder: Path | None = None, *, pause: float = _PAUSE) -> Network[Any, Any]:
    """Return the demo's network with its scripted model, for `agentkit dev` without a target.

    Nothing leaves this process, and no key is needed.

    Args:
        folder: Folder of threads and bookings; that of `agentkit dev`, else a temporary one.
        pause: Seconds between two pieces of a reply.
    """
    folder = folder or Path(os.environ.get(DEV_FOLDER) or _temporary_folder())
    model = openai(_SCRIPTED, api_key="sk-demo", default_parameters=_PARALLEL)
    model = replace(model, transport=PacedTransport(FakeProvider(scripted_model).transport, pause))
    return support_network(
        TravelData(folder / "travel.db"),
        model,
        threads=folder / "threads.db",
        tokenizer=ApproximateTokenizer(),  # offline, tiktoken's encoding cannot be fetched
    )


def _temporary_folder() -> str:
    folder = tempfile.TemporaryDirectory(prefix="agentkit-demo-", ignore_cleanup_errors=True)
    atexit.register(folder.cleanup)
    return folder.name
