"""`agentkit doctor`: problems that a network would have as an Inngest function."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentkit_py._core.awaiting import run_interruptibly
from agentkit_py.cli.console import make_console
from agentkit_py.cli.target import TargetArgument, load_model, load_target
from agentkit_py.errors import ConfigurationError

if TYPE_CHECKING:
    from agentkit_py.testing.doctor import DoctorReport

T = TypeVar("T")

_SCRIPTED = "scripted"
_ADVICE = (
    "What was not examined may have faults: give --arguments, --state or a --script that reach it, "
    "--approve where a person is asked, or --skip NAME."
)
_STYLES = {"error": ("✗", "red"), "warning": ("!", "yellow")}


def doctor(  # noqa: PLR0913 - the options of the command
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
            help="The deployed code, to check its waiting runs against the new code.",
        ),
    ] = None,
    arguments: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help='Arguments of tools, as JSON: {"refund": {"order": "A1"}}.'
        ),
    ] = None,
    script: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The model's replies in order, as a JSON list: texts, or "
            '{"tool_calls": [{"name": "refund", "arguments": {"order": "A1"}}]}.',
        ),
    ] = None,
    state: Annotated[
        str | None, typer.Option(metavar="JSON", help="The state data that the runs are given.")
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A tool, handoff or agent that need not be examined."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON.")] = False,
) -> None:
    """Run a network as an Inngest function, on this machine, and report problems.

    It runs until each tool was called and each handoff made, and its tools really run: let them
    work on data for tests. Exit status 1 if there is an error among the findings, or something was
    not examined.
    """
    from agentkit_py.testing.doctor import examine  # noqa: PLC0415 - loads the Inngest SDK
    from agentkit_py.testing.doctor.examination import ExamineOptions  # noqa: PLC0415 - as above

    chosen = None if model == _SCRIPTED else load_model(model)
    deployed = None if before is None else load_target(before)
    options: ExamineOptions = {"skip": skip or ()}
    if arguments is not None:
        options["arguments"] = _json("--arguments", arguments.read_text("utf-8"), dict)
    if script is not None:
        options["script"] = _json("--script", script.read_text("utf-8"), list)
    if state is not None:
        options["state"] = _json("--state", state, dict)
    examined = examine(
        load_target(target),
        input=text,
        model=chosen,
        approve=approve,
        before=deployed,
        **options,
    )
    report = run_interruptibly(examined)
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2))
    else:
        _show(make_console(), report)
    if not report.passed:
        raise typer.Exit(1)


def _json(option: str, text: str, kind: type[T]) -> T:
    """Return the JSON of an option.

    Raises:
        ConfigurationError: It is not JSON, or of another kind.
    """
    try:
        found: object = json.loads(text)
    except ValueError as error:
        raise ConfigurationError(f"{option}: this is not JSON: {error}") from error
    if not isinstance(found, kind):
        wanted = "an object" if kind is dict else "a list"
        raise ConfigurationError(f"{option} takes {wanted}, not {text!r:.80}")
    return found


def _show(console: Console, report: DoctorReport) -> None:
    figures = report.figures
    rate = f"{figures.turns} turns ({figures.steps_per_turn:.1f} a turn)"
    largest = f"{figures.largest_output:,} bytes ({figures.largest_step})"
    lines = [
        f"{report.target}: {figures.steps} steps for {rate}, {figures.requests} requests",
        f"largest output: {largest}; all: {figures.state:,} bytes",
    ]
    for line in lines:
        console.print(Text(line), soft_wrap=True)
    if report.callbacks:
        console.print(_table(report))
    for finding in report.findings:
        sign, style = _STYLES[finding.severity]
        words = f"{sign} {finding.name}: {finding.where}: {finding.text}"
        console.print(Text(words, style), soft_wrap=True)
    for one in report.unexamined:
        console.print(
            Text(f"? not examined: {one.kind} {one.name}: {one.why}", "yellow"), soft_wrap=True
        )
    if report.unexamined:
        console.print(Text(_ADVICE), soft_wrap=True)
    elif not report.findings:
        console.print(Text("✓ nothing found", "green"))


def _table(report: DoctorReport) -> Table:
    table = Table(box=None)
    table.add_column("called again on each replay")
    table.add_column("calls", justify="right")
    for callback in report.callbacks:
        table.add_row(Text(callback.name), str(callback.calls))
    return table
