"""The state's data of a thread whose runs have no lease: read when a run begins, saved at its end.

Runs with a lease keep the data in the record that ends it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from agentkit_py._core.json import JsonObject, JsonValue, as_object
from agentkit_py.errors import StateError
from agentkit_py.history.abilities import PagedStore, abilities_of
from agentkit_py.history.runs import OpenedRun, RunRecord, RunStore
from agentkit_py.state import State

logger: logging.Logger = logging.getLogger("agentkit_py.history")


class RunOnce(Protocol):
    """Does something of a thread once, as a step of its name."""

    async def __call__(self, name: str, call: Callable[[], Awaitable[Any]], /) -> Any:
        """Do the work, or return its recorded result."""
        ...


async def opened_unleased(store: PagedStore, thread_id: str, limit: int) -> OpenedRun:
    """Read the initial data of a run without a lease: the data, and the last ``limit`` results.

    Raises:
        ThreadNotFoundError: The thread does not exist.
    """
    able = abilities_of(store)
    if able.first_state is not None:
        return await able.first_state.open_unleased(thread_id, limit)
    count, page = await store.newest(thread_id, limit)
    run = None if able.runs is None else await able.runs.load_run(thread_id)
    return OpenedRun.of_page(None, run, count, page)


@dataclass(slots=True)
class ThreadState:
    """The data with which a thread's next run begins."""

    store: RunStore
    state: State[Any]
    thread_id: str
    run_id: str
    resumes: bool
    """True if the run was given no state, so that it begins with the data of the run before."""

    is_new: bool
    """True if the caller named no thread, so that no run came before."""

    _found: JsonObject | None = field(default=None, init=False)
    """The data that the store has; None: none."""

    _was_read: bool = field(default=False, init=False)
    _next: JsonObject | None = field(default=None, init=False)
    """The data that the next run would begin with anyway; None: not known."""

    @classmethod
    def of(
        cls, store: object, state: State[Any], run_id: str, *, resumes: bool, is_new: bool
    ) -> ThreadState | None:
        """Return the state of a run's thread; None where the store keeps no records of runs."""
        thread_id, runs = state.thread_id, abilities_of(store).runs
        if thread_id is None or runs is None:
            return None
        return cls(runs, state, thread_id, run_id, resumes, is_new)

    def beside(self, opened: OpenedRun) -> JsonValue:
        """Return the number of results as their step keeps it: with the data, where there are any.

        So that a durable run has no step more for them.
        """
        run = opened.previous
        if run is None or run.state is None or self.is_new:
            return opened.count
        return {"count": opened.count, "state": run.state}

    def split(self, kept: JsonValue) -> int:
        """Return the number of results in the output of `beside`, and take the data."""
        record = as_object(kept)
        self._was_read = True
        self._next = None if record is None else as_object(record["state"])
        self._found = self._next if self.resumes else None
        return cast("int", kept if record is None else record["count"])

    async def begin(self, run_once: RunOnce, remembers: Callable[[str], bool]) -> None:
        """Give the state the data of the run before.

        Args:
            run_once: Does a step.
            remembers: Returns whether a step was done before. A durable run that an older version
                began did not read the data here, and still does not.
        """
        was_here = remembers("append-user-message") and not remembers("state")
        if not self._was_read and self.resumes and not self.is_new and not was_here:
            self._found = await run_once("state", self._read)
        if self._found is not None:
            self._next = self._found
            try:
                self.state.load({**self._found, **(self.state.goes_on_with or {})})
            except StateError as error:
                logger.warning(
                    "Thread %r continues with the default state, since the data of its last run do "
                    "not fit: %s",
                    *(self.thread_id, error),
                )
        elif self.resumes:
            self._next = self._plain()  # the default, and the initial state of each of its runs

    async def end(self, run_once: RunOnce, results: Sequence[str], stop_reason: str | None) -> None:
        """Save the data, unless the next run begins with the same anyway."""
        data = self._plain()
        if data is None or data == self._next or (self._next is None and not data):
            return

        async def save() -> None:
            run = RunRecord(
                id=self.run_id,
                status="completed",
                state=data,
                stop_reason=stop_reason,
                results=tuple(results),
            )
            await self.store.save_run(self.thread_id, run)

        await run_once("state.end", save)

    async def _read(self) -> JsonObject | None:
        if not self.resumes or self.is_new:
            return None
        run = await self.store.load_run(self.thread_id)
        return None if run is None else run.state

    def _plain(self) -> JsonObject | None:
        """Return the data as JSON; None: they are none, and the run says so."""
        try:
            return self.state.dump()
        except StateError as error:
            logger.warning(
                "Thread %r does not keep its state: its next run continues with the default state, "
                "since %s",
                *(self.thread_id, error),
            )
            return None
