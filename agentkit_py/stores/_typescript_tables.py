"""Threads in the tables of the TypeScript repository's PostgreSQL adapter, for both languages.

Its tables are ``threads`` and ``messages``; thread data that only this library keeps (summaries,
vectors, leases, runs) is in separate tables of our own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID, uuid4, uuid5

from agentkit_py._core.json import JsonObject, as_list, as_object
from agentkit_py.codec import message_to_dict
from agentkit_py.errors import ConfigurationError, HistoryError, ThreadNotFoundError
from agentkit_py.history.questions import Question
from agentkit_py.history.runs import RunRecord
from agentkit_py.history.staff import Takeover
from agentkit_py.messages import Message, TextMessage, text_of_parts
from agentkit_py.results import USER, AgentResult
from agentkit_py.stores._sql import SqlHistory
from agentkit_py.stores._sql_session import Session
from agentkit_py.stores.base import HistoryStore, Match, StoreStats
from agentkit_py.stores.rows import (
    Row,
    StoredResult,
    ThreadInfo,
    decode_row,
    encode_json,
    first_title,
    new_rows,
)

WHOLE = "agentkitPy"
"""The member of a row's ``data`` with the whole result as JSON text, which TypeScript leaves alone.

JSON text, since a ``jsonb`` column sorts keys and holds neither U+0000 nor halves of characters.
"""

_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS {ts_threads} (
        thread_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
        user_id text,
        metadata jsonb DEFAULT '{{}}',
        created_at timestamptz DEFAULT now(),
        updated_at timestamptz DEFAULT now()
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS {ts_messages} (
        id serial PRIMARY KEY,
        message_id uuid NOT NULL,
        thread_id uuid NOT NULL REFERENCES {ts_threads} (thread_id) ON DELETE CASCADE,
        message_type text NOT NULL CHECK (message_type IN ('user', 'agent')),
        agent_name text,
        content text,
        data jsonb,
        client_state jsonb,
        checksum text NOT NULL,
        created_at timestamptz DEFAULT now(),
        UNIQUE (thread_id, checksum),
        UNIQUE (thread_id, message_id)
    )
    """,
)
_COLUMNS = {
    "ts_threads": {"thread_id", "user_id", "metadata", "created_at", "updated_at"},
    "ts_messages": {
        "id",
        "message_id",
        "message_type",
        "content",
        "data",
        "client_state",
        "checksum",
    },
}
_THREAD = (
    "SELECT t.thread_id::text, t.user_id, t.metadata::text, t.created_at, t.updated_at, "
    "(SELECT count(*) FROM {ts_messages} m WHERE m.thread_id = t.thread_id) FROM {ts_threads} t"
)
_MESSAGE = (
    "SELECT message_id::text, message_type, content, data::text, client_state::text, created_at "
    "FROM {ts_messages} WHERE thread_id = ?"
)
_IN_ORDER = "ORDER BY id"
"""In the order in which rows were written: TypeScript keeps the time of the user's browser, which
may be ahead of the server's, and would put an answer before its question."""


class TypeScriptTables(SqlHistory):
    """The threads and messages of a store, in TypeScript's tables; the rest stays in its own."""

    _schema: str
    _prefix: str

    def _tables(self) -> dict[str, str]:
        """Return TypeScript's tables by the names that queries here have for them."""
        return {name: f'"{self._schema}"."{self._prefix}{name[3:]}"' for name in _COLUMNS}

    def _prepare(self, session: Session) -> None:
        """Make the tables that are missing, and see that those that are there are TypeScript's."""
        session.execute(
            "SELECT pg_advisory_xact_lock(hashtext(?))", f"{self._schema}.{self._prefix}"
        )
        query = (
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_schema = ? AND table_name = ?"
        )
        for statement, (name, needed) in zip(_TABLES, _COLUMNS.items(), strict=True):
            session.execute(statement)
            table = f"{self._prefix}{name[3:]}"
            there = {row[0] for row in session.execute(query, self._schema, table).fetchall()}
            if missing := sorted(needed - there):
                raise ConfigurationError(
                    f"PostgresHistory(layout='typescript'): the table {self._schema}.{table} has "
                    f"no column {missing[0]!r}. It reads the tables of the adapter in the "
                    "package's use-agent example: pass their prefix; older ones are mended by that "
                    "adapter's initializeTables(). For tables of another adapter, such as "
                    "agentkit-starter's, write a HistoryConfig with callbacks (docs/porting.md, "
                    "an adapter of your own)."
                )

    async def add_thread(
        self,
        thread_id: str | None = None,
        *,
        user_id: str | None = None,
        title: str = "",
        metadata: JsonObject | None = None,
    ) -> str:
        key = str(uuid4() if thread_id is None else _uuid("thread id", thread_id))
        return await super().add_thread(key, user_id=user_id, title=title, metadata=metadata)

    async def insert_thread(self, thread: ThreadInfo) -> None:
        kept = {**thread.metadata, **({"title": thread.title} if thread.title else {})}
        text = encode_json(_plain(kept), f"Thread {thread.id!r}: its metadata cannot be saved")

        def insert(session: Session) -> None:
            session.execute(
                "INSERT INTO {ts_threads} (thread_id, user_id, metadata) VALUES (?, ?, ?::jsonb) "
                "ON CONFLICT (thread_id) DO NOTHING",
                *(_uuid("thread id", thread.id), thread.user_id, text),
            )

        await self._transact(insert, write=True)

    async def thread_exists(self, thread_id: str) -> bool:
        with suppress(ThreadNotFoundError):
            return bool(await self.get_thread(thread_id))
        return False

    async def get_thread(self, thread_id: str) -> ThreadInfo:
        found = await self._infos(f"{_THREAD} WHERE t.thread_id = ?", _known(thread_id))
        if not found:
            raise ThreadNotFoundError(thread_id)
        return found[0]

    async def select_threads(self, limit: int | None, user_id: str | None) -> list[ThreadInfo]:
        whose = "" if user_id is None else " WHERE t.user_id = ?"
        query = f"{_THREAD}{whose} ORDER BY t.updated_at DESC, t.thread_id LIMIT ?"
        return await self._infos(query, *([] if user_id is None else [user_id]), limit)

    async def set_times(self, thread_id: str, created_at: datetime, updated_at: datetime) -> None:
        query = "UPDATE {ts_threads} SET created_at = ?, updated_at = ? WHERE thread_id = ?"
        if not await self._change(query, created_at, updated_at, _known(thread_id)):
            raise ThreadNotFoundError(thread_id)

    async def remove_thread(self, thread_id: str) -> bool:
        key = _known(thread_id)

        def remove(session: Session) -> bool:
            gone = session.execute("DELETE FROM {ts_threads} WHERE thread_id = ?", key)
            return gone.rowcount > 0

        found = await self._transact(remove, write=True)
        await super().remove_thread(str(key))
        return found

    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        key = _known(thread_id)
        await self._transact(
            lambda session: _append(session, key, thread_id, rows),
            write=True,
            repeatable=all(row.id is not None for row in rows),
        )

    async def stored_results(self, thread_id: str) -> list[StoredResult]:
        key = _known(thread_id)

        def read(session: Session) -> list[StoredResult]:
            query = "SELECT 1 FROM {ts_threads} WHERE thread_id = ?"
            if session.execute(query, key).fetchone() is None:
                raise ThreadNotFoundError(thread_id)
            rows = session.execute(f"{_MESSAGE} {_IN_ORDER}", key).fetchall()
            return [_stored(thread_id, place, row) for place, row in enumerate(rows)]

        return await self._transact(read)

    async def _row_of_ours(self, thread_id: str) -> str:
        """Make the row of our own tables that represents theirs; return its id."""
        info = await self.get_thread(thread_id)
        await super().insert_thread(info)
        return info.id

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        await super().save_run(await self._row_of_ours(thread_id), run)

    async def save_question(self, question: Question) -> None:
        await self._row_of_ours(question.thread_id)
        await super().save_question(question)

    async def change_takeover(
        self, thread_id: str, change: Callable[[Takeover], Takeover | None]
    ) -> Takeover:
        return await super().change_takeover(await self._row_of_ours(thread_id), change)

    # A fork is a copy: TypeScript knows nothing of results that threads share.
    async def insert_fork(
        self, thread_id: str, at: str | int | None, fork_id: str, title: str | None
    ) -> str:
        return await HistoryStore.insert_fork(self, thread_id, at, fork_id, title)

    async def rewind(self, thread_id: str, at: str | int) -> None:
        raise ConfigurationError(
            "PostgresHistory(layout='typescript'): a thread of TypeScript's tables cannot be "
            "rewound; fork it, and continue with the fork."
        )

    # A thread of these tables is read whole.
    async def count_results(self, thread_id: str) -> int:
        return await HistoryStore.count_results(self, thread_id)

    async def page(self, thread_id: str, before: int, limit: int) -> list[StoredResult]:
        return await HistoryStore.page(self, thread_id, before, limit)

    async def newest(self, thread_id: str, limit: int) -> tuple[int, list[StoredResult]]:
        return await HistoryStore.newest(self, thread_id, limit)

    async def search(
        self, words: str, *, user_id: str | None = None, limit: int = 50
    ) -> list[Match]:
        return await HistoryStore.search(self, words, user_id=user_id, limit=limit)

    async def stats(self, user_id: str | None = None) -> StoreStats:
        return await HistoryStore.stats(self, user_id)

    async def _infos(self, query: str, *values: Any) -> list[ThreadInfo]:
        def read(session: Session) -> list[ThreadInfo]:
            return [_info(row) for row in session.execute(query, *values).fetchall()]

        return await self._transact(read)


def _append(session: Session, key: UUID, thread_id: str, rows: Sequence[Row]) -> None:
    """Add the rows that are new, each later than all that are there."""
    query = "SELECT metadata::text FROM {ts_threads} WHERE thread_id = ? FOR UPDATE"
    found = session.execute(query, key).fetchone()
    if found is None:
        raise ThreadNotFoundError(thread_id)
    ids = [str(_message_id(key, row.id)) for row in rows if row.id is not None]
    query = f"{_MESSAGE} AND message_id = ANY(CAST(? AS uuid[]))"
    same = [_stored(thread_id, 0, row) for row in session.execute(query, key, ids).fetchall()]
    stored = {one.result.id: json.dumps(one.result.to_dict()) for one in same if one.result.id}
    new = new_rows(thread_id, stored, rows)
    for row in new:
        _insert(session, key, row)
    metadata = as_object(json.loads(found[0] or "{}")) or {}
    if new and not metadata.get("title") and (title := first_title(new)):
        metadata = {**metadata, "title": title}
    query = "UPDATE {ts_threads} SET metadata = ?::jsonb, updated_at = now() WHERE thread_id = ?"
    if new:
        session.execute(query, encode_json(_plain(metadata), "metadata"), key)


def _insert(session: Session, key: UUID, row: Row) -> None:
    record: dict[str, Any] = json.loads(row.json)
    result = AgentResult.from_dict(record)
    message_id = uuid4() if row.id is None else _message_id(key, row.id)
    by_user = result.agent_name == USER
    metadata = as_object(json.loads(row.metadata or "{}")) or {}
    data = _for_typescript(result) | {WHOLE: json.dumps([record, metadata])}
    state = metadata.get("state")
    session.execute(
        # Theirs sorts by time alone, and a client's clock may be behind or ahead: each row is later
        # than those before it, but not later than TypeScript's next row.
        "INSERT INTO {ts_messages} (thread_id, message_id, message_type, agent_name, content, "
        "data, client_state, checksum, created_at) SELECT ?, ?, ?, ?, ?, ?::jsonb, ?::jsonb, ?, "
        "GREATEST(LEAST(?::timestamptz, clock_timestamp()), max(created_at) "
        "FILTER (WHERE created_at <= clock_timestamp()) + interval '1 microsecond') "
        "FROM {ts_messages} WHERE thread_id = ?",
        key,
        message_id,
        "user" if by_user else "agent",
        None if by_user else _plain(result.agent_name),
        "".join(_texts(result)) if by_user else None,
        encode_json(data, f"A result of {result.agent_name!r} cannot be saved"),
        None if state is None else encode_json(_plain(state), "The client's state cannot be saved"),
        f"py_{message_id}",
        row.created_at,
        key,
    )


def _for_typescript(result: AgentResult) -> dict[str, Any]:
    """Return a result in TypeScript's fields, with nothing that its adapters fail on.

    They know no reasoning, and texts of strings; images stay in our own member.
    """
    return {
        "agentName": _plain(result.agent_name),
        "output": _messages(result.output),
        "toolCalls": _messages(result.tool_calls),
        "createdAt": result.to_dict()["createdAt"],
    }


def _messages(messages: Sequence[Message]) -> list[Any]:
    found: list[Any] = []
    for message in messages:
        record = message_to_dict(message)
        record.pop("providerMetadata", None)
        if isinstance(message, TextMessage):
            record["content"] = text_of_parts(message.content)
            if not record["content"]:
                continue
        if message.type in _KNOWN:
            found.append(_plain(record))
    return found


_KNOWN = ("text", "tool_call", "tool_result")


def _texts(result: AgentResult) -> list[str]:
    found = [text_of_parts(m.content) for m in result.output if isinstance(m, TextMessage)]
    return [cast("str", _plain(text)) for text in found]


def _plain(value: Any) -> Any:
    """Return JSON without characters that ``jsonb`` and ``text`` cannot hold."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_plain(k): _plain(v) for k, v in cast("Mapping[str, Any]", value).items()}
    found = as_list(value)
    return value if found is None else [_plain(item) for item in found]


def _stored(thread_id: str, place: int, row: Sequence[Any]) -> StoredResult:
    message_id, kind, content, data, state, created = row
    record = as_object(json.loads(data)) if data else None
    metadata = f'{{"state":{state}}}' if state else None
    if record is not None and WHOLE in record:
        whole, kept = json.loads(record[WHOLE])
        text, metadata = json.dumps(whole), json.dumps(kept)
    elif kind == "user":
        said = {"type": "text", "role": "user", "content": content or ""}
        time = created.astimezone(UTC).isoformat()
        by = {"agentName": USER, "output": [said], "toolCalls": [], "createdAt": time}
        text = json.dumps({**by, "id": message_id})
    else:
        text = json.dumps({"id": message_id, **(record or {})})
    return decode_row(thread_id, place, text, metadata)


def _info(row: Sequence[Any]) -> ThreadInfo:
    key, user_id, text, created, updated, count = row
    metadata = as_object(json.loads(text or "{}")) or {}
    title = metadata.get("title")
    return ThreadInfo(
        id=key,
        user_id=user_id,
        title=title if isinstance(title, str) else "",
        metadata=metadata,
        created_at=created.astimezone(UTC),
        updated_at=updated.astimezone(UTC),
        result_count=count,
    )


def _message_id(thread: UUID, name: str) -> UUID:
    """Return the id as their column holds it; an id that is not a UUID is returned as it is."""
    try:
        return UUID(name)
    except ValueError:
        return uuid5(thread, name)


def _known(thread_id: str) -> UUID:
    try:
        return UUID(thread_id)
    except ValueError:
        raise ThreadNotFoundError(thread_id) from None


def _uuid(what: str, name: str) -> UUID:
    try:
        return UUID(name)
    except ValueError:
        raise HistoryError(
            f"The {what} {name!r:.80} is not a UUID, and TypeScript's tables take nothing else: "
            "let the store make ids, or use PostgresHistory without layout."
        ) from None
