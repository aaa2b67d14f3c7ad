"""The words of staff and of errors as the thread's user gets them: in chunks, and in the thread.

A decision has words for agents (``reason``) and words for the user (``to_user``). Models read both;
users get theirs only, and no ids of people. This module is the only place that decides so, for all
front ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentkit_py._core.digests import short_digest
from agentkit_py._core.json import as_object
from agentkit_py.events.approvals import ApprovalAnswer, Decision

DENIED = "ApprovalDeniedError"
"""The name of the error of a call which a person refused."""

STOPPED_CALL = "RunStoppedError"
"""The name of the error of a call whose run was stopped."""

EXPIRED = "ApprovalTimeoutError"
"""The name of the error of a call which no person decided in time."""

REFUSED_CALLS = frozenset(
    {
        "GuardrailError",
        "HandoffError",
        "IncompleteReplyError",
        "InvalidArgumentsError",
        "InvalidOutputError",
        "PreconditionError",
        "ToolNotAllowedError",
        "UnknownToolError",
    }
)
"""Names of the errors of calls that were not carried out, or whose results were withheld: the
library's own words for the model. Nothing was raised, and the log has nothing of them."""

FAILED = "ToolFailedError"
"""The name that users get for every other error of a call."""

_REFUSED = "This was not approved."


def result_for_user(content: Any, *, error_texts: bool = False) -> Any:
    """Return a call's result as the user gets it.

    A refusal becomes the person's text for the user. An error becomes the tool's text for the user
    (`ToolError`), else a general failure, with its reference in the log, if logged: error texts
    name hosts, tables and people.

    Args:
        content: The result.
        error_texts: The user gets errors as the model does.
    """
    error = as_object((as_object(content) or {}).get("error"))
    if error is None:
        return content
    if error.get("name") in (EXPIRED, STOPPED_CALL):  # the library's own words
        return {"error": {"name": error["name"], "message": error.get("message")}}
    if error.get("name") == DENIED:
        return {"error": {"name": DENIED, "message": error.get("toUser") or _REFUSED}}
    if error_texts:
        return content
    reference = f" (reference {reference_of(content)})"
    reference = "" if error.get("name") in REFUSED_CALLS else reference
    words = error.get("toUser") or f"Something went wrong{reference}."
    return {"error": {"name": FAILED, "message": words}}


def reference_of(content: Any) -> str:
    """Return the reference of a failed call's result, by which its error is found in the log."""
    error = as_object((as_object(content) or {}).get("error")) or {}
    return short_digest([error.get("name"), error.get("message")])[:8]


def decision_for_user(decision: Decision) -> dict[str, Any]:
    """Return a decision on a call."""
    return {"approved": decision.approved, "reason": decision.to_user}


def answer_for_user(answer: ApprovalAnswer) -> dict[str, Any]:
    """Return the fields of all decisions of an answer; the name of the user's own only."""
    data: Mapping[str, Any] = answer.data
    found = {"reason": answer.to_user} if answer.to_user else dict[str, Any]()
    if "resolvedAt" in data:
        found["resolvedAt"] = data["resolvedAt"]
    if answer.by is not None and answer.by == data.get("answeredBy"):
        found["resolvedBy"] = answer.by
    return found
