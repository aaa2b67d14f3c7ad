"""AG-UI, version 1.0: the events and messages that ``@ag-ui/client`` reads.

Each part of a reply is a message: a text or a call of the assistant's, its result, a reasoning, or
an activity for blocks of other kinds. Questions to a person are interrupts: the run ends with
them, and the next run brings the answers.

Source: the events of the npm package ``@ag-ui/core``, and ``verify`` and ``apply`` of
``@ag-ui/client``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agentkit_py._core.json import dumps
from agentkit_py.events.chunks import TOOL_PROGRESS
from agentkit_py.events.consume import StreamedPart
from agentkit_py.events.replies import (
    PartChange,
    Progressed,
    ReplyChange,
    ReplyEnd,
    ReplyStatus,
    Waiting,
    author_of,
    part_id,
    text_of_part,
)

PROTOCOL = "1.0"
"""The version of the protocol."""

WAITING = "agentkit.waiting"
"""The name of the custom event that says that another person has to decide first."""

STATUS = "agentkit.status"
"""The name of the custom event that says why the run stays open."""

_ANSWER = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string"},
        "arguments": {"type": "object"},
    },
    "required": ["approved"],
}
"""The schema of an answer: yes or no, why, and arguments in place of the model's."""


class AgUiWriter:
    """Writes a reply as the events of a run.

    Args:
        reply: The id of the reply.
        thread_id: The thread.
        run_id: The id that the client gave the run.
        before: The messages before the reply, as the client should have them.
        known: Ids and roles of the messages that the client has.
    """

    def __init__(
        self,
        reply: str,
        thread_id: str,
        run_id: str,
        before: Sequence[dict[str, Any]] = (),
        known: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._reply = reply
        self._where = {"threadId": thread_id, "runId": run_id}
        self._before = list(before)
        self._known = list(known)
        self._open: dict[str, PartChange] = {}
        self._asked: dict[str, dict[str, Any]] = {}

    def begin(self) -> list[dict[str, Any]]:
        """Return the first events: the messages, too, where the client has others."""
        first = {"type": "RUN_STARTED", **self._where, "protocolVersion": PROTOCOL}
        # Activities are never sent to a server; the client may also have older messages.
        needed = [one["id"] for one in self._before if one["role"] != "activity"]
        if [name for name, _ in self._known][-len(needed) or len(self._known) :] == needed:
            self._known = []
            return [first]
        return [first, *self._snapshots(self._known, ())]

    def write(self, change: ReplyChange) -> list[dict[str, Any]]:
        """Return the events of a change."""
        if isinstance(change, ReplyStatus):
            return [{"type": "CUSTOM", "name": STATUS, "value": change.to_dict()}]
        if isinstance(change, Waiting):
            return [{"type": "CUSTOM", "name": WAITING, "value": dict(change.question)}]
        if isinstance(change, Progressed):
            value = {"toolCallId": part_id(self._reply, change.place), **change.facts}
            return [{"type": "CUSTOM", "name": TOOL_PROGRESS, "value": value}]
        if isinstance(change, PartChange):
            return self._changed(change)
        closed = [event for one in list(self._open.values()) for event in self._close(one)]
        self._asked.clear()
        again: list[dict[str, Any]] = []
        for place, part in enumerate(change.parts):
            if part.approval is not None and part.approval.approved is None:
                self._changed(PartChange("asked", place, part))
            if part.status == "open":  # it continues: its message exists already
                again += self._changed(PartChange("opened", place, part))
        sent = [(one["id"], one["role"]) for one in self._before]
        return [*closed, *self._snapshots([*sent, *self._known], change.parts), *again]

    def _snapshots(
        self, known: Sequence[tuple[str, str]], parts: Sequence[StreamedPart]
    ) -> list[dict[str, Any]]:
        """Return the events after which the client has the messages before, and these parts.

        A snapshot keeps the places of messages that are known, and keeps reasoning that it does not
        name. So parts to be removed are first made plain text, and then left out.
        """
        kept = {one["id"] for one in self._before}
        gone = [name for name, role in known if name not in kept and role == "reasoning"]
        plain = [{"id": name, "role": "assistant", "content": ""} for name in dict.fromkeys(gone)]
        lists = [[*self._before, *plain]] if plain else []
        if known:
            lists.append(self._before)
        now = reply_messages(self._reply, parts)
        self._known = [(one["id"], one["role"]) for one in now]
        lists.append([*self._before, *now])
        return [{"type": "MESSAGES_SNAPSHOT", "messages": one, "metadata": _OURS} for one in lists]

    def _changed(self, change: PartChange) -> list[dict[str, Any]]:
        part, name = change.part, part_id(self._reply, change.place)
        match change.kind:
            case "opened":
                if part.type == "data":
                    return []
                self._open[name] = change
                role = "reasoning" if part.type == "reasoning" else "assistant"
                self._known.append((name, role))
                return [_opened(name, part)]
            case "grew":
                return [
                    {"type": f"{_PREFIX[part.type]}_{_GROWN[part.type]}"}
                    | _of(name, part)
                    | {"delta": change.delta}
                ]
            case "ended":
                whole = {"delta": dumps(part.input)}
                unsaid = part.type == "tool-call" and not part.text and name in self._open
                said = [{"type": "TOOL_CALL_ARGS", **_of(name, part), **whole}] if unsaid else []
                return [*said, *self._close(change)]
            case "asked":
                self._asked[name] = _interrupt(name, part)
            case "decided":
                self._asked.pop(name, None)
            case "answered":
                self._known.append((_result(name), "tool"))
                content = {"content": text_of_part(part), "role": "tool"}
                result = {"messageId": _result(name), "toolCallId": name, **content}
                return [{"type": "TOOL_CALL_RESULT", **result}]
        return []

    def _close(self, change: PartChange) -> list[dict[str, Any]]:
        part, name = change.part, part_id(self._reply, change.place)
        if part.type == "data":
            self._known.append((name, "activity"))
            facts = {"activityType": "block", "content": _block(part)}
            return [{"type": "ACTIVITY_SNAPSHOT", "messageId": name, **facts}]
        if self._open.pop(name, None) is None:
            return []
        return [{"type": f"{_PREFIX[part.type]}_END"} | _of(name, part)]

    def end(self, end: ReplyEnd) -> list[dict[str, Any]]:
        """Return the last events."""
        closed = [event for one in list(self._open.values()) for event in self._close(one)]
        if end.reason == "failed":
            code = "unavailable" if end.recoverable else "failed"
            return [*closed, {"type": "RUN_ERROR", "message": end.error, "code": code}]
        outcome: dict[str, Any] = {"type": "success"}
        if end.reason == "stopped":
            outcome = {"type": "cancelled"}
        elif end.reason == "asked" and self._asked:
            outcome = {"type": "interrupt", "interrupts": list(self._asked.values())}
        return [*closed, {"type": "RUN_FINISHED", **self._where, "outcome": outcome}]


_OURS = {"@ag-ui/client": {"authoritativeActivityTypes": ["block"]}}
"""Says that a snapshot without an activity of ours removes it."""

_PREFIX = {"text": "TEXT_MESSAGE", "reasoning": "REASONING_MESSAGE", "tool-call": "TOOL_CALL"}
_GROWN = {"text": "CONTENT", "reasoning": "CONTENT", "tool-call": "ARGS"}


def _of(name: str, part: StreamedPart) -> dict[str, Any]:
    return {"toolCallId" if part.type == "tool-call" else "messageId": name}


def _opened(name: str, part: StreamedPart) -> dict[str, Any]:
    about = {"type": f"{_PREFIX[part.type]}_START", **_of(name, part)}
    if part.type == "tool-call":
        author = {"metadata": {"agent": part.agent}}
        return {**about, "toolCallName": part.tool, "parentMessageId": name, **author}
    if part.type == "reasoning":
        return {**about, "role": "reasoning", "metadata": {"agent": part.agent}}
    return {**about, "role": "assistant", **_named(part)}


def _named(part: StreamedPart) -> dict[str, Any]:
    about = author_of(part)
    return {"name": part.agent, **({"metadata": about} if about else {})}


def _result(name: str) -> str:
    return f"{name}-result"


def _block(part: StreamedPart) -> dict[str, Any]:
    return {"block": part.output}


def _interrupt(name: str, part: StreamedPart) -> dict[str, Any]:
    asked = part.approval
    assert asked is not None
    until = {"expiresAt": asked.expires_at} if asked.expires_at else {}
    message = asked.message or f"May {part.tool} be called?"
    about = {"reason": "tool_call", "message": message, "toolCallId": name}
    return {"id": asked.id, **about, "responseSchema": _ANSWER, **until}


def user_message(message_id: str, text: str) -> dict[str, Any]:
    """Return a user's message as ``@ag-ui/client`` keeps it."""
    return {"id": message_id, "role": "user", "content": text}


def reply_messages(reply: str, parts: Iterable[StreamedPart]) -> list[dict[str, Any]]:
    """Return the messages of a reply as ``@ag-ui/client`` keeps them."""
    return [
        message
        for place, part in enumerate(parts)
        for message in messages_of(part_id(reply, place), part)
    ]


def interrupts_of(reply: str, parts: Iterable[StreamedPart]) -> list[dict[str, Any]]:
    """Return the questions of a reply that wait for an answer."""
    return [
        _interrupt(part_id(reply, place), part)
        for place, part in enumerate(parts)
        if part.approval is not None and part.approval.approved is None
    ]


def messages_of(name: str, part: StreamedPart) -> list[dict[str, Any]]:
    """Return the messages of a part: a message, and a call's result."""
    agent = {"metadata": {"agent": part.agent}}
    if part.type == "data":
        return [{"id": name, "role": "activity", "activityType": "block", "content": _block(part)}]
    if part.type == "reasoning":
        return [{"id": name, "role": "reasoning", "content": part.text, **agent}]
    if part.type != "tool-call":
        return [{"id": name, "role": "assistant", "content": part.text, **_named(part)}]
    arguments = part.text if part.status == "open" else dumps(part.input)
    function = {"name": part.tool, "arguments": arguments}
    call = {"id": name, "type": "function", "function": function, **agent}
    found: list[dict[str, Any]] = [{"id": name, "role": "assistant", "toolCalls": [call]}]
    if part.output is not None:
        result = {"role": "tool", "toolCallId": name, "content": text_of_part(part)}
        found.append({"id": _result(name), **result})
    return found
