"""Overlap: a step that begins while another one is under way, outside of a group, is refused.

Inngest would keep one of them and do the other again.
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


def branch_path() -> str:
    """Return the name of the call of a group that runs now; empty outside of groups."""
    branch = _group_call.get()
    return "" if branch is None else branch.path


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


@dataclass(frozen=True, slots=True)
class _Running:
    """A step that is under way."""

    occupant: object
    """The task that began it, or the group that it is in."""

    task: object
    step_id: str


class Overlaps:
    """The steps of one execution that are under way.

    Args:
        refuse: Called with the error of an execution that must not go on; returns it.
    """

    def __init__(self, refuse: Callable[[ReplayError], ReplayError]) -> None:
        self._refuse = refuse
        self._task = _current_task()
        self._running: dict[_GroupCall | None, _Running] = {}

    @property
    def in_own_task(self) -> bool:
        """True in the task that the execution began in, where nothing else begins meanwhile."""
        return _current_task() is self._task

    def begin(self, step_id: str) -> None:
        """Note that a step begins.

        Raises:
            OverlapError: Another one is under way.
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

    def end(self) -> None:
        """Note that the step of this call, and with it those around it, is over."""
        branch = _group_call.get()
        while True:
            self._running.pop(branch, None)
            if branch is None:
                break
            branch = branch.group.branch

    def check_end(self) -> None:
        """Check the end of the function.

        Raises:
            ReplayError: A step that ended the request was caught.
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
            return error  # that step is this request's answer, and nobody listens to this one
        return self._refuse(error)


def _current_task() -> object:
    try:
        return asyncio.current_task()
    except RuntimeError:  # there is no loop, as in a test of this class alone
        return None


def _cancelled(task: object) -> bool:
    return isinstance(task, asyncio.Task) and cast("asyncio.Task[Any]", task).cancelled()
