"""Taking turns on a thread: one run at a time, each user message answered once, state kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

from agentkit_py.errors import ConfigurationError, ThreadBusyError
from agentkit_py.history.runs import RunRecord, RunStore
from agentkit_py.runtime.port import Runtime

T = TypeVar("T")

_FIRST_WAIT, _LONGEST_WAIT = 0.05, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """How runs share a thread: ``SqliteHistory("support.db", turns=Turns())``.

    Runs of one thread take turns; a user's message with an id that was answered before gets the
    stored outcome, and no model is called; a run that is given a thread and no state goes on with
    the data of the run before.

    Raises:
        ConfigurationError: ``lease`` is not positive.
    """

    on_busy: Literal["wait", "error"] = "wait"
    """What a run does that finds another one at work: wait, or raise `ThreadBusyError` at once."""

    lease: float = 300.0
    """Seconds after which a run that has saved nothing is taken for dead."""

    def __post_init__(self) -> None:
        """Check the number."""
        if self.lease <= 0:
            raise ConfigurationError(f"Turns: lease must be more than 0 seconds, not {self.lease}.")


class _Effect(Protocol):
    def __call__(self, name: str, call: Callable[[], Awaitable[T]], /) -> Awaitable[T]: ...


@dataclass(slots=True, kw_only=True)
class Turn:
    """One run's turn on its thread."""

    how: Turns
    store: RunStore
    runtime: Runtime
    effect: _Effect
    prefix: str
    thread_id: str
    run_id: str
    """The id of the user's message."""

    owner: str
    """What this run is called in the lease; another run for the same message is another."""

    async def take(self) -> None:
        """Wait for the turn.

        Raises:
            ThreadBusyError: It is another run's, and this one is not to wait.
        """
        await self._lock("turn.1", waits=self.how.on_busy == "wait")

    async def _lock(self, name: str, *, waits: bool) -> None:
        lock = partial(self.store.lock_thread, self.thread_id, self.owner, self.how.lease)
        tries, wait = 0, _FIRST_WAIT
        while not await self.effect(f"{name}.{tries}", lock):
            if not waits:
                raise ThreadBusyError(self.thread_id)
            step = f"{self.prefix}.history.{name}.{tries}.wait"
            await self.runtime.step.sleep(step, timedelta(seconds=wait))
            tries, wait = tries + 1, min(2 * wait, _LONGEST_WAIT)

    async def prolong(self) -> None:
        """Begin the lease anew, before something is saved.

        Raises:
            ThreadBusyError: It was over, and another run has the thread now.
        """
        if not await self.store.lock_thread(self.thread_id, self.owner, self.how.lease):
            raise ThreadBusyError(self.thread_id)

    async def let_go(self) -> None:
        """Let others have the thread, where there is nothing left to remember that for."""
        await self.store.unlock_thread(self.thread_id, self.owner)

    async def give_up(self, name: str = "turn.1.pause") -> None:
        """Let others have the thread."""
        unlock = partial(self.store.unlock_thread, self.thread_id, self.owner)
        await self.effect(name, unlock)

    async def away(self, step_id: str, wait: Callable[[], Awaitable[T]]) -> T:
        """Let others have the thread while ``wait`` waits, which may take days.

        Steps are named by what is waited for: several parts of a run may wait at the same time,
        and go on in another order on each replay.
        """
        await self.give_up(f"turn.{step_id}.pause")
        found = await wait()
        # Whoever comes back has begun already, so it waits for its turn whatever `on_busy` says.
        await self._lock(f"turn.{step_id}.back", waits=True)
        return found

    async def recall(self) -> tuple[RunRecord | None, RunRecord | None]:
        """What is known of this run from before, and the newest run that left a state."""

        async def ask() -> Any:
            runs = [await self.store.load_run(self.thread_id, one) for one in (self.run_id, None)]
            return [None if run is None else [run.id, run.to_dict()] for run in runs]

        own, newest = map(self._read, await self.effect("recall", ask))
        return own, newest

    def _read(self, record: Any) -> RunRecord | None:
        where = f"Thread {self.thread_id!r}"
        return None if record is None else RunRecord.from_dict(*record, where=where)

    async def end(
        self,
        status: str,
        state: Any,
        results: Sequence[str],
        stop_reason: str | None,
        *,
        lost: bool = False,
    ) -> None:
        """Keep how the run ended, and give the thread back."""
        run = RunRecord(
            id=self.run_id,
            status=status,
            state=state,
            results=tuple(results),
            stop_reason=stop_reason,
        )

        async def close() -> None:
            await self.store.save_run(self.thread_id, run)
            await self.store.unlock_thread(self.thread_id, self.owner)

        await (close() if lost else self.effect("turn.end", close))
