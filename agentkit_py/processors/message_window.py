"""Keeping the newest messages only, by number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message
from agentkit_py.processors.base import ProcessorContext
from agentkit_py.processors.settings import Check, ConfiguredProcessor, whole
from agentkit_py.processors.windows import newest_stretch, next_cut
from agentkit_py.runtime.environment import environment as process_environment

VARIABLE = "MAX_MESSAGE_HISTORY"
"""The environment variable that `MessageWindow.from_env` reads."""

DEFAULT_MESSAGES = 40
"""How many messages are kept if nobody says otherwise."""

LEAST_MESSAGES, MOST_MESSAGES = 10, 100
"""What the environment variable may say: fewer break conversations, more are no window."""


def _window(name: str, value: object) -> int:
    if not name.endswith("max_message_history"):
        return whole(1)(name, value)
    return whole(LEAST_MESSAGES, MOST_MESSAGES)(name, value)


@dataclass(frozen=True)
class MessageWindow(ConfiguredProcessor):
    """Keeps the newest ``max_messages`` messages; system messages stay in addition.

    Calls are not parted from their results, nor results of one reply from each other: such a
    stretch goes as a whole if it does not fit as a whole. Only the newest stretch always stays.

    Protected and pinned messages always stay and are counted first.

    Args:
        max_messages: How many messages.

    Raises:
        ConfigurationError: It is no positive whole number.
    """

    max_messages: int = DEFAULT_MESSAGES

    settings: ClassVar[Mapping[str, Check]] = {"max_messages": _window}
    aliases: ClassVar[Mapping[str, str]] = {
        "max_message_history": "max_messages",
        "keep_recent": "max_messages",
    }

    def __post_init__(self) -> None:
        """Check the number."""
        self._check()

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
        first = self._first_fitting(messages, held)
        if first == 0:
            return messages
        start = next_cut(messages, first)
        if start == len(messages):
            start = newest_stretch(messages)
        kept = [m for m in messages[:start] if is_system(m) or (held and id(m) in held)]
        return messages if len(kept) == start else [*kept, *messages[start:]]

    def _first_fitting(self, messages: Sequence[Message], held: frozenset[int]) -> int:
        """Index of the oldest message with which everything from there on still fits."""
        room = self.max_messages - (sum(id(m) in held for m in messages) if held else 0)
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if is_system(message) or (held and id(message) in held):
                continue
            room -= 1
            if room < 0:
                return index + 1
        return 0


def is_system(message: Message) -> bool:
    """Whether the system says it."""
    return message.role == "system"
