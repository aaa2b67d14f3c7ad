"""Running the tools that a model asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonValue
from agentkit_py.engine.approvals import Asking, refusal
from agentkit_py.engine.changes import RunChanges
from agentkit_py.engine.envelope import data_content, error_content
from agentkit_py.engine.scope import RunScope
from agentkit_py.engine.tool import Steps, Tool, ToolContext
from agentkit_py.engine.tool_schema import InvalidArguments
from agentkit_py.errors import passes_through
from agentkit_py.events.types import ToolFinished, ToolStarted
from agentkit_py.history.state import State
from agentkit_py.messages import Message, ToolCall, ToolCallMessage, ToolResultMessage

if TYPE_CHECKING:
    from agentkit_py.engine.agent import Agent


def calls_of(messages: Sequence[Message]) -> list[ToolCall]:
    """All tool calls in ``messages``, in order."""
    return [call for m in messages if isinstance(m, ToolCallMessage) for call in m.tools]


@dataclass(slots=True)
class Prepared:
    """A call that was looked at, and may be carried out unless it was refused."""

    index: int
    call: ToolCall
    tool: Tool | None
    arguments: Any
    refused: JsonValue | None = None
    """What the model reads instead of a result."""


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
        prepared = [await self._prepare(index, call) for index, call in enumerate(calls)]
        await self._approve(prepared)
        if self.agent.parallel_tools and len(calls) > 1:
            return await self._run_together(prepared)
        return tuple([await self._run_one(one, self.scope.state) for one in prepared])

    async def _prepare(self, index: int, call: ToolCall) -> Prepared:
        tool = self.agent.tool_map.get(call.name)
        if tool is None:
            return Prepared(index, call, None, None, _unknown_tool(call, self.agent.tool_map))
        if call.malformed is not None:
            text = f"The arguments are no JSON: {call.malformed[:200]}"
            return Prepared(index, call, None, None, error_content("InvalidArgumentsError", text))
        try:
            arguments = tool.validate(call)
        except InvalidArguments as error:
            refused = error_content("InvalidArgumentsError", str(error), issues=error.issues)
            return Prepared(index, call, None, None, refused)
        return Prepared(index, call, tool, arguments)

    async def _approve(self, prepared: Sequence[Prepared]) -> None:
        """Ask a person once for all calls that need it; what is refused is not called."""
        waiting = [one for one in prepared if await self._needs_approval(one)]
        if not waiting:
            return
        tools = [one.tool for one in waiting if one.tool is not None]
        answer = await self._asking().ask(
            f"{self.path}.approve",
            calls=[one.call for one in waiting],
            timeout=min(tool.approval_timeout for tool in tools),
        )
        for index, one in enumerate(waiting):
            # Much may have happened while a person thought, so the tool looks again.
            one.refused = refusal(one.call, answer, index) or await self._check(one)

    async def _needs_approval(self, one: Prepared) -> bool:
        tool = one.tool
        if tool is None or tool.needs_approval is False:
            return False
        one.refused = await self._check(one)
        if one.refused is not None:
            return False
        if tool.needs_approval is True:
            return True
        return bool(await resolve(tool.needs_approval(self._context(one, self.scope.state))))

    async def _check(self, one: Prepared) -> JsonValue | None:
        if one.tool is None or one.tool.check is None:
            return None
        problem = await resolve(one.tool.check(self._context(one, self.scope.state)))
        return None if problem is None else error_content("PreconditionError", problem)

    async def _run_together(self, prepared: Sequence[Prepared]) -> tuple[ToolResultMessage, ...]:
        forks = [(one.call.name, self.scope.state.fork()) for one in prepared]
        branches = [
            partial(self._run_one, one, fork)
            for one, (_, fork) in zip(prepared, forks, strict=True)
        ]
        outcomes = await self.scope.runtime.parallel(branches)
        errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        if errors:
            raise errors[0]
        self.scope.state.merge(forks)
        return tuple(m for m in outcomes if isinstance(m, ToolResultMessage))

    async def _run_one(self, one: Prepared, state: State[Any]) -> ToolResultMessage:
        where = {"run_id": self.run_id, "name": self.agent.name, "message_id": self.message_id}
        await self.scope.emitter.emit(ToolStarted(**where, call=one.call))
        content = await self._content(one, state)
        result = ToolResultMessage(one.call, content, agent=self.agent.name)
        await self.scope.emitter.emit(ToolFinished(**where, result=result))
        return result

    async def _content(self, one: Prepared, state: State[Any]) -> JsonValue:
        if one.refused is not None or one.tool is None:
            return one.refused
        handler = partial(self._invoke, one.tool, one.arguments, self._context(one, state))
        if one.tool.steps:
            return await handler()
        changes = RunChanges(state, self.scope.network)
        return await self.scope.runtime.effect(self._step_id(one), handler, changes)

    def _step_id(self, one: Prepared) -> str:
        return f"{self.path}.tool.{one.index}.{one.call.name}"

    def _asking(self) -> Asking:
        return Asking(
            scope=self.scope,
            agent=self.agent.name,
            run_id=self.run_id,
            message_id=self.message_id,
        )

    def _context(self, one: Prepared, state: State[Any]) -> ToolContext:
        return ToolContext(
            agent=self.agent,
            network=self.scope.network,
            state=state,
            step=self.scope.runtime.step,
            call=one.call,
            arguments=one.arguments,
            steps=Steps(
                self._asking(), self._step_id(one), allowed=bool(one.tool and one.tool.steps)
            ),
        )

    def _steps(self, one: Prepared) -> Steps:
        allowed = one.tool is not None and one.tool.steps
        return Steps(self._asking(), self._step_id(one), allowed=allowed)

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
        return data_content(tool.name, value)


async def _call(tool: Tool, arguments: Any, context: ToolContext) -> Any:
    if tool.is_async:
        return await tool.invoke(arguments, context)
    # A function that blocks must not stop everything else in this process; a thread that a
    # time-out leaves behind cannot be stopped, so the run does not wait for it.
    call = partial(tool.invoke, arguments, context)
    return await resolve(await anyio.to_thread.run_sync(call, abandon_on_cancel=True))


def _unknown_tool(call: ToolCall, names: Iterable[str]) -> JsonValue:
    listed = ", ".join(names)
    offer = f"Available: {listed}." if listed else "This agent has no tools."
    return error_content("UnknownToolError", f"There is no tool {call.name!r}. {offer}")
