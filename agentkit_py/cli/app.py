"""The commands of `agentkit`. What a command does is in its own module; here are its options."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from agentkit_py._core.interrupting import run_interruptibly
from agentkit_py.cli.api import api
from agentkit_py.cli.chat import Chat, with_history
from agentkit_py.cli.console import Commands, make_console
from agentkit_py.cli.demo.play import DemoOptions, answer_later, open_desk, play
from agentkit_py.cli.dev import dev
from agentkit_py.cli.doctor import doctor
from agentkit_py.cli.explain import explain
from agentkit_py.cli.mcp import mcp
from agentkit_py.cli.replay import replay
from agentkit_py.cli.serve import serve
from agentkit_py.cli.target import load_model, load_target
from agentkit_py.cli.threads import app as threads_app
from agentkit_py.cli.transcript import TYPING_DELAY, Transcript
from agentkit_py.errors import AgentKitError, ConfigurationError

_DISTRIBUTION = "pyagentkit"


class _Commands(Commands):
    """Shows the library's errors as one line; other errors are bugs and keep their traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except AgentKitError as error:
            if ctx.params.get("debug"):
                raise
            typer.echo(f"agentkit: {error}", err=True)
            raise typer.Exit(2 if isinstance(error, ConfigurationError) else 1) from error


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
        """Seconds between words: only where somebody watches."""
        return TYPING_DELAY if wanted and self.console.is_terminal else 0.0


_Model = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="PROVIDER:NAME", help="A real model, e.g. openai:gpt-4.1, with your key."
    ),
]
_BaseUrl = Annotated[
    str | None,
    typer.Option("--base-url", metavar="URL", help="Where the model is, if not at its provider's."),
]
_Delay = Annotated[bool, typer.Option("--delay/--no-delay", help="Type answers out in a terminal.")]


@app.command()
def demo(  # noqa: PLR0913 - the options of the command
    ctx: typer.Context,
    *,
    model: _Model = None,
    base_url: _BaseUrl = None,
    db: Annotated[
        Path | None, typer.Option(help="SQLite file for the thread; temporary unless given.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary files.")] = False,
    report: Annotated[
        bool, typer.Option("--report/--no-report", help="Show what each agent saw.")
    ] = True,
    delay: _Delay = True,
    resume: Annotated[
        str | None, typer.Option(metavar="THREAD", help="Talk on with a kept thread (with --db).")
    ] = None,
    ask: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Watch a support network answer a customer over several turns.

    Offline: the model is a script behind a strict fake provider, asked over real HTTP. The last
    turn happens in a second process, which answers from the thread of the first.
    """
    terminal: _Terminal = ctx.obj
    _check_demo(db, resume, model, base_url, ask)
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
        transcript = Transcript(terminal.console, delay=chosen.delay)
        command = f"agentkit demo --db {db} --resume"
        _talk(
            Chat(desk.network, terminal.console, transcript, command, resume, debug=terminal.debug)
        )


def _check_demo(
    db: Path | None, resume: str | None, model: str | None, base_url: str | None, ask: str | None
) -> None:
    if base_url is not None and model is None and ask is None:
        # The second process (ask) is told where the scripted model of the first one is.
        raise ConfigurationError("--base-url needs --model.")
    if resume is not None and db is None:
        raise ConfigurationError("--resume needs --db, the file that the thread is in.")
    if resume is not None and db is not None and not db.is_file():
        raise ConfigurationError(f"--db: there is no file {str(db)!r}.")


@app.command()
def chat(
    ctx: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:OBJECT", help="A Network or Agent, or a function that makes one."
        ),
    ],
    *,
    thread: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on with this thread.")
    ] = None,
    db: Annotated[
        Path | None, typer.Option(help="SQLite file for threads, if it has no history of its own.")
    ] = None,
    user: Annotated[
        str | None, typer.Option(metavar="ID", help="Whose a new thread is, in the store.")
    ] = None,
    model: _Model = None,
    base_url: _BaseUrl = None,
    delay: _Delay = True,
) -> None:
    """Talk to any network or agent.

    Each line is one run with new state and the thread's history. Lines may also be piped in; then
    the exit status is 1 if a run failed. /help lists what can be typed beside questions.
    """
    terminal: _Terminal = ctx.obj
    found, where = with_history(load_target(target), db)
    other = None if model is None else load_model(model, base_url=base_url)
    if base_url is not None and model is None:
        raise ConfigurationError("--base-url needs --model.")
    terminal.console.print(f"{type(found).__name__} {found.name}. {where}", soft_wrap=True)
    transcript = Transcript(terminal.console, delay=terminal.delay(wanted=delay))
    kept = f" --db {db}" if db is not None else ""
    command = f"agentkit chat {target}{kept} --thread"
    conversation = Chat(
        found, terminal.console, transcript, command, thread, user, other, terminal.debug
    )
    _talk(conversation)


app.command()(replay)
app.add_typer(threads_app)
app.command()(explain)
app.command()(dev)
app.command()(serve)
app.command()(api)
app.command()(mcp)
app.command()(doctor)


def _talk(conversation: Chat) -> None:
    conversation.run()
    if conversation.failed and not sys.stdin.isatty():
        raise typer.Exit(1)
