"""`agentkit doctor`: problems that a network would have as an Inngest function."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentkit_py._core.awaiting import run_interruptibly
from agentkit_py.cli.console import make_console
from agentkit_py.cli.target import TargetArgument, load_model, load_target

if TYPE_CHECKING:
    from agentkit_py.testing.doctor import DoctorReport

_SCRIPTED = "scripted"
_STYLES = {"error": ("✗", "red"), "warning": ("!", "yellow")}


def doctor(
    target: TargetArgument,
    *,
    text: Annotated[
        str, typer.Option("--input", metavar="TEXT", help="What the user says.")
    ] = "Hello, I need your help.",
    model: Annotated[
        str,
        typer.Option(
            metavar="PROVIDER:NAME",
            help="A real model; unless given, each tool is called once with made-up arguments.",
        ),
    ] = _SCRIPTED,
    approve: Annotated[
        bool, typer.Option("--approve", help="Say yes to every question; otherwise no.")
    ] = False,
    before: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="The code that is deployed now: what would become of its runs that wait?",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
) -> None:
    """Run a network as an Inngest function, on this machine, and report what would go wrong.

    It runs twice, and its tools really run: let them work on data for tests. Exit status 1 if
    there is an error among the findings.
    """
    from agentkit_py.testing.doctor import examine  # noqa: PLC0415 - loads the Inngest SDK

    chosen = None if model == _SCRIPTED else load_model(model)
    deployed = None if before is None else load_target(before)
    examined = examine(
        load_target(target), input=text, model=chosen, approve=approve, before=deployed
    )
    report = run_interruptibly(examined)
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2))
    else:
        _show(make_console(), report)
    if not report.healthy:
        raise typer.Exit(1)


def _show(console: Console, report: DoctorReport) -> None:
    figures = report.figures
    rate = f"{figures.turns} turns ({figures.steps_per_turn:.1f} a turn)"
    largest = f"{figures.largest_output:,} bytes ({figures.largest_step})"
    lines = [
        f"{report.target}: {figures.steps} steps for {rate}, {figures.requests} requests",
        f"largest output: {largest}; all: {figures.state:,} bytes",
    ]
    idle = [name for name, calls in report.tools.items() if not calls]
    if idle:
        lines.append(f"not examined, as the model did not call them: {', '.join(idle)}")
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    if report.callbacks:
        console.print(_table(report))
    for finding in report.findings:
        sign, style = _STYLES[finding.severity]
        words = f"{sign} {finding.name}: {finding.where}: {finding.text}"
        console.print(Text(words, style), soft_wrap=True)
    if not report.findings:
        console.print(Text("✓ nothing found", "green"))


def _table(report: DoctorReport) -> Table:
    table = Table(box=None)
    table.add_column("called again on each replay")
    table.add_column("calls", justify="right")
    for callback in report.callbacks:
        table.add_row(Text(callback.name), str(callback.calls))
    return table
