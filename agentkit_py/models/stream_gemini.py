"""Streams of Gemini: each event is a whole response with the next few parts.

Source: https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent and
https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentkit_py._core.json import as_list, as_object, dumps
from agentkit_py.messages import Delta
from agentkit_py.models.base import Model
from agentkit_py.models.gemini_ids import CallIds
from agentkit_py.models.reply import text_or_empty
from agentkit_py.models.streaming import BaseAssembler, join


@dataclass(slots=True)
class _Part:
    """One part as it is written: a text may come in many pieces."""

    first: dict[str, Any]
    pieces: list[str] = field(default_factory=list[str])

    def takes(self, part: dict[str, Any]) -> bool:
        """Whether ``part`` goes on with this one: texts do, until one of them is signed."""
        return (
            isinstance(self.first.get("text"), str)
            and isinstance(part.get("text"), str)
            and (self.first.get("thought") is True) == (part.get("thought") is True)
            and not self.first.get("thoughtSignature")
        )

    def whole(self) -> dict[str, Any]:
        return {**self.first, "text": join(self.pieces)} if self.pieces else self.first


@dataclass(slots=True)
class _Candidate:
    """One candidate as it is written."""

    rest: dict[str, Any] = field(default_factory=dict[str, Any])
    content: dict[str, Any] | None = None
    parts: list[_Part] = field(default_factory=list[_Part])

    def add(self, part: dict[str, Any]) -> None:
        """Go on with the last part, or begin another one."""
        text = part.get("text")
        if self.parts and self.parts[-1].takes(part):
            self.parts[-1].first = {**self.parts[-1].first, **part}
        else:
            self.parts.append(_Part(part))
        if isinstance(text, str):
            self.parts[-1].pieces.append(text)

    def whole(self) -> dict[str, Any]:
        if self.content is None:
            return self.rest
        parts = {"parts": [part.whole() for part in self.parts]} if self.parts else {}
        return {"content": {**self.content, **parts}, **self.rest}


class GeminiAssembler(BaseAssembler):
    """Puts the responses of one stream together."""

    def __init__(self, model: Model) -> None:
        """Begin a reply of ``model``."""
        super().__init__(model)
        self._head: dict[str, Any] = {}
        self._candidates: dict[int, _Candidate] = {}
        self._ids: CallIds | None = None

    @property
    def whole(self) -> bool:
        """Whether each candidate has a reason for its end, or the prompt was blocked.

        There is no end marker; the reason comes with the last parts.
        """
        if not self._candidates:
            feedback = as_object(self._head.get("promptFeedback")) or {}
            return bool(feedback.get("blockReason"))
        return all(c.rest.get("finishReason") for c in self._candidates.values())

    def finish(self) -> object:
        """The response as it would have been without streaming."""
        found = [candidate.whole() for _, candidate in sorted(self._candidates.items())]
        return {"candidates": found, **self._head} if found else self._head

    def _take(self, found: dict[str, Any]) -> Sequence[Delta]:
        told: list[Delta] = []
        for name, value in found.items():
            if name != "candidates":
                before, now = as_object(self._head.get(name)), as_object(value)
                # The usage grows from event to event, and some leave parts of it out.
                self._head[name] = {**before, **now} if before and now else value
        for candidate in map(as_object, as_list(found.get("candidates")) or []):
            if candidate is not None:
                told += self._candidate(candidate)
        return told

    def _candidate(self, found: dict[str, Any]) -> list[Delta]:
        index = found.get("index")
        number = index if isinstance(index, int) else 0
        candidate = self._candidates.setdefault(number, _Candidate())
        candidate.rest.update({name: value for name, value in found.items() if name != "content"})
        content = as_object(found.get("content"))
        if content is None:
            return []
        said = {name: value for name, value in content.items() if name != "parts"}
        candidate.content = {**(candidate.content or {}), **said}
        told: list[Delta] = []
        for part in map(as_object, as_list(content.get("parts")) or []):
            if part is not None:
                candidate.add(part)
                told += self._part((number, len(candidate.parts)), part)
        return told

    def _part(self, key: tuple[int, int], part: dict[str, Any]) -> list[Delta]:
        call = as_object(part.get("functionCall"))
        if call is None:
            text = text_or_empty(part.get("text"))
            thought = part.get("thought") is True
            return self._parts.reasoning(key, text) if thought else self._parts.text(key, text)
        name = text_or_empty(call.get("name"))
        if not name:
            return []
        if self._ids is None:
            self._ids = CallIds(text_or_empty(self._head.get("responseId")))
        call_id = text_or_empty(call.get("id")) or self._ids.take(name)
        arguments = call.get("args")
        # Arguments come whole; none at all are an empty object, as without streaming.
        return self._parts.call(key, call_id, name, dumps({} if arguments is None else arguments))
