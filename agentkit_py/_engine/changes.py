"""What a user's callback may change beside its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast

from agentkit_py._core.json import JsonValue
from agentkit_py.results import AgentResult
from agentkit_py.state import State, differs, put_back

Scheduled: TypeAlias = str | tuple[str, ...]
"""An agent that is next, or several that run at the same time."""


class Schedule(Protocol):
    """The part of a network run that callbacks change."""

    stack: list[Scheduled]


@dataclass(frozen=True, slots=True)
class Before:
    """How things were before a callback."""

    data: dict[str, JsonValue]
    results: Sequence[AgentResult]
    thread_id: str | None
    scheduled: int


@dataclass(slots=True)
class RunChanges:
    """The state's data and results and the network's schedule, recorded and applied on replays.

    What was scheduled is recorded as additions, so that the records of callbacks that ran at the
    same time can be applied one after another.
    """

    state: State[Any]
    network: Schedule | None = None

    def begin(self) -> Before:
        """How things are now."""
        state = self.state
        return Before(state.dump(), state.results, state.thread_id, len(self._stack()))

    def record(self, before: Before, /) -> JsonValue:
        """What has changed since ``before``."""
        found: dict[str, JsonValue] = {}
        data = self.state.dump()
        if differs(data, before.data):
            found["state"] = data
        results = self.state.results
        if [*map(id, results)] != [*map(id, before.results)]:
            found["results"] = _places(results, before.results)
        if self.state.thread_id != before.thread_id:
            found["threadId"] = self.state.thread_id
        added = self._stack()[before.scheduled :]
        if added:
            found["scheduled"] = [name if isinstance(name, str) else list(name) for name in added]
        return found or None

    def replay(self, recorded: JsonValue, /) -> None:
        """Apply what was recorded."""
        found = cast("dict[str, Any]", recorded or {})
        if "state" in found:
            self.state.data = put_back(self.state.data, found["state"])
        if "results" in found:
            self.state.set_results(_in_place(found["results"], self.state.results))
        if "threadId" in found:
            self.state.thread_id = found["threadId"]
        for name in found.get("scheduled", ()):
            self._stack().append(name if isinstance(name, str) else tuple(name))

    def _stack(self) -> list[Scheduled]:
        return self.network.stack if self.network is not None else []


def _places(results: Sequence[AgentResult], before: Sequence[AgentResult]) -> list[JsonValue]:
    """Where each result stood before, which a replay knows; what is new as it is."""
    known = {id(result): place for place, result in enumerate(before)}
    return [known[id(r)] if id(r) in known else r.to_dict() for r in results]


def _in_place(places: Sequence[Any], before: Sequence[AgentResult]) -> list[AgentResult]:
    return [
        before[found] if isinstance(found, int) else AgentResult.from_dict(found)
        for found in places
    ]
