"""Abilities of a store: what it can do in addition to its callbacks, found out once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args, get_type_hints

from typing_extensions import Protocol, runtime_checkable  # quicker checks than Python 3.11's

from agentkit_py.errors import ConfigurationError
from agentkit_py.history.mail import InboxStore, MailStore
from agentkit_py.history.questions import QuestionStore
from agentkit_py.history.ratings import RatingStore
from agentkit_py.history.runs import PagedResult, RunOpener, RunStore, StateReader
from agentkit_py.history.staff import TakeoverStore
from agentkit_py.history.users import FactStore, SpendingStore
from agentkit_py.processors.base import SummaryStore
from agentkit_py.search.vectors import VectorIndex

T = TypeVar("T")


@runtime_checkable
class PagedStore(Protocol):
    """A store that can read a part of a thread."""

    async def count_results(self, thread_id: str) -> int:
        """Return how many results the thread has."""
        ...

    async def newest(self, thread_id: str, limit: int) -> tuple[int, Sequence[PagedResult]]:
        """Return how many results there are, and the last ``limit``, oldest first."""
        ...

    async def page(self, thread_id: str, before: int, limit: int) -> Sequence[PagedResult]:
        """Return the last ``limit`` results before the position ``before``, oldest first."""
        ...


@runtime_checkable
class RecordKeeper(RatingStore, Protocol):
    """A store that keeps records, and gives each kind its methods."""

    async def transact(self, work: Callable[[Any], T]) -> T:
        """Return the result of ``work`` on the store's records, in a transaction of its own."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What a store can do in addition to its callbacks. Each field is the store itself, or None."""

    store: object = None
    """The store whose abilities these are."""

    pages: PagedStore | None = None
    """Reads a part of a thread."""

    first_state: StateReader | None = None
    """Reads the initial data of a run without a lease at once."""

    runs: RunStore | None = None
    """Keeps leases, records of runs, and notes of calls."""

    opener: RunOpener | None = None
    """Opens and ends a run with a lease at once."""

    questions: QuestionStore | None = None
    """Keeps questions for people, and runs that wait for answers."""

    takeovers: TakeoverStore | None = None
    """Keeps which staff are on a thread."""

    mail: MailStore | None = None
    """Keeps mail between processes."""

    inbox: InboxStore | None = None
    """Keeps messages of users that came while a run was active."""

    facts: FactStore | None = None
    """Keeps facts about users."""

    spending: SpendingStore | None = None
    """Counts what users spend."""

    summaries: SummaryStore | None = None
    """Keeps summaries of threads."""

    vectors: VectorIndex | None = None
    """Keeps vectors of messages."""

    records: RecordKeeper | None = None
    """Keeps records of all other kinds: ratings."""

    def through(self, wrapper: Any, names: Iterable[str]) -> Abilities:
        """Return these abilities as a wrapper has them that passes each call on.

        Args:
            wrapper: The wrapper, which is the store then.
            names: The fields whose methods the wrapper has.
        """
        held = {name: wrapper for name in names if getattr(self, name) is not None}
        return Abilities(store=wrapper, **held)


_PROTOCOLS = {
    name: get_args(hint)[0] for name, hint in get_type_hints(Abilities).items() if name != "store"
}
"""The protocol of each ability, by its field."""


def find_abilities(store: object) -> Abilities:
    """Look at the methods of a store."""
    held: dict[str, Any] = {
        name: store for name, protocol in _PROTOCOLS.items() if isinstance(store, protocol)
    }
    return Abilities(store=store, **held)


def abilities_of(store: object) -> Abilities:
    """Return the abilities of a store: those that it knows of itself, or by its methods.

    Args:
        store: A history, a store of something else, or None, which can do nothing.
    """
    if store is None:
        return _NONE
    known = getattr(store, "abilities", None)
    return known if isinstance(known, Abilities) else find_abilities(store)


def mail_of(store: object) -> MailStore:
    """Return a store that keeps mail.

    Raises:
        ConfigurationError: It keeps no mail, or is None.
    """
    needs = "A mailbox needs history=… with a store that keeps mail"
    return _needed(abilities_of(store).mail, needs, store)


def inbox_of(store: object) -> InboxStore:
    """Return a store that keeps inboxes.

    Raises:
        ConfigurationError: It keeps no messages, or is None.
    """
    needs = "ThreadLease(steering=True) needs a store that keeps inboxes"
    return _needed(abilities_of(store).inbox, needs, store)


def staff_of(store: object) -> TakeoverStore:
    """Return a store that keeps who is on a thread.

    Raises:
        ConfigurationError: It keeps no takeovers, or is None.
    """
    needs = "Staff need a store that keeps who is on a thread"
    return _needed(abilities_of(store).takeovers, needs, store)


def _needed(ability: T | None, needs: str, store: object) -> T:
    if ability is not None:
        return ability
    raise ConfigurationError(
        f"{needs} (MemoryHistory, SqliteHistory, PostgresHistory), not {store!r:.80}"
    )


_NONE = Abilities()
