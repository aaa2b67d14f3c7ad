"""A run's thread: create or load it, save the user's message, append results."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonValue
from agentkit_py.codec import user_message_from_dict, user_message_to_dict
from agentkit_py.errors import ConfigurationError, ThreadBusyError, ThreadNotFoundError
from agentkit_py.events.approvals import ApprovalAnswer, ApprovalRequest
from agentkit_py.history.abilities import abilities_of, inbox_of, mail_of, staff_of
from agentkit_py.history.config import (
    CreateThread,
    HistoryConfig,
    HistoryContext,
    RunView,
)
from agentkit_py.history.leases import (
    HeldLease,
    OnBusy,
    ThreadLease,
    is_free,
    refuse_other_text,
)
from agentkit_py.history.loading import ThreadPages
from agentkit_py.history.mail import MailStore, inbox_name
from agentkit_py.history.paging import Older
from agentkit_py.history.questions import Question, QuestionStore, stop_question
from agentkit_py.history.runs import RunOpener, RunRecord, RunStore
from agentkit_py.history.saving import ThreadSaves
from agentkit_py.history.staff import (
    TAKEN_OVER,
    Takeover,
    note_user_message,
)
from agentkit_py.history.staff_desk import StaffDesk
from agentkit_py.history.stopping import NoteKeeper, RunNotes, late_reply
from agentkit_py.history.thread_state import ThreadState
from agentkit_py.history.thread_steps import ThreadSteps
from agentkit_py.messages import UserMessage
from agentkit_py.results import AgentResult
from agentkit_py.runtime.port import Recordable, Runtime
from agentkit_py.state import State

T = TypeVar("T")


def _if_taken_over(returned: object) -> str | None:
    return TAKEN_OVER if returned == TAKEN_OVER else None


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """The record of a question in the thread's store."""

    store: QuestionStore
    question: Question

    async def open(self) -> None:
        """Add the question."""
        await self.store.save_question(self.question)

    async def close(self, answer: ApprovalAnswer | None) -> dict[str, Any] | None:
        """Save the answer, None where it has expired; return the valid answer: the first.

        Raises:
            ThreadNotFoundError: The thread was deleted with its question: nothing is done for it.
        """

        def change(known: Question) -> Question | None:
            return known.received(answer, datetime.now(UTC))

        found = await self.store.change_question(self.question.id, change)
        if found is None:
            raise ThreadNotFoundError(self.question.thread_id)
        if found.status == "answered":
            answer = found.answer
        return None if answer is None else answer.to_dict()

    async def stop(self) -> None:
        """Mark the question as stopped."""
        await stop_question(self.store, self.question.id)


class Thread:
    """One run's thread in its store. Without a store, every call does nothing."""

    def __init__(  # noqa: PLR0913 - by name, except what each thread has
        self,
        config: HistoryConfig | None,
        state: State[Any],
        input: str,  # noqa: A002 - as in run()
        runtime: Runtime,
        prefix: str,
        changes: Recordable,
        *,
        settings: ThreadLease | None = None,
        network: RunView | None = None,
        outer: Thread | None = None,
        older: Older | None = None,
    ) -> None:
        """Store the settings with which the run's thread is opened.

        Args:
            config: The store; None: there is none.
            state: The run's state.
            input: The text of the user's message.
            runtime: The run's runtime.
            prefix: The run's step id prefix.
            changes: Records side effects of callbacks.
            settings: The way in which the run shares the thread.
            network: The network's run.
            outer: The thread of the outer run, which keeps the questions of this part of it.
            older: The part of the thread that a fork's outer run has not loaded.
        """
        self.config: HistoryConfig | None = config
        self.steps: ThreadSteps = ThreadSteps(state, input, runtime, prefix, changes, network)
        self.settings: ThreadLease | None = settings
        self.outer: Thread | None = outer
        self.saves: ThreadSaves = ThreadSaves(state)
        self.pages: ThreadPages = ThreadPages(config, self.steps, self.saves, older)
        self.lease: HeldLease | None = None
        """The run's lease of the thread, where the store has leases."""

        self.message: UserMessage | None = None
        """The user's message that began the run."""

        self.heard: list[str] = []
        """Ids of the messages that came during the run, and that it answers as well."""

        self.outcome: RunRecord | None = None
        """The record of an earlier run for the same user message that completed, or is paused."""

        self.is_taken_over: bool = False
        """True if staff is on the thread, so that agents pause."""

        self.has_waited: bool = False
        """True once the run has waited for something while others could have the thread."""

        self._stored_state: ThreadState | None = None
        """The state's data of the thread, where runs have no lease to keep it with."""

        self._notes: RunNotes | None = None
        """Keeps notes of the calls of a run without a lease, where it may be stopped."""

    @property
    def state(self) -> State[Any]:
        """The run's state."""
        return self.steps.state

    @property
    def outer_lease(self) -> HeldLease | None:
        """The lease of the outer run, in a part of it that saves nothing itself."""
        return None if self.outer is None else self.outer.lease or self.outer.outer_lease

    def fork(self, state: State[Any], changes: Recordable) -> Thread:
        """Return the thread of a part of the run that saves nothing itself."""
        steps, older = self.steps, self.pages.older
        facts = (state, steps.input, steps.runtime, steps.prefix, changes)
        return Thread(None, *facts, outer=self, older=older)

    async def open(
        self,
        message: UserMessage | None = None,
        *,
        resume: bool = False,
        keeps_state: bool = True,
        load_all: bool = True,
    ) -> None:
        """Create the thread, or load the data that the client does not bring along itself.

        Args:
            message: The user's message; runs are known by its id.
            resume: The state's data is that of the run before.
            keeps_state: The thread keeps the state's data without a lease, too.
            load_all: All of the thread is loaded at once.

        Raises:
            ThreadBusyError: Another run has the thread, and this run does not wait.
        """
        self.message = message
        self.pages.load_whole(load_all)
        if self.config is None:
            return
        try:
            await self._open(self.config, message, resume=resume, keeps_state=keeps_state)
        except ThreadNotFoundError as error:
            self.name_store(error)
            raise

    def name_store(self, error: Exception | CancelledError) -> None:
        """Let the error of this thread, if it is not there, name the store it was looked for in."""
        is_not_there = isinstance(error, ThreadNotFoundError)
        if is_not_there and self.config is not None and error.thread_id == self.state.thread_id:
            error.looked_for_in(self.config)

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
                self._stored_state = ThreadState.of(
                    config, self.state, message.id, resumes=resume, is_new=is_new
                )
        if client_thread is not None and (self._is_answered or not self.state.is_seeded):
            await self.pages.load(config, self._stored_state)
        if self.outcome is not None and message is not None and self.state.thread_id is not None:
            entries = self.state.transcript
            await refuse_other_text(config, self.state.thread_id, entries, message)
        if self._stored_state is not None:
            await self._stored_state.begin(self.steps.once, self.steps.remembers)
        await self.pages.find_older(config)
        if self.outcome is not None and self._is_answered:
            self._show(self.outcome)
        self.saves.remember()

    @property
    def _runs(self) -> RunStore | None:
        return abilities_of(self.config).runs

    @property
    def keeps_state(self) -> bool:
        """True if the record of the run keeps the state's data, which must be JSON then."""
        if self.outer is not None:
            return self.outer.keeps_state
        return self.settings is not None and self._runs is not None

    @property
    def _is_answered(self) -> bool:
        """True if an earlier run has answered the message: the thread has its results."""
        return self.outcome is not None and not self.outcome.is_paused

    async def _acquire_lease(self, config: HistoryConfig, message_id: str, *, resume: bool) -> None:
        thread_id = self.state.thread_id
        settings, runs = self.settings, config.abilities.runs
        if settings is None or thread_id is None or runs is None:
            return
        posts = settings.on_busy in ("steer", "interrupt") and self.message and self.message.content
        self.lease = HeldLease(
            settings=settings,
            store=runs,
            runtime=self.steps.runtime,
            run_once=self.steps.once,
            prefix=self.steps.prefix,
            thread_id=thread_id,
            run_id=message_id,
            owner=self._owner(),
            append=self._append_results_now,
            results=self.saves.ids,
            heard=self.heard,
            post=partial(self._post, settings.on_busy) if posts else None,
        )
        own, newest = await self._take(config, self.lease)
        done = own is not None and own.status == "completed"
        if own is not None and not (self.steps.runtime.pauses and self.steps.runtime.replaying):
            self.pages.seek((*own.results, message_id) if done else (message_id,))
        kept = own if done else newest if resume else None
        if kept is not None and kept.state is not None:
            over = dict(self.state.goes_on_with or {}) if kept is newest else {}
            self.state.load({**kept.state, **over})
        waits = own is not None and own.is_paused and not self.steps.runtime.durable
        if done or waits:
            self.outcome = own
            await self.lease.release()

    async def _post(self, on_busy: OnBusy) -> None:
        """Leave the user's message to the active run, unless it was answered before."""
        store, runs = inbox_of(self.config), abilities_of(self.config).runs
        thread_id, message = self.state.thread_id, self.message
        assert thread_id is not None, "a thread that is busy"
        assert message is not None, "a run without a message waits"
        known = None if runs is None else await runs.load_run(thread_id, message.id)
        if known is not None and known.status in ("completed", "paused"):
            return
        await store.put_message(thread_id, message, interrupts=on_busy == "interrupt")

    async def take_messages(self, step_id: str, *, at_work: bool) -> list[UserMessage] | None:
        """Claim the user's new messages; None: a message interrupts the run.

        Messages that have been in a run before are left to the run that waits with them. Only a run
        ``at_work``, which has given a result, can be interrupted. The step's last name is "inbox".
        """
        lease, remembers = self.lease, self.steps.runtime.remembers
        if lease is None:
            return []
        is_past = remembers(step_id.removesuffix("inbox"))  # it was past it before steering was on
        if not remembers(step_id) and (is_past or not lease.settings.steering):
            return []

        async def take() -> list[JsonValue] | None:
            store, taker = inbox_of(self.config), f"{lease.owner}/{step_id}"
            found = await store.take_messages(lease.thread_id, taker, at_work=at_work)
            if found is None and await self._came_twice(abilities_of(self.config).mail, lease):
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
            return [user_message_to_dict(one) for one, run in both if is_free(run)]

        taken = await self.steps.runtime.effect(step_id, take, self.steps.changes)
        if taken is None:
            return None
        return [user_message_from_dict(one, where="an inbox") for one in taken]

    async def _came_twice(self, mail: MailStore | None, lease: HeldLease) -> bool:
        """Take the run's own message out of the inbox: it is not interrupted by that."""
        box = inbox_name(lease.thread_id)
        return mail is not None and await mail.remove_mail(box, lease.run_id)

    async def _take(
        self, config: HistoryConfig, lease: HeldLease
    ) -> tuple[RunRecord | None, RunRecord | None]:
        """Wait for the lease; return the records that the run begins with."""
        opened, opener = None, self._opener(config)
        if opener is not None:
            create = partial(self._make, config)
            if self.steps.runtime.durable:
                opened = await lease.open_in_step(opener, create)
            else:
                opened = await lease.open(opener, create, self.pages.first_page)
        if opened is None:
            with self.steps.runtime.each_time():  # a resumed run opens its thread again
                await lease.acquire()
                return await lease.recorded_runs()
        self.pages.hold(opened)
        return opened.own, opened.previous

    def _opener(self, config: HistoryConfig) -> RunOpener | None:
        """Return what gives lease, records and results together, and makes the thread with them.

        None: they are asked for one by one. Durable runs that began before this was a single step
        keep their steps.
        """
        if config.lease is None or self.message is None or not config.looks_first:
            return None
        if self.steps.runtime.may_remember(f"{self.steps.prefix}.history.create-thread"):
            return None
        return config.abilities.opener

    async def _make(self, config: HistoryConfig) -> None:
        """Create the thread, which has an id, inside whatever step there is."""
        assert config.create_thread is not None
        await self._found_or_made(config, config.create_thread, self.steps.context())

    def _owner(self) -> str:
        runtime = self.steps.runtime
        name, execution = runtime.new_id(f"{self.steps.prefix}/turn"), runtime.execution
        return name if execution is None else f"{execution}/{name}"

    async def _append_results_now(self, results: Sequence[AgentResult]) -> None:
        if self.config is not None and self.config.append_results is not None:
            await resolve(self.config.append_results(self.steps.context(new_results=results)))

    async def release_lease(self) -> None:
        """Release the lease without a record of how this run ended."""
        if self.lease is not None:
            await self.lease.release_now()

    async def pause_lease(self) -> None:
        """Release the lease until the run, which is stored as paused, resumes."""
        if self.lease is not None:
            await self.lease.pause()

    def question_record(self, request: ApprovalRequest) -> QuestionRecord | None:
        """Return the record of a question; None where the store keeps none."""
        if self.outer is not None:
            return self.outer.question_record(request)
        questions, thread_id = abilities_of(self.config).questions, self.state.thread_id
        if thread_id is None or questions is None:
            return None
        question = Question(
            request=request,
            thread_id=thread_id,
            run_id=None if self.message is None else self.message.id,
            execution=self.steps.runtime.execution,
        )
        return QuestionRecord(questions, question)

    @property
    def mail(self) -> MailStore:
        """The store that keeps events until a run receives them.

        Raises:
            ConfigurationError: The run's store keeps none.
        """
        return mail_of(self.config) if self.outer is None else self.outer.mail

    async def ask_for_person(self, reason: str, agent: str) -> Takeover:
        """Ask for a member of the staff.

        Raises:
            ConfigurationError: The run has no thread in a store that keeps who is on it.
        """
        if self.outer is not None:
            return await self.outer.ask_for_person(reason, agent)
        store, thread_id = staff_of(self.config), self.state.thread_id
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
            pauses: The run may end here as paused. The outermost run's thread is free
                once the run is stored so, and not before: a message in line would begin a new run.
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

    async def run_branch(self, step_id: str, work: Callable[[], Awaitable[T]]) -> T:
        """Run a parallel branch; later runs may have the thread once the branch has ended.

        This holds if the branch has waited, since parallel branches may still wait.
        """
        try:
            found = await work()
        except Exception as error:
            if self.steps.runtime.repeats(error):
                await self._branch_ended(step_id)
            raise
        await self._branch_ended(step_id)
        return found

    async def _branch_ended(self, step_id: str) -> None:
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
        runs = self._runs
        if self._notes is None and self._is_stoppable and runs is not None:
            thread_id, append = self.state.thread_id, self._append_results_now
            assert thread_id is not None, "a run that has a store has a thread once it is open"
            self._notes = RunNotes(runs, thread_id, self._owner(), append)
        return self._notes

    @property
    def _is_stoppable(self) -> bool:
        return self.steps.runtime.execution is not None and self.state.thread_id is not None

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
        if self._stored_state is not None and status == "completed":
            await self._stored_state.end(self.steps.once, self.saves.ids, stop_reason)
        if self.lease is None or self.outcome is not None:
            return
        state = self.state.dump() if status == "completed" else None
        await self.lease.finish(status, state, stop_reason, lost=lost)

    async def look(self, *, load_all: bool = True) -> None:
        """Load the thread as `open` would, but create and save nothing."""
        self.pages.load_whole(load_all)
        await self.pages.look()

    async def _create(self, config: HistoryConfig) -> None:
        """Create the thread, unless it is created when it is opened."""
        offer = self.steps.runtime.new_id(f"{self.steps.prefix}/thread")
        if self._opener(config) is not None:
            if self.steps.runtime.durable:
                self.state.enter_thread(self.state.thread_id or offer)
            if self.state.thread_id is not None:
                return
        if config.create_thread is not None:
            context = self.steps.context(new_thread_id=offer)
            create = partial(self._found_or_made, config, config.create_thread, context)
            created = await self.steps.once("create-thread", create)
            if created is not None:
                self.state.enter_thread(created)
        if self.state.thread_id is None and config.get is not None:
            self.state.enter_thread(offer)

    async def _found_or_made(
        self, config: HistoryConfig, create: CreateThread, context: HistoryContext
    ) -> str | None:
        """Return the thread's id; a thread that can be paged is loaded to look for it."""
        thread_id = context.thread_id
        if thread_id is not None and self.pages.may_look(config):
            with suppress(ThreadNotFoundError):
                await self.pages.look_for(config, thread_id)
                return thread_id
        created: object = await resolve(create(context))
        if created is None or isinstance(created, str):
            if created and thread_id is not None and created != thread_id:
                config.warn_of_another_thread(thread_id, created)
            return created or None
        raise ConfigurationError(
            f"create_thread must return the thread's id itself, or None, got {created!r:.80}; "
            "TypeScript's { threadId } is a plain string here."
        )

    async def save_user_message(
        self, message: UserMessage, result: AgentResult | None, *, number: int = 0
    ) -> None:
        """Save the user's message, its id and time filled in, and its entry in the state.

        The ``number`` counts messages that came after the message that began the run.
        """
        if self.config is None:
            return
        if result is not None:
            self.saves.remember()
        if self.config.append_user_message is not None:
            stored = result or AgentResult.from_user(
                message.content, id=message.id, created_at=message.client_timestamp
            )
            context = self.steps.context(user_message=message, user_result=stored)
            append = partial(self._append, self.config.append_user_message, context)
            name = f"append-user-message.{number}" if number else "append-user-message"
            found = await self.steps.once(name, append)
            self.is_taken_over = found == TAKEN_OVER

    async def look_for_staff(self) -> None:
        """Check whether agents pause, without a message of the user."""
        takeovers = abilities_of(self.config).takeovers
        if takeovers is not None:
            look = partial(note_user_message, takeovers, self.state.thread_id)
            self.is_taken_over = await self.steps.once("staff", look)

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
        waited = self.message if self.has_waited else None
        answers = None if waited is None else waited.id
        append = partial(self._append, self.config.append_results)

        def save(new: Sequence[AgentResult]) -> Awaitable[object]:
            return append(self.steps.context(new_results=new, answers=answers))

        await self.saves.save(save, self.steps, lost=lost)

    def unsaved(self) -> Sequence[AgentResult]:
        """Return the results of this run that are not saved yet."""
        return self.saves.unsaved()

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
                if await self.lease.was_taken_over():
                    return None  # the other run answers; the end of this run is an error
                late = [late_reply(result) for result in context.new_results]
                context = replace(context, new_results=late)
        returned = await resolve(function(context))
        if self._notes is not None and context.new_results:
            await self._notes.drop()
        return _if_taken_over(returned)
