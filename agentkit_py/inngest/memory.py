"""StepMemory: the steps of a function's execution, and what their outputs record for replays.

A function runs again from its top for each new step. So the output of each of our steps also
records its name, the names of earlier steps whose outputs are not ours (model calls by the server,
waits), and the decisions of routers and hooks. `ReplayGuard` compares a replay with that.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeAlias

import inngest

from agentkit_py._core.json import as_object
from agentkit_py.errors import ConfigurationError, StepLimitError
from agentkit_py.inngest.overlap import Overlaps, branch_path, inside_step
from agentkit_py.runtime.replay import Decision, ReplayGuard, Versioning

logger: logging.Logger = logging.getLogger("agentkit_py.inngest")

MAX_STEPS = 1000
"""The maximum number of steps of a run (inngest/pkg/consts)."""

MAX_STATE = 32 * 1024 * 1024
"""The maximum size of the outputs of all steps of a run, in bytes (inngest/pkg/consts)."""

WARN_AT = 0.8
"""The share of a limit at which a warning is logged."""

PATCH = "agentkit.patched."
"""Prefix of the names of steps that record the patches which a run has passed."""

KEY = "guard"
"""The key in a step's output under which the guard's facts are recorded."""

Ask: TypeAlias = Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Requests a step."""


@dataclass(slots=True)
class _Facts:
    """The facts that the steps of a run recorded."""

    steps: dict[str, str] = field(default_factory=dict[str, str])
    others: dict[str, str] = field(default_factory=dict[str, str])
    decided: dict[str, Decision] = field(default_factory=dict[str, Decision])
    changed: list[list[str]] = field(default_factory=list[list[str]])
    size: int = 0

    def add(self, facts: Mapping[str, Any]) -> None:
        """Add the facts that a step recorded."""
        name = facts["step"]
        self.steps[name] = facts.get("lane", "")
        self.size += int(facts["size"])
        for other, size, branch in facts.get("after", ()):
            if other not in self.others:
                self.others[other] = branch
                self.size += int(size)
        self.changed += [facts["changed"]] if "changed" in facts else []
        for key, value in facts.get("decided", {}).items():
            self.decided[key] = Decision(value, f"when step {name!r} was done", name)


class RememberedSteps:
    """The `ReplayMemory` in the outputs of a function's steps.

    Args:
        outputs: The SDK's outputs of completed steps; None: unknown, since the client has no
            `AgentKitMiddleware`.
    """

    advice = (
        "Code between steps must give the same result on each replay: no random values, no clock, "
        "no setting, no data that others change. If new code was deployed under waiting runs, use "
        'version=… and patched("…").'
    )

    def __init__(self, outputs: inngest.StepMemos | None) -> None:
        self._outputs = outputs

    @property
    def is_known(self) -> bool:
        """True if the remembered steps are known."""
        return self._outputs is not None

    @property
    def count(self) -> int:
        """Number of completed steps whose outputs the SDK has not returned yet."""
        return 0 if self._outputs is None else self._outputs.size

    def left(self, asked: Iterable[str], /) -> int:
        """Return `count`, which includes steps whose names are unknown."""
        return self.count

    @cached_property
    def facts(self) -> _Facts:
        """The facts in the outputs, read when they are needed: before the SDK returns the first.

        Not earlier: middleware may have to decrypt them first.
        """
        found = _Facts()
        for output in () if self._outputs is None else self._outputs.values():
            fields = as_object(output.data)
            facts = None if fields is None else as_object(fields.get(KEY))
            if facts is not None:
                found.add(facts)
        return found

    @property
    def steps(self) -> Mapping[str, str]:
        """Names of steps that their own outputs record, with their branches."""
        return self.facts.steps

    @property
    def others(self) -> Mapping[str, str]:
        """Names of steps that later steps recorded, with their branches."""
        return self.facts.others

    @property
    def places(self) -> Mapping[str, str]:
        """Names of all steps known to be completed, with their branches."""
        return {**self.steps, **self.others}

    @property
    def decided(self) -> Mapping[str, Decision]:
        """Decisions by key, with the step that recorded each."""
        return self.facts.decided

    @property
    def changed(self) -> list[list[str]]:
        """Changes of the code that earlier steps recorded."""
        return self.facts.changed

    @property
    def size(self) -> int:
        """The size of all outputs in bytes."""
        return self.facts.size


class Patches:
    """The patches that a run has passed; a step records each of them.

    Args:
        guard: The guard of the execution.
    """

    def __init__(self, guard: ReplayGuard) -> None:
        self._guard = guard
        self._taken: dict[str, bool] = {}
        self._waiting: list[str] = []

    def take(self, name: str) -> bool:
        """Return whether the run takes the new code at the patch ``name``; see `patched`."""
        if name not in self._taken:
            guard = self._guard
            known = guard.remembers(f"{PATCH}{name}")
            began_with_this = bool(branch_path()) and not guard.changes
            self._taken[name] = known or not guard.left or began_with_this
            if self._taken[name] and inside_step() is None:
                self._waiting.append(name)
        return self._taken[name]

    def waiting(self) -> list[str]:
        """Return the patches that no step has recorded yet, each once."""
        waiting, self._waiting = self._waiting, []
        return waiting


class StepMemory:
    """The steps of a function's execution: those requested so far, and those remembered.

    Args:
        remembered: The SDK's outputs of completed steps; None: unknown, since the client has no
            `AgentKitMiddleware`.
        versioning: The version of the code.
    """

    def __init__(
        self, remembered: inngest.StepMemos | None, versioning: Versioning | None = None
    ) -> None:
        self.remembered: RememberedSteps = RememberedSteps(remembered)
        self.guard: ReplayGuard = ReplayGuard(self.remembered, versioning or Versioning())
        self._overlaps = Overlaps(self.guard.refuse)
        self._patches = Patches(self.guard)
        self._began_with = self.remembered.count
        self._unrecorded: list[tuple[str, object, str]] = []
        self._failure: Exception | None = None

    @property
    def left(self) -> int:
        """Number of remembered steps that were not requested yet."""
        return self.remembered.count

    @property
    def is_grouped(self) -> bool:
        """True in a group, where remembered steps may come after new steps."""
        return bool(branch_path())

    # Steps that begin and end.

    def enter(self, step_id: str) -> bool:
        """Check a step that is about to be requested; return whether others may begin with it.

        Raises:
            ConfigurationError: It is inside another step, or its name is taken.
            StepLimitError: The run has too many steps.
            ReplayError: It overlaps another step, or this execution was refused before.
        """
        _ = self.remembered.facts  # before the SDK returns the first output
        if self.guard.refused is not None:
            raise self.guard.refused
        outer = inside_step()
        if outer is not None:
            raise ConfigurationError(
                f"Step {step_id!r} was begun inside the step {outer!r}, and Inngest has no steps "
                "inside steps. A tool that uses ctx.step or runs agents needs @tool(steps=True); a "
                "guardrail that asks an agent is Guardrail(agent, trips=…); hooks of a history "
                "run inside a step as they are."
            )
        if step_id in self.guard.asked:
            raise ConfigurationError(
                f"Two steps of this function are called {step_id!r}. Inngest would number them by "
                "the order in which they come, which a replay may change; name them differently."
            )
        in_own_task = self._overlaps.begin(step_id)
        self.guard.ask(step_id, branch_path())
        self._count()
        return not in_own_task

    async def begin(self, step_id: str) -> None:
        """Check as `enter` does; steps that begin at the same time are checked before any runs.

        Raises:
            ConfigurationError: As in `enter`.
        """
        if self.enter(step_id):
            await asyncio.sleep(0)
            if self.guard.refused is not None:
                raise self.guard.refused

    def finish(self, step_id: str, output: object = None, *, recorded: bool = True) -> None:
        """Record that a remembered step has ended."""
        self._overlaps.end()
        if not recorded and step_id not in self.remembered.others:
            self._unrecorded.append((step_id, output, branch_path()))

    def _count(self) -> None:
        asked = len(self.guard.asked)
        count = max(asked, self._began_with + 1 if not self.left else 0)
        if count > MAX_STEPS:
            raise StepLimitError(
                f"This function has more than {MAX_STEPS} steps, Inngest's limit for one run. Let "
                "the network end earlier (max_iter, RunLimits), or continue in another run: "
                "FunctionOptions(continue_as_new=900).",
                limit="steps",
                size=count,
                most=MAX_STEPS,
            )
        if asked == int(MAX_STEPS * WARN_AT):
            logger.warning("This function has %d of %d possible steps", asked, MAX_STEPS)

    def check_end(self) -> None:
        """Check the end of the function.

        Raises:
            ReplayError: Remembered steps were not requested again, or a step was refused or caught.
        """
        if self.guard.refused is None:
            self._overlaps.check_end()
        self.guard.check_end()

    # Facts that steps record.

    def patched(self, name: str) -> bool:
        """Return whether the run takes the new code at the patch ``name``; see `patched`."""
        return self._patches.take(name)

    async def mark_patches(self, ask: Ask) -> None:
        """Record the patches that the run has passed, each in a step, before the next step."""
        for name in self._patches.waiting():
            await ask(f"{PATCH}{name}", partial(self._marked, name))

    async def _marked(self, name: str) -> dict[str, Any]:
        return {"patched": name, KEY: self.facts(f"{PATCH}{name}", len(name))}

    def facts(self, step_id: str, size: int) -> dict[str, Any]:
        """Return the facts that a step which runs now records for replays.

        Raises:
            StepLimitError: The outputs of all steps together are too large.
        """
        after = [[name, _size(output), branch] for name, output, branch in self._unrecorded]
        whole = self.remembered.size + sum(int(facts[1]) for facts in after) + size
        if whole > MAX_STATE:
            raise StepLimitError(
                f"Step {step_id!r} gave {size:,} bytes; with the {whole - size:,} of the steps "
                f"before it this is more than the {MAX_STATE:,} that Inngest keeps for one run. "
                "Store the data yourself and return references, or continue in another run.",
                limit="state",
                size=whole,
                most=MAX_STATE,
            )
        if whole - size <= MAX_STATE * WARN_AT < whole:
            logger.warning("The steps of this run gave %d of at most %d bytes", whole, MAX_STATE)
        found: dict[str, Any] = {"step": step_id, "size": size}
        if self.guard.asked[step_id]:
            found["lane"] = self.guard.asked[step_id]
        if after:
            found["after"] = after
        if self.guard.decided:
            found["decided"] = dict(self.guard.decided)
        if self.guard.new_changes:
            found["changed"] = list(self.guard.new_changes)
        return found

    def failed(self, error: Exception) -> Exception:
        """Hold and return the error that the step of this request raises to the SDK."""
        self._failure = error
        return error

    def raise_failure(self) -> None:
        """Raise the error of the step of this request, if it failed.

        Of errors that say when to try again, or not to, the SDK (0.5.19) reports the function's,
        not a step's: such an error inside a group would be lost.
        """
        if self._failure is not None:
            raise self._failure


def _size(output: object) -> int:
    return len(json.dumps(output, default=str))
