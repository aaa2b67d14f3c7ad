"""The `agentkit` command: its shared options, and errors as single lines."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agentkit_py._core.untrusted import CleanRecords, clean
from agentkit_py.errors import AgentKitError, ConfigurationError

_DISTRIBUTION = "pyagentkit"


class _Commands(TyperGroup):
    """Commands that show the library's errors as single lines, others with their traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            if isinstance(error, AgentKitError) and not ctx.find_root().params.get("debug"):
                typer.echo(f"agentkit: {error}", err=True)
                raise typer.Exit(2 if isinstance(error, ConfigurationError) else 1) from error
            text = "".join(traceback.format_exception(error))
            if clean(text) == text or type(error).__module__.startswith(("click", "typer")):
                raise
            typer.echo(clean(text), err=True, nl=False)  # Python's output, but clean
            raise typer.Exit(1) from error

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments begin with."""
        if ctx.parent is None and args and args[0] in _LATER:
            self.commands[args[0]] = _load(args[0])
        return super().resolve_command(ctx, args)

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
    if logging.lastResort is not None:  # prints other libraries' logs of untrusted text
        logging.lastResort.addFilter(CleanRecords())
    from agentkit_py.cli.console import Terminal, make_console  # noqa: PLC0415 - slow to load

    ctx.obj = Terminal(make_console(no_color=no_color), debug=debug, no_color=no_color)


_LATER: Mapping[str, tuple[str, str]] = {
    "demo": ("chat:demo", "Watch a support network answer a customer over several turns."),
    "chat": ("chat:chat", "Talk to any network or agent."),
    "replay": (
        "replay:replay",
        "Run recorded conversations again, and compare the threads with the recording.",
    ),
    "fit": ("fit:fit", "Find the cheapest context policy for your own conversations."),
    "explain": ("explain:explain", "Show an agent's model input as of now, level by level."),
    "dev": (
        "dev:dev",
        "Open a page to try a network or agent, and inspect each agent's model input.",
    ),
    "serve": (
        "serve:serve",
        "Serve a module's agents and networks as Inngest functions on /api/inngest.",
    ),
    "api": (
        "serve:api",
        "Serve the HTTP API that the useAgent React hook talks to, on this machine only.",
    ),
    "a2a": (
        "serve:a2a",
        "Serve a network or an agent over A2A, beside its HTTP API, on this machine only.",
    ),
    "mcp": ("serve:mcp", "Serve an agent or a network as an MCP server with a single tool."),
    "doctor": (
        "doctor:doctor",
        "Run a network as an Inngest function, on this machine, and report problems.",
    ),
    "eval": (
        "evals:app",
        "Run the cases of a suite (`agentkit eval MODULE:SUITE`), or make cases of threads.",
    ),
    "approvals": ("approvals:app", "Questions that wait for a person: list and answer them."),
    "memory": (
        "memory:app",
        "What is remembered of a user across threads: list, correct and forget it.",
    ),
    "staff": (
        "staff:app",
        "Threads that people take over from agents: list, join, write, hand back.",
    ),
    "threads": ("threads:app", "Look at stored threads, move them, and delete them."),
}
"""Commands by name: where each is, as its module is loaded when it is called, and its help."""


def _load(name: str) -> Any:
    """Return a command, its module loaded."""
    module, _, attribute = _LATER[name][0].partition(":")
    found = getattr(import_module(f"agentkit_py.cli.{module}"), attribute)
    holder = typer.Typer(rich_markup_mode="markdown")
    if isinstance(found, typer.Typer):
        own = found.info.cls
        holder.add_typer(found, cls=own if isinstance(own, type) else _Commands)
    else:
        holder.command(name)(found)
    return typer.main.get_group(holder).commands[name]


for _name, (_, _help) in _LATER.items():
    app.command(_name, help=_help)(lambda: None)
