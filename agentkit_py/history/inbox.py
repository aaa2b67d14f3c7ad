"""A thread's inbox: messages of the user that came while a run was at work."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import UserMessage


@runtime_checkable
class InboxStore(Protocol):
    """Keeps messages for the run that is at work on a thread. They go with the thread."""

    async def put_message(
        self, thread_id: str, message: UserMessage, *, interrupts: bool = False
    ) -> None:
        """Add a message, which has an id; one of its id that was there already stays as it is.

        Raises:
            ThreadNotFoundError: There is no such thread.
        """
        ...

    async def take_messages(
        self, thread_id: str, taker: str, *, at_work: bool = False
    ) -> Sequence[UserMessage] | None:
        """Return what ``taker`` took before, else take all that nobody took, the oldest first.

        Args:
            thread_id: The thread.
            taker: Who takes them: they are returned to nobody else.
            at_work: If one of them interrupts, take none, and return None.
        """
        ...


def inbox_of(store: object) -> Any:
    """Return a store that keeps inboxes.

    Raises:
        ConfigurationError: It keeps none, or there is no store.
    """
    if isinstance(store, InboxStore):
        return store
    raise ConfigurationError(
        "ThreadLease(steering=True) needs a store that keeps inboxes (MemoryHistory, "
        f"SqliteHistory, PostgresHistory), not {store!r:.80}"
    )


def inbox_name(thread_id: str) -> str:
    """Return the name of a thread's inbox among mailboxes."""
    return (
        "inbox-" + hashlib.blake2b(thread_id.encode(errors="replace"), digest_size=16).hexdigest()
    )
