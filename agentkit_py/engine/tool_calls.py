"""Running the tools that a model asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from pydantic_core import from_json, to_json, to_jsonable_python

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonValue, find_non_json
from agentkit_py.engine.changes import RunChanges
from agentkit_py.engine.scope import RunScope
from agentkit_py.engine.tool import Tool, ToolContext
from agentkit_py.engine.tool_schema import InvalidArguments
from agentkit_py.errors import ToolDefinitionError, passes_through
from agentkit_py.events.types import ToolFinished, ToolStarted
from agentkit_py.history.state import State
from agentkit_py.messages import Message, ToolCall, ToolCallMessage, ToolResultMessage

if TYPE_CHECKING:
    from agentkit_py.engine.agent import Agent


def calls_of(messages: Sequence[Message]) -> list[ToolCall]:
    """All tool calls in ``messages``, in order."""
    return [call for m in messages if isinstance(m, ToolCallMessage) for call in m.tools]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRunner:
    """Runs the calls of one reply."""

    scope: RunScope
    agent: Agent
    run_id: str
    message_id: str
    path: str
    """Step id prefix of the inference that asked."""

    async def run(self, calls: Sequence[ToolCall]) -> tuple[ToolResultMessage, ...]:
        """The results, in the order of the calls.

        Raises:
            NonRetriableError: A tool raised it (so with `RetryAfterError`).
            StateConflictError: Two parallel tools changed the same key.
        """
        if self.agent.parallel_tools and len(calls) > 1:
            return await self._run_together(calls)
        state = self.scope.state
        return tuple([await self._run_one(i, call, state) for i, call in enumerate(calls)])

    async def _run_together(self, calls: Sequence[ToolCall]) -> tuple[ToolResultMessage, ...]:
        forks = [(call.name, self.scope.state.fork()) for call in calls]
        branches = [
            partial(self._run_one, index, call, fork)
            for index, (call, (_, fork)) in enumerate(zip(calls, forks, strict=True))
        ]
        outcomes = await self.scope.runtime.parallel(branches)
        errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        if errors:
            raise errors[0]
        self.scope.state.merge(forks)
        return tuple(m for m in outcomes if isinstance(m, ToolResultMessage))

    async def _run_one(self, index: int, call: ToolCall, state: State[Any]) -> ToolResultMessage:
        where = {"run_id": self.run_id, "name": self.agent.name, "message_id": self.message_id}
        await self.scope.emitter.emit(ToolStarted(**where, call=call))
        content = await self._content(f"{self.path}.tool.{index}.{call.name}", call, state)
        result = ToolResultMessage(call, content, agent=self.agent.name)
        await self.scope.emitter.emit(ToolFinished(**where, result=result))
        return result

    async def _content(self, step_id: str, call: ToolCall, state: State[Any]) -> JsonValue:
        tool = self.agent.tool_map.get(call.name)
        if tool is None:
            return _unknown_tool(call, list(self.agent.tool_map))
        if call.malformed is not None:
            return error_content(
                "InvalidArgumentsError", f"The arguments are no JSON: {call.malformed[:200]}"
            )
        try:
            arguments = tool.validate(call)
        except InvalidArguments as error:
            return error_content("InvalidArgumentsError", str(error), issues=error.issues)
        handler = partial(self._invoke, tool, arguments, self._context(call, state))
        if tool.steps:
            return await handler()
        changes = RunChanges(state, self.scope.network)
        return await self.scope.runtime.effect(step_id, handler, changes)

    def _context(self, call: ToolCall, state: State[Any]) -> ToolContext:
        return ToolContext(
            agent=self.agent,
            network=self.scope.network,
            state=state,
            step=self.scope.runtime.step,
            call=call,
        )

    async def _invoke(self, tool: Tool, arguments: Any, context: ToolContext) -> JsonValue:
        limit = self.scope.meter.limits.tool_timeout
        value: object = None
        try:
            with anyio.move_on_after(limit) as timer:
                value = await _call(tool, arguments, context)
        except Exception as error:
            if passes_through(error):
                raise
            return error_content(type(error).__name__, str(error))
        if timer.cancelled_caught:
            return error_content("ToolTimeoutError", f"{tool.name} took more than {limit} s")
        return {"data": _to_json(tool, value)}


async def _call(tool: Tool, arguments: Any, context: ToolContext) -> Any:
    if tool.is_async:
        return await tool.invoke(arguments, context)
    # A function that blocks must not stop everything else in this process; a thread that a
    # time-out leaves behind cannot be stopped, so the run does not wait for it.
    call = partial(tool.invoke, arguments, context)
    return await resolve(await anyio.to_thread.run_sync(call, abandon_on_cancel=True))


def _to_json(tool: Tool, value: object) -> JsonValue:
    if value is None:
        return f"{tool.name} successfully executed"
    try:
        plain = to_jsonable_python(value)
        # What is left that JSON has no form for are NaN and the infinities.
        if find_non_json(plain) is not None:
            plain = from_json(to_json(plain, inf_nan_mode="strings"))
        return plain
    except (ValueError, RecursionError) as error:  # pydantic's own are ValueErrors, too
        raise ToolDefinitionError(
            tool.name, f"it returned {type(value).__name__}, which has no JSON form: {error}"
        ) from error


def error_content(name: str, message: str, **facts: JsonValue) -> JsonValue:
    """The envelope by which a model learns of an error: no stack trace, nothing of the machine."""
    return {"error": {"name": name, "message": message or name, **facts}}


def _unknown_tool(call: ToolCall, names: list[str]) -> JsonValue:
    offer = f"Available: {', '.join(names)}." if names else "This agent has no tools."
    return error_content("UnknownToolError", f"There is no tool {call.name!r}. {offer}")
