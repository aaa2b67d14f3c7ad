"""Replies of OpenAI's Responses API as it streams them.

Source: platform.openai.com/docs/api-reference/responses-streaming.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .types import SseEvent

_Pieces = Callable[[str], list[str]]
_ENDS = {"completed": "response.completed", "incomplete": "response.incomplete"}


def responses_events(plain: Mapping[str, Any], pieces: _Pieces) -> Iterator[SseEvent]:
    """Yield the events of one response, numbered and named."""
    for number, data in enumerate(_events(plain, pieces)):
        kind, rest = data
        yield kind, {"type": kind, "sequence_number": number, **rest}


def _events(plain: Mapping[str, Any], pieces: _Pieces) -> Iterator[tuple[str, dict[str, Any]]]:
    begun: dict[str, Any] = {**plain, "status": "in_progress", "output": [], "usage": None}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(plain["output"]):
        yield from _item(index, item, pieces)
    yield _ENDS.get(plain["status"], "response.failed"), {"response": dict(plain)}


def _item(
    index: int, item: dict[str, Any], pieces: _Pieces
) -> Iterator[tuple[str, dict[str, Any]]]:
    where = {"output_index": index}
    empty = {"message": "content", "reasoning": "summary"}.get(item["type"])
    begun: dict[str, Any] = {**item, empty or "arguments": [] if empty else ""}
    if "status" in item:
        begun["status"] = "in_progress"
    if item["type"] == "reasoning":
        begun.pop("encrypted_content", None)
    yield "response.output_item.added", {**where, "item": begun}
    where["item_id"] = item["id"]
    if item["type"] == "function_call":
        for piece in pieces(item["arguments"]):
            yield "response.function_call_arguments.delta", {**where, "delta": piece}
        done = {**where, "arguments": item["arguments"]}
        yield "response.function_call_arguments.done", done
    elif empty is not None:
        for number, part in enumerate(item[empty]):
            yield from _part(where, number, part, pieces)
    yield "response.output_item.done", {"output_index": index, "item": item}


def _part(
    where: dict[str, Any], number: int, part: dict[str, Any], pieces: _Pieces
) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = part["type"]
    key = "refusal" if kind == "refusal" else "text"
    summary = kind == "summary_text"
    here = {**where, "summary_index" if summary else "content_index": number}
    frame = "reasoning_summary_part" if summary else "content_part"
    told = {"summary_text": "reasoning_summary_text"}.get(kind, kind)
    yield f"response.{frame}.added", {**here, "part": {**part, key: ""}}
    for piece in pieces(part[key]):
        yield f"response.{told}.delta", {**here, "delta": piece}
    yield f"response.{told}.done", {**here, key: part[key]}
    yield f"response.{frame}.done", {**here, "part": part}
