"""`agentkit eval`: run a suite of cases, compare it with an earlier run, make cases of threads."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from agentkit_py._core.awaiting import run_interruptibly
from agentkit_py._core.untrusted import escaped
from agentkit_py.cli.console import ProgressBar
from agentkit_py.cli.stores import writes_file
from agentkit_py.cli.target import find_object, import_module, split_target
from agentkit_py.errors import ConfigurationError
from agentkit_py.stores.sqlite import SqliteHistory


class _Evaluations(TyperGroup):
    """``agentkit eval MODULE:SUITE`` is ``agentkit eval run MODULE:SUITE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Add the command that is meant."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["run", *args]
        found: list[str] = super().parse_args(ctx, args)
        return found


app: typer.Typer = typer.Typer(
    cls=_Evaluations,
    name="eval",
    no_args_is_help=True,
    help="Run the cases of a suite (`agentkit eval MODULE:SUITE`), or make cases of threads.\n\n"
    "`agentkit eval run --help` has the options.",
)


@app.command("run")
def run(
    ctx: typer.Context,
    suite: Annotated[
        str, typer.Argument(metavar="MODULE:SUITE", help="A Suite, or a function that makes it.")
    ],
    *,
    repeat: Annotated[int, typer.Option(min=1, metavar="N", help="Run each case N times.")] = 1,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only cases with this in their name.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the report to a file.")] = None,
    against: Annotated[
        Path | None, typer.Option(help="Show the differences from a saved report.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Run the cases, and print a line for each.

    Exit status: 0 if all runs of all cases passed, 1 if a run did not, 2 if the suite does not
    exist.
    """
    from agentkit_py.evals import Report, Suite  # noqa: PLC0415 - slow to load

    name, path = split_target(suite)
    found = find_object(suite, import_module(name), path)
    if not isinstance(found, Suite):
        raise ConfigurationError(f"{suite!r} is of type {type(found).__name__}, and no Suite.")
    earlier = None if against is None else Report.load(against)
    if save is not None:
        with writes_file("--save", save, None):  # checked before the cases, which may take hours
            if save.is_dir():
                raise IsADirectoryError("it is a folder")
            TemporaryFile(dir=save.absolute().parent).close()
    console: Console = ctx.obj.console
    count = sum(not only or any(part in case.name for part in only) for case in found.cases)
    with ProgressBar("cases", count * repeat) as bar:
        running = found.run(repeat=repeat, only=only or (), on_done=lambda _: bar.advance())
        report: Report = run_interruptibly(running)
    if save is not None:
        with writes_file("--save", save, None):
            report.save(save)
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=1))
    else:
        console.print(report.table(), soft_wrap=True, markup=False, highlight=False)
        if earlier is not None:
            text = f"\nAgainst {against}:\n{report.diff(earlier)}"
            console.print(text, soft_wrap=True, markup=False, highlight=False)
    raise typer.Exit(0 if report.passed else 1)


@app.command("from-thread")
def from_thread(
    db: Annotated[Path, typer.Argument(help="SQLite file of threads.")],
    threads: Annotated[list[str], typer.Argument(metavar="THREAD...", help="Ids of threads.")],
    *,
    out: Annotated[
        Path | None, typer.Option(help="Add the cases to this file of JSON Lines.")
    ] = None,
) -> None:
    """Make cases of threads: the last question, its answer, and the messages before it.

    Read them in a suite with `read_cases(path)`.
    """
    from agentkit_py.evals import case_from_thread  # noqa: PLC0415 - slow to load

    if not db.is_file():
        raise ConfigurationError(f"There is no file {str(db)!r}.")
    store = SqliteHistory(db)

    async def read() -> list[str]:
        lines: list[str] = []
        for thread in threads:
            stored = await store.stored_results(thread)
            case = case_from_thread([row.result for row in stored], thread)
            lines.append(escaped(json.dumps(case.to_dict(), ensure_ascii=False)))
        return lines

    lines: list[str] = run_interruptibly(read())
    if out is None:
        typer.echo("\n".join(lines))
        return
    with writes_file("--out", out, db), out.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
    typer.echo(f"{len(lines)} cases added to {out}", err=True)
