"""Names that providers accept, and numbers in their range."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
"""Tool names that OpenAI, Anthropic and Gemini all accept (their common subset)."""


def slugify(name: str) -> str:
    """Return ``name`` in lower case, everything but letters and digits as single dashes."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def wrong_number(
    value: object, *, whole: bool = False, least: float = 0, above: bool = False
) -> str | None:
    """Return the advice for a value that is not a number in a range; None: it is in the range.

    It must be ``least`` or more, or if ``above``, more than that.
    """
    is_kind = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    number = value if is_kind and isinstance(value, int | float) else math.nan
    if least < number < math.inf or (number == least and not above):
        return None
    kind = "a whole number" if whole else "a number"
    return f"pass {kind}, {f'more than {least:g}' if above else f'{least:g} or more'}"


def wrong_bool(value: object) -> str | None:
    """Return the advice for a value that is neither True nor False; None: it is one of them."""
    return None if isinstance(value, bool) else f"pass True or False, not {value!r:.80}"


def wrong_word(name: str, value: object, known: Sequence[object]) -> str | None:
    """Return the problem of a value that is not among the known words; None: it is known."""
    if value in known:
        return None
    *others, last = map(repr, known)
    words = f"{', '.join(others)} or {last}" if others else last
    return f"{name} must be {words}, got {value!r:.80}"


def meant(name: str, known: Sequence[str]) -> str:
    """Return a hint for an unknown name: the likely name, and the known names."""
    import difflib  # noqa: PLC0415 - for errors only

    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"there are {', '.join(map(repr, known))}" if known else "there are none"


def nearly(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that a name is, or is very close to; None: there is none."""
    import difflib  # noqa: PLC0415 - for errors only

    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.8)), None)
