"""Guardrails of a turn: when they run, and the reply in place of a stopped reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from agentkit_py._engine.guarding import Guards, Trip, TurnStopped
from agentkit_py._engine.model_calls import CallModel
from agentkit_py._engine.parts.base import Inference, Part, TakeTurn, empty_result, finished
from agentkit_py._engine.parts.reply_events import emit_reply
from agentkit_py._engine.transcript import GUARDRAIL
from agentkit_py.messages import ReasoningMessage
from agentkit_py.results import NO_VALUE, AgentResult


@dataclass(slots=True)
class Guardrails(Part):
    """Has input, replies and tool calls checked; ends the turn where a guardrail trips."""

    guards: Guards
    parts: Sequence[Part]
    """All parts of the turn, which finish the reply of a guardrail, too."""

    keeps_results: bool
    """Results are added to the transcript."""

    @property
    def replaces_replies(self) -> bool:
        """True if outputs are checked or masked."""
        return self.guards.has_output

    @property
    def hides_reasoning(self) -> bool:
        """True if outputs are checked or masked: no guardrail reads reasoning."""
        return self.guards.has_output

    def around_turn(self, take_turn: TakeTurn) -> TakeTurn:
        """Return the turn; where a guardrail stops it, its result is the guardrail's reply."""

        async def take() -> AgentResult:
            try:
                return await take_turn()
            except TurnStopped as stopped:
                trip, result = stopped.trip, stopped.result
            return await self._stop(trip, result)

        return take

    async def begin(self) -> None:
        """Have the input checked.

        Raises:
            TurnStopped: A guardrail tripped.
        """
        await self.guards.check_input()

    def around_call(self, call_model: CallModel) -> CallModel:
        """Return the call, during which the parallel input guardrails run."""
        if not self.guards.spec.input.guardrails:
            return call_model
        return partial(self.guards.with_checks, call_model)

    async def replied(self, inference: Inference) -> None:
        """Have the reply checked and masked, and its calls checked when they run.

        Raises:
            TurnStopped: A guardrail tripped.
        """
        guards, result = self.guards, inference.result
        inference.guard_calls(guards)
        if not guards.has_output:
            return
        is_text = self.turn.output is None
        if is_text or result.value is not NO_VALUE:
            value = NO_VALUE if is_text else result.value
            result = await guards.check_output(inference.path, result, value)
        else:  # the model has not given its output yet
            result = guards.mask_output(result)
        inference.replace_result(_without_reasoning_for_users(result))

    async def _stop(self, trip: Trip, result: AgentResult | None) -> AgentResult:
        """Add the reply that replaces the stopped reply; return it.

        Raises:
            GuardrailTripped: The guardrail has no reply.
        """
        run, turn, has_reply = self.run, self.turn, trip.tripwire.reply is not None
        called = None if trip.tool is None else result  # its calls have been made
        if called is not None and self.keeps_results:
            await run.add(called)
        stopped = result if called is None else None
        reply = self.guards.replied(trip, stopped or empty_result(run, turn, "guardrail"))
        if has_reply:
            reply = await finished(self.parts, reply, GUARDRAIL)
        await emit_reply(run, turn, reply, usage=reply.usage if called is None else None)
        # Without a reply, too: the result says that the user's message is withheld from models.
        reply = await run.add(reply)
        if not has_reply:
            raise trip.error(turn.agent.name)
        return reply


def _without_reasoning_for_users(result: AgentResult) -> AgentResult:
    """Return a reply whose reasoning users do not see: no guardrail has checked it."""
    if not any(isinstance(message, ReasoningMessage) for message in result.output):
        return result
    return result.with_messages(
        replace(m, hidden=True) if isinstance(m, ReasoningMessage) else m for m in result.output
    )
