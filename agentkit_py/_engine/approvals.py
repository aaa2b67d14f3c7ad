"""Asking a person, and telling the model what the person said."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonValue
from agentkit_py._engine.envelope import error_content
from agentkit_py._engine.tool_steps import CallSteps
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.approvals import Answered, ApprovalAnswer, ApprovalRequest
from agentkit_py.events.types import HitlRequested, HitlResolved
from agentkit_py.messages import ToolCall

if TYPE_CHECKING:
    from agentkit_py._engine.scope import RunScope
    from agentkit_py._engine.turn import Turn

Approver: TypeAlias = Callable[[ApprovalRequest], "Answered | Awaitable[Answered]"]
"""Asks a person in this process, e.g. at the terminal's prompt; True approves everything."""

DEFAULT_APPROVAL_TIMEOUT = timedelta(hours=4)
"""How long a question waits, as the TypeScript package's documentation has it."""


@dataclass(slots=True)
class Asking:
    """Where a question comes from."""

    scope: RunScope
    turn: Turn
    steps: CallSteps
    """Names the steps of questions."""

    @property
    def key(self) -> str:
        """An id of the call: computed alike on each attempt where attempts are remembered."""
        if self.steps.key is None:
            self.steps.key = self.scope.runtime.new_id(self.steps.prefix)
        return self.steps.key

    async def ask_from_tool(self, message: str, timeout: timedelta) -> ApprovalAnswer | None:
        """Ask what a tool's handler wants to know."""
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
        scope = self.scope
        request = ApprovalRequest(
            id=scope.runtime.new_id(step_id),
            agent=self.turn.agent.name,
            calls=tuple(calls),
            message=message,
            timeout=timeout.total_seconds(),
            asked_at=scope.runtime.now(step_id),
        )
        where: dict[str, Any] = {
            "run_id": self.turn.run_id,
            "name": self.turn.agent.name,
            "message_id": self.turn.message_id,
        }
        await scope.emitter.emit(HitlRequested(**where, request=request))
        answer = await scope.thread.away(step_id, partial(self._answer, step_id, request))
        await scope.emitter.emit(HitlResolved(**where, request=request, answer=answer))
        return answer

    async def _answer(self, step_id: str, request: ApprovalRequest) -> ApprovalAnswer | None:
        approver, runtime = self.scope.approver, self.scope.runtime
        if approver is None:
            return await runtime.ask(step_id, request)
        ask = partial(_ask_here, approver, request)
        # A step, so that a durable run does not ask its person again on each replay.
        given = await runtime.effect(step_id, ask, self.scope.changes)
        return None if given is None else ApprovalAnswer.from_dict(given)


async def _ask_here(approver: Approver, request: ApprovalRequest) -> dict[str, Any] | None:
    """What the approver answers in time, as JSON."""
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


def refusal(call: ToolCall, answer: ApprovalAnswer | None, index: int) -> JsonValue | None:
    """What the model reads of a call that was not approved; None if it was."""
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
