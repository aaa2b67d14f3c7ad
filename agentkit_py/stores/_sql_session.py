"""A transaction, with the dialect of its database and the values that queries need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

TABLES = (
    *("threads", "results", "summaries", "vectors", "leases", "runs"),
    *("line", "notes", "stopped", "questions", "budgets", "mail", "facts", "words", "takeovers"),
    *("owners", "records"),
)


class JsonText(str):
    """A value that is JSON already; it is stored as it is."""

    __slots__ = ()


class FreeText(str):
    """A value that may hold any character, in a column that is never searched."""

    __slots__ = ()


class Dialect:
    """The words of a database."""

    def __init__(self, words: Mapping[str, Any], placeholder: str) -> None:
        self._words = words
        self._placeholder = placeholder

    def query(self, text: str) -> str:
        """Return a query with its words and placeholders filled in."""
        return text.format_map(self._words).replace("?", self._placeholder)


class Pattern:
    """A word with an argument: ``{text:json}`` is the pattern of ``text`` for ``json``."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def __format__(self, argument: str) -> str:
        return self._pattern.replace("@", argument)


class Session(Protocol):
    """A transaction."""

    @property
    def full_text(self) -> bool:
        """True where words of results are indexed."""
        ...

    @property
    def words_follow(self) -> bool:
        """True where a thread's entries in the index of words are removed with its row."""
        ...

    def word_query(self, terms: Sequence[tuple[str, bool]], user_id: str | None) -> str:
        """Return a query of the index of words; see `index_query`."""
        ...

    def execute(self, query: str, *values: Any) -> Any:
        """Run a query; return the driver's cursor."""
        ...

    def execute_many(self, query: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run a statement with each of ``rows``."""
        ...

    def select_ids(self, query: str, *values: Any, ids: Sequence[str]) -> list[Any]:
        """Run a query that ends in ``{ids}``: any of ``ids``, however many there are."""
        ...

    def stream(self, query: str, *values: Any) -> Iterator[Any]:
        """Yield the rows of a query that may have very many."""
        ...

    def pipeline(self) -> AbstractContextManager[object]:
        """Send statements without waiting, until rows are fetched; `rowcount` is not known then."""
        ...

    def given(self, stored: str) -> str:
        """Return the text that was stored as ``stored``."""
        ...


class Database(Protocol):
    """A database. Its methods block, and may be called in several threads."""

    def transact(
        self, work: Callable[[Session], T], *, write: bool = False, repeatable: bool = True
    ) -> T:
        """Run ``work`` in a transaction.

        Args:
            work: Runs the queries; called again with another session if a connection is lost.
            write: Whether it changes anything.
            repeatable: Whether it may run again if a lost connection leaves unknown whether it was
                committed.
        """
        ...

    def close(self) -> None:
        """Close the connections; those in use are closed after their transactions."""
        ...
