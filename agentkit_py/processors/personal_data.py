"""Personal data in text: its forms, also those written so that they are not found.

Everything here takes time linear in the text.
"""

from __future__ import annotations

import functools
import ipaddress
import re
import string
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]
Finder: TypeAlias = Callable[[str], Iterator[Span]]
"""Yields starts and ends of the matches in a plain text, in order."""

_BYTE = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_DOT = r"(?: ?\[ ?\. ?\] ?| ?\( ?\. ?\) ?| ?[\[({] ?dot ?[\])}] ?| dot | \. |\.)"
"""A dot, perhaps disguised."""

_GAP = r"(?: - | ?\. ?|[ -])"
"""Characters that may be between the groups of a number."""

_RUN_ENDS = r"(?=\d{1,23}+(?!\w|-(?![\d(])))"
"""Refuses digits that run into a word or a dash, before all ways of grouping them are tried."""


def _plainly(pattern: str, check: Callable[[str], bool] | None = None, flags: int = 0) -> Finder:
    """Return the finder of a pattern's matches, of those that pass a check."""
    compiled = re.compile(pattern, flags)

    def find(text: str) -> Iterator[Span]:
        for match in compiled.finditer(text):
            if check is None or check(match[0]):
                yield match.span()

    return find


def _runs(pattern: str, needed: str, flags: int = 0) -> Finder:
    """Return the finder of a pattern that takes runs whole, so that none is read twice.

    Only matches that have the pattern's first group count.
    """
    compiled = re.compile(pattern, flags)
    need = re.compile(needed, flags)

    def find(text: str) -> Iterator[Span]:
        if need.search(text) is not None:
            yield from (match.span() for match in compiled.finditer(text) if match[1])

    return find


def luhn(digits: str) -> bool:
    """Return whether the number has the check digit that payment cards have (ISO/IEC 7812)."""
    total = 0
    for place, digit in enumerate(reversed([int(d) for d in digits if d.isdigit()])):
        doubled = digit * 2 if place % 2 else digit
        total += doubled // 10 + doubled % 10
    return total % 10 == 0


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text.partition("%")[0])
    except ValueError:
        return False
    return any(c.isdigit() for c in text)  # no name of a program's, like Bad::Face


_IBAN = re.compile(
    rf"(?<![A-Za-z0-9])[A-Za-z](?:{_GAP})?[A-Za-z](?:(?:{_GAP})?\d){{2}}(?:(?:{_GAP})?[A-Za-z0-9]){{11,30}}"
)
_SHORTEST_IBAN = 15


def _ibans(text: str) -> Iterator[Span]:
    """Find account numbers in any case and grouping, by their check digits (ISO 7064)."""
    start = 0
    while (match := _IBAN.search(text, start)) is not None:
        end = _end_of_iban(text, match)
        if end is not None:
            yield match.start(), end
        start = end or match.start() + 1


def _end_of_iban(text: str, match: re.Match[str]) -> int | None:
    """Return the end of the longest prefix with right check digits that ends with a group."""
    groups = [group.span() for group in _GROUP.finditer(text, *match.span())]
    number = "".join(text[start:stop] for start, stop in groups)
    length = len(number)
    start, stop = groups.pop()
    if stop < len(text) and text[stop].isalnum():  # cut off in the middle of a word
        length -= stop - start
        start, stop = groups.pop() if groups else (0, 0)
    while length >= _SHORTEST_IBAN:
        if int((number[4:length] + number[:4]).translate(_VALUES)) % 97 == 1:
            return stop
        length -= stop - start
        start, stop = groups.pop()
    return None


_GROUP = re.compile(r"[A-Za-z0-9]+")
_VALUES = {ord(c): str(int(c, 36)) for c in string.ascii_letters}


_SPACED = re.compile(rf"(?<![\w.-])\d({_GAP})(?:\d\1){{11,17}}\d(?!\w)")
_USUAL_LENGTHS = (16, 15, 19)


def _spaced_cards(text: str) -> Iterator[Span]:
    """Find cards whose digits are written separately; more digits may follow."""
    for match in _SPACED.finditer(text):
        places = [i for i in range(*match.span()) if text[i].isdigit()]
        for length in (len(places), *_USUAL_LENGTHS):
            if length <= len(places) and luhn("".join(text[i] for i in places[:length])):
                yield match.start(), places[length - 1] + 1
                break


BUILT_IN: Mapping[str, tuple[Finder, ...]] = {
    # Before phone numbers, which a part of a longer number could pass for.
    "iban": (
        _plainly(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"),
        _ibans,
    ),
    "card": (
        _plainly(
            r"(?<![\w.-])(?:\d{4}([ -])\d{4}\1\d{4}\1\d{4}|\d{4}[ -]\d{6}[ -]\d{5}|\d{13,19})"
            r"(?![\w-])",
            luhn,
        ),
        _plainly(
            rf"(?<![\w.-])(?:\d{{4}}({_GAP})\d{{4}}\1\d{{4}}\1\d{{4}}"
            rf"|\d{{4}}({_GAP})\d{{6}}\2\d{{4,5}})(?![\w-])",
            luhn,
        ),
        _spaced_cards,
    ),
    "email": (
        _runs(r"[\w.+%-]++(@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]+)+)?", "@"),
        # ada [at] example.com, ada @ example.com, ada at example dot com
        _runs(
            r"[\w.+%-]++((?: ?@ ?| ?[\[({<] ?(?:at|@) ?[\])}>] ?)[a-z0-9-]++"
            rf"(?:{_DOT}[a-z0-9-]++)*{_DOT}[a-z]{{2,}}(?!\w)"
            r"| at [a-z0-9-]++(?: dot [a-z0-9-]++)* dot [a-z]{2,}(?!\w))?",
            r"@|\bat\b",
            re.IGNORECASE,
        ),
        # a d a @ e x a m p l e . c o m
        _runs(r"(?<![\w.])(?:[\w.] )++(@(?: [A-Za-z0-9.-](?![A-Za-z0-9-]))++)?", "@"),
    ),
    "ssn": (_plainly(rf"(?<![\w-])\d{{3}}({_GAP})\d{{2}}\1\d{{4}}(?![\w-])"),),
    "ip": (
        _plainly(
            rf"(?<![\w:.])(?:[0-9A-Fa-f]{{0,4}}:){{2,7}}(?:(?:{_BYTE}\.){{3}}{_BYTE}"
            r"|[0-9A-Fa-f]{1,4}|:)?(?:%\w{1,20})?(?![\w:]|\.\d)",
            _is_ipv6,
        ),
        _plainly(rf"(?<![\w.])(?:{_BYTE}{_DOT}){{3}}{_BYTE}(?!\w|\.\d)", flags=re.IGNORECASE),
    ),
    "phone": (
        _plainly(
            rf"(?<![\w.-])(?:\+{_RUN_ENDS}\d{{1,3}}[ .-]?(?:\(\d{{1,4}}\)[ .-]?)?"
            rf"{_RUN_ENDS}\d{{1,4}}(?:[ .-]?{_RUN_ENDS}\d{{2,4}}){{1,4}}"
            r"|\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4})(?![\w-])"
        ),
        _plainly(rf"(?<![\w.-])\+ ?\d({_GAP})(?:\d\1){{6,13}}\d(?![\w-])"),
    ),
}
"""IBAN (ISO 13616), payment card (13 to 19 digits that pass the Luhn check), e-mail address, US
social security number, IP address, and phone number (international with +, or North American); in
their usual form first, then spaced, dotted and otherwise hidden."""


_UNSEEN = "\u034f\u115f\u1160\u17b4\u17b5\uffa0\ufe00-\ufe0f"
"""Characters without a form that Unicode's categories do not call format characters."""

_FORMATS = (
    "\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f"
)
_SPACES_AND_DASHES = "\u00a0\u2000-\u200a\u2010-\u2015\u202f\u205f\u2212\u3000"
_FORMS = (
    "\u00b2\u00b3\u00b9\u2070-\u2089\u2460-\u2473\u3002\ufe50-\ufe6f\uff01-\uff61"
    "\U0001d400-\U0001d7ff"
)
_ODD = re.compile(f"[{_UNSEEN}{_FORMATS}{_SPACES_AND_DASHES}{_FORMS}]")
_LEFT_OUT = re.compile(f"[{_UNSEEN}{_FORMATS}]")


def plain(text: str) -> tuple[str, list[int] | None]:
    """Return the text as patterns read it, and the place in ``text`` of each of its characters.

    Characters that cannot be seen are left out; full-width and other forms of letters, digits,
    spaces, dashes and dots become the usual ones. None instead of places: it is ``text`` itself.
    """
    if text.isascii() or _ODD.search(text) is None:
        return text, None
    pieces: list[str] = []
    places: list[int] = []
    done = 0
    for match in _ODD.finditer(text):
        start, stop = match.span()
        usual = _usual(match[0])
        pieces += (text[done:start], usual)
        places += range(done, start + len(usual))
        done = stop
    return "".join((*pieces, text[done:])), [*places, *range(done, len(text) + 1)]


@functools.cache  # of some thousand characters
def _usual(char: str) -> str:
    if _LEFT_OUT.match(char):
        return ""
    if char in "\u3002\uff61":
        return "."
    kind = unicodedata.category(char)
    if kind == "Zs":
        return " "
    if kind == "Pd" or char == "\u2212":
        return "-"
    folded = unicodedata.normalize("NFKC", char)
    return folded if len(folded) == 1 else char
