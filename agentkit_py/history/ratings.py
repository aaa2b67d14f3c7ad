"""Ratings of agents' answers by users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from typing_extensions import Protocol, runtime_checkable  # quicker checks than Python 3.11's

from agentkit_py._core.json import as_object, time_of
from agentkit_py._core.validation import wrong_number
from agentkit_py.errors import ConfigurationError, InvalidRecordError


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """A user's rating of an answer, stored with the thread; an answer has a single rating.

    Raises:
        ConfigurationError: The id of the answer is empty, or the score is out of range.
    """

    thread_id: str
    answer_id: str
    """The id of the agent's result."""

    score: float
    """From 0 (bad) to 1 (good)."""

    rated_at: datetime
    comment: str = ""
    user_id: str | None = None
    """The owner of the thread; stores fill it in."""

    def __post_init__(self) -> None:
        """Check the id and the score."""
        if not self.answer_id:
            raise ConfigurationError("Rating: answer_id is empty; pass the id of a result.")
        if wrong_number(self.score) or self.score > 1:
            raise ConfigurationError(
                f"Rating: the score must be a number from 0 to 1, got {self.score!r:.80}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON (camelCase)."""
        return {
            "answerId": self.answer_id,
            "score": self.score,
            "comment": self.comment,
            "ratedAt": self.rated_at.isoformat(),
        }

    @classmethod
    def from_dict(
        cls, record: object, *, thread_id: str, user_id: str | None = None, where: str
    ) -> Rating:
        """Read the output of `to_dict`.

        Raises:
            InvalidRecordError: The record is damaged.
        """
        fields: Mapping[str, Any] = as_object(record) or {}
        try:
            return cls(
                thread_id=thread_id,
                user_id=user_id,
                answer_id=str(fields["answerId"]),
                score=fields["score"],
                comment=str(fields.get("comment") or ""),
                rated_at=time_of(fields["ratedAt"]),
            )
        except (KeyError, TypeError, ValueError, ConfigurationError) as error:
            text = f"cannot be read: {error!r:.200}"
            raise InvalidRecordError(text, where=where, field="rating") from error


@runtime_checkable
class RatingStore(Protocol):
    """Keeps ratings of answers. They are deleted with their thread."""

    async def save_rating(self, rating: Rating) -> None:
        """Save a rating in place of the answer's earlier rating.

        Raises:
            ThreadNotFoundError: The thread does not exist.
        """
        ...

    async def list_ratings(
        self,
        *,
        thread_id: str | None = None,
        user_id: str | None = None,
        limit: int | None = 50,
    ) -> list[Rating]:
        """Return ratings; the answer that was rated first comes last.

        Args:
            thread_id: Only ratings of this thread; of an unknown thread there are none.
            user_id: Only ratings of this user's threads.
            limit: The most to return; None: all.
        """
        ...
