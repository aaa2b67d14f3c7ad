"""Reading a stream of chunks: put in order, each once, and reduced to the parts of replies.

A transport may deliver chunks twice or in another order, and a durable run publishes some of them
again. `ChunkReader` restores the published sequence; `MessageAssembler` builds parts from it. Both
are pure, and small enough to be written again in the language of a front end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from agentkit_py._core.json import as_object
from agentkit_py.errors import InvalidRecordError

PublishedChunk: TypeAlias = Mapping[str, Any]
"""A chunk as it was published: ``{event, data, timestamp, sequenceNumber, id}``."""


@dataclass(slots=True)
class _Sequence:
    """One run with its nested runs: the next number, and the chunks that came too early."""

    next: int = 0
    ended: bool = False
    seen: set[str] = field(default_factory=set[str])
    held: dict[int, list[PublishedChunk]] = field(default_factory=dict[int, list[PublishedChunk]])

    def take(self, chunk: PublishedChunk) -> list[PublishedChunk]:
        if self.ended or chunk["id"] in self.seen:
            return []
        self.seen.add(chunk["id"])
        number = chunk["sequenceNumber"]
        if number < self.next:  # a step that was tried again went another way
            return [chunk]
        self.held.setdefault(number, []).append(chunk)
        ready: list[PublishedChunk] = []
        while self.next in self.held:
            ready += self.held.pop(self.next)
            self.next += 1
        return self._closing(ready)

    def rest(self) -> list[PublishedChunk]:
        found = [chunk for number in sorted(self.held) for chunk in self.held[number]]
        self.next = max(self.held, default=self.next - 1) + 1
        self.held.clear()
        return self._closing(found)

    def _closing(self, ready: list[PublishedChunk]) -> list[PublishedChunk]:
        if any(chunk["event"] == "stream.ended" for chunk in ready):
            self.ended = True
            self.seen.clear()
            self.held.clear()
        return ready


class ChunkReader:
    """Puts chunks that come in any order, some of them twice, in sequence, each once.

    Ids and sequence numbers count from the beginning of a run, so runs that follow each other on
    a channel use the same ones. A chunk belongs to the outermost run that its ``runId``, or its
    message's, leads to; each such run is put in order by itself, and may overlap with others.

    Example:
        ::

            reader = ChunkReader()
            async for message in subscription:
                for chunk in reader.feed(message):
                    show(chunk)
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._sequences: dict[str, _Sequence] = {}
        self._parents: dict[str, str] = {}
        self._runs_of_messages: dict[str, str] = {}
        self._unplaced: list[PublishedChunk] = []
        """Chunks that came before those that say which run they belong to."""

        self._aside: set[str] = set()
        """Ids of passed-on chunks without a run, e.g. of a person's words."""

    def feed(self, chunk: PublishedChunk) -> list[PublishedChunk]:
        """Take a chunk and return those that are next in sequence, maybe none.

        Raises:
            InvalidRecordError: It has not the shape of a chunk.
        """
        data = _checked(chunk)
        if chunk["sequenceNumber"] < 0:
            is_known = chunk["id"] in self._aside
            self._aside.add(chunk["id"])
            return [] if is_known else [chunk]
        learned = self._learn(chunk["event"], data)
        sequence = self._sequence_of(data)
        if sequence is None:
            self._unplaced.append(chunk)
            return []
        ready = sequence.take(chunk)
        return [*ready, *self._place()] if learned and self._unplaced else ready

    def read(self, chunks: Iterable[PublishedChunk]) -> Iterator[PublishedChunk]:
        """Yield all ``chunks``, each once and in sequence; those after a lost chunk come last."""
        for chunk in chunks:
            yield from self.feed(chunk)
        yield from self.finish()

    def finish(self) -> list[PublishedChunk]:
        """Return, in sequence, the chunks that are held since an earlier chunk never came.

        For the end of a subscription, or when enough time has passed: the reader can be used on.
        """
        found = [chunk for sequence in self._sequences.values() for chunk in sequence.rest()]
        strangers = {_identity(chunk): chunk for chunk in self._unplaced}
        self._unplaced = []
        return [*found, *sorted(strangers.values(), key=lambda chunk: chunk["sequenceNumber"])]

    @property
    def waiting(self) -> int:
        """Number of chunks that are held since an earlier chunk has not come yet."""
        held = sum(len(c) for s in self._sequences.values() for c in s.held.values())
        return held + len({_identity(chunk) for chunk in self._unplaced})

    def _learn(self, event: str, data: Mapping[str, Any]) -> bool:
        """Note which run a run or a message belongs to; return whether anything was new."""
        run, message, parent = data.get("runId"), data.get("messageId"), data.get("parentRunId")
        learned = False
        if not isinstance(run, str):
            return learned
        if isinstance(message, str) and message not in self._runs_of_messages:
            self._runs_of_messages[message] = run
            learned = True
        if event == "run.started":
            if isinstance(parent, str) and parent != run:
                learned |= run not in self._parents
                self._parents[run] = parent
            elif run not in self._sequences:
                self._sequences[run] = _Sequence()
                learned = True
        return learned

    def _sequence_of(self, data: Mapping[str, Any]) -> _Sequence | None:
        run = data.get("runId") or self._runs_of_messages.get(data.get("messageId", ""))
        passed: set[str] = set()
        while run in self._parents and run not in passed:
            passed.add(run)
            run = self._parents[run]
        return self._sequences.get(run or "")

    def _place(self) -> list[PublishedChunk]:
        waiting, self._unplaced = self._unplaced, []
        ready: list[PublishedChunk] = []
        for chunk in waiting:
            sequence = self._sequence_of(chunk["data"])
            if sequence is None:
                self._unplaced.append(chunk)
            else:
                ready += sequence.take(chunk)
        return ready


def _checked(chunk: PublishedChunk) -> Mapping[str, Any]:
    for name, kind in (("event", str), ("id", str), ("sequenceNumber", int)):
        if not isinstance(chunk.get(name), kind):
            problem = f"expected {kind.__name__}, got {chunk.get(name)!r:.80}"
            raise InvalidRecordError(problem, where="chunk", field=name)
    data = as_object(chunk.get("data"))
    if data is None:
        problem = f"expected an object, got {chunk.get('data')!r:.80}"
        raise InvalidRecordError(problem, where="chunk", field="data")
    return data


def _identity(chunk: PublishedChunk) -> tuple[Any, ...]:
    data = chunk["data"]
    return chunk["id"], data.get("runId"), data.get("messageId"), data.get("partId")


@dataclass(slots=True, kw_only=True)
class PartApproval:
    """A question to a person about a tool call, and the answer."""

    id: str
    """Names the call in the question; see `approval_id`."""

    message: str = ""
    """The reason why a person is asked."""

    expires_at: str | None = None
    approved: bool | None = None
    """The decision; None: there is none yet."""

    reason: str = ""


@dataclass(slots=True, kw_only=True)
class StreamedPart:
    """One part of a reply: a text, reasoning, or a tool call with its output."""

    id: str
    type: str
    """``"text"``, ``"reasoning"``, ``"tool-call"``, or another type that the stream names."""

    run_id: str
    message_id: str
    agent: str = ""
    tool: str | None = None
    """The tool's name."""

    text: str = ""
    """The text; of a call the arguments as JSON, as far as they were streamed."""

    input: Any = None
    """A call's arguments, once it is complete."""

    output: Any = None
    """The tool's output: ``{"data": …}`` or ``{"error": …}``; of another block, its content."""

    status: Literal["open", "completed", "failed"] = "open"
    error: str | None = None
    """Why it failed, e.g. since the connection to the provider broke."""

    by_staff: bool = False
    """True if a staff member wrote it; ``agent`` is the person's name."""

    cut: str = ""
    """Why a text ends before its end, as the thread has it: a finish reason, ``"error"`` where it
    was stopped or broke off. Empty: it is whole."""

    approval: PartApproval | None = None
    """The question to a person about this call, where the front end asks it (`Reply`)."""


RunStatus: TypeAlias = Literal["running", "completed", "failed"]


class MessageAssembler:
    """Reduces chunks that are in sequence to parts of replies.

    Attributes:
        runs: The status of each outermost run by its id, in the order in which they began.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.runs: dict[str, RunStatus] = {}
        self._parts: dict[tuple[str, str], StreamedPart] = {}
        self._answered: dict[tuple[str, str], tuple[str, str]] = {}
        """The key of each tool output's call, by the output's key."""

    @property
    def parts(self) -> list[StreamedPart]:
        """All parts in order; a tool's output is with its call."""
        return [part for key, part in self._parts.items() if key not in self._answered]

    def find(self, data: Mapping[str, Any]) -> StreamedPart | None:
        """Return the part that a chunk with this data is about; of an output, that of its call."""
        key = _key(data)
        return self._parts.get(self._answered.get(key, key))

    def feed(self, chunk: PublishedChunk) -> StreamedPart | None:
        """Take the next chunk of a `ChunkReader`; return the part that it made or changed."""
        event, data = str(chunk["event"]), chunk["data"]
        kind, _, what = event.partition(".")
        if kind == "run":
            self._run(what, data)
        elif event == "part.created":
            return self._create(data)
        elif event in ("part.completed", "part.failed"):
            return self._end(what, data)
        elif what.endswith("delta"):
            return self._add(data)
        return None

    def _run(self, what: str, data: Mapping[str, Any]) -> None:
        run = data.get("runId")
        if not isinstance(run, str):
            return  # it was stopped before it began
        if what == "started" and "parentRunId" not in data:
            self.runs.setdefault(run, "running")
        elif run in self.runs and what in ("completed", "failed"):
            self.runs[run] = "failed" if what == "failed" else "completed"

    def _create(self, data: Mapping[str, Any]) -> StreamedPart | None:
        key = _key(data)
        if key in self._parts:
            return None
        facts = as_object(data.get("metadata")) or {}
        part = StreamedPart(
            id=data["partId"],
            type=data["type"],
            run_id=data["runId"],
            message_id=data["messageId"],
            agent=facts.get("agentName", ""),
            tool=facts.get("toolName"),
        )
        if part.type == "tool-output":
            named = (part.message_id, data.get("callPartId", ""))
            call = named if named in self._parts else self._open_call(part)
            if call is not None:
                self._answered[key] = call
        self._parts[key] = part
        return part

    def _open_call(self, output: StreamedPart) -> tuple[str, str] | None:
        """Return the first call of that tool in the message that has no output yet."""
        taken = set(self._answered.values())
        for key, part in self._parts.items():
            same = (part.message_id, part.tool) == (output.message_id, output.tool)
            if part.type == "tool-call" and same and key not in taken and part.output is None:
                return key
        return None

    def _add(self, data: Mapping[str, Any]) -> StreamedPart | None:
        part = self._parts.get(_key(data))
        if part is not None and part.status == "open" and isinstance(data.get("delta"), str):
            part.text += data["delta"]
        return part

    def _end(self, what: str, data: Mapping[str, Any]) -> StreamedPart | None:
        part = self._parts.get(_key(data))
        if part is None:
            return None
        if what == "failed":
            part.status, part.error = "failed", str(data.get("error", ""))
            return part
        part.status, part.error = "completed", None
        content = data.get("finalContent")
        if part.type == "tool-call" and data.get("type") == "tool-output":
            part.output = content  # sent under the id of its call
        elif part.type == "tool-call":
            part.input = content
        elif part.type == "tool-output":
            call = self._answered.get(_key(data))
            part = self._parts[call] if call is not None else part
            part.output = content
        elif isinstance(content, str):
            part.text = content
        else:
            part.output = content
        return part


def assemble(chunks: Iterable[PublishedChunk]) -> MessageAssembler:
    """Assemble chunks that came in any order, some of them twice."""
    assembler = MessageAssembler()
    for chunk in ChunkReader().read(chunks):
        assembler.feed(chunk)
    return assembler


def _key(data: Mapping[str, Any]) -> tuple[str, str]:
    return data.get("messageId", ""), data.get("partId", "")
