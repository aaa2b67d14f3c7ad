"""Questions to a person that wait in this process, and their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agentkit_py._core.json import as_list, as_object
from agentkit_py.events import ApprovalAnswer, ApprovalRequest, Decision


@dataclass(slots=True)
class Question:
    """One question. Its calls may be answered one by one; it waits until all are."""

    request: ApprovalRequest
    parts: Mapping[str, int]
    """Index of each call, by the id of its part on the wire."""

    decisions: dict[int, Decision] = field(default_factory=dict[int, Decision])
    answer: asyncio.Future[ApprovalAnswer] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def _indices(self, call_id: str) -> list[int] | None:
        """The calls that an id means; None: it means nothing here."""
        calls = self.request.calls
        if call_id == self.request.id:
            return [index for index in range(len(calls)) if index not in self.decisions]
        if call_id in self.parts:
            index = self.parts[call_id]
            return None if index in self.decisions else [index]
        # Providers repeat ids, so one may stand for several calls: the first that is open is meant.
        named = [index for index, call in enumerate(calls) if call.id == call_id]
        free = [index for index in named if index not in self.decisions]
        return free[:1] or None

    def is_about(self, call_id: str) -> bool:
        """Whether an id means this question or one of its calls."""
        names = {self.request.id, *self.parts, *(call.id for call in self.request.calls)}
        return call_id in names

    def decide(self, call_id: str, decision: Decision, user_id: str) -> bool:
        """Take a person's word; False if it is about something else, or was said."""
        indices = self._indices(call_id)
        if indices is None or self.answer.done():
            return False
        self.decisions.update(dict.fromkeys(indices, decision))
        whole = call_id == self.request.id
        if whole or len(self.decisions) == len(self.request.calls):
            when = datetime.now(UTC).isoformat()
            self.answer.set_result(
                ApprovalAnswer(
                    approved=decision.approved if whole else False,
                    reason=decision.reason if whole else "",
                    calls=dict(self.decisions),
                    data={"resolvedBy": user_id, "resolvedAt": when},
                )
            )
        return True


def parts_of(data: Mapping[str, Any]) -> dict[str, int]:
    """Index of each call by its part's id, from a chunk ``hitl.requested``."""
    found: dict[str, int] = {}
    for call in as_list(data.get("toolCalls")) or []:
        fields = as_object(call) or {}
        part, index = fields.get("partId"), fields.get("index")
        if isinstance(part, str) and isinstance(index, int):
            found[part] = index
    return found
