"""`agentkit demo` and `agentkit chat`: conversations in the terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from agentkit_py._core.awaiting import run_interruptibly
from agentkit_py.cli.chat import Chat
from agentkit_py.cli.console import RunPrinter, Terminal
from agentkit_py.cli.target import (
    BaseUrlOption,
    DbOption,
    ModelOption,
    TargetArgument,
    load_model,
    load_target,
    with_history,
)
from agentkit_py.errors import ConfigurationError

_Delay = Annotated[bool, typer.Option("--delay/--no-delay", help="Type answers out in a terminal.")]


def demo(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    *,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    db: Annotated[
        Path | None, typer.Option(help="SQLite file for the thread; temporary unless given.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary files.")] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Show what each agent saw.")
    ] = True,
    delay: _Delay = True,
    resume: Annotated[
        str | None, typer.Option(metavar="THREAD", help="Continue a kept thread (with --db).")
    ] = None,
    ask: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Watch a support network answer a customer over several turns.

    Offline: the model is a script behind a strict fake provider, asked over real HTTP. The last
    turn happens in a second process, which answers from the thread of the first.
    """
    from agentkit_py.cli.demo.play import DemoOptions, answer_later, open_desk, play  # noqa: PLC0415 - slow to load

    terminal: Terminal = ctx.obj
    if ask is None:  # the second process gets the address of the first one's scripted model
        _check_base_url(model, base_url)
    if resume is not None and db is None:
        raise ConfigurationError("--resume needs --db, the file that the thread is in.")
    if resume is not None and db is not None and not db.is_file():
        raise ConfigurationError(f"--db: there is no file {str(db)!r}.")
    chosen = DemoOptions(
        model=model,
        base_url=base_url,
        db=db,
        keep=keep,
        report=report,
        delay=terminal.delay(wanted=delay),
        flags=terminal.flags,
    )
    if resume is None:
        raise typer.Exit(run_interruptibly(play(terminal.console, chosen)))
    assert db is not None
    with open_desk(chosen, db.absolute(), resume) as desk:
        if ask is not None:
            run_interruptibly(answer_later(desk, terminal.console, resume, ask, chosen))
            return
        printer = RunPrinter(terminal.console, delay=chosen.delay)
        command = f"agentkit demo --db {db} --resume"
        _talk(Chat(desk.network, terminal.console, printer, command, resume, debug=terminal.debug))


def chat(
    ctx: typer.Context,
    target: TargetArgument,
    *,
    thread: Annotated[str | None, typer.Option(metavar="ID", help="Continue this thread.")] = None,
    db: DbOption = None,
    user: Annotated[
        str | None, typer.Option(metavar="ID", help="The user of a new thread, in the store.")
    ] = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    delay: _Delay = True,
) -> None:
    """Talk to any network or agent.

    Each line is one run on the thread, with the state that the one before left. Lines may also be
    piped in; then the exit status is 1 if a run failed. /help lists the commands.
    """
    terminal: Terminal = ctx.obj
    found, where = with_history(load_target(target), db)
    other = None if model is None else load_model(model, base_url=base_url)
    _check_base_url(model, base_url)
    terminal.console.print(f"{type(found).__name__} {found.name}. {where}", soft_wrap=True)
    printer = RunPrinter(terminal.console, delay=terminal.delay(wanted=delay))
    kept = f" --db {db}" if db is not None else ""
    command = f"agentkit chat {target}{kept} --thread"
    _talk(
        Chat(found, terminal.console, printer, command, thread, user, other, debug=terminal.debug)
    )


def _check_base_url(model: str | None, base_url: str | None) -> None:
    if base_url is not None and model is None:
        raise ConfigurationError("--base-url needs --model.")


def _talk(conversation: Chat) -> None:
    conversation.run()
    if conversation.failed and not sys.stdin.isatty():
        raise typer.Exit(1)
