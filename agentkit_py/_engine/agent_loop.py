"""Agent loop: one agent's turn, inferences with their tools until the model asks for none."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from agentkit_py._core.awaiting import resolve
from agentkit_py._engine.agent_spec import AgentSpec, Turn
from agentkit_py._engine.instrumentation import Monitor, logger
from agentkit_py._engine.lifecycle import ResultContext
from agentkit_py._engine.model_input import ModelInput, ModelInputBuilder, TurnServices
from agentkit_py._engine.run_context import RunContext
from agentkit_py._engine.tool import Tool
from agentkit_py._engine.tool_calls import ToolRunner, calls_of
from agentkit_py.errors import ContextOverflowError, MissingModelError
from agentkit_py.events.types import (
    ContextBuilt,
    ModelReplied,
    ReplyDelta,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
)
from agentkit_py.messages import Delta
from agentkit_py.models.base import Model
from agentkit_py.results import AgentResult

MAX_ITER = "max_iter"
"""The stop reason of a turn, or of a network, that used up its iterations."""


@dataclass(frozen=True, slots=True)
class TurnOptions:
    """Options of one agent turn."""

    path: str
    """Step id prefix, unique in the run."""

    model: Model | None = None
    """Overrides the agent's."""

    default_model: Model | None = None
    """The model if neither the run nor the agent has one."""

    max_iter: int | None = None
    """Another number of inferences than the agent's."""

    parent_run_id: str | None = None
    keep: bool = True
    """Add results to the transcript; False for routing agents."""


async def choose_model(run: RunContext, agent: AgentSpec, options: TurnOptions) -> Model:
    """Return the run's model, the agent's own, or the default.

    Raises:
        MissingModelError: There is none.
    """
    model = options.model
    if model is None and isinstance(agent.model, Model):
        model = agent.model
    elif model is None and agent.model is not None:
        model = await agent.choose_model(run.context_of(agent))
    model = model or options.default_model
    if model is None:
        raise MissingModelError(agent.name)
    return model


async def offered_tools(run: RunContext, agent: AgentSpec, step_id: str) -> Mapping[str, Tool]:
    """Return the tools, by name, that are offered to the model now, and may be called.

    Args:
        run: The run.
        agent: The agent.
        step_id: The step in which its servers are asked which tools they have.

    Raises:
        ToolSourceError: A server that is needed cannot be reached.
    """
    tools = agent.tools
    if agent.servers:
        tools = await run.sources.tools(
            agent.servers, tools, lambda ask: run.runtime.effect(step_id, ask, run.changes)
        )
    if agent.allowed_tools is None:
        return tools
    return await agent.allowed(tools, run.context_of(agent))


async def run_agent(run: RunContext, agent: AgentSpec, options: TurnOptions) -> AgentResult:
    """Run one agent's turn with its events; return its last result."""
    model = await choose_model(run, agent, options)
    path, runtime, monitor = options.path, run.runtime, run.monitor
    turn = Turn(
        agent, model, path, runtime.new_id(f"{path}/run"), runtime.new_id(f"{path}/message")
    )
    facts: dict[str, Any] = {**turn.facts, "scope": "agent"}
    if monitor.is_active:
        started = RunStarted(
            **facts,
            parent_run_id=options.parent_run_id,
            thread_id=run.state.thread_id,
            user_id=run.user_id,
            routing=not options.keep,
        )
        await monitor.emit_now(started)
    try:
        with monitor.inside(turn.run_id) if monitor.is_active else nullcontext():
            result = await _AgentLoop(run, turn, options).take_turn()
        if run.network is None and run.thread.config is not None:
            await run.thread.save_results()
    except CancelledError as error:
        if runtime.is_final(error):
            await monitor.emit_now(RunInterrupted(**facts))
        raise
    except Exception as error:
        if runtime.is_final(error):
            await monitor.emit_now(RunFailed(**facts, error=error))
        raise
    if monitor.is_active:
        await monitor.emit_now(RunCompleted(**facts, stop_reason=result.stop_reason))
    return result


def warn_of_unread_results(last: AgentResult | None) -> None:
    """Log that a run ends with tool results that no model has read."""
    if last is not None and last.tool_calls and last.stop_reason == MAX_ITER:
        logger.warning(
            "The run ends with results of tools that no model has read: agent %r has used up its "
            "inferences. Give it more with Agent(max_iter=…).",
            last.agent_name,
        )


@dataclass(slots=True)
class _AgentLoop:
    """The loop of one turn."""

    run: RunContext
    turn: Turn
    options: TurnOptions

    async def take_turn(self) -> AgentResult:
        """Infer until the model asks for no tools, or a limit is reached."""
        options, agent = self.options, self.turn.agent
        limit = max(1, agent.max_iter if options.max_iter is None else options.max_iter)
        reached = self._limit_reached("0")
        if reached is not None:
            return await self._stop(reached)
        last: AgentResult | None = None
        for iteration in range(limit):
            result = await self._iterate(iteration)
            if result is None:  # `on_start` stopped the turn before this inference
                break
            wants_more = bool(calls_of(result.output))
            reason = None
            if wants_more:
                is_last = iteration + 1 >= limit
                reason = MAX_ITER if is_last else self._limit_reached(f"{iteration}.after")
            is_over = reason is not None or not wants_more
            if is_over:
                result = await self._finish(result, reason)
            last = await self.run.add(result) if options.keep else result
            if is_over:
                return last
        return last or await self._stop("on_start")

    def _limit_reached(self, name: str) -> str | None:
        run, key = self.run, f"{self.turn.path}.{name}"
        return run.meter.reached(lambda: run.runtime.now(f"{key}/limit"))

    async def _stop(self, reason: str) -> AgentResult:
        """End a turn in which the model was not asked."""
        key, runtime = f"{self.turn.path}.stopped", self.run.runtime
        result = AgentResult(
            self.turn.agent.name,
            (),
            (),
            runtime.now(key),
            id=runtime.new_id(key),
            stop_reason=reason,
        )
        if self.options.keep and self.run.network is not None:
            return await self.run.add(result)
        return result

    async def _iterate(self, iteration: int) -> AgentResult | None:
        """Run one inference with its tools; None if `on_start` ended the turn."""
        run, turn = self.run, self.turn
        path = f"{turn.path}.{iteration}"
        with run.runtime.within(path):
            tools = await offered_tools(run, turn.agent, f"{path}.tools")
            services = TurnServices(run=run, turn=turn, path=path)
            builder = ModelInputBuilder(
                run=run, turn=turn, tools=tools, path=path, services=services
            )
            made = await builder.build()
            await self._announce(made)
            if made.stop:
                return None
            result = await self._infer(builder, made, is_first=iteration == 0)
            calls = calls_of(result.output)
            if not calls:
                return result
            results = await ToolRunner(run, turn, tools, path).run_all(calls)
            run.sources.called(call.name for call in calls)
            return replace(result, tool_calls=results)

    async def _announce(self, made: ModelInput) -> None:
        if self.run.monitor.is_active:
            await self.run.monitor.emit(ContextBuilt(**self.turn.facts, report=made.report))

    async def _infer(
        self, builder: ModelInputBuilder, made: ModelInput, *, is_first: bool
    ) -> AgentResult:
        run, turn, path = self.run, self.turn, builder.path
        refused: ContextOverflowError | None = None
        body: object = None
        try:
            body = await self._send(builder, made, f"{path}.infer")
        except ContextOverflowError as error:
            refused = error
        if refused is not None:
            body, made = await self._send_less(builder, made, refused)
        reply = turn.model.decode(body)
        run.meter.add(turn.model.model, reply.usage)
        name = turn.agent.name
        result = AgentResult(
            name,
            tuple([replace(m, agent=m.agent or name, from_history=False) for m in reply.messages]),
            (),
            run.runtime.now(path),
            made.report.prompt,
            made.history,
            reply=body,
            id=turn.message_id if is_first else run.runtime.new_id(path),
            usage=reply.usage,
            context=made.report,
        )
        hook = turn.agent.lifecycle.on_response
        if hook is not None:
            result = await resolve(hook(self._context(result))) or result
        if run.monitor.is_active:
            replied = ModelReplied(**turn.facts, messages=result.output, usage=result.usage)
            await run.monitor.emit_now(replied)
        return result

    async def _send_less(
        self, builder: ModelInputBuilder, made: ModelInput, refused: ContextOverflowError
    ) -> tuple[object, ModelInput]:
        """Send less than the provider could not take; return the answer and what was sent."""
        if self.run.mode == "typescript":
            raise refused
        shorter = await builder.build_shorter(made)
        if shorter.request.messages == made.request.messages:
            raise refused
        await self._announce(shorter)
        return await self._send(builder, shorter, f"{builder.path}.infer.shorter"), shorter

    async def _send(self, builder: ModelInputBuilder, made: ModelInput, step_id: str) -> object:
        run, model, on_delta = self.run, self.turn.model, self._on_delta()
        if not run.monitor.is_active:
            return await run.runtime.infer(
                step_id, model, lambda: model.encode(made.request), on_delta
            )
        call = builder.model_call(step_id, made)

        def make_body() -> dict[str, Any]:
            run.monitor.request_sent(call)  # here, since a replay makes no body
            return model.encode(made.request)

        with run.monitor.model_call(call):
            return await run.runtime.infer(step_id, model, make_body, on_delta)

    def _on_delta(self) -> _Deltas | None:
        agent = self.turn.agent
        waits = agent.lifecycle.on_response is not None and not agent.stream_before_response
        if waits or not self.run.monitor.wants_tokens:
            return None
        return _Deltas(self.run.monitor, self.turn)

    async def _finish(self, result: AgentResult, reason: str | None) -> AgentResult:
        """Return the last result of the turn, as `on_finish` wants it, with its stop reason."""
        hook = self.turn.agent.lifecycle.on_finish
        if hook is not None:
            with self.run.runtime.within(f"{self.turn.path}.finish"):
                result = await resolve(hook(self._context(result))) or result
        return result if result.stop_reason == reason else replace(result, stop_reason=reason)

    def _context(self, result: AgentResult) -> ResultContext:
        run = self.run
        return ResultContext(
            agent=self.turn.agent.agent, network=run.network, state=run.state, result=result
        )


@dataclass(frozen=True, slots=True)
class _Deltas:
    """Emits the pieces of a reply."""

    monitor: Monitor
    turn: Turn

    async def __call__(self, delta: Delta, /) -> None:
        await self.monitor.emit(ReplyDelta(**self.turn.facts, delta=delta))

    async def skip(self, delta: Delta, count: int, /) -> None:
        await self.monitor.skip(ReplyDelta(**self.turn.facts, delta=delta), count)
