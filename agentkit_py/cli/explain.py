"""`agentkit explain`: what an agent would be sent now, and why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from agentkit_py._core.interrupting import run_interruptibly
from agentkit_py._core.json import dumps
from agentkit_py.cli.chat import with_history
from agentkit_py.cli.console import shorten
from agentkit_py.cli.context_table import print_context
from agentkit_py.cli.target import Target, load_target
from agentkit_py.messages import Message, TextMessage, origin_of, text_of
from agentkit_py.network import explain as explain_context
from agentkit_py.processors.report import ContextReport
from agentkit_py.processors.tokenizers import count_messages
from agentkit_py.stores import HistoryStore


@dataclass(frozen=True, slots=True)
class Line:
    """A message of the thread or of the request."""

    change: str
    """``" "`` sent as it is, ``"-"`` not sent, ``"+"`` added, ``"~"`` sent in another form."""

    message: Message
    by: str = ""
    """Level and processor that took it out, added or rewrote it."""

    def to_dict(self, report: ContextReport) -> dict[str, Any]:
        """As JSON."""
        return {
            "change": {" ": "kept", "-": "removed", "+": "added", "~": "rewritten"}[self.change],
            "by": self.by,
            "type": self.message.type,
            "role": self.message.role,
            "agent": self.message.agent,
            "tokens": count_messages([self.message], report.tokenizer),
            "text": _text(self.message),
        }


def explain(
    ctx: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:OBJECT", help="A Network or Agent, or a function that makes one."
        ),
    ],
    *,
    thread: Annotated[str | None, typer.Option(metavar="ID", help="The stored thread.")] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which agent of the network.")
    ] = None,
    text: Annotated[
        str, typer.Option("--input", metavar="TEXT", help="What the user would say.")
    ] = "",
    db: Annotated[
        Path | None, typer.Option(help="SQLite file of threads, if it has no history of its own.")
    ] = None,
    diff: Annotated[bool, typer.Option("--diff", help="Show it message by message.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The figures as JSON.")] = False,
) -> None:
    """Show what an agent would be sent now, level by level.

    No model is called and nothing is saved. Processors and on_start run as they would; what would
    call a model only says so.
    """
    found, _ = with_history(load_target(target), db)
    report = run_interruptibly(_report(found, agent, thread, text))
    if as_json:
        record = report.to_dict()
        if diff:
            record["messages"] = [line.to_dict(report) for line in lines_of(report)]
        typer.echo(json.dumps(record, ensure_ascii=False, indent=2))
        return
    console: Console = ctx.obj.console
    print_context(console, [report], title="What the agent would be sent now")
    if diff:
        _print_diff(console, report)


async def _report(
    target: Target, agent: str | None, thread: str | None, text: str
) -> ContextReport:
    try:
        return await explain_context(target, agent, thread_id=thread, input=text)
    finally:
        if isinstance(target.history, HistoryStore):
            await target.history.close()


def lines_of(report: ContextReport) -> Iterator[Line]:
    """The request message by message, with what is left out where it would have stood."""
    places = {id(message): index for index, message in enumerate(report.sent)}
    had = {id(message) for message in report.history}
    prompt = {id(message) for message in report.prompt}
    shown = 0
    for message in report.history:
        place = places.get(id(message))
        if place is None:
            by = _remover(report, message)
            if by is not None:
                yield Line("-", message, by)
            continue
        for index in range(shown, place):
            yield _sent(report, report.sent[index], had, prompt)
        if place >= shown:
            yield Line(" ", message)
            shown = place + 1
    for message in report.sent[shown:]:
        yield _sent(report, message, had, prompt)


def _sent(report: ContextReport, message: Message, had: set[int], prompt: set[int]) -> Line:
    if id(message) in had or id(message) in prompt:
        return Line(" ", message, "prompt" if id(message) in prompt else "")
    by = next(
        (
            f"{entry.level} {entry.name}"
            for entry in reversed(report.entries)
            if any(message is added for added in entry.added)
        ),
        "",
    )
    return Line("~" if origin_of(message) is not None else "+", message, by)


def _remover(report: ContextReport, message: Message) -> str | None:
    """Who took the message out; None: a rewritten form of it was sent."""
    if any(_comes_of(sent, message) for sent in report.sent):
        return None
    for entry in report.entries:
        was = any(_comes_of(gone, message) for gone in entry.removed)
        if was and not any(_comes_of(left, message) for left in entry.after):
            return f"{entry.level} {entry.name}"
    return ""


def _comes_of(message: Message, origin: Message) -> bool:
    found: Message | None = message
    while found is not None and found is not origin:
        found = origin_of(found)
    return found is origin


def _print_diff(console: Console, report: ContextReport) -> None:
    console.print()
    console.print(Text("Message by message", "bold"))
    styles = {"-": "red", "+": "green", "~": "yellow", " ": ""}
    for line in lines_of(report):
        message = line.message
        who = f"{message.role} {message.agent or ''}".strip()
        tokens = count_messages([message], report.tokenizer)
        head = f"{line.change} {tokens:>6}  {who}: "
        tail = f"  [{line.by}]" if line.by else ""
        room = max(20, console.width - len(head) - len(tail))
        console.print(Text(f"{head}{shorten(_text(message), room)}{tail}", styles[line.change]))


def _text(message: Message) -> str:
    if isinstance(message, TextMessage):
        return message.text
    if message.type == "tool_call":
        return "calls " + ", ".join(f"{call.name}({dumps(call.input)})" for call in message.tools)
    if message.type == "tool_result":
        return f"{message.tool.name} gives {text_of(message)}"
    return text_of(message)
