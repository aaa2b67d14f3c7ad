"""Staff on a thread: people who take a conversation over, write in it, and hand it back.

While a person is on a thread, agents pause: a run stores the user's message, and ends with the
stop reason `TAKEN_OVER` before any model is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, TypeAlias

from typing_extensions import Protocol, runtime_checkable  # quicker checks than Python 3.11's

from agentkit_py._core.json import as_list, as_object, record_of, time_of, time_or_none
from agentkit_py.errors import InvalidRecordError

TAKEN_OVER = "taken_over"
"""The stop reason of a run in a thread that a person has taken over."""

TakeoverStatus: TypeAlias = Literal["asked", "taken"]
"""``"asked"``: a person is wanted, and agents answer meanwhile; ``"taken"``: a person is on it."""

HANDED_BACK = "I have handed the conversation back to you."
"""The default note when a thread is handed back."""

UNNAMED = "Staff"
"""The name of a person who gives none: ids stay with staff."""


@dataclass(frozen=True, slots=True)
class StaffMember:
    """A person who is on a thread."""

    id: str
    name: str
    """The name that the user and agents read."""

    joined_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """The staff on a thread, and the reason of a request for staff; stored with the thread."""

    thread_id: str
    user_id: str | None = None
    """The owner of the thread; stores fill it in."""

    people: tuple[StaffMember, ...] = ()
    """Those who are on the thread, the first to join first."""

    reason: str = ""
    """Why a person is wanted."""

    asked_by: str | None = None
    """The agent that asked for a person; None: no request, or by the application."""

    asked_at: datetime | None = None
    """When a person was first asked for; None: no request."""

    waiting_since: datetime | None = None
    """The time of the user's first message that no person has answered yet."""

    spoke_at: datetime | None = None
    """The time of the last message of a person."""

    @property
    def status(self) -> TakeoverStatus | None:
        """The state of the thread; None: agents answer, and no person is requested."""
        if self.people:
            return "taken"
        return None if self.asked_at is None else "asked"

    @property
    def since(self) -> datetime | None:
        """The time of the request for a person, or of the first person's joining."""
        return self.asked_at or (self.people[0].joined_at if self.people else None)

    def member(self, person_id: str) -> StaffMember | None:
        """Return a person who is on the thread; None: they are not."""
        return next((one for one in self.people if one.id == person_id), None)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON (camelCase)."""
        return record_of(self)

    @classmethod
    def from_dict(cls, record: object, *, where: str) -> Takeover:
        """Read the output of `to_dict`.

        Raises:
            InvalidRecordError: It holds none.
        """
        fields: Mapping[str, Any] = as_object(record) or {}
        try:
            people = [as_object(one) or {} for one in as_list(fields.get("people")) or ()]
            return cls(
                thread_id=str(fields["threadId"]),
                user_id=fields.get("userId"),
                people=tuple(
                    StaffMember(str(p["id"]), str(p["name"]), time_of(p["joinedAt"]))
                    for p in people
                ),
                reason=str(fields.get("reason") or ""),
                asked_by=fields.get("askedBy"),
                asked_at=time_or_none(fields.get("askedAt")),
                waiting_since=time_or_none(fields.get("waitingSince")),
                spoke_at=time_or_none(fields.get("spokeAt")),
            )
        except (KeyError, ValueError) as error:
            text = f"cannot be read: {error!r:.200}"
            raise InvalidRecordError(text, where=where, field="takeover") from error

    # Changes. Each returns the new takeover, or None for no change.

    def asked(self, reason: str, agent: str | None, at: datetime) -> Takeover | None:
        """Ask for a person, unless a person is there or requested already."""
        if self.status is not None:
            return None
        return replace(self, reason=reason, asked_by=agent, asked_at=at)

    def joined(self, member: StaffMember) -> Takeover | None:
        """Let a person join."""
        known = self.member(member.id)
        return None if known is not None else replace(self, people=(*self.people, member))

    def left(self, person_id: str) -> Takeover:
        """Let a person leave; after the last person, agents answer again."""
        people = tuple(one for one in self.people if one.id != person_id)
        if people:
            return replace(self, people=people)
        return Takeover(thread_id=self.thread_id, user_id=self.user_id)

    def heard(self, at: datetime) -> Takeover | None:
        """Note that the user waits for a person's answer."""
        waits = self.people and self.waiting_since is None
        return replace(self, waiting_since=at) if waits else None

    def answered(self, at: datetime) -> Takeover | None:
        """Note that a person has written to the user, after which the user may wait again."""
        if not self.people:
            return None
        waits = self.waiting_since if self.waiting_since and self.waiting_since > at else None
        return replace(self, waiting_since=waits, spoke_at=max(at, self.spoke_at or at))


TakeoverChange: TypeAlias = Callable[[Takeover], Takeover | None]


@runtime_checkable
class TakeoverStore(Protocol):
    """Keeps the staff of each thread, and requests for staff. They are deleted with the thread."""

    async def load_takeover(self, thread_id: str) -> Takeover | None:
        """Return a thread's takeover or request, or None."""
        ...

    async def change_takeover(self, thread_id: str, change: TakeoverChange) -> Takeover:
        """Change a thread's takeover in a transaction.

        Args:
            thread_id: The thread.
            change: Gets the current takeover, empty if there is none, and returns the new takeover,
                or None for no change; it may be called again.

        Returns:
            The takeover after the change.

        Raises:
            ThreadNotFoundError: The thread does not exist.
        """
        ...

    async def list_takeovers(
        self,
        *,
        status: TakeoverStatus | None = None,
        user_id: str | None = None,
        limit: int | None = 50,
    ) -> list[Takeover]:
        """Return threads that a person is on or wanted in, the oldest first.

        Args:
            status: Only those in this state; None: all.
            user_id: Only threads of this user.
            limit: The most to return; None: all.
        """
        ...


async def note_user_message(store: TakeoverStore | None, thread_id: str | None) -> bool:
    """Record that the user has written; return True if a person answers, not an agent."""
    if thread_id is None or store is None:
        return False
    found = await store.load_takeover(thread_id)
    if found is None or not found.people:
        return False
    heard = partial(Takeover.heard, at=datetime.now(UTC))
    return bool((await store.change_takeover(thread_id, heard)).people)
