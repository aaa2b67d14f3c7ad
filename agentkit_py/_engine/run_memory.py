"""RunMemory: a run's memory between model calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agentkit_py._core.json import JsonValue
from agentkit_py._engine.written_replies import WrittenReply
from agentkit_py.history.stopping import OpenReply
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
        """Return the memory of an agent that runs in parallel to others."""
        return EarlierRequests(self.sent)


@dataclass(slots=True)
class RunMemory:
    """Values of processors, earlier requests, open replies, and the state at the beginning."""

    values: dict[str, Any] = field(default_factory=dict[str, Any])
    """Values that processors keep until the run ends."""

    requests: EarlierRequests = field(default_factory=EarlierRequests)
    """What the model calls so far leave to the next."""

    open_replies: dict[str, OpenReply | WrittenReply] = field(
        default_factory=dict[str, "OpenReply | WrittenReply"]
    )
    """Replies that are being written, or whose calls are carried out, by id; forks share them."""

    problems: Sequence[str] = ()
    """The problems of the answers in the turn that began last; see `OutputError.problems`."""

    first_state: Mapping[str, JsonValue] | None = None
    """The state's data when the run began, where replays are compared."""

    def fork(self) -> RunMemory:
        """Return the memory of an agent that runs in parallel to others."""
        return replace(self, values=dict(self.values), requests=self.requests.fork())

    def remember_problems(self, problems: Sequence[str]) -> None:
        """Keep the list to which a turn adds the problems of its answers."""
        self.problems = problems

    def remember_state(self, data: Mapping[str, JsonValue] | None) -> None:
        """Keep the state's data as the run begins."""
        self.first_state = data
