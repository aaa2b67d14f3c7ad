"""Ratings of answers; that every store keeps them is in the conformance suite."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agentkit_py.errors import ConfigurationError, InvalidRecordError
from agentkit_py.history import Rating
from agentkit_py.stores import HistoryStore, redacted

NOW = datetime(2026, 11, 28, 12, 30, tzinfo=UTC)


def rating(score: float = 1, **options: Any) -> Rating:
    """Return a rating of a thread's first answer."""
    return Rating(thread_id="t", answer_id="a1", score=score, rated_at=NOW, **options)


@pytest.mark.parametrize("score", [-0.1, 1.5, float("nan"), "good", True])
def test_a_score_out_of_range_is_refused(score: Any) -> None:
    """The error names it."""
    with pytest.raises(ConfigurationError, match=f"from 0 to 1, got {score!r}"):
        rating(score)


def test_a_rating_names_its_answer() -> None:
    """Without an id it would be found by nobody."""
    with pytest.raises(ConfigurationError, match="answer_id is empty"):
        Rating(thread_id="t", answer_id="", score=1, rated_at=NOW)


@pytest.mark.parametrize("damage", [{"score": "x"}, {"ratedAt": "soon"}, {"answerId": ""}])
def test_a_damaged_rating_is_an_error_with_its_place(damage: dict[str, Any]) -> None:
    """An export may have been changed by hand."""
    with pytest.raises(InvalidRecordError, match="line 3"):
        Rating.from_dict({**rating().to_dict(), **damage}, thread_id="t", where="line 3")


async def test_a_masked_store_masks_the_comment_and_nothing_else(store: HistoryStore) -> None:
    """Even if the masked text is in every number and every time."""
    wrapped: Any = redacted(store, {"number": r"\d"})
    await wrapped.add_thread("t", user_id="ada")
    await wrapped.save_rating(rating(0.5, comment="Call 7"))
    (found,) = await wrapped.list_ratings()
    assert found == rating(0.5, comment="Call [number]", user_id="ada")
