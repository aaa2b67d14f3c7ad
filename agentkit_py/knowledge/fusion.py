"""Two rankings in one. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentkit_py.knowledge.documents import Hit

_SMOOTH = 60
"""The constant of reciprocal rank fusion: how little it matters to be first rather than second."""

_NOISE = 0.3
"""Of the best score by words, that part says that a piece shares a common word, no more."""

_ALIKE = 0.1
"""Scores by words that differ by less than that part are the same: they tell lengths apart."""


def fused(near: Sequence[Hit], worded: Sequence[Hit]) -> list[Hit]:
    """Reciprocal rank fusion of what was found by meaning and by words.

    What has the same score has the same rank. By words, what scores next to nothing is left out:
    reciprocal ranks do not see how good a place is, so that noise would weigh as much as a hit.

    Returns:
        All pieces, best first; 1 is the score of what both put first.
    """
    scores: dict[tuple[str, int], float] = {}
    hits: dict[tuple[str, int], Hit] = {}
    for ranking, alike in ((near, 0.0), (_without_noise(worded), _ALIKE)):
        for rank, one in zip(_ranks(ranking, alike), ranking, strict=True):
            key = (one.document, one.position)
            hits.setdefault(key, one)
            scores[key] = scores.get(key, 0.0) + 1 / (_SMOOTH + rank)
    best = 2 / (_SMOOTH + 1)
    ordered = sorted(hits, key=lambda key: (-scores[key], key))
    return [replace(hits[key], score=scores[key] / best) for key in ordered]


def _without_noise(worded: Sequence[Hit]) -> Sequence[Hit]:
    return [one for one in worded if one.score >= worded[0].score * _NOISE]


def _ranks(ranking: Sequence[Hit], alike: float) -> list[int]:
    """The place of each hit, from 1; those that are alike have the first one's."""
    found: list[int] = []
    leader = 0.0
    for place, one in enumerate(ranking, start=1):
        if found and one.score >= leader * (1 - alike):
            found.append(found[-1])
        else:
            found.append(place)
            leader = one.score
    return found
