"""The words of queries and texts, and two rankings joined into one. Pure functions.

Not by reciprocal ranks: a rank does not say whether the best chunk by words has every word of the
query or one that is everywhere, nor whether the best by meaning is nearer than any other text. On
the questions of docs/retrieval.md that lost to one of the two alone in each class.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from agentkit_py.knowledge.documents import Hit
from agentkit_py.processors.vectors import COMMON_WORDS, MAX_WORD

MAX_WORDS = 32
"""Words of a query that are searched for."""

_MAX_JOINED = 64
_WORD = re.compile(r"[^\W_]+")
_JOINED = re.compile(r"[^\W_]+(?:[-_./:#][^\W_]+)*")
"""Matches every word, joined or not: matching joined ones only takes quadratic time."""

_DIGIT = re.compile(r"\d")
_MIN_NUMBER = 5
_MIN_CODE = 4

_COMMON = frozenset(COMMON_WORDS.split())

_MEANING = 0.2
_WORDS = 0.8
_IDENTIFIERS = 0.5
"""The weight of each. Chosen, as the other numbers here, on the tuning half of the questions in
tests/knowledge/retrieval_corpus.py."""

_HALF = 0.5
_FEW = 2
"""Half of what the query's words say, or two of them, a chunk may have by chance;"""

_MANY = 3
"""three it does not, however long the query is."""


def words(text: str) -> list[str]:
    """Return every word, casefolded.

    What looks like an identifier is its parts and the whole: ``ERR-4012`` is ``err``, ``4012`` and
    ``err4012``. The parts stand in many texts, the whole in few.
    """
    plain = text.casefold()
    joined = ["".join(_WORD.findall(one)) for one in _JOINED.findall(plain) if not one.isalnum()]
    return [
        *(one[:MAX_WORD] for one in _WORD.findall(plain)),
        *(one for one in joined if len(one) <= _MAX_JOINED and _DIGIT.search(one)),
    ]


def telling(query: str) -> list[str]:
    """Return the words of a query that are not common, each once; all, if all are."""
    found = list(dict.fromkeys(words(query)))
    return ([word for word in found if word not in _COMMON] or found)[:MAX_WORDS]


def identifiers(query: str) -> set[str]:
    """Return the words that name one thing: ``err4012``, ``tx200``, ``78123``; not ``2024``."""
    return {
        word
        for word in words(query)
        if _DIGIT.search(word) and len(word) >= (_MIN_NUMBER if word.isdigit() else _MIN_CODE)
    }


def rarity(total: int, have: int) -> float:
    """Return BM25's weight of a word that ``have`` of ``total`` chunks have."""
    return max(math.log((total - have + 0.5) / (have + 0.5)), 1e-6)


def fused(query: str, near: Sequence[Hit], worded: Sequence[Hit]) -> list[Hit]:
    """Return the chunks found by meaning and by words in one ranking.

    Meaning counts as far as a chunk is nearer than the last of the list. Words count as far as the
    best chunk has more than half of them, or more than a few: else the query is said otherwise in
    the documents, and what has its words has them by chance. Identifiers of the query
    (``ERR-4012``) count by how many of them a chunk has.

    Args:
        query: The query.
        near: By likeness, best first.
        worded: By the share of what the query's words say, best first.

    Returns:
        All chunks, best first, with scores up to 1.
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
    """Return from 0 to 1 how far the documents use the words of the query."""
    if not worded or worded[0].score <= 0:
        return 0.0
    share = min(worded[0].score, 1.0)
    several = _between(share * len(telling(query)), _FEW, _MANY)
    return max(_between(share, _HALF, 1), several)


def _between(value: float, low: float, high: float) -> float:
    """Return the share of the way from ``low`` to ``high``."""
    return min(1.0, max(0.0, (value - low) / (high - low))) if low < high else 1.0


def _key(hit: Hit) -> tuple[str, int]:
    return hit.document, hit.position
