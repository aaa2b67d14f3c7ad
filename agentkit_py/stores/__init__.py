"""Stores of threads. Each is a `HistoryConfig`, to be passed as ``history=…``.

`MemoryHistory` keeps threads as long as the process lives, `SqliteHistory` keeps them in a file,
`PostgresHistory` in a PostgreSQL database. A store for another database is a subclass of
`HistoryStore`, or of `RecordStore`, which keeps leases, approvals and the rest as well. Nothing
here loads ``sqlite3`` or ``psycopg`` before a store of theirs is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentkit_py.history.leases import ThreadLease

if TYPE_CHECKING:
    from agentkit_py.processors.base import Extent
    from agentkit_py.stores.base import HistoryStore
    from agentkit_py.stores.memory import MemoryHistory
    from agentkit_py.stores.postgres import PostgresHistory
    from agentkit_py.stores.record_store import RecordStore
    from agentkit_py.stores.records import Record, Records
    from agentkit_py.stores.rows import StoredResult, ThreadInfo
    from agentkit_py.stores.sqlite import SqliteHistory
    from agentkit_py.stores.workspace import Workspace
    from agentkit_py.stores.wrappers import for_user, redacted

__all__ = [
    "Extent",
    "HistoryStore",
    "MemoryHistory",
    "PostgresHistory",
    "Record",
    "RecordStore",
    "Records",
    "SqliteHistory",
    "StoredResult",
    "ThreadInfo",
    "ThreadLease",
    "Workspace",
    "for_user",
    "redacted",
]

if not TYPE_CHECKING:  # else every misspelled name would be an Any
    from agentkit_py._core.lazy import lazily as _lazily

    __getattr__ = _lazily(
        __name__,
        {
            "agentkit_py.processors.base": "Extent",
            "agentkit_py.stores.base": "HistoryStore",
            "agentkit_py.stores.memory": "MemoryHistory",
            "agentkit_py.stores.postgres": "PostgresHistory",
            "agentkit_py.stores.record_store": "RecordStore",
            "agentkit_py.stores.records": "Record Records",
            "agentkit_py.stores.rows": "StoredResult ThreadInfo",
            "agentkit_py.stores.sqlite": "SqliteHistory",
            "agentkit_py.stores.workspace": "Workspace",
            "agentkit_py.stores.wrappers": "for_user redacted",
        },
    )


def __dir__() -> list[str]:
    return __all__
