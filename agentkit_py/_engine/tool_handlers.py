"""Tool handlers: functions, and generators that yield their progress before their result."""

from __future__ import annotations

import logging
import time
from asyncio import CancelledError
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import aclosing, closing
from functools import partial
from threading import local
from typing import Any, Generic, TypeAlias, TypeVar

import anyio.from_thread

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.untrusted import get_logger
from agentkit_py._core.validation import wrong_number
from agentkit_py._engine.concurrency import in_thread
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.types import Progress
from agentkit_py.runtime.containing import as_error
from agentkit_py.tools.definition import Tool, ToolContext
from agentkit_py.tools.values import data_content

Report: TypeAlias = Callable[[Progress], Coroutine[Any, Any, None]]
"""Hands out the progress of a call."""

_NOTHING = object()

T = TypeVar("T")

blocking_logger: logging.Logger = get_logger("agentkit_py.blocking")
"""Warns of async tools that block; a user who wants no such warning raises its level."""

LONGEST_HOLD = 0.5
"""Seconds for which an async tool may hold the event loop before a warning says so."""

_HELD: dict[str, None] = {}
_MOST_HELD = 1000


class _Nested(local):
    """Seconds of this thread that tools inside of other tools account for."""

    seconds = 0.0


_nested = _Nested()


class Watched(Generic[T]):
    """Awaits an async tool, and warns once for each tool that holds the event loop.

    Each step from one ``await`` to the next is timed. What a tool inside it holds, as where an
    agent is a tool, counts for the inner one alone.

    Args:
        tool: The tool; "" for a run inside of a tool's call, whose own work is not the tool's.
        work: Its call.
        clock: Seconds that only grow.
    """

    __slots__ = ("_clock", "_tool", "_work")

    def __init__(
        self, tool: str, work: Awaitable[T], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._tool, self._work, self._clock = tool, work, clock

    def __await__(self) -> Generator[Any, Any, T]:
        """Begin the work."""
        steps: Any = _TimedSteps(self._work.__await__(), self._tool, self._clock)
        return steps


class _TimedSteps:
    """The methods of a generator that ``await`` uses."""

    __slots__ = ("_clock", "_steps", "_tool", "close")

    def __init__(self, steps: Any, tool: str, clock: Callable[[], float]) -> None:
        self._steps, self._tool, self._clock = steps, tool, clock
        self.close: Callable[[], None] = steps.close

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._timed(self._steps.__next__)

    def send(self, value: Any) -> Any:
        return self._timed(self._steps.send, value)

    def throw(self, *error: Any) -> Any:
        return self._timed(self._steps.throw, *error)

    def _timed(self, step: Callable[..., Any], *values: Any) -> Any:
        began, before = self._clock(), _nested.seconds
        try:
            return step(*values)
        finally:
            whole = self._clock() - began
            held = whole - (_nested.seconds - before)
            _nested.seconds = before + whole
            if held >= LONGEST_HOLD and self._tool and self._tool not in _HELD:
                _warn(self._tool, held)


def _warn(tool: str, held: float) -> None:
    _HELD[tool] = None
    if len(_HELD) > _MOST_HELD:
        del _HELD[next(iter(_HELD))]
    blocking_logger.warning(
        "Tool %r held the event loop for %.1f s: all else in this process waited, and no time-out "
        "or cancellation reaches it. What takes time is awaited (asyncio.sleep, an async client, "
        "asyncio.to_thread), or the tool is a plain function (def), which runs in a worker thread. "
        "This is said once for each tool; logging.getLogger(%r).setLevel('ERROR') turns it off.",
        tool, held, blocking_logger.name,
    )  # fmt: skip


def call_handler(
    tool: Tool, arguments: Any, context: ToolContext, report: Report
) -> Awaitable[Any]:
    """Call a tool's handler, in a worker thread if it is not async."""
    if tool.generator == "async":
        values = _result_of(tool.name, tool.invoke(arguments, context), report)
        return Watched(tool.name, values)
    if tool.is_async:
        return Watched(tool.name, tool.invoke(arguments, context))
    return _in_thread(tool, arguments, context, report)


async def _in_thread(tool: Tool, arguments: Any, context: ToolContext, report: Report) -> Any:
    # A function that blocks must not stop everything else in this process; a thread that a
    # time-out leaves behind cannot be stopped, so the run does not wait for it.
    def call() -> Any:
        try:
            found = tool.invoke(arguments, context)
            return found if tool.generator is None else _result_here(tool.name, found, report)
        except (CancelledError, GeneratorExit, SystemExit) as error:
            # It would end this process, or a task in it, and has no meaning in a thread.
            raise as_error(error) from error

    return await resolve(await in_thread(call))


def _progress_of(tool: str, value: object) -> Progress:
    """Return a yielded value as progress: a text, a fraction from 0 to 1, or any data.

    Raises:
        ConfigurationError: A `Progress` has a fraction that is none.
        ToolDefinitionError: The value has no JSON form.
    """
    if isinstance(value, Progress):
        fraction, data = value.fraction, value.data
        if fraction is not None and (wrong_number(fraction) or fraction > 1):
            raise ConfigurationError(
                f"Tool {tool!r} yielded Progress(fraction={fraction!r}): a fraction is a number "
                "from 0 to 1"
            )
        if data is None:
            return value
        return Progress(value.text, fraction, _json_of(tool, data))
    if isinstance(value, str):
        return Progress(value)
    if isinstance(value, float) and 0 <= value <= 1:
        return Progress(fraction=value)
    return Progress(data=_json_of(tool, value))


def _json_of(tool: str, value: object) -> Any:
    content: Any = data_content(tool, value)
    return content.get("data")


async def _result_of(tool: str, values: AsyncGenerator[Any, Any], report: Report) -> Any:
    """Return the last value of an async generator; report those before it.

    A `Progress` is reported at once. Other values are reported when the next value shows that they
    were not the last.
    """
    last: object = _NOTHING
    async with aclosing(values):
        async for value in values:
            if isinstance(value, Progress):
                await report(_progress_of(tool, value))
                continue
            if last is not _NOTHING:
                await report(_progress_of(tool, last))
            last = value
    return None if last is _NOTHING else last


def _result_here(tool: str, values: Generator[Any, Any, Any], report: Report) -> Any:
    """Return a generator's return value, or its last value, as `_result_of` does, in a thread."""
    tell = partial(anyio.from_thread.run, report)
    last: object = _NOTHING
    with closing(values):
        while True:
            try:
                value = next(values)
            except StopIteration as end:
                if end.value is None:
                    return None if last is _NOTHING else last
                if last is not _NOTHING:
                    tell(_progress_of(tool, last))
                return end.value
            if isinstance(value, Progress):
                tell(_progress_of(tool, value))
                continue
            if last is not _NOTHING:
                tell(_progress_of(tool, last))
            last = value
