"""Stores: where threads live. Each is a `HistoryConfig`, to be passed as ``history=…``.

`MemoryHistory` keeps threads as long as the process lives, `SqliteHistory` keeps them in one file.
A store for another database is a subclass of `HistoryStore`. Nothing here loads ``sqlite3`` before
a `SqliteHistory` is used.
"""

from __future__ import annotations

from agentkit_py.stores.base import HistoryStore
from agentkit_py.stores.memory import MemoryHistory
from agentkit_py.stores.records import StoredResult, ThreadInfo
from agentkit_py.stores.sqlite import SqliteHistory

__all__ = ["HistoryStore", "MemoryHistory", "SqliteHistory", "StoredResult", "ThreadInfo"]
