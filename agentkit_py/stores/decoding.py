"""Rows of a database to results: the one way back from what `encode_row` made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from agentkit_py._core.json import JsonObject, as_object
from agentkit_py.errors import InvalidRecordError
from agentkit_py.processors.base import Extent, extent_of
from agentkit_py.results import AgentResult
from agentkit_py.stores.records import (
    StoredResult,
    decode_row,
    from_json,
    read_json,
    remember_tokens,
)

StoredRow: TypeAlias = (
    "tuple[int, str | bytes, str | bytes | None, str | bytes | None, int, int, int]"
)
"""Position, JSON, metadata, tokens; messages, characters and system messages before it."""


_AT_ONCE = 64
"""Rows whose JSON is read in one go: all of a long thread would be in memory twice."""


def decode_rows(thread_id: str, rows: Sequence[StoredRow]) -> list[StoredResult]:
    """What `decode_row` gives for each row, in little more than half the time.

    Raises:
        InvalidRecordError: A row holds no result.
    """
    found: list[StoredResult] = []
    for start in range(0, len(rows), _AT_ONCE):
        some = rows[start : start + _AT_ONCE]
        try:
            found += _decoded_together(some)
        except (ValueError, TypeError, RecursionError, InvalidRecordError):
            # One is damaged; by themselves they say which.
            found += [decode_row(thread_id, *row[:4], Extent(*row[4:])) for row in some]
    return found


def _decoded_together(rows: Sequence[StoredRow]) -> list[StoredResult]:
    texts = [",".join([_text(text) for text in row[1:4]]) for row in rows]
    read: list[Any] = read_json(f"[[{'],['.join(texts)}]]")
    found: list[StoredResult] = []
    for row, (record, beside, tokens) in zip(rows, read, strict=True):
        result = AgentResult.from_dict(record)
        if type(tokens) is dict:
            remember_tokens(result, cast("JsonObject", tokens))
        metadata = {} if row[2] is None else as_object(beside)
        if metadata is None:
            raise ValueError("expected an object")
        found.append(StoredResult(row[0], result, metadata, Extent(row[4], row[5], row[6])))
    return found


def _text(stored: str | bytes | None) -> str:
    if stored is None:
        return "null"
    return stored if isinstance(stored, str) else stored.decode()


def extent_of_json(text: str | bytes) -> Extent:
    """How much a row's messages are, for rows that were stored before this was counted.

    A damaged row counts as its length, since whoever reads it gets an error anyway.
    """
    try:
        record = from_json(text, "", "(whole)")
        return extent_of(AgentResult.from_dict(record).messages)
    except InvalidRecordError:
        return Extent(size=len(text))
