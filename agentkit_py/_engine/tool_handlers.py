"""Tool handlers: functions, and generators that yield their progress before their result."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import aclosing, closing
from functools import partial
from typing import Any, TypeAlias

import anyio.from_thread

from agentkit_py._core.awaiting import resolve
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


def call_handler(
    tool: Tool, arguments: Any, context: ToolContext, report: Report
) -> Awaitable[Any]:
    """Call a tool's handler, in a worker thread if it is not async."""
    if tool.generator == "async":
        return _result_of(tool.name, tool.invoke(arguments, context), report)
    if tool.is_async:
        return tool.invoke(arguments, context)
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
