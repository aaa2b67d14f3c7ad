"""`agentkit explain`, and the table of each agent's model input."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentkit_py._core.awaiting import run_interruptibly
from agentkit_py.cli.console import counted, shorten
from agentkit_py.cli.stores import writes_file, written_whole
from agentkit_py.cli.target import DbOption, TargetArgument, load_target, with_history
from agentkit_py.matrix import ContextMatrix, matrix_page
from agentkit_py.matrix.page import AS_NOW
from agentkit_py.messages import Message
from agentkit_py.network import Target, explain_thread
from agentkit_py.network import explain as explain_context
from agentkit_py.processors.fates import MessageRow, in_words, overview_of
from agentkit_py.processors.report import ContextReport, ReportEntry
from agentkit_py.processors.tokenizers import count_messages
from agentkit_py.stores.base import thread_store

_COLUMNS = ("agent", "level", "processor", "messages", "tokens", "why")
_NUMBERS = ("messages", "tokens")
_GAP = 2
_TITLE = "What each agent saw (its last model call of this turn)"
_CHANGES = {"kept": (" ", ""), "removed": ("-", "red"), "added": ("+", "green")}
_REWRITTEN = ("~", "yellow")

T = TypeVar("T")

_Cells: TypeAlias = tuple[str, str, str, str, str, str]


def explain(  # noqa: PLR0913 - each is an option of the command
    ctx: typer.Context,
    target: TargetArgument,
    *,
    thread: Annotated[str | None, typer.Option(metavar="ID", help="The stored thread.")] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which agent of the network.")
    ] = None,
    text: Annotated[
        str, typer.Option("--input", metavar="TEXT", help="What the user would say.")
    ] = "",
    db: DbOption = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show it message by message.")] = False,
    matrix: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write a page: each message of the thread in each model call."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as JSON.")] = False,
) -> None:
    """Show an agent's model input as of now, level by level.

    No model is called and nothing is saved. Processors and on_start run as they would; a processor
    that would call a model only says so.
    """
    found, _ = with_history(load_target(target), db, create=False)
    if matrix is not None:
        if thread is None or agent is not None or text or diff:
            raise typer.BadParameter("--matrix takes a --thread, and no agent, input or diff.")
        made = ContextMatrix.of(run_interruptibly(_closing(found, explain_thread(found, thread))))
        page = matrix_page(made, f"{found.name}: thread {thread}", AS_NOW)
        with writes_file("--matrix", matrix, db), written_whole(matrix) as file:
            file.write(page)
        if as_json:
            typer.echo(json.dumps(made.to_dict(), indent=2))
            return
        size = f"{counted(len(made.rows), 'message')} in {counted(len(made.calls), 'model call')}"
        ctx.obj.console.print(Text(f"{size}, written to {matrix}. It holds the conversation."))
        return
    report = run_interruptibly(
        _closing(found, explain_context(found, agent, thread_id=thread, input=text))
    )
    rows = list(overview_of(report)) if diff else []
    if as_json:
        record = report.to_dict()
        if diff:
            record["messages"] = [_row_json(row, report) for row in rows]
        typer.echo(json.dumps(record, indent=2))
        return
    console: Console = ctx.obj.console
    print_context(console, [report], title="What the agent would be sent now")
    if diff:
        _print_diff(console, rows, report)


async def _closing(target: Target, making: Awaitable[T]) -> T:
    """Await the result of reading a target's thread, and close its store."""
    try:
        return await making
    finally:
        store = thread_store(target.history)
        if store is not None:
            await store.close()


def _print_diff(console: Console, rows: Iterable[MessageRow], report: ContextReport) -> None:
    console.print()
    console.print(Text("Message by message", "bold"))
    for row in rows:
        sign, style = _CHANGES.get(row.change, _REWRITTEN)
        message, by = row.message, _by(row)
        who = f"{message.role} {message.agent or ''}".strip()
        tokens = count_messages([message], report.tokenizer)
        head = f"{sign} {tokens:>6}  {who}: "
        tail = f"  [{by}]" if by else ""
        room = max(20, console.width - len(head) - len(tail))
        console.print(Text(f"{head}{shorten(in_words(message), room)}{tail}", style))


def _row_json(row: MessageRow, report: ContextReport) -> dict[str, Any]:
    message = row.message
    return {
        "change": row.change,
        "by": _by(row),
        "type": message.type,
        "role": message.role,
        "agent": message.agent,
        "tokens": count_messages([message], report.tokenizer),
        "text": in_words(message),
    }


def _by(row: MessageRow) -> str:
    return f"{row.by.level} {row.by.name}" if row.by is not None else "prompt" * row.is_prompt


def print_context(
    console: Console, reports: Sequence[ContextReport], *, title: str = _TITLE
) -> None:
    """Print, for each agent, the changes of the history before its last model call."""
    last = {report.agent: report for report in reports}
    rows = [row for report in last.values() for row in _rows(report)]
    table = Table(box=None, padding=(0, _GAP, 0, 0), header_style="dim")
    for name in _COLUMNS[:-1]:
        table.add_column(name, justify="right" if name in _NUMBERS else "left", no_wrap=True)
    table.add_column(_COLUMNS[-1])  # the only column that may become narrower
    for (agent, *cells, why), style in rows:
        reason = Text(shorten(why, console.width), no_wrap=True, overflow="ellipsis")
        table.add_row(Text(agent, "bold"), *cells, reason, style=style)
    console.print()
    console.print(Text(title, "bold"))
    console.print(table)
    for report in last.values():
        hidden = _hidden_tools(report)
        if hidden:
            line = Text(f"{report.agent} saw no call of ", "dim")
            console.print(line.append(", ".join(hidden), "italic"))


def _rows(report: ContextReport) -> Iterable[tuple[_Cells, str]]:
    agent = report.agent
    for entry in report.entries:
        messages = f"{entry.messages_before} → {entry.messages_after}"
        tokens = f"{entry.tokens_before} → {entry.tokens_after}"
        style = "" if entry.changed else "dim"
        yield (agent, entry.level, entry.name, messages, tokens, _why(entry)), style
        yield from _part_rows(entry)
        agent = ""
    sent = (str(len(report.sent)), str(report.tokens_after))
    yield (agent, "", "= sent", *sent, "prompt included"), "bold"


def _part_rows(entry: ReportEntry) -> Iterable[tuple[_Cells, str]]:
    """Return a row for each processor that a processor ran itself and that changed something."""
    for part in entry.parts:
        if part.changed:
            messages = f"{part.messages_before} → {part.messages_after}"
            tokens = f"{part.tokens_before} → {part.tokens_after}"
            yield ("", "", f"  {part.name}", messages, tokens, _why(part)), "dim"


def _why(entry: ReportEntry) -> str:
    if not entry.changed:
        return ""
    kept = f" ({entry.kept_back} put back)" if entry.kept_back else ""
    return f"{entry.reason or 'changed'}{kept}"


def _hidden_tools(report: ContextReport) -> list[str]:
    """Return the tools whose calls are in the thread, none of them in the model input."""
    seen = set(_called(report.sent))
    return [name for name in dict.fromkeys(_called(report.history)) if name not in seen]


def _called(messages: Iterable[Message]) -> Iterable[str]:
    return (call.name for m in messages if m.type == "tool_call" for call in m.tools)
