"""Words for times in a text, such as "last week", as days of the calendar. Pure functions.

They are understood relative to the day of the text: "yesterday" in a message of
May 8 is May 7, whenever it is searched. The words are English.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import islice

MAX_TEXT = 10_000
"""Characters of a text that are read."""

MAX_PERIODS = 20
"""Periods of a text that count."""

_DAY = timedelta(days=1)
_MONTHS_OF_A_YEAR = 12
_DAYS_OF_A_WEEK = 7
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Period:
    """Days from a first to a last, both included."""

    first: date
    last: date

    def meets(self, other: Period) -> bool:
        """Return whether they have a day in common."""
        return self.first <= other.last and other.first <= self.last


def _words(text: str, start: int = 0) -> dict[str, int]:
    """Return words, and their first three letters, with their numbers."""
    found: dict[str, int] = {}
    for number, word in enumerate(text.split(), start):
        found |= {word: number, word[:3]: number}
    return found


_DAYS = {"today": 0, "tonight": 0, "yesterday": 1, "the day before yesterday": 2}
_UNITS = {word + ending: word for word in ("day", "week", "month", "year") for ending in ("", "s")}
_NUMBERS = {"a": 1, "an": 1, "a couple of": 2, "couple of": 2} | {
    word: number
    for number, word in enumerate(
        ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), 1
    )
}
_WEEKDAYS = _words("monday tuesday wednesday thursday friday saturday sunday")
_MONTHS = {"sept": 9} | _words(
    "january february march april may june july august september october november december", 1
)


def periods(text: str, said: date) -> list[Period]:
    """Return the days that a text of some day speaks of, in order, each once.

    Of a text the first 10,000 characters are read. A date that does not exist, such as the 31st of
    June, is left out, and so is a date in a year that does not.
    """
    text = " ".join(text[:MAX_TEXT].casefold().split())
    return list(dict.fromkeys(islice(_found(text, said), MAX_PERIODS)))


def _found(text: str, said: date) -> Iterator[Period]:
    for match in _PATTERN.finditer(text):
        form = match.lastgroup
        # The group of the form is the outermost, so it is the last that closes.
        groups = {name: value for name, value in match.groupdict().items() if value}
        try:
            if form is not None:
                yield _FORMS[form][1](_plain(form, groups), said)
        except (ValueError, OverflowError):
            continue


def _plain(form: str, groups: Mapping[str, str]) -> dict[str, str]:
    """Return the parts of a form under plain names."""
    start = f"{form}__"
    return {
        name.removeprefix(start).rstrip("_"): value
        for name, value in groups.items()
        if name.startswith(start)
    }


def _day(parts: Mapping[str, str], said: date) -> Period:
    day = said - _DAYS[parts["word"]] * _DAY
    return Period(day, day)


def _number(parts: Mapping[str, str]) -> int:
    written = parts["n"]
    return int(written) if written.isdecimal() else _NUMBERS[written]


def _ago(parts: Mapping[str, str], said: date) -> Period:
    unit = _UNITS[parts["unit"]]
    return _unit_ago(said, unit, _number(parts))


def _unit(parts: Mapping[str, str], said: date) -> Period:
    count = 0 if parts["which"] == "this" else 1
    found = _whole(_unit_ago(said, parts["unit"], count).first, parts["unit"])
    return Period(found.first, min(found.last, said))


def _span(parts: Mapping[str, str], said: date) -> Period:
    unit = _UNITS[parts["unit"]]
    return Period(_shifted(said, unit, _number(parts)), said)


def _weekday(parts: Mapping[str, str], said: date) -> Period:
    back = (said.weekday() - _WEEKDAYS[parts["weekday"]]) % _DAYS_OF_A_WEEK
    day = said - (back or _DAYS_OF_A_WEEK) * _DAY
    return Period(day, day)


def _date(parts: Mapping[str, str], said: date) -> Period:
    month, day = _MONTHS[parts["month"]], int(parts["day"])
    if "year" in parts:
        found = date(int(parts["year"]), month, day)
    else:
        # The 29th of February was in the last leap year.
        years = (said.year - back for back in range(9))
        days = (_date_or_none(year, month, day) for year in years)
        found = next((one for one in days if one is not None and one <= said), None)
    if found is None:
        raise ValueError(parts)
    return Period(found, found)


def _date_or_none(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _month(parts: Mapping[str, str], said: date) -> Period:
    month = _MONTHS[parts["month"]]
    year = int(parts["year"]) if "year" in parts else said.year - (month > said.month)
    return _whole(date(year, month, 1), "month")


def _iso(parts: Mapping[str, str], said: date) -> Period:
    del said
    day = date.fromisoformat(parts["iso"])
    return Period(day, day)


def _year(parts: Mapping[str, str], said: date) -> Period:
    del said
    return _whole(date(int(parts["year"]), 1, 1), "year")


def _unit_ago(said: date, unit: str, count: int) -> Period:
    """Return the day so many days ago; of longer units the week, month or year around it."""
    day = _shifted(said, unit, count)
    return Period(day, day) if unit == "day" else _whole(day, unit)


def _shifted(said: date, unit: str, count: int) -> date:
    """Return the day so many units before; the month's last day where it is shorter."""
    if unit in ("day", "week"):
        return said - min(count, _MOST) * (_DAYS_OF_A_WEEK if unit == "week" else 1) * _DAY
    months = count * (_MONTHS_OF_A_YEAR if unit == "year" else 1)
    total = said.year * _MONTHS_OF_A_YEAR + said.month - 1 - months
    first = date(total // _MONTHS_OF_A_YEAR, total % _MONTHS_OF_A_YEAR + 1, 1)
    return min(first + (said.day - 1) * _DAY, _whole(first, "month").last)


def _whole(day: date, unit: str) -> Period:
    """Return the week (from Monday), month or year around a day."""
    if unit == "week":
        monday = day - day.weekday() * _DAY
        return Period(monday, monday + 6 * _DAY)
    if unit == "month":
        later = day.replace(day=28) + 4 * _DAY
        return Period(day.replace(day=1), later - later.day * _DAY)
    return Period(date(day.year, 1, 1), date(day.year, 12, 31))


# "May" and "March" are words, too: a month alone needs a word before it or a year after it.
_DATE = (
    r"(?P<month>{months})\.? (?P<day>\d{{1,2}}){th}(?:,? (?P<year>{year}))?"
    r"|(?P<day_>\d{{1,2}}){th}(?: of)? (?P<month_>{months})(?:,? (?P<year_>{year}))?"
)
_MONTH = (
    r"(?:in|last|this|during|since) (?P<month>{months})(?:,? (?P<year>{year}))?"
    r"|(?P<month_>{months}),? (?P<year_>{year})"
)
_FORMS: Mapping[str, tuple[str, Callable[[Mapping[str, str], date], Period]]] = {
    "day": (r"(?P<word>{days})", _day),
    "ago": (r"(?P<n>\d{{1,5}}|{numbers}) (?P<unit>{units}) ago", _ago),
    "unit": (r"(?P<which>last|this|previous) (?P<unit>week|month|year)", _unit),
    "span": (r"(?:last|past|previous) (?P<n>\d{{1,5}}|{numbers}) (?P<unit>{units})", _span),
    "weekday": (r"(?:on|last|this|since) (?P<weekday>{weekdays})", _weekday),
    "date": (_DATE, _date),
    "month": (_MONTH, _month),
    "iso": (r"(?P<iso>\d{{4}}-\d\d-\d\d)", _iso),
    "year": (r"(?:in|during|since) (?P<year>{year})", _year),
}
"""Patterns and readers of the forms; ``{units}`` and so on are replaced by the words above."""


def _either(words: Iterable[str]) -> str:
    return "(?:" + "|".join(sorted(map(re.escape, words), key=len, reverse=True)) + ")"


_WORDS = {
    "days": _either(_DAYS),
    "units": _either(_UNITS),
    "numbers": _either(_NUMBERS),
    "weekdays": _either(_WEEKDAYS),
    "months": _either(_MONTHS),
    "year": r"\d{4}",
    "th": "(?:st|nd|rd|th)?",
}
_GROUPS = (
    f"(?P<{name}>{form.format(**_WORDS).replace('(?P<', f'(?P<{name}__')})"
    for name, (form, _) in _FORMS.items()
)
_PATTERN = re.compile(rf"\b(?:{'|'.join(_GROUPS)})\b")
"""All forms; parts of a form have its name before theirs."""
