"""Replies being streamed: the text that readers have seen if a reply is stopped or breaks off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from agentkit_py.errors import ModelStreamError
from agentkit_py.history.stopping import STOPPED
from agentkit_py.messages import Delta, Finish, Message, TextDelta, TextMessage
from agentkit_py.models.replies import partial_messages
from agentkit_py.processors.report import ContextReport
from agentkit_py.results import AgentResult

BROKEN_OFF = "broken_off"
"""The word of the end of a reply whose stream failed; of others it is `STOPPED`."""


@dataclass(slots=True, kw_only=True)
class WrittenReply:
    """A reply that is streamed, as far as it came.

    Of it texts are kept. Calls are not run, and reasoning lacks its signature.
    """

    agent: str
    id: str
    report: ContextReport
    history: Sequence[Message]
    now: Callable[[], datetime]
    _deltas: list[Delta] = field(default_factory=list[Delta], init=False)
    _broken: Sequence[Message] | None = field(default=None, init=False)

    def begin(self) -> None:
        """Start over: the text of the previous model no longer counts."""
        self._deltas.clear()

    def add(self, delta: Delta) -> None:
        """Add a piece that readers see."""
        if isinstance(delta, TextDelta):
            self._deltas.append(delta)

    def break_off(self, error: ModelStreamError) -> None:
        """Hold the text received before the stream failed, in this attempt or before it."""
        self._broken = error.messages

    def so_far(self) -> AgentResult | None:
        """Return the reply as far as it came, marked as cut; None: nothing was seen."""
        broken = self._broken
        found = partial_messages(self._deltas) if broken is None else broken
        texts = [
            replace(message, stop_reason="error", agent=self.agent)
            for message in found
            if isinstance(message, TextMessage) and message.text.strip()
        ]
        if not texts:
            return None
        return AgentResult(
            self.agent,
            texts,
            (),
            self.now(),
            self.report.prompt,
            self.history,
            id=self.id,
            finish=Finish("error", STOPPED if broken is None else BROKEN_OFF),
            stop_reason=STOPPED,
            context=self.report,
        )
