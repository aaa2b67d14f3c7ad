"""Questions to a person, and the answers: plain values that travel in events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import inf
from typing import Any, Literal, TypeAlias, cast

from agentkit_py._core.json import as_object
from agentkit_py.messages import ToolCall

APPROVAL_EVENT = "agentkit/approval.answered"
"""Name of the Inngest event that answers a question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """A question to a person: may these calls be made?"""

    id: str
    """Names the question; the answer carries it as ``approvalId``."""

    agent: str
    calls: tuple[ToolCall, ...] = ()
    """The tool calls that wait; none where a tool asks by itself."""

    message: str = ""
    """The reason why a person is asked, or the question."""

    timeout: float
    """Seconds until the question lapses; infinite: it does not."""

    asked_at: datetime | None = None
    approvers: tuple[str, ...] = ()
    """Allowed to answer: ids of users, names of groups, ``"owner"`` for the thread's own user; the
    application's rule decides where it is empty."""

    escalates_at: datetime | None = None
    """The time from which `escalate_to` may answer as well."""

    escalate_to: tuple[str, ...] = ()

    @property
    def expires_at(self) -> datetime | None:
        """The time at which the question expires; None: it does not, or was not asked yet."""
        if self.asked_at is None or self.timeout == inf:
            return None
        return self.asked_at + timedelta(seconds=self.timeout)

    def to_dict(self) -> dict[str, Any]:
        """Return the question as JSON (camelCase), with TypeScript's names."""
        calls = calls_to_json(self.calls)
        expires = {} if self.expires_at is None else {"expiresAt": self.expires_at.isoformat()}
        reason = {"metadata": {"reason": self.message}} if self.message else {}
        return {
            "requestId": self.id,
            "type": "tool_approval" if calls else "question",
            "agentName": self.agent,
            "toolCalls": calls,
            **expires,
            **reason,
        }


def calls_to_json(calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
    """Return the calls of a question as JSON, with TypeScript's names."""
    return [
        {"index": index, "toolCallId": one.id, "toolName": one.name, "toolInput": one.arguments}
        for index, one in enumerate(calls)
    ]


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision on a call."""

    approved: bool
    reason: str = ""
    """The reason, for agents; the user does not get it."""

    by: str | None = None
    """The id of the person, where several answer a question together."""

    arguments: Mapping[str, Any] | None = None
    """Arguments that the person put in place of the model's; None: as they are."""

    to_user: str = ""
    """Words for the user whose thread it is; agents read them as well."""

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as JSON."""
        own = {"by": self.by, "arguments": self.arguments, "toUser": self.to_user or None}
        kept = {name: value for name, value in own.items() if value is not None}
        return {"approved": self.approved, "reason": self.reason, **kept}


Resolution: TypeAlias = Literal["approved", "denied", "partial", "expired"]
"""The outcome of a question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswer:
    """A person's answer to a question.

    Attributes:
        approved: The decision on all calls that `calls` does not name.
        reason: The reason, which the model may read; the user does not get it.
        calls: Decisions on single calls, by their index in the request.
        data: Other data of the answer, e.g. who gave it.
        to_user: Words for the user whose thread it is; the model may read them as well.
    """

    approved: bool
    reason: str = ""
    calls: Mapping[int, Decision] = field(default_factory=dict[int, Decision])
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    to_user: str = ""

    @property
    def by(self) -> str | None:
        """The id of the person who answered, where it is known."""
        who = self.data.get("resolvedBy") or self.data.get("answeredBy")
        return who if isinstance(who, str) else None

    def on(self, index: int) -> Decision:
        """Return the decision on a call."""
        return self.calls.get(index, Decision(self.approved, self.reason, to_user=self.to_user))

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> ApprovalAnswer:
        """Read an answer from an event's data.

        ``{approved, reason?, toUser?, calls?}``, where ``calls`` names single calls by their index
        in the request: ``{"0": {approved, reason?, toUser?, arguments?}}`` or ``[{index, …}]``.
        Anything but
        ``true`` is a refusal; if ``calls`` cannot be read, the calls it does not name are refused.
        """
        single = _decisions(record.get("calls"))
        return cls(
            approved=record.get("approved") is True and None not in single,
            reason=_text(record.get("reason")),
            calls={index: one for index, one in single.items() if index is not None},
            data={k: v for k, v in record.items() if k not in _OWN},
            to_user=_text(record.get("toUser")),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as `from_dict` reads it."""
        calls = {str(index): one.to_dict() for index, one in self.calls.items()}
        own = {"approved": self.approved, "reason": self.reason, "calls": calls}
        return {**self.data, **own, **({"toUser": self.to_user} if self.to_user else {})}


def resolution_of(request: ApprovalRequest, answer: ApprovalAnswer | None) -> Resolution:
    """Return the outcome of ``request``."""
    if answer is None:
        return "expired"
    approved = {answer.on(index).approved for index in range(len(request.calls))}
    if len(approved) > 1:
        return "partial"
    return "approved" if (approved or {answer.approved}) == {True} else "denied"


_OWN = frozenset({"approvalId", "approved", "reason", "calls", "toUser"})


def _decisions(given: object) -> dict[int | None, Decision]:
    """Return the decisions on single calls; under None those that do not say which."""
    if given is None:
        return {}
    if isinstance(given, dict):
        named = cast("dict[object, object]", given)
        return {_index(key): _decision(value) for key, value in named.items()}
    if isinstance(given, list):
        listed = [as_object(item) or {} for item in cast("list[object]", given)]
        return {_index(item.get("index")): _decision(item) for item in listed}
    return {None: _decision(given)}


def _index(key: object) -> int | None:
    if isinstance(key, bool):
        return None
    if isinstance(key, int):
        return key
    return int(key) if isinstance(key, str) and key.isdecimal() else None


def _decision(value: object) -> Decision:
    found = as_object(value)
    if found is None:
        return Decision(value is True)
    return Decision(
        found.get("approved") is True,
        _text(found.get("reason")),
        _text(found.get("by")) or None,
        as_object(found.get("arguments")),
        _text(found.get("toUser")),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


Answered: TypeAlias = ApprovalAnswer | bool
"""The return value of an approver: an answer, or simply yes or no."""
