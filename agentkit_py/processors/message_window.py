"""Keeping the newest messages only, by number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message
from agentkit_py.processors.base import ProcessorContext
from agentkit_py.processors.places import Places
from agentkit_py.processors.removal import is_same
from agentkit_py.processors.settings import Check, ConfiguredProcessor, optional, whole
from agentkit_py.processors.windows import newest_stretch, next_cut
from agentkit_py.runtime.environment import environment as process_environment

VARIABLE = "MAX_MESSAGE_HISTORY"
"""The environment variable that `MessageWindow.from_env` reads."""

DEFAULT_MESSAGES = 40
"""How many messages are kept if nobody says otherwise."""

LEAST_MESSAGES, MOST_MESSAGES = 10, 100
"""What the environment variable may say: fewer break conversations, more are no window."""

_WORTHWHILE = 20
"""From so many messages on a window moves in blocks, of which the least is more than one turn."""


def _window(name: str, value: object) -> int:
    if not name.endswith("max_message_history"):
        return whole(1)(name, value)
    return whole(LEAST_MESSAGES, MOST_MESSAGES)(name, value)


@dataclass(frozen=True)
class MessageWindow(ConfiguredProcessor):
    """Keeps the newest messages, ``max_messages`` at the most; system messages stay in addition.

    When there is one more, the oldest go until ``lower`` are left, and then they grow again: so the
    next requests begin as this one does, which providers cache. With ``lower=max_messages`` there
    are always as many as may be, and each request begins elsewhere.

    Calls are not parted from their results, nor results of one reply from each other: such a
    stretch goes as a whole if it does not fit as a whole. Only the newest stretch always stays.

    Protected and pinned messages always stay and are counted first.

    Args:
        max_messages: How many messages at the most.
        lower: How many stay when there are too many; None: three quarters, rounded up, of 20 and
            more, and all of fewer: a turn is some four messages, so that these gain nothing.

    Raises:
        ConfigurationError: One is no positive whole number, or ``lower`` is the greater one.
    """

    max_messages: int = DEFAULT_MESSAGES
    lower: int | None = None

    settings: ClassVar[Mapping[str, Check]] = {
        "max_messages": _window,
        "lower": optional(whole()),
    }
    aliases: ClassVar[Mapping[str, str]] = {
        "max_message_history": "max_messages",
        "keep_recent": "max_messages",
    }

    def __post_init__(self) -> None:
        """Check the numbers."""
        self._check()
        if self.lower is not None:
            whole(1, self.max_messages)("MessageWindow: lower", self.lower)

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> Self:
        """A window of ``MAX_MESSAGE_HISTORY`` messages (10 to 100), of 40 if that is not set.

        Args:
            environment: Where to look; None: the environment of the process.

        Raises:
            ConfigurationError: The variable is no whole number from 10 to 100.
        """
        found = process_environment() if environment is None else environment
        value = found.get(VARIABLE, "").strip()
        if not value:
            return cls()
        # Digits only: int() takes more, such as "4_0".
        if not (value.isascii() and value.isdigit()) or not (
            LEAST_MESSAGES <= int(value) <= MOST_MESSAGES
        ):
            raise ConfigurationError(
                f"{VARIABLE} must be a whole number from {LEAST_MESSAGES} to {MOST_MESSAGES}, not "
                f"{value!r:.80}."
            )
        return cls(int(value))

    @property
    def reason(self) -> str:
        """How many messages it keeps."""
        return f"window of {self.max_messages} messages"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The newest messages."""
        if len(messages) <= self.max_messages:
            return messages
        held = context.held
        system = [index for index, m in enumerate(messages) if m.role == "system"]
        excess = self._excess(messages, context, system)
        if not excess:
            return messages
        staying = [i for i, m in enumerate(messages) if id(m) in held] if held else ()
        start = next_cut(messages, _after(len(messages), excess, sorted({*system, *staying})))
        if start == len(messages):
            start = newest_stretch(messages)
        kept = [messages[i] for i in sorted({*system, *staying}) if i < start]
        return messages if len(kept) == start else [*kept, *messages[start:]]

    async def enough(self, newest: Sequence[Message], context: ProcessorContext) -> bool:
        """Whether something has to go, so that all that is older does."""
        count = sum(not is_system(m) for m in newest)
        return not context.before.system and count > self.max_messages

    def _excess(
        self, messages: Sequence[Message], context: ProcessorContext, system: Sequence[int]
    ) -> int:
        """How many messages have to go: the same number until a whole block more has to.

        Args:
            messages: The history.
            context: What is known of the thread.
            system: Which messages the system says.
        """
        count = len(messages) - len(system)
        excess = max(0, count - self.max_messages)
        block = self.max_messages + 1 - self._lower
        if not excess or block == 1:
            return excess
        # Blocks of the thread, so that nothing older than the cut has to be looked at.
        if not context.history or is_same(messages, context.history):
            before = context.before.messages - context.before.system
            found = -(-(before + excess) // block) * block - before
            return found if found < count else excess
        others = [m for m in messages if not is_system(m)]
        blocks = [rank // block for rank in Places(messages, context).ranks(others)]
        later = range(excess, len(others))
        return next((n for n in later if blocks[n] > blocks[n - 1]), excess)

    @property
    def _lower(self) -> int:
        if self.lower is not None:
            return self.lower
        whole_window = self.max_messages < _WORTHWHILE
        return self.max_messages if whole_window else -(-self.max_messages * 3 // 4)


def _after(length: int, count: int, staying: Sequence[int]) -> int:
    """The index behind the oldest ``count`` of so many messages that may go.

    Args:
        length: How many messages there are.
        count: At least 1.
        staying: The indices of those that may not go, in order.
    """
    index = count
    for place in staying:
        if place >= index:
            break
        index += 1
    return min(index, length)


def is_system(message: Message) -> bool:
    """Whether the system says it."""
    return message.role == "system"
