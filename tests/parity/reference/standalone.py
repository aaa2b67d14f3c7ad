"""An agent that runs by itself, in the reference model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..vectors import Json
from .agents import Turn
from .core import UNDEFINED, Failure, Result, State, engine_failure
from .history import heard, open_thread
from .runs import Run
from .stream import Speaker

if TYPE_CHECKING:
    from .inputs import Input
    from .play import Play


class StandaloneRun(Run):
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
        self.agent, self.model = agent, model
        lost = agent.get("withModel") and agent.get("history")
        kept = not lost or play.on("with-model-keeps-everything")
        adapter = play.adapter(agent.get("history")) if kept else None
        names = ("agent", agent["name"], play.ids.new("gen"), play.ids.new())
        super().__init__(play, state, given, options, adapter, names)
        # agent.ts `run`: what is given as a network is what hooks see, and streams by itself.
        lent = bool(network) and not self.on("agents-run-by-themselves")
        agents = [play.agent(name)["name"] for name in network["agents"]] if lent else []
        self._around = (network["name"] if lent else "default", agents)
        self._streams = "streaming" in options and not lent

    @property
    def facts(self) -> tuple[str, list[str]]:
        return self._around

    def play_out(self) -> Result:
        """The whole run."""
        first = self.adapter is not None and self._streams
        first = first and self.on("threads-open-before-a-run-starts")
        if not first:
            self._start()
        if isinstance(self.options.get("state"), dict) and not self.on(
            "plain-states-keep-their-thread"
        ):
            if self.adapter is not None and self.adapter.has("createThread"):
                self.adapter.call("createThread", self.state, self.given, self.facts)
            raise engine_failure("TypeError")  # agent.ts `run` calls a method of the state
        if self.adapter is not None:
            self.first = open_thread(self.adapter, self.state, self.given, self.facts, whole=False)
        else:
            self.first = heard(self.play, self.state, self.given)
        if first:
            self._start()
        saving = False
        try:
            turn = self._turn()
            result = turn.play_out()
            saving = True
            if self.appends:
                self._save(stopped=turn.stopped)
        except Failure:
            self._announce()
            if not saving:
                self.keep_lost()
            raise
        self.ended()
        return result

    def _announce(self) -> None:
        """Say that the run failed; TypeScript does not where the system prompt throws."""
        system = self.agent["system"]
        early = not isinstance(system, str) and "throw" in system["fn"]
        if not early or (self._streams and self.on("every-failure-is-announced")):
            self.failed()

    def _start(self) -> None:
        if self._streams:
            self.play.step_for_ids("generate-standalone-agent-ids")
            who = Speaker(self.name, self.run_id, self.message_id)
            self.begin_stream().started(who, None)

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
            around=self.facts,
        )

    def _save(self, *, stopped: bool) -> None:
        new = self.new()
        if not stopped or (new and self.on("stopped-turns-keep-their-results")):
            self.append(new)
