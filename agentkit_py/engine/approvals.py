"""Asking a person, and telling the model what the person said."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonValue
from agentkit_py.engine.envelope import error_content
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.approvals import Answered, ApprovalAnswer, ApprovalRequest
from agentkit_py.events.types import HitlRequested, HitlResolved
from agentkit_py.messages import ToolCall

if TYPE_CHECKING:
    from agentkit_py.engine.scope import RunScope

Approver: TypeAlias = Callable[[ApprovalRequest], "Answered | Awaitable[Answered]"]
"""Asks a person in this process, e.g. at the terminal's prompt; True approves everything."""

DEFAULT_APPROVAL_TIMEOUT = timedelta(hours=4)
"""How long a question waits, as the TypeScript package's documentation has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Where a question comes from."""

    scope: RunScope
    agent: str
    run_id: str
    message_id: str

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
            agent=self.agent,
            calls=tuple(calls),
            message=message,
            timeout=timeout.total_seconds(),
        )
        where: dict[str, Any] = {
            "run_id": self.run_id,
            "name": self.agent,
            "message_id": self.message_id,
        }
        await scope.emitter.emit(HitlRequested(**where, request=request))
        answer = await self._answer(step_id, request)
        await scope.emitter.emit(HitlResolved(**where, request=request, answer=answer))
        return answer

    async def _answer(self, step_id: str, request: ApprovalRequest) -> ApprovalAnswer | None:
        approver = self.scope.approver
        if approver is None:
            return await self.scope.runtime.ask(step_id, request)
        answered = await resolve(approver(request))
        if isinstance(answered, ApprovalAnswer):
            return answered
        if isinstance(answered, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            return ApprovalAnswer(approved=answered)
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
