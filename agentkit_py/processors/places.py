"""Where messages stand in their thread, also when only its newest part is loaded.

What a policy cuts must not depend on how much was loaded. So it goes by places in the whole thread:
what stands before the part that is loaded is known from the store (`Extent`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentkit_py.messages import Message, origin_of, text_of

if TYPE_CHECKING:
    from agentkit_py.processors.base import ProcessorContext


@dataclass(frozen=True, slots=True)
class Extent:
    """How much a stretch of messages is."""

    messages: int = 0
    """How many there are."""

    size: int = 0
    """Characters of what is counted of them."""

    system: int = 0
    """How many of them the system says."""

    def __add__(self, other: Extent) -> Extent:
        """Both together."""
        return Extent(
            self.messages + other.messages, self.size + other.size, self.system + other.system
        )


def extent_of(messages: Iterable[Message]) -> Extent:
    """How much ``messages`` are."""
    count = size = system = 0
    for message in messages:
        count += 1
        size += len(text_of(message))
        system += message.role == "system"
    return Extent(count, size, system)


class Places:
    """The places of a history's messages, found again after processors rewrote some.

    Without a thread, the history that a processor is given is taken for all there is.
    """

    def __init__(self, messages: Sequence[Message], context: ProcessorContext) -> None:
        self._source = context.history or messages
        self._before = context.before
        self._at: dict[int, int] = {}
        self._sizes: list[int] = []

    @property
    def total(self) -> int:
        """How many messages the thread has, and this run so far."""
        return self._before.messages + len(self._source)

    def number(self, message: Message) -> int | None:
        """How many messages of the thread stand before it; None: it is of no known place."""
        index = self._index(message)
        return None if index is None else self._before.messages + index

    def sizes(self, messages: Sequence[Message]) -> list[int]:
        """How many characters stand before each; where that is not known, as for the one before."""
        if not self._sizes:
            total = self._before.size
            for message in self._source:
                self._sizes.append(total)
                total += len(text_of(message))
        found: list[int] = []
        last = self._before.size
        for message in messages:
            index = self._index(message)
            last = last if index is None else self._sizes[index]
            found.append(last)
        return found

    def ranks(self, messages: Sequence[Message]) -> list[int]:
        """The same in messages, those that the system says not counted."""
        ranks: list[int] = []
        total = self._before.messages - self._before.system
        for message in self._source:
            ranks.append(total)
            total += message.role != "system"
        found: list[int] = []
        last = self._before.messages - self._before.system
        for message in messages:
            index = self._index(message)
            last = last if index is None else ranks[index]
            found.append(last)
        return found

    def _index(self, message: Message) -> int | None:
        if not self._at:
            self._at = {id(one): index for index, one in enumerate(self._source)}
        current: Message | None = message
        while current is not None:
            index = self._at.get(id(current))
            if index is not None:
                return index
            current = origin_of(current)
        return None
