"""PostgresKnowledge: documents in a PostgreSQL database, with pgvector."""

from __future__ import annotations

from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Literal

import anyio.to_thread

from agentkit_py.errors import ConfigurationError, MissingDependencyError
from agentkit_py.knowledge._sql_store import SqlStore
from agentkit_py.knowledge._tables import Tables

if TYPE_CHECKING:
    from agentkit_py.knowledge._pg_server import PgServer


class PostgresKnowledge(SqlStore):
    """Documents in PostgreSQL 13 or newer with the extension pgvector.

    Needs the extra ``postgres`` (psycopg 3). Tables, schema and extension are made when the store
    is first used. Vectors are compared one by one among what passes the filter, which is exact.
    """

    _tables = Tables("postgres")

    def __init__(
        self,
        conninfo: str,
        *,
        schema: str = "agentkit_knowledge",
        language: Literal["english", "simple"] = "english",
        connections: int = 4,
    ) -> None:
        """Remember the database; nothing is connected yet.

        Args:
            conninfo: ``postgresql://user:password@host/database``, or ``key=value`` pairs.
            schema: The schema for the tables; each schema is a store of its own.
            language: Whether words are reduced to their English stems.
            connections: How many connections there are at the most.

        Raises:
            ConfigurationError: A number makes no sense.
            MissingDependencyError: psycopg is not installed.
        """
        if find_spec("psycopg_pool") is None:
            raise MissingDependencyError("psycopg", "postgres", "PostgresKnowledge")
        if connections < 1:
            raise ConfigurationError(f"connections must be 1 or more, not {connections}.")
        self.schema = schema
        self._conninfo = conninfo
        self._language = language
        self._connections = connections
        self._server: PgServer | None = None
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<PostgresKnowledge: {self.schema}>"

    def _database(self) -> PgServer:
        from agentkit_py.knowledge._pg_server import PgServer  # noqa: PLC0415 - loads psycopg

        with self._lock:
            if self._server is None:
                self._server = PgServer(
                    self._conninfo, self.schema, self._language, self._connections
                )
            return self._server

    async def close(self) -> None:
        """Close the connections; the next use connects again."""
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            await anyio.to_thread.run_sync(server.close)
