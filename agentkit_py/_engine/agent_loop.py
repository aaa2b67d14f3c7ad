"""Agent loop: one agent's turn, inferences with their tools until the model asks for none."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonValue
from agentkit_py._engine.agent_spec import AgentSpec, ModelChoice, Turn, chosen_model
from agentkit_py._engine.answers import AnswerReader
from agentkit_py._engine.definition import digest_of_messages
from agentkit_py._engine.guarding import Guards, Trip, TurnStopped
from agentkit_py._engine.guardrails import NO_GUARDRAILS
from agentkit_py._engine.handoffs import handed_over
from agentkit_py._engine.instrumentation import logger
from agentkit_py._engine.lifecycle import ResultContext
from agentkit_py._engine.limits import NO_LIMITS, RESULT, expect
from agentkit_py._engine.model_calls import emit_context, model_caller
from agentkit_py._engine.model_input import ModelInput, ModelInputBuilder, TurnServices
from agentkit_py._engine.reasoning import bound_reply
from agentkit_py._engine.run_context import RunContext
from agentkit_py._engine.tool import Tool
from agentkit_py._engine.tool_calls import ToolRunner, calls_of
from agentkit_py._engine.tool_values import error_content
from agentkit_py._engine.transcript import GUARDRAIL, INTERRUPTED
from agentkit_py.errors import (
    EmptyReplyError,
    MissingModelError,
    OutputError,
)
from agentkit_py.events.types import (
    ModelReplied,
    OutputDelta,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
)
from agentkit_py.history.staff import TAKEN_OVER
from agentkit_py.messages import ToolCall
from agentkit_py.models.base import Model
from agentkit_py.results import NO_VALUE, AgentResult, replied
from agentkit_py.runtime.containing import contained

MAX_ITER = "max_iter"
"""The stop reason of a turn, or of a network, that used up its iterations."""

MAX_PAUSES = 10
"""The most times that a turn goes on with a paused reply; these do not count otherwise."""


class TurnOptions(NamedTuple):
    """Options of one agent turn."""

    path: str
    """Step id prefix, unique in the run."""

    model: ModelChoice = None
    """Overrides the agent's."""

    default_model: ModelChoice = None
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
    for choice in (options.model, agent.model, options.default_model):
        if choice is not None:
            where = f"Agent {agent.name!r}"
            return run.guarded(await chosen_model(choice, run.context_of(agent), where))
    raise MissingModelError(agent.name)


async def offered_tools(
    run: RunContext, agent: AgentSpec, step_id: str, run_id: str = ""
) -> Mapping[str, Tool]:
    """Return the tools, by name, that are offered to the model now, and may be called.

    Args:
        run: The run.
        agent: The agent.
        step_id: The step in which its servers are asked which tools they have.
        run_id: The agent's run, for those who watch.

    Raises:
        ToolSourceError: A server that is needed cannot be reached.
    """
    tools = agent.tools
    if agent.servers:
        tools = await run.sources.tools(
            agent.servers,
            tools,
            lambda ask: run.runtime.effect(step_id, ask, run.changes),
            partial(run.monitor.listing, run_id),
        )
    if agent.allowed_tools is not None:
        tools = await agent.allowed(tools, run.context_of(agent))
    return {**tools, **await _offered_handoffs(run, agent)} if agent.handoffs else tools


async def _offered_handoffs(run: RunContext, agent: AgentSpec) -> Mapping[str, Tool]:
    """Return the tools by which the agent may hand over now; only networks follow."""
    network, found = run.network, dict[str, Tool]()
    for name, (handoff, tool) in agent.handoffs.items():
        target = None if network is None else network.agents.get(handoff.target)
        if target is None:
            continue
        spec = run.spec_of(target)
        may = handoff.when is None or await resolve(handoff.when(run.context_of(agent)))
        if may and await spec.is_enabled(run.context_of(spec)):
            found[name] = tool
    return found


async def run_agent(run: RunContext, agent: AgentSpec, options: TurnOptions) -> AgentResult:
    """Run one agent's turn with its events; return its last result."""
    model = await choose_model(run, agent, options)
    path, runtime, monitor = options.path, run.runtime, run.monitor
    run_id, message_id = runtime.new_id(f"{path}/run"), runtime.new_id(f"{path}/message")
    turn = run.turn_of(agent, model, path, run_id, message_id)
    if monitor.is_active:
        started = RunStarted(
            **turn.run_facts,
            parent_run_id=options.parent_run_id,
            thread_id=run.state.thread_id,
            user_id=run.user_id,
            routing=not options.keep,
        )
        await monitor.emit_now(started)
    try:
        with monitor.inside(turn.run_id) if monitor.is_active else nullcontext():
            result = await contained(_AgentLoop(run, turn, options).take_turn)
        if run.network is None and run.thread.config is not None:
            await run.thread.save_results()
    except CancelledError as error:
        if runtime.is_final(error):
            await monitor.emit_now(RunInterrupted(**turn.run_facts))
        raise
    except Exception as error:
        if runtime.is_final(error):
            await monitor.emit_now(RunFailed(**turn.run_facts, error=error))
        raise
    if monitor.is_active:
        await monitor.emit_now(RunCompleted(**turn.run_facts, stop_reason=result.stop_reason))
    return result


def warn_of_unread_results(last: AgentResult | None) -> None:
    """Log that a run ends with tool results that no model has read."""
    if last is not None and last.tool_calls and last.stop_reason == MAX_ITER:
        logger.warning(
            "The run ends with results of tools that no model has read: agent %r has used up its "
            "inferences. Give it more with Agent(max_iter=…).",
            last.agent_name,
        )


async def _ask_for_guardrail(
    model: ModelChoice, run: RunContext, agent: AgentSpec, turn: Turn
) -> AgentResult:
    """Run the turn of an agent that a guardrail asks, with the guarded one's model as default."""
    options = TurnOptions(run.prefix, default_model=model, parent_run_id=turn.run_id)
    return await run_agent(run, agent, options)


_FINAL = ("refusal", "content_filter", "error")
"""Ends of replies after which another try would end alike."""


@dataclass(slots=True)
class _Iteration:
    """One inference with its tools, and what the turn does next."""

    result: AgentResult
    goes_on: bool
    """True if the model has to see what became of its reply."""

    counts: bool = True
    """False for one that goes on with a paused reply, or that gave an output that did not fit."""

    failed: str | None = None
    """Why there will be no output."""


@dataclass(slots=True)
class _AgentLoop:
    """The loop of one turn."""

    run: RunContext
    turn: Turn
    options: TurnOptions
    reader: AnswerReader | None = field(init=False)
    guards: Guards = field(init=False)

    def __post_init__(self) -> None:
        plan, options = self.turn.output, self.options
        model = options.model or self.turn.agent.model or options.default_model
        self.guards = Guards(self.run, self.turn, partial(_ask_for_guardrail, model))
        self.reader = None if plan is None else AnswerReader(self.run, self.turn, plan)

    async def take_turn(self) -> AgentResult:
        """Infer until the model asks for no tools, a limit is reached or a guardrail trips.

        Raises:
            GuardrailTripped: A guardrail without a reply of its own stopped the turn.
        """
        try:
            return await self._take_turn()
        except TurnStopped as stopped:
            trip, result = stopped.trip, stopped.result
        made = await self._stopped_by(trip, result)
        if trip.tripwire.reply is None:
            raise trip.error(self.turn.agent.name)
        return made

    async def _stopped_by(self, trip: Trip, result: AgentResult | None) -> AgentResult:
        """Keep what stands in place of what a guardrail stopped; return it."""
        kept: AgentResult | None = None
        if trip.tool is not None and result is not None:  # what was called stays called
            kept = await self.run.add(result) if self.options.keep else result
        base = result if kept is None and result is not None else self._empty("guardrail")
        made = self.guards.replied(trip, base)
        if trip.tripwire.reply is not None:
            made = await self._finish(made, GUARDRAIL)
        if self.run.monitor.is_active:
            event = ModelReplied(
                **self.turn.facts,
                messages=made.output,
                usage=None if kept is not None else made.usage,
                finish=made.finish,
            )
            await self.run.monitor.emit_now(event)
        # Also where it has no words: it says that the user's message is withheld from later calls.
        return await self.run.add(made)

    def _empty(self, name: str) -> AgentResult:
        """Return a result without a model call."""
        key, runtime = f"{self.turn.path}.{name}", self.run.runtime
        when, new_id = runtime.now(key), runtime.new_id(key)
        return AgentResult(self.turn.agent.name, (), (), when, id=new_id)

    async def _take_turn(self) -> AgentResult:
        options, agent = self.options, self.turn.agent
        limit = max(1, agent.max_iter if options.max_iter is None else options.max_iter)
        reached = self._limit_reached("0")
        if reached is not None:
            return await self._stop(reached)
        if self.guards.spec is not NO_GUARDRAILS:
            await self.guards.check_input()
        last: AgentResult | None = None
        counted = pauses = iteration = 0
        paused = False
        while True:
            # What goes on with a paused reply must follow it at once.
            ended = None if paused else await self._look_for_messages(iteration)
            if ended is not None:
                return replace(last or self._empty("stopped"), stop_reason=ended)
            made = await self._iterate(iteration, last)
            if made is None:  # `on_start` stopped the turn before this inference
                break
            result = made.result
            paused = result.finish_reason == "pause" and not calls_of(result.output)
            counted, pauses = counted + made.counts, pauses + paused
            used_up = pauses >= MAX_PAUSES if paused else counted >= limit
            limited = ("pause" if paused else MAX_ITER) if used_up else None
            reason = self._end_after(iteration, made, limited)
            is_over = reason is not None or not made.goes_on
            iteration += 1
            if is_over:
                result = await self._finish(result, reason)
            last = await self.run.add(result) if options.keep else result
            if made.failed is not None:
                raise self._no_output(made.failed, last)
            if is_over:
                return last
        return last or await self._stop("on_start")

    def _end_after(self, iteration: int, made: _Iteration, limited: str | None) -> str | None:
        """Return why the turn ends after an inference, unless it goes on or the model ended it."""
        if made.failed is not None:
            return made.failed
        if not made.goes_on:
            return made.result.cut.reason if made.result.cut else None
        return limited or self._limit_reached(f"{iteration}.after")

    async def _look_for_messages(self, iteration: int) -> str | None:
        """Add what the user has said meanwhile, and have it judged; return why the turn ends.

        Raises:
            TurnStopped: A guardrail tripped; those before have reached no model, and are left to
                the runs that wait with them.
        """
        run, thread, heard = self.run, self.run.thread, list[str]()
        if not self.options.keep:
            return None
        if thread.lease is None:  # nothing is left to the run
            return TAKEN_OVER if thread.is_taken_over else None
        messages = await run.take_messages(f"{self.turn.path}.{iteration}.inbox")
        if messages is None:
            return INTERRUPTED
        for message in messages:
            given = await run.hear(message)
            heard.append(given.message.id or "")
            if not thread.is_taken_over:
                try:
                    await self.guards.check_heard()
                except TurnStopped:
                    thread.heard.append(heard[-1])
                    raise
        thread.heard += heard
        return TAKEN_OVER if thread.is_taken_over else None

    def _no_output(self, reason: str, last: AgentResult | None) -> OutputError:
        problems = () if self.reader is None else self.reader.problems
        return OutputError(self.turn.agent.name, reason, result=last, problems=problems)

    def _limit_reached(self, name: str) -> str | None:
        run = self.run
        if run.meter.limits is NO_LIMITS:
            return None
        return run.meter.reached(partial(run.runtime.now, f"{self.turn.path}.{name}/limit"))

    async def _stop(self, reason: str) -> AgentResult:
        """End a turn in which the model was not asked."""
        result = replace(self._empty("stopped"), stop_reason=reason)
        if self.options.keep and self.run.network is not None:
            return await self.run.add(result)
        return result

    async def _iterate(self, iteration: int, last: AgentResult | None) -> _Iteration | None:
        """Run one inference with its tools; None if `on_start` ended the turn."""
        run, turn = self.run, self.turn
        path = f"{turn.path}.{iteration}"
        with run.runtime.within(path):
            tools = await offered_tools(run, turn.agent, f"{path}.tools", turn.run_id)
            if turn.output is not None and turn.output.tools:
                tools = {**tools, **turn.output.tools}
            services = TurnServices(run=run, turn=turn, path=path)
            builder = ModelInputBuilder(
                run=run, turn=turn, tools=tools, path=path, services=services
            )
            made = await builder.build()
            if run.monitor.is_active:
                await emit_context(builder, made)
            if made.stop:
                return None
            run.compare_state(path)
            try:
                result = await self._infer(builder, made, is_first=iteration == 0)
            except EmptyReplyError as error:
                if self.reader is None:
                    raise
                raise self._no_output(error.finish_reason, last) from error
            calls = calls_of(result.output)
            if self.reader is not None:
                return await self._read(self.reader, result, calls, tools, path)
            if self.guards.has_output:
                result = await self.guards.check_output(path, result, NO_VALUE)
                await self._replied(result)
            if not calls:
                paused = result.finish_reason == "pause"
                return _Iteration(result, goes_on=paused, counts=not paused)
            result = await self._run_tools(result, calls, tools, path, {})
            return _Iteration(result, goes_on=not self._hands_over(result))

    async def _read(
        self,
        reader: AnswerReader,
        result: AgentResult,
        calls: Sequence[ToolCall],
        tools: Mapping[str, Tool],
        path: str,
    ) -> _Iteration:
        """Read the reply of an agent that has an output, and run the tools beside it."""
        answer = await reader.read(path, result, calls)
        value, guarded = answer.value, self.guards.spec.output
        if guarded and value is not NO_VALUE:
            result = await self.guards.check_output(path, result, value)
            value = result.value
        elif guarded:
            result = self.guards.mask_output(result)
            reader.mask(answer, guarded.redactors)
        if guarded:
            calls = calls_of(result.output)
            await self._replied(result)
        if calls:
            result = await self._run_tools(result, calls, tools, path, answer.settled)
        if value is not NO_VALUE:
            await self._announce_output(value)
            return _Iteration(replace(result, value=value), goes_on=False)
        if self._hands_over(result):
            return _Iteration(result, goes_on=False)
        if answer.problem is None:  # tools, or a pause
            return _Iteration(result, goes_on=True, counts=bool(calls))
        reason = answer.cut
        if reason in _FINAL or len(reader.problems) > reader.plan.spec.retries:
            return _Iteration(result, goes_on=False, failed=reason or "retries")
        return _Iteration(reader.corrected(result, answer), goes_on=True, counts=False)

    def _hands_over(self, result: AgentResult) -> bool:
        handoffs = self.turn.agent.handoffs
        return bool(handoffs) and handed_over(result, dict(handoffs)) is not None

    async def _announce_output(self, value: Any) -> None:
        """Emit the whole output, as its pieces were emitted."""
        if self.run.monitor.wants_tokens:
            from pydantic_core import to_jsonable_python  # noqa: PLC0415 - loads pydantic

            json = to_jsonable_python(value, fallback=str)
            await self.run.monitor.emit(OutputDelta(**self.turn.facts, json=json, output=value))

    async def _run_tools(
        self,
        result: AgentResult,
        calls: Sequence[ToolCall],
        tools: Mapping[str, Tool],
        path: str,
        settled: Mapping[int, JsonValue],
    ) -> AgentResult:
        run = self.run
        reply = run.open_reply(result) if self.options.keep else None
        handoffs = self.turn.agent.handoffs
        again = [i for i, c in enumerate(calls) if c.name in handoffs and c.name in tools]
        if len(again) > 1:
            refused = error_content("HandoffError", "Only one agent can go on: the first named.")
            settled = {**dict.fromkeys(again[1:], refused), **settled}
        runner = ToolRunner(
            run, self.turn, tools, path, reply, result.cut, settled, guards=self.guards
        )
        results = await runner.run_all(calls)
        run.sources.called(call.name for call in calls)
        result = result.with_tool_calls(results)
        if runner.trip is not None:
            raise TurnStopped(runner.trip, result)
        return result

    async def _infer(
        self, builder: ModelInputBuilder, made: ModelInput, *, is_first: bool
    ) -> AgentResult:
        run, turn, path = self.run, self.turn, builder.path
        is_final = turn.agent.lifecycle.on_response is None and not self.guards.has_output
        streams = run.monitor.wants_tokens and (is_final or turn.agent.stream_before_response)
        call = model_caller(builder, made, streams=streams)
        checked = self.guards.spec.input.guardrails
        answered = await (self.guards.with_checks(call) if checked else call())
        model, sent, body, reply = answered
        name = turn.agent.name
        output = [replied(message, name) for message in reply.messages]
        result = AgentResult(
            name,
            bound_reply(model, sent.request, output, healed=sent.healed)
            if model
            else tuple(output),
            (),
            run.runtime.now(path),
            sent.report.prompt,
            sent.history,
            reply=body,
            id=turn.message_id if is_first else run.runtime.new_id(path),
            usage=reply.usage,
            finish=reply.finish,
            context=sent.report,
        )
        hook = turn.agent.lifecycle.on_response
        if hook is not None:
            result = self._taken("on_response", await resolve(hook(self._context(result))), result)
            self._decide(f"{path}.on_response", result)
        if not self.guards.has_output:
            await self._replied(result)
        return result

    async def _replied(self, result: AgentResult) -> None:
        """Emit a reply, once its output guardrails have passed it."""
        if self.run.monitor.is_active:
            event = ModelReplied(
                **self.turn.facts,
                messages=result.output,
                usage=result.usage,
                finish=result.finish,
            )
            await self.run.monitor.emit_now(event)

    async def _finish(self, result: AgentResult, reason: str | None) -> AgentResult:
        """Return the last result of the turn, as `on_finish` wants it, with its stop reason."""
        hook = self.turn.agent.lifecycle.on_finish
        if hook is not None:
            with self.run.runtime.within(f"{self.turn.path}.finish"):
                found = await resolve(hook(self._context(result)))
            replaced, result = result, self._taken("on_finish", found, result)
            if result.id != replaced.id:  # so that a later failure does not save both
                self.run.open_replies.pop(replaced.id or "", None)
            self._decide(f"{self.turn.path}.on_finish", result)
        return result if result.stop_reason == reason else replace(result, stop_reason=reason)

    def _taken(self, hook: str, found: AgentResult | None, result: AgentResult) -> AgentResult:
        """Return the result that a hook gave, or the one it was given."""
        where = f"Agent {self.turn.agent.name!r}"
        expect(where, f"what {hook} returns", found, AgentResult, RESULT)
        return result if found is None else found

    def _decide(self, key: str, result: AgentResult) -> None:
        self.run.runtime.decide(
            key,
            lambda: digest_of_messages(result.output, result.tool_calls),
            f"{key.rpartition('.')[2]} of {self.turn.agent.name!r} returned a result with digest",
        )

    def _context(self, result: AgentResult) -> ResultContext:
        run = self.run
        return ResultContext(
            agent=self.turn.agent.agent, network=run.network, state=run.state, result=result
        )
