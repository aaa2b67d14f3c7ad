"""The guard: a durable run never does a step twice, and never goes on with a wrong record.

A function runs again from its top for each new step. That is right only while the code asks for the
same steps in the same order. So each step that we make keeps, beside its output, its own name, the
names of the steps before it that keep nothing (model calls by the server, waits), and what routers
and hooks decided. A replay is compared with that:

- A step that begins while another one is under way, outside of a group, is refused.
- A new step while remembered ones were not asked for again is refused: they would be orphaned.
- So are remembered steps that are left at the end of the function, and other decisions.

Where the run began under another definition the error says so, and the request is tried again.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias, cast

import inngest

from agentkit_py._core.json import JsonValue, as_object
from agentkit_py._core.validation import wrong_word
from agentkit_py.errors import (
    ConfigurationError,
    OverlapError,
    ReplayError,
    StepLimitError,
    VersionMismatchError,
)

logger: logging.Logger = logging.getLogger("agentkit_py.inngest")

MAX_STEPS = 1000
"""Steps of one run at the most (inngest/pkg/consts)."""

MAX_STATE = 32 * 1024 * 1024
"""Bytes of all steps' outputs of one run at the most (inngest/pkg/consts)."""

WARN_AT = 0.8
"""Share of a limit at which a warning is logged."""

PATCH = "agentkit.patched."
"""Beginning of the names of steps that keep which patches a run has gone through."""

_DEFINITION = ".definition"

_DIGESTS = (".state", ".result")
"""Ends of the keys of what is compared, but was not decided."""

KEY = "guard"
"""Where a step's output keeps what the guard compares."""

Ask: TypeAlias = Callable[[str, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Asks for a step."""

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


_inside: ContextVar[str | None] = ContextVar("agentkit_inside_step", default=None)


def inside_step() -> str | None:
    """Return the name of the step whose handler runs now."""
    return _inside.get()


@contextmanager
def inside(step_id: str) -> Generator[None]:
    """Mark the block as the handler of a step."""
    token = _inside.set(step_id)
    try:
        yield
    finally:
        _inside.reset(token)


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Steps that may overlap, inside others or none."""

    branch: _GroupCall | None
    number: int
    """Its number in that branch."""


@dataclass(slots=True, eq=False)
class _GroupCall:
    """One of the calls of a group: its own steps come one after another."""

    group: _Group
    index: int
    groups: int = 0
    """The number of groups that have begun in it."""

    @property
    def path(self) -> str:
        """Its name: the same in each replay."""
        outer = "" if self.group.branch is None else self.group.branch.path
        return f"{outer}{self.group.number}.{self.index}/"


_group_call: ContextVar[_GroupCall | None] = ContextVar("agentkit_step_branch", default=None)


@dataclass(slots=True)
class _RememberedSteps:
    """Names, decisions and size that the remembered steps hold."""

    steps: dict[str, str] = field(default_factory=dict[str, str])
    """Names of steps that say so themselves, with their branches."""

    others: dict[str, str] = field(default_factory=dict[str, str])
    """Names of steps that keep nothing themselves, with their branches."""

    decided: dict[str, tuple[JsonValue, str]] = field(
        default_factory=dict[str, tuple[JsonValue, str]]
    )
    """Decisions, and the step that keeps each."""

    @property
    def names(self) -> dict[str, str]:
        """Names of all steps that are known to be remembered, with their branches."""
        return {**self.steps, **self.others}

    changed: list[list[str]] = field(default_factory=list[list[str]])
    """Changes of the code that the run has noted."""

    size: int = 0
    """Bytes of outputs in all."""

    @classmethod
    def of(cls, outputs: Iterable[object]) -> _RememberedSteps:
        found = cls()
        for output in outputs:
            fields = as_object(output)
            facts = None if fields is None else as_object(fields.get(KEY))
            if facts is not None:
                found.take(facts)
        return found

    def take(self, facts: Mapping[str, Any]) -> None:
        """Add what one step keeps."""
        name = facts["step"]
        self.steps[name] = facts.get("lane", "")
        self.size += int(facts["size"])
        for other, size, branch in facts.get("after", ()):
            if other not in self.others:
                self.others[other] = branch
                self.size += int(size)
        self.changed += [facts["changed"]] if "changed" in facts else []
        for key, value in facts.get("decided", {}).items():
            self.decided[key] = (value, name)


class GuardedGroup:
    """``ctx.group`` of functions: the SDK's, with steps that may overlap."""

    def __init__(self, group: Any) -> None:
        self.sdk = group
        self._groups = 0

    async def parallel(
        self, callables: tuple[Callable[[], Awaitable[Any]], ...], *args: Any, **options: Any
    ) -> tuple[Any, ...]:
        """Run the callables as the SDK does."""
        outer = _group_call.get()
        if outer is None:
            self._groups += 1
            group = _Group(None, self._groups)
        else:
            outer.groups += 1
            group = _Group(outer, outer.groups)

        async def call(index: int, one: Callable[[], Awaitable[Any]]) -> Any:
            token = _group_call.set(_GroupCall(group, index))
            try:
                return await one()
            finally:
                _group_call.reset(token)

        return await self.sdk.parallel(
            tuple(partial(call, index, one) for index, one in enumerate(callables)),
            *args,
            **options,
        )


class StepMemory:
    """The steps of one execution of a function: those it asked for, and those it remembers.

    Args:
        remembered: The steps that the SDK has outputs for; None: not known, since the client has no
            `AgentKitMiddleware`.
        versioning: The version of the code.
    """

    def __init__(
        self, remembered: inngest.StepMemos | None, versioning: Versioning | None = None
    ) -> None:
        self._remembered = remembered
        self._began_with = 0 if remembered is None else remembered.size
        self._versioning = versioning or Versioning()
        self._task = _current_task()
        self._asked: dict[str, str] = {}
        self._running: dict[_GroupCall | None, tuple[object, object, str]] = {}
        self._record: _RememberedSteps | None = None
        self._unrecorded: list[tuple[str, object, str]] = []
        self._decided: dict[str, JsonValue] = {}
        self._defined: set[str] = set()
        self._last_decision = ""
        self._changes: list[str] = []
        self._failure: Exception | None = None
        self._patches: dict[str, bool] = {}
        self._waiting_patches: list[str] = []
        self.steps_taken: int = 0
        """Number of steps asked for; in a group, of those before it."""

        self.refused: ReplayError | None = None
        """Why this execution must not go on."""

    @property
    def left(self) -> int:
        """Number of remembered steps that have not been asked for yet."""
        return 0 if self._remembered is None else self._remembered.size

    @property
    def is_known(self) -> bool:
        """True if the remembered steps are known."""
        return self._remembered is not None

    @property
    def record(self) -> _RememberedSteps:
        """Names, decisions and size that the remembered steps hold."""
        if self._record is None:  # not before: middleware may have to decrypt them first
            outputs = () if self._remembered is None else self._remembered.values()
            self._record = _RememberedSteps.of(output.data for output in outputs)
        return self._record

    @property
    def is_grouped(self) -> bool:
        """True in a group, where steps that are remembered may come after new ones."""
        return _group_call.get() is not None

    def remembers(self, step_id: str) -> bool:
        """Return whether the step, or one whose name begins so, is known to be remembered."""
        if step_id.endswith("."):
            return any(name.startswith(step_id) for name in self.record.names)
        return step_id in self.record.steps

    # Steps that begin and end.

    def enter(self, step_id: str) -> None:
        """Check a step that is about to be asked for.

        Raises:
            ConfigurationError: It is inside another step or has another's name.
            StepLimitError: It is one too many.
            ReplayError: It overlaps with another, or this execution was refused before.
        """
        self.record  # noqa: B018 - read while nothing is taken from it
        if self.refused is not None:
            raise self.refused
        outer = _inside.get()
        if outer is not None:
            raise ConfigurationError(
                f"Step {step_id!r} was begun inside the step {outer!r}, and Inngest knows no steps "
                "in steps. A tool that uses ctx.step or runs agents needs @tool(steps=True); a "
                "guardrail that asks an agent is Guardrail(agent, trips=…); hooks of a history "
                "run inside a step as they are."
            )
        if step_id in self._asked:
            raise ConfigurationError(
                f"Two steps of this function are called {step_id!r}. Inngest would number them by "
                "the order in which they come, which a replay may change; name them differently."
            )
        self._occupy(step_id)
        self._asked[step_id] = _branch_path()
        if not self.is_grouped:
            self.steps_taken = len(self._asked)
        self._count()

    async def begin(self, step_id: str) -> None:
        """Do as `enter`, and let what else begins at the same time do so before anything is done.

        Raises:
            ConfigurationError: As in `enter`.
        """
        self.enter(step_id)
        if _current_task() is not self._task:
            await asyncio.sleep(0)
            if self.refused is not None:
                raise self.refused

    def finish(self, step_id: str, output: object = None, *, recorded: bool = True) -> None:
        """Note that a step was remembered, and is over."""
        branch = _group_call.get()
        while True:
            self._running.pop(branch, None)
            if branch is None:
                break
            branch = branch.group.branch
        if not recorded and step_id not in self.record.others:
            self._unrecorded.append((step_id, output, _branch_path()))

    def _occupy(self, step_id: str) -> None:
        task = _current_task()
        occupant: object = task
        branch = _group_call.get()
        taken: list[tuple[_GroupCall | None, object]] = []
        while True:
            held = self._running.get(branch)
            if held is not None and held[0] is not occupant and not _cancelled(held[1]):
                raise self._overlap(held, step_id)
            taken.append((branch, occupant))
            if branch is None:
                break
            occupant, branch = branch.group, branch.group.branch
        for place, holder in taken:
            self._running[place] = (holder, task, step_id)

    def _overlap(self, held: tuple[object, object, str], step_id: str) -> OverlapError:
        error = OverlapError(held[2], step_id)
        task = held[1]
        if not (isinstance(task, asyncio.Task) and cast("asyncio.Task[Any]", task).done()):
            self.refused = error
        return error  # else that step is this request's answer, and nobody listens to this one

    def _count(self) -> None:
        count = max(len(self._asked), self._began_with + 1 if not self.left else 0)
        if count > MAX_STEPS:
            raise StepLimitError(
                f"This function has more than {MAX_STEPS} steps, Inngest's limit for one run. Let "
                "the network end earlier (max_iter, RunLimits), or go on in another run: "
                "FunctionOptions(continue_as_new=900).",
                limit="steps",
                size=count,
                most=MAX_STEPS,
            )
        if len(self._asked) == int(MAX_STEPS * WARN_AT):
            logger.warning("This function has %d of %d possible steps", len(self._asked), MAX_STEPS)

    async def mark_patches(self, ask: Ask) -> None:
        """Let steps keep which patches the run has gone through, before what is next."""
        waiting, self._waiting_patches = self._waiting_patches, []
        for name in waiting:
            await ask(f"{PATCH}{name}", partial(self._marked, name))

    async def _marked(self, name: str) -> dict[str, Any]:
        return {"patched": name, KEY: self.facts(f"{PATCH}{name}", len(name))}

    def patched(self, name: str) -> bool:
        """Return whether the run takes the new way at the patch ``name``; see `patched`."""
        if name not in self._patches:
            known = self.remembers(f"{PATCH}{name}")
            began_with_this = self.is_grouped and not self._changes
            self._patches[name] = known or not self.left or began_with_this
            if self._patches[name] and inside_step() is None:
                self._waiting_patches.append(name)
        return self._patches[name]

    # Steps that are new.

    def check_new(self, step_id: str) -> None:
        """Check a step that is not remembered, before it is run or reported.

        Raises:
            ReplayError: Remembered steps were not asked for again.
        """
        if self.refused is not None:
            raise self.refused
        branch = self._asked.get(step_id)
        if self.left and branch is not None and (not branch or self._is_left_in(branch)):
            raise self.refuse(f"step {step_id!r} is new", step_id)
        if self._changes and self._changes not in self.record.changed:
            changes = "; ".join(self._changes)
            logger.warning("A run goes on with other code than it began with: %s", changes)

    def _is_left_in(self, branch: str) -> bool:
        """Return whether a call of a group remembers steps that it has not asked for again."""
        names = self.record.names.items()
        return any(place.startswith(branch) and name not in self._asked for name, place in names)

    def check_end(self) -> None:
        """Check the end of the function.

        Raises:
            ReplayError: Remembered steps were not asked for again, or a step was refused or caught.
        """
        if self.refused is not None:
            raise self.refused
        if self._running:
            name = next(iter(self._running.values()))[2]
            raise ReplayError(
                f"The function returned although step {name!r} had ended this request. The SDK's "
                "exception was caught: leave out `except BaseException`, and "
                "asyncio.gather(…, return_exceptions=True) around steps.",
                step=name,
            )
        if self.left and (self._asked or self.record.steps):
            raise self.refuse("the function has ended", None)

    def refuse(self, reason: str, step_id: str | None) -> ReplayError:
        """Return the error of an execution whose steps are not those that are remembered."""
        names = sorted(self.record.names.keys() - self._asked.keys())
        shown = ", ".join(map(repr, names[:10])) or "whose names are not known"
        more = "" if len(names) <= 10 else f" and {len(names) - 10} more"  # noqa: PLR2004 - ten are enough to read
        problem = (
            f"This run remembers {self.left} steps that were not asked for again ({shown}{more}), "
            f"and {reason}."
        )
        if self._last_decision:
            problem += f" The last decision was this: {self._last_decision}."
        return self.stop(problem, step_id, names)

    def stop(
        self, problem: str, step_id: str | None = None, remembered: Iterable[str] = ()
    ) -> ReplayError:
        """Refuse all further steps of this execution, and return the error."""
        facts: dict[str, Any] = {"step": step_id, "remembered": list(remembered)}
        # Code that has changed back is that of the beginning, but not that of the steps since.
        noted = [one for changes in self.record.changed[-1:] for one in changes]
        changes = self._changes or noted or self._other_runs()
        if changes:
            listed = "; ".join(changes)
            error: ReplayError = VersionMismatchError(
                f"{problem} The code has changed since the run began ({listed}), and it cannot go "
                'on with this code: let it end with its own, or use patched("…").',
                **facts,
            )
            assert isinstance(error, VersionMismatchError)
            error.changes = tuple(changes)
        else:
            error = ReplayError(
                f"{problem} Code between steps must come to the same end on each replay: no "
                "chance, no clock, nothing that others change; or was it deployed under waiting "
                'runs? Then use version=… and patched("…").',
                **facts,
            )
        self.refused = error
        return error

    def _other_runs(self) -> list[str]:
        """Return the runs that have begun in place of those that are remembered."""
        known = self.record.decided
        new = [key for key in self._decided if key.endswith(_DEFINITION)]
        gone = [key for key in known if key.endswith(_DEFINITION) and key not in self._defined]
        if not new or not gone:
            return []
        words = [f"run {key.removesuffix(_DEFINITION)} is gone" for key in gone]
        return [*words, *(f"run {key.removesuffix(_DEFINITION)} is new" for key in new)]

    # What steps keep.

    def facts(self, step_id: str, size: int) -> dict[str, Any]:
        """Return what a step that is done now keeps for later replays.

        Raises:
            StepLimitError: All outputs together are too large.
        """
        after = [[name, _size(output), branch] for name, output, branch in self._unrecorded]
        whole = self.record.size + sum(int(facts[1]) for facts in after) + size
        if whole > MAX_STATE:
            raise StepLimitError(
                f"Step {step_id!r} gave {size:,} bytes; with the {whole - size:,} of the steps "
                f"before it this is more than the {MAX_STATE:,} that Inngest keeps for one run. "
                "Store the data yourself and return references, or go on in another run.",
                limit="state",
                size=whole,
                most=MAX_STATE,
            )
        if whole - size <= MAX_STATE * WARN_AT < whole:
            logger.warning("The steps of this run gave %d of at most %d bytes", whole, MAX_STATE)
        found: dict[str, Any] = {"step": step_id, "size": size}
        if self._asked[step_id]:
            found["lane"] = self._asked[step_id]
        if after:
            found["after"] = after
        if self._decided:
            found["decided"] = dict(self._decided)
        if self._changes and self._changes not in self.record.changed:
            found["changed"] = list(self._changes)
        return found

    def failed(self, error: Exception) -> Exception:
        """Keep and return what the step that this execution really runs raises to the SDK."""
        self._failure = error
        return error

    def raise_failure(self) -> None:
        """Raise the error of this execution's own step.

        The SDK (0.5.19) does not report a step's errors that say when to try again, or not to, but
        the function's: one that stays inside a group is lost.
        """
        if self._failure is not None:
            raise self._failure

    # Decisions.

    def recorded(self, key: str) -> JsonValue:
        """Return what was decided when the run came here first; None if no step keeps it."""
        found = self.record.decided.get(key)
        return None if found is None else found[0]

    def decide(self, key: str, value: JsonValue, what: str) -> None:
        """Compare a decision with the one that is remembered, or let the next step keep it.

        Where the code has changed, `on_start` may return other messages for calls that are done.

        Raises:
            ReplayError: They differ.
        """
        if not key.endswith(_DIGESTS):
            self._last_decision = f"{what}: {value!r:.120}"
        known = self.record.decided.get(key)
        if known is None:
            self._decided[key] = value
        elif known[0] != value and not (self._changes and key.endswith(".on_start")):
            raise self.stop(
                f"{what}: {known[0]!r:.200} when step {known[1]!r} was done, and {value!r:.200} "
                "in a replay.",
                known[1],
            )

    def define(self, prefix: str, parts: Callable[[], dict[str, str]]) -> None:
        """Compare the definition of what runs with the one that the run began with.

        Raises:
            VersionMismatchError: They differ, and such runs are not to go on.
        """
        version = self._versioning.version
        now = {**({} if version is None else {"version": version}), **parts()}
        key = f"{prefix}{_DEFINITION}"
        self._defined.add(key)
        known = self.record.decided.get(key)
        if known is None:
            self._decided[key] = cast("JsonValue", now)
            return
        changes = _differences(cast("dict[str, str]", known[0]), now)
        new = [change for change in changes if change not in self._changes]
        self._changes += new
        if new and self._versioning.on_mismatch == "fail":
            raise self.stop("Runs of another version are not to go on (on_version_mismatch).")


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


def _size(output: object) -> int:
    return len(json.dumps(output, default=str))


def _branch_path() -> str:
    branch = _group_call.get()
    return "" if branch is None else branch.path


def _current_task() -> object:
    try:
        return asyncio.current_task()
    except RuntimeError:  # there is no loop, as in a test of this class alone
        return None


def _cancelled(task: object) -> bool:
    return isinstance(task, asyncio.Task) and cast("asyncio.Task[Any]", task).cancelled()
