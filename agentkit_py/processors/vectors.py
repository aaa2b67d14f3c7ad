"""Search in texts by words (BM25) and by meaning (vectors), alone or in one ranking.

A name, a number or a date in a question finds the text that has it; likeness finds what is said in
other words. What stands beside a good text counts a little, since an answer stands beside its
question.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from math import sqrt
from operator import mul
from statistics import median
from typing import Protocol, TypeAlias, runtime_checkable

from agentkit_py.errors import ConfigurationError

Vector: TypeAlias = Sequence[float]


class Embedder(Protocol):
    """Turns texts into vectors that are near each other where the texts mean the same."""

    @property
    def key(self) -> str:
        """Names the model and the length of its vectors: those of another are not compared."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Return one vector for each text, in order."""
        ...


@runtime_checkable
class VectorIndex(Protocol):
    """Stores vectors with threads, and finds the nearest."""

    async def missing_vectors(self, thread_id: str, key: str, ids: Sequence[str]) -> list[str]:
        """Return those of ``ids`` that have no vector, in order."""
        ...

    async def add_vectors(self, thread_id: str, key: str, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by id; ids that are there already stay as they are."""
        ...

    async def nearest_vectors(
        self, thread_id: str, key: str, vector: Vector, ids: Collection[str], k: int
    ) -> list[tuple[str, float]]:
        """Return the ``k`` nearest of ``ids`` with their likeness (1: equal), best first."""
        ...


async def embed_all(embedder: Embedder, texts: Sequence[str]) -> Sequence[Vector]:
    """Return one vector for each text, in order.

    Raises:
        ConfigurationError: The embedder gave another number of vectors.
    """
    vectors = await embedder.embed(texts)
    if len(vectors) != len(texts):
        raise ConfigurationError(
            f"The embedder {embedder.key!r} gave {len(vectors)} vectors for {len(texts)} texts; it "
            "must give one for each."
        )
    return vectors


class MemoryIndex:
    """Vectors in memory, as long as the process lives."""

    def __init__(self) -> None:
        """Begin empty."""
        self._vectors: dict[tuple[str, str], dict[str, array[float]]] = {}

    async def missing_vectors(self, thread_id: str, key: str, ids: Sequence[str]) -> list[str]:
        """Return those of ``ids`` that have no vector, in order."""
        known = self._vectors.get((thread_id, key), {})
        return [one for one in ids if one not in known]

    async def add_vectors(self, thread_id: str, key: str, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by id."""
        known = self._vectors.setdefault((thread_id, key), {})
        for one, vector in vectors.items():
            known.setdefault(one, normalized(vector))

    async def nearest_vectors(
        self, thread_id: str, key: str, vector: Vector, ids: Collection[str], k: int
    ) -> list[tuple[str, float]]:
        """Return the nearest, best first."""
        known = self._vectors.get((thread_id, key), {})
        return nearest(vector, {one: known[one] for one in ids if one in known}, k)

    def of_thread(self, thread_id: str) -> dict[str, dict[str, Vector]]:
        """Return all vectors of a thread, by key and id."""
        return {
            key: dict(known)
            for (thread, key), known in self._vectors.items()
            if thread == thread_id
        }

    def forget(self, thread_id: str) -> None:
        """Remove the vectors of a thread."""
        for found in [key for key in self._vectors if key[0] == thread_id]:
            del self._vectors[found]


_NEAR = 1e-6


def normalized(vector: Vector) -> array[float]:
    """Return the vector at length 1 with 4 bytes per number; a zero vector stays.

    Raises:
        ConfigurationError: It is no list of numbers.
    """
    try:
        numbers = array("f", vector)
    except (TypeError, OverflowError) as error:
        raise ConfigurationError(f"An embedder gave {vector!r:.80}, which is no vector.") from error
    length = sqrt(sum(map(mul, numbers, numbers)))
    # As near to 1 as 4 bytes can be: dividing again would only change last digits.
    if not length or abs(length - 1) < _NEAR:
        return numbers
    return array("f", (n / length for n in numbers))


def nearest(vector: Vector, known: Mapping[str, Vector], k: int) -> list[tuple[str, float]]:
    """Return the ``k`` vectors of ``known`` (at length 1) nearest to ``vector``, best first.

    Raises:
        ConfigurationError: The vectors are of different lengths.
    """
    sought = normalized(vector)
    for one, other in known.items():
        if len(other) != len(sought):
            raise ConfigurationError(
                f"Vectors of {len(sought)} and {len(other)} numbers ({one!r}) cannot be compared; "
                "give each embedding model its own key."
            )
    scored = ((one, sum(map(mul, sought, other))) for one, other in known.items())
    return nlargest(k, scored, key=lambda pair: (pair[1], pair[0]))


MAX_WORD = 256
"""Letters of a word that are searched for and kept; the rest of a longer one is cut off."""

COMMON_WORDS = (
    "a an and are as at be but by can could do does for from had has have how i if in into is it "
    "its me my no not of on or our should so that the their them then there these they this to "
    "was we were what when where which who why will with would you your"
)
"""Words of nearly every English text: they cost time and distinguish nothing."""

_COMMON = frozenset(COMMON_WORDS.split())
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2,}")
"""Runs of scripts that write no spaces between words."""

_TIMELY = 1.0
"""The weight of a text of the time that is asked for: as much as all else together."""

_ENDINGS = ("ing", "edly", "ed", "es", "s", "ly")
_SHORTEST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Weights of a ranking; ``scripts/recall_quality.py`` says how their defaults were chosen."""

    words: float = 0.7
    """The share of words, beside meaning."""

    beside: float = 0.2
    """How much a good text counts for the one before and the one after it."""

    length: float = 0.4
    """The loss of longer texts, from 0 to 1 (BM25's b)."""

    saturation: float = 1.2
    """The weight of a word that comes again (BM25's k1)."""


_WEIGHTS = Weights()


def terms(text: str) -> list[str]:
    """Return the words of a text that are looked for: casefolded, without English endings.

    Scripts without spaces between words are looked for by pairs of letters.
    """
    found: list[str] = []
    for word in _WORD.findall(text.casefold()):
        if _UNSPACED.fullmatch(word):
            found += [word[i : i + 2] for i in range(len(word) - 1)]
        elif word not in _COMMON:
            found.append(_stem(word[:MAX_WORD]))
    return found


def _stem(word: str) -> str:
    if not word.isascii() or not word.isalpha():
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            word = word[: -len(ending)]
            if len(word) > _SHORTEST and word[-1] == word[-2] and word[-1] not in "aeiousl":
                word = word[:-1]
            break
    if len(word) > _SHORTEST and word[-1] in "ey":
        word = word[:-1] + ("i" if word[-1] == "y" else "")
    return word


def by_words(query: str, texts: Sequence[str], weights: Weights = _WEIGHTS) -> list[float]:
    """Return BM25's score of each text for a query."""
    most, length_counts = weights.saturation, weights.length
    sought = set(terms(query))
    counts = [Counter(terms(text)) for text in texts]
    lengths = [count.total() for count in counts]
    usual = sum(lengths) / max(len(lengths), 1) or 1
    having = {word: sum(word in count for count in counts) for word in sorted(sought)}
    rarity = {
        word: math.log(1 + (len(texts) - have + 0.5) / (have + 0.5))
        for word, have in having.items()
        if have
    }
    return [
        sum(
            weight
            * count[word]
            * (most + 1)
            / (count[word] + most * (1 - length_counts + length_counts * length / usual))
            for word, weight in rarity.items()
            if count[word]
        )
        for count, length in zip(counts, lengths, strict=True)
    ]


def ranked(
    query: str,
    texts: Sequence[str],
    likeness: Mapping[int, float],
    timely: Collection[int] = (),
    weights: Weights = _WEIGHTS,
) -> list[int]:
    """Return the indices of texts in their order, best first.

    Args:
        query: The question.
        texts: Texts in the order in which they were said.
        likeness: Likeness to the question by index; of those that are not there nothing is known.
        timely: Indices of texts of a time that the question names.
        weights: What counts how much.
    """
    worded = _scaled(by_words(query, texts, weights))
    background = median(likeness.values()) if likeness else 0.0
    near = _scaled([max(likeness.get(i, background) - background, 0) for i in range(len(texts))])
    share = weights.words if any(worded) and any(near) else float(any(worded))
    own = [share * w + (1 - share) * n for w, n in zip(worded, near, strict=True)]
    before, after = [0.0, *own[:-1]], [*own[1:], 0.0]
    scores = [a + weights.beside * (b + c) for a, b, c in zip(own, before, after, strict=True)]
    scores = [score + _TIMELY * (index in timely) for index, score in enumerate(scores)]
    order = sorted(range(len(texts)), key=lambda index: (-scores[index], index))
    return [index for index in order if scores[index] > 0 or index in likeness]


def _scaled(scores: Sequence[float]) -> list[float]:
    most = max(scores, default=0.0)
    return [score / most for score in scores] if most > 0 else [0.0] * len(scores)
