"""The report of what each agent was allowed to see, as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentkit_py.messages import Message
from agentkit_py.processors.report import ContextReport, ReportEntry

_COLUMNS = ("agent", "level", "processor", "messages", "tokens", "why")


def print_context(console: Console, reports: Sequence[ContextReport]) -> None:
    """Show, for each agent, what became of the history before its last model call."""
    last = {report.agent: report for report in reports}
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in _COLUMNS:
        numbers = name in ("messages", "tokens")
        table.add_column(
            name, justify="right" if numbers else "left", no_wrap=True, overflow="ellipsis"
        )
    for report in last.values():
        _add_rows(table, report)
    console.print()
    console.print(Text("What each agent saw (its last model call of this turn)", "bold"))
    console.print(table)
    for report in last.values():
        hidden = _hidden_tools(report)
        if hidden:
            line = Text(f"{report.agent} saw no call of ", "dim").append(
                ", ".join(hidden), "italic"
            )
            console.print(line)


def _add_rows(table: Table, report: ContextReport) -> None:
    for index, entry in enumerate(report.entries):
        table.add_row(
            Text(report.agent if index == 0 else "", "bold"),
            entry.level,
            entry.name,
            _change(entry.messages_before, entry.messages_after),
            _change(entry.tokens_before, entry.tokens_after),
            _why(entry),
            style="" if entry.changed else "dim",
        )
    first = "" if report.entries else report.agent
    sent = (Text(str(len(report.sent)), "bold"), Text(str(report.tokens_after), "bold"))
    note = Text("prompt included", "dim")
    table.add_row(Text(first, "bold"), "", Text("= sent", "bold"), *sent, note)


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
