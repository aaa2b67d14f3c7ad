"""Hybrid search in texts: words by BM25 and meaning by vectors, in one ranking. Pure functions.

A name, a number or a date in a question finds the text that has it; likeness finds what is said in
other words. What stands beside a good text counts a little, since an answer stands beside its
question.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from statistics import median

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
_SATURATION, _LENGTH = 1.2, 0.4
_WORDS = 0.7
_BESIDE = 0.2
"""The weights. Chosen on conversations 26, 30, 41, 42 and 43 of LoCoMo, leaving one out in turn."""


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


def by_words(query: str, texts: Sequence[str]) -> list[float]:
    """Return BM25's score of each text for a query."""
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
            * (_SATURATION + 1)
            / (count[word] + _SATURATION * (1 - _LENGTH + _LENGTH * length / usual))
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
) -> list[int]:
    """Return the indices of texts in their order, best first.

    Args:
        query: The question.
        texts: Texts in the order in which they were said.
        likeness: Likeness to the question by index; of those that are not there nothing is known.
        timely: Indices of texts of a time that the question names.
    """
    worded = _scaled(by_words(query, texts))
    background = median(likeness.values()) if likeness else 0.0
    near = _scaled([max(likeness.get(i, background) - background, 0) for i in range(len(texts))])
    share = _WORDS if any(worded) and any(near) else float(any(worded))
    own = [share * w + (1 - share) * n for w, n in zip(worded, near, strict=True)]
    before, after = [0.0, *own[:-1]], [*own[1:], 0.0]
    scores = [a + _BESIDE * (b + c) for a, b, c in zip(own, before, after, strict=True)]
    scores = [score + _TIMELY * (index in timely) for index, score in enumerate(scores)]
    order = sorted(range(len(texts)), key=lambda index: (-scores[index], index))
    return [index for index in order if scores[index] > 0 or index in likeness]


def _scaled(scores: Sequence[float]) -> list[float]:
    most = max(scores, default=0.0)
    return [score / most for score in scores] if most > 0 else [0.0] * len(scores)
