"""A store for a database of your own: here anything that keeps a text under a key."""

# --8<-- [start:store]
import asyncio
import json
from collections.abc import Mapping, MutableMapping, Sequence
from datetime import datetime
from typing import Any

from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.stores import HistoryStore, StoredResult, ThreadInfo, records


class KeyValueHistory(HistoryStore):
    """Threads in a key-value store, each under its id."""

    def __init__(self, data: MutableMapping[str, str], **options: Any) -> None:
        super().__init__(**options)
        self.data = data

    async def setup(self) -> None: ...
    async def close(self) -> None: ...

    def _read(self, thread_id: str) -> dict[str, Any]:
        if thread_id not in self.data:
            raise ThreadNotFoundError(thread_id)
        return json.loads(self.data[thread_id])

    async def add_thread(
        self,
        thread_id: str | None = None,
        *,
        user_id: str | None = None,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        key = records.new_thread_id() if thread_id is None else thread_id
        records.check_text("thread id", key)
        owner = user_id if user_id is None else records.check_text("user id", user_id)
        kept, time = records.encode_metadata(metadata, key), records.now()
        new = {"user": owner, "title": title, "metadata": kept, "made": time, "changed": time}
        self.data.setdefault(key, json.dumps(new | {"rows": []}))
        return key

    async def append_rows(self, thread_id: str, rows: Sequence[records.Row]) -> None:
        thread = self._read(thread_id)
        stored = {row[0]: row[1] for row in thread["rows"] if row[0] is not None}
        if new := records.new_rows(thread_id, stored, rows):
            thread["rows"] += [[row.id, row.json, row.metadata] for row in new]
            self.data[thread_id] = json.dumps(thread | {"changed": records.now()})

    async def records(self, thread_id: str) -> list[StoredResult]:
        rows = enumerate(self._read(thread_id)["rows"])
        return [records.decode_row(thread_id, n, row[1], row[2]) for n, row in rows]

    async def get_thread(self, thread_id: str) -> ThreadInfo:
        thread = self._read(thread_id)
        return ThreadInfo(
            id=thread_id,
            user_id=thread["user"],
            title=thread["title"],
            metadata=json.loads(thread["metadata"]),
            created_at=datetime.fromisoformat(thread["made"]),
            updated_at=datetime.fromisoformat(thread["changed"]),
        )

    async def select_threads(self, limit: int | None, user_id: str | None) -> list[ThreadInfo]:
        found = [await self.get_thread(key) for key in self.data]
        mine = [thread for thread in found if user_id in (None, thread.user_id)]
        return sorted(mine, key=lambda thread: thread.updated_at, reverse=True)[:limit]

    async def thread_exists(self, thread_id: str) -> bool:
        return thread_id in self.data

    async def count_results(self, thread_id: str) -> int:
        return len(self._read(thread_id)["rows"])

    async def remove_thread(self, thread_id: str) -> bool:
        return self.data.pop(thread_id, None) is not None


# --8<-- [end:store]

# --8<-- [start:check]
from agentkit_py.testing.store_conformance import run_checks  # noqa: E402 - shown by itself


async def main() -> None:
    """Check the promises of the store."""
    report = await run_checks(lambda: KeyValueHistory({}))
    for name, error in report.failed.items():
        print(f"{name}: {error}")
    print(f"{len(report.passed)} promises kept, {len(report.failed)} broken")
    assert not report.failed


asyncio.run(main())
# --8<-- [end:check]
