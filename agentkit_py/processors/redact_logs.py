"""Masking personal data in log records."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, cast

from agentkit_py.processors.redactor import Mask, Patterns, Redactor

_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What each record has; everything else came with ``extra=``."""

_FORMATTER = logging.Formatter()


class RedactingFilter(logging.Filter):
    """Masks log records; it lets all of them pass.

    Masked are the message with its arguments, fields that came with ``extra=``, the text of an
    exception with its traceback, and the stack. The exception itself is taken off the record, so
    that no later handler or formatter writes it as it was.

    Put it on handlers, each of them: a filter of a logger is not asked for what loggers beneath it
    write.

    Args:
        redactor: A `Redactor`, or what makes one: patterns or a function.
        name: Only records of this logger and those beneath it are masked, e.g. ``agentkit_py``;
            empty: all.

    Raises:
        ConfigurationError: There is nothing to look for, or an expression is none.
    """

    def __init__(self, redactor: Redactor | Patterns | Mask, name: str = "") -> None:
        super().__init__(name)
        self.redactor: Redactor = redactor if isinstance(redactor, Redactor) else Redactor(redactor)

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask the record; always True."""
        if super().filter(record):
            self._message(record)
            self._exception(record)
            for name, value in list(vars(record).items()):
                if name not in _OWN:
                    setattr(record, name, self._extra(value))
        return True

    def _message(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError, KeyError):
            # The arguments do not fit the message. Handlers say so, and print both.
            record.msg = self.redactor.text(str(record.msg))
            given = record.args or ()
            values = given.values() if isinstance(given, Mapping) else given
            record.args = tuple(self._extra(value) for value in values)
            return
        masked = self.redactor.text(text)
        if masked != text:
            record.msg, record.args = masked, None

    def _exception(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[0] is not None:
            record.exc_text = record.exc_text or _FORMATTER.formatException(record.exc_info)
            record.exc_info = None
        if record.exc_text:
            record.exc_text = self.redactor.text(record.exc_text)
        if record.stack_info:
            record.stack_info = self.redactor.text(record.stack_info)

    def _extra(self, value: Any) -> Any:
        if value is None or isinstance(value, str | int | float):
            return self.redactor.value(value)
        if isinstance(value, Mapping):
            found = cast("Mapping[Any, Any]", value)
            made = {self._extra(key): self._extra(item) for key, item in found.items()}
            return found if repr(made) == repr(dict(found)) else made
        if isinstance(value, list | tuple | set | frozenset):
            given = list(cast("Iterable[Any]", value))
            items = [self._extra(item) for item in given]
            same = all(a is b for a, b in zip(items, given, strict=True))
            return cast("Any", value) if same else items
        # Of anything else its text is what gets written.
        text = str(value)
        masked = self.redactor.text(text)
        return value if masked == text else masked
