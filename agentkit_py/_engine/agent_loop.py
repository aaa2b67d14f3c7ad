"""Agent loop: an agent's turn, which calls the model and its tools until the model is done.

Every other concern of a turn is a part; see `agentkit_py._engine.parts`.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

from agentkit_py._engine.agent_run import run_judging_agent
from agentkit_py._engine.agent_spec import AgentSpec, Turn, TurnOptions, chosen_model
from agentkit_py._engine.limits import MAX_ITER
from agentkit_py._engine.model_calls import CallModel, ModelAnswer, emit_context, model_caller
from agentkit_py._engine.model_input import ModelInput, ModelInputBuilder
from agentkit_py._engine.parts import Inference, Part, TakeTurn, empty_result, finished, parts_of
from agentkit_py._engine.run_context import RunContext
from agentkit_py._engine.tool_calls import ToolRunner
from agentkit_py._engine.written_replies import ReplyNotes, WrittenReply
from agentkit_py.errors import MissingModelError
from agentkit_py.events.types import RunCompleted, RunFailed, RunInterrupted, RunStarted
from agentkit_py.messages import ToolResultMessage
from agentkit_py.models.base import Model
from agentkit_py.results import AgentResult, is_unmeant
from agentkit_py.runtime.containing import contained
from agentkit_py.tools.definition import Tool

MAX_PAUSES = 10
"""The most times that a turn continues a paused reply; these do not count otherwise."""

MAX_EMPTY = 3
"""The maximum number of pauses of a turn that a continuation of an empty reply may follow."""


async def choose_model(run: RunContext, agent: AgentSpec, options: TurnOptions) -> Model:
    """Return the run's model, the agent's own, or the default.

    Raises:
        MissingModelError: There is none.
    """
    for choice in (options.model, agent.model, options.default_model):
        if choice is not None:
            where = f"Agent {agent.name!r}"
            return run.spending.guarded(await chosen_model(choice, run.context_of(agent), where))
    raise MissingModelError(agent.name)


async def run_agent(run: RunContext, agent: AgentSpec, options: TurnOptions) -> AgentResult:
    """Run an agent's turn with its events; return its last result."""
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
            result = await contained(_AgentLoop.of(run, turn, options).turn_with_parts())
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


async def builder_without_turn(
    run: RunContext, agent: AgentSpec, options: TurnOptions
) -> ModelInputBuilder:
    """Return a builder of an agent's next input, where no turn follows and nothing is saved."""
    model, path = await choose_model(run, agent, options), options.path
    loop = _AgentLoop.of(run, run.turn_of(agent, model, path, path, path), options)
    tools = await loop.offered_tools(path)
    return ModelInputBuilder(run=run, turn=loop.turn, tools=tools, dry=True)


@dataclass(frozen=True, slots=True)
class _AgentLoop:
    """The loop of a turn."""

    run: RunContext
    turn: Turn
    options: TurnOptions
    parts: Sequence[Part]

    @classmethod
    def of(cls, run: RunContext, turn: Turn, options: TurnOptions) -> _AgentLoop:
        """Return the loop of a turn, with the parts that it needs."""
        model = options.model or turn.agent.model or options.default_model
        run_judge = partial(run_judging_agent, run_agent, model)
        return cls(run, turn, options, parts_of(run, turn, run_judge, keep=options.keep))

    def turn_with_parts(self) -> TakeTurn:
        """Return the turn with its parts around it."""
        take_turn: TakeTurn = self._take_turn
        for part in reversed(self.parts):
            take_turn = part.around_turn(take_turn)
        return take_turn

    async def offered_tools(self, path: str) -> Mapping[str, Tool]:
        """Return the tools, by name, that are offered to the model now, and may be called.

        Args:
            path: The prefix of the step in which the agent's servers say which tools they have.

        Raises:
            ToolSourceError: A server that is needed cannot be reached.
        """
        run, agent = self.run, self.turn.agent
        tools = agent.tools.own
        if agent.tools.servers:
            tools = await run.choices.sources.tools(
                agent.tools.servers,
                tools,
                lambda ask: run.runtime.effect(f"{path}.tools", ask, run.changes),
                partial(run.monitor.listing, self.turn.run_id),
            )
        if agent.tools.allowed is not None:
            tools = await agent.tools.permitted(tools, run.context_of(agent))
        for part in self.parts:
            tools = {**tools, **await part.offered()}
        return tools

    async def _take_turn(self) -> AgentResult:
        """Infer until the model asks for no tools, or a part or a limit ends the turn."""
        for part in self.parts:
            if (reason := await part.begin()) is not None:
                return await self._end_at_once(reason)
        last: AgentResult | None = None
        failed: list[ToolResultMessage] = []
        number = counted = pauses = 0
        paused = False
        while True:
            for part in () if paused else self.parts:
                if (reason := await part.before_call(number)) is not None:
                    result = last or empty_result(self.run, self.turn, "stopped")
                    return replace(result, stop_reason=reason)
            inference = await self._infer(number)
            if inference is None:  # `on_start` stopped the turn
                return last or await self._end_at_once("on_start")
            failed += filter(is_unmeant, inference.result.tool_calls)
            number, paused = number + 1, inference.is_paused
            counted, pauses = counted + inference.counts, pauses + paused
            continues = inference.continues
            ended = self._reached(inference, counted, pauses) if continues else inference.ended_by
            is_last = ended is not None or not continues
            if is_last and failed:
                inference.replace_result(replace(inference.result, failed_calls=tuple(failed)))
            last = await self._add(inference, ended, is_last=is_last)
            if is_last:
                return last

    def _reached(self, inference: Inference, counted: int, pauses: int) -> str | None:
        """Return the limit that ends the turn after an inference that another would follow."""
        given = self.options.max_iter
        limit = max(1, self.turn.agent.max_iter if given is None else given)
        most = MAX_EMPTY if inference.is_empty else MAX_PAUSES
        if pauses >= most if inference.is_paused else counted >= limit:
            return "pause" if inference.is_paused else MAX_ITER
        reasons = (part.ends_after(inference) for part in self.parts)
        return next((reason for reason in reasons if reason is not None), None)

    async def _add(
        self, inference: Inference, stop_reason: str | None, *, is_last: bool
    ) -> AgentResult:
        """Add an inference's result to the transcript; return it as it was added."""
        result = inference.result
        if is_last:
            result = await finished(self.parts, result, stop_reason)
        if self.options.keep:
            result = await self.run.add(result)
        for part in self.parts:
            await part.added(inference, result)
        return result

    async def _end_at_once(self, stop_reason: str) -> AgentResult:
        """End a turn without a model call; the network continues with its result."""
        result = replace(empty_result(self.run, self.turn, "stopped"), stop_reason=stop_reason)
        is_kept = self.options.keep and self.run.network is not None
        return await self.run.add(result) if is_kept else result

    async def _infer(self, number: int) -> Inference | None:
        """Make an inference with its tool calls; None: `on_start` stopped the turn."""
        run, turn = self.run, self.turn
        path = f"{turn.path}.{number}"
        with run.runtime.within(path):
            tools = await self.offered_tools(path)
            builder = ModelInputBuilder(run=run, turn=turn, tools=tools, path=path)
            model_input = await builder.build()
            if run.monitor.is_active:
                await emit_context(builder, model_input)
            if model_input.stop:
                return None
            run.compare_state(path)
            new_id = turn.message_id if number == 0 else run.runtime.new_id(path)
            if self._keeps_cut_replies:
                answer = await self._answer(builder, model_input, new_id)
            else:
                answer = await self._model_caller(builder, model_input)()
            result = answer.result(turn.agent.name, run.runtime.now(path), new_id)
            inference = Inference(path, number, tools, result)
            for part in self.parts:
                await part.replied(inference)
            if inference.calls:
                await self._run_tools(inference)
            for part in self.parts:
                await part.after_tools(inference)
        return inference

    async def _answer(
        self, builder: ModelInputBuilder, model_input: ModelInput, reply_id: str
    ) -> ModelAnswer:
        """Call the model; the shown part of a reply that breaks off stays with the run.

        Raises:
            ModelError: The call failed.
            TurnStopped: A guardrail tripped.
        """
        run, turn = self.run, self.turn
        written = WrittenReply(
            agent=turn.agent.name,
            id=reply_id,
            report=model_input.report,
            history=model_input.history,
            now=partial(run.runtime.now, builder.path),
            notes=self._reply_notes(reply_id),
        )
        with written.kept_in(run.memory.open_replies):
            return await self._model_caller(builder, model_input, written)()

    def _reply_notes(self, reply_id: str) -> ReplyNotes | None:
        """Return the notes of a reply of a run that may be stopped from outside."""
        run, agent = self.run, self.turn.agent
        keeper = None if run.history is None else run.thread.keeper
        if keeper is None:
            return None
        checks = run.choices.guardrails_of(agent).input.guardrails
        may_change = bool(checks or agent.lifecycle.on_finish) or self._replaces_replies
        return ReplyNotes(keeper, reply_id, until_whole=may_change)

    @property
    def _keeps_cut_replies(self) -> bool:
        """True if the run keeps the text that readers saw of a reply that breaks off."""
        shown = self.turn.output is None and self.run.choices.mode != "typescript"
        return self._streams and self.options.keep and shown and self.turn.agent.streaming.keep_cut

    @property
    def _streams(self) -> bool:
        is_early = self.turn.agent.streaming.before_response
        return self.run.monitor.wants_tokens and (is_early or not self._replaces_replies)

    @property
    def _replaces_replies(self) -> bool:
        return any(part.replaces_replies for part in self.parts)

    def _model_caller(
        self,
        builder: ModelInputBuilder,
        model_input: ModelInput,
        written: WrittenReply | None = None,
    ) -> CallModel:
        hides = any(part.hides_reasoning for part in self.parts)
        call_model = model_caller(
            builder, model_input, streams=self._streams, hides_reasoning=hides, written=written
        )
        for part in reversed(self.parts):
            call_model = part.around_call(call_model)
        return call_model

    async def _run_tools(self, inference: Inference) -> None:
        run = self.run
        runner = ToolRunner(
            run,
            self.turn,
            inference.tools,
            inference.path,
            inference.result,
            run.open_reply(inference.result) if self.options.keep else None,
            inference.settled,
            inference.guards,
        )
        inference.replace_result(await runner.run_all())
        run.choices.sources.called(call.name for call in inference.calls)
