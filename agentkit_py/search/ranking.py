"""One ranking by words (BM25) and by meaning (likeness of vectors).

A name, a number or a date in a question finds the text that has it; likeness finds the same in
other words. Not by reciprocal ranks: a rank does not say whether the best text by words has every
word of the question or a common word, nor whether the best by meaning is nearer than any
other. On the questions of docs/retrieval.md that lost to words or meaning alone in each class.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from agentkit_py.search.words import identifiers, sought, terms, words

_HALF = 0.5
_FEW = 2
"""A text may have half of the query's words, or two of them, by chance."""

_MANY = 3
"""A text that has three of the query's words does not have them by chance."""

_LONELY = 2
"""The number of vectors up to which their median says nothing."""

_PIECE = re.compile(r"[^\n}]{1,400}[\n},]*")
"""A piece of a text: a line, a record of JSON, or 400 characters of either."""

_GAP = " … "

_TIMELY = 1.0
"""The weight of a text of the time that is asked for: as much as all else together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Weights of a ranking's parts; `TURNS`, `FACTS` and `DOCUMENTS` are chosen ones."""

    words: float
    """The share of words; meaning has the rest."""

    beside: float = 0.0
    """The share of a text's score that the texts before and after it get as well."""

    doubt: float = 0.0
    """The share that words lose where no text has half of the query's words, or three of them."""

    identifiers: float = 0.5
    """The weight of having the query's identifiers (``ERR-4012``)."""

    length: float = 0.4
    """The loss of longer texts, from 0 to 1 (BM25's b)."""

    saturation: float = 1.2
    """The weight of a word that comes again (BM25's k1)."""


TURNS = Weights(words=0.7, beside=0.5)
"""For turns of a conversation: people stay with a subject for some turns, and do not repeat its
words in each. Chosen by ``scripts/recall_quality.py``."""

FACTS = Weights(words=0.7)
"""For independent sentences."""

DOCUMENTS = Weights(words=0.9, doubt=1.0)
"""For pieces of documents: where they do not use the words of a query, a match is
by chance. Chosen on the tuning half of the questions in tests/knowledge."""


COMMON = 1e-6
"""The weight of a word that every second text has, or more."""


def rarity(total: int, have: int) -> float:
    """Return BM25's weight of a word that ``have`` of ``total`` texts have."""
    return max(math.log((total - have + 0.5) / (have + 0.5)), COMMON)


def by_words(query: str, texts: Sequence[str], weights: Weights = TURNS) -> list[float]:
    """Return each text's share of the query's words, weighted by BM25; about 1: all."""
    told = [terms(text) for text in texts]
    asked = sought(query, {language for language, _ in told})
    counts = [Counter(stems) for _, stems in told]
    lengths = [max(count.total(), 1) for count in counts]
    usual = sum(lengths) / max(len(lengths), 1)
    found = [[sum(count[stem] for stem in word) for count in counts] for word in asked]
    weight = [rarity(len(texts), len(texts) - times.count(0)) for times in found]
    most, loss = weights.saturation, weights.length
    damping = [most * (1 - loss + loss * length / usual) for length in lengths]
    scores = [0.0] * len(texts)
    for rare, times in zip(weight, found, strict=True):
        for place, count in enumerate(times):
            if count:
                scores[place] += rare * count * (most + 1) / (count + damping[place])
    return [score / (sum(weight) or 1) for score in scores]


def ranked(
    query: str,
    texts: Sequence[str],
    likeness: Mapping[int, float],
    timely: Collection[int] = (),
    *,
    weights: Weights = TURNS,
    shares: Sequence[float] | None = None,
) -> list[tuple[int, float]]:
    """Return the indices of texts with scores up to 1, best first.

    Args:
        query: The question.
        texts: Texts; in their order in the conversation, if neighbours count.
        likeness: Likeness to the question by index; of those that are not there nothing is known.
        timely: Indices of texts of a time that the question names.
        weights: Weights of words, meaning, neighbours and identifiers.
        shares: Each text's share of the query's words, where an index has it; see `by_words`.
    """
    if shares is None:
        shares = by_words(query, texts, weights)
    background = median(likeness.values()) if len(likeness) > _LONELY else 0.0
    near = _scaled([max(likeness.get(i, background) - background, 0) for i in range(len(texts))])
    worded = _scaled(shares)
    trust = 1 - weights.doubt * (1 - _trust(query, max(shares, default=0.0)))
    share = weights.words * trust if any(worded) else 0.0
    rest = 1 - weights.words if any(near) else 0.0
    named = identifiers(query)
    own = [share * w + rest * n for w, n in zip(worded, near, strict=True)]
    if named:
        having = (len(named.intersection(words(text))) / len(named) for text in texts)
        own = [score + weights.identifiers * one for score, one in zip(own, having, strict=True)]
    before, after = [0.0, *own][:-1], [*own, 0.0][1:]
    scores = [a + weights.beside * (b + c) for a, b, c in zip(own, before, after, strict=True)]
    scores = [score + _TIMELY * (index in timely) for index, score in enumerate(scores)]
    # Only parts that count in this query, so that 1 can be reached.
    whole = share + rest + (weights.identifiers if named else 0) + _TIMELY * bool(timely)
    whole *= 1 + 2 * weights.beside
    order = sorted(range(len(texts)), key=lambda i: (-scores[i], -likeness.get(i, -1.0), i))
    return [(i, scores[i] / (whole or 1)) for i in order if scores[i] > 0 or i in likeness]


def passages(query: str, text: str, most_chars: int) -> str:
    """Return the parts of a text that a query is about: the pieces with most of its words.

    A short text is returned as it is; of a text without the words nothing is left.
    """
    if len(text) <= most_chars:
        return text
    pieces = [one for one in _PIECE.findall(text) if one.strip()]
    shares = by_words(query, pieces, FACTS)
    least = _HALF * max(shares, default=0.0)
    left, taken = most_chars, set[int]()
    for place in sorted(range(len(pieces)), key=lambda place: (-shares[place], place)):
        size = len(pieces[place]) + len(_GAP)
        if shares[place] > 0 and shares[place] >= least and size <= left:
            taken.add(place)
            left -= size
    gaps = (_GAP if place - 1 not in taken else "" for place in sorted(taken))
    return "".join(gap + pieces[place] for place, gap in zip(sorted(taken), gaps, strict=True))


def _trust(query: str, best: float) -> float:
    """Return from 0 to 1 how far the texts use the words of the query."""
    share = min(best, 1.0)
    several = _between(share * len(sought(query, ())), _FEW, _MANY)
    return max(_between(share, _HALF, 1), several)


def _between(value: float, low: float, high: float) -> float:
    """Return the share of the way from ``low`` to ``high``."""
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _scaled(scores: Sequence[float]) -> list[float]:
    most = max(scores, default=0.0)
    return [score / most for score in scores] if most > 0 else [0.0] * len(scores)
