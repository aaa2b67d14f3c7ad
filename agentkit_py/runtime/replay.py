"""ReplayGuard: an execution that repeats another does each step once, and decides as that did.

Code that runs again from its top is right only while it asks for the same steps in the same order.
The guard compares it with what is remembered: the journal of a run that paused, or the outputs of
an Inngest function's steps. Both are a `ReplayMemory`.

- A new step while remembered ones were not asked for again is refused: they would be orphaned.
- So are remembered steps that are left at the end, and other decisions.

Where the run began under another definition, the error says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, cast

from agentkit_py._core.json import JsonValue
from agentkit_py._core.validation import wrong_word
from agentkit_py.errors import ConfigurationError, ReplayError, VersionMismatchError

logger: logging.Logger = logging.getLogger("agentkit_py.inngest")

_DEFINITION = ".definition"
"""End of the keys of what runs were made of."""

_DIGESTS = (".state", ".result")
"""Ends of the keys of what is compared, but was not decided."""

_SHOWN = 10
"""Names of steps that an error lists at the most."""

OnVersionMismatch: TypeAlias = Literal["continue", "fail"]
"""The reaction of a run that began under another definition: go on where it can, or end."""


@dataclass(frozen=True, slots=True)
class Versioning:
    """The version of the code, as its author counts it."""

    version: str | None = None
    on_mismatch: OnVersionMismatch = "continue"
    """The reaction of a run that began under another version or definition."""

    def __post_init__(self) -> None:
        """Check the reaction.

        Raises:
            ConfigurationError: It is none.
        """
        wrong = wrong_word("on_version_mismatch", self.on_mismatch, ("continue", "fail"))
        if wrong:
            raise ConfigurationError(f"Versioning: {wrong}")


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision that is remembered."""

    value: JsonValue
    when: str
    """The time of the decision in words: ``"before the run paused"``."""

    step: str | None = None
    """The step that keeps it."""


_UNVERSIONED = Versioning()


class ReplayMemory(Protocol):
    """What earlier executions have left for this one."""

    @property
    def advice(self) -> str:
        """What to do about a replay that differs."""
        ...

    @property
    def steps(self) -> Container[str]:
        """Names of the steps that are done and keep their own name."""
        ...

    @property
    def places(self) -> Mapping[str, str]:
        """The names of all steps that are known to be done, each with its call of a group."""
        ...

    @property
    def decided(self) -> Mapping[str, Decision]:
        """Decisions, by key."""
        ...

    @property
    def changed(self) -> Sequence[Sequence[str]]:
        """Changes of the code that earlier executions have noted."""
        ...

    def left(self, asked: Iterable[str], /) -> int:
        """Return how many steps that are done have not been asked for in this execution."""
        ...


class ReplayGuard:
    """Compares one execution with what is remembered of those before it.

    Args:
        memory: What is remembered.
        versioning: The version of the code.
    """

    def __init__(self, memory: ReplayMemory, versioning: Versioning = _UNVERSIONED) -> None:
        self._memory = memory
        self._versioning = versioning
        self._defined: set[str] = set()
        self._last_decision = ""
        self.asked: dict[str, str] = {}
        """The steps of this execution, each with its call of a group."""

        self.steps_taken: int = 0
        """Number of steps asked for; in a group, of those before it."""

        self.decided: dict[str, JsonValue] = {}
        """Decisions of this execution that nothing keeps yet."""

        self.changes: list[str] = []
        """Changes of the code since the run began, as far as this execution has seen them."""

        self.refused: ReplayError | None = None
        """Why this execution must not go on."""

    @property
    def left(self) -> int:
        """Number of remembered steps that have not been asked for yet."""
        return self._memory.left(self.asked)

    @property
    def new_changes(self) -> list[str] | None:
        """The changes of the code, if no earlier execution has noted them; None: no news."""
        return self.changes if self.changes and self.changes not in self._memory.changed else None

    # Steps.

    def ask(self, step_id: str, place: str = "") -> None:
        """Note a step that the code asks for.

        Args:
            step_id: The step.
            place: The call of a group that asks; empty outside of groups.
        """
        self.asked[step_id] = place
        if not place:
            self.steps_taken = len(self.asked)

    def remembers(self, step_id: str) -> bool:
        """Return whether a step is known to be done; with a dot at the end, one inside it."""
        if step_id.endswith("."):
            return any(name.startswith(step_id) for name in self._memory.places)
        return step_id in self._memory.steps

    def check_new(self, step_id: str) -> None:
        """Check a step that is not remembered, before it is done.

        Raises:
            ReplayError: Remembered steps were not asked for again.
        """
        if self.refused is not None:
            raise self.refused
        place = self.asked.get(step_id)
        if place is not None and self.left and (not place or self._is_left_in(place)):
            raise self._refuse_left(f"step {step_id!r} is new", step_id)
        if self.changes and self.new_changes:
            changes = "; ".join(self.changes)
            logger.warning("A run goes on with other code than it began with: %s", changes)

    def _is_left_in(self, place: str) -> bool:
        """Return whether a call of a group remembers steps that it has not asked for again."""
        places = self._memory.places.items()
        return any(its.startswith(place) and name not in self.asked for name, its in places)

    def check_end(self) -> None:
        """Check the end of the code.

        Raises:
            ReplayError: Remembered steps were not asked for again, or a step was refused.
        """
        if self.refused is not None:
            raise self.refused
        if self.left and (self.asked or self._memory.places):
            raise self._refuse_left("the function has ended", None)

    def _refuse_left(self, reason: str, step_id: str | None) -> ReplayError:
        names = sorted(self._memory.places.keys() - self.asked.keys())
        shown = ", ".join(map(repr, names[:_SHOWN])) or "whose names are not known"
        more = "" if len(names) <= _SHOWN else f" and {len(names) - _SHOWN} more"
        problem = (
            f"This run remembers {self.left} steps that were not asked for again ({shown}{more}), "
            f"and {reason}."
        )
        if self._last_decision:
            problem += f" The last decision was this: {self._last_decision}."
        return self.stop(problem, step_id, names)

    # Decisions.

    def recorded(self, key: str) -> JsonValue:
        """Return what was decided when the run came here first; None if that is not known."""
        found = self._memory.decided.get(key)
        return None if found is None else found.value

    def decide(self, key: str, value: JsonValue, what: str) -> None:
        """Compare a decision with the one that is remembered, or note it.

        Where the code has changed, `on_start` may return other messages for calls that are done.

        Raises:
            ReplayError: They differ.
        """
        if not key.endswith(_DIGESTS):
            self._last_decision = f"{what}: {value!r:.120}"
        known = self._memory.decided.get(key)
        if known is None:
            self.decided[key] = value
        elif known.value != value and not (self.changes and key.endswith(".on_start")):
            error = self.stop(
                f"{what}: {known.value!r:.200} {known.when}, and {value!r:.200} in a replay.",
                known.step,
            )
            # A worker with the settings of the beginning may decide as it was decided.
            error.tried_again = error.tried_again or not key.endswith(_DIGESTS)
            raise error

    def define(self, prefix: str, parts: Callable[[], dict[str, str]]) -> None:
        """Compare the definition of what runs with the one that the run began with.

        Raises:
            VersionMismatchError: They differ, and such runs are not to go on.
        """
        version = self._versioning.version
        now = {**({} if version is None else {"version": version}), **parts()}
        key = f"{prefix}{_DEFINITION}"
        self._defined.add(key)
        known = self._memory.decided.get(key)
        if known is None:
            self.decided[key] = cast("JsonValue", now)
            return
        changes = _differences(cast("dict[str, str]", known.value), now)
        new = [change for change in changes if change not in self.changes]
        self.changes += new
        if new and self._versioning.on_mismatch == "fail":
            raise self.stop("Runs of another version are not to go on (on_version_mismatch).")

    # Ends.

    def refuse(self, error: ReplayError) -> ReplayError:
        """Refuse all further steps of this execution with an error; return it."""
        self.refused = error
        return error

    def stop(
        self, problem: str, step_id: str | None = None, remembered: Iterable[str] = ()
    ) -> ReplayError:
        """Refuse all further steps of this execution, and return the error."""
        facts: dict[str, Any] = {"step": step_id, "remembered": list(remembered)}
        # Code that has changed back is that of the beginning, but not that of the steps since.
        noted = [one for changes in self._memory.changed[-1:] for one in changes]
        changes = self.changes or noted or self._other_runs()
        if not changes:
            return self.refuse(ReplayError(f"{problem} {self._memory.advice}", **facts))
        return self.refuse(
            VersionMismatchError(
                f"{problem} The code has changed since the run began ({'; '.join(changes)}), and "
                "it cannot go on with this code: let it end with its own, or use "
                'patched("…").',
                changes=changes,
                **facts,
            )
        )

    def _other_runs(self) -> list[str]:
        """Return the runs that have begun in place of those that are remembered."""
        known = self._memory.decided
        new = [key for key in self.decided if key.endswith(_DEFINITION)]
        gone = [key for key in known if key.endswith(_DEFINITION) and key not in self._defined]
        if not new or not gone:
            return []
        words = [f"run {key.removesuffix(_DEFINITION)} is gone" for key in gone]
        return [*words, *(f"run {key.removesuffix(_DEFINITION)} is new" for key in new)]


def _differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return what has changed in words."""
    if before.get("version") != now.get("version"):
        first = f"version {before.get('version')} → {now.get('version')}"
    else:
        first = ""
    names = sorted((before.keys() | now.keys()) - {"version"})
    found = [first] if first else []
    for name in names:
        if name not in before:
            found.append(f"{name} is new")
        elif name not in now:
            found.append(f"{name} is gone")
        elif before[name] != now[name]:
            found.append(f"{name} is another")
    return found
