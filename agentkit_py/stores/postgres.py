"""PostgresHistory: threads in a PostgreSQL database, for any number of processes and machines."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, get_args

from agentkit_py._core.databases import conninfo_problem, database_name
from agentkit_py._core.lazy import missing_package
from agentkit_py.errors import ConfigurationError, MissingDependencyError
from agentkit_py.history.leases import ThreadLease
from agentkit_py.processors.base import Processors
from agentkit_py.stores._sql import SqlHistory
from agentkit_py.stores._sql_session import Database
from agentkit_py.stores._typescript_tables import TypeScriptTables

if TYPE_CHECKING:
    from agentkit_py.stores.broadcast import Broadcast

Layout: TypeAlias = Literal["agentkit", "typescript"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST = 40
"""PostgreSQL cuts names off at 63 bytes, and constraints' names are made of tables' names."""


class PostgresHistory(SqlHistory):
    """Threads in PostgreSQL 13 or newer: ``Network(history=PostgresHistory("postgresql://…"))``.

    Needs the extra ``postgres`` (psycopg 3). The tables are created when the store is first used,
    next to existing ones. Each result is committed when the call that saves it returns. A
    lost connection is replaced and its transaction repeated.

    Attributes:
        schema: The schema of the tables.
        prefix: The beginning of their names.
    """

    if not TYPE_CHECKING:  # `__init__` declares the parameters

        def __new__(cls, *args: object, layout: Layout = "agentkit", **options: object) -> Self:
            """Choose the class of the layout."""
            del args, options
            if layout not in get_args(Layout):
                raise ConfigurationError(
                    f"PostgresHistory: layout is 'agentkit' or 'typescript', not {layout!r:.80}."
                )
            both = layout == "typescript" and cls is PostgresHistory
            return super().__new__(TypeScriptPostgres if both else cls)

    def __init__(  # noqa: PLR0913 - each is an independent choice
        self,
        conninfo: str,
        *,
        processors: Processors = (),
        lease: ThreadLease | None = None,
        lazy: bool | None = None,
        schema: str = "public",
        prefix: str = "agentkit_",
        connections: int = 10,
        wait: float = 30.0,
        layout: Layout = "agentkit",
    ) -> None:
        """Remember the database; nothing is connected yet.

        Args:
            conninfo: ``postgresql://user:password@host/database``, or ``key=value`` pairs.
            processors: History processors that run before those of networks and agents.
            lease: How runs share a thread; None: they do not know of each other.
            lazy: False: each run loads its whole thread; see `HistoryStore`.
            schema: The schema for the tables; it is made if it is not there.
            prefix: The beginning of the tables' names.
            connections: How many connections there are at the most.
            wait: Seconds to wait for a connection.
            layout: ``"typescript"``: read and write the tables of the PostgreSQL adapter in the
                TypeScript repository, so that both languages continue the same thread. They are
                made if they are not there; thread ids are UUIDs. A thread is read whole.

        Raises:
            ConfigurationError: The address, a name or a number cannot be used.
            MissingDependencyError: psycopg is not installed.
        """
        super().__init__(processors=processors, lease=lease, lazy=lazy)
        del layout  # `__new__` has read it
        if connections < 1:
            raise ConfigurationError(f"connections must be 1 or more, not {connections}.")
        if package := missing_package("psycopg", "psycopg_pool"):
            raise MissingDependencyError(package, "postgres", "PostgresHistory")
        if problem := conninfo_problem(conninfo):
            raise ConfigurationError(f"PostgresHistory: {problem}")
        self._schema: str = _checked("schema", schema)
        self._prefix: str = prefix and _checked("prefix", prefix)
        self._conninfo = conninfo
        self._connections = connections
        self._wait = wait

    @property
    def schema(self) -> str:
        """The schema of its tables."""
        return self._schema

    @property
    def prefix(self) -> str:
        """The beginning of its tables' names."""
        return self._prefix

    def __repr__(self) -> str:
        name = database_name(self._conninfo)
        return f"<PostgresHistory: {name}, {self._schema}.{self._prefix}*>"

    def broadcast(self) -> Broadcast:
        """Return the broadcast between processes, by ``NOTIFY`` and ``LISTEN``."""
        from agentkit_py.stores.broadcast import PostgresBroadcast  # noqa: PLC0415 - only servers need it

        digest = sha256(f"{self._schema}.{self._prefix}".encode()).hexdigest()
        return PostgresBroadcast(self._conninfo, f"agentkit_{digest[:32]}")

    def _make_database(self) -> Database:
        from agentkit_py.stores._postgres_server import PostgresServer  # noqa: PLC0415 - loads psycopg

        return PostgresServer(
            self._conninfo,
            self._schema,
            self._prefix,
            connections=self._connections,
            wait=self._wait,
        )


class TypeScriptPostgres(TypeScriptTables, PostgresHistory):
    """The store that ``layout="typescript"`` makes."""

    def _make_database(self) -> Database:
        from agentkit_py.stores._postgres_server import PostgresServer  # noqa: PLC0415 - as above

        return PostgresServer(
            self._conninfo,
            self._schema,
            f"{self._prefix}py_",
            connections=self._connections,
            wait=self._wait,
            others=self._tables(),
            prepare=self._prepare,
        )


def _checked(what: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"PostgresHistory: {what} must be a name of letters, digits and underscores, "
            f"not {name!r:.80}."
        )
    if len(name) > _LONGEST:
        raise ConfigurationError(
            f"PostgresHistory: {what} has {len(name)} characters, more than {_LONGEST}."
        )
    return name
