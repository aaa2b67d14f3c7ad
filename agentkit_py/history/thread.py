"""A run's thread: create or load it, save the user's message, append results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar, cast

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonValue
from agentkit_py.codec import user_message_from_dict, user_message_to_dict
from agentkit_py.errors import ConfigurationError, ThreadBusyError, ThreadNotFoundError
from agentkit_py.events.approvals import ApprovalAnswer, ApprovalRequest
from agentkit_py.history.config import (
    CreateThread,
    GetResults,
    HistoryConfig,
    HistoryContext,
    RunView,
)
from agentkit_py.history.leases import HeldLease, OnBusy, ThreadLease, refuse_other_text
from agentkit_py.history.mail import MailStore, inbox_name, inbox_of, mail_store
from agentkit_py.history.paging import FIRST_PAGE, RESULTS, Older, PagedStore
from agentkit_py.history.questions import Question, QuestionStore, stop_question
from agentkit_py.history.runs import OpenedRun, RunOpener, RunRecord, RunStore
from agentkit_py.history.staff import (
    TAKEN_OVER,
    StaffDesk,
    Takeover,
    TakeoverStore,
    note_user_message,
    staff_store,
)
from agentkit_py.history.stopping import NoteKeeper, RunNotes, late_reply
from agentkit_py.history.thread_state import ThreadState, opened_unleased
from agentkit_py.messages import UserMessage
from agentkit_py.results import AgentResult
from agentkit_py.runtime.port import Codec, Recordable, Runtime
from agentkit_py.state import State

T = TypeVar("T")

_ALL = 2**31 - 1
"""More results than a thread has."""


async def _results(get: GetResults, context: HistoryContext) -> Sequence[AgentResult]:
    """Return what a hook loaded.

    Raises:
        ConfigurationError: It is no list of results.
    """
    found: object = await resolve(get(context))
    if not isinstance(found, Sequence):
        raise ConfigurationError(
            f"get must return a list of AgentResult, [] for none, got {found!r:.80}."
        )
    for row in cast("Sequence[object]", found):
        if not isinstance(row, AgentResult):
            raise ConfigurationError(
                f"get must return AgentResult objects, got {row!r:.80}: "
                "AgentResult.from_dict(row) reads what to_dict() or TypeScript's export() wrote."
            )
    return found


@contextmanager
def _naming(store: object) -> Generator[None]:
    """Let the error of a thread that is not there name the store that it was looked for in."""
    try:
        yield
    except ThreadNotFoundError as error:
        error.looked_for_in(store)
        raise


def _if_taken_over(returned: object) -> str | None:
    return TAKEN_OVER if returned == TAKEN_OVER else None


def _is_same(one: AgentResult | None, other: AgentResult | None) -> bool:
    """Return whether two results differ in the side of their messages at most."""
    if one is other or one is None or other is None:
        return one is other
    return one.id == other.id and one.on_side(past=True) == other.on_side(past=True)


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """The record of a question in the thread's store."""

    store: QuestionStore
    question: Question

    async def open(self) -> None:
        """Add the question."""
        await self.store.save_question(self.question)

    async def close(self, answer: ApprovalAnswer | None) -> dict[str, Any] | None:
        """Save the answer, None where it has expired; return the one that counts: the first."""

        def change(known: Question) -> Question | None:
            return known.received(answer, datetime.now(UTC))

        found = await self.store.change_question(self.question.id, change)
        if found is not None and found.status == "answered":
            answer = found.answer
        return None if answer is None else answer.to_dict()

    async def stop(self) -> None:
        """Say that nobody waits for an answer any more."""
        await stop_question(self.store, self.question.id)


@dataclass(slots=True)
class Thread:
    """One run's thread in its store. Without a store, every call does nothing."""

    config: HistoryConfig | None
    state: State[Any]
    input: str
    runtime: Runtime
    prefix: str
    """The run's step id prefix."""

    changes: Recordable
    """Side effects of callbacks."""

    settings: ThreadLease | None = None
    """The way in which the run shares the thread."""

    network: RunView | None = None
    outer: Thread | None = None
    """The thread of the outer run, which keeps the questions of this part of it."""

    older: Older | None = None
    """The part of the thread that is not loaded, where the store loads in pages."""

    lease: HeldLease | None = field(default=None, init=False)
    """The run's lease of the thread, where the store has leases."""

    message: UserMessage | None = field(default=None, init=False)
    """The user's message that began the run."""

    heard: list[str] = field(default_factory=list[str], init=False)
    """Ids of the messages that came while the run was at work, and that it answers as well."""

    outcome: RunRecord | None = field(default=None, init=False)
    """The record of an earlier run for the same user message that completed, or is paused."""

    is_taken_over: bool = field(default=False, init=False)
    """True if a person of the staff is on the thread, so that agents pause."""

    has_waited: bool = field(default=False, init=False)
    """True once the run has waited for something while others could have the thread."""

    load_all: bool = field(default=True, init=False)
    """True if all of the thread is loaded at once."""

    _results: list[str] = field(default_factory=list[str], init=False)
    _saves: dict[str, int] = field(default_factory=dict[str, int], init=False)
    """The number of times that results were saved, by the author of the first of them."""

    _saved: int = field(default=0, init=False)
    _last: AgentResult | None = field(default=None, init=False)
    """The last result that is saved, or was there before; the one at `_saved` - 1."""

    _made: list[AgentResult] = field(default_factory=list[AgentResult], init=False)
    """Results of the run that are not saved yet."""

    _sought: frozenset[str] = field(default=frozenset(), init=False)
    """Ids of results of an earlier run for the same message, which must be loaded."""

    _found: OpenedRun | None = field(default=None, init=False)
    """The rows that were loaded to look for the thread."""

    _thread_state: ThreadState | None = field(default=None, init=False)
    """The state's data of the thread, where runs have no lease to keep it with."""

    _refused: bool = field(default=False, init=False)
    """True if the store refused the last results."""

    _notes: RunNotes | None = field(default=None, init=False)
    """Keeps notes of the calls of a run without a lease, where it may be stopped from outside."""

    def _context(self, **facts: Any) -> HistoryContext:
        return HistoryContext(
            state=self.state,
            input=self.input,
            thread_id=self.state.thread_id,
            network=self.network,
            step=self.runtime.step,
            **facts,
        )

    @property
    def outer_lease(self) -> HeldLease | None:
        """The lease of the outer run, in a part of it that saves nothing itself."""
        return None if self.outer is None else self.outer.lease or self.outer.outer_lease

    def fork(self, state: State[Any], changes: Recordable) -> Thread:
        """Return the thread of a part of the run that saves nothing itself."""
        return Thread(
            None,
            state,
            self.input,
            self.runtime,
            self.prefix,
            changes,
            outer=self,
            older=self.older,
        )

    async def open(
        self,
        message: UserMessage | None = None,
        *,
        resume: bool = False,
        keeps_state: bool = True,
        load_all: bool = True,
    ) -> None:
        """Create the thread, or load what the client does not bring along itself.

        Args:
            message: The user's message; runs are known by its id.
            resume: The state's data is that of the run before.
            keeps_state: The thread keeps the state's data without a lease, too.
            load_all: All of the thread is loaded at once.

        Raises:
            ThreadBusyError: Another run has the thread, and this one is not to wait.
        """
        self.message, self.load_all = message, load_all
        if self.config is None:
            return
        with _naming(self.config):
            await self._open(self.config, message, resume=resume, keeps_state=keeps_state)

    async def _open(
        self, config: HistoryConfig, message: UserMessage | None, *, resume: bool, keeps_state: bool
    ) -> None:
        if not self.state.thread_id:  # empty is none, as in TypeScript
            self.state.enter_thread(None)
        client_thread = self.state.thread_id
        await self._create(config)
        if message is not None and message.id is not None:
            await self._acquire_lease(config, message.id, resume=resume)
            if self.lease is None and keeps_state:
                is_new = client_thread is None
                self._thread_state = ThreadState.of(
                    config, self.state, message.id, goes_on=resume, is_new=is_new
                )
        if client_thread is not None and (self._is_answered or not self.state.is_seeded):
            await self._load(config)
        if self.outcome is not None and message is not None and self.state.thread_id is not None:
            entries = self.state.transcript
            await refuse_other_text(config, self.state.thread_id, entries, message)
        if self._thread_state is not None:
            await self._thread_state.begin(self._once, self._remembers)
        await self._go_on(config)
        if self.outcome is not None and self._is_answered:
            self._show(self.outcome)
        self._remember()

    @property
    def keeps_state(self) -> bool:
        """True if the record of the run keeps the state's data, which must be JSON then."""
        if self.outer is not None:
            return self.outer.keeps_state
        return self.settings is not None and isinstance(self.config, RunStore)

    @property
    def _is_answered(self) -> bool:
        """True if an earlier run has answered the message: the thread has what it gave."""
        return self.outcome is not None and not self.outcome.is_paused

    async def _acquire_lease(self, config: HistoryConfig, message_id: str, *, resume: bool) -> None:
        thread_id = self.state.thread_id
        settings = self.settings
        if settings is None or thread_id is None or not isinstance(config, RunStore):
            return
        posts = settings.on_busy in ("steer", "interrupt") and self.message and self.message.content
        self.lease = HeldLease(
            settings=settings,
            store=config,
            runtime=self.runtime,
            run_once=self._once,
            prefix=self.prefix,
            thread_id=thread_id,
            run_id=message_id,
            owner=self._owner(),
            append=self._append_results_now,
            results=self._results,
            heard=self.heard,
            post=partial(self._post, settings.on_busy) if posts else None,
        )
        own, newest = await self._take(config, self.lease)
        done = own is not None and own.status == "completed"
        if own is not None and not (self.runtime.pauses and self.runtime.replaying):
            self._sought = frozenset((*own.results, message_id) if done else (message_id,))
        kept = own if done else newest if resume else None
        if kept is not None and kept.state is not None:
            over = dict(self.state.goes_on_with or {}) if kept is newest else {}
            self.state.load({**kept.state, **over})
        waits = own is not None and own.is_paused and not self.runtime.durable
        if done or waits:
            self.outcome = own
            await self.lease.release()

    async def _post(self, on_busy: OnBusy) -> None:
        """Leave the user's message to the run that is at work, unless it was answered before."""
        store, thread_id = inbox_of(self.config), self.state.thread_id
        known = await store.load_run(thread_id, self.message.id) if self.message else None
        if known is not None and known.status in ("completed", "paused"):
            return
        await store.put_message(thread_id, self.message, interrupts=on_busy == "interrupt")

    async def take_messages(self, step_id: str, *, at_work: bool) -> list[UserMessage] | None:
        """Take what the user has said meanwhile; None: the run is to end for it.

        Messages that have been in a run before are left to the run that waits with them. Only a run
        ``at_work``, which has given a result, can be interrupted. The step's last name is "inbox".
        """
        lease, remembers = self.lease, self.runtime.remembers
        if lease is None:
            return []
        is_past = remembers(step_id.removesuffix("inbox"))  # it was past it before steering was on
        if not remembers(step_id) and (is_past or not lease.settings.steering):
            return []

        async def take() -> list[JsonValue] | None:
            store, taker = inbox_of(self.config), f"{lease.owner}/{step_id}"
            found = await store.take_messages(lease.thread_id, taker, at_work=at_work)
            if found is None and await self._came_twice(store, lease):
                found = await store.take_messages(lease.thread_id, taker, at_work=at_work)
            if found is None:
                return None
            known = {lease.run_id, *(entry.id for entry in self.state.transcript)}
            now = datetime.now(UTC)
            new = [
                replace(one, client_timestamp=one.client_timestamp or now)
                for one in found
                if one.id not in known
            ]
            runs = [await lease.store.load_run(lease.thread_id, one.id) for one in new]
            both = zip(new, runs, strict=True)
            return [user_message_to_dict(one) for one, run in both if run is None]

        taken = await self.runtime.effect(step_id, take, self.changes)
        if taken is None:
            return None
        return [user_message_from_dict(one, where="an inbox") for one in taken]

    async def _came_twice(self, store: object, lease: HeldLease) -> bool:
        """Take the run's own message out of the inbox: it is not interrupted by that."""
        box = inbox_name(lease.thread_id)
        return isinstance(store, MailStore) and await store.remove_mail(box, lease.run_id)

    async def _take(
        self, config: HistoryConfig, lease: HeldLease
    ) -> tuple[RunRecord | None, RunRecord | None]:
        """Wait for the lease; return the records that the run begins with."""
        opened = None
        if isinstance(config, RunOpener) and self._opens_at_once(config):
            create = partial(self._make, config)
            if self.runtime.durable:
                opened = await lease.open_in_step(config, create)
            else:
                opened = await lease.open(config, create, self._page)
        if opened is None:
            with self.runtime.each_time():  # a paused run that goes on opens its thread anew
                await lease.acquire()
                return await lease.recorded_runs()
        self._found = opened
        return opened.own, opened.previous

    def _opens_at_once(self, config: HistoryConfig) -> bool:
        """Return whether lease, records and results are asked for together, the thread with them.

        Durable runs that began before this was one step go on as they began.
        """
        return (
            config.lease is not None
            and self.message is not None
            and config.looks_first
            and isinstance(config, RunOpener)
            and not self.runtime.may_remember(f"{self.prefix}.history.create-thread")
        )

    async def _make(self, config: HistoryConfig) -> None:
        """Create the thread, which has an id, inside whatever step there is."""
        assert config.create_thread is not None
        await self._found_or_made(config, config.create_thread, self._context())

    def _owner(self) -> str:
        name, execution = self.runtime.new_id(f"{self.prefix}/turn"), self.runtime.execution
        return name if execution is None else f"{execution}/{name}"

    async def _append_results_now(self, results: Sequence[AgentResult]) -> None:
        if self.config is not None and self.config.append_results is not None:
            await resolve(self.config.append_results(self._context(new_results=results)))

    async def release_lease(self) -> None:
        """Release the lease without a record of how this run ended."""
        if self.lease is not None:
            await self.lease.release_now()

    async def pause_lease(self) -> None:
        """Release the lease until the run, which is stored as paused, goes on."""
        if self.lease is not None:
            await self.lease.pause()

    def question_record(self, request: ApprovalRequest) -> QuestionRecord | None:
        """Return the record of a question; None where the store keeps none."""
        if self.outer is not None:
            return self.outer.question_record(request)
        store, thread_id = self.config, self.state.thread_id
        if thread_id is None or not isinstance(store, QuestionStore):
            return None
        question = Question.of(
            request,
            thread_id=thread_id,
            run_id=None if self.message is None else self.message.id,
            execution=self.runtime.execution,
            now=datetime.now(UTC),
        )
        return QuestionRecord(store, question)

    @property
    def mail(self) -> MailStore:
        """The store that keeps events until a run receives them.

        Raises:
            ConfigurationError: The run's store keeps none.
        """
        return mail_store(self.config) if self.outer is None else self.outer.mail

    async def ask_for_person(self, reason: str, agent: str) -> Takeover:
        """Ask for a person of the staff.

        Raises:
            ConfigurationError: The run has no thread in a store that keeps who is on it.
        """
        if self.outer is not None:
            return await self.outer.ask_for_person(reason, agent)
        store, thread_id = staff_store(self.config), self.state.thread_id
        assert thread_id is not None, "a run with a store has a thread"
        return await StaffDesk(store).ask(thread_id, reason, agent=agent)

    def note_wait(self) -> None:
        """Note that later messages may have been answered while the run waited."""
        for one in (self, self.outer):
            if one is not None:
                one.has_waited = True

    async def released_while(
        self,
        step_id: str,
        wait: Callable[[], Awaitable[T]],
        lasts: timedelta,
        *,
        pauses: bool = False,
    ) -> T:
        """Wait for a person, an event or a time, the lease released meanwhile.

        Args:
            step_id: What is waited for.
            wait: Waits.
            lasts: The time after which the wait is over at the latest.
            pauses: The run may end here as one that is paused. The outermost one's thread is free
                once the run is stored so, and not before: a message in line would begin anew.
        """
        leases = [self.lease, self.outer_lease]
        if pauses:
            leases = [] if self.outer is None else [self.lease]
        else:
            self.note_wait()
        for lease in leases:
            if lease is not None:
                seconds = None if pauses else lasts.total_seconds()
                wait = partial(lease.released_while, step_id, wait, seconds)
        found = await wait()
        self.note_wait()
        return found

    async def branch_ended(self, step_id: str) -> None:
        """Let others have the thread where a call has waited, and calls beside it may wait on."""
        for lease in (self.lease, self.outer_lease):
            if lease is not None:
                await lease.branch_ended(step_id)

    async def join_branches(self, path: str, step_ids: Sequence[str]) -> None:
        """Acquire the leases again that ended calls have released."""
        for lease in (self.lease, self.outer_lease):
            if lease is not None:
                await lease.join_branches(path, step_ids)

    @property
    def keeper(self) -> NoteKeeper | None:
        """The keeper of notes of calls, where the run may be stopped from outside."""
        lease = self.lease or self.outer_lease
        if lease is not None:
            return lease if lease.is_stoppable else None
        if self.config is None and self.outer is not None:
            return self.outer.keeper
        if self._notes is None and self._is_stoppable and isinstance(self.config, RunStore):
            thread_id, append = self.state.thread_id, self._append_results_now
            assert thread_id is not None, "a run that has a store has a thread once it is open"
            self._notes = RunNotes(self.config, thread_id, self._owner(), append)
        return self._notes

    @property
    def _is_stoppable(self) -> bool:
        return self.runtime.execution is not None and self.state.thread_id is not None

    def _show(self, outcome: RunRecord) -> None:
        """Leave the state as that run left it: without later results."""
        ids = set(outcome.results)
        results = self.state.transcript
        last = max((n for n, result in enumerate(results) if result.id in ids), default=-1)
        self.state.set_transcript(results[: last + 1])

    async def end(
        self, status: str = "completed", *, lost: bool = False, stop_reason: str | None = None
    ) -> None:
        """Record how the run ended, and release the lease; see `save_results` for ``lost``."""
        if self._thread_state is not None and status == "completed":
            await self._thread_state.end(self._once, self._results, stop_reason)
        if self.lease is None or self.outcome is not None:
            return
        state = self.state.dump() if status == "completed" else None
        await self.lease.finish(status, state, stop_reason, lost=lost)

    async def look(self, *, load_all: bool = True) -> None:
        """Load the thread as `open` would, but create and save nothing."""
        self.load_all = load_all
        thread_id = self.state.thread_id
        if self.config is None or self.config.get is None or thread_id is None:
            return
        if not self.state.is_seeded:
            if self.config.lazy and isinstance(self.config, PagedStore):
                count, page = await self.config.newest(thread_id, FIRST_PAGE)
                self._hold(*Older(self.config, thread_id, count).take(page))
            else:
                self.state.load_transcript(await resolve(self.config.get(self._context())))
        await self._go_on(self.config)

    async def load_older(self) -> list[AgentResult]:
        """Load the next page of older results, oldest first, into the state; return them.

        A part of a run that saves nothing itself leaves its state as it is.
        """
        if self.older is None:
            return []
        results, self.older = await self.older.load()
        if self.config is None:
            return results
        self.state.prepend(results)
        self._tell()
        self._saved += len(results)
        return results

    def forget_older(self) -> None:
        """Load nothing more of the thread."""
        self.older = None

    def _hold(self, results: list[AgentResult], older: Older | None) -> None:
        self.state.load_transcript(results)
        self.older = older
        self._tell()

    def _tell(self) -> None:
        """Record in the state the number of results that are not loaded."""
        self.state.not_loaded = 0 if self.older is None else self.older.position

    async def _go_on(self, config: HistoryConfig) -> None:
        """Find the part that a state of an earlier run has not loaded; load all if it is needed."""
        count, thread_id = self.state.not_loaded, self.state.thread_id
        if self.older is None and count:
            if thread_id is not None and isinstance(config, PagedStore):
                first = await config.page(thread_id, count + 1, 1)
                self.older = Older(config, thread_id, count, first[0].before) if first else None
            self._tell()
        if self.load_all and self.older is not None:
            self.older = replace(self.older, limit=self.older.position)
            await self.load_older()

    async def _create(self, config: HistoryConfig) -> None:
        """Create the thread, unless it is created when it is opened."""
        offer = self.runtime.new_id(f"{self.prefix}/thread")
        if self._opens_at_once(config):
            if self.runtime.durable:
                self.state.enter_thread(self.state.thread_id or offer)
            if self.state.thread_id is not None:
                return
        if config.create_thread is not None:
            context = self._context(new_thread_id=offer)
            create = partial(self._found_or_made, config, config.create_thread, context)
            created = await self._once("create-thread", create)
            if created is not None:
                self.state.enter_thread(created)
        if self.state.thread_id is None and config.get is not None:
            self.state.enter_thread(offer)

    async def _found_or_made(
        self, config: HistoryConfig, create: CreateThread, context: HistoryContext
    ) -> str | None:
        """Return the thread's id; a thread that can be paged is loaded to look for it."""
        thread_id = context.thread_id
        if thread_id is not None and self._may_look(config) and isinstance(config, PagedStore):
            with suppress(ThreadNotFoundError):
                self._found = await opened_unleased(config, thread_id, self._page)
                return thread_id
        created: object = await resolve(create(context))
        if created is None or isinstance(created, str):
            return created or None
        raise ConfigurationError(
            f"create_thread must return the thread's id itself, or None, got {created!r:.80}; "
            "TypeScript's { threadId } is a plain string here."
        )

    @property
    def _page(self) -> int:
        """The number of results to load at first."""
        return _ALL if self.load_all else FIRST_PAGE

    def _may_look(self, config: HistoryConfig) -> bool:
        """Return whether the newest results may be loaded when the thread is looked for."""
        if config.lease is not None or self.runtime.durable:
            # The lease comes first; and what one step loads, the next does not have.
            return False
        return config.looks_first and config.lazy and not self.state.is_seeded

    async def _load(self, config: HistoryConfig) -> None:
        thread_id = self.state.thread_id
        if config.lazy and thread_id is not None and isinstance(config, PagedStore):
            self._hold(await self._newest(config, thread_id), self.older)
            missing = set(self._sought).difference(entry.id for entry in self.state.transcript)
            while missing and self.older is not None:
                missing.difference_update(result.id for result in await self.load_older())
        elif config.get is not None:
            get = partial(_results, config.get, self._context())
            self.state.load_transcript(await self._once("get", get, RESULTS))

    async def _newest(self, config: PagedStore, thread_id: str) -> list[AgentResult]:
        """Load the newest results. A step keeps only how many there were: rows never change."""
        known, self._found = self._found, None
        page = None if known is None else known.page

        async def ask() -> JsonValue:
            nonlocal page
            found = known or await opened_unleased(config, thread_id, self._page)
            page = found.page
            return found.count if self._thread_state is None else self._thread_state.beside(found)

        if known is not None and page is None:
            count = known.count
        else:
            kept = await self._once("count", ask)
            split = self._thread_state.split if self._thread_state is not None else None
            count = cast("int", kept) if split is None else split(kept)
        if known is not None and known.count != count:
            page = None  # a paused run goes on: what it has stored since is no earlier turn
        older = Older(config, thread_id, count, limit=self._page)
        results, self.older = await older.load() if page is None else older.take(page)
        return results

    async def save_user_message(
        self, message: UserMessage, result: AgentResult | None, *, number: int = 0
    ) -> None:
        """Save the user's message, its id and time filled in, and its entry in the state.

        The ``number`` counts messages that came after the one that began the run.
        """
        if self.config is None:
            return
        if result is not None:
            self._remember()
        if self.config.append_user_message is not None:
            stored = result or AgentResult.from_user(
                message.content, id=message.id, created_at=message.client_timestamp
            )
            context = self._context(user_message=message, user_result=stored)
            append = partial(self._append, self.config.append_user_message, context)
            name = f"append-user-message.{number}" if number else "append-user-message"
            found = await self._once(name, append)
            self.is_taken_over = found == TAKEN_OVER

    async def look_for_staff(self) -> None:
        """Look whether agents pause, where the user has said nothing."""
        if isinstance(self.config, TakeoverStore):
            look = partial(note_user_message, self.config, self.state.thread_id)
            self.is_taken_over = await self._once("staff", look)

    async def result_done(self) -> None:
        """Save a completed result now if the store wants each at once."""
        if self.config is not None and self.config.save_each:
            await self.save_results()

    async def save_results(self, *, lost: bool = False) -> None:
        """Save all results that are not saved yet.

        Where the run is ``lost``, having failed for good, there is nothing left to remember it for.
        """
        if self.config is None or self.config.append_results is None:
            return
        new = self.unsaved()
        if not new:
            return
        if lost and self._refused:
            return  # the store was asked, and that is why the run failed
        author = new[0].agent_name
        count = self._saves.get(author, 0)
        waited = self.message if self.has_waited else None
        context = self._context(new_results=new, answers=None if waited is None else waited.id)
        append = partial(self._append, self.config.append_results, context)
        self._refused = True
        await (append() if lost else self._once(f"append-results.{author}.{count}", append))
        self._refused = False
        self._results += [result.id for result in new if result.id is not None]
        self._saves[author] = count + 1
        self._remember()

    async def _append(
        self, function: Callable[[HistoryContext], Any], context: HistoryContext
    ) -> str | None:
        """Append; return `TAKEN_OVER` if the store says so; nothing else returned matters."""
        if self.lease is not None:
            try:
                if self.config is not None and self.config.renews_leases:
                    return _if_taken_over(
                        await resolve(function(replace(context, claim=self.lease.claim)))
                    )
                await self.lease.renew()
            except ThreadBusyError:
                if not context.new_results or not await self.lease.was_stopped():
                    raise
                late = [late_reply(result) for result in context.new_results]
                context = replace(context, new_results=late)
        with _naming(self.config):
            returned = await resolve(function(context))
        if self._notes is not None and context.new_results:
            await self._notes.drop()
        return _if_taken_over(returned)

    def _remembers(self, name: str) -> bool:
        return self.runtime.remembers(f"{self.prefix}.history.{name}")

    async def _once(
        self, name: str, call: Callable[[], Awaitable[T]], codec: Codec[T] | None = None
    ) -> T:
        return await self.runtime.effect(f"{self.prefix}.history.{name}", call, self.changes, codec)

    def track(self, result: AgentResult) -> None:
        """Note a result of the run: it is saved even if hooks take it out of the state."""
        if self.config is not None:
            self._made.append(result)

    def unsaved(self) -> Sequence[AgentResult]:
        """Return the results of this run that are not saved yet."""
        transcript = self.state.transcript
        last = transcript[self._saved - 1] if 0 < self._saved <= len(transcript) else None
        if _is_same(last, self._last):
            return transcript[self._saved :]
        # A tool or hook put other results in place of those that were saved, so the place where
        # the new ones begin is lost; what the run made is known all the same.
        return tuple(self._made)

    def _remember(self) -> None:
        self._made.clear()
        transcript = self.state.transcript
        self._saved = len(transcript)
        self._last = transcript[-1] if transcript else None
