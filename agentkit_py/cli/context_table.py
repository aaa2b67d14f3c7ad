"""The report of what each agent was allowed to see, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentkit_py.cli.console import shorten
from agentkit_py.messages import Message
from agentkit_py.processors.report import ContextReport, ReportEntry

_COLUMNS = ("agent", "level", "processor", "messages", "tokens", "why")
_NUMBERS = ("messages", "tokens")
_GAP = 2
_TITLE = "What each agent saw (its last model call of this turn)"

_Row: TypeAlias = tuple[str, str, str, str, str, str]


def print_context(
    console: Console, reports: Sequence[ContextReport], *, title: str = _TITLE
) -> None:
    """Show, for each agent, what became of the history before its last model call."""
    last = {report.agent: report for report in reports}
    rows = [row for report in last.values() for row in _rows(report)]
    table = Table(box=None, padding=(0, _GAP, 0, 0), header_style="dim")
    for name in _COLUMNS:
        table.add_column(name, justify="right" if name in _NUMBERS else "left", no_wrap=True)
    # Shortened here: rich would take the room from the figures.
    room = console.width - _width(row[:-1] for row, _ in rows)
    for row, style in rows:
        agent, *cells, why = row
        table.add_row(Text(agent, "bold"), *cells, shorten(why, room), style=style)
    console.print()
    console.print(Text(title, "bold"))
    console.print(table)
    for report in last.values():
        hidden = _hidden_tools(report)
        if hidden:
            line = Text(f"{report.agent} saw no call of ", "dim").append(
                ", ".join(hidden), "italic"
            )
            console.print(line)


def _rows(report: ContextReport) -> Iterable[tuple[_Row, str]]:
    agent = report.agent
    for entry in report.entries:
        messages = _change(entry.messages_before, entry.messages_after)
        tokens = _change(entry.tokens_before, entry.tokens_after)
        style = "" if entry.changed else "dim"
        yield (agent, entry.level, entry.name, messages, tokens, _why(entry)), style
        agent = ""
    sent = (str(len(report.sent)), str(report.tokens_after))
    yield (agent, "", "= sent", *sent, "prompt included"), "bold"


def _width(rows: Iterable[tuple[str, ...]]) -> int:
    """Columns that everything but the last cell takes, gaps included."""
    widths = [max(map(cell_len, column)) for column in zip(_COLUMNS[:-1], *rows, strict=True)]
    return sum(widths) + _GAP * len(_COLUMNS)


def _change(before: int, after: int) -> str:
    return f"{before} → {after}"


def _why(entry: ReportEntry) -> str:
    if not entry.changed:
        return ""
    kept = f" ({entry.kept_back} put back)" if entry.kept_back else ""
    return f"{entry.reason or 'changed'}{kept}"


def _hidden_tools(report: ContextReport) -> list[str]:
    """Tools whose calls are in the thread, none of them in what was sent."""
    seen = set(_called(report.sent))
    return [name for name in dict.fromkeys(_called(report.history)) if name not in seen]


def _called(messages: Iterable[Message]) -> Iterable[str]:
    return (call.name for m in messages if m.type == "tool_call" for call in m.tools)
