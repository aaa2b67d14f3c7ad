"""A store that is told nothing personal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from agentkit_py._core.json import JsonObject
from agentkit_py.history.config import HistoryContext
from agentkit_py.history.runs import RunRecord
from agentkit_py.processors.base import Summary
from agentkit_py.processors.redaction import Mask, Patterns, Redactor
from agentkit_py.results import AgentResult
from agentkit_py.stores._delegating import DelegatingStore, DelegatingThreads, keeps_all
from agentkit_py.stores.base import HistoryStore
from agentkit_py.stores.records import Row, ThreadInfo, encode_json, encode_row


def redacted(
    store: HistoryStore, redactor: Redactor | Patterns | Mask, *, state: bool = True
) -> HistoryStore:
    """``store`` with everything masked that is written through it.

    That is what users say and what models answer, inputs and results of tools, the client's state,
    summaries, titles and metadata of threads, and the state that is kept with each run. Ids of
    threads, users, messages and calls, and names of agents and tools stay, since they are what
    things are found by. What is there already stays as it is.

    A run goes on with what was said; the next one, which loads the thread, sees it masked.

    Args:
        store: Any store; the new one can do what it can and shares its connections.
        redactor: A `Redactor`, or what makes one: patterns or a function. It has to give the same
            text for the same text each time, or a repeated write is refused as another result.
        state: Whether the state of runs is masked, too. A next run begins with that state: say
            False where tools need what is in it.

    Raises:
        ConfigurationError: There is nothing to look for, or an expression is none.
    """
    made = redactor if isinstance(redactor, Redactor) else Redactor(redactor)
    kind = _RedactedStore if keeps_all(store) else _RedactedThreads
    return kind(store, made, mask_state=state)


class _RedactedThreads(DelegatingThreads):
    """Masks what is written."""

    def __init__(self, store: HistoryStore, redactor: Redactor, *, mask_state: bool) -> None:
        super().__init__(store)
        self._redactor = redactor
        self._mask_state = mask_state

    @property
    def redactor(self) -> Redactor:
        """What masks all that is written."""
        return self._redactor

    def __repr__(self) -> str:
        return f"redacted({self._store!r}, {self._redactor.names})"

    async def add_thread(
        self,
        thread_id: str | None = None,
        *,
        user_id: str | None = None,
        title: str = "",
        metadata: JsonObject | None = None,
    ) -> str:
        """Create a thread with a masked title and masked metadata."""
        kept = None if metadata is None else self._object(metadata, "The metadata of a thread")
        title = self._redactor.text(title)
        return await super().add_thread(thread_id, user_id=user_id, title=title, metadata=kept)

    async def insert_thread(self, thread: ThreadInfo) -> None:
        """Add a thread with a masked title and masked metadata."""
        title = self._redactor.text(thread.title)
        metadata = self._object(thread.metadata, "The metadata of a thread")
        await super().insert_thread(replace(thread, title=title, metadata=metadata))

    async def _create_for_run(self, context: HistoryContext) -> str:
        # Titles are cut, and patterns do not find half an address.
        masked = self._redactor.text(context.input)
        return await super()._create_for_run(replace(context, input=masked))

    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        """Add rows, masked."""
        masked = [await self._row(thread_id, row) for row in rows]
        await super().append_rows(thread_id, masked)

    async def _row(self, thread_id: str, row: Row) -> Row:
        metadata = None if row.metadata is None else json.loads(row.metadata)
        kept = self._redactor.value(metadata)
        result = AgentResult.from_dict(json.loads(row.json))
        masked = self._result(result)
        if masked is result and kept is metadata:
            return row
        if masked is not result:
            await self._count([masked])
        made = encode_row(masked, thread_id, cast("JsonObject | None", kept))
        return replace(made, tokens=row.tokens) if masked is result else made

    def _result(self, result: AgentResult) -> AgentResult:
        mask = self._redactor.message
        made: dict[str, Any] = {}
        for name in ("output", "tool_calls", "prompt", "history"):
            before = getattr(result, name)
            after = tuple(mask(message) for message in before)
            if any(a is not b for a, b in zip(after, before, strict=True)):
                made[name] = after
        return replace(result, **made) if made else result

    def _object(self, value: JsonObject, what: str) -> JsonObject:
        # What is no JSON is refused here as it is there.
        plain = json.loads(encode_json(dict(value), f"{what} cannot be saved"))
        return cast("JsonObject", self._redactor.value(plain))


class _RedactedStore(_RedactedThreads, DelegatingStore):
    """The same for what is kept beside threads."""

    async def save_summary(self, thread_id: str, key: str, summary: Summary, owner: str) -> bool:
        masked = replace(summary, text=self._redactor.text(summary.text))
        return await super().save_summary(thread_id, key, masked, owner)

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        if self._mask_state and run.state is not None:
            run = replace(run, state=self._object(run.state, f"The state of run {run.id!r}"))
        await super().save_run(thread_id, run)
