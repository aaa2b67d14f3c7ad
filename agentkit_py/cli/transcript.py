"""A transcript: an observer that shows a run in the terminal while it happens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from agentkit_py._core.json import JsonValue, as_object, dumps
from agentkit_py.cli.console import shorten, wrap
from agentkit_py.events.types import (
    Event,
    ModelReplied,
    RunCompleted,
    RunStarted,
    ToolFinished,
    ToolStarted,
)
from agentkit_py.messages import Message, ToolCall, ToolResultMessage

_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red")
_USER = "bold"
_USUAL_ENDS = (None, "done", "on_start")

TYPING_DELAY = 0.012
"""Seconds between two words, where somebody is watching."""


class Transcript:
    """Pass it as ``observer=``: agents by name, their calls and results, and what they say.

    Args:
        console: Where to.
        delay: Seconds between two words of what agents say.
    """

    def __init__(self, console: Console, *, delay: float = 0.0) -> None:
        self._console = console
        self._delay = delay
        self._colours: dict[str, str] = {}

    async def __call__(self, event: Event) -> None:
        """Show one event."""
        match event:
            case RunStarted(scope="agent"):
                self._line(Text(f"● {event.name}", f"bold {self.colour(event.name)}"))
            case ModelReplied():
                await self._reply(event.messages)
            case ToolStarted():
                self._detail("→", call_line(event.call), "")
            case ToolFinished():
                self._result(event.result)
            case RunCompleted() if event.stop_reason not in _USUAL_ENDS:
                self._detail("■", f"{event.name} was stopped: {event.stop_reason}", "yellow")
            case _:
                pass

    def colour(self, agent: str) -> str:
        """The colour of an agent, the same for the whole transcript."""
        return self._colours.setdefault(agent, _COLOURS[len(self._colours) % len(_COLOURS)])

    async def user(self, name: str, text: str) -> None:
        """Show what the user said."""
        self._line(Text(f"● {name}", _USER))
        await self._say(text)

    def past(self, name: str, text: str, *, is_user: bool = False) -> None:
        """Show what was said earlier."""
        style = _USER if is_user else f"bold {self.colour(name)}"
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

    def _result(self, result: ToolResultMessage) -> None:
        sign, style = ("✗", "red") if result.is_error else ("✓", "dim")
        self._detail(sign, result_line(result), style)

    def _detail(self, sign: str, text: str, style: str = "dim") -> None:
        self._line(Text(f"  {sign} {shorten(text, self._console.width - 4)}", style))

    def _line(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


def call_line(call: ToolCall) -> str:
    """A call as one reads it in Python."""
    arguments = as_object(call.input)
    if call.malformed is not None:
        return f"{call.name}({call.malformed})"
    if arguments is None:
        return f"{call.name}({dumps(call.input)})"
    return f"{call.name}({', '.join(f'{k}={dumps(v)}' for k, v in arguments.items())})"


def result_line(result: ToolResultMessage) -> str:
    """What a tool gave, or what went wrong."""
    name = result.tool.name
    if result.is_error:
        return f"{name}: {_error_line(result.content)}"
    content = as_object(result.content)
    data = result.content if content is None else content.get("data")
    return f"{name}: {data if isinstance(data, str) else dumps(data)}"


def message_line(message: Message) -> str:
    """Any message as one reads it."""
    match message.type:
        case "text":
            return message.text
        case "reasoning":
            return message.content
        case "tool_call":
            return ", ".join(map(call_line, message.tools))
        case "tool_result":
            return result_line(message)


def _error_line(content: JsonValue) -> str:
    found = as_object((as_object(content) or {}).get("error")) or {}
    return f"{found.get('name', 'error')}: {found.get('message', '')}"
