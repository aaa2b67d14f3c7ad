"""Threads in LMDB, a key-value store in a folder that many processes share."""

# --8<-- [start:store]
import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import astuple
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import lmdb

from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.stores import Extent, HistoryStore, StoredResult, ThreadInfo
from agentkit_py.stores.rows import Row, decode_row, new_rows, now

T = TypeVar("T")
_NOTHING = astuple(Extent())
"""The size of what stands before a thread's first row."""


def key(kind: str, *parts: str, position: int | None = None) -> bytes:
    """A key of 511 bytes at the most, whatever the ids are; positions sort as they count."""
    digests = [sha256(part.encode("utf-8", "surrogatepass")).digest()[:16] for part in parts]
    end = b"" if position is None else position.to_bytes(8, "big")
    return kind.encode() + b"".join(digests) + end


class LmdbHistory(HistoryStore):
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
        place = key("thread", thread.id)
        await self._run(lambda data: data.put(place, made, overwrite=False), write=True)

    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        def append(data: lmdb.Transaction) -> None:
            thread = _thread(data, thread_id)
            known = [row.id for row in rows if row.id is not None]
            found = {one: data.get(key("id", thread_id, one)) for one in known}
            stored = {one: _row(data, thread_id, int(at))[0] for one, at in found.items() if at}
            added = new_rows(thread_id, stored, rows)
            for row in added:
                at = thread["count"]
                record = [row.json, row.metadata, thread["extent"]]
                data.put(key("row", thread_id, position=at), json.dumps(record).encode())
                thread["extent"] = astuple(Extent(*thread["extent"]) + row.extent)
                if row.id is not None:
                    data.put(key("id", thread_id, row.id), str(at).encode())
                thread["count"] += 1
            if added:
                thread["info"]["updatedAt"] = now()
                data.put(key("thread", thread_id), json.dumps(thread).encode())

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
                for place, _ in _all(data, key(kind, thread_id)):
                    data.delete(place)
            return data.delete(key("thread", thread_id))

        return await self._run(remove, write=True)

    async def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None  # it is opened again when it is used again


def _thread(data: lmdb.Transaction, thread_id: str) -> dict[str, Any]:
    found = data.get(key("thread", thread_id))
    if found is None:
        raise ThreadNotFoundError(thread_id)
    return json.loads(bytes(found))


def _row(data: lmdb.Transaction, thread_id: str, position: int) -> list[Any]:
    found = data.get(key("row", thread_id, position=position))
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
            for place, value in cursor:
                if not bytes(place).startswith(prefix):
                    break
                found.append((bytes(place), bytes(value)))
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
