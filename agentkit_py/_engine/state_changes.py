"""The record of a user callback's side effects: changes of state, results and schedule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from agentkit_py._core.json import JsonValue
from agentkit_py.lifecycle.network_run import Scheduled, scheduled_in
from agentkit_py.results import AgentResult
from agentkit_py.state import State, differs, restore_data


class Schedule(Protocol):
    """The part of a network run that callbacks change."""

    stack: list[Scheduled]


@dataclass(frozen=True, slots=True)
class Before:
    """The state and schedule before a callback."""

    data: dict[str, JsonValue]
    transcript: Sequence[AgentResult]
    thread_id: str | None
    scheduled: int


@dataclass(slots=True)
class StateChanges:
    """The changes of a state and of a network's schedule, recorded and applied on replays.

    Schedules are recorded as additions, so that the records of parallel callbacks can be applied in
    turn.
    """

    state: State[Any]
    network: Schedule | None = None

    def begin(self) -> Before:
        """Return the state and schedule as they are now."""
        state = self.state
        return Before(state.dump(), state.transcript, state.thread_id, len(self._stack()))

    def record(self, before: Before, /) -> JsonValue:
        """Return the changes since ``before``."""
        found: dict[str, JsonValue] = {}
        data = self.state.dump()
        if differs(data, before.data):
            found["state"] = data
        transcript = self.state.transcript
        if [*map(id, transcript)] != [*map(id, before.transcript)]:
            found["results"] = _places(transcript, before.transcript)
        if self.state.thread_id != before.thread_id:
            found["threadId"] = self.state.thread_id
        added = self._stack()[before.scheduled :]
        if added:
            found["scheduled"] = [name if isinstance(name, str) else list(name) for name in added]
        return found or None

    def replay(self, recorded: JsonValue, /) -> None:
        """Apply a record."""
        found = cast("dict[str, Any]", recorded or {})
        if "state" in found:
            self.state.data = restore_data(self.state.data, found["state"])
        if "results" in found:
            self.state.set_transcript(_in_place(found["results"], self.state.transcript))
        if "threadId" in found:
            self.state.thread_id = found["threadId"]
        for name in found.get("scheduled", ()):
            self._stack().append(name if isinstance(name, str) else tuple(name))

    def _stack(self) -> list[Scheduled]:
        return [] if self.network is None else scheduled_in(self.network, self.network.stack)


class NoChanges:
    """The record of a processor's step, which has no side effects."""

    def begin(self) -> None:
        """Remember nothing."""

    def record(self, before: Any, /) -> JsonValue:
        """Return nothing."""
        return None

    def replay(self, recorded: JsonValue, /) -> None:
        """Apply nothing."""


def _places(transcript: Sequence[AgentResult], before: Sequence[AgentResult]) -> list[JsonValue]:
    """The place of each entry before the callback, which a replay knows; new ones as they are."""
    known = {id(entry): place for place, entry in enumerate(before)}
    return [known[id(e)] if id(e) in known else _to_dict(e) for e in transcript]


def _to_dict(entry: AgentResult) -> JsonValue:
    present = any(message.from_history is False for message in entry.messages)
    return {**entry.to_dict(), "present": True} if present else entry.to_dict()


def _in_place(places: Sequence[Any], before: Sequence[AgentResult]) -> list[AgentResult]:
    return [before[e] if isinstance(e, int) else _from_dict(e) for e in places]


def _from_dict(record: dict[str, Any]) -> AgentResult:
    entry = AgentResult.from_dict(record)
    return entry.on_side(past=False) if record.get("present") else entry
