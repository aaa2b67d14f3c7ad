"""An agent that runs by itself, in the reference model."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ..vectors import Json
from .agents import Turn
from .core import UNDEFINED, USER, Failure, Result, State, engine_failure
from .history import heard, open_thread
from .stream import Speaker, Stream

if TYPE_CHECKING:
    from .inputs import Input
    from .play import Play


class StandaloneRun:
    """An agent that runs by itself."""

    def __init__(
        self,
        play: Play,
        agent: dict[str, Json],
        model: dict[str, Json],
        state: State,
        given: Input,
        options: dict[str, Json],
        network: dict[str, Json],
    ) -> None:
        self.play, self.on = play, play.on
        self.agent, self.model, self.state = agent, model, state
        self.given, self.options = given, options
        lost = agent.get("withModel") and agent.get("history")
        kept = not lost or self.on("with-model-keeps-everything")
        self.adapter = play.adapter(agent.get("history")) if kept else None
        self.stream: Stream | None = None
        self.first: int | None = None
        self.run_id, self.message_id = play.ids.new("gen"), play.ids.new()
        # agent.ts `run`: what is given as a network is what hooks see, and streams by itself.
        lent = bool(network) and not self.on("agents-run-by-themselves")
        names = [play.agent(name)["name"] for name in network["agents"]] if lent else []
        self.around: tuple[str, list[str]] = (network["name"] if lent else "default", names)
        self.stream_wanted = "streaming" in options and not lent

    def play_out(self) -> Result:
        """The whole run."""
        first = self.adapter is not None and self.stream_wanted
        first = first and self.on("threads-open-before-a-run-starts")
        if not first:
            self._begin_stream()
        if isinstance(self.options.get("state"), dict) and not self.on(
            "plain-states-keep-their-thread"
        ):
            if self.adapter is not None and self.adapter.has("createThread"):
                self.adapter.call("createThread", self.state, self.given, self.around)
            raise engine_failure("TypeError")  # agent.ts `run` calls a method of the state
        if self.adapter is not None:
            before = open_thread(self.adapter, self.state, self.given, self.around, whole=False)
        else:
            before = heard(self.play, self.state, self.given)
        if first:
            self._begin_stream()
        self.first = before
        saving = False
        try:
            turn = self._turn()
            result = turn.play_out()
            saving = True
            self._save(before, stopped=turn.stopped)
        except Failure:
            self._failed(before, saving=saving)
            raise
        self._emit("run.completed")
        self._emit("stream.ended")
        return result

    def _failed(self, before: int, *, saving: bool) -> None:
        system = self.agent["system"]
        early = not isinstance(system, str) and "throw" in system["fn"]
        announced = not early or (self.stream_wanted and self.on("every-failure-is-announced"))
        if announced:
            self._emit("run.failed", error="<error>", recoverable=False)
        if announced and (not self.stream_wanted or not self.on("one-end-of-a-run")):
            self._emit("run.completed")
        if announced:
            self._emit("stream.ended")
        lost = self._new(before)
        if saving or not lost or not self._appends:
            return
        if self.on("failed-runs-keep-their-results"):
            with contextlib.suppress(Failure):  # the run's own error counts
                self._append(lost, lost=True)

    def _begin_stream(self) -> None:
        if self.stream_wanted:
            self.play.step_for_ids("generate-standalone-agent-ids")
            thread = self.state.thread_id
            self.stream = Stream(self.play, self.options["streaming"], self.state.data, thread)
            self.stream.started(self._who(), None)

    def _who(self) -> Any:
        return Speaker(self.agent["name"], self.run_id, self.message_id)

    def _emit(self, event: str, **facts: Json) -> None:
        if self.stream is None:
            return
        if event == "stream.ended":
            self.stream.emit(event, scope="agent", messageId=self.message_id)
        else:
            self.stream.emit(
                event, runId=self.run_id, scope="agent", name=self.agent["name"], **facts
            )

    def _turn(self) -> Turn:
        has_id = self.stream is not None or self.on("results-have-ids")
        return Turn(
            self.play,
            self.agent,
            model=self.model,
            state=self.state,
            given=self.given,
            max_iter=self.options.get("maxIter"),
            first=self.first,
            stream=self.stream,
            message_id=self.message_id if has_id else UNDEFINED,
            run_id=self.run_id,
            around=self.around,
        )

    def _new(self, before: int) -> list[Result]:
        return [result for result in self.state.results[before:] if result.agent != USER]

    @property
    def _appends(self) -> bool:
        return self.adapter is not None and self.adapter.has("appendResults")

    def _save(self, before: int, *, stopped: bool) -> None:
        new = self._new(before)
        if not self._appends:
            return
        if not stopped or (new and self.on("stopped-turns-keep-their-results")):
            self._append(new)

    def _append(self, results: list[Result], *, lost: bool = False) -> None:
        assert self.adapter is not None
        self.adapter.call("appendResults", self.state, self.given, self.around, results, lost=lost)
