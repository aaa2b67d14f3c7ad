"""The words of staff as the thread's user gets them: in chunks, and in the thread.

A decision has words for agents (``reason``) and words for the user (``to_user``). Models read both;
users get theirs only, and no ids of people. This module is the only place that decides so, for all
front ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentkit_py._core.json import as_object
from agentkit_py.events.approvals import ApprovalAnswer, Decision

DENIED = "ApprovalDeniedError"
"""The name of the error that stands for a call which a person refused."""

_REFUSED = "This was not approved."


def result_for_user(content: Any) -> Any:
    """Return a call's result: of a refusal, what the person wrote to the user."""
    error = as_object((as_object(content) or {}).get("error"))
    if error is None or error.get("name") != DENIED:
        return content
    return {"error": {"name": DENIED, "message": error.get("toUser") or _REFUSED}}


def decision_for_user(decision: Decision) -> dict[str, Any]:
    """Return a decision on one call."""
    return {"approved": decision.approved, "reason": decision.to_user}


def answer_for_user(answer: ApprovalAnswer) -> dict[str, Any]:
    """Return what goes with all decisions of an answer; the name of the user's own only."""
    data: Mapping[str, Any] = answer.data
    found = {"reason": answer.to_user} if answer.to_user else dict[str, Any]()
    if "resolvedAt" in data:
        found["resolvedAt"] = data["resolvedAt"]
    if answer.by is not None and answer.by == data.get("answeredBy"):
        found["resolvedBy"] = answer.by
    return found
