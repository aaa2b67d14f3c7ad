"""Earlier requests: what a run's last requests leave to the next, so that work is done once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentkit_py.messages import Message


@dataclass(slots=True)
class EarlierRequests:
    """The messages of a run's last request, and the conversations as adapters wrote them."""

    sent: tuple[Message, ...] = ()
    """The messages of the last request: calls and results in them are whole."""

    writers: dict[str, Any] = field(default_factory=dict[str, Any])
    """By agent; see `ModelRequest.writers`."""

    def count_known(self, messages: Sequence[Message]) -> int:
        """Return how many messages at the beginning are those of the last request; none or all."""
        sent = self.sent
        return len(sent) if sent and messages[: len(sent)] == sent else 0

    def add(self, messages: tuple[Message, ...]) -> None:
        """Keep the messages of a request."""
        self.sent = messages

    def fork(self) -> EarlierRequests:
        """Return what an agent begins with that runs in parallel to others."""
        return EarlierRequests(self.sent)
