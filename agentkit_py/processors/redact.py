"""Masking personal data in what a model sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message
from agentkit_py.processors.base import HistoryProcessor, ProcessorContext
from agentkit_py.processors.redactor import BUILT_IN, Mask, Patterns, Redactor
from agentkit_py.processors.settings import checked_object
from agentkit_py.processors.tool_results import rewritten


class Redact(HistoryProcessor):
    """Masks personal data in the history that a model sees; what is stored stays as it is.

    This agent's own current calls and pinned messages are masked like all others. The system prompt
    and the current question are no history: mask them where they come from, with the same
    `Redactor`.

    Args:
        what: A `Redactor`, or what makes one: patterns or a function; everything that is built in
            unless given. A function has to give the same for the same text: of a long thread it
            sees the newest part only.

    Raises:
        ConfigurationError: There is nothing to look for, or an expression is none.
    """

    looks_back: ClassVar[bool] = False

    def __init__(self, what: Redactor | Patterns | Mask = tuple(BUILT_IN)) -> None:
        self._what = what
        self.redactor: Redactor = what if isinstance(what, Redactor) else Redactor(what)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Redact:
        """Make one from ``{"patterns": ["email", …]}``, or a dict of patterns by name.

        Raises:
            ConfigurationError: A key is not known, or a pattern is none.
        """
        found = checked_object("Redact.from_settings", settings)
        unknown = sorted(found.keys() - {"patterns"})
        if unknown:
            raise ConfigurationError(f"Redact has no setting {unknown[0]!r}; known are: patterns.")
        patterns = found.get("patterns", list(BUILT_IN))
        if not isinstance(patterns, list | Mapping):
            raise ConfigurationError(f"Redact: patterns must be a list or dict: {patterns!r:.80}.")
        try:
            return cls(patterns)  # pyright: ignore[reportUnknownArgumentType]
        except ConfigurationError as error:
            raise ConfigurationError(f"Redact: patterns: {error}") from error

    @property
    def reason(self) -> str:
        """What it masks."""
        return f"masks {', '.join(self.redactor.names)}"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages masked."""
        del context
        mask = self.redactor.message
        return rewritten(messages, {i: mask(m) for i, m in enumerate(messages)})
