"""Streams of OpenAI's Responses API: the last event holds the whole response.

Source: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentkit_py._core.json import as_object
from agentkit_py.messages import Delta
from agentkit_py.models.base import Model
from agentkit_py.models.reply import text_or_empty
from agentkit_py.models.streaming import BaseAssembler

SUMMARY_GAP = "\n\n"
"""Between two parts of a reasoning's summary."""

_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_TEXTS = frozenset({"response.output_text.delta", "response.refusal.delta"})
_REASONINGS = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})


class ResponsesAssembler(BaseAssembler):
    """Tells the pieces of one response, and keeps what its last event says."""

    def __init__(self, model: Model) -> None:
        """Begin a reply of ``model``."""
        super().__init__(model)
        self._response: dict[str, Any] | None = None
        self._items: dict[int, dict[str, Any]] = {}
        self._summaries: dict[int, tuple[str, object]] = {}

    @property
    def whole(self) -> bool:
        """Whether the response has ended, well or badly."""
        return self._response is not None

    def finish(self) -> object:
        """The response as it would have been without streaming."""
        response = self._response or {}
        if not response.get("output") and self._items:
            # Some servers leave out at the end what they have sent before.
            return {**response, "output": [item for _, item in sorted(self._items.items())]}
        return response

    def _error_of(self, found: dict[str, Any]) -> dict[str, Any]:
        if found.get("type") == "error":
            return found if as_object(found.get("error")) else {"error": found}
        if found.get("type") == "response.failed":
            return as_object(found.get("response")) or found
        return found

    def _take(self, found: dict[str, Any]) -> Sequence[Delta]:
        kind = text_or_empty(found.get("type"))
        place = found.get("output_index")
        index = place if isinstance(place, int) else 0
        if kind in _ENDS:
            self._response = as_object(found.get("response")) or {}
            self._ended = True
            return ()
        if kind in ("response.output_item.added", "response.output_item.done"):
            return self._item(index, as_object(found.get("item")) or {})
        piece = text_or_empty(found.get("delta"))
        if kind in _TEXTS:
            return self._parts.text(index, piece)
        if kind in _REASONINGS:
            return self._reasoning(index, kind, found, piece)
        if kind == "response.function_call_arguments.delta":
            return self._call(index, piece)
        return ()  # beginnings and ends of parts, and events that are yet to be invented

    def _item(self, index: int, item: dict[str, Any]) -> Sequence[Delta]:
        self._items[index] = item
        return self._call(index, "") if item.get("type") == "function_call" else ()

    def _call(self, index: int, piece: str) -> Sequence[Delta]:
        item = self._items.get(index, {})
        call_id, name = text_or_empty(item.get("call_id")), text_or_empty(item.get("name"))
        return self._parts.call(index, call_id, name, piece)

    def _reasoning(
        self, index: int, kind: str, found: dict[str, Any], piece: str
    ) -> Sequence[Delta]:
        part = (kind, found.get("summary_index", found.get("content_index")))
        before = self._summaries.setdefault(index, part)
        if before[0] != part[0]:
            return ()  # both the summary and the whole: the summary is what counts
        self._summaries[index] = part
        gap = SUMMARY_GAP if before != part else ""
        return self._parts.reasoning(index, gap + piece)
