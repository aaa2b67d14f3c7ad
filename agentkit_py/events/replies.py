"""One reply to a user's message as a front end shows it: a list of parts that grows.

`ReplyReader` reads it from the chunks of a run, and says how each chunk changes it; `parts_of`
reads it from a stored result. The protocols of front ends (`agentkit_py.events.vercel`,
`agentkit_py.events.ag_ui`) write those changes in their own events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias

from agentkit_py._core.json import as_list, as_object, dumps
from agentkit_py.events.chunks import TOOL_PROGRESS
from agentkit_py.events.consume import (
    ChunkReader,
    MessageAssembler,
    PartApproval,
    PublishedChunk,
    StreamedPart,
)
from agentkit_py.events.for_users import DENIED, EXPIRED, result_for_user
from agentkit_py.events.project import contents_of
from agentkit_py.messages import Message, ToolResultMessage

REFUSED = frozenset({DENIED, EXPIRED})
"""Names of the errors of a call that no person allowed."""

ChangeKind: TypeAlias = Literal["opened", "grew", "ended", "asked", "decided", "answered"]
"""Change of a part: it began, got longer, is whole; a person is asked about the call, has
decided; the call has its output."""


@dataclass(frozen=True, slots=True)
class PartChange:
    """A change of a part."""

    kind: ChangeKind
    place: int
    """The part's index in the reply."""

    part: StreamedPart
    """The part as it is then."""

    delta: str = ""
    """The text that came, where it grew."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The parts changed in another way than by growth, e.g. as a reply was taken back."""

    parts: Sequence[StreamedPart]


@dataclass(frozen=True, slots=True)
class Waiting:
    """Another person is asked; this reader gets a notice."""

    question: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyStatus:
    """The reason why the stream of a reply is open: these three are all."""

    status: Literal["working", "waiting", "queued"]
    """``"working"``: a process works on the reply. ``"waiting"``: its run waits for a person.
    ``"queued"``: it waits for its turn, behind another run."""

    until: datetime | None = None
    """The time until which a person may answer; None: no limit."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        until = None if self.until is None else self.until.isoformat()
        return {"status": self.status, "until": until}


WORKING = ReplyStatus(status="working")
QUEUED = ReplyStatus(status="queued")


@dataclass(frozen=True, slots=True)
class Progressed:
    """A tool reported its progress, which no reply keeps."""

    place: int
    """The index of the call's part in the reply."""

    facts: Mapping[str, Any]
    """``toolName``, and ``text``, ``fraction`` and ``data`` where the tool gave them."""


ReplyChange: TypeAlias = PartChange | Rewritten | Waiting | ReplyStatus | Progressed


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyEnd:
    """The end of a reply, or of the part of it that a front end gets now."""

    reason: Literal["completed", "asked", "stopped", "failed"]
    """``"asked"``: its reader has to answer questions first."""

    error: str = ""
    recoverable: bool = False


class ReplyWriter(Protocol):
    """Writes a reply in the events of a front end's protocol."""

    def begin(self) -> list[dict[str, Any]]:
        """Return the first events."""
        ...

    def write(self, change: ReplyChange) -> list[dict[str, Any]]:
        """Return the events of a change."""
        ...

    def end(self, end: ReplyEnd) -> list[dict[str, Any]]:
        """Return the last events."""
        ...


STATUS = "reply.status"
"""The event that says why the stream of a reply stays open, where its chunks do not."""


class OwnWriter:
    """Writes events that our own chunks do not have: a reply is replaced, and how it ended."""

    def __init__(self, thread_id: str, message_id: str) -> None:
        self._where = {"threadId": thread_id, "messageId": message_id}

    def begin(self) -> list[dict[str, Any]]:
        """Return where the reply belongs."""
        return [{"event": "reply.started", "data": self._where}]

    def write(self, change: ReplyChange) -> list[dict[str, Any]]:
        """Return the event of a replaced reply, or of its status.

        The chunks say the rest.
        """
        if isinstance(change, ReplyStatus):
            return [{"event": STATUS, "data": {**self._where, **change.to_dict()}}]
        if not isinstance(change, Rewritten):
            return []
        parts = [part_to_dict(part) for part in change.parts]
        return [{"event": "reply.replaced", "data": {**self._where, "parts": parts}}]

    def end(self, end: ReplyEnd) -> list[dict[str, Any]]:
        """Return how it ended."""
        facts = {"error": end.error, "recoverable": end.recoverable}
        told = facts if end.reason == "failed" else {}
        return [{"event": "reply.ended", "data": {**self._where, "reason": end.reason, **told}}]


def part_to_dict(part: StreamedPart) -> dict[str, Any]:
    """Return a part as JSON."""
    found: dict[str, Any] = {"type": part.type, "agentName": part.agent, **author_of(part)}
    if part.type in ("text", "reasoning"):
        return {**found, "text": part.text}
    if part.type == "tool-call":
        found |= {"toolName": part.tool, "input": part.input}
    if part.approval is not None:
        asked = part.approval
        found["approval"] = {"id": asked.id, "approved": asked.approved, "reason": asked.reason}
    return {**found, "output": part.output}


def author_of(part: StreamedPart) -> dict[str, Any]:
    """Return the marker of a part that no agent wrote, and of a cut text; else nothing."""
    found: dict[str, Any] = {"byStaff": True} if part.by_staff else {}
    return {**found, "cut": part.cut} if part.cut else found


def reply_id(message_id: str) -> str:
    """Return the id of the reply to a user's message."""
    return f"{message_id}-reply"


def part_id(reply: str, place: int) -> str:
    """Return the id of a part of a reply: the same in the stream and in the thread."""
    return f"{reply}-{place}"


def approval_id(question: str, index: int, count: int) -> str:
    """Return the id under which a front end answers for a call of a question."""
    return question if count <= 1 else f"{question}.{index}"


class ReplyReader:
    """Reads a reply from the chunks of its run.

    Attributes:
        parts: The parts so far, without those that were taken back.
        end: How it ended, once it has.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.parts: list[StreamedPart] = []
        self.end: ReplyEnd | None = None
        self._reader = ChunkReader()
        self._assembler = MessageAssembler()
        self._root: str | None = None

    def feed(self, chunk: PublishedChunk) -> list[ReplyChange]:
        """Take a chunk, which may have come before, and return the changes.

        In the data of a question, ``mine`` says whether the reader may answer; True unless given.

        Raises:
            InvalidRecordError: It has not the shape of a chunk.
        """
        data = as_object(chunk.get("data")) or {}
        if "runId" not in data and chunk.get("event") in _SERVERS_OWN:
            self._run(str(chunk["event"]), data)
            return []
        return self._all(self._reader.feed(chunk))

    def flush(self) -> list[ReplyChange]:
        """Return the changes by chunks that are held since an earlier chunk has not come."""
        return self._all(self._reader.finish())

    def _all(self, chunks: Iterable[PublishedChunk]) -> list[ReplyChange]:
        return [change for one in chunks for change in self._changes(one)]

    def _changes(self, chunk: PublishedChunk) -> Iterator[ReplyChange]:
        event, data = chunk["event"], chunk["data"]
        if event.startswith("hitl."):
            return self._question(event, data)
        if data.get("type") == TOOL_PROGRESS:
            return self._progressed(data)
        return self._take(chunk)

    def _take(self, chunk: PublishedChunk) -> Iterator[ReplyChange]:
        event, data = chunk["event"], chunk["data"]
        self._run(event, data)
        known = self._assembler.find(data)
        text, is_open, has_output = (
            ("", True, False)
            if known is None
            else (known.text, known.status == "open", known.output is not None)
        )
        part = self._assembler.feed(chunk)
        if part is None:
            return
        if event == "part.created" and part.type != "tool-output":
            self.parts.append(part)
            yield PartChange("opened", len(self.parts) - 1, part)
            return
        # From the end: nearly always a part among the last grows.
        places = range(len(self.parts) - 1, -1, -1)
        place = next((one for one in places if self.parts[one] is part), None)
        if place is None:
            return  # an output on its way, or of a call that was not seen
        if event == "part.failed":
            del self.parts[place]
            yield Rewritten(tuple(self.parts))
        elif data.get("type") == "tool-output":
            if part.output is not None and not has_output:  # a repeated run says it again
                yield PartChange("answered", place, part)
        elif is_open and event == "part.completed":
            yield from self._completed(place, part, text)
        elif is_open and event in _GROWING and part.type != "data":
            yield PartChange("grew", place, part, str(data.get("delta", "")))

    def _progressed(self, data: Mapping[str, Any]) -> Iterator[ReplyChange]:
        known = self._assembler.find(data)
        for place, part in enumerate(self.parts):
            if part is known and part.output is None:
                yield Progressed(place, as_object(data.get("metadata")) or {})

    def _completed(self, place: int, part: StreamedPart, known: str) -> Iterator[ReplyChange]:
        if part.type in ("text", "reasoning"):
            if not part.text.startswith(known):  # a hook changed it
                yield Rewritten(tuple(self.parts))
                return
            if len(part.text) > len(known):
                yield PartChange("grew", place, part, part.text[len(known) :])
        yield PartChange("ended", place, part)

    def _run(self, event: str, data: Mapping[str, Any]) -> None:
        run = data.get("runId", self._root)
        if event == "run.started" and self._root is None:
            self._root = run
        if run != self._root:
            return
        if event == "run.completed":
            self.end = ReplyEnd(reason="completed")
        elif event == "run.interrupted":
            self.end = ReplyEnd(reason="stopped")
        elif event in ("run.failed", "error"):
            words, again = str(data.get("error", "")), data.get("recoverable") is True
            self.end = ReplyEnd(reason="failed", error=words, recoverable=again)

    def _question(self, event: str, data: Mapping[str, Any]) -> Iterator[ReplyChange]:
        if event == "hitl.requested":
            if data.get("mine") is False:
                yield Waiting(data)
                return
            for place, approval in self._asked(data):
                self.parts[place].approval = approval
                yield PartChange("asked", place, self.parts[place])
            return
        decisions = [as_object(one) or {} for one in as_list(data.get("decisions")) or ()]
        for place, part in enumerate(self.parts):
            index = _index_in(part.approval, str(data.get("requestId")))
            if part.approval is None or index is None:
                continue
            word = next((one for one in decisions if one.get("index") == index), data)
            approved = word.get("approved", data.get("resolution") == "approved")
            part.approval.approved = approved is True
            part.approval.reason = str(word.get("reason") or "")
            yield PartChange("decided", place, part)

    def _asked(self, data: Mapping[str, Any]) -> Iterator[tuple[int, PartApproval]]:
        calls = [as_object(call) or {} for call in as_list(data.get("toolCalls")) or ()]
        message = str((as_object(data.get("metadata")) or {}).get("reason", ""))
        until = data.get("expiresAt")
        here = [
            (place, part)
            for place, part in enumerate(self.parts)
            if part.message_id == data.get("messageId") and part.type == "tool-call"
        ]
        if not calls:  # a tool asks while it runs: the last that has no output
            calls = [{"partId": part.id} for _, part in here if part.output is None][-1:]
        for index, call in enumerate(calls):
            for place, part in here:
                if part.id == call.get("partId"):
                    name = approval_id(str(data.get("requestId")), index, len(calls))
                    yield place, PartApproval(id=name, message=message, expires_at=until)


_SERVERS_OWN = frozenset({"error", "run.interrupted"})
"""Events of the server itself, where a run did not begin or did not end."""

_GROWING = frozenset({"text.delta", "reasoning.delta", "tool_call.arguments.delta"})


def _index_in(approval: PartApproval | None, question: str) -> int | None:
    """Return which of a question's calls an approval is about; None: none of them."""
    if approval is None:
        return None
    if approval.id == question:
        return 0
    name, _, index = approval.id.rpartition(".")
    return int(index) if name == question and index.isdecimal() else None


def parts_of(
    agent: str, output: Sequence[Message], results: Sequence[ToolResultMessage]
) -> Iterator[StreamedPart]:
    """Return the parts of a stored result, as its run streamed them."""
    left = list(results)
    for kind, call, content in contents_of(output):
        part = StreamedPart(
            id="", type=kind, run_id="", message_id="", agent=agent, status="completed"
        )
        if call is not None:
            part.tool, part.input, part.text = call.name, call.arguments, call.written
            result = next((one for one in left if one.tool == call), None)
            if result is not None:
                left.remove(result)
                part.output = result_for_user(result.content)
        elif isinstance(content, str):
            part.text = content
        else:
            part.output = content
        yield part


def is_same_reply(one: Sequence[StreamedPart], other: Sequence[StreamedPart]) -> bool:
    """Return whether two replies show the same."""
    return [_shown(part) for part in one] == [_shown(part) for part in other]


def _shown(part: StreamedPart) -> tuple[Any, ...]:
    text = part.text if part.type in ("text", "reasoning") else ""
    approval = part.approval and (part.approval.id, part.approval.approved, part.approval.reason)
    about = part.type, part.agent, part.by_staff, part.cut
    return *about, part.tool, text, part.input, part.output, approval


def error_of(part: StreamedPart) -> tuple[str, str] | None:
    """Return name and message of the error that a call gave; None: it gave none."""
    output = as_object(part.output) or {}
    error = as_object(output.get("error"))
    if error is None:
        return None
    return str(error.get("name", "")), str(error.get("message") or error.get("name") or "")


def data_of(part: StreamedPart) -> Any:
    """Return a call's output without its envelope, where it has an envelope."""
    output = as_object(part.output)
    return output["data"] if output is not None and list(output) == ["data"] else part.output


def text_of_part(part: StreamedPart) -> str:
    """Return a call's output as text."""
    found = data_of(part)
    return found if isinstance(found, str) else dumps(found)
