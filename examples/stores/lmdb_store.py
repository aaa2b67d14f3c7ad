"""Threads, approvals, leases and the rest in LMDB, a key-value store that processes share."""

# --8<-- [start:store]
import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.stores import Extent, Record, Records, RecordStore, StoredResult, ThreadInfo
from agentkit_py.stores.rows import Row, decode_row, new_rows, now

T = TypeVar("T")
_NOTHING = astuple(Extent())
"""The size of what stands before a thread's first row."""


def place(kind: str, *parts: str, position: int | None = None) -> bytes:
    """A key of 511 bytes at the most, whatever the ids are; positions sort as they count."""
    digests = [sha256(part.encode("utf-8", "surrogatepass")).digest()[:16] for part in parts]
    end = b"" if position is None else position.to_bytes(8, "big")
    return kind.encode() + b"".join(digests) + end


class LmdbHistory(RecordStore):
    """Threads in an LMDB environment: each row under its thread and position."""

    def __init__(self, folder: str | Path, *, gigabytes: int = 64, **options: Any) -> None:
        super().__init__(**options)
        self._folder, self._size = str(folder), gigabytes << 30
        self._opened: lmdb.Environment | None = None

    async def _run(self, work: Callable[[lmdb.Transaction], T], *, write: bool = False) -> T:
        """Do the work in one transaction, in a thread: it may wait for another writer."""
        self._opened = opened = self._opened or lmdb.open(self._folder, map_size=self._size)

        def transaction() -> T:
            with opened.begin(write=write) as data:
                return work(data)

        return await asyncio.to_thread(transaction)

    async def insert_thread(self, thread: ThreadInfo) -> None:
        made = json.dumps({"info": thread.to_dict(), "count": 0, "extent": _NOTHING}).encode()
        where = place("thread", thread.id)
        await self._run(lambda data: data.put(where, made, overwrite=False), write=True)

    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        def append(data: lmdb.Transaction) -> None:
            thread = _thread(data, thread_id)
            known = [row.id for row in rows if row.id is not None]
            found = {one: data.get(place("id", thread_id, one)) for one in known}
            stored = {one: _row(data, thread_id, int(at))[0] for one, at in found.items() if at}
            added = new_rows(thread_id, stored, rows)
            for row in added:
                at = thread["count"]
                record = [row.json, row.metadata, thread["extent"]]
                data.put(place("row", thread_id, position=at), json.dumps(record).encode())
                thread["extent"] = astuple(Extent(*thread["extent"]) + row.extent)
                if row.id is not None:
                    data.put(place("id", thread_id, row.id), str(at).encode())
                thread["count"] += 1
            if added:
                thread["info"]["updatedAt"] = now()
                data.put(place("thread", thread_id), json.dumps(thread).encode())

        await self._run(append, write=True)

    async def stored_results(self, thread_id: str) -> list[StoredResult]:
        return await self._run(lambda data: _between(data, thread_id, 0, None))

    async def count_results(self, thread_id: str) -> int:
        return (await self._run(lambda data: _thread(data, thread_id)))["count"]

    async def page(self, thread_id: str, before: int, limit: int) -> list[StoredResult]:
        first = max(0, before - limit)
        return await self._run(lambda data: _between(data, thread_id, first, before))

    async def get_thread(self, thread_id: str) -> ThreadInfo:
        return ThreadInfo.from_dict((await self._run(lambda d: _thread(d, thread_id)))["info"])

    async def select_threads(self, limit: int | None, user_id: str | None) -> list[ThreadInfo]:
        found = await self._run(lambda data: [value for _, value in _all(data, b"thread")])
        threads = [ThreadInfo.from_dict(json.loads(value)["info"]) for value in found]
        mine = [thread for thread in threads if user_id in (None, thread.user_id)]
        return sorted(mine, key=lambda thread: thread.updated_at, reverse=True)[:limit]

    async def remove_thread(self, thread_id: str) -> bool:
        def remove(data: lmdb.Transaction) -> bool:
            for kind in ("row", "id"):
                for where, _ in _all(data, place(kind, thread_id)):
                    data.delete(where)
            LmdbRecords(data).delete(None, thread=thread_id)
            return data.delete(place("thread", thread_id))

        return await self._run(remove, write=True)

    async def transact(self, work: Callable[[Records], T]) -> T:
        return await self._run(lambda data: work(LmdbRecords(data)), write=True)

    async def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None  # it is opened again when it is used again


class LmdbRecords(Records):
    """Records within a transaction, each under its kind and key, and lists of their places."""

    def __init__(self, data: lmdb.Transaction) -> None:
        self._data = data

    def get(self, kind: str, key: str) -> Record | None:
        found = self._stored(place("record", kind, key))
        return None if found is None else found[2]

    def put(self, kind: str, record: Record) -> None:
        where = place("record", kind, record.key)
        known = self._stored(where)
        number = self._next_number() if known is None else known[0]
        self._remove(where)  # its group or status may have been another
        self._data.put(where, json.dumps([number, kind, asdict(record)]).encode())
        for listed in _lists(kind, record):
            self._data.put(place(*listed, position=number), where)

    def find(
        self,
        kind: str,
        *,
        thread: str | None = None,
        group: str | None = None,
        status: str | None = None,
        last: int | None = None,
    ) -> list[Record]:
        def fits(its_kind: str, record: Record) -> bool:
            is_sought = its_kind == kind and group in (None, record.group)
            return is_sought and status in (None, record.status)

        places = reversed(self._places(kind, thread, group))
        stored = (self._stored(where) for where in places)
        fitting = (record for _, its_kind, record in stored if fits(its_kind, record))
        return list(islice(fitting, last))[::-1]

    def delete(
        self,
        kind: str | None,
        *,
        key: str | None = None,
        thread: str | None = None,
        group: str | None = None,
    ) -> int:
        if kind is not None and key is not None:
            return self._remove(place("record", kind, key))
        found = self._places(kind, thread, group)
        fitting = [where for where in found if kind in (None, self._stored(where)[1])]
        return sum(self._remove(where) for where in fitting)

    def _places(self, kind: str | None, thread: str | None, group: str | None) -> list[bytes]:
        """The places of the shortest list that has all records sought, in the order of adding."""
        record = Record(key="", json="", thread=thread, group=None if thread else group)
        return [where for _, where in _all(self._data, place(*_lists(kind or "", record)[-1]))]

    def _stored(self, where: bytes) -> Any:
        """A record's number, its kind and the record; None: there is none."""
        found = self._data.get(where)
        if found is None:
            return None
        number, kind, record = json.loads(bytes(found))
        return number, kind, Record(**record)

    def _remove(self, where: bytes) -> bool:
        known = self._stored(where)
        if known is not None:
            number, kind, record = known
            for listed in _lists(kind, record):
                self._data.delete(place(*listed, position=number))
        return self._data.delete(where)

    def _next_number(self) -> int:
        number = int(bytes(self._data.get(b"number", b"0"))) + 1
        self._data.put(b"number", str(number).encode())
        return number


def _lists(kind: str, record: Record) -> list[tuple[str, ...]]:
    """The lists that a record is in: of its kind, its group and its thread."""
    lists: list[tuple[str, ...]] = [("by kind", kind)]
    lists += [] if record.group is None else [("by group", kind, record.group)]
    lists += [] if record.thread is None else [("by thread", record.thread)]
    return lists


def _thread(data: lmdb.Transaction, thread_id: str) -> dict[str, Any]:
    found = data.get(place("thread", thread_id))
    if found is None:
        raise ThreadNotFoundError(thread_id)
    return json.loads(bytes(found))


def _row(data: lmdb.Transaction, thread_id: str, position: int) -> list[Any]:
    found = data.get(place("row", thread_id, position=position))
    assert found is not None, "positions have no gaps"
    return json.loads(bytes(found))


def _between(
    data: lmdb.Transaction, thread_id: str, first: int, end: int | None
) -> list[StoredResult]:
    count = _thread(data, thread_id)["count"]
    places = range(first, count if end is None else min(end, count))
    rows = [(at, *_row(data, thread_id, at)) for at in places]
    return [
        decode_row(thread_id, at, text, metadata, before=Extent(*before))
        for at, text, metadata, before in rows
    ]


def _all(data: lmdb.Transaction, prefix: bytes) -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytes]] = []
    with data.cursor() as cursor:
        if cursor.set_range(prefix):
            for where, value in cursor:
                if not bytes(where).startswith(prefix):
                    break
                found.append((bytes(where), bytes(value)))
    return found


# --8<-- [end:store]


async def main() -> None:
    """Check the promises of the store, in a folder that is removed."""
    with TemporaryDirectory() as folder:
        places = (Path(folder) / str(number) for number in count())
        report = await run_checks(lambda: LmdbHistory(next(places), gigabytes=1))
    for name, error in report.failed.items():
        print(f"{name}: {error}")
    print(f"{len(report.passed)} promises kept, {len(report.failed)} broken")
    assert not report.failed


if __name__ == "__main__":
    from itertools import count
    from tempfile import TemporaryDirectory

    from agentkit_py.testing.store_conformance import run_checks

    asyncio.run(main())
