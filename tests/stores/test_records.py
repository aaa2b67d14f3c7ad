"""A new kind of record in every store, made as ARCHITECTURE.md describes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentkit_py.errors import HistoryError, ThreadNotFoundError
from agentkit_py.stores import HistoryStore, MemoryHistory, PostgresHistory, SqliteHistory
from agentkit_py.stores.records import Record, Records, RecordViews, key
from agentkit_py.stores.wrappers import for_user, redacted

from .record_store import LmdbHistory

BOOKMARK = "bookmark"


class BookmarkRecords(RecordViews):
    """Bookmarks of users in threads."""

    async def save_bookmark(self, thread_id: str, message_id: str, note: str) -> None:
        """Add a bookmark, or change its note."""
        owner = (await self.get_thread(thread_id)).user_id
        record = Record(
            key=key(thread_id, message_id),
            thread=thread_id,
            group=None if owner is None else key(owner),
            json=f'{{"note": "{note}"}}',
        )

        def work(records: Records) -> None:
            records.put(BOOKMARK, record)

        await self._about(thread_id, work)

    async def notes(self, thread_id: str | None = None) -> list[str]:
        """Return the notes of a thread, or of all."""
        found = await self.transact(lambda records: records.find(BOOKMARK, thread=thread_id))
        return [record.data["note"] for record in found]

    async def count_bookmarks(self) -> int:
        """Count how often this was called."""

        def work(records: Records) -> int:
            record = records.get("count", key("all"))
            count = 1 if record is None else record.data["count"] + 1
            records.put("count", Record(key=key("all"), json=f'{{"count": {count}}}'))
            return count

        return await self.transact(work)


def _bookmarking(kind: type[HistoryStore]) -> Any:
    """Return the class of a store with bookmarks."""
    return type(f"Bookmarking{kind.__name__}", (BookmarkRecords, kind), {})


async def in_store(store: Any) -> list[Record]:
    """Return the records of a kind."""

    def find(records: Records) -> list[Record]:
        return records.find("kind")

    return await store.transact(find)


@pytest.fixture(params=["memory", "sqlite", "postgres", "record store"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    """A store with bookmarks of each kind."""
    match request.param:
        case "memory":
            made = _bookmarking(MemoryHistory)()
        case "sqlite":
            made = _bookmarking(SqliteHistory)(tmp_path / "threads.db")
        case "postgres":
            url = request.getfixturevalue("postgres_url")
            schema = request.getfixturevalue("postgres_schema")
            made = _bookmarking(PostgresHistory)(url, schema=schema, connections=4)
        case _:
            made = _bookmarking(LmdbHistory)(tmp_path / "records", gigabytes=1)
    yield made
    await made.close()


async def test_a_new_kind_of_record_is_a_class_for_all_stores(store: Any) -> None:
    """Its records keep their order when they are replaced, and go with their thread."""
    with pytest.raises(ThreadNotFoundError):
        await store.save_bookmark("t", "m1", "none")
    for thread in ("t", "u"):
        await store.add_thread(thread, user_id="ada")
    for message, note in (("m1", "first"), ("m2", "second"), ("m1", "changed")):
        await store.save_bookmark("t", message, note)
    await store.save_bookmark("u", "m1", "other")
    assert await store.notes() == ["changed", "second", "other"]
    assert await store.notes("t") == ["changed", "second"]
    await store.delete_thread("t")
    assert await store.notes() == ["other"]


async def test_records_are_found_and_deleted_by_each_of_their_keys(store: Any) -> None:
    """Thread, group and status; the last ones only, if so many are asked for."""
    stored = [
        Record(key=f"k{number}", json="{}", thread=thread, group=group, status=status, until=9.5)
        for number, (thread, group, status) in enumerate(
            [("t\0", "g", "open"), ("t\0", "h", "done"), ("u", "g", "done"), (None, None, None)]
        )
    ]

    def find(records: Records, **which: Any) -> list[str]:
        return [record.key for record in records.find("kind", **which)]

    def work(records: Records) -> None:
        for record in stored:
            records.put("kind", record)
        records.put("other", stored[0])
        assert records.find("kind") == stored
        assert records.get("kind", "k0") == stored[0]
        assert records.get("kind", "k9") is None
        assert find(records, thread="t\0") == ["k0", "k1"]
        assert find(records, group="g", status="done") == ["k2"]
        assert find(records, last=2) == ["k2", "k3"]
        assert records.delete("kind", key="k3") == 1
        assert records.delete("kind", group="h") == 1
        assert records.delete(None, thread="t\0") == 2
        assert find(records) == ["k2"]
        assert records.find("other") == []

    await store.transact(work)


async def test_work_that_raises_changes_nothing(store: Any) -> None:
    """Its writes are kept whole or not at all."""

    def work(records: Records) -> None:
        records.put("kind", Record(key="k", json="{}"))
        raise LookupError

    with pytest.raises(LookupError):
        await store.transact(work)
    assert await in_store(store) == []


async def test_transactions_on_a_kind_see_all_earlier_ones(store: Any) -> None:
    """None of them counts from a number that another has read."""
    counts = await asyncio.gather(*(store.count_bookmarks() for _ in range(8)))
    assert sorted(counts) == [1, 2, 3, 4, 5, 6, 7, 8]


async def test_a_store_of_a_user_has_the_records_of_that_user(store: Any) -> None:
    """Those of other users are neither found, replaced nor deleted."""
    mine: Any = for_user(store, "ada")
    for user in ("ada", "bob"):
        await store.add_thread(user, user_id=user)
        await store.save_bookmark(user, "m1", user)

    def see(records: Records) -> None:
        other = key("bob", "m1")
        assert [record.data["note"] for record in records.find(BOOKMARK)] == ["ada"]
        assert records.find(BOOKMARK, group=key("bob")) == []
        assert records.get(BOOKMARK, other) is None
        assert records.delete(BOOKMARK, key=other) == 0
        assert records.delete(BOOKMARK, group=key("bob")) == 0
        assert records.delete(None, thread="bob") == 0
        with pytest.raises(HistoryError, match="is of another user"):
            records.put(BOOKMARK, Record(key=other, json="{}", group=key("ada")))
        with pytest.raises(HistoryError, match="is of another user"):
            records.put(BOOKMARK, Record(key="new", json="{}"))
        assert records.delete(BOOKMARK, key=key("ada", "m1")) == 1

    await mine.transact(see)
    assert await store.notes() == ["bob"]


async def test_a_masked_store_masks_records_of_every_kind(store: Any) -> None:
    """A kind whose members are not listed is masked whole."""
    wrapped: Any = redacted(store, ["email"])
    record = Record(key="k", json='{"note": "ada@example.com", "n": [1, "bob@example.com"]}')

    def put(records: Records) -> None:
        records.put("kind", record)

    await wrapped.transact(put)
    (found,) = await in_store(store)
    assert found.data == {"note": "[email]", "n": [1, "[email]"]}
