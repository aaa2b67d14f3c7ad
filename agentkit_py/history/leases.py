"""Leases of threads: a single run at a time on a thread, a single answer per user message."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar, cast, get_args

import anyio

from agentkit_py._core.json import JsonObject
from agentkit_py._core.validation import wrong_bool, wrong_number
from agentkit_py.errors import (
    ConfigurationError,
    MessageConflictError,
    NonRetriableError,
    ThreadBusyError,
    ThreadNotFoundError,
)
from agentkit_py.history.abilities import abilities_of
from agentkit_py.history.runs import (
    LeaseClaim,
    OpenedRun,
    RunOpener,
    RunRecord,
    RunStore,
    execution_of,
)
from agentkit_py.messages import UserMessage
from agentkit_py.results import USER, AgentResult

if TYPE_CHECKING:
    from agentkit_py.history.stopping import StoppableStore
    from agentkit_py.runtime.port import Runtime

T = TypeVar("T")
logger: logging.Logger = logging.getLogger("agentkit_py")

STEERED = "steered"
"""The stop reason of a run whose message another run has that waits for a person or a time."""

OnBusy: TypeAlias = Literal["wait", "error", "steer", "interrupt"]
"""Behaviour of a run that finds another run working on its thread: wait; raise `ThreadBusyError`;
``"steer"``: leave the message to the other run, which shows it to its next model call;
``"interrupt"``: have the other run end before its next model call."""

_OPEN = ("running", "waiting")
"""The statuses of runs that have not ended, and are not stored whole."""

_LONGEST_WAIT = 60.0
"""Seconds after which a run in line asks again, in case no signal reached it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadLease:
    """A lease for each thread: ``SqliteHistory("support.db", lease=ThreadLease())``.

    One run at a time holds the thread's lease. A user's message with an id that was answered before
    gets the stored outcome, and no model is called; a run that is given a thread and no state goes
    on with the data of the run before.

    Raises:
        ConfigurationError: ``seconds`` is not positive, or ``on_busy`` needs ``steering=True``.
    """

    on_busy: OnBusy = "wait"
    """Behaviour of a run that finds another run working, unless ``run(on_busy=…)`` is given."""

    steering: bool = False
    """True: runs look for messages of the user before each model call (``"steer"`` and
    ``"interrupt"`` need it): a read of the store each time, in Inngest functions a step."""

    seconds: float = 300.0
    """Seconds after which the lease of a run that has saved nothing is over: it is taken for
    dead."""

    def __post_init__(self) -> None:
        if problem := wrong_number(self.seconds, above=True):
            raise ConfigurationError(
                f"ThreadLease: the lease must last more than 0 seconds, not {self.seconds!r:.80}: "
                f"{problem}"
            )
        if problem := wrong_bool(self.steering):
            raise ConfigurationError(f"ThreadLease: steering: {problem}")
        if self.on_busy not in get_args(OnBusy):
            known = ", ".join(map(repr, get_args(OnBusy)))
            raise ConfigurationError(f"on_busy must be one of {known}, not {self.on_busy!r:.80}")
        if self.on_busy in ("steer", "interrupt") and not self.steering:
            raise ConfigurationError(
                f"on_busy={self.on_busy!r} needs runs that look for messages: "
                "lease=ThreadLease(steering=True)"
            )


class _RunOnce(Protocol):
    def __call__(self, name: str, call: Callable[[], Awaitable[T]], /) -> Awaitable[T]: ...


@dataclass(slots=True, kw_only=True)
class HeldLease:
    """One run's lease of its thread.

    Step names say "turn", as they always have: runs that wait find their steps by them.
    """

    settings: ThreadLease
    store: RunStore
    runtime: Runtime
    run_once: _RunOnce
    prefix: str
    thread_id: str
    run_id: str
    """The id of the user's message."""

    owner: str
    """This run's name in the lease, with the execution that it belongs to; another run for the same
    message has another name."""

    append: Callable[[Sequence[AgentResult]], Awaitable[None]]
    """Adds results to the thread."""

    results: Sequence[str] = ()
    """Ids of the run's results that are saved."""

    heard: Sequence[str] = ()
    """Ids of messages that the run has taken, and answers as well."""

    post: Callable[[], Awaitable[None]] | None = None
    """Leaves the user's message to the run that has the lease; None: the message waits."""

    _noted: bool = False
    _waited: set[str] = field(default_factory=set[str])
    """The steps that the run has waited for, the lease released."""

    async def acquire(self) -> None:
        """Wait for the lease.

        Raises:
            ThreadBusyError: Another run has it, and this run does not wait.
        """
        await self._acquire("turn.1", self._lock_or_post, waits=self._waits)

    async def open(
        self, store: RunOpener, create: Callable[[], Awaitable[None]], limit: int
    ) -> OpenedRun | None:
        """Take the lease, and read the initial data of a run; None: another run has the lease.

        A thread that is not there is created; ``limit`` results are read.
        """
        try:
            opened = await store.open_run(self.thread_id, self.claim, self.run_id, limit)
        except ThreadNotFoundError:
            await create()
            opened = await store.open_run(self.thread_id, self.claim, self.run_id, limit)
        if opened is not None and await self._take_over(opened.own):
            opened = await store.open_run(self.thread_id, self.claim, self.run_id, limit)
        if opened is None:
            return None
        own = await self._own(opened.own)
        await self._name_owner(own)
        return replace(opened, own=own)

    async def open_in_step(
        self, store: RunOpener, create: Callable[[], Awaitable[None]]
    ) -> OpenedRun:
        """Wait for the lease, and read a run's initial data in the step that acquires it.

        The step keeps no results but their number: rows never change.

        Raises:
            ThreadBusyError: Another run has it, and this run does not wait.
        """

        async def ask() -> JsonObject | None:
            opened = await self.open(store, create, 1)
            if opened is None:
                await self._refuse_stopped()
                return await self._post()
            runs = {"own": opened.own, "previous": opened.previous}
            return {"count": opened.count, **{name: _kept(run) for name, run in runs.items()}}

        tries = 0
        while (found := await self.run_once(f"open.{tries}", ask)) is None:
            await self._wait_in_line("open", tries, waits=self._waits)
            tries += 1
        count = cast("int", found["count"])
        own, previous = self._read(found["own"]), self._read(found["previous"])
        return OpenedRun(own=own, previous=previous, count=count, results=None)

    @property
    def _waits(self) -> bool:
        return self.settings.on_busy != "error"

    @property
    def claim(self) -> LeaseClaim:
        """The lease as it is taken and renewed."""
        return LeaseClaim(owner=self.owner, seconds=self.settings.seconds)

    async def _acquire(
        self, name: str, lock: Callable[[], Awaitable[bool]], *, waits: bool
    ) -> None:
        tries = 0
        while not await self.run_once(f"{name}.{tries}", lock):
            if await self._wait_in_line(name, tries, waits=waits):
                return
            tries += 1

    async def _wait_in_line(self, name: str, tries: int, *, waits: bool) -> bool | None:
        """Wait for a signal, or the time to ask again; True if the lease was free after all."""
        if not waits:
            raise ThreadBusyError(self.thread_id)
        step = f"{self.prefix}.history.{name}.{tries}"
        longest = min(self.settings.seconds, _LONGEST_WAIT)
        return await self.runtime.wait_for_signal(step, self.owner, self._enter_line, longest)

    async def _lock(self) -> bool:
        """Take or renew the lease.

        Raises:
            NonRetriableError: The run was stopped, so that it gets no lease any more.
        """
        has_it = await self.store.lock_thread(self.thread_id, self.owner, self.settings.seconds)
        if not has_it:
            await self._refuse_stopped()
        return has_it

    async def _refuse_stopped(self) -> None:
        if await self.was_stopped():
            raise NonRetriableError(self._stopped)

    @property
    def _stopped(self) -> str:
        return (
            f"The run was stopped while it worked on message {self.run_id!r} of thread "
            f"{self.thread_id!r}; another run may have the message now."
        )

    async def _lock_or_post(self) -> bool:
        has_it = await self._lock()
        if not has_it:
            await self._post()
        return has_it

    async def _post(self) -> None:
        if self.post is not None:
            await self.post()

    async def _enter_line(self) -> bool:
        return await self.store.wait_in_line(self.thread_id, self.owner, self.settings.seconds)

    @property
    def is_stoppable(self) -> bool:
        """True if the run may be stopped from outside, where it cannot save anything itself."""
        return execution_of(self.owner) is not None

    def will_note(self) -> None:
        """Record that notes exist, which must be dropped when the run has ended."""
        self._noted = True

    async def note(self, notes: Mapping[str, JsonObject]) -> bool:
        """Keep notes of calls; False if the run was stopped."""
        return await self.store.note_calls(self.thread_id, self.owner, notes)

    async def land(self, result: AgentResult) -> None:
        """Add a result that comes after the run was stopped."""
        await self.append([result])

    async def was_stopped(self) -> bool:
        """Return whether the run was stopped from outside."""
        execution = execution_of(self.owner)
        return execution is not None and await self.store.is_stopped(execution)

    async def renew(self) -> None:
        """Renew the lease before a save.

        Raises:
            ThreadBusyError: It was over, and another run has the thread now.
        """
        if not await self.store.lock_thread(self.thread_id, self.owner, self.settings.seconds):
            raise ThreadBusyError(self.thread_id)

    async def release_now(self) -> None:
        """End the lease without a step, where nothing remembers steps any more."""
        await self._pass_on(await self.store.unlock_thread(self.thread_id, self.owner))

    async def _pass_on(self, after: str | None) -> None:
        if after is not None:
            await self.runtime.signal(after)

    async def release(self, name: str = "turn.1.pause") -> None:
        """End the lease for a while, in a step."""
        await self.run_once(name, self.pause)

    async def pause(self) -> None:
        """End the lease for a while: runs of messages that this run took do not wait for it."""
        await self._save_heard(self._record("completed", stop_reason=STEERED))
        await self.release_now()

    async def released_while(
        self, step_id: str, wait: Callable[[], Awaitable[T]], lasts: float | None
    ) -> T:
        """Release the lease while ``wait`` waits, which may take days, and acquire it again.

        Steps are named after the awaited event: several parts of a run may wait at the same time,
        and resume in another order on each replay.

        Args:
            step_id: The name of the wait.
            wait: Waits.
            lasts: Seconds after which the wait is over at the latest: until then the user's message
                is this run's. None: the run ends here, and is stored as waiting.
        """
        seconds = self.settings.seconds
        if lasts is not None and self.runtime.durable:
            seconds += max(0.0, lasts)  # no process is there to say that the run is alive

        self._waited.add(step_id)

        async def leave() -> None:
            if lasts is not None:
                await self._claim_message(step_id, seconds)
            await self.pause()

        async def come_back() -> bool:
            has_it = await self._lock()
            if has_it and lasts is not None:
                await self._claim_message(step_id, None)
            return has_it

        await self.run_once(f"turn.{step_id}.pause", leave)
        if lasts is None or self.runtime.durable:
            found = await wait()
        else:
            found = await self._claimed_while(step_id, wait)
        # The run has begun already, so it waits for the lease whatever `on_busy` says.
        await self._acquire(f"turn.{step_id}.back", come_back, waits=True)
        return found

    async def branch_ended(self, step_id: str) -> None:
        """Release the lease where a parallel call has waited and ended.

        The others may wait for days. The message stays this run's.
        """
        if not any(one.startswith(f"{step_id}.") for one in self._waited):
            return

        async def leave() -> None:
            await self._claim_message(f"{step_id}.end", self.settings.seconds)
            await self.pause()

        await self.run_once(f"turn.{step_id}.end", leave)

    async def join_branches(self, path: str, step_ids: Sequence[str]) -> None:
        """Acquire the lease again once all of several calls have ended."""
        begin = tuple(f"{one}." for one in step_ids)
        if not any(one.startswith(begin) for one in self._waited):
            return

        async def come_back() -> bool:
            has_it = await self._lock()
            for one in step_ids if has_it else ():
                await self._claim_message(f"{one}.end", None)
            return has_it

        await self._acquire(f"turn.{path}.join", come_back, waits=True)

    async def _claimed_while(self, step_id: str, wait: Callable[[], Awaitable[T]]) -> T:
        """Wait in this process, and say now and then that the run is alive."""

        async def renew() -> None:
            while True:
                await anyio.sleep(self.settings.seconds / 3)
                try:
                    await self._claim_message(step_id, self.settings.seconds)
                except Exception:
                    logger.warning("A run that waits could not keep its message", exc_info=True)

        renewing = asyncio.ensure_future(renew())
        try:
            return await wait()
        finally:
            renewing.cancel()

    async def _claim_message(self, step_id: str, seconds: float | None) -> None:
        """Keep the user's message for this run during a wait; no longer if ``seconds`` is None."""
        questions = abilities_of(self.store).questions
        if questions is None:
            return
        until = None if seconds is None else time.time() + seconds

        def change(run: RunRecord) -> RunRecord | None:
            if run.status not in _OPEN:
                return None
            waits = dict(run.waits) if run.owner == self.owner else {}
            waits.pop(step_id, None)
            if until is not None:
                waits[step_id] = until
            return replace(run, owner=self.owner, waits=waits)

        known = await questions.change_run(self.thread_id, self.run_id, change)
        if until is not None and (known is None or known.status in ("failed", "stopped")):
            begun = RunRecord(id=self.run_id, status="waiting")
            await questions.save_run(self.thread_id, cast("RunRecord", change(begun)))

    async def _own(self, record: RunRecord | None) -> RunRecord | None:
        """Return the message's record; where another run waits that has the message, so it says."""
        execution = self._other_execution(record)
        is_stopped = execution is not None and await self.store.is_stopped(execution)
        if record is None or record.owner in (None, self.owner) or is_stopped:
            return record
        if not record.is_waiting(time.time()):
            return record
        return RunRecord(id=self.run_id, status="completed", stop_reason=STEERED)

    def _other_execution(self, record: RunRecord | None) -> str | None:
        """Return the execution of another run that has the message, if it can be stopped."""
        owner = None if record is None else record.owner
        execution = None if owner is None else execution_of(owner)
        return None if execution == execution_of(self.owner) else execution

    async def _take_over(self, record: RunRecord | None) -> bool:
        """Stop another run that has begun the message and lost its lease; whether there was one.

        Its server may try it again much later. It makes no more calls then; what it did is in the
        thread before this run reads it.
        """
        if abilities_of(self.store).questions is None:
            return False  # it cannot store that a run waits, which has the message all the same
        execution = self._other_execution(record)
        if execution is None or record is None or record.is_waiting(time.time()):
            return False
        if record.status not in _OPEN or await self.store.is_stopped(execution):
            return False
        said = "Message %r of thread %r was with run %s, whose lease is over: that run is stopped"
        logger.warning(said, self.run_id, self.thread_id, execution)
        from agentkit_py.history.stopping import stop_run  # noqa: PLC0415 - stores load this module

        await stop_run(cast("StoppableStore", self.store), execution, self.runtime.signal)
        return True

    async def _name_owner(self, known: RunRecord | None) -> None:
        """Store that this run has the message, where it may be stopped from outside."""
        is_open = known is None or (known.journal is None and known.status != "completed")
        if self.is_stoppable and is_open:
            run = RunRecord(id=self.run_id, status="waiting", owner=self.owner)
            await self.store.save_run(self.thread_id, run)

    async def recorded_runs(self) -> tuple[RunRecord | None, RunRecord | None]:
        """Return the record of an earlier run for this message, and the newest with a state."""

        async def ask() -> Any:
            known = await self.store.load_run(self.thread_id, self.run_id)
            await self._take_over(known)
            own = await self._own(known)
            await self._name_owner(own)
            newest = await self.store.load_run(self.thread_id)
            return [_kept(run) for run in (own, newest)]

        own, newest = map(self._read, await self.run_once("recall", ask))
        return own, newest

    def _read(self, record: Any) -> RunRecord | None:
        where = f"Thread {self.thread_id!r}"
        return None if record is None else RunRecord.from_dict(*record, where=where)

    async def finish(
        self,
        status: str,
        state: Any,
        stop_reason: str | None,
        *,
        lost: bool = False,
    ) -> None:
        """Record how the run ended, and end the lease; without a step if the run is ``lost``."""
        run = self._record(status, state=state, stop_reason=stop_reason)

        async def close() -> None:
            if await self.was_taken_over():
                await self.store.drop_notes(self.thread_id, self.owner)
                if status == "completed":
                    raise NonRetriableError(self._stopped)
                return
            await self._save_heard(run)
            opener, has_failed = abilities_of(self.store).opener, status != "completed"
            if opener is not None:
                if has_failed and self.is_stoppable:
                    await self._land_notes(opener)
                await self._pass_on(await opener.end_run(self.thread_id, self.owner, run))
                return
            await self.store.save_run(self.thread_id, run)
            # This store does not show notes: those of a failed run stay readable.
            if self._noted and not has_failed:
                await self.store.drop_notes(self.thread_id, self.owner)
            await self.release_now()

        await (close() if lost else self.run_once("turn.end", close))

    async def was_taken_over(self) -> bool:
        """Return whether this run was stopped, and another run has its message."""
        if not await self.was_stopped():
            return False
        known = await self.store.load_run(self.thread_id, self.run_id)
        return known is not None and known.owner not in (None, self.owner)

    async def _land_notes(self, store: RunOpener) -> None:
        """Add the results in the run's notes that the thread does not have.

        An error that ends a replay before the calls that were made retains none of them.
        """
        from agentkit_py.history.stopping import add_noted  # noqa: PLC0415 - stores load this module

        notes = await store.notes_of(self.thread_id, self.owner)
        await add_noted(cast("StoppableStore", store), self.thread_id, notes)

    def _record(self, status: str, **facts: Any) -> RunRecord:
        owner = self.owner if self.is_stoppable else None
        results = tuple(self.results)
        return RunRecord(id=self.run_id, status=status, results=results, owner=owner, **facts)

    async def _save_heard(self, run: RunRecord) -> None:
        """Save the run's record for the messages it took, so that their runs find them answered."""
        for other in self.heard:
            known = await self.store.load_run(self.thread_id, other)
            if is_free(known) or (known is not None and known.stop_reason == STEERED):
                await self.store.save_run(self.thread_id, replace(run, id=other))


def is_free(run: RunRecord | None) -> bool:
    """Return whether no run has a message: none has begun it, or the run that has was lost.

    It is asked by the run that holds the thread's lease, so a run that works has not begun it.
    """
    return run is None or (run.status == "waiting" and not run.is_waiting(time.time()))


class _Appends(Protocol):
    """A store that refuses another result under an id that its thread holds."""

    async def append(self, thread_id: str, results: Sequence[AgentResult]) -> None: ...


async def refuse_other_text(
    store: object, thread_id: str, entries: Sequence[AgentResult], message: UserMessage
) -> None:
    """Refuse a message with the id of another message, which was answered.

    Args:
        store: The store of the thread; a store that masks texts compares masked texts.
        thread_id: The thread.
        entries: Its entries, as far as they are loaded.
        message: The message.

    Raises:
        MessageConflictError: The thread has another text under the id.
    """
    known = next((one for one in entries if one.id == message.id and one.agent_name == USER), None)
    if known is None or not message.content:
        return
    given = AgentResult.from_user(message.content, id=message.id, created_at=known.created_at)
    if given.on_side(past=True).output == known.on_side(past=True).output:
        return
    if not hasattr(store, "append"):
        raise MessageConflictError(thread_id, message.id or "")
    await cast("_Appends", store).append(thread_id, [given])


def _kept(run: RunRecord | None) -> list[Any] | None:
    """Return a record as a step keeps it."""
    return None if run is None else [run.id, run.to_dict()]
