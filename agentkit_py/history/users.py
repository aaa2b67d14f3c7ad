"""Records of users across threads: facts about them, and the spending of users and tenants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from typing_extensions import Protocol, runtime_checkable  # quicker checks than Python 3.11's

from agentkit_py._core.json import JsonObject
from agentkit_py.errors import HistoryError


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One thing that is remembered of a user.

    Raises:
        HistoryError: The id, tenant or user is empty or not valid Unicode.
    """

    id: str
    """Unique for the user."""

    tenant: str
    user_id: str
    text: str
    created_at: datetime
    agent: str | None = None
    """The agent that alone knows it; None: all do."""

    thread_id: str | None = None
    """The thread that it came from; it is deleted with it."""

    message_id: str | None = None
    """The user's message that it came from."""

    replaces: str | None = None
    """The id of the fact that it was written in place of."""

    replaced_by: str | None = None
    """The id of the fact that took its place; None: it holds."""

    def __post_init__(self) -> None:
        """Validate id, tenant and user."""
        for what, value in (("id", self.id), ("tenant", self.tenant), ("user", self.user_id)):
            if not value:
                raise HistoryError(f"The {what} of a fact is empty.")
            try:
                value.encode()
            except UnicodeEncodeError:
                raise HistoryError(f"The {what} {value!r} of a fact is not Unicode.") from None

    def to_dict(self) -> JsonObject:
        """Return the part that stores keep as JSON; owner, thread and place are columns."""
        return {
            "text": self.text,
            "createdAt": self.created_at.isoformat(),
            "agent": self.agent,
            "messageId": self.message_id,
            "replaces": self.replaces,
        }

    @classmethod
    def from_dict(cls, record: Any, **columns: Any) -> Fact:
        """Return the fact that `to_dict` gave, with its columns."""
        return cls(
            text=record["text"],
            created_at=datetime.fromisoformat(record["createdAt"]),
            agent=record["agent"],
            message_id=record["messageId"],
            replaces=record["replaces"],
            **columns,
        )


@runtime_checkable
class FactStore(Protocol):
    """Keeps facts of users. A fact goes with its thread, and with its user."""

    async def add_fact(self, fact: Fact) -> bool:
        """Add a fact; a fact with a stored id is unchanged.

        A fact that replaces another replaces its current replacement, if any: of two
        that replace the same fact at once the later holds.

        Returns:
            False, with nothing added: the user has no fact that it could replace.

        Raises:
            ThreadNotFoundError: Its thread is not in the store.
        """
        ...

    async def list_facts(
        self, tenant: str, user_id: str, *, replaced: bool = False, limit: int | None = None
    ) -> list[Fact]:
        """Return the facts of a user, newest first.

        Args:
            tenant: The tenant.
            user_id: The tenant's user.
            replaced: Also return those that others have replaced.
            limit: The most to return; None: all.
        """
        ...

    async def remove_facts(
        self, user_id: str, *, tenant: str | None = None, fact_id: str | None = None
    ) -> int:
        """Remove facts of a user for good; return how many.

        Args:
            user_id: The user.
            tenant: Only in this tenant; None: in all.
            fact_id: Only this fact, with those that it replaced and that replaced it.
        """
        ...


def spending_scope(kind: str, name: str) -> str:
    """Return the scope of counters; those of kind ``"user"`` go with the user."""
    return f"{kind}:{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """An amount for a counter."""

    scope: str
    """The scope that it counts for, e.g. ``"user:u1"``."""

    kind: str
    """``"tokens"``, ``"cost"`` or ``"runs"``."""

    period: str
    """The day or month, e.g. ``"2026-11-22"``; empty: all time."""

    amount: float
    """The amount to add; less than 0: to take away again."""

    most: float | None = None
    """The counter may not become larger; None: it may."""


@dataclass(frozen=True, slots=True)
class RefusedSpending:
    """A refused spending, and the current counter."""

    spending: Spending
    used: float


@runtime_checkable
class SpendingStore(Protocol):
    """A store that counts; safe for any number of processes."""

    async def spend(self, spendings: Sequence[Spending]) -> RefusedSpending | None:
        """Add all amounts, or none where any counter has no room; return the first such spending.

        Raises:
            HistoryError: The database cannot be reached or used.
        """
        ...

    async def spent(self, scope: str) -> Mapping[tuple[str, str], float]:
        """Return a scope's counters by kind and period."""
        ...
