"""Approvals: asking a person, and the answer as the model reads it."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Sequence
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
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.approvals import ApprovalAnswer, ApprovalRequest
from agentkit_py.events.for_users import DENIED, EXPIRED
from agentkit_py.events.types import HitlRequested, HitlResolved
from agentkit_py.history.staff import Takeover
from agentkit_py.history.thread import QuestionRecord
from agentkit_py.messages import ToolCall
from agentkit_py.tools.definition import (
    DEFAULT_APPROVAL_TIMEOUT,
    NOBODY_NAMED,
    Approver,
    Approvers,
)
from agentkit_py.tools.values import error_content


@dataclass(slots=True)
class CallDesk:
    """The engine's services for a tool call, or for the approval of several."""

    run: RunContext
    turn: Turn
    steps: CallSteps
    error: Exception | None = None
    """The error with which the run of an agent or network as a tool ended."""

    _key: str | None = None

    @property
    def key(self) -> str:
        """An id of the call: computed alike on each attempt where attempts are remembered."""
        if self._key is None:
            self._key = self.run.runtime.new_id(self.steps.prefix)
        return self._key

    def note_error(self, error: Exception) -> None:
        """Note that the run of an agent or network as a tool ended with an error."""
        self.error = error

    def next_id(self, name: str) -> str:
        """Return a name for a step that the handler did not name itself."""
        return self.steps.next_id(name)

    async def ask_from_tool(self, message: str, timeout: timedelta) -> ApprovalAnswer | None:
        """Ask a person for a tool's handler."""
        step_id = self.steps.name(self.steps.next_id("approve"))
        return await self.ask(step_id, message=message, timeout=timeout)

    async def ask_for_person(self, reason: str) -> Takeover:
        """Ask for a person who takes the conversation over."""
        return await self.run.thread.ask_for_person(reason, self.turn.agent.name)

    async def ask(
        self,
        step_id: str,
        *,
        calls: Sequence[ToolCall] = (),
        message: str = "",
        timeout: timedelta = DEFAULT_APPROVAL_TIMEOUT,
        about: Sequence[int] = (),
        approvers: Approvers = NOBODY_NAMED,
    ) -> ApprovalAnswer | None:
        """Ask, and wait for the answer; None if none came in time.

        The question's id says which calls it is ``about``: an answer is never taken for others.

        Nothing is locked while a person thinks: its conditions are checked again after the answer.
        """
        run = self.run
        asked_at = run.runtime.now(step_id)
        after = approvers.escalate_after
        request = ApprovalRequest(
            id=run.runtime.new_id(f"{step_id}{list(about)}" if about else step_id),
            agent=self.turn.agent.name,
            calls=tuple(calls),
            message=message,
            timeout=timeout.total_seconds(),
            asked_at=asked_at,
            approvers=approvers.names,
            escalates_at=None if after is None else asked_at + after,
            escalate_to=approvers.escalate_to,
        )
        facts = self.turn.facts
        record = run.thread.question_record(request)
        if record is not None and not run.runtime.durable:
            # Stored before it is published, so that an immediate answer finds it.
            await record.open()
        with run.runtime.published_by_next_step(record is not None and run.approver is None):
            await run.monitor.emit(HitlRequested(**facts, request=request))
        wait = partial(self._answer, step_id, request, record)
        answer = await run.thread.released_while(step_id, wait, timeout, pauses=run.runtime.pauses)
        await run.monitor.emit(HitlResolved(**facts, request=request, answer=answer))
        return answer

    async def _answer(
        self, step_id: str, request: ApprovalRequest, record: QuestionRecord | None
    ) -> ApprovalAnswer | None:
        run, runtime = self.run, self.run.runtime
        if run.approver is None:
            opening = None if record is None else record.open
            answer = await runtime.ask(step_id, request, opening)
        else:
            ask = partial(_ask_here, run.approver, request)
            if record is not None:
                ask = partial(_recorded, record, ask, lasting=runtime.durable)
            # A step, so that a durable run does not ask its person again on each replay.
            given = await runtime.effect(step_id, ask, run.changes)
            answer = None if given is None else ApprovalAnswer.from_dict(given)
        if record is None:
            return answer
        # A step of its own: a store that fails must not have the person asked again.
        close = partial(record.close, answer)
        first = await runtime.effect(f"{step_id}.closed", close, run.changes)
        return answer if first is None else ApprovalAnswer.from_dict(first)


async def _recorded(
    record: QuestionRecord,
    ask: Callable[[], Awaitable[dict[str, Any] | None]],
    *,
    lasting: bool,
) -> dict[str, Any] | None:
    """Ask, and keep the question meanwhile; a durable run that is stopped asks again."""
    if lasting:
        await record.open()
    try:
        return await ask()
    except CancelledError:
        if not lasting:
            with anyio.CancelScope(shield=True):
                await record.stop()
        raise


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
    """Return the model's result of a call that was not approved; None if it was."""
    if answer is None:
        return error_content(EXPIRED, f"The approval of {call.name} timed out without an answer.")
    decision = answer.on(index)
    if decision.approved:
        return None
    reason = f" Reason: {decision.reason}" if decision.reason else ""
    told = {"toUser": decision.to_user} if decision.to_user else {}
    return error_content(DENIED, f"A person refused the call of {call.name}.{reason}", **told)
