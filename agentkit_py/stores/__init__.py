"""Stores of threads. Each is a `HistoryConfig`, to be passed as ``history=…``.

`MemoryHistory` keeps threads as long as the process lives, `SqliteHistory` keeps them in one file,
`PostgresHistory` in a PostgreSQL database. A store for another database is a subclass of
`HistoryStore`. Nothing here loads ``sqlite3`` or ``psycopg`` before a store of theirs is made.
"""

from agentkit_py.history.leases import ThreadLease
from agentkit_py.stores.base import HistoryStore
from agentkit_py.stores.memory import MemoryHistory
from agentkit_py.stores.postgres import PostgresHistory
from agentkit_py.stores.rows import StoredResult, ThreadInfo
from agentkit_py.stores.sqlite import SqliteHistory
from agentkit_py.stores.workspace import Workspace
from agentkit_py.stores.wrappers import for_user, redacted

__all__ = [
    "HistoryStore",
    "MemoryHistory",
    "PostgresHistory",
    "SqliteHistory",
    "StoredResult",
    "ThreadInfo",
    "ThreadLease",
    "Workspace",
    "for_user",
    "redacted",
]
