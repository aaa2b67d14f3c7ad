"""Runs shown in the terminal while they happen, and messages as lines of text."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from agentkit_py._core.json import as_object, dumps
from agentkit_py._core.untrusted import escaped
from agentkit_py.cli.console import shorten, wrap
from agentkit_py.events.types import (
    Event,
    ModelReplied,
    Progress,
    RunCompleted,
    RunStarted,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from agentkit_py.messages import Finish, Message, ToolCall, ToolResultMessage

_COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red")
_USER = "bold"
_SHOWN_ENDS = ("length", "content_filter", "refusal", "context_window", "error")
"""Why a reply was cut, which is shown where it was."""
_USUAL_ENDS = (None, "done", "on_start", *_SHOWN_ENDS)


class RunPrinter:
    """Prints a run: agents by name, their calls and results, and their texts. Use as ``observer=``.

    Between two words of an agent's text are ``delay`` seconds.
    """

    def __init__(self, console: Console, *, delay: float = 0.0) -> None:
        self._console = console
        self._delay = delay
        self._colours: dict[str, str] = {}

    async def __call__(self, event: Event) -> None:
        """Print an event."""
        match event:
            case RunStarted(scope="agent"):
                self._line(Text(f"● {event.name}", f"bold {self._colour(event.name)}"))
            case ModelReplied():
                await self._reply(event.messages)
                self._end(event.finish)
            case ToolStarted():
                self._detail("→", call_line(event.call), "")
            case ToolProgressed(call=call, progress=progress):
                self._detail("…", f"{call.name}: {progress_line(progress)}")
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

    def past(
        self, name: str, text: str, *, is_user: bool = False, cut: Finish | None = None
    ) -> None:
        """Print a message of an earlier run, with the reason why it is ``cut``, if it is."""
        style = _USER if is_user else f"bold {self._colour(name)}"
        self._line(Text(f"● {name}", style))
        for line in wrap(self._console, text, 2):
            self._line(Text(f"  {line}", "dim"))
        self._end(cut)

    async def _reply(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if message.type == "text":
                await self._say(message.text)
            elif message.type == "reasoning":
                self._detail("…", message.content)
            elif message.type == "opaque":
                self._detail("◇", str(message))

    def _end(self, finish: Finish | None) -> None:
        """Print why a reply ended, if it is not whole, and the provider's explanation."""
        if finish is None or finish.reason in ("stop", "tool_calls"):
            return
        if finish.reason == "pause":
            self._detail("■", "the reply was paused, and continues", "yellow")
            return
        self._detail("■", f"the reply is not whole: {finish}", "yellow")
        for line in wrap(self._console, dumps(finish.details), 4) if finish.details else ():
            self._line(Text(f"    {line}", "dim"))

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
    r"""Return a call as it would be written in Python; invisible characters as ``\u`` escapes."""
    arguments = as_object(call.arguments)
    if call.malformed is not None or arguments is None:
        return escaped(f"{call.name}({call.written})")
    return escaped(f"{call.name}({', '.join(f'{k}={dumps(v)}' for k, v in arguments.items())})")


def progress_line(progress: Progress) -> str:
    """Return a tool's progress: a bar where it knows how far it has come, and its words."""
    words = [progress.text]
    if progress.fraction is not None:
        done = round(progress.fraction * _BAR)
        words.insert(0, f"{'█' * done}{'░' * (_BAR - done)} {progress.fraction:4.0%}")
    if progress.data is not None:
        words.append(dumps(progress.data))
    return escaped(" ".join(filter(None, words)))


_BAR = 20
"""Characters of a bar."""


def result_line(result: ToolResultMessage) -> str:
    """Return a tool's result, or its error."""
    name, content = result.tool.name, as_object(result.content)
    if result.is_error:
        error = as_object((content or {}).get("error")) or {}
        return f"{name}: {error.get('name', 'error')}: {error.get('message', '')}"
    data = result.content if content is None else content.get("data")
    return f"{name}: {data if isinstance(data, str) else dumps(data)}"


def message_line(message: Message) -> str:
    """Return any message as text."""
    match message.type:
        case "text":
            return message.text
        case "reasoning":
            return message.content
        case "opaque":
            return str(message)
        case "tool_call":
            return ", ".join(map(call_line, message.tools))
        case "tool_result":
            return result_line(message)
