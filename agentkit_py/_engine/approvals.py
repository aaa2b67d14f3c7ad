"""Approvals: asking a person, and the answer as the model reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import anyio

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonValue
from agentkit_py._engine.agent_spec import Turn
from agentkit_py._engine.call_steps import CallSteps
from agentkit_py._engine.run_context import RunContext
from agentkit_py._engine.tool import DEFAULT_APPROVAL_TIMEOUT, Approver
from agentkit_py._engine.tool_values import error_content
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.approvals import ApprovalAnswer, ApprovalRequest
from agentkit_py.events.types import HitlRequested, HitlResolved
from agentkit_py.messages import ToolCall


@dataclass(slots=True)
class CallDesk:
    """The engine's services for one tool call, or for the approval of several."""

    run: RunContext
    turn: Turn
    steps: CallSteps
    _key: str | None = None

    @property
    def key(self) -> str:
        """An id of the call: computed alike on each attempt where attempts are remembered."""
        if self._key is None:
            self._key = self.run.runtime.new_id(self.steps.prefix)
        return self._key

    def next_id(self, name: str) -> str:
        """Return a name for a step that the handler did not name itself."""
        return self.steps.next_id(name)

    async def ask_from_tool(self, message: str, timeout: timedelta) -> ApprovalAnswer | None:
        """Ask a person for a tool's handler."""
        step_id = self.steps.full_id(self.steps.next_id("approve"))
        return await self.ask(step_id, message=message, timeout=timeout)

    async def ask(
        self,
        step_id: str,
        *,
        calls: Sequence[ToolCall] = (),
        message: str = "",
        timeout: timedelta = DEFAULT_APPROVAL_TIMEOUT,
    ) -> ApprovalAnswer | None:
        """Ask, and wait for the answer; None if none came in time.

        Nothing is locked while a person thinks: what depends on the answer is checked again after.
        """
        run = self.run
        request = ApprovalRequest(
            id=run.runtime.new_id(step_id),
            agent=self.turn.agent.name,
            calls=tuple(calls),
            message=message,
            timeout=timeout.total_seconds(),
            asked_at=run.runtime.now(step_id),
        )
        facts = self.turn.facts
        await run.monitor.emit(HitlRequested(**facts, request=request))
        answer = await run.thread.released_while(step_id, partial(self._answer, step_id, request))
        await run.monitor.emit(HitlResolved(**facts, request=request, answer=answer))
        return answer

    async def _answer(self, step_id: str, request: ApprovalRequest) -> ApprovalAnswer | None:
        approver, runtime = self.run.approver, self.run.runtime
        if approver is None:
            return await runtime.ask(step_id, request)
        ask = partial(_ask_here, approver, request)
        # A step, so that a durable run does not ask its person again on each replay.
        given = await runtime.effect(step_id, ask, self.run.changes)
        return None if given is None else ApprovalAnswer.from_dict(given)


async def _ask_here(approver: Approver, request: ApprovalRequest) -> dict[str, Any] | None:
    """Return the approver's answer as JSON; None if none came in time."""
    answered: object = None
    with anyio.move_on_after(request.timeout) as timer:
        answered = await resolve(approver(request))
    if timer.cancelled_caught:
        return None
    if isinstance(answered, bool):
        return ApprovalAnswer(approved=answered).to_dict()
    if isinstance(answered, ApprovalAnswer):
        return answered.to_dict()
    raise ConfigurationError(
        f"The approver must return True, False or an ApprovalAnswer, got {answered!r:.80}"
    )


def refused_content(call: ToolCall, answer: ApprovalAnswer | None, index: int) -> JsonValue | None:
    """Return what the model reads of a call that was not approved; None if it was."""
    if answer is None:
        return error_content(
            "ApprovalTimeoutError", f"Nobody answered in time whether {call.name} may be called."
        )
    decision = answer.on(index)
    if decision.approved:
        return None
    reason = f" Reason: {decision.reason}" if decision.reason else ""
    return error_content(
        "ApprovalDeniedError", f"A person refused the call of {call.name}.{reason}"
    )
