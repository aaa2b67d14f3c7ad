"""Streams of chat completions: OpenAI, Azure, Grok and all that speak their format.

Source: https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentkit_py._core.json import as_list, as_object
from agentkit_py.messages import Delta
from agentkit_py.models.base import Model
from agentkit_py.models.reply import text_or_empty
from agentkit_py.models.streaming import BaseAssembler, content_text, join

_NOT_KEPT = frozenset({"choices", "usage", "object", "obfuscation", "error"})
_NO_INDEX = 1 << 30


def chat_stream_body(body: dict[str, Any], *, usage: bool = True) -> dict[str, Any]:
    """The request's body where a stream is wanted.

    Args:
        body: The body without streaming.
        usage: Whether the server knows ``stream_options``, by which it is asked for the usage.
    """
    options = {"stream_options": {"include_usage": True}} if usage else {}
    return {**options, **body, "stream": True}


@dataclass(slots=True)
class _Call:
    """One tool call as it is written."""

    index: int
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])
    told: int = 0
    """How many pieces were told: none before the name is known."""

    def whole(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": join(self.pieces)}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(slots=True)
class _Choice:
    """One choice as it is written."""

    number: int
    role: str = "assistant"
    texts: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    calls: list[_Call] = field(default_factory=list[_Call])
    logprobs: dict[str, list[Any]] | None = None
    rest: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def finished(self) -> bool:
        return bool(self.rest.get("finish_reason"))

    def call_for(self, found: dict[str, Any]) -> _Call:
        """The call that a piece belongs to.

        By its index. Some servers leave that out, some give all calls of a reply the same one; a
        new id tells new calls apart there.
        """
        call_id = text_or_empty(found.get("id"))
        index = found.get("index")
        same = [call for call in self.calls if index is None or call.index == index]
        if index is None and call_id:
            same = [call for call in same if call.id == call_id]
        last = same[-1] if same else None
        if last is None or (call_id and last.id and call_id != last.id):
            last = _Call(index if isinstance(index, int) else _NO_INDEX)
            self.calls.append(last)
        last.id = last.id or call_id
        return last

    def whole(self) -> dict[str, Any]:
        content = {name: join(pieces) for name, pieces in self.texts.items()}
        message: dict[str, Any] = {"role": self.role, "content": None, "refusal": None, **content}
        calls = sorted(self.calls, key=lambda call: call.index)
        if calls:
            message["tool_calls"] = [call.whole() for call in calls]
        filled = {"index": self.number, "message": message, "logprobs": self.logprobs}
        return {**filled, "finish_reason": None, **self.rest}


class ChatAssembler(BaseAssembler):
    """Puts the chunks of one chat completion together."""

    def __init__(self, model: Model) -> None:
        """Begin a reply of ``model``."""
        super().__init__(model)
        self._head: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}
        self._usage: dict[str, Any] | None = None

    @property
    def whole(self) -> bool:
        """Whether all has come: the end marker, or all that is expected before it."""
        if self._ended:
            return True
        choices = self._choices.values()
        return bool(choices) and self._usage is not None and all(c.finished for c in choices)

    def finish(self) -> object:
        """The completion as it would have been without streaming."""
        choices = [choice.whole() for _, choice in sorted(self._choices.items())]
        body = {**self._head, "object": "chat.completion", "choices": choices}
        return body if self._usage is None else {**body, "usage": self._usage}

    def _take(self, found: dict[str, Any]) -> Sequence[Delta]:
        for name, value in found.items():
            # Azure's first chunk, about its filters, has an empty id and model.
            if name not in _NOT_KEPT and (value or name not in self._head):
                self._head[name] = value
        # The usage comes once, after the last choice, or grows with each chunk (xAI).
        self._usage = as_object(found.get("usage")) or self._usage
        told: list[Delta] = []
        for choice in map(as_object, as_list(found.get("choices")) or []):
            if choice is not None:
                told += self._choice(choice)
        return told

    def _choice(self, found: dict[str, Any]) -> list[Delta]:
        index = found.get("index")
        number = index if isinstance(index, int) else 0
        choice = self._choices.setdefault(number, _Choice(number))
        for name, value in found.items():
            if name not in ("index", "delta", "logprobs") and (value or name not in choice.rest):
                choice.rest[name] = value
        self._add_logprobs(choice, as_object(found.get("logprobs")))
        delta = as_object(found.get("delta")) or {}
        choice.role = text_or_empty(delta.get("role")) or choice.role
        told = self._texts(choice, delta)
        for call in map(as_object, as_list(delta.get("tool_calls")) or []):
            if call is not None:
                told += self._call(choice, call)
        return told

    def _add_logprobs(self, choice: _Choice, found: dict[str, Any] | None) -> None:
        for name, values in (found or {}).items():
            choice.logprobs = choice.logprobs or {}
            choice.logprobs.setdefault(name, []).extend(as_list(values) or [])

    def _texts(self, choice: _Choice, delta: dict[str, Any]) -> list[Delta]:
        told: list[Delta] = []
        for name in ("reasoning_content", "content", "refusal"):
            if delta.get(name) is None:
                continue
            piece = content_text(delta[name])
            choice.texts.setdefault(name, []).append(piece)
            key = (choice.number, name)
            if name == "reasoning_content":
                told += self._parts.reasoning(key, piece)
            elif name == "content" or not self._parts.begun((choice.number, "content")):
                told += self._parts.text(key, piece)
        return told

    def _call(self, choice: _Choice, found: dict[str, Any]) -> list[Delta]:
        call = choice.call_for(found)
        function = as_object(found.get("function")) or {}
        # The first name counts: some servers repeat it in each piece.
        call.name = call.name or text_or_empty(function.get("name"))
        call.pieces.append(text_or_empty(function.get("arguments")))
        if not call.name:
            return []
        piece = "".join(call.pieces[call.told :])
        call.told = len(call.pieces)
        key = (choice.number, "call", choice.calls.index(call))
        return self._parts.call(key, call.id, call.name, piece)
