"""Two rankings in one. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentkit_py.knowledge.documents import Hit

_WORDS = 0.5
"""How much the words count; the rest is the meaning. See docs/retrieval.md for how it was chosen."""


def fused(near: Sequence[Hit], worded: Sequence[Hit], most: int) -> list[Hit]:
    """What was found by meaning and by words, in one ranking.

    Not by ranks: these do not see that the best hit by words has every word of the query, or only
    that the best by meaning is no nearer than anything else. Both scores are taken as the share of the way from what any
    piece has to what the perfect one has.

    Args:
        near: By likeness, best first.
        worded: By the share of the query's telling words, best first.
        most: How many pieces each of them was asked for.

    Returns:
        All pieces, best first; 1 is the score of a piece that is the query.
    """
    scores: dict[tuple[str, int], float] = {}
    hits: dict[tuple[str, int], Hit] = {}
    known = near[-1].score if near else 0.0
    common = worded[-1].score if len(worded) >= most else 0.0
    for ranking, floor, weight in ((near, known, 1 - _WORDS), (worded, common, _WORDS)):
        for one in ranking:
            key = (one.document, one.position)
            hits.setdefault(key, one)
            scores[key] = scores.get(key, 0.0) + weight * _above(one.score, floor)
    ordered = sorted(hits, key=lambda key: (-scores[key], key))
    return [replace(hits[key], score=scores[key]) for key in ordered]


def _above(score: float, floor: float) -> float:
    return (score - floor) / (1 - floor) if floor < 1 else 1.0
