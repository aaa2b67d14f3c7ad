"""Words of messages, and searches for them. Pure functions.

A search is decided here, by the text of a message, in every store. Databases that have an index of
words ask it first, so that only a few messages are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

_MAX_WORD = 64
_MAX_BYTES = 400_000
"""All words of a result; PostgreSQL keeps a megabyte."""

_MIN_BEGINNING = 3
"""Shorter beginnings of words are not looked up where the search has other words."""

_MARK = "§"
"""Begins marks, which are not words: of the user, and of a result with too many words."""

# Scripts without spaces (Thai, Khmer, Burmese, Japanese, Chinese): each character is a word.
_ALONE = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
_PIECE = re.compile(r'"([^"]+)"|(\S+)')


@cache  # slow to make, and many programs do not search
def _letter() -> re.Pattern[str]:
    return re.compile(f"[^\\W_{_ALONE}]")


@cache
def _word() -> re.Pattern[str]:
    return re.compile(f"[{_ALONE}]|[^\\W_{_ALONE}]+")


@dataclass(frozen=True, slots=True)
class WordSearch:
    """A search for messages that contain every piece, ignoring case.

    Each piece begins where a word of the message begins, and may end within one: ``ref`` finds
    "refunds", ``fund`` does not.
    """

    pieces: tuple[str, ...]

    @classmethod
    def parse(cls, words: str) -> WordSearch:
        """Return the search: pieces between spaces, or in double quotes."""
        found = [quoted or plain for quoted, plain in _PIECE.findall(words.lower())]
        return cls(tuple(dict.fromkeys(found)))

    def find(self, text: str) -> int | None:
        """Return the place of the first piece in a text that contains all; None: it does not."""
        lowered = text.lower()
        places = [_place(lowered, piece) for piece in self.pieces]
        return None if -1 in places else min(places[:1], default=0)

    def terms(self) -> list[tuple[str, bool]]:
        """Return words that a message must have, each with whether its beginning is enough."""
        found: dict[tuple[str, bool], None] = {}
        for piece in self.pieces:
            places = list(_word().finditer(piece))
            for one in places:
                is_open = one.end() == len(piece) and _letter().match(one[0]) is not None
                found[one[0][:_MAX_WORD], is_open] = None
        long = [one for one in found if not one[1] or len(one[0]) >= _MIN_BEGINNING]
        return long or list(found)

    def plain_part(self) -> str:
        """Return letters, digits and spaces that the JSON of a matching message contains."""
        runs = [run for piece in self.pieces for run in re.findall("[a-z0-9 ]+", piece)]
        return max(runs, key=len, default="")


def _place(text: str, piece: str) -> int:
    """Return the place of a piece in a text, at the beginning of a word; -1: not found."""
    place = text.find(piece)
    while place > 0 and _letter().match(text[place]) and _letter().match(text[place - 1]):
        word = _word().match(text, place)
        place = text.find(piece, place + 1 if word is None else word.end())
    return place


def index_entry(texts: Iterable[str], user_id: str | None) -> str:
    """Return a result's entries of an index: its words, each once, and a mark of the user.

    Too many words are a single mark, by which every search finds the result.
    """
    found: dict[str, None] = {}
    size = 0
    for text in texts:
        for one in _word().finditer(text.lower()):
            word = one[0][:_MAX_WORD]
            if word not in found:
                found[word] = None
                size += len(word.encode())
                if size > _MAX_BYTES:
                    return " ".join([_MARK, *_marks(user_id)])
    return " ".join([*found, *_marks(user_id)])


def index_query(
    terms: Sequence[tuple[str, bool]], user_id: str | None, *, quote: str, also: str, either: str
) -> str:
    """Return a query of the index, in the database's language.

    Args:
        terms: From `WordSearch.terms`.
        user_id: Only results of this user.
        quote: A word with ``@`` for it; a prefix has a ``*`` after it.
        also: The operator "and".
        either: The operator "or".
    """

    def quoted(word: str) -> str:
        return quote.replace("@", word)

    words = also.join(f"{quoted(word)}{'*' if is_open else ''}" for word, is_open in terms)
    return also.join([f"(({words}){either}{quoted(_MARK)})", *map(quoted, _marks(user_id))])


def _marks(user_id: str | None) -> list[str]:
    if user_id is None:
        return []
    return [_MARK + blake2b(user_id.encode(errors="surrogatepass"), digest_size=8).hexdigest()]
