"""Staff on a thread: people who take a conversation over, write in it, and hand it back.

While a person is on a thread, agents pause: a run stores the user's message, and ends with the
stop reason `TAKEN_OVER` before any model is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from typing_extensions import Protocol, runtime_checkable  # quicker checks than Python 3.11's

from agentkit_py._core.json import as_list, as_object, record_of, time_of, time_or_none
from agentkit_py._core.validation import wrong_word
from agentkit_py.errors import ConfigurationError, InvalidRecordError, NotOnThreadError
from agentkit_py.results import USER, AgentResult, StaffAuthor

TAKEN_OVER = "taken_over"
"""The stop reason of a run in a thread that a person has taken over."""

TakeoverStatus: TypeAlias = Literal["asked", "taken"]
"""``"asked"``: a person is wanted, and agents answer meanwhile; ``"taken"``: a person is on it."""

HANDED_BACK = "I have handed the conversation back to you."
"""The default note when a thread is handed back."""

UNNAMED = "Staff"
"""The name of a person who gives none: ids stay with staff."""

_LONGEST_NAME = 100

_LAST = 50
"""Entries among which a message is looked for that may have been there already."""


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


class StaffStore(TakeoverStore, Protocol):
    """A store of threads in which staff may write."""

    async def append(self, thread_id: str, results: Sequence[AgentResult]) -> None:
        """Add entries to a thread."""
        ...

    async def newest(self, thread_id: str, limit: int) -> tuple[int, Sequence[Any]]:
        """Return the number of entries, and the last of them with their places."""
        ...


class StaffDesk:
    """The place of staff in a store: to join threads, write in them, and hand them back.

    It does not check rights: the calling program does, as the HTTP API
    does by its ``staff`` and ``may_take_over``.

    Example:
        ::

            desk = StaffDesk(store)
            await desk.join(thread_id, by="mia@shop.example", name="Mia")
            await desk.say(thread_id, "I am looking at it.", by="mia@shop.example")
            await desk.hand_back(thread_id, by="mia@shop.example", note="Offer a return label.")
    """

    def __init__(self, store: object) -> None:
        """Begin.

        Args:
            store: The store of the threads: `MemoryHistory`, `SqliteHistory`, `PostgresHistory`, or
                any of these restricted to a user.

        Raises:
            ConfigurationError: It does not keep who is on a thread.
        """
        self._store: StaffStore = staff_store(store)

    async def of(self, thread_id: str) -> Takeover | None:
        """Return who is on a thread or wanted; None: agents answer."""
        return await self._store.load_takeover(thread_id)

    async def queue(
        self, *, status: TakeoverStatus | None = None, limit: int | None = 50
    ) -> list[Takeover]:
        """Return the threads that a person is on or wanted in, the oldest first.

        Raises:
            ConfigurationError: The status is none.
        """
        wrong = wrong_word("status", status, ("asked", "taken", None))
        if wrong:
            raise ConfigurationError(f"StaffDesk.queue: {wrong}")
        return await self._store.list_takeovers(status=status, limit=limit)

    async def ask(self, thread_id: str, reason: str, *, agent: str | None = None) -> Takeover:
        """Ask for a person; agents answer until a person joins.

        Nothing changes where a person is on the thread or was asked for already.

        Args:
            thread_id: The thread.
            reason: Why, as staff read it.
            agent: The agent that asks.

        Raises:
            ThreadNotFoundError: The thread does not exist.
        """
        change = partial(Takeover.asked, reason=reason, agent=agent, at=datetime.now(UTC))
        return await self._store.change_takeover(thread_id, change)

    async def join(self, thread_id: str, *, by: str, name: str = "") -> Takeover:
        """Let a person join: from now on agents pause.

        A reply in progress is completed.

        Args:
            thread_id: The thread.
            by: The id of the person.
            name: The name that the user and agents read; ``"Staff"`` unless given.

        Raises:
            ConfigurationError: The name cannot be shown as a name, or is ``"user"``.
            ThreadNotFoundError: The thread does not exist.
        """
        member = StaffMember(by, checked_name(name or UNNAMED), datetime.now(UTC))
        return await self._store.change_takeover(thread_id, partial(Takeover.joined, member=member))

    async def say(
        self, thread_id: str, text: str, *, by: str, message_id: str | None = None
    ) -> AgentResult:
        """Write to the user as a person who is on the thread.

        Args:
            thread_id: The thread.
            text: The text.
            by: The id of the person.
            message_id: An id: the same again changes nothing.

        Returns:
            The entry of the thread; the first entry, if the message is repeated.

        Raises:
            NotOnThreadError: The person has not joined.
            MessageConflictError: The thread has another message of this id.
            ConfigurationError: The text is empty.
            ThreadNotFoundError: The thread does not exist.
        """
        if not text.strip():
            raise ConfigurationError("say() got no text")
        author = StaffAuthor(by, (await self._member(thread_id, by)).name)
        said = AgentResult.from_staff(author, text, id=message_id or uuid4().hex)
        await self._store.append(thread_id, [said])
        if message_id is not None:
            _, last = await self._store.newest(thread_id, _LAST)
            said = next((one.result for one in last if one.result.id == message_id), said)
        answered = partial(Takeover.answered, at=said.created_at)
        await self._store.change_takeover(thread_id, answered)
        return said

    async def note(
        self, thread_id: str, text: str, *, by: str, name: str = "", message_id: str | None = None
    ) -> AgentResult:
        """Write an internal note: colleagues and agents read it, the user does not.

        Args:
            thread_id: The thread.
            text: The note.
            by: The id of the person, who need not have joined.
            name: The name of a person who has not joined; ``"Staff"`` unless given.
            message_id: An id: the same again changes nothing.

        Returns:
            The entry of the thread.

        Raises:
            MessageConflictError: The thread has another message of this id.
            ConfigurationError: The text is empty, or the name cannot be shown as a name.
            ThreadNotFoundError: The thread does not exist.
        """
        if not text.strip():
            raise ConfigurationError("note() got no text")
        found = await self._store.load_takeover(thread_id)
        member = None if found is None else found.member(by)
        called = checked_name(name or UNNAMED) if member is None else member.name
        author = StaffAuthor(by, called, "agents")
        entry = AgentResult.from_staff(author, text, id=message_id or uuid4().hex)
        await self._store.append(thread_id, [entry])
        return entry

    async def hand_back(
        self, thread_id: str, *, by: str, name: str = "", note: str = ""
    ) -> Takeover:
        """Leave a thread with a note; after the last person, agents answer again.

        If a person is only requested, the request is withdrawn: so staff decline.

        Args:
            thread_id: The thread.
            by: The id of the person.
            name: The name of a person who has not joined; ``"Staff"`` unless given.
            note: A note for agents; the user does not get it.

        Raises:
            NotOnThreadError: Others are on the thread, or it has no staff and no request.
            ThreadNotFoundError: The thread does not exist.
        """
        found = await self._store.load_takeover(thread_id)
        member = None if found is None else found.member(by)
        if found is None or (member is None and found.people):
            raise NotOnThreadError(thread_id, by)
        called = checked_name(name or UNNAMED) if member is None else member.name
        text = note if note.strip() else HANDED_BACK
        # The note comes first: agents that answer again have read it.
        if member is not None or note.strip():
            author = StaffAuthor(by, called, "agents")
            entry = AgentResult.from_staff(author, text, id=uuid4().hex)
            await self._store.append(thread_id, [entry])
        return await self._store.change_takeover(thread_id, partial(Takeover.left, person_id=by))

    async def _member(self, thread_id: str, person_id: str) -> StaffMember:
        found = await self._store.load_takeover(thread_id)
        member = None if found is None else found.member(person_id)
        if member is None:
            raise NotOnThreadError(thread_id, person_id)
        return member


def staff_store(store: object) -> Any:
    """Return a store that keeps who is on a thread.

    Raises:
        ConfigurationError: It keeps no takeovers, or is None.
    """
    if isinstance(store, TakeoverStore):
        return store
    raise ConfigurationError(
        "Staff need a store that keeps who is on a thread (MemoryHistory, SqliteHistory, "
        f"PostgresHistory), not {store!r:.80}"
    )


def checked_name(name: str) -> str:
    """Return a person's name.

    Raises:
        ConfigurationError: It is empty, too long, or has characters that are not allowed in a name.
    """
    fits = 0 < len(name) <= _LONGEST_NAME and name.isprintable() and not set(name) & set('<>"')
    if not fits or not name.strip() or name == USER:  # else their words would be the user's
        raise ConfigurationError(
            f"name={name!r:.120}: a person's name has 1 to {_LONGEST_NAME} printable characters, "
            f'without <, > and ", and is not {USER!r}'
        )
    return name


async def note_user_message(store: object, thread_id: str | None) -> bool:
    """Record that the user has written; return True if a person answers, not an agent."""
    if thread_id is None or not isinstance(store, TakeoverStore):
        return False
    found = await store.load_takeover(thread_id)
    if found is None or not found.people:
        return False
    heard = partial(Takeover.heard, at=datetime.now(UTC))
    return bool((await store.change_takeover(thread_id, heard)).people)
