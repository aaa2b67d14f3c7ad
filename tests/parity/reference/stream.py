"""Streaming chunks of the reference model."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from ..vectors import Json
from .core import UNDEFINED
from .js import utf16_pieces, whole_pieces, written

if TYPE_CHECKING:
    from .play import Play

_TEXT, _OUTPUT = 50, 80


class Stream:
    """The chunks of one run; a network and its agents share it."""

    def __init__(
        self, play: Play, spec: dict[str, Json], data: dict[str, Json], thread: str | None
    ) -> None:
        self._play = play
        self._spec = spec
        self._sequence = 0
        user = data.get("userId")
        self._common: dict[str, Json] = {"threadId": thread} if thread else {}
        self._thread = thread
        if isinstance(user, str) and user:
            self._common["userId"] = user

    def emit(self, event: str, **data: Json) -> None:
        """One chunk."""
        number, self._sequence = self._sequence, self._sequence + 1
        if number == 0 and self._thread == "" and not self._play.on("empty-ids"):
            data["threadId"] = ""  # run.started names it, whatever it is
        self._play.note(f"event:{event}")
        self._play.events.append(
            {
                "run": self._play.run,
                "event": event,
                "data": {**copy.deepcopy(data), **self._common},
                "sequenceNumber": number,
                "id": f"publish-{number}:{event}",
                "timestampType": "int-ms",
                "chunkKeys": ["event", "data", "timestamp", "sequenceNumber", "id"],
            }
        )
        if self._fails(number, event):
            self._play.warnings.append({"event": event, "sequenceNumber": number})

    def _fails(self, number: int, event: str) -> bool:
        publish = self._spec.get("publish", "ok")
        if publish in ("throw", "throwString"):
            return True
        if isinstance(publish, dict):
            return publish.get("throwOnIndex") == number or publish.get("throwOnEvent") == event
        return False

    def _pieces(self, text: str, size: int) -> list[str]:
        if not self._spec.get("simulateChunking"):
            return [text]
        cut, whole = utf16_pieces(text, size), whole_pieces(text, size)
        if cut == whole:
            return whole
        return whole if self._play.on("whole-characters") else cut

    def started(self, who: Speaker, parent: str | None) -> None:
        """An agent begins."""
        parents = {"parentRunId": parent} if parent is not None else {}
        self.emit(
            "run.started",
            runId=who.run_id,
            **parents,
            scope="agent",
            name=who.name,
            messageId=who.message_id,
        )

    def reply(self, who: Speaker, output: list[Json]) -> None:
        """Stream the model's reply."""
        texts = [
            m
            for m in output
            if m["type"] == "opaque"
            or (m["type"] in ("text", "reasoning") and _text(m) and m.get("role") == "assistant")
        ]
        plain = [m for m in output if m["type"] == "text" and m.get("role") == "assistant"]
        last = [m for m in plain[-1:] if _text(m)]
        if texts != last:
            last = texts if self._play.on("all-texts-are-streamed") else last
        for message in last:
            kind, content = message["type"], _block(message)
            kind = "data" if kind == "opaque" else kind
            text = content if isinstance(content, str) else written(content, self._play.on)
            self._play.step_for_ids(f"generate-text-part-id-{who.message_id}")
            part = self._created(who, kind)
            for piece in self._pieces(text, _TEXT):
                self.emit(f"{kind}.delta", partId=part, messageId=who.message_id, delta=piece)
            self._completed(who, part, kind, content)

    def call(self, who: Speaker, call: Json) -> None:
        """A tool is about to be called."""
        given = call.get("input", {})
        given = {} if given in (UNDEFINED, None) else given  # agent.ts: `tool.input ?? {}`
        text = call.get("malformed") or written(given, self._play.on)
        self._play.step_for_ids(f"generate-tool-part-id-{who.message_id}-{call['name']}")
        part = self._created(who, "tool-call", call["name"])
        for number, piece in enumerate(self._pieces(text, _TEXT)):
            named = number == 0 or self._play.on("each-delta-names-its-tool")
            self.emit(
                "tool_call.arguments.delta",
                partId=part,
                delta=piece,
                toolName=call["name"] if named else UNDEFINED,
                messageId=who.message_id,
            )
        self._completed(who, part, "tool-call", given, call["name"])

    def output(self, who: Speaker, name: str, content: Json) -> None:
        """A tool gave something."""
        self._play.step_for_ids(f"generate-output-part-id-{who.message_id}-{name}")
        part = self._created(who, "tool-output", name)
        for piece in self._pieces(written(content, self._play.on), _OUTPUT):
            self.emit("tool_call.output.delta", partId=part, delta=piece, messageId=who.message_id)
        self._completed(who, part, "tool-output", content, name)

    def _created(self, who: Speaker, kind: str, tool: str | None = None) -> str:
        part = self._play.ids.new("part")
        named = {"toolName": tool} if tool is not None else {}
        self.emit(
            "part.created",
            partId=part,
            runId=who.run_id,
            messageId=who.message_id,
            type=kind,
            metadata={**named, "agentName": who.name},
        )
        return part

    def _completed(
        self, who: Speaker, part: str, kind: str, content: Json, tool: str | None = None
    ) -> None:
        meta = {"metadata": {"toolName": tool, "agentName": who.name}} if tool is not None else {}
        self.emit(
            "part.completed",
            partId=part,
            runId=who.run_id,
            messageId=who.message_id,
            type=kind,
            finalContent=content,
            **meta,
        )


class Speaker:
    """An agent's run, as chunks name it."""

    def __init__(self, name: str, run_id: str, message_id: str) -> None:
        self.name = name
        self.run_id = run_id
        self.message_id = message_id


def _text(message: Json) -> str:
    content = message["content"]
    if isinstance(content, list):
        return "".join(part["text"] for part in content)
    return content if isinstance(content, str) else ""  # agent.ts: of nothing else, no part


def _block(message: Json) -> Json:
    """A text, or a block without a type as front ends get it."""
    if message["type"] != "opaque":
        return _text(message)
    content = message["content"]
    hosted = {name: message[name] for name in ("toolName", "callId", "part") if name in message}
    kind = content["type"] if "type" in content else next(iter(content))
    return {
        "format": message["format"],
        "kind": kind,
        **hosted,
        "content": content,
    }
