"""The UI message stream of the Vercel AI SDK, version 7, which ``useChat`` reads and shows.

A reply is a single assistant message. It is written without steps, so that ``reset-step`` empties
the whole message: a reply that was taken back, or whose beginning the reader may not have, is
written again from its beginning.

Source: ``ui-message-stream/ui-message-chunks.ts`` and ``ui/process-ui-message-stream.ts`` of the
npm package ``ai``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentkit_py.events.consume import PartApproval, StreamedPart
from agentkit_py.events.replies import (
    REFUSED,
    PartChange,
    Progressed,
    ReplyChange,
    ReplyEnd,
    ReplyStatus,
    Rewritten,
    Waiting,
    author_of,
    data_of,
    error_of,
    part_id,
)

HEADERS = {"x-vercel-ai-ui-message-stream": "v1", "x-accel-buffering": "no"}
"""Headers of a streamed answer."""

LAST = "data: [DONE]\n\n"
"""The frame after the last event."""

WAITING = "data-waiting"
"""The type of the passing part that says that another person has to decide first."""

STATUS = "data-status"
"""The type of the passing part that says why the stream stays open."""

PROGRESS = "data-progress"
"""The type of the passing part with the progress of a tool."""

_FINISHES = {"completed": "stop", "asked": "tool-calls", "stopped": "interrupted"}


class VercelWriter:
    """Writes a reply as a stream of UI message chunks.

    Args:
        reply: The id of the assistant message.
        continues: The reader may have a part of the message already.
    """

    def __init__(self, reply: str, *, continues: bool = False) -> None:
        self._reply = reply
        self._continues = continues
        self._begun = False

    def begin(self) -> list[dict[str, Any]]:
        """Return nothing: a message without parts is not begun."""
        return []

    def write(self, change: ReplyChange) -> list[dict[str, Any]]:
        """Return the chunks of a change."""
        if isinstance(change, ReplyStatus):  # it begins no message
            return [{"type": STATUS, "data": change.to_dict(), "transient": True}]
        if isinstance(change, Progressed):
            call = {"toolCallId": part_id(self._reply, change.place), **change.facts}
            return [*self._start(), {"type": PROGRESS, "data": call, "transient": True}]
        return [*self._start(), *self._chunks(change)]

    def _start(self) -> list[dict[str, Any]]:
        if self._begun:
            return []
        self._begun = True
        reset = [{"type": "reset-step"}] if self._continues else []
        return [{"type": "start", "messageId": self._reply}, *reset]

    def _chunks(self, change: PartChange | Rewritten | Waiting) -> list[dict[str, Any]]:
        if isinstance(change, Waiting):
            return [{"type": WAITING, "data": dict(change.question), "transient": True}]
        if isinstance(change, PartChange):
            return _changed(self._reply, change)
        whole = [
            chunk
            for place, part in enumerate(change.parts)
            for step in changes_of(place, part)
            for chunk in _changed(self._reply, step)
        ]
        return [{"type": "reset-step"}, *whole]

    def end(self, end: ReplyEnd) -> list[dict[str, Any]]:
        """Return the last chunks."""
        if end.reason == "failed":
            return [{"type": "error", "errorText": end.error}]
        aborted = [{"type": "abort", "reason": "stopped"}] if end.reason == "stopped" else []
        return [*aborted, {"type": "finish", "finishReason": _FINISHES[end.reason]}]


def changes_of(place: int, part: StreamedPart) -> list[PartChange]:
    """Return the changes after which a part is as it is."""
    found = [PartChange("opened", place, part)]
    if part.type != "data" and part.text:
        found.append(PartChange("grew", place, part, part.text))
    if part.status == "completed":
        found.append(PartChange("ended", place, part))
    if part.approval is not None:
        found.append(PartChange("asked", place, part))
        if part.approval.approved is not None:
            found.append(PartChange("decided", place, part))
    if part.type == "tool-call" and part.output is not None:
        found.append(PartChange("answered", place, part))
    return found


def _changed(reply: str, change: PartChange) -> list[dict[str, Any]]:
    part, name = change.part, part_id(reply, change.place)
    if part.type == "tool-call":
        return _call(change, name)
    if part.type == "data":
        block = {"type": "data-block", "id": name, "data": part.output}
        return [block] if change.kind == "ended" else []
    own = {"providerMetadata": _author(part)} if change.kind == "opened" else {}
    ending = {"opened": "start", "grew": "delta", "ended": "end"}[change.kind]
    delta = {"delta": change.delta} if change.kind == "grew" else {}
    return [{"type": f"{part.type}-{ending}", "id": name, **delta, **own}]


def _author(part: StreamedPart) -> dict[str, Any]:
    return {"agentkit": {"agent": part.agent, **author_of(part)}}


def _call(change: PartChange, name: str) -> list[dict[str, Any]]:
    part, about = change.part, {"toolCallId": name}
    # The server carries it out, which keeps the client from doing so or waiting for it.
    ours = {"toolName": part.tool, "providerExecuted": True, "toolMetadata": {"agent": part.agent}}
    match change.kind:
        case "opened":
            return [{"type": "tool-input-start", **about, **ours}]
        case "grew":
            return [{"type": "tool-input-delta", **about, "inputTextDelta": change.delta}]
        case "ended":
            return [{"type": "tool-input-available", **about, **ours, "input": part.input}]
        case "asked":
            asked = part.approval
            assert asked is not None
            facts = _descriptor(asked)
            return [{"type": "tool-approval-request", **about, "approvalId": asked.id, **facts}]
        case "decided":
            asked = part.approval
            assert asked is not None
            reason = {"reason": asked.reason} if asked.reason else {}
            facts = {"approvalId": asked.id, "approved": asked.approved is True, **reason}
            return [{"type": "tool-approval-response", **facts}]
        case "answered":
            return [_output(part, about)]


def _descriptor(asked: PartApproval) -> dict[str, Any]:
    until = {"approvalDescriptor": {"expiresAt": asked.expires_at}} if asked.expires_at else {}
    return {**({"reason": asked.message} if asked.message else {}), **until}


def _is_refused(part: StreamedPart) -> bool:
    error = error_of(part)
    return part.approval is not None and error is not None and error[0] in REFUSED


def _output(part: StreamedPart, about: dict[str, Any]) -> dict[str, Any]:
    error = error_of(part)
    if _is_refused(part):
        return {"type": "tool-output-denied", **about}
    if error is not None:
        return {"type": "tool-output-error", **about, "errorText": error[1]}
    return {"type": "tool-output-available", **about, "output": data_of(part)}


def user_message(message_id: str, text: str) -> dict[str, Any]:
    """Return a user's message as ``useChat`` keeps it."""
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


def reply_message(reply: str, parts: Sequence[StreamedPart]) -> dict[str, Any]:
    """Return a reply as ``useChat`` keeps it."""
    shown = [_shown(part_id(reply, place), part) for place, part in enumerate(parts)]
    return {"id": reply, "role": "assistant", "parts": shown}


def _shown(name: str, part: StreamedPart) -> dict[str, Any]:
    if part.type == "data":
        return {"type": "data-block", "id": name, "data": part.output}
    if part.type != "tool-call":
        own = {"id": name} if part.type == "reasoning" else {}
        about = {"text": part.text, "state": "done", "providerMetadata": _author(part)}
        return {"type": part.type, **own, **about}
    found: dict[str, Any] = {
        "type": f"tool-{part.tool}",
        "toolCallId": name,
        "providerExecuted": True,
        "toolMetadata": {"agent": part.agent},
        "input": part.input,
        "state": "input-available",
    }
    asked = part.approval
    if asked is not None:
        found |= {"state": "approval-requested", "approval": _approval(asked)}
        if asked.approved is not None:
            found["state"] = "approval-responded"
    if part.output is not None:
        found |= _outcome(part)
    return found


def _approval(asked: PartApproval) -> dict[str, Any]:
    facts = _descriptor(asked)
    named = {"descriptor": "approvalDescriptor", "requestReason": "reason"}
    found = {"id": asked.id, **{k: facts[own] for k, own in named.items() if own in facts}}
    if asked.approved is not None:
        found |= {"approved": asked.approved} | ({"reason": asked.reason} if asked.reason else {})
    return found


def _outcome(part: StreamedPart) -> dict[str, Any]:
    error = error_of(part)
    if _is_refused(part):
        return {"state": "output-denied"}
    if error is not None:
        return {"state": "output-error", "errorText": error[1]}
    return {"state": "output-available", "output": data_of(part)}
