"""Overlaps: refuses a step that begins while another step runs, outside of a group.

Inngest would record the output of either step and run the other again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from agentkit_py.errors import OverlapError, ReplayError

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
    """Calls whose steps may overlap; a group may be inside a branch of another group."""

    branch: _GroupCall | None
    number: int
    """The group's number in that branch."""


@dataclass(slots=True, eq=False)
class _GroupCall:
    """A branch of a group: a call whose own steps run in sequence."""

    group: _Group
    index: int
    groups: int = 0
    """The number of groups that began in this branch."""

    @property
    def path(self) -> str:
        """The branch's name, the same in each replay."""
        outer = "" if self.group.branch is None else self.group.branch.path
        return f"{outer}{self.group.number}.{self.index}/"


_group_call: ContextVar[_GroupCall | None] = ContextVar("agentkit_step_branch", default=None)


def branch_path() -> str:
    """Return the name of the branch that runs now; empty outside of groups."""
    branch = _group_call.get()
    return "" if branch is None else branch.path


class GuardedGroup:
    """The SDK's ``ctx.group``, which informs `Overlaps` of the steps that may overlap."""

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


@dataclass(frozen=True, slots=True)
class _Running:
    """A step that runs now."""

    occupant: object
    """The task that began it, or the group that contains it."""

    task: object
    step_id: str


class Overlaps:
    """The steps of an execution that run now.

    Args:
        refuse: Ends the execution with an error, and returns the error.
    """

    def __init__(self, refuse: Callable[[ReplayError], ReplayError]) -> None:
        self._refuse = refuse
        self._task = _current_task()
        self._running: dict[_GroupCall | None, _Running] = {}

    def begin(self, step_id: str) -> bool:
        """Record that a step begins.

        Returns:
            Whether this is the task of the execution, in which steps cannot begin together.

        Raises:
            OverlapError: Another step runs.
        """
        task = _current_task()
        occupant: object = task
        branch = _group_call.get()
        taken: list[tuple[_GroupCall | None, object]] = []
        while True:
            held = self._running.get(branch)
            if held is not None and held.occupant is not occupant and not _cancelled(held.task):
                raise self._overlap(held, step_id)
            taken.append((branch, occupant))
            if branch is None:
                break
            occupant, branch = branch.group, branch.group.branch
        for place, holder in taken:
            self._running[place] = _Running(holder, task, step_id)
        return task is self._task

    def end(self) -> None:
        """Record that the current step has ended, and the groups around it with it."""
        branch = _group_call.get()
        while True:
            self._running.pop(branch, None)
            if branch is None:
                break
            branch = branch.group.branch

    def check_end(self) -> None:
        """Check the end of the function.

        Raises:
            ReplayError: The code caught the exception by which a step ends the request.
        """
        if self._running:
            name = next(iter(self._running.values())).step_id
            raise ReplayError(
                f"The function returned although step {name!r} had ended this request. The SDK's "
                "exception was caught: leave out `except BaseException`, and "
                "asyncio.gather(…, return_exceptions=True) around steps.",
                step=name,
            )

    def _overlap(self, held: _Running, step_id: str) -> ReplayError:
        error = OverlapError(held.step_id, step_id)
        task = held.task
        if isinstance(task, asyncio.Task) and cast("asyncio.Task[Any]", task).done():
            return error  # that step's output answers the request; this error goes unseen
        return self._refuse(error)


def _current_task() -> object:
    try:
        return asyncio.current_task()
    except RuntimeError:  # without an event loop, as in a test of this class
        return None


def _cancelled(task: object) -> bool:
    return isinstance(task, asyncio.Task) and cast("asyncio.Task[Any]", task).cancelled()
