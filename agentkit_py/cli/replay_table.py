"""The figures of a replay, as a table and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentkit_py.processors.tokenizers import default_tokenizer
from agentkit_py.testing.replay import Figures, Replay

_TITLES = {
    "none": "no processors",
    "default": "filter + limit",
    "own": "own processors",
}
_ROWS = (
    ("conversations", "conversations"),
    ("turns", "turns (user messages)"),
    ("model_calls", "model calls"),
    ("tool_calls", "tool calls"),
    ("tokens_sent", "tokens sent"),
    ("foreign_calls", "tool calls sent to an agent without the tool"),
    ("wrong_reports", "context reports that do not add up"),
    ("rejected", "requests rejected"),
    ("differing", "threads that differ from the recording"),
)
_MUST_BE_ZERO = ("wrong_reports", "rejected", "differing")


def figures_of(job: Replay, *, seconds: float, interrupted: bool) -> dict[str, Any]:
    """The figures as JSON."""
    return {
        "provider": job.provider,
        "tokenizer": default_tokenizer().key,
        "seconds": round(seconds, 1),
        "interrupted": interrupted,
        "linesNotRead": job.bad_lines,
        "passes": {one.name: one.figures.to_dict() for one in job.passes},
    }


def print_figures(console: Console, job: Replay, db: Path | None, *, interrupted: bool) -> None:
    """Show the figures, and what there is to say about them."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    for one in job.passes:
        table.add_column(_TITLES[one.name], justify="right", no_wrap=True)
    for name, title in _ROWS:
        table.add_row(title, *(_cell(one.figures, name) for one in job.passes))
    console.print(table)
    console.print()
    for note in _notes(job, db, interrupted=interrupted):
        console.print(Text(note, "dim"))


def _cell(figures: Figures, name: str) -> Text:
    value: int = getattr(figures, name)
    bad = value and name in _MUST_BE_ZERO
    return Text(f"{value:,}", "bold red" if bad else "")


def _notes(job: Replay, db: Path | None, *, interrupted: bool) -> list[str]:
    found: list[str] = []
    if interrupted:
        found.append("Interrupted: these are the conversations that were finished.")
    if job.bad_lines:
        found.append(f"Lines that could not be read: {job.bad_lines}.")
    for rule, count in sum((one.figures.rules for one in job.passes), Figures().rules).items():
        found.append(f"Broken {count} times: {rule}.")
    for tool, count in job.passes[0].figures.missing_tools.items():
        found.append(f"Called in {count} conversations, but no agent has it: {tool}.")
    found.append(_saved(job))
    found.append("Threads were compared without system messages, which they do not hold.")
    if db is not None:
        names = " and ".join(f"ID:{one.name}" for one in job.passes)
        found.append(f"The threads are in {db}, as {names}.")
    if job.existing:
        found.append(
            f"{job.existing} of these thread ids were there already, from an earlier replay; the "
            "new ones end in ~2, ~3, …"
        )
    return found


def _saved(job: Replay) -> str:
    counted = f"Tokens are those of prompt and history, counted by {default_tokenizer().key}"
    first, last = job.passes[0].figures.tokens_sent, job.passes[-1].figures.tokens_sent
    if len(job.passes) == 1 or not first:
        return f"{counted}."
    return f"{counted}; processors saved {1 - last / first:.0%} of them."
