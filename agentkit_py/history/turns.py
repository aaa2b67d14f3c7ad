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

    _takes: int = 0

    async def take(self) -> None:
        """Wait for the turn.

        Raises:
            ThreadBusyError: It is another run's, and this one is not to wait.
        """
        lock = partial(self.store.lock_thread, self.thread_id, self.owner, self.how.lease)
        self._takes += 1
        tries, wait = 0, _FIRST_WAIT
        while not await self.effect(f"turn.{self._takes}.{tries}", lock):
            if self.how.on_busy == "error":
                raise ThreadBusyError(self.thread_id)
            step = f"{self.prefix}.history.turn.{self._takes}.{tries}.wait"
            await self.runtime.step.sleep(step, timedelta(seconds=wait))
            tries, wait = tries + 1, min(2 * wait, _LONGEST_WAIT)

    async def prolong(self) -> None:
        """Begin the lease anew, before something is saved.

        Raises:
            ThreadBusyError: It was over, and another run has the thread now.
        """
        if not await self.store.lock_thread(self.thread_id, self.owner, self.how.lease):
            raise ThreadBusyError(self.thread_id)

    async def pause(self) -> None:
        """Let others have the thread while this run waits for a person."""
        unlock = partial(self.store.unlock_thread, self.thread_id, self.owner)
        await self.effect(f"turn.{self._takes}.pause", unlock)

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
