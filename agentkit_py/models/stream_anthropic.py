"""Streams of Anthropic's Messages API.

Source: https://docs.claude.com/en/docs/build-with-claude/streaming
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentkit_py._core.json import as_list, as_object
from agentkit_py.messages import Delta
from agentkit_py.models.base import Model
from agentkit_py.models.reply import text_or_empty
from agentkit_py.models.streaming import BaseAssembler, join


@dataclass(slots=True)
class _Block:
    """One content block as it is written."""

    start: dict[str, Any]
    pieces: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    citations: list[Any] = field(default_factory=list[Any])

    def add(self, name: str, piece: str) -> str:
        self.pieces.setdefault(name, []).append(piece)
        return piece

    def whole(self) -> dict[str, Any]:
        block = dict(self.start)
        for name, pieces in self.pieces.items():
            if name == "partial_json":
                block["input"] = _input(join(pieces), block.get("input"))
            else:
                block[name] = join([text_or_empty(block.get(name)), *pieces])
        if self.citations:
            block["citations"] = [*(as_list(block.get("citations")) or []), *self.citations]
        return block


class AnthropicAssembler(BaseAssembler):
    """Puts the events of one message together."""

    def __init__(self, model: Model) -> None:
        """Begin a reply of ``model``."""
        super().__init__(model)
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, _Block] = {}

    @property
    def whole(self) -> bool:
        """Whether ``message_stop`` has come."""
        return self._ended and bool(self._message)

    def finish(self) -> object:
        """The message as it would have been without streaming."""
        content = [block.whole() for _, block in sorted(self._blocks.items())]
        body = {**self._message, "content": content}
        return {**body, "usage": self._usage} if self._usage else body

    def _take(self, found: dict[str, Any]) -> Sequence[Delta]:
        index = found.get("index")
        number = index if isinstance(index, int) else len(self._blocks)
        match found.get("type"):
            case "message_start":
                self._message = dict(as_object(found.get("message")) or {})
                self._count(self._message.get("usage"))
            case "content_block_start":
                return self._start(number, as_object(found.get("content_block")) or {})
            case "content_block_delta":
                return self._delta(number, as_object(found.get("delta")) or {})
            case "message_delta":
                self._message.update(as_object(found.get("delta")) or {})
                self._count(found.get("usage"))
            case "message_stop":
                self._ended = True
            case _:
                pass  # pings, ends of blocks, and event types that are yet to be invented
        return ()

    def _count(self, usage: object) -> None:
        # The last event repeats what the first one said, or leaves it out, or says null.
        found = as_object(usage) or {}
        self._usage.update(
            {k: v for k, v in found.items() if v is not None or k not in self._usage}
        )

    def _start(self, number: int, start: dict[str, Any]) -> Sequence[Delta]:
        self._blocks[number] = _Block(start)
        match start.get("type"):
            case "text":
                return self._parts.text(number, text_or_empty(start.get("text")))
            case "thinking":
                return self._parts.reasoning(number, text_or_empty(start.get("thinking")))
            case "tool_use":
                return self._call(number, start, "")
            case _:
                return ()

    def _delta(self, number: int, delta: dict[str, Any]) -> Sequence[Delta]:
        block = self._blocks.setdefault(number, _Block({}))
        match delta:
            case {"type": "text_delta", "text": str(piece)}:
                return self._parts.text(number, block.add("text", piece))
            case {"type": "thinking_delta", "thinking": str(piece)}:
                return self._parts.reasoning(number, block.add("thinking", piece))
            case {"type": "signature_delta", "signature": str(piece)}:
                block.add("signature", piece)
            case {"type": "citations_delta"}:
                block.citations.append(delta.get("citation"))
            case {"type": "input_json_delta", "partial_json": str(piece)}:
                block.add("partial_json", piece)
                if block.start.get("type") == "tool_use":
                    return self._call(number, block.start, piece)
            case _:
                pass
        return ()

    def _call(self, number: int, start: dict[str, Any], piece: str) -> Sequence[Delta]:
        name = text_or_empty(start.get("name"))
        return self._parts.call(number, text_or_empty(start.get("id")), name, piece)


def _input(text: str, start: object) -> object:
    """The arguments; as text where the model was cut short or wrote no JSON."""
    if not text.strip():
        return start if as_object(start) else {}
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
