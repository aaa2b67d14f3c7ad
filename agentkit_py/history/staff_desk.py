"""StaffDesk: how people join threads, write in them, and hand them back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, cast
from uuid import uuid4

from typing_extensions import Protocol  # as the store's protocol

from agentkit_py._core.validation import wrong_word
from agentkit_py.errors import ConfigurationError, NotOnThreadError
from agentkit_py.history.abilities import staff_of
from agentkit_py.history.staff import (
    HANDED_BACK,
    UNNAMED,
    StaffMember,
    Takeover,
    TakeoverStatus,
    TakeoverStore,
)
from agentkit_py.results import USER, AgentResult, StaffAuthor

_LONGEST_NAME = 100

_LAST = 50
"""Entries among which a message is looked for that may have been there already."""


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
        # All stores of threads have the other two methods.
        self._store: StaffStore = cast("StaffStore", staff_of(store))

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
        self,
        thread_id: str,
        text: str,
        *,
        by: str,
        name: str = "",
        message_id: str | None = None,
        to: Literal["staff", "agents"] = "staff",
    ) -> AgentResult:
        """Write an internal note, which the user does not get.

        Args:
            thread_id: The thread.
            text: The note.
            by: The id of the person, who need not have joined.
            name: The name of a person who has not joined; ``"Staff"`` unless given.
            message_id: An id: the same again changes nothing.
            to: The readers. ``"staff"``: colleagues alone, so that the note is in no request to a
                model; ``"agents"``: agents, too.

        Returns:
            The entry of the thread.

        Raises:
            MessageConflictError: The thread has another message of this id.
            ConfigurationError: The text is empty, the name cannot be shown as a name, or there are
                no such readers.
            ThreadNotFoundError: The thread does not exist.
        """
        if not text.strip():
            raise ConfigurationError("note() got no text")
        wrong = wrong_word("to", to, ("staff", "agents"))
        if wrong:
            raise ConfigurationError(f"StaffDesk.note: {wrong}")
        found = await self._store.load_takeover(thread_id)
        member = None if found is None else found.member(by)
        called = checked_name(name or UNNAMED) if member is None else member.name
        author = StaffAuthor(by, called, to)
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
