"""From events to chunks: pure, and the same events always give the same chunks.

Sequence numbers, chunk ids and part ids are counted, never random, so that a replayed run publishes
its chunks again under the same ids and a consumer can drop repeated ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentkit_py._core.json import JsonValue, dumps
from agentkit_py.events.approvals import resolution_of
from agentkit_py.events.chunks import (
    OUTPUT_CHUNK,
    TEXT_CHUNK,
    TOOL_PROGRESS,
    Chunk,
    EventName,
    split_text,
)
from agentkit_py.events.for_users import (
    answer_for_user,
    decision_for_user,
    result_for_user,
)
from agentkit_py.events.types import (
    AgentsRouted,
    ContextActivity,
    ContextBuilt,
    Event,
    GuardrailChecked,
    HitlRequested,
    HitlResolved,
    ModelFailedOver,
    ModelReplied,
    OutputDelta,
    ReplyDelta,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from agentkit_py.messages import (
    Finish,
    Message,
    OpaqueMessage,
    ReasoningDelta,
    ReasoningMessage,
    TextDelta,
    TextMessage,
    ToolCall,
    ToolCallDelta,
    ToolCallMessage,
    without_ciphers,
)

_Draft = tuple[EventName, dict[str, Any]]


@dataclass(slots=True)
class _Part:
    """A part of a reply on the wire."""

    id: str
    kind: str
    tool: str | None = None
    call: str | None = None
    """The part of an output's call, where readers would match it with another call."""


@dataclass(slots=True, eq=False)
class _StreamedCall:
    """A tool call whose part is on the wire and that has no output there yet."""

    message_id: str
    call: ToolCall
    part_id: str
    started: bool = False


@dataclass(slots=True)
class _StreamedCalls:
    """The open calls of a run, in the order of their parts."""

    _calls: list[_StreamedCall] = field(default_factory=list[_StreamedCall])

    def add(self, message_id: str, call: ToolCall, part_id: str) -> None:
        """Record that the part of a call is on the wire."""
        self._calls.append(_StreamedCall(message_id, call, part_id))

    def waiting(self, message_id: str) -> list[_StreamedCall]:
        """Return the calls of a message that have not started."""
        return [one for one in self._calls if one.message_id == message_id and not one.started]

    def start(self, message_id: str, call: ToolCall) -> bool:
        """Mark a call as started; False if it has no part yet."""
        known = next((one for one in self.waiting(message_id) if one.call == call), None)
        if known is not None:
            known.started = True
        return known is not None

    def part_of(self, message_id: str, call: ToolCall) -> str | None:
        """Return the part of a call that has started; None: it is not on the wire yet."""
        mine = (one for one in self._calls if one.message_id == message_id and one.started)
        return next((one.part_id for one in mine if one.call == call), None)

    def finish(self, message_id: str, call: ToolCall) -> str | None:
        """Remove a call, and return its part where readers would take its output for another's.

        They give an output to the last open call of its message: so does the useAgent hook, since
        TypeScript sends a call's part right before its output.
        """
        mine = [one for one in self._calls if one.message_id == message_id]
        known = next((one for one in mine if one.started and one.call == call), None)
        if known is None:
            return None
        self._calls.remove(known)
        return None if mine[-1] is known else known.part_id


@dataclass(slots=True)
class Projector:
    """Turns a run's events into chunks.

    Args:
        simulate_chunking: Cut texts that arrive whole into small deltas.
        extended: Also send chunks that TypeScript declares and never sends: ``usage.updated`` after
            each reply, and ``metadata.updated`` of type ``context_update`` with the report before
            it and of type ``finish_update`` with why it ended.
        error_texts: Send the errors of tools as models read them; but never the words of staff.
    """

    simulate_chunking: bool = False
    extended: bool = True
    error_texts: bool = True
    _sequence: int = 0
    _parts: int = 0
    _root: RunStarted | None = None
    _hidden: set[str] = field(default_factory=set[str])
    _live: dict[tuple[str, int], _Part] = field(default_factory=dict[tuple[str, int], _Part])
    _calls: _StreamedCalls = field(default_factory=_StreamedCalls)

    def feed(self, event: Event) -> list[Chunk]:
        """Return the chunks that ``event`` becomes."""
        if isinstance(event, RunStarted):
            if self._root is None:
                self._root = event
            if event.routing or event.parent_run_id in self._hidden:
                self._hidden.add(event.run_id)
        if event.run_id in self._hidden:
            return []
        if isinstance(event, ToolProgressed):
            return [self._progress(event)]
        return [self._number(name, data) for name, data in self._drafts(event)]

    def ahead(self, event: Event) -> list[Chunk]:
        """Return the chunks of an event that is fed again later, without counting them."""
        sequence = self._sequence
        chunks = self.feed(event)
        self._sequence = sequence
        return chunks

    def _progress(self, event: ToolProgressed) -> Chunk:
        """Return a chunk without a number: a replay does not repeat events inside a step."""
        data: dict[str, Any] = {
            "runId": event.run_id,
            "messageId": event.message_id,
            "type": TOOL_PROGRESS,
            "metadata": {"toolName": event.call.name, **event.progress.to_dict()},
        }
        part_id = self._calls.part_of(event.message_id, event.call)
        if part_id is not None:
            data["partId"] = part_id
        return Chunk("metadata.updated", self._placed(data), -1, f"progress-{event.id}")

    def _placed(self, data: dict[str, Any]) -> dict[str, Any]:
        """Add where the run belongs to the data of a chunk."""
        root = self._root
        if root is not None and root.thread_id:
            data["threadId"] = root.thread_id
        if root is not None and root.user_id is not None:
            data["userId"] = root.user_id
        return data

    def _number(self, name: EventName, data: dict[str, Any]) -> Chunk:
        chunk = Chunk(name, self._placed(data), self._sequence)
        self._sequence += 1
        return chunk

    def _drafts(self, event: Event) -> Iterator[_Draft]:
        match event:
            case RunStarted() | RunCompleted() | RunFailed() | RunInterrupted():
                return self._run(event)
            case ContextBuilt() | ContextActivity():
                return self._context(event)
            case ReplyDelta():
                return self._delta(event)
            case ModelFailedOver() | GuardrailChecked():
                return self._taken_back(event)
            case ModelReplied():
                return self._reply(event)
            case ToolStarted():
                return self._call(event)
            case ToolFinished():
                return self._output(event)
            case HitlRequested() | HitlResolved():
                return self._question(event)
            case AgentsRouted() | OutputDelta() | ToolProgressed():
                return iter(())  # TypeScript has no event for routing; pieces are sent as they came

    def _run(
        self, event: RunStarted | RunCompleted | RunFailed | RunInterrupted
    ) -> Iterator[_Draft]:
        if isinstance(event, RunStarted):
            yield "run.started", _started(event)
            return
        if not isinstance(event, RunCompleted):
            # Parts of a reply that broke off.
            why = str(event.error) if isinstance(event, RunFailed) else "interrupted"
            for part in self._take_live(event.message_id):
                name, data = self._failed(event, part, why)
                # The part of a text that was shown is not taken back.
                yield name, {**data, "cut": "error"} if part.kind == "text" else data
        if isinstance(event, RunInterrupted):
            yield "run.interrupted", {**self._ended(event), "reason": "cancelled"}
        elif isinstance(event, RunFailed):
            failure = {"error": str(event.error), "recoverable": False}
            yield "run.failed", {**self._ended(event), **failure}
        else:
            yield "run.completed", self._ended(event)
        if self._root is not None and event.run_id == self._root.run_id:
            yield "stream.ended", {"scope": event.scope, "messageId": event.message_id}

    def _ended(self, event: RunCompleted | RunFailed | RunInterrupted) -> dict[str, Any]:
        data: dict[str, Any] = {"runId": event.run_id, "scope": event.scope, "name": event.name}
        # As in TypeScript, an agent by itself leaves the message id to stream.ended.
        if self._root is None or self._root.scope == "network":
            data["messageId"] = event.message_id
        return data

    def _context(self, event: ContextBuilt | ContextActivity) -> Iterator[_Draft]:
        if not self.extended:
            return
        built = isinstance(event, ContextBuilt)
        yield (
            "metadata.updated",
            {
                "runId": event.run_id,
                "messageId": event.message_id,
                "type": "context_update" if built else f"{event.activity}_{event.stage}",
                "metadata": event.report.to_dict() if built else dict(event.facts),
            },
        )

    def _part_id(self, message_id: str) -> str:
        self._parts += 1
        return f"tool_{message_id.replace('-', '')[:8]}_{self._parts:08d}_{_base36(self._parts)}"

    def _create(self, event: Any, kind: str, tool: str | None = None) -> tuple[_Part, _Draft]:
        part = _Part(self._part_id(event.message_id), kind, tool)
        return part, ("part.created", self._described(event, part))

    def _described(self, event: Any, part: _Part) -> dict[str, Any]:
        tool = {"toolName": part.tool} if part.tool is not None else {}
        return {
            "partId": part.id,
            "runId": event.run_id,
            "messageId": event.message_id,
            "type": part.kind,
            **_answered(part),
            "metadata": {**tool, "agentName": event.name},
        }

    def _completed(self, event: Any, part: _Part, content: JsonValue) -> _Draft:
        data = self._described(event, part)
        metadata = data.pop("metadata")
        data["finalContent"] = content
        return "part.completed", {**data, "metadata": metadata} if part.tool is not None else data

    def _delta(self, event: ReplyDelta) -> Iterator[_Draft]:
        delta = event.delta
        key = (event.message_id, delta.index)
        part = self._live.get(key)
        if part is None:
            tool = delta.name if isinstance(delta, ToolCallDelta) else None
            part, created = self._create(event, _KINDS[type(delta)], tool)
            self._live[key] = part
            yield created
        if delta.delta:
            yield self._piece(event, part, delta.delta)

    def _piece(self, event: Any, part: _Part, delta: str) -> _Draft:
        data = {"partId": part.id, "messageId": event.message_id, "delta": delta, **_answered(part)}
        if part.kind == "tool-call":
            data["toolName"] = part.tool or ""
        return _DELTA_EVENTS[part.kind], data

    def _taken_back(self, event: ModelFailedOver | GuardrailChecked) -> Iterator[_Draft]:
        """Take back the streamed pieces of a reply that does not count."""
        if isinstance(event, ModelFailedOver):
            why, kind = f"taken back: {event.error}", "model_fallback"
            metadata = {"error": str(event.error), "model": event.model}
        elif event.verdict == "tripped":
            # Without the reason: who reads this may be whom the guardrail stopped.
            why, kind = "taken back", "guardrail_tripped"
            metadata = {"guardrail": event.guardrail, "stage": event.stage}
        else:
            return
        for part in self._take_live(event.message_id):
            yield self._failed(event, part, why)
        if self.extended:
            facts = {"runId": event.run_id, "messageId": event.message_id}
            yield "metadata.updated", {**facts, "type": kind, "metadata": metadata}

    def _reply(self, event: ModelReplied) -> Iterator[_Draft]:
        live = self._take_live(event.message_id)
        if live:
            yield from self._close(event, live)
        else:
            for kind, call, content in contents_of(event.messages):
                if call is None:
                    yield from self._part(event, kind, content)
        if self.extended and event.usage is not None:
            yield "usage.updated", _usage(event)
        if self.extended and event.finish is not None:
            yield "metadata.updated", _finish(event, event.finish)

    def _take_live(self, message_id: str) -> list[_Part]:
        live = [part for key, part in self._live.items() if key[0] == message_id]
        self._live = {key: part for key, part in self._live.items() if key[0] != message_id}
        return live

    def _failed(self, event: Any, part: _Part, error: str) -> _Draft:
        return "part.failed", {**self._described(event, part), "error": error}

    def _close(self, event: ModelReplied, live: list[_Part]) -> Iterator[_Draft]:
        """Complete the parts that were streamed, in the order of the reply."""
        for kind, call, content in contents_of(event.messages):
            tool = None if call is None else call.name
            part = next((p for p in live if p.kind == kind and p.tool == tool), None)
            if part is None:
                if tool is None:  # put in by a hook, or a whole block, as hosted tools send
                    yield from self._part(event, kind, content)
                continue
            live.remove(part)
            if call is not None:
                self._calls.add(event.message_id, call, part.id)
            yield self._completed(event, part, content)
        for part in live:  # taken out of the reply by a hook after it was streamed
            yield self._failed(event, part, "removed from the reply")

    def _part(self, event: ModelReplied, kind: str, content: JsonValue) -> Iterator[_Draft]:
        part, created = self._create(event, kind)
        yield created
        text = content if isinstance(content, str) else dumps(content)
        for piece in self._pieces(text, TEXT_CHUNK):
            yield self._piece(event, part, piece)
        yield self._completed(event, part, content)

    def _pieces(self, text: str, size: int) -> list[str]:
        return split_text(text, size) if self.simulate_chunking else [text]

    def _call(self, event: ToolStarted) -> Iterator[_Draft]:
        if not self._calls.start(event.message_id, event.call):
            yield from self._call_part(event, event.call)[1]
            self._calls.start(event.message_id, event.call)

    def _call_part(self, event: Any, call: ToolCall) -> tuple[str, Sequence[_Draft]]:
        """Return the id of a call's part, and its chunks."""
        part, created = self._create(event, "tool-call", call.name)
        self._calls.add(event.message_id, call, part.id)
        pieces = [
            self._piece(event, part, piece) for piece in self._pieces(call.written, TEXT_CHUNK)
        ]
        return part.id, [created, *pieces, self._completed(event, part, call.arguments)]

    def _question(self, event: HitlRequested | HitlResolved) -> Iterator[_Draft]:
        """Yield the calls that wait, so that a front end can show them, and then the question."""
        if isinstance(event, HitlResolved):
            yield _resolved(event)
            return
        free = self._calls.waiting(event.message_id)
        parts: list[str] = []
        for call in event.request.calls:
            known = next((one for one in free if one.call == call), None)
            if known is None:
                part_id, drafts = self._call_part(event, call)
                yield from drafts
            else:
                free.remove(known)
                part_id = known.part_id
            parts.append(part_id)
        question = event.request.to_dict()
        for call, part_id in zip(question["toolCalls"], parts, strict=True):
            call["partId"] = part_id
        yield "hitl.requested", {"runId": event.run_id, "messageId": event.message_id, **question}

    def _output(self, event: ToolFinished) -> Iterator[_Draft]:
        result = event.result
        part = _Part(self._part_id(event.message_id), "tool-output", result.tool.name)
        part.call = self._calls.finish(event.message_id, result.tool)
        content = result_for_user(result.content, error_texts=self.error_texts)
        yield "part.created", self._described(event, part)
        for piece in self._pieces(dumps(content), OUTPUT_CHUNK):
            yield self._piece(event, part, piece)
        yield self._completed(event, part, content)


_KINDS = {TextDelta: "text", ReasoningDelta: "reasoning", ToolCallDelta: "tool-call"}
_DELTA_EVENTS: dict[str, EventName] = {
    "text": "text.delta",
    "reasoning": "reasoning.delta",
    "data": "data.delta",
    "tool-call": "tool_call.arguments.delta",
    "tool-output": "tool_call.output.delta",
}


def _answered(part: _Part) -> dict[str, str]:
    return {} if part.call is None else {"callPartId": part.call}


def _started(event: RunStarted) -> dict[str, Any]:
    parent = {"parentRunId": event.parent_run_id} if event.parent_run_id else {}
    return {
        "runId": event.run_id,
        **parent,
        "scope": event.scope,
        "name": event.name,
        "messageId": event.message_id,
    }


def _resolved(event: HitlResolved) -> _Draft:
    request, answer = event.request, event.answer
    data: dict[str, Any] = {
        "runId": event.run_id,
        "messageId": event.message_id,
        "requestId": request.id,
        "resolution": resolution_of(request, answer),
    }
    if answer is None:
        return "hitl.resolved", data
    words = [answer.on(index) for index in range(len(request.calls))]
    data["decisions"] = [
        {"index": index, **decision_for_user(word)} for index, word in enumerate(words)
    ]
    named = zip(request.calls, words, strict=True)
    data["approvedTools"] = [call.name for call, word in named if word.approved]
    return "hitl.resolved", {**data, **answer_for_user(answer)}


def _usage(event: ModelReplied) -> dict[str, Any]:
    usage = event.usage
    assert usage is not None
    return {
        "runId": event.run_id,
        "messageId": event.message_id,
        "usage": {
            "inputTokens": usage.input_tokens,
            "outputTokens": usage.output_tokens,
            "totalTokens": usage.total_tokens,
            "cachedTokens": usage.cached_tokens,
            "reasoningTokens": usage.reasoning_tokens,
            "cacheWriteTokens": usage.cache_write_tokens,
        },
    }


def _finish(event: ModelReplied, finish: Finish) -> dict[str, Any]:
    told: dict[str, Any] = {"finishReason": finish.reason}
    told |= {"providerReason": finish.word} if finish.word else {}
    told |= {"finishDetails": finish.details} if finish.details else {}
    about = {"runId": event.run_id, "messageId": event.message_id}
    return {**about, "type": "finish_update", "metadata": told}


def contents_of(
    messages: Iterable[Message],
) -> Iterator[tuple[str, ToolCall | None, JsonValue]]:
    """Yield kind, call and content of each part that a reply's messages become."""
    for message in messages:
        # An empty text is not a part: e.g. a thought that the provider does not show.
        if isinstance(message, TextMessage) and message.text:
            yield "text", None, message.text
        elif isinstance(message, ReasoningMessage) and message.content and not message.hidden:
            yield "reasoning", None, message.content
        elif isinstance(message, OpaqueMessage):
            yield "data", None, _block(message)
        elif isinstance(message, ToolCallMessage):
            for call in message.tools:
                yield "tool-call", call, call.arguments


def _block(message: OpaqueMessage) -> dict[str, JsonValue]:
    """Return a front end's form of a block without a type: no signatures, no encrypted data."""
    about = {"format": message.format, "kind": message.kind}
    hosted = {"toolName": message.tool, "callId": message.call_id, "part": message.part}
    known = {name: value for name, value in hosted.items() if value}
    return {**about, **known, "content": without_ciphers(message.content)}


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
    return digits or "0"
