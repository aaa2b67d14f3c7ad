"""What runs of agents and of networks have in common: a thread, a stream, and how they end."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from ..vectors import Json
from .core import Failure, Result, State
from .history import Adapter
from .stream import Stream

if TYPE_CHECKING:
    from .inputs import Input
    from .play import Play


class Run(ABC):
    """One run; ``names`` are its scope, name, run id and message id in chunks."""

    def __init__(
        self,
        play: Play,
        state: State,
        given: Input,
        options: dict[str, Json],
        adapter: Adapter | None,
        names: tuple[str, str, str, str],
    ) -> None:
        self.play, self.on = play, play.on
        self.state, self.given, self.options, self.adapter = state, given, options, adapter
        self.scope, self.name, self.run_id, self.message_id = names
        self.stream: Stream | None = None
        self.first = 0
        """The number of results from before the run."""

    @property
    @abstractmethod
    def facts(self) -> tuple[str, list[str]]:
        """The network that hooks see: its name and agents."""

    def begin_stream(self) -> Stream:
        """The run's chunks, from here on."""
        given, thread = self.options["streaming"], self.state.thread_id
        self.stream = Stream(self.play, given, self.state.data, thread)
        return self.stream

    def emit(self, event: str, **facts: Json) -> None:
        """One of the run's own chunks."""
        if self.stream is None:
            return
        last = event == "stream.ended"
        if not last:
            facts |= {"runId": self.run_id, "name": self.name}
        if last or self.scope == "network":
            facts["messageId"] = self.message_id
        self.stream.emit(event, scope=self.scope, **facts)

    def ended(self) -> None:
        """The run's last chunks."""
        self.emit("run.completed")
        self.emit("stream.ended")

    def failed(self) -> None:
        """The last chunks of a run that failed; TypeScript's then come, too, in ``finally``."""
        self.emit("run.failed", error="<error>", recoverable=False)
        if self.stream is None or not self.on("one-end-of-a-run"):
            self.emit("run.completed")
        self.emit("stream.ended")

    def new(self) -> list[Result]:
        """The results of this run."""
        return [result for result in self.state.results[self.first :] if not result.heard]

    @property
    def appends(self) -> bool:
        """True if results are saved."""
        return self.adapter is not None and self.adapter.has("appendResults")

    def append(self, results: list[Result], *, lost: bool = False) -> None:
        """Save results."""
        assert self.adapter is not None
        self.adapter.call("appendResults", self.state, self.given, self.facts, results, lost=lost)

    def keep_lost(self) -> None:
        """Save the results of a run that failed, as we do."""
        new = self.new()
        if new and self.appends and self.on("failed-runs-keep-their-results"):
            with contextlib.suppress(Failure):  # the run's own error counts
                self.append(new, lost=True)
