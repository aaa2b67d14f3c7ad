"""A store for a database of your own: here anything that keeps a text under a key."""

# --8<-- [start:store]
import json
from collections.abc import MutableMapping, Sequence
from typing import Any

from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.stores import HistoryStore, StoredResult, ThreadInfo
from agentkit_py.stores.rows import Row, decode_row, new_rows, now


class KeyValueHistory(HistoryStore):
    """Threads in a key-value store, each under its id."""

    def __init__(self, data: MutableMapping[str, str], **options: Any) -> None:
        super().__init__(**options)
        self.data = data

    def _read(self, thread_id: str) -> dict[str, Any]:
        if thread_id not in self.data:
            raise ThreadNotFoundError(thread_id)
        return json.loads(self.data[thread_id])

    async def insert_thread(self, thread: ThreadInfo) -> None:
        self.data.setdefault(thread.id, json.dumps({"info": thread.to_dict(), "rows": []}))

    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        thread = self._read(thread_id)
        stored = {row[0]: row[1] for row in thread["rows"] if row[0] is not None}
        if added := new_rows(thread_id, stored, rows):
            thread["rows"] += [[row.id, row.json, row.metadata] for row in added]
            thread["info"]["updatedAt"] = now()
            self.data[thread_id] = json.dumps(thread)

    async def stored_results(self, thread_id: str) -> list[StoredResult]:
        stored = enumerate(self._read(thread_id)["rows"])
        return [decode_row(thread_id, n, row[1], row[2]) for n, row in stored]

    async def get_thread(self, thread_id: str) -> ThreadInfo:
        return ThreadInfo.from_dict(self._read(thread_id)["info"])

    async def select_threads(self, limit: int | None, user_id: str | None) -> list[ThreadInfo]:
        found = [await self.get_thread(key) for key in self.data]
        mine = [thread for thread in found if user_id in (None, thread.user_id)]
        return sorted(mine, key=lambda thread: thread.updated_at, reverse=True)[:limit]

    async def remove_thread(self, thread_id: str) -> bool:
        return self.data.pop(thread_id, None) is not None


# --8<-- [end:store]

# --8<-- [start:check]
import asyncio  # noqa: E402 - shown by itself

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
