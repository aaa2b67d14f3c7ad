"""Stores: where threads live. Each is a `HistoryConfig`, to be passed as ``history=…``.

`MemoryHistory` keeps threads as long as the process lives, `SqliteHistory` keeps them in one file,
`PostgresHistory` in a PostgreSQL database. A store for another database is a subclass of
`HistoryStore`. Nothing here loads ``sqlite3`` or ``psycopg`` before a store of theirs is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentkit_py._core.lazy import Finder as _Finder
from agentkit_py._core.lazy import lazily as _lazily

if TYPE_CHECKING:
    from agentkit_py.history.turns import Turns
    from agentkit_py.stores.base import HistoryStore
    from agentkit_py.stores.memory import MemoryHistory
    from agentkit_py.stores.postgres import PostgresHistory
    from agentkit_py.stores.records import StoredResult, ThreadInfo
    from agentkit_py.stores.redacting import redacted
    from agentkit_py.stores.scoped import for_user
    from agentkit_py.stores.sqlite import SqliteHistory
    from agentkit_py.stores.workspace import Workspace

__all__ = [
    "HistoryStore",
    "MemoryHistory",
    "PostgresHistory",
    "SqliteHistory",
    "StoredResult",
    "ThreadInfo",
    "Turns",
    "Workspace",
    "for_user",
    "redacted",
]

__getattr__: _Finder = _lazily(
    __name__,
    {
        "agentkit_py.history.turns": "Turns",
        "agentkit_py.stores.base": "HistoryStore",
        "agentkit_py.stores.memory": "MemoryHistory",
        "agentkit_py.stores.postgres": "PostgresHistory",
        "agentkit_py.stores.records": "StoredResult ThreadInfo",
        "agentkit_py.stores.redacting": "redacted",
        "agentkit_py.stores.scoped": "for_user",
        "agentkit_py.stores.sqlite": "SqliteHistory",
        "agentkit_py.stores.workspace": "Workspace",
    },
)
