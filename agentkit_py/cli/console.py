"""The terminal: text that cannot steer it, and runs shown while they happen."""

from __future__ import annotations

import asyncio
import io
import sys
import unicodedata
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from agentkit_py._core.json import JsonValue, as_object, dumps
from agentkit_py.events.types import (
    Event,
    ModelReplied,
    RunCompleted,
    RunStarted,
    ToolFinished,
    ToolStarted,
)
from agentkit_py.messages import Message, ToolCall, ToolResultMessage

TYPING_DELAY = 0.012
"""Seconds between two words in a terminal."""

_WIDEST = 100
"""Columns; longer lines are hard to read."""

_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red")
_USER = "bold"
_USUAL_ENDS = (None, "done", "on_start")


def make_console(*, no_color: bool = False) -> Console:
    """Return a console on standard output; the environment variable NO_COLOR counts too."""
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        # What the terminal's encoding lacks becomes "?", which beats a traceback.
        stdout.reconfigure(errors="replace")
    console = Console(highlight=False, emoji=False, no_color=no_color or None)
    console.width = min(console.width, _WIDEST)
    return console


def clean(text: str) -> str:
    """Remove control characters: models and tools must not steer the terminal."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) != "Cc")


def shorten(text: str, width: int) -> str:
    """Return ``text`` on one line of ``width`` columns."""
    line = Text(" ".join(clean(text).split()))
    line.truncate(max(width, 1), overflow="ellipsis")
    return line.plain


def wrap(console: Console, text: str, indent: int) -> list[str]:
    """Return ``text`` as lines that fit the console after an indent."""
    whole = Text(clean(text).expandtabs(4))
    return [line.plain.rstrip() for line in whole.wrap(console, max(console.width - indent, 20))]


class RunPrinter:
    """Prints a run: agents by name, their calls and results, and their texts. Use as ``observer=``.

    Args:
        console: The console to print on.
        delay: Seconds between two words of an agent's text.
    """

    def __init__(self, console: Console, *, delay: float = 0.0) -> None:
        self._console = console
        self._delay = delay
        self._colours: dict[str, str] = {}

    async def __call__(self, event: Event) -> None:
        """Print one event."""
        match event:
            case RunStarted(scope="agent"):
                self._line(Text(f"● {event.name}", f"bold {self._colour(event.name)}"))
            case ModelReplied():
                await self._reply(event.messages)
            case ToolStarted():
                self._detail("→", call_line(event.call), "")
            case ToolFinished(result=result):
                sign, style = ("✗", "red") if result.is_error else ("✓", "dim")
                self._detail(sign, result_line(result), style)
            case RunCompleted() if event.stop_reason not in _USUAL_ENDS:
                self._detail("■", f"{event.name} was stopped: {event.stop_reason}", "yellow")
            case _:
                pass

    def _colour(self, agent: str) -> str:
        return self._colours.setdefault(agent, _COLOURS[len(self._colours) % len(_COLOURS)])

    async def user(self, name: str, text: str) -> None:
        """Print a message of the user."""
        self._line(Text(f"● {name}", _USER))
        await self._say(text)

    def past(self, name: str, text: str, *, is_user: bool = False) -> None:
        """Print a message of an earlier run."""
        style = _USER if is_user else f"bold {self._colour(name)}"
        self._line(Text(f"● {name}", style))
        for line in wrap(self._console, text, 2):
            self._line(Text(f"  {line}", "dim"))

    async def _reply(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.type == "text":
                await self._say(message.text)
            elif message.type == "reasoning":
                self._detail("…", message.content)

    async def _say(self, text: str) -> None:
        for line in wrap(self._console, text, 2):
            if not self._delay:
                self._line(Text(f"  {line}"))
                continue
            self._console.print("  ", end="")
            before, *after = line.split(" ")
            for word in [before, *(f" {word}" for word in after)]:
                self._console.print(Text(word), end="", soft_wrap=True)
                await asyncio.sleep(self._delay)
            self._console.print()

    def _detail(self, sign: str, text: str, style: str = "dim") -> None:
        self._line(Text(f"  {sign} {shorten(text, self._console.width - 4)}", style))

    def _line(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


def call_line(call: ToolCall) -> str:
    """Return a call as it would be written in Python."""
    arguments = as_object(call.arguments)
    if call.malformed is not None:
        return f"{call.name}({call.malformed})"
    if arguments is None:
        return f"{call.name}({dumps(call.arguments)})"
    return f"{call.name}({', '.join(f'{k}={dumps(v)}' for k, v in arguments.items())})"


def result_line(result: ToolResultMessage) -> str:
    """Return a tool's result, or its error."""
    name, content = result.tool.name, as_object(result.content)
    if result.is_error:
        return f"{name}: {_error_line(content)}"
    data = result.content if content is None else content.get("data")
    return f"{name}: {data if isinstance(data, str) else dumps(data)}"


def _error_line(content: dict[str, JsonValue] | None) -> str:
    found = as_object((content or {}).get("error")) or {}
    return f"{found.get('name', 'error')}: {found.get('message', '')}"


def message_line(message: Message) -> str:
    """Return any message as text."""
    match message.type:
        case "text":
            return message.text
        case "reasoning":
            return message.content
        case "tool_call":
            return ", ".join(map(call_line, message.tools))
        case "tool_result":
            return result_line(message)
