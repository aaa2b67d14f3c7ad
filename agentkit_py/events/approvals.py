"""Questions to a person, and the answers: plain values that travel in events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from agentkit_py.messages import ToolCall

APPROVAL_EVENT = "agentkit/approval.answered"
"""Name of the Inngest event that answers a question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequest:
    """What a person is asked to decide."""

    id: str
    """Names the question; the answer carries it as ``approvalId``."""

    agent: str
    calls: tuple[ToolCall, ...] = ()
    """The tool calls that wait; none where a tool asks by itself."""

    message: str = ""
    """Why a person is asked, or what."""

    timeout: float
    """Seconds until the question lapses."""

    def to_dict(self) -> dict[str, Any]:
        """The question as JSON (camelCase)."""
        calls = [
            {"index": index, "toolCallId": call.id, "toolName": call.name, "input": call.input}
            for index, call in enumerate(self.calls)
        ]
        return {
            "requestId": self.id,
            "type": "tool_approval" if calls else "question",
            "agentName": self.agent,
            "toolCalls": calls,
            "message": self.message,
            "timeoutSeconds": self.timeout,
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's word on one call."""

    approved: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalAnswer:
    """What a person decided.

    Attributes:
        approved: The word on all calls that `calls` does not name.
        reason: Why, in words the model may read.
        calls: Decisions on single calls, by their index in the request.
        data: Whatever else the answer carried.
    """

    approved: bool
    reason: str = ""
    calls: Mapping[int, Decision] = field(default_factory=dict[int, Decision])
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def on(self, index: int) -> Decision:
        """The decision on one call."""
        return self.calls.get(index, Decision(self.approved, self.reason))

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> ApprovalAnswer:
        """An answer from an event's data: ``{approved, reason?, calls?: {"0": {approved, …}}}``.

        What is not plainly ``true`` is a refusal.
        """
        single = cast("Mapping[str, Any]", record.get("calls") or {})
        return cls(
            approved=record.get("approved") is True,
            reason=str(record.get("reason") or ""),
            calls={int(key): _decision(value) for key, value in single.items() if _is_index(key)},
            data={k: v for k, v in record.items() if k not in _OWN},
        )


_OWN = frozenset({"approvalId", "approved", "reason", "calls"})


def _is_index(key: object) -> bool:
    return isinstance(key, int) or (isinstance(key, str) and key.isdigit())


def _decision(value: object) -> Decision:
    if isinstance(value, Mapping):
        found = cast("Mapping[str, Any]", value)
        return Decision(found.get("approved") is True, str(found.get("reason") or ""))
    return Decision(value is True)


Answered: TypeAlias = ApprovalAnswer | bool
"""What an approver may return: an answer, or simply yes or no."""
