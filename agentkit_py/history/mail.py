"""Mailboxes and inboxes: stores for events and messages that arrive while a run is busy.

An event may come before a run waits for it, and a message of the user while a run works on the
thread. The store keeps both, and each is received once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from typing_extensions import Protocol, runtime_checkable  # quicker checks than Python 3.11's

from agentkit_py._core.json import JsonObject
from agentkit_py.messages import UserMessage

MAIL_SECONDS = 30 * 24 * 3600.0
"""Seconds for which mail is kept, received or not."""


@runtime_checkable
class MailStore(Protocol):
    """Keeps mail in boxes. Each is received by a single taker, who may receive it again."""

    async def put_mail(
        self, box: str, mail_id: str, content: JsonObject, *, thread_id: str | None = None
    ) -> None:
        """Add mail to a box; mail with a stored id is unchanged.

        Args:
            box: The name of the box.
            mail_id: The id of the mail.
            content: What is received.
            thread_id: The thread that it is about: it goes with the thread.
        """
        ...

    async def take_mail(self, box: str, taker: str) -> JsonObject | None:
        """Return the mail that ``taker`` claimed before, or claim the oldest; None: none."""
        ...

    async def list_mail(self, box: str) -> Sequence[tuple[str, JsonObject]]:
        """Return ids and contents of a box's unclaimed mail, the oldest first."""
        ...

    async def remove_mail(self, box: str, mail_id: str | None = None) -> bool:
        """Remove mail, taken or not; return False if there is none.

        Args:
            box: The name of the box.
            mail_id: The id of the mail; None: all that is in the box.
        """
        ...


def box_of(event: str, key: str) -> str:
    """Return the name of the box of an event and key; it is safe in any expression."""
    return "mail-" + hashlib.blake2b(f"{event}\0{key}".encode(), digest_size=16).hexdigest()


@runtime_checkable
class InboxStore(Protocol):
    """Keeps messages for the run that works on a thread. They are deleted with the thread."""

    async def put_message(
        self, thread_id: str, message: UserMessage, *, interrupts: bool = False
    ) -> None:
        """Add a message, which has an id; a message with a stored id is unchanged.

        Raises:
            ThreadNotFoundError: The thread does not exist.
        """
        ...

    async def take_messages(
        self, thread_id: str, taker: str, *, at_work: bool = False
    ) -> Sequence[UserMessage] | None:
        """Return the messages that ``taker`` claimed before, or claim all, the oldest first.

        Args:
            thread_id: The thread.
            taker: The claimant: they are returned to no other.
            at_work: If a message interrupts, claim none, and return None.
        """
        ...


def inbox_name(thread_id: str) -> str:
    """Return the name of a thread's inbox among mailboxes."""
    return (
        "inbox-" + hashlib.blake2b(thread_id.encode(errors="replace"), digest_size=16).hexdigest()
    )
