"""Leaving out calls that have no result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from agentkit_py.messages import Message
from agentkit_py.processors.base import ProcessorContext
from agentkit_py.processors.pairing import pair
from agentkit_py.processors.removal import without_calls
from agentkit_py.processors.settings import ConfiguredProcessor
from agentkit_py.processors.validity import is_valid


@dataclass(frozen=True)
class DropUnanswered(ConfiguredProcessor):
    """Removes calls without a result; calls of the same reply that have one stay, with it.

    Without it such a call is answered with an error before the request is sent, so that the model
    knows that it called. Calls that this agent made in the current run stay.
    """

    looks_back: ClassVar[bool] = False

    @property
    def reason(self) -> str:
        """Why it removes calls."""
        return "calls without a result"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages without unanswered calls."""
        if is_valid(messages):
            return messages
        pairing = pair(messages)
        held = context.held

        def answered(index: int, place: int) -> bool:
            return pairing.answers[index][place] is not None or id(messages[index]) in held

        return without_calls(messages, answered, pairing=pairing)
