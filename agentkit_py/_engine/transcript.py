"""Transcript: who said what in a thread and a run, and what of it is from before the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentkit_py.messages import Message
from agentkit_py.results import USER, AgentResult
from agentkit_py.state import State


@dataclass(slots=True)
class Transcript:
    """The user turns and results of a run's state, and which of them this run added.

    Each message says on which side it is (``from_history``). What a tool or hook puts into the
    state and does not say so is on the side of what stands before it.
    """

    state: State
    question: str | None
    """The id of this run's user message: it stands in the prompt, and so in no history."""

    older: tuple[AgentResult, ...] = ()
    """A fork's older results of the thread that processors asked for; not in its state."""

    added: list[AgentResult] = field(default_factory=list[AgentResult])
    """The results of this run."""

    def begin(self) -> None:
        """Mark everything in the state as from before this run."""
        self.state.mark_past()

    def add(self, result: AgentResult) -> AgentResult:
        """Append a result of this run to the state; return it as it stands there."""
        result = result.on_side(past=False)
        self.state.append_result(result)
        self.added.append(result)
        return result

    def results(self) -> list[AgentResult]:
        """Return the results of this run that are in the state, in order."""
        own = self._own_ids()
        return [result for result in self.state.results if result.id in own]

    def of_this_run(self) -> list[AgentResult]:
        """Return the user turn and the results of this run, in order."""
        own = self._own_ids()
        return [entry for entry in self.state.transcript if entry.id in own]

    def _own_ids(self) -> set[str]:
        ids = (self.question, *(result.id for result in self.added))
        return {one for one in ids if one is not None}

    def history(self) -> tuple[Message, ...]:
        """Return the history of the next model call: past messages, then those of this run."""
        # A run of a tool on the same state has marked everything before it as past.
        self.state.mark_present(self._own_ids())
        return (*self.past(), *self.present())

    def past(self) -> tuple[Message, ...]:
        """Return the messages from before this run."""
        entries = [*self.older, *self._entries()]
        found = [m for entry in entries for m in entry.messages if m.from_history is not False]
        return (*self.state.messages, *found)

    def present(self) -> tuple[Message, ...]:
        """Return the messages of this run, without what the user said."""
        entries = self._entries()
        return tuple([m for e in entries for m in e.messages if m.from_history is False])

    def _entries(self) -> Sequence[AgentResult]:
        question = self.question
        return [e for e in self.state.transcript if e.agent_name != USER or e.id != question]

    def fork(self, state: State) -> Transcript:
        """Return the transcript of an agent that runs in parallel to others, on its own state."""
        return Transcript(state, self.question, self.older)
