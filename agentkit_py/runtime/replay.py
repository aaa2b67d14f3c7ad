"""ReplayGuard: compares a replay with the execution that it repeats.

Code that runs again from its top must request the same steps and make the same decisions. The guard
compares it with a `ReplayMemory`: the journal of a paused run, or the outputs of the steps of an
Inngest function. It refuses:

- a new step while remembered steps were not requested again: they would be orphaned,
- the end of the code while remembered steps are left,
- a decision that differs.

Where the code has changed since the run began, the error lists the changes.
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
"""Suffix of the keys of definitions."""

_DIGESTS = (".state", ".result")
"""Suffixes of the keys of values that are compared, but are not decisions."""

_SHOWN = 10
"""The maximum number of steps that an error lists."""

OnVersionMismatch: TypeAlias = Literal["continue", "fail"]
"""The reaction of a run that began under another definition: continue if possible, or fail."""


@dataclass(frozen=True, slots=True)
class Versioning:
    """The version of the code, as its author counts it."""

    version: str | None = None
    on_mismatch: OnVersionMismatch = "continue"
    """The reaction of a run that began under another version or definition."""

    def __post_init__(self) -> None:
        """Check the reaction.

        Raises:
            ConfigurationError: The reaction is unknown.
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
    """The memory of earlier executions of the same code."""

    @property
    def advice(self) -> str:
        """Advice for the error of a replay that differs."""
        ...

    @property
    def steps(self) -> Container[str]:
        """Names of the completed steps whose own output holds their name."""
        ...

    @property
    def places(self) -> Mapping[str, str]:
        """Names of all steps known to be completed, each with its branch of a group."""
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
        """Return the number of completed steps that this execution has not requested."""
        ...


class ReplayGuard:
    """Compares an execution with the memory of the executions before it.

    Args:
        memory: The memory.
        versioning: The version of the code.
    """

    def __init__(self, memory: ReplayMemory, versioning: Versioning = _UNVERSIONED) -> None:
        self._memory = memory
        self._versioning = versioning
        self._defined: set[str] = set()
        self._last_decision = ""
        self.asked: dict[str, str] = {}
        """The steps that this execution requested, each with its branch of a group."""

        self.steps_taken: int = 0
        """Number of steps requested; inside a group, before the group."""

        self.decided: dict[str, JsonValue] = {}
        """Decisions of this execution that no earlier execution recorded."""

        self.changes: list[str] = []
        """Changes of the code since the run began that this execution has found."""

        self.refused: ReplayError | None = None
        """The reason why this execution must end; None: it may continue."""

    @property
    def left(self) -> int:
        """Number of remembered steps that were not requested yet."""
        return self._memory.left(self.asked)

    @property
    def new_changes(self) -> list[str] | None:
        """The changes of the code, unless an earlier execution recorded the same changes."""
        return self.changes if self.changes and self.changes not in self._memory.changed else None

    # Steps.

    def ask(self, step_id: str, place: str = "") -> None:
        """Record that the code requests a step.

        Args:
            step_id: The step.
            place: The branch of a group that requests it; empty outside of groups.
        """
        self.asked[step_id] = place
        if not place:
            self.steps_taken = len(self.asked)

    def remembers(self, step_id: str) -> bool:
        """Return whether a step is known to be done; an id that ends with a dot: any step in it."""
        if step_id.endswith("."):
            return any(name.startswith(step_id) for name in self._memory.places)
        return step_id in self._memory.steps

    def check_new(self, step_id: str) -> None:
        """Check a step that is not remembered, before it runs.

        Raises:
            ReplayError: Remembered steps were not requested again.
        """
        if self.refused is not None:
            raise self.refused
        place = self.asked.get(step_id)
        if place is not None and self.left and (not place or self._is_left_in(place)):
            raise self._refuse_left(f"step {step_id!r} is new", step_id)
        if self.changes and self.new_changes:
            changes = "; ".join(self.changes)
            logger.warning("A run continues with other code than it began with: %s", changes)

    def _is_left_in(self, place: str) -> bool:
        """Return whether a branch of a group remembers steps that it has not requested again."""
        places = self._memory.places.items()
        return any(its.startswith(place) and name not in self.asked for name, its in places)

    def check_end(self) -> None:
        """Check the end of the code.

        Raises:
            ReplayError: Remembered steps were not requested again, or a step was refused.
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
            f"This run remembers {self.left} steps that were not requested again ({shown}{more}), "
            f"and {reason}."
        )
        if self._last_decision:
            problem += f" The last decision was this: {self._last_decision}."
        return self.stop(problem, step_id, names)

    # Decisions.

    def recorded(self, key: str) -> JsonValue:
        """Return the decision that the first execution made here; None if it is not known."""
        found = self._memory.decided.get(key)
        return None if found is None else found.value

    def decide(self, key: str, value: JsonValue, what: str) -> None:
        """Compare a decision with the remembered decision, or record it.

        Where the code has changed, `on_start` may return other messages for completed calls.

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
        """Compare the definition of a run's parts with the definition at its beginning.

        Raises:
            VersionMismatchError: They differ, and ``on_version_mismatch`` is ``"fail"``.
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
            raise self.stop("Runs of another version must end (on_version_mismatch).")

    # Ends.

    def refuse(self, error: ReplayError) -> ReplayError:
        """Refuse all further steps of this execution with ``error``; return it."""
        self.refused = error
        return error

    def stop(
        self, problem: str, step_id: str | None = None, remembered: Iterable[str] = ()
    ) -> ReplayError:
        """Refuse all further steps of this execution, and return the error."""
        facts: dict[str, Any] = {"step": step_id, "remembered": list(remembered)}
        # Code that was changed back equals the code of the beginning, but not of the steps since.
        noted = [one for changes in self._memory.changed[-1:] for one in changes]
        changes = self.changes or noted or self._other_runs()
        if not changes:
            return self.refuse(ReplayError(f"{problem} {self._memory.advice}", **facts))
        return self.refuse(
            VersionMismatchError(
                f"{problem} The code has changed since the run began ({'; '.join(changes)}), and "
                "it cannot continue with this code: let it end with its own, or use "
                'patched("…").',
                changes=changes,
                **facts,
            )
        )

    def _other_runs(self) -> list[str]:
        """Return the runs that began in place of remembered runs, in words."""
        known = self._memory.decided
        new = [key for key in self.decided if key.endswith(_DEFINITION)]
        gone = [key for key in known if key.endswith(_DEFINITION) and key not in self._defined]
        if not new or not gone:
            return []
        words = [f"run {key.removesuffix(_DEFINITION)} is gone" for key in gone]
        return [*words, *(f"run {key.removesuffix(_DEFINITION)} is new" for key in new)]


def _differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the changes between two definitions, in words."""
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
