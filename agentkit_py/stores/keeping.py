"""Rows that this process has decoded before, for the next turns on a thread.

A turn loads the newest rows of its thread, of which nearly all were loaded at the turn before. This
is a cache and nothing more: each row comes from the database, and what was made of it is used only
while it is the same to the byte, so that rows that were changed or removed are never given.

Processors, hooks and callers may hold and even change what they get, so nothing that can be changed
is shared by two loads: results with JSON in them (calls, results of tools, what providers add) are
given out as copies. Messages that are only text are the same objects, with their counts of tokens.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, TypeAlias, cast

from agentkit_py._core.json import JsonObject, copied
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message, ToolCall, token_memo
from agentkit_py.results import AgentResult
from agentkit_py.stores.decoding import StoredRow, decode_rows
from agentkit_py.stores.records import StoredResult

CACHE_BYTES = 16 * 1024 * 1024
"""How much a store keeps unless it is told: 100 to 200 threads with windows of 48 short rows."""

_OVERHEAD = 1300
"""Bytes of the objects of a message beside its row's texts, which are there twice, as stored and as
read: 1,150 to 1,330 where these are short (tracemalloc)."""

_TOKENIZERS = 8
"""Counts of so many are handed on; programs may make a tokenizer of their own for each run."""

Decode: TypeAlias = Callable[[str, Sequence[StoredRow]], list[StoredResult]]
"""A thread's id and rows of it to results, as `decode_rows`."""


@dataclass(slots=True)
class _Kept:
    """A row, and what was made of it."""

    row: StoredRow
    stored: StoredResult
    plain: bool
    """Whether there is nothing in its messages that could be changed; else nobody else has it."""

    size: int

    def given(self) -> StoredResult:
        """A result that may be given out."""
        stored = self.stored
        if not self.plain:
            return _copy(stored)
        result = stored.result
        if any([message._memo is not None and _is_used(message) for message in result.output]):  # noqa: C419, SLF001  # pyright: ignore[reportPrivateUsage] - quicker, and for each row of each turn
            stored = self.stored = _copy(stored)
        # A copy of its own, since states tell by the object whether a result is the one they had.
        return StoredResult(stored.position, replace(stored.result), {}, stored.before)


class KeptRows:
    """Decoded rows of one store; those that were wanted last. Several threads may use it."""

    def __init__(self, size: int) -> None:
        """Begin with none, and keep about ``size`` bytes at the most."""
        self._most = size
        self._rows: OrderedDict[tuple[str, int], _Kept] = OrderedDict()
        self._positions: dict[str, set[int]] = {}
        """Which rows there are of a thread, so that one is forgotten without looking at all."""

        self._size = 0
        self._lock = Lock()

    @property
    def size(self) -> int:
        """About how many bytes are kept."""
        return self._size

    def decode(self, thread_id: str, rows: Sequence[StoredRow]) -> list[StoredResult]:
        """What `decode_rows` gives, where only new rows are decoded.

        Raises:
            InvalidRecordError: A row holds no result; that is not kept.
        """
        if not self._most:
            return decode_rows(thread_id, rows)
        found, missing = self._find(thread_id, rows)
        if not missing:
            return cast("list[StoredResult]", found)
        made = decode_rows(thread_id, missing)
        sizes = list(map(_size, missing, made))
        # More than half of all at once is somebody who goes through everything, as exports do.
        if sum(sizes) <= self._most // 2:
            self._keep(thread_id, missing, made, sizes)
        new = iter(made)
        return [next(new) if one is None else one for one in found]

    def _find(
        self, thread_id: str, rows: Sequence[StoredRow]
    ) -> tuple[list[StoredResult | None], list[StoredRow]]:
        """What is kept of ``rows``, None for others; and those others."""
        found: list[StoredResult | None] = []
        missing: list[StoredRow] = []
        with self._lock:
            for row in rows:
                key = (thread_id, row[0])
                kept = self._rows.get(key)
                if kept is not None and kept.row == row:
                    self._rows.move_to_end(key)
                    found.append(kept.given())
                else:
                    found.append(None)
                    missing.append(row)
        return found, missing

    def _keep(
        self,
        thread_id: str,
        rows: Sequence[StoredRow],
        made: Sequence[StoredResult],
        sizes: Sequence[int],
    ) -> None:
        new: list[_Kept] = []
        for row, stored, size in zip(rows, made, sizes, strict=True):
            plain = _is_plain(stored)
            new.append(_Kept(row, stored if plain else _copy(stored), plain, size))
        with self._lock:
            for kept in new:
                key = (thread_id, kept.row[0])
                self._let_go(key)
                if kept.stored.result.reply is None:  # what a provider said may be anything
                    self._rows[key] = kept
                    self._positions.setdefault(thread_id, set()).add(key[1])
                    self._size += kept.size
            while self._size > self._most:
                self._let_go(next(iter(self._rows)))

    def _let_go(self, key: tuple[str, int]) -> None:
        kept = self._rows.pop(key, None)
        if kept is None:
            return
        self._size -= kept.size
        positions = self._positions[key[0]]
        positions.discard(key[1])
        if not positions:
            del self._positions[key[0]]

    def forget(self, thread_id: str | None = None) -> None:
        """Let the rows of a thread go, or all."""
        with self._lock:
            for name in list(self._positions) if thread_id is None else [thread_id]:
                for position in list(self._positions.get(name, ())):
                    self._let_go((name, position))


class RowCache:
    """The decoded rows of one store, in each process its own.

    A fork may come while another thread holds the lock, which then nobody would give back.
    """

    def __init__(self, size: int) -> None:
        """Keep about ``size`` bytes at the most; 0: nothing.

        Raises:
            ConfigurationError: It is less than nothing.
        """
        if size < 0:
            raise ConfigurationError(f"cache_bytes must be 0 (off) or more, not {size}.")
        self._most = size
        self._kept: dict[int, KeptRows] = {}

    @property
    def here(self) -> KeptRows:
        """The rows that this process has decoded."""
        process = os.getpid()
        return self._kept.get(process) or self._kept.setdefault(process, KeptRows(self._most))


def _size(row: StoredRow, stored: StoredResult) -> int:
    texts = sum([len(text) for text in row[1:4] if text is not None])
    messages = len(stored.result.output) + len(stored.result.tool_calls)
    return 2 * texts + _OVERHEAD * max(1, messages)


def _is_plain(stored: StoredResult) -> bool:
    """Whether there is no JSON in it, which could be changed in place."""
    result = stored.result
    if stored.metadata or result.tool_calls or result.prompt or result.history:
        return False
    return all(_is_text(message) for message in result.output)


def _is_text(message: Message) -> bool:
    return message.type in _TEXTS and message.provider_metadata is None


_TEXTS = ("text", "reasoning")


def _is_used(message: Message) -> bool:
    """Whether more is kept with a message than counts: what processors made of it in one run."""
    memo: Any = message._memo  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - what is kept with messages is kept here
    made = memo.derived is not None or memo.present is not None or memo.wire is not None
    return made or (memo.tokens is not None and len(memo.tokens) > _TOKENIZERS)


def _copy(stored: StoredResult) -> StoredResult:
    """The same with messages and JSON of its own."""
    result = stored.result
    own: AgentResult = replace(
        result,
        output=_messages(result.output),
        tool_calls=_messages(result.tool_calls),
        prompt=_messages(result.prompt),
        history=_messages(result.history),
    )
    metadata: JsonObject = copied(stored.metadata) if stored.metadata else {}
    return StoredResult(stored.position, own, metadata, stored.before)


def _messages(messages: Sequence[Message]) -> tuple[Message, ...]:
    return tuple([_message(message) for message in messages]) if messages else ()


def _message(message: Message) -> Message:
    metadata: Any = message.provider_metadata
    if metadata is not None:
        metadata = copied(metadata)
    made: Message
    match message.type:
        case "tool_call":
            calls = tuple([_call(call) for call in message.tools])
            made = replace(message, tools=calls, provider_metadata=metadata)
        case "tool_result":
            call, content = _call(message.tool), copied(message.content)
            made = replace(message, tool=call, content=content, provider_metadata=metadata)
        case _:
            made = replace(message, provider_metadata=metadata)
    if (counts := _counts(message)) is not None:
        token_memo(made).update(counts)
    return made


def _counts(message: Message) -> dict[str, float] | None:
    if message._memo is None:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above
        return None
    counts = token_memo(message)
    if len(counts) <= _TOKENIZERS:
        return counts
    return {key: count for key, count in counts.items() if not key.startswith("custom:")}


def _call(call: ToolCall) -> ToolCall:
    metadata: Any = call.provider_metadata
    if metadata is not None:
        metadata = copied(metadata)
    return ToolCall(call.id, call.name, copied(call.input), call.malformed, metadata)
