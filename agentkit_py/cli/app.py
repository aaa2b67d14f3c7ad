"""The `agentkit` command: its shared options, and one line per error."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from agentkit_py._core.interrupting import run_interruptibly
from agentkit_py.cli import threads
from agentkit_py.cli.chat import Chat
from agentkit_py.cli.console import TYPING_DELAY, RunPrinter, make_console
from agentkit_py.cli.dev import dev
from agentkit_py.cli.doctor import doctor
from agentkit_py.cli.explain import explain
from agentkit_py.cli.replay import replay
from agentkit_py.cli.serve import api, mcp, serve
from agentkit_py.cli.target import (
    BaseUrlOption,
    DbOption,
    ModelOption,
    TargetArgument,
    load_model,
    load_target,
    with_history,
)
from agentkit_py.errors import AgentKitError, ConfigurationError

_DISTRIBUTION = "pyagentkit"


class _Commands(TyperGroup):
    """Commands that show the library's errors as one line; other errors keep their traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except AgentKitError as error:
            if ctx.find_root().params.get("debug"):
                raise
            typer.echo(f"agentkit: {error}", err=True)
            raise typer.Exit(2 if isinstance(error, ConfigurationError) else 1) from error

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command, its help without the type of switches; None if there is none."""
        command: Any = super().get_command(ctx, cmd_name)
        if command is not None:
            for option in (*command.params, command.get_help_option(ctx)):
                if getattr(option, "is_bool_flag", False) and option.metavar is None:
                    option.metavar = ""
        return command


app: typer.Typer = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(value: bool) -> None:  # noqa: FBT001 - typer's callback
    if not value:
        return
    try:
        typer.echo(f"agentkit {version(_DISTRIBUTION)}")
    except PackageNotFoundError:
        typer.echo("agentkit (not installed)")
    raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
    no_color: Annotated[
        bool, typer.Option("--no-color", help="No colours; so does NO_COLOR in the environment.")
    ] = False,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Networks of agents in the terminal.

    Exit status: 0 if all went well, 1 if something went wrong in a run, 2 if the command was wrong.
    """
    ctx.obj = _Terminal(make_console(no_color=no_color), debug=debug, no_color=no_color)


class _Terminal:
    """The options that all commands share."""

    def __init__(self, console: Console, *, debug: bool, no_color: bool) -> None:
        self.console = console
        self.debug = debug
        self.flags = [
            flag for flag, given in (("--debug", debug), ("--no-color", no_color)) if given
        ]

    def delay(self, *, wanted: bool) -> float:
        """Return the seconds between words: none where nobody watches."""
        return TYPING_DELAY if wanted and self.console.is_terminal else 0.0


_Delay = Annotated[bool, typer.Option("--delay/--no-delay", help="Type answers out in a terminal.")]


@app.command()
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

    terminal: _Terminal = ctx.obj
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


@app.command()
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

    Each line is one run with new state and the thread's history. Lines may also be piped in; then
    the exit status is 1 if a run failed. /help lists the commands.
    """
    terminal: _Terminal = ctx.obj
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


app.command()(replay)
app.add_typer(threads.app, cls=_Commands)
app.command()(explain)
app.command()(dev)
app.command()(serve)
app.command()(api)
app.command()(mcp)
app.command()(doctor)
