"""Running the tools that a model asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio.to_thread import run_sync

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonValue
from agentkit_py._engine.approvals import Asking, refusal
from agentkit_py._engine.arguments import InvalidArguments
from agentkit_py._engine.changes import RunChanges
from agentkit_py._engine.emitter import Emitter
from agentkit_py._engine.envelope import data_content, error_content
from agentkit_py._engine.lanes import Lanes
from agentkit_py._engine.scope import RunScope
from agentkit_py._engine.spans import CallTool
from agentkit_py._engine.tool import Tool, ToolContext
from agentkit_py._engine.tool_steps import CallSteps
from agentkit_py.errors import ConfigurationError, is_control_error
from agentkit_py.events.types import ToolFinished, ToolStarted
from agentkit_py.messages import Message, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.state import State

if TYPE_CHECKING:
    from agentkit_py._engine.turn import Turn
    from agentkit_py.agent import Agent


def calls_of(messages: Sequence[Message]) -> list[ToolCall]:
    """All tool calls in ``messages``, in order."""
    return [call for m in messages if isinstance(m, ToolCallMessage) for call in m.tools]


@dataclass(slots=True)
class Prepared:
    """A call that was looked at, and may be carried out unless it was refused."""

    step_id: str
    call: ToolCall
    tool: Tool | None
    arguments: Any
    refused: JsonValue | None = None
    """What the model reads instead of a result."""

    repeated: bool = False
    """Whether its result is remembered, so that nobody looks at its arguments."""


@dataclass(slots=True)
class ToolRunner:
    """Runs the calls of one reply."""

    scope: RunScope
    turn: Turn
    tools: Mapping[str, Tool]
    """What may be called now."""

    path: str
    """Step id prefix of the inference that asked."""

    @property
    def agent(self) -> Agent:
        """Whose turn it is."""
        return self.turn.agent

    async def run(self, calls: Sequence[ToolCall]) -> tuple[ToolResultMessage, ...]:
        """The results, in the order of the calls.

        Raises:
            NonRetriableError: A tool raised it (so with `RetryAfterError`).
            StateConflictError: Two parallel tools changed the same key.
        """
        prepared = [self._prepare(index, call) for index, call in enumerate(calls)]
        if any(map(_may_need_approval, prepared)):
            await self._approve(prepared)
        if self.agent.parallel_tools and len(calls) > 1:
            return await self._run_together(prepared)
        found: list[ToolResultMessage] = []
        for one in prepared:
            if self.scope.emitter.is_heard:
                await self._begin(one)
            found.append(await self.run_one(one, self.scope.state))
        return tuple(found)

    def _prepare(self, index: int, call: ToolCall) -> Prepared:
        tool, step_id = self.tools.get(call.name), f"{self.path}.tool.{index}.{call.name}"
        if tool is None:
            return Prepared(step_id, call, None, None, self._unknown(call))
        if call.malformed is not None:
            text = f"The arguments are no JSON: {call.malformed[:200]}"
            return Prepared(step_id, call, None, None, error_content("InvalidArgumentsError", text))
        if self._is_repeated(step_id, tool):
            return Prepared(step_id, call, tool, None, repeated=True)
        try:
            arguments = tool.validate(call)
        except InvalidArguments as error:
            refused = error_content("InvalidArgumentsError", str(error), issues=error.issues)
            return Prepared(step_id, call, None, None, refused)
        return Prepared(step_id, call, tool, arguments)

    def _is_repeated(self, step_id: str, tool: Tool) -> bool:
        """Whether only the remembered result is needed: nobody will look at the arguments."""
        simple = not tool.steps and tool.needs_approval is False
        return simple and self.scope.runtime.remembers(step_id)

    def _unknown(self, call: ToolCall) -> JsonValue:
        listed = ", ".join(self.tools)
        offer = f"Available: {listed}." if listed else "There are no tools now."
        if self.agent.may_have(call.name):
            text = f"{call.name!r} may not be called now. {offer}"
            return error_content("ToolNotAllowedError", text)
        offer = offer if self.tools or self.agent.tool_map else "This agent has no tools."
        return error_content("UnknownToolError", f"There is no tool {call.name!r}. {offer}")

    async def _approve(self, prepared: Sequence[Prepared]) -> None:
        """Ask a person once for all calls that need it; what is refused is not called."""
        waiting = await self._waiting([one for one in prepared if _may_need_approval(one)])
        tools = [one.tool for one in waiting if one.tool is not None]
        if not tools:
            return
        thread = self.scope.thread
        steps = CallSteps(self.scope.runtime.step, self.path, thread=thread, allowed=True)
        answer = await self._asking(steps).ask(
            steps.full_id("approve"),
            calls=[one.call for one in waiting],
            timeout=min(tool.approval_timeout for tool in tools),
        )
        for index, one in enumerate(waiting):
            one.refused = refusal(one.call, answer, index)

    async def _waiting(self, candidates: Sequence[Prepared]) -> Sequence[Prepared]:
        """Those of ``candidates`` for which a person is to be asked."""
        if all(
            one.tool and one.tool.needs_approval is True and not one.tool.check
            for one in candidates
        ):
            return candidates
        # One step for all, as a replay must come to the same question.
        look = partial(self._look, candidates)
        found = await self.scope.runtime.effect(f"{self.path}.before", look, self.scope.changes)
        for one, word in zip(candidates, found, strict=True):
            one.refused = word["refused"]
        return [one for one, word in zip(candidates, found, strict=True) if word["ask"]]

    async def _look(self, candidates: Sequence[Prepared]) -> list[dict[str, Any]]:
        return [await self._look_at(one) for one in candidates]

    async def _look_at(self, one: Prepared) -> dict[str, Any]:
        context = self._context(one, self.scope.state, may_step=False)
        refused = await _check(one, context)
        if refused is not None:
            return {"refused": refused, "ask": False}
        assert one.tool is not None
        needed = one.tool.needs_approval
        try:
            ask = needed if isinstance(needed, bool) else await resolve(needed(context))
        except Exception as error:
            if is_control_error(error):
                raise
            return {"refused": error_content(type(error).__name__, str(error)), "ask": False}
        return {"refused": None, "ask": bool(ask)}

    async def _run_together(self, prepared: Sequence[Prepared]) -> tuple[ToolResultMessage, ...]:
        if self.scope.emitter.is_heard:
            for one in prepared:
                await self._begin(one)
        forks = [(one.call.name, self.scope.state.fork()) for one in prepared]
        lanes = Lanes(self.scope.emitter, len(prepared))
        branches = [
            partial(lanes.run, index, partial(self._on(lane).run_one, one, fork))
            for index, (one, lane, (_, fork)) in enumerate(
                zip(prepared, lanes.lanes, forks, strict=True)
            )
        ]
        network = self.scope.network
        mark = network.part() if network is not None else 0
        outcomes = await self.scope.runtime.parallel(branches)
        if network is not None:
            network.join(mark)
        errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        if errors:
            raise errors[0]
        self.scope.state.merge(forks)
        return tuple(m for m in outcomes if isinstance(m, ToolResultMessage))

    def _on(self, lane: Emitter) -> ToolRunner:
        return replace(self, scope=replace(self.scope, emitter=lane))

    @property
    def _where(self) -> dict[str, Any]:
        turn = self.turn
        return {"run_id": turn.run_id, "name": turn.agent.name, "message_id": turn.message_id}

    async def _begin(self, one: Prepared) -> None:
        await self.scope.emitter.emit(ToolStarted(**self._where, call=one.call))

    async def run_one(self, one: Prepared, state: State[Any]) -> ToolResultMessage:
        """The result of one call."""
        content = self._recalled(one, state) if one.repeated else None
        if content is None:
            content = await self._content(one, state)
        result = ToolResultMessage(one.call, content, agent=self.agent.name)
        if self.scope.emitter.is_heard:
            await self.scope.emitter.emit(ToolFinished(**self._where, result=result))
        return result

    def _recalled(self, one: Prepared, state: State[Any]) -> JsonValue:
        """What a call gave that is remembered; None: `_content` says it."""
        scope = self.scope
        if scope.spans is not None:
            return None
        return scope.runtime.recall(one.step_id, RunChanges(state, scope.network))

    async def _content(self, one: Prepared, state: State[Any]) -> JsonValue:
        if one.refused is not None or one.tool is None:
            return one.refused
        scope = self.scope
        changes = scope.changes if state is scope.state else RunChanges(state, scope.network)
        if not one.tool.steps:
            call = self._measured(one, partial(self._checked, one, state))
            return await scope.runtime.effect(one.step_id, call, changes)
        if one.tool.check is not None:
            again = partial(_check, one, self._context(one, state, may_step=False))
            name = f"{one.step_id}.check"
            refused = await scope.runtime.effect(name, again, changes)
            if refused is not None:
                return refused
        with scope.runtime.within(one.step_id):
            context = self._context(one, state)
            return await self._measured(one, partial(self._invoke, one, context))()

    def _measured(self, one: Prepared, handler: CallTool) -> CallTool:
        spans = self.scope.spans
        if spans is None or one.tool is None:
            return handler
        tool = one.tool
        step_id = one.step_id
        return spans.tool_call(step_id, one.call, tool.description, handler, lasting=tool.steps)

    async def _checked(self, one: Prepared, state: State[Any]) -> JsonValue:
        """The call, unless something stands against it now: much happens while a person thinks."""
        context = self._context(one, state)
        if one.tool is not None and one.tool.check is not None:
            refused = await _check(one, context)
            if refused is not None:
                return refused
        return await self._invoke(one, context)

    def _asking(self, steps: CallSteps) -> Asking:
        return Asking(self.scope, self.turn, steps)

    def _context(
        self, one: Prepared, state: State[Any], *, may_step: bool | None = None
    ) -> ToolContext:
        allowed = one.tool is not None and one.tool.steps if may_step is None else may_step
        steps = CallSteps(
            self.scope.runtime.step,
            one.step_id,
            thread=self.scope.thread,
            allowed=allowed,
        )
        return ToolContext(
            agent=self.agent,
            network=self.scope.network,
            state=state,
            step=steps,
            call=one.call,
            arguments=one.arguments,
            asking=self._asking(steps),
        )

    async def _invoke(self, one: Prepared, context: ToolContext) -> JsonValue:
        tool = one.tool
        assert tool is not None
        # A tool that waits, perhaps for a person, takes as long as it takes.
        limit = None if tool.steps else self.scope.meter.limits.tool_timeout
        value: object = None
        timer: anyio.CancelScope | None = None
        try:
            if limit is None:
                value = await _call(tool, one.arguments, context)
            else:
                with anyio.move_on_after(limit) as timer:
                    value = await _call(tool, one.arguments, context)
        except ConfigurationError:
            raise  # the developer's error: no model can do anything about it
        except Exception as error:
            if is_control_error(error):
                raise
            return error_content(type(error).__name__, str(error))
        if timer is not None and timer.cancelled_caught:
            return error_content("ToolTimeoutError", f"{tool.name} took more than {limit} s")
        return data_content(tool.name, value)


def _may_need_approval(one: Prepared) -> bool:
    return one.refused is None and one.tool is not None and one.tool.needs_approval is not False


async def _check(one: Prepared, context: ToolContext) -> JsonValue | None:
    """What stands against the call, as the model reads it; a check that fails does, too.

    Raises:
        ConfigurationError: The check returned something else than a sentence or None.
    """
    if one.tool is None or one.tool.check is None:
        return None
    try:
        problem = await resolve(one.tool.check(context))
    except Exception as error:
        if is_control_error(error):
            raise
        return error_content(type(error).__name__, str(error))
    if problem is None:
        return None
    if not isinstance(problem, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"The check of {one.tool.name} must return a sentence or None, got {problem!r:.80}"
        )
    return error_content("PreconditionError", problem)


def _call(tool: Tool, arguments: Any, context: ToolContext) -> Awaitable[Any]:
    if tool.is_async:
        return tool.invoke(arguments, context)
    return _in_thread(tool, arguments, context)


async def _in_thread(tool: Tool, arguments: Any, context: ToolContext) -> Any:
    # A function that blocks must not stop everything else in this process; a thread that a
    # time-out leaves behind cannot be stopped, so the run does not wait for it.
    call = partial(tool.invoke, arguments, context)
    return await resolve(await run_sync(call, abandon_on_cancel=True))
