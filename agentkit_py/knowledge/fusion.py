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

_MEANING = 0.2
_WORDS = 0.8
_IDENTIFIERS = 0.5
"""How much each counts. Chosen, as the other numbers here, on the tuning half of the questions in
tests/knowledge/retrieval_corpus.py."""

_HALF = 0.5
_FEW = 2
"""Half of what the query's words say, or two of them, a piece may have by chance;"""

_MANY = 3
"""three it does not, however long the query is."""


def fused(query: str, near: Sequence[Hit], worded: Sequence[Hit]) -> list[Hit]:
    """What was found by meaning and by words, in one ranking.

    Meaning counts as far as a piece is nearer than the last of the list. Words count as far as the
    best piece has more than half of them, or more than a few: else the query is said otherwise in
    the documents, and what has its words has them by chance. Identifiers of the query
    (``ERR-4012``) count by how many of them a piece has.

    Args:
        query: What was asked.
        near: By likeness, best first.
        worded: By the share of what the query's words say, best first.

    Returns:
        All pieces, best first, with scores up to 1.
    """
    hits = {_key(one): one for one in (*near, *worded)}
    scores = dict.fromkeys(hits, 0.0)
    background = near[-1].score if near else 0.0
    for one in near:
        scores[_key(one)] += _MEANING * _between(one.score, background, 1)
    trust = _trust(query, worded)
    for one in worded:
        scores[_key(one)] += _WORDS * trust * one.score / worded[0].score
    named = identifiers(query)
    if named:
        for key, one in hits.items():
            share = len(named.intersection(words(one.text))) / len(named)
            scores[key] += _IDENTIFIERS * share
    # Of what counts in this query, so that 1 can be reached whatever it is.
    whole = _MEANING + _WORDS * trust + (_IDENTIFIERS if named else 0)
    ordered = sorted(hits, key=lambda key: (-scores[key], key))
    return [replace(hits[key], score=scores[key] / whole) for key in ordered]


def _trust(query: str, worded: Sequence[Hit]) -> float:
    """From 0 to 1: whether the query is in the words of the documents."""
    if not worded or worded[0].score <= 0:
        return 0.0
    share = min(worded[0].score, 1.0)
    several = _between(share * len(telling(query)), _FEW, _MANY)
    return max(_between(share, _HALF, 1), several)


def _between(value: float, low: float, high: float) -> float:
    """The share of the way from ``low`` to ``high``."""
    return min(1.0, max(0.0, (value - low) / (high - low))) if low < high else 1.0


def _key(hit: Hit) -> tuple[str, int]:
    return hit.document, hit.position
