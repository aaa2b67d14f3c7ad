"""Record: the form in which a store keeps all data except threads.

Questions, runs, leases, notes of calls, mail, takeovers, facts, counters, summaries and vectors are
records of different kinds. A database implements `Records` within a transaction, and no more.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.stores.rows import ThreadInfo, from_json

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record of some kind, as a database keeps it."""

    key: str
    """Unique in its kind; ASCII without zero bytes."""

    json: str
    """A JSON object that is valid UTF-8."""

    thread: str | None = None
    """The id of the thread that it belongs to: it is removed with the thread."""

    group: str | None = None
    """A key to find it by, e.g. of its user; ASCII without zero bytes."""

    status: str | None = None
    """Another key to find it by; ASCII without zero bytes."""

    until: float | None = None
    """Seconds since 1970 after which it does not count any more; a database may remove it then."""

    @property
    def data(self) -> Any:
        """The JSON object.

        Raises:
            InvalidRecordError: The record is damaged.
        """
        return from_json(self.json, f"record {self.key}", "(whole)")


class Records(Protocol):
    """The records of a store, within a transaction."""

    def get(self, kind: str, key: str) -> Record | None:
        """Return a record; None: there is none."""
        ...

    def put(self, kind: str, record: Record) -> None:
        """Add a record, or replace the record with its key, which keeps its place in the order."""
        ...

    def find(
        self,
        kind: str,
        *,
        thread: str | None = None,
        group: str | None = None,
        status: str | None = None,
        last: int | None = None,
    ) -> list[Record]:
        """Return records in the order in which their keys were added.

        Args:
            kind: Their kind.
            thread: Only those of this thread.
            group: Only those of this group.
            status: Only those with this status.
            last: Only the last so many of them; None: all.
        """
        ...

    def delete(
        self,
        kind: str | None,
        *,
        key: str | None = None,
        thread: str | None = None,
        group: str | None = None,
    ) -> int:
        """Remove the record with a key, or those of a thread or group; return their number.

        Args:
            kind: Their kind; None: every kind, with ``thread`` only.
            key: The record with this key.
            thread: The records of this thread.
            group: The records of this group.
        """
        ...


def key(*parts: str) -> str:
    """Return a text of ASCII that is the same for the same parts only."""
    return json.dumps(parts)


class RecordViews(ABC):
    """The base of the classes that give records their meaning."""

    @abstractmethod
    async def transact(self, work: Callable[[Records], T]) -> T:
        """Return the result of ``work``, which runs in a transaction of its own.

        Its writes are kept whole, or not at all where it raises or the process dies. Transactions
        see all writes of another transaction or none, also between processes.

        Args:
            work: Reads and writes; called again where the database has to repeat the transaction.
        """

    @abstractmethod
    async def get_thread(self, thread_id: str) -> ThreadInfo:
        """Return a thread; see `HistoryStore.get_thread`."""

    async def _about(self, thread_id: str, work: Callable[[Records], T]) -> T:
        """Do work that adds records to a thread; nothing stays if the thread is removed meanwhile.

        Raises:
            ThreadNotFoundError: The thread does not exist.
        """
        await self.get_thread(thread_id)
        result = await self.transact(work)
        try:
            await self.get_thread(thread_id)
        except ThreadNotFoundError:
            await self.transact(lambda records: records.delete(None, thread=thread_id))
            raise
        return result
