"""What a summary is, and what keeps summaries beside a thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from agentkit_py._core.json import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What stands for the beginning of a conversation."""

    text: str
    covered: int
    """How many messages it stands for, counted from the beginning."""

    anchor: str
    """A checksum of the last of them, by which the place is found again."""

    tokens: int
    """Tokens of the text as a model is sent it."""

    original_tokens: int
    """Tokens of the messages that it stands for."""

    created_at: datetime
    place: int | None = None
    """How many messages of the thread stand before what comes after it; None: not known. It is more
    than ``covered`` where other processors had left messages out."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "text": self.text,
            "covered": self.covered,
            "anchor": self.anchor,
            "tokens": self.tokens,
            "originalTokens": self.original_tokens,
            "createdAt": self.created_at.isoformat(),
            "place": self.place,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any] | JsonObject) -> Summary:
        """The summary that `to_dict` gave."""
        fields: Mapping[str, Any] = record
        return cls(
            text=fields["text"],
            covered=fields["covered"],
            anchor=fields["anchor"],
            tokens=fields["tokens"],
            original_tokens=fields["originalTokens"],
            created_at=datetime.fromisoformat(fields["createdAt"]),
            place=fields.get("place"),
        )


@runtime_checkable
class SummaryStore(Protocol):
    """Keeps summaries beside threads, and lets one writer at a time make the next one.

    A thread may have several, each under a key, since agents may see different histories of it.
    The lock is by time: one that its owner never gave back ends by itself.
    """

    async def load_summary(self, thread_id: str, key: str) -> Summary | None:
        """The summary; None if there is none."""
        ...

    async def lock_summary(self, thread_id: str, key: str, owner: str, seconds: float) -> bool:
        """Take the right to write the next summary, for so many seconds at the most.

        Args:
            thread_id: The thread.
            key: Which of its summaries.
            owner: Who asks; asking again is allowed.
            seconds: After which others may take the right.

        Returns:
            Whether ``owner`` has it now; False: somebody else does.
        """
        ...

    async def save_summary(self, thread_id: str, key: str, summary: Summary, owner: str) -> bool:
        """Put ``summary`` in place of the one before, and give the right to write back.

        Returns:
            False, with nothing saved, if ``owner`` does not have the right any more.
        """
        ...

    async def unlock_summary(self, thread_id: str, key: str, owner: str) -> None:
        """Give the right to write back, if ``owner`` has it."""
        ...
