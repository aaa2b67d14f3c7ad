"""The words of a query or text, as both databases are given them. Pure functions."""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+")
_MOST = 32

# Words that are in nearly every text: they cost time and say nothing.
_EMPTY = (
    "a an and are as at be but by can could do does for from had has have how i if in into is it "
    "its me my no not of on or our should so that the their them then there these they this to "
    "was we were what when where which who why will with would you your"
)

_IGNORED = frozenset(_EMPTY.split())


def words(text: str) -> list[str]:
    """Every word, without case; ``ERR-4012`` is two of them."""
    return _WORD.findall(text.casefold())


def telling(query: str) -> list[str]:
    """The words of a query that say something, each once; all, if none does."""
    found = list(dict.fromkeys(words(query)))
    return ([word for word in found if word not in _IGNORED] or found)[:_MOST]
