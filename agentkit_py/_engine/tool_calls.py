"""Tool calls: checking, approving and carrying out what a model asked for."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import anyio

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonValue
from agentkit_py._engine.agent_spec import AgentSpec, Turn
from agentkit_py._engine.approvals import CallDesk, refused_content
from agentkit_py._engine.call_steps import CallSteps
from agentkit_py._engine.concurrency import in_thread, run_in_parallel
from agentkit_py._engine.instrumentation import CallTool, Monitor
from agentkit_py._engine.run_context import RunContext
from agentkit_py._engine.state_changes import StateChanges
from agentkit_py._engine.tool import Tool, ToolContext
from agentkit_py._engine.tool_values import InvalidArguments, data_content, error_content
from agentkit_py.errors import ConfigurationError, is_control_error
from agentkit_py.events.types import ToolFinished, ToolStarted
from agentkit_py.messages import Message, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.state import State


def calls_of(messages: Sequence[Message]) -> list[ToolCall]:
    """Return all tool calls in ``messages``, in order."""
    return [call for m in messages if isinstance(m, ToolCallMessage) for call in m.tools]


@dataclass(slots=True)
class Prepared:
    """A call whose arguments were checked, to be carried out unless it was refused."""

    step_id: str
    call: ToolCall
    tool: Tool | None
    arguments: Any
    refused: JsonValue | None = None
    """The error sent to the model instead of a result."""


@dataclass(slots=True)
class ToolRunner:
    """Runs the calls of one reply."""

    run: RunContext
    turn: Turn
    tools: Mapping[str, Tool]
    """The tools that may be called now."""

    path: str
    """Step id prefix of the inference that asked."""

    @property
    def agent(self) -> AgentSpec:
        """The agent whose turn it is."""
        return self.turn.agent

    async def run_all(self, calls: Sequence[ToolCall]) -> tuple[ToolResultMessage, ...]:
        """Run all calls of a reply; return the results in their order.

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
            await self._announce(one)
            found.append(await self.run_one(one, self.run.state))
        return tuple(found)

    def _prepare(self, index: int, call: ToolCall) -> Prepared:
        tool, step_id = self.tools.get(call.name), f"{self.path}.tool.{index}.{call.name}"
        if tool is None:
            return Prepared(step_id, call, None, None, self._unknown(call))
        if call.malformed is not None:
            text = f"The arguments are no JSON: {call.malformed[:200]}"
            return Prepared(step_id, call, None, None, error_content("InvalidArgumentsError", text))
        try:
            arguments = tool.validate(call)
        except InvalidArguments as error:
            refused = error_content("InvalidArgumentsError", str(error), issues=error.issues)
            return Prepared(step_id, call, None, None, refused)
        return Prepared(step_id, call, tool, arguments)

    def _unknown(self, call: ToolCall) -> JsonValue:
        listed = ", ".join(self.tools)
        offer = f"Available: {listed}." if listed else "There are no tools now."
        if self.agent.may_have(call.name):
            text = f"{call.name!r} may not be called now. {offer}"
            return error_content("ToolNotAllowedError", text)
        offer = offer if self.tools or self.agent.tools else "This agent has no tools."
        return error_content("UnknownToolError", f"There is no tool {call.name!r}. {offer}")

    async def _approve(self, prepared: Sequence[Prepared]) -> None:
        """Ask a person once for all calls that need it, and mark those that were refused."""
        waiting = await self._needing_approval([one for one in prepared if _may_need_approval(one)])
        tools = [one.tool for one in waiting if one.tool is not None]
        if not tools:
            return
        thread = self.run.thread
        steps = CallSteps(self.run.runtime.step, self.path, thread=thread, allowed=True)
        answer = await CallDesk(self.run, self.turn, steps).ask(
            steps.full_id("approve"),
            calls=[one.call for one in waiting],
            timeout=min(tool.approval_timeout for tool in tools),
        )
        for index, one in enumerate(waiting):
            one.refused = refused_content(one.call, answer, index)

    async def _needing_approval(self, candidates: Sequence[Prepared]) -> list[Prepared]:
        """Return the calls that need approval; marks those that something stands against."""
        if all(
            one.tool and one.tool.needs_approval is True and not one.tool.check
            for one in candidates
        ):
            return list(candidates)
        # One step for all, as a replay must come to the same question.
        examine = partial(self._examine_all, candidates)
        run = self.run
        found = await run.runtime.effect(f"{self.path}.before", examine, run.changes)
        for one, word in zip(candidates, found, strict=True):
            one.refused = word["refused"]
        return [one for one, word in zip(candidates, found, strict=True) if word["ask"]]

    async def _examine_all(self, candidates: Sequence[Prepared]) -> list[dict[str, Any]]:
        return [await self._examine(one) for one in candidates]

    async def _examine(self, one: Prepared) -> dict[str, Any]:
        context = self._context(one, self.run.state, may_step=False)
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
        run = self.run
        for one in prepared:
            await self._announce(one)
        forks = [(one.call.name, run.state.fork()) for one in prepared]

        async def call(one: Prepared, fork: State[Any], monitor: Monitor) -> ToolResultMessage:
            runner = replace(self, run=replace(run, monitor=monitor))
            return await runner.run_one(one, fork)

        calls = [partial(call, one, fork) for one, (_, fork) in zip(prepared, forks, strict=True)]
        network = run.network
        stack = [] if network is None else network.stack
        outcomes = await run_in_parallel(run.runtime, run.monitor, network, stack, calls)
        errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        if errors:
            raise errors[0]
        run.state.merge(forks)
        return tuple(outcomes)

    async def _announce(self, one: Prepared) -> None:
        if self.run.monitor.is_active:
            await self.run.monitor.emit(ToolStarted(**self.turn.facts, call=one.call))

    async def run_one(self, one: Prepared, state: State[Any]) -> ToolResultMessage:
        """Run one call on a state; return its result."""
        content = await self._content(one, state)
        result = ToolResultMessage(one.call, content, agent=self.agent.name, from_history=False)
        if self.run.monitor.is_active:
            await self.run.monitor.emit(ToolFinished(**self.turn.facts, result=result))
        return result

    async def _content(self, one: Prepared, state: State[Any]) -> JsonValue:
        if one.refused is not None or one.tool is None:
            return one.refused
        run = self.run
        changes = run.changes if state is run.state else StateChanges(state, run.network)
        if not one.tool.steps:
            call = self._watched(one, partial(self._checked, one, state))
            return await run.runtime.effect(one.step_id, call, changes)
        if one.tool.check is not None:
            again = partial(_check, one, self._context(one, state, may_step=False))
            name = f"{one.step_id}.check"
            refused = await run.runtime.effect(name, again, changes)
            if refused is not None:
                return refused
        with run.runtime.within(one.step_id):
            context = self._context(one, state, may_step=True)
            return await self._watched(one, partial(self._invoke, one, context))()

    def _watched(self, one: Prepared, handler: CallTool) -> CallTool:
        monitor, tool = self.run.monitor, one.tool
        if tool is None or not monitor.is_active:
            return handler
        return monitor.tool_call(
            one.step_id, one.call, tool.description, handler, lasting=tool.steps
        )

    async def _checked(self, one: Prepared, state: State[Any]) -> JsonValue:
        """Carry the call out, unless something stands against it since a person agreed."""
        context = self._context(one, state, may_step=False)
        refused = await _check(one, context)
        return await self._invoke(one, context) if refused is None else refused

    def _context(self, one: Prepared, state: State[Any], *, may_step: bool) -> ToolContext:
        run = self.run
        steps = CallSteps(run.runtime.step, one.step_id, thread=run.thread, allowed=may_step)
        return ToolContext(
            agent=self.agent.agent,
            network=run.network,
            state=state,
            step=steps,
            call=one.call,
            arguments=one.arguments,
            services=CallDesk(run, self.turn, steps),
        )

    async def _invoke(self, one: Prepared, context: ToolContext) -> JsonValue:
        tool = one.tool
        assert tool is not None
        # A tool that waits, perhaps for a person, takes as long as it takes.
        limit = None if tool.steps else self.run.meter.limits.tool_timeout
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
    """Return what stands against the call, as the model reads it; a failing check does, too.

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
    return await resolve(await in_thread(call))
