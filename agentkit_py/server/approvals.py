"""Approvals: a person's decisions on calls, and the requests that wait for them here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agentkit_py._core.json import as_list, as_object
from agentkit_py.events import ApprovalAnswer, ApprovalRequest, Decision
from agentkit_py.server.api import ApiRequest, endpoint
from agentkit_py.server.schemas import ApprovalRequestBody, Done, not_found


@endpoint("POST", "/api/approve-tool", 404, 409, 502)
async def approve_tool(request: ApiRequest[ApprovalRequestBody]) -> Done:
    """Approve or deny a tool call that waits for it."""
    body, user_id = request.params, request.user_id
    await request.threads.get_thread(body.thread_id)
    decision = Decision(body.action == "approve", body.reason or "")
    backend = request.api.backend
    if not await backend.answer(user_id, body.thread_id, body.tool_call_id, decision):
        raise not_found("question")
    return {"success": True}


@dataclass(slots=True)
class PendingApproval:
    """A request that waits in this process. Its calls may be decided one by one."""

    request: ApprovalRequest
    parts: Mapping[str, int]
    """Index of each call, by the id of its part on the wire."""

    decisions: dict[int, Decision] = field(default_factory=dict[int, Decision])
    answer: asyncio.Future[ApprovalAnswer] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    """Set once all calls are decided."""

    def _undecided(self, call_id: str) -> list[int]:
        """Return the undecided calls that an id means."""
        calls = self.request.calls
        if call_id in self.parts:
            return [index for index in [self.parts[call_id]] if index not in self.decisions]
        whole = call_id == self.request.id
        meant = [
            index
            for index, call in enumerate(calls)
            if (whole or call.id == call_id) and index not in self.decisions
        ]
        # Providers repeat ids, so one may stand for several calls: the first open one is meant.
        return meant if whole else meant[:1]

    @property
    def ids(self) -> set[str]:
        """The ids of the request and of its calls."""
        return {self.request.id, *self.parts, *(call.id for call in self.request.calls)}

    def decide(self, call_id: str, decision: Decision, user_id: str) -> bool:
        """Accept a decision; False if it is about something else, or was made before."""
        whole, indices = call_id == self.request.id, self._undecided(call_id)
        if self.answer.done() or not (indices or whole):
            return False
        self.decisions.update(dict.fromkeys(indices, decision))
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
    """Return the index of each call by its part's id, from a chunk ``hitl.requested``."""
    found: dict[str, int] = {}
    for call in as_list(data.get("toolCalls")) or []:
        fields = as_object(call) or {}
        part, index = fields.get("partId"), fields.get("index")
        if isinstance(part, str) and isinstance(index, int):
            found[part] = index
    return found
