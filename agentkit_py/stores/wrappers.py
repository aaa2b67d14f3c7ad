"""Stores that restrict or mask another store: `for_user` and `redacted`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import datetime
from functools import wraps
from types import CoroutineType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeAlias, TypeVar, cast

from agentkit_py._core.awaiting import off_loop
from agentkit_py._core.json import JsonObject
from agentkit_py.errors import ConfigurationError, HistoryError, ThreadNotFoundError
from agentkit_py.history.abilities import Abilities
from agentkit_py.history.config import HistoryContext
from agentkit_py.history.mail import InboxStore, MailStore
from agentkit_py.history.questions import Question, QuestionFilter, QuestionStore
from agentkit_py.history.runs import LeaseClaim, RunRecord, RunStore
from agentkit_py.history.staff import Takeover, TakeoverStatus, TakeoverStore
from agentkit_py.history.users import Fact, FactStore
from agentkit_py.messages import UserMessage
from agentkit_py.processors.base import HistoryProcessor, Processors, Summary, SummaryStore
from agentkit_py.results import AgentResult
from agentkit_py.search.vectors import VectorIndex
from agentkit_py.stores._wrapped_records import MaskedRecords, OwnRecords
from agentkit_py.stores.base import HistoryStore
from agentkit_py.stores.records import Records
from agentkit_py.stores.rows import (
    Match,
    Row,
    StoreStats,
    ThreadInfo,
    check_text,
    encode_json,
    encode_row,
    new_thread_id,
)
from agentkit_py.stores.thread_records import ThreadRecords

if TYPE_CHECKING:
    from agentkit_py.processors.redaction import MaskFunction, Patterns, Redactor


def for_user(store: HistoryStore, user_id: str) -> HistoryStore:
    """Return ``store`` restricted to a user: threads of others are not found in it.

    Threads that are created in it belong to the user. It has the abilities of ``store`` and shares
    its connections.

    Raises:
        HistoryError: The id is empty or not valid Unicode.
        ConfigurationError: The store has a lease, and keeps no summaries or no vectors.
    """
    check_text("user id", user_id)
    kind = _UserStore if _has_thread_data(store) else _UserThreads
    return kind(store, user_id)


def redacted(
    store: HistoryStore, redactor: Redactor | Patterns | MaskFunction, *, state: bool = True
) -> HistoryStore:
    """Return ``store`` with everything masked that is written through it.

    Masked are messages of users and models, inputs and results of tools, the client's state,
    summaries, titles and metadata of threads, and the state that is kept with each run. Ids of
    threads, users, messages and calls, and names of agents and tools stay, since they are keys.
    What is stored already stays as it is.

    A run continues with the original text; the next run, which loads the thread, sees it masked.

    Args:
        store: Any store; the new store has its abilities and shares its connections.
        redactor: A `Redactor`, or its patterns or function. It has to give the same
            text for the same text each time, or a repeated write is refused as another result.
        state: Whether the state of runs is masked, too. A next run begins with that state: say
            False where tools need the original data in it.

    Raises:
        ConfigurationError: There is nothing to look for, a pattern is not a regular expression, or
            the store has a lease, and keeps no summaries or no vectors.
    """
    from agentkit_py.processors.redaction import as_redactor  # noqa: PLC0415 - slow to load

    made = as_redactor(redactor)
    kind = _RedactedStore if _has_thread_data(store) else _RedactedThreads
    return kind(store, made, mask_state=state)


def _has_thread_data(store: HistoryStore) -> bool:
    """Return whether the store also keeps summaries, vectors and runs.

    Raises:
        ConfigurationError: It keeps leases, and not the others: its leases would be lost.
    """
    able = store.abilities
    known = able.summaries is not None and able.vectors is not None
    if not known and store.lease is not None:
        raise ConfigurationError(
            f"{type(store).__name__} keeps leases, but no summaries or no vectors: for_user and "
            "redacted take all of SummaryStore, VectorIndex and RunStore of a store, or none."
        )
    return known and able.runs is not None


P = ParamSpec("P")
T = TypeVar("T")
Method: TypeAlias = "Callable[P, CoroutineType[Any, Any, T]]"


def _passed_on(method: Method[P, T]) -> Method[P, T]:
    """Return a method that calls the method of the same name of the other store."""

    @wraps(method, updated=())
    async def call(self: Any, *values: Any, **options: Any) -> Any:
        return await getattr(self._store, method.__name__)(*values, **options)

    return call


def _about_thread(method: Method[P, T]) -> Method[P, T]:
    """Return a method that does the same once the thread, its first argument, may be used."""

    @wraps(method, updated=())
    async def call(self: Any, thread_id: str, *values: Any, **options: Any) -> Any:
        store = await self._own(thread_id)
        return await getattr(store, method.__name__)(thread_id, *values, **options)

    return call


class _WrappedThreads(HistoryStore):
    """Delegates to another store and shares its connections."""

    _passes_on = ("pages", "first_state")
    """The abilities whose methods it has, as fields of `Abilities`."""

    def __init__(self, store: HistoryStore) -> None:
        self._store: Any = store
        super().__init__(lease=store.lease, lazy=store.lazy)
        self._processors = None
        self.counts_tokens = store.counts_tokens

    def _find_abilities(self) -> Abilities:
        """Return those of the store whose methods this wrapper has: it can do no more."""
        return self._store.abilities.through(self, self._passes_on)

    @property
    def _chosen(self) -> tuple[Processors, tuple[HistoryProcessor, ...]]:
        """Its own; else the store's: the same objects, which run once where both are used."""
        return self._processors or (self._store.processors, self._store.chain)

    @property
    def redactor(self) -> Redactor | None:
        return self._store.redactor

    @property
    def looks_first(self) -> bool:
        own = self.create_thread == self._create_for_run
        return own and self._store.looks_first

    async def _own(self, thread_id: str) -> Any:
        """Return the store to ask for this thread."""
        del thread_id
        return self._store

    def restricted_to(self, user_id: str) -> Self | None:
        """Return the same around the other store as it is for the user, where it can be."""
        inner = self._store.restricted_to(user_id)
        if inner is None:
            return None
        view = copy(self)
        view._store = inner  # noqa: SLF001 - a copy of this object
        return view

    setup = _passed_on(HistoryStore.setup)
    close = _passed_on(HistoryStore.close)
    clean_sometimes = _passed_on(HistoryStore.clean_sometimes)
    insert_thread = _passed_on(HistoryStore.insert_thread)
    add_thread = _passed_on(HistoryStore.add_thread)
    select_threads = _passed_on(HistoryStore.select_threads)
    thread_page = _passed_on(HistoryStore.thread_page)
    threads_before = _passed_on(HistoryStore.threads_before)
    thread_exists = _passed_on(HistoryStore.thread_exists)
    search = _passed_on(HistoryStore.search)
    index_words = _passed_on(HistoryStore.index_words)
    stats = _passed_on(HistoryStore.stats)
    delete_user = _passed_on(HistoryStore.delete_user)

    get_thread = _about_thread(HistoryStore.get_thread)
    set_times = _about_thread(HistoryStore.set_times)
    forks = _about_thread(HistoryStore.forks)
    rewind = _about_thread(HistoryStore.rewind)
    append_rows = _about_thread(HistoryStore.append_rows)
    append_held = _about_thread(HistoryStore.append_held)
    append_user_row = _about_thread(HistoryStore.append_user_row)
    open_run = _about_thread(HistoryStore.open_run)
    open_unleased = _about_thread(HistoryStore.open_unleased)
    end_run = _about_thread(HistoryStore.end_run)
    stored_results = _about_thread(HistoryStore.stored_results)
    page = _about_thread(HistoryStore.page)
    newest = _about_thread(HistoryStore.newest)
    count_results = _about_thread(HistoryStore.count_results)
    thread_data = _about_thread(HistoryStore.thread_data)

    # The other store owns the files.

    async def insert_fork(
        self, thread_id: str, at: str | int | None, fork_id: str, title: str | None
    ) -> str:
        own = await self._own(thread_id)
        return await own.fork(thread_id, at, fork_id=fork_id, title=title)

    async def remove_thread(self, thread_id: str) -> bool:
        return await self._store.delete_thread(thread_id)


class _WrappedStore(_WrappedThreads, ThreadRecords):
    """Delegates thread data as well."""

    _passes_on = (
        *("pages", "first_state", "runs", "opener", "questions", "takeovers", "mail", "inbox"),
        *("facts", "summaries", "vectors", "records"),
    )

    load_summary = _about_thread(SummaryStore.load_summary)
    lock_summary = _about_thread(SummaryStore.lock_summary)
    save_summary = _about_thread(SummaryStore.save_summary)
    unlock_summary = _about_thread(SummaryStore.unlock_summary)
    missing_vectors = _about_thread(VectorIndex.missing_vectors)
    add_vectors = _about_thread(VectorIndex.add_vectors)
    nearest_vectors = _about_thread(VectorIndex.nearest_vectors)
    lock_thread = _about_thread(RunStore.lock_thread)
    wait_in_line = _about_thread(RunStore.wait_in_line)
    unlock_thread = _about_thread(RunStore.unlock_thread)
    note_calls = _about_thread(RunStore.note_calls)
    notes_of = _about_thread(HistoryStore.notes_of)
    drop_notes = _about_thread(RunStore.drop_notes)
    stop_execution = _passed_on(RunStore.stop_execution)
    is_stopped = _passed_on(RunStore.is_stopped)
    save_run = _about_thread(RunStore.save_run)
    load_run = _about_thread(RunStore.load_run)
    change_run = _about_thread(QuestionStore.change_run)
    load_question = _passed_on(QuestionStore.load_question)
    list_questions = _passed_on(QuestionStore.list_questions)
    change_takeover = _about_thread(TakeoverStore.change_takeover)
    list_takeovers = _passed_on(TakeoverStore.list_takeovers)
    take_mail = _passed_on(MailStore.take_mail)
    list_mail = _passed_on(MailStore.list_mail)
    remove_mail = _passed_on(MailStore.remove_mail)
    put_message = _about_thread(InboxStore.put_message)
    take_messages = _about_thread(InboxStore.take_messages)
    add_fact = _passed_on(FactStore.add_fact)
    list_facts = _passed_on(FactStore.list_facts)
    remove_facts = _passed_on(FactStore.remove_facts)

    async def transact(self, work: Callable[[Records], T]) -> T:
        def within(records: Records) -> T:
            return work(self._seen(records))

        return await self._store.transact(within)

    async def _about(self, thread_id: str, work: Callable[[Records], T]) -> T:
        def within(records: Records) -> T:
            return work(self._seen(records))

        return await (await self._own(thread_id))._about(thread_id, within)  # noqa: SLF001 - a store

    def _seen(self, records: Records) -> Records:
        """Return the records as this store restricts or masks them."""
        return records

    async def save_question(self, question: Question) -> None:
        await (await self._own(question.thread_id)).save_question(question)

    async def change_question(
        self, question_id: str, change: Callable[[Question], Question | None]
    ) -> Question | None:
        if await self.load_question(question_id) is None:  # it may be another user's
            return None
        return await self._store.change_question(question_id, change)

    async def load_takeover(self, thread_id: str) -> Takeover | None:
        return await (await self._own(thread_id)).load_takeover(thread_id)

    async def put_mail(
        self, box: str, mail_id: str, content: JsonObject, *, thread_id: str | None = None
    ) -> None:
        store = self._store if thread_id is None else await self._own(thread_id)
        await store.put_mail(box, mail_id, content, thread_id=thread_id)


class _UserThreads(_WrappedThreads):
    """Checks the owner of a thread before anything is done with it."""

    def __init__(self, store: HistoryStore, user_id: str) -> None:
        super().__init__(store)
        self._user_id = user_id
        self._checked: HistoryStore | None = store.restricted_to(user_id)

    def __repr__(self) -> str:
        return f"for_user({self._store!r}, {self._user_id!r})"

    def restricted_to(self, user_id: str) -> None:
        """Refuse: who is restricted twice is asked for both owners."""
        del user_id

    async def _own(self, thread_id: str) -> Any:
        if self._checked is not None:  # the database asks for the owner
            return self._checked
        info: ThreadInfo = await self._store.get_thread(thread_id)
        if info.user_id != self._user_id:
            raise ThreadNotFoundError(thread_id)
        return self._store

    async def add_thread(
        self,
        thread_id: str | None = None,
        *,
        user_id: str | None = None,
        title: str = "",
        metadata: JsonObject | None = None,
    ) -> str:
        """Create a thread of this user.

        Raises:
            ThreadNotFoundError: The id belongs to a thread of another user, or ``user_id`` is
                another user.
        """
        key = new_thread_id() if thread_id is None else thread_id
        if user_id not in (None, self._user_id):
            raise ThreadNotFoundError(key)
        store = self._checked or self._store
        await store.add_thread(key, user_id=self._user_id, title=title, metadata=metadata)
        await self._own(key)
        return key

    async def insert_thread(self, thread: ThreadInfo) -> None:
        if thread.user_id not in (None, self._user_id):
            raise ThreadNotFoundError(thread.id)
        store = self._checked or self._store
        await store.insert_thread(replace(thread, user_id=self._user_id))
        await self._own(thread.id)

    async def select_threads(self, limit: int | None, user_id: str | None) -> list[ThreadInfo]:
        if user_id not in (None, self._user_id):
            return []
        return await self._store.select_threads(limit, self._user_id)

    async def thread_page(
        self,
        limit: int,
        *,
        user_id: str | None = None,
        offset: int = 0,
        before: tuple[datetime, str] | None = None,
    ) -> tuple[list[ThreadInfo], int]:
        if user_id not in (None, self._user_id):
            return [], 0
        mine = self._user_id
        return await self._store.thread_page(limit, user_id=mine, offset=offset, before=before)

    threads_before = HistoryStore.threads_before  # the page is the user's

    async def search(
        self, words: str, *, user_id: str | None = None, limit: int = 50
    ) -> list[Match]:
        if user_id not in (None, self._user_id):
            return []
        return await self._store.search(words, user_id=self._user_id, limit=limit)

    async def stats(self, user_id: str | None = None) -> StoreStats:
        if user_id not in (None, self._user_id):
            return StoreStats(0, 0, 0, 0)
        return await self._store.stats(self._user_id)

    async def delete_user(self, user_id: str) -> int:
        return await self._store.delete_user(user_id) if user_id == self._user_id else 0

    async def thread_exists(self, thread_id: str) -> bool:
        try:
            return await (await self._own(thread_id)).thread_exists(thread_id)
        except ThreadNotFoundError:
            return False

    async def remove_thread(self, thread_id: str) -> bool:
        return await self.thread_exists(thread_id) and await self._store.delete_thread(thread_id)


class _UserStore(_UserThreads, _WrappedStore):
    """Wraps thread data as well."""

    def _seen(self, records: Records) -> Records:
        return OwnRecords(records, self._user_id)

    async def load_question(self, question_id: str) -> Question | None:
        found = await super().load_question(question_id)
        return found if found is not None and found.user_id == self._user_id else None

    async def list_questions(
        self,
        *,
        thread_id: str | None = None,
        user_id: str | None = None,
        status: QuestionFilter | None = "open",
        limit: int | None = 50,
    ) -> list[Question]:
        if user_id not in (None, self._user_id):
            return []
        return await super().list_questions(
            thread_id=thread_id, user_id=self._user_id, status=status, limit=limit
        )

    async def list_takeovers(
        self,
        *,
        status: TakeoverStatus | None = None,
        user_id: str | None = None,
        limit: int | None = 50,
    ) -> list[Takeover]:
        if user_id not in (None, self._user_id):
            return []
        return await super().list_takeovers(status=status, user_id=self._user_id, limit=limit)

    async def add_fact(self, fact: Fact) -> bool:
        """Add a fact of this user.

        Raises:
            HistoryError: It is another user's.
            ThreadNotFoundError: Its thread is another user's.
        """
        if fact.user_id != self._user_id:
            raise HistoryError(f"A store of {self._user_id!r} keeps no facts of others.")
        if fact.thread_id is not None:
            await (await self._own(fact.thread_id)).get_thread(fact.thread_id)
        return await self._store.add_fact(fact)

    async def list_facts(
        self, tenant: str, user_id: str, *, replaced: bool = False, limit: int | None = None
    ) -> list[Fact]:
        if user_id != self._user_id:
            return []
        return await super().list_facts(tenant, user_id, replaced=replaced, limit=limit)

    async def remove_facts(
        self, user_id: str, *, tenant: str | None = None, fact_id: str | None = None
    ) -> int:
        if user_id != self._user_id:
            return 0
        return await super().remove_facts(user_id, tenant=tenant, fact_id=fact_id)


class _RedactedThreads(_WrappedThreads):
    """Masks all writes."""

    def __init__(self, store: HistoryStore, redactor: Redactor, *, mask_state: bool) -> None:
        super().__init__(store)
        self._redactor = redactor
        self._mask_state = mask_state

    @property
    def redactor(self) -> Redactor:
        return self._redactor

    def __repr__(self) -> str:
        return f"redacted({self._store!r}, {self._redactor.names})"

    async def add_thread(
        self,
        thread_id: str | None = None,
        *,
        user_id: str | None = None,
        title: str = "",
        metadata: JsonObject | None = None,
    ) -> str:
        """Create a thread with a masked title and masked metadata."""
        kept = None if metadata is None else self._object(metadata, "The metadata of a thread")
        title = self._redactor.text(title)
        return await super().add_thread(thread_id, user_id=user_id, title=title, metadata=kept)

    async def insert_fork(
        self, thread_id: str, at: str | int | None, fork_id: str, title: str | None
    ) -> str:
        """Add a fork with a masked title; the results it shares stay as they are stored."""
        masked = None if title is None else self._redactor.text(title)
        return await super().insert_fork(thread_id, at, fork_id, masked)

    async def insert_thread(self, thread: ThreadInfo) -> None:
        """Add a thread with a masked title and masked metadata."""
        title = self._redactor.text(thread.title)
        metadata = self._object(thread.metadata, "The metadata of a thread")
        await super().insert_thread(replace(thread, title=title, metadata=metadata))

    async def _create_for_run(self, context: HistoryContext) -> str:
        # Before the title is cut: patterns do not find half an address.
        text = context.input
        masked = await off_loop(lambda: self._redactor.text(text), text)
        return await super()._create_for_run(replace(context, input=masked))

    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        """Add rows, masked."""
        masked = [await self._row(thread_id, row) for row in rows]
        await super().append_rows(thread_id, masked)

    async def append_held(self, thread_id: str, rows: Sequence[Row], claim: LeaseClaim) -> bool:
        """Renew a lease and add rows, masked."""
        masked = [await self._row(thread_id, row) for row in rows]
        return await super().append_held(thread_id, masked, claim)

    async def append_user_row(self, thread_id: str, row: Row, claim: LeaseClaim | None) -> bool:
        """Add the user's message, masked."""
        return await super().append_user_row(thread_id, await self._row(thread_id, row), claim)

    async def _row(self, thread_id: str, row: Row) -> Row:
        metadata = None if row.metadata is None else json.loads(row.metadata)
        kept = self._redactor.value(metadata)
        result = AgentResult.from_dict(json.loads(row.json))
        masked = await off_loop(lambda: self._result(result), row.json)
        if masked is result and kept is metadata:
            return row
        if masked is not result:
            await self._count([masked])
        made = encode_row(masked, thread_id, cast("JsonObject | None", kept))
        return replace(made, tokens=row.tokens) if masked is result else made

    def _result(self, result: AgentResult) -> AgentResult:
        mask = self._redactor.message
        made: dict[str, Any] = {}
        for name in ("output", "tool_calls", "prompt", "history"):
            before = getattr(result, name)
            after = tuple(mask(message) for message in before)
            if any(a is not b for a, b in zip(after, before, strict=True)):
                made[name] = after
        return replace(result, **made) if made else result

    def _object(self, value: JsonObject, what: str) -> JsonObject:
        # A value that is not JSON is refused here as the other store would.
        plain = json.loads(encode_json(dict(value), f"{what} cannot be saved"))
        return cast("JsonObject", self._redactor.value(plain))


class _RedactedStore(_RedactedThreads, _WrappedStore):
    """Wraps thread data as well."""

    def _seen(self, records: Records) -> Records:
        return MaskedRecords(records, self._redactor.value)

    async def save_summary(self, thread_id: str, key: str, summary: Summary, owner: str) -> bool:
        masked = replace(summary, text=self._redactor.text(summary.text))
        return await super().save_summary(thread_id, key, masked, owner)

    async def note_calls(self, thread_id: str, owner: str, notes: Mapping[str, JsonObject]) -> bool:
        masked = {key: self._object(one, "A note of a call") for key, one in notes.items()}
        return await super().note_calls(thread_id, owner, masked)

    async def save_question(self, question: Question) -> None:
        """Save a question with masked arguments, message and reason."""
        await super().save_question(self._question(question))

    async def change_question(
        self, question_id: str, change: Callable[[Question], Question | None]
    ) -> Question | None:
        def masked(question: Question) -> Question | None:
            made = change(question)
            return None if made is None else self._question(made)

        return await super().change_question(question_id, masked)

    async def change_takeover(
        self, thread_id: str, change: Callable[[Takeover], Takeover | None]
    ) -> Takeover:
        """Change who is on a thread, with a masked reason."""

        def masked(known: Takeover) -> Takeover | None:
            made = change(known)
            return None if made is None else replace(made, reason=self._redactor.text(made.reason))

        return await super().change_takeover(thread_id, masked)

    async def put_mail(
        self, box: str, mail_id: str, content: JsonObject, *, thread_id: str | None = None
    ) -> None:
        """Keep mail, masked."""
        masked = self._object(content, f"Mail {mail_id!r}")
        await super().put_mail(box, mail_id, masked, thread_id=thread_id)

    async def put_message(
        self, thread_id: str, message: UserMessage, *, interrupts: bool = False
    ) -> None:
        """Keep a message, masked."""
        masked = replace(
            self._redactor.user_message(message),
            state=None if message.state is None else self._object(message.state, "A state"),
        )
        await super().put_message(thread_id, masked, interrupts=interrupts)

    async def add_fact(self, fact: Fact) -> bool:
        """Add a fact, masked."""
        return await super().add_fact(replace(fact, text=self._redactor.text(fact.text)))

    def _question(self, question: Question) -> Question:
        mask = self._redactor
        answer = question.answer
        if answer is not None:
            calls = {i: replace(d, reason=mask.text(d.reason)) for i, d in answer.calls.items()}
            data = {
                key: one if key in _WHO else mask.value(one) for key, one in answer.data.items()
            }
            answer = replace(answer, reason=mask.text(answer.reason), calls=calls, data=data)
        request = replace(
            question.request,
            calls=tuple(replace(c, arguments=mask.value(c.arguments)) for c in question.calls),
            message=mask.text(question.message),
        )
        return replace(
            question,
            request=request,
            reason=mask.text(question.reason),
            answer=answer,
        )

    async def save_run(self, thread_id: str, run: RunRecord) -> None:
        await super().save_run(thread_id, self._run(run))

    async def end_run(self, thread_id: str, owner: str, run: RunRecord) -> str | None:
        """Save a run with a masked state, and end its lease."""
        return await super().end_run(thread_id, owner, self._run(run))

    async def change_run(
        self, thread_id: str, run_id: str, change: Callable[[RunRecord], RunRecord | None]
    ) -> RunRecord | None:
        def masked(run: RunRecord) -> RunRecord | None:
            made = change(run)
            return None if made is None else self._run(made)

        return await super().change_run(thread_id, run_id, masked)

    def _run(self, run: RunRecord) -> RunRecord:
        what = f"run {run.id!r}"
        if run.journal is not None and self._object(run.journal, what) != run.journal:
            raise ConfigurationError(
                f"The {what} waits for a person, and contains data that this store masks: it "
                "could only resume with masked values. Pass approver=… to run(), or use Inngest."
            )
        if self._mask_state and run.state is not None:
            return replace(run, state=self._object(run.state, f"The state of {what}"))
        return run


_WHO = ("answeredBy", "resolvedBy")
"""Ids of users in answers: they are keys, and stay."""
