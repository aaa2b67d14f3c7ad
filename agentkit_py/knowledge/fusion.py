"""Two rankings in one. Pure functions.

Not by reciprocal ranks: a rank does not say whether the best piece by words has every word of the
query or one that is everywhere, nor whether the best by meaning is nearer than any other text. On
the questions of docs/retrieval.md that lost to one of the two alone in each class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentkit_py.knowledge.documents import Hit
from agentkit_py.knowledge.words import identifiers, telling, words

_MEANING = 0.3
_WORDS = 0.7
_IDENTIFIERS = 0.5
"""How much each counts. Chosen with `_HALF` on the tuning half of the questions in
tests/knowledge/retrieval_corpus.py."""

_HALF = 0.5
_FEW = 2
"""A piece that has half of what the query's words say, or two of them, may have them by chance;"""

_ENOUGH = 4
"""one that has four does not, however long the query is."""


def fused(query: str, near: Sequence[Hit], worded: Sequence[Hit]) -> list[Hit]:
    """What was found by meaning and by words, in one ranking.

    Meaning counts as far as a piece is nearer than the last of the list, words as far as it has
    more than half of them or more than a few, and identifiers of the query (``ERR-4012``) by how
    many of them it has.

    Args:
        query: What was asked.
        near: By likeness, best first.
        worded: By the share of what the query's words say, best first.

    Returns:
        All pieces, best first, with scores up to about 1.
    """
    hits = {_key(one): one for one in (*near, *worded)}
    scores = dict.fromkeys(hits, 0.0)
    background = near[-1].score if near else 0.0
    for one in near:
        scores[_key(one)] += _MEANING * _above(one.score, background)
    count = len(telling(query))
    for one in worded:
        share = min(one.score, 1.0)
        several = min(1.0, max(0.0, (share * count - _FEW) / (_ENOUGH - _FEW)))
        scores[_key(one)] += _WORDS * max(_above(share, _HALF), several)
    named = identifiers(query)
    whole = _MEANING + _WORDS + (_IDENTIFIERS if named else 0)
    if named:
        for key, one in hits.items():
            share = len(named.intersection(words(one.text))) / len(named)
            scores[key] += _IDENTIFIERS * share
    ordered = sorted(hits, key=lambda key: (-scores[key], key))
    return [replace(hits[key], score=scores[key] / whole) for key in ordered]


def _key(hit: Hit) -> tuple[str, int]:
    return hit.document, hit.position


def _above(score: float, floor: float) -> float:
    """The share of the way from ``floor`` to 1."""
    return max(0.0, (score - floor) / (1 - floor)) if floor < 1 else 1.0
