"""The words of a query or text, as both databases are given them. Pure functions."""

from __future__ import annotations

import math
import re

_WORD = re.compile(r"[^\W_]+")
_JOINED = re.compile(r"[^\W_]+(?:[-_./:#][^\W_]+)*")
"""Matches every word, so that no text makes it go back and read a word again."""
_DIGIT = re.compile(r"\d")
MAX_WORDS = 32
"""Words of a query that are searched for."""

MAX_WORD = 256
"""Letters of a word that are searched for and kept; the rest of a longer one is cut off."""

_LONGEST = 64
_NUMBER = 5
_CODE = 4

# Words that are in nearly every text: they cost time and say nothing.
_EMPTY = (
    "a an and are as at be but by can could do does for from had has have how i if in into is it "
    "its me my no not of on or our should so that the their them then there these they this to "
    "was we were what when where which who why will with would you your"
)

_IGNORED = frozenset(_EMPTY.split())


def words(text: str) -> list[str]:
    """Every word, without case.

    What looks like an identifier is its parts and the whole: ``ERR-4012`` is ``err``, ``4012`` and
    ``err4012``. The parts stand in many texts, the whole in few.
    """
    plain = text.casefold()
    parts = _WORD.findall(plain)
    wholes = ["".join(_WORD.findall(one)) for one in _JOINED.findall(plain) if not one.isalnum()]
    return [
        *(one[:MAX_WORD] for one in parts),
        *(one for one in wholes if len(one) <= _LONGEST and _DIGIT.search(one)),
    ]


def telling(query: str) -> list[str]:
    """The words of a query that say something, each once; all, if none does."""
    found = list(dict.fromkeys(words(query)))
    return ([word for word in found if word not in _IGNORED] or found)[:MAX_WORDS]


def identifiers(query: str) -> set[str]:
    """Those of its words that name one thing: ``err4012``, ``tx200``, ``78123``; not ``2024``."""
    return {
        word
        for word in words(query)
        if _DIGIT.search(word) and len(word) >= (_NUMBER if word.isdigit() else _CODE)
    }


def rarity(total: int, have: int) -> float:
    """How much a word says that ``have`` of ``total`` pieces have: the weight of BM25."""
    return max(math.log((total - have + 0.5) / (have + 0.5)), 1e-6)
