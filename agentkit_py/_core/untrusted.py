"""Untrusted text on its way to a terminal, a log or a prompt, which it must not steer.

A message, a tool's result, a title or a provider's error may hold escape sequences that write
elsewhere on the screen, characters that turn the order of text around, and line breaks that look
like another record of a log.
"""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

from agentkit_py._core.secrets import without_secrets

_INVISIBLE = frozenset({"Cc", "Cf", "Cs"})
_BREAKS = frozenset("\v\f\x1c\x1d\x1e\x85\u2028\u2029")


class _Replacements(dict[int, str]):
    """The replacement of each character, made when it first occurs."""

    def __init__(self, replace: Callable[[str], str]) -> None:
        super().__init__()
        self._replace = replace

    def __missing__(self, code: int) -> str:
        char = chr(code)
        odd = char in _BREAKS or unicodedata.category(char) in _INVISIBLE
        made = self[code] = self._replace(char) if odd else char
        return made


def _shown(char: str) -> str:
    if char in "\n\t":
        return char
    if char in _BREAKS:
        return " "
    return "\ufffd" if unicodedata.category(char) == "Cs" else ""


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass").hex()
    short = {"\n": "\\n", "\t": "\\t"}
    pieces = (f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
    return short.get(char) or "".join(pieces)


_SHOWN, _ESCAPED = _Replacements(_shown), _Replacements(_escaped)


def clean(text: str) -> str:
    """Return text without controls and format characters, so without escape sequences.

    Line feeds and tabs stay; other kinds of line breaks become spaces, halves of surrogate pairs
    the replacement character. Format characters are those
    of Unicode's category Cf: marks of direction, zero-width characters, tags. What stood in an
    escape sequence after its first character stays and is seen.
    """
    return text if text.isascii() and text.isprintable() else text.translate(_SHOWN)


def escaped(text: str) -> str:
    r"""Return JSON or another text on a line with all that `clean` removes as ``\u`` escapes.

    For text that a person approves or a program reads: nothing of it may be missing.
    """
    return text if text.isascii() and text.isprintable() else text.translate(_ESCAPED)


class CleanRecords(logging.Filter):
    """Cleans log records: the message with its arguments, the traceback and the stack.

    Errors are without secrets (see `without_secrets`). Arguments become a line each, so that
    none can look like another record.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Clean the record; always True."""
        if isinstance(record.args, tuple):
            record.args = tuple(map(_argument, record.args))
        elif isinstance(record.args, Mapping):
            record.args = {name: _argument(value) for name, value in record.args.items()}
        if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
            text = logging.Formatter().formatException(record.exc_info)
            shown = without_secrets(clean(text))
            if shown != text:
                record.exc_text = shown
        if record.stack_info:
            record.stack_info = clean(record.stack_info)
        return True


def _argument(value: object) -> Any:
    if isinstance(value, str):
        return _line(value)
    if isinstance(value, BaseException):
        text = str(value)
        shown = without_secrets(_line(text))
        return value if shown == text else shown
    return value


def _line(text: str) -> str:
    return clean(text).replace("\n", " ")


_CLEAN_RECORDS = CleanRecords()


def get_logger(name: str) -> logging.Logger:
    """Return the logger of this name, whose records are clean."""
    logger = logging.getLogger(name)
    logger.addFilter(_CLEAN_RECORDS)  # the same filter is added once
    return logger
