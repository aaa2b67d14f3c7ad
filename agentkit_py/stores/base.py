"""HistoryStore: the base class of stores, and the history callbacks of runs."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self, cast

from agentkit_py._core.json import JsonObject
from agentkit_py.errors import (
    ConfigurationError,
    HistoryError,
    MessageNotFoundError,
    ThreadBusyError,
    ThreadNotFoundError,
)
from agentkit_py.history.config import HistoryConfig, HistoryContext
from agentkit_py.history.leases import ThreadLease
from agentkit_py.history.runs import Known, LeaseClaim, OpenedRun, RunRecord, RunStore
from agentkit_py.history.staff import TAKEN_OVER, note_user_message
from agentkit_py.messages import Message, token_memo
from agentkit_py.processors.base import Extent, Processors, extent_of
from agentkit_py.processors.tokenizers import count_text, default_tokenizer, is_ready, prepare
from agentkit_py.results import USER, AgentResult
from agentkit_py.stores.rows import (
    Match,
    Row,
    StoredResult,
    StoreStats,
    ThreadInfo,
    at_most,
    check_text,
    encode_row,
    find_words,
    new_thread,
    new_thread_id,
    title_of,
)
from agentkit_py.stores.thread_data import ThreadData, restore
from agentkit_py.stores.words import WordSearch

if TYPE_CHECKING:
    from agentkit_py.processors.redaction import Redactor
    from agentkit_py.stores.broadcast import Broadcast
    from agentkit_py.stores.workspace import Workspace


_PAGE, _AT_ONCE, _PAUSE = 100, 20, 60.0
"""Threads that are looked at together, and those and seconds of `HistoryStore.keep`."""

_LOOKED_AT = 50
"""Results that are read at once to look for a message."""


def thread_store(history: object) -> HistoryStore | None:
    """Return a history as a store of threads; None: it is only callbacks, or there is none."""
    return history if isinstance(history, HistoryStore) else None


class HistoryStore(HistoryConfig, ABC):
    """A database of threads, usable as ``history=…`` of agents and networks.

    A store for another database implements the abstract methods; everything else follows. Results
    are only ever added: stored results are never rewritten. Every write happens whole or not at
    all, and a result whose id its thread already holds is not added again, so a write can be
    repeated.
    """

    workspace: Workspace | None = None
    """Files that tools keep for threads; they are deleted with their threads."""

    keep: timedelta | None = None
    """Threads that have not changed for so long are removed when a new thread begins, see `clean`:
    at most 20 then, and at most once a minute. None: they stay."""

    counts_tokens: bool
    """Count tokens at each save; if False, only where their encoding is loaded anyway."""

    def __init__(
        self,
        *,
        processors: Processors = (),
        lease: ThreadLease | None = None,
        lazy: bool | None = None,
    ) -> None:
        """Connect the run's callbacks to the store's methods.

        Args:
            processors: History processors that run before those of networks and agents.
            lease: How runs share a thread; None: they do not know of each other.
            lazy: False: each run loads its whole thread. Else it loads as much as its processors
                want to see, and `State.transcript` holds that. True: and tokens are counted at each
                save, though the encoding has to be loaded for that.
        """
        super().__init__(
            create_thread=self._create_for_run,
            get=lambda context: self.load(_thread_of(context)),
            append_user_message=self._append_users_turn,
            append_results=self._append_new_results,
            processors=processors,
            save_each=True,
            lease=lease,
            lazy=lazy if lazy is not None else True,
        )
        self.counts_tokens = lazy is True
        self._cleaned_at = -_PAUSE
        self._check_notes()

    def _check_notes(self) -> None:
        """Refuse a store that keeps notes of calls and does not give them back."""
        kind = type(self)
        if hasattr(kind, "note_calls") and kind.notes_of is HistoryStore.notes_of:
            raise ConfigurationError(
                f"{kind.__name__}: it has note_calls, and no notes_of: the calls of a run that "
                "fails would be lost. Write notes_of, which returns what note_calls has kept, or "
                "subclass RecordStore, which has both."
            )

    @property
    def redactor(self) -> Redactor | None:
        """The redactor that masks all writes; None: nothing is masked."""
        return None

    @property
    def looks_first(self) -> bool:
        """`create_thread` changes nothing where the thread exists already.

        False in a subclass that overrides it, e.g. to check the thread's owner in each run.
        """
        kind = type(self)
        made = (self.create_thread, kind._create_for_run, kind.add_thread)  # noqa: SLF001 - its own class
        own = (self._create_for_run, HistoryStore._create_for_run, HistoryStore.add_thread)
        return made == own

    @property
    def renews_leases(self) -> bool:
        """The appends renew the lease of a run in the transaction that saves."""
        own = (self._append_users_turn, self._append_new_results)
        return (self.append_user_message, self.append_results) == own

    # To be implemented for a database.

    @abstractmethod
    async def insert_thread(self, thread: ThreadInfo) -> None:
        """Add a thread, unless its id exists. Its fields have been checked."""

    @abstractmethod
    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        """Add rows at the end, in order, without those whose id is stored already.

        All are written or none, also if the caller is cancelled. `new_rows` selects the rows to
        add.

        Raises:
            ThreadNotFoundError: The thread does not exist.
        """

    @abstractmethod
    async def stored_results(self, thread_id: str) -> list[StoredResult]:
        """Return the results with their positions and metadata, oldest first.

        Raises:
            ThreadNotFoundError: The thread does not exist.
            InvalidRecordError: A stored row is damaged.
        """

    @abstractmethod
    async def get_thread(self, thread_id: str) -> ThreadInfo:
        """Return a thread without its results.

        Raises:
            ThreadNotFoundError: The thread does not exist.
        """

    @abstractmethod
    async def select_threads(self, limit: int | None, user_id: str | None) -> list[ThreadInfo]:
        """Return threads, the last changed first."""

    @abstractmethod
    async def remove_thread(self, thread_id: str) -> bool:
        """Remove a thread with its results and thread data; return False if there was none."""

    # Follows from these; a database may have quicker ways.

    async def setup(self) -> None:
        """Create or update the tables. Not needed: the first use does it."""

    async def close(self) -> None:
        """Close the connections. A store that is used after that connects again."""

    async def add_thread(
        self,
        thread_id: str | None = None,
        *,
        user_id: str | None = None,
        title: str = "",
        metadata: JsonObject | None = None,
    ) -> str:
        """Create a thread and return its id; an existing thread stays as it is.

        Args:
            thread_id: Its id, a new id unless given.
            user_id: The user who owns the thread.
            title: A title for lists.
            metadata: JSON to keep with the thread; the library does not read it.

        Raises:
            HistoryError: The id is empty or no valid Unicode, or the metadata is not JSON.
        """
        thread = new_thread(thread_id, user_id, title, metadata)
        await self.insert_thread(thread)
        return thread.id

    async def fork(
        self,
        thread_id: str,
        at: str | int | None = None,
        *,
        fork_id: str | None = None,
        title: str | None = None,
    ) -> str:
        """Create a thread that begins with another's messages before a message of the user.

        It belongs to the same user, has the other's metadata, and continues from the summaries,
        vectors and state that the other had there. It gets a copy of the files that the other has
        in the workspace now. From then on the two are independent. The stores of this
        library copy nothing, however long it is; with ``layout="typescript"``, and in a store of
        yours that does not override this, the fork is a copy.

        Args:
            thread_id: The thread to fork; it stays as it is.
            at: The id or position of a message of the user, which is left out with all after it;
                None: the fork has the whole thread.
            fork_id: The fork's id, a new id unless given. Where nothing is copied, forking again
                to the same id at the same place does nothing.
            title: The fork's title; None: the thread's.

        Returns:
            The fork's id.

        Raises:
            ThreadNotFoundError: The thread does not exist.
            MessageNotFoundError: It has no such message.
            HistoryError: There is another thread under ``fork_id``.
        """
        key = new_thread_id() if fork_id is None else check_text("thread id", fork_id)
        if self.workspace is None:
            return await self.insert_fork(thread_id, at, key, title)
        await self.get_thread(thread_id)  # another's files are not even read
        copy = await asyncio.to_thread(self.workspace.copy, thread_id)
        try:
            made = await self.insert_fork(thread_id, at, key, title)
            self.workspace.give(copy, made)
            return made
        finally:
            self.workspace.remove(copy)

    async def insert_fork(
        self, thread_id: str, at: str | int | None, fork_id: str, title: str | None
    ) -> str:
        """Add a fork; return its id. `fork` has checked its arguments.

        The default copies; override it where the database can refer to the stored results.
        """
        info = await self.get_thread(thread_id)
        stored = await self.stored_results(thread_id)
        place = _place_of(thread_id, stored, at)
        if await self.thread_exists(fork_id):
            raise HistoryError(f"There is a thread {fork_id!r} already; give the fork another id.")
        title = info.title if title is None else title
        made: JsonObject = dict(info.metadata)
        key = await self.add_thread(fork_id, user_id=info.user_id, title=title, metadata=made)
        rows = [encode_row(one.result, key, one.metadata) for one in stored[:place]]
        await self.append_rows(key, rows)
        data = await self.thread_data(thread_id)
        await restore(self, key, data.before([one.result for one in stored[:place]]))
        return key

    async def forks(self, thread_id: str, *, limit: int | None = 50) -> list[ThreadInfo]:
        """Return the forks of a thread that are still there, the oldest first.

        `ThreadInfo.forked_at` says where each has left it. The default reads all threads; override
        it where the database can find them.

        Args:
            thread_id: The thread.
            limit: The most forks to return; None: all.
        """
        every = await self.list_threads(None)
        found = [one for one in every if one.forked_from == thread_id]
        return sorted(found, key=lambda one: (one.created_at, one.id))[: at_most(limit)]

    async def rewind(self, thread_id: str, at: str | int) -> None:
        """Take a thread back to before a message of the user.

        It continues from its summaries and its state there. Later data is
        part of no thread any more, except of forks that were made of it before; it is deleted
        with the thread. To keep it within reach, `fork` the thread first.

        Args:
            thread_id: The thread.
            at: The id or position of a message of the user, which goes with all after it.

        Raises:
            ThreadNotFoundError: The thread does not exist.
            MessageNotFoundError: It has no such message.
            ThreadBusyError: A run has the thread's lease, or waits for a person's answer.
            ConfigurationError: The store cannot do that.
        """
        del thread_id, at
        raise ConfigurationError(
            f"{type(self).__name__}: this store's threads cannot be rewound; fork the thread, and "
            "continue with the fork."
        )

    async def last_user_message(self, thread_id: str, back: int = 1) -> StoredResult | None:
        """Return the user's last message in a thread; None: there is none.

        Args:
            thread_id: The thread.
            back: Which of the user's messages, counted from the last.

        Raises:
            ThreadNotFoundError: The thread does not exist.
        """
        end, found = await self.newest(thread_id, _LOOKED_AT)
        while found:
            for one in reversed(found):
                back -= one.result.agent_name == USER
                if not back:
                    return one
            end -= _LOOKED_AT
            found = await self.page(thread_id, end, _LOOKED_AT) if end > 0 else []
        return None

    def restricted_to(self, user_id: str) -> Self | None:
        """Return this store with each access to a thread refused where it is not the user's.

        Database and owner are asked in a single transaction. None: the store cannot do that, and
        `for_user` asks for the owner first.
        """
        del user_id
        return None

    async def append_held(self, thread_id: str, rows: Sequence[Row], claim: LeaseClaim) -> bool:
        """Renew a lease and add rows as `append_rows` does; return False if it is another's.

        The default makes two calls; override it where a single transaction can do both.
        """
        held = await cast("RunStore", self).lock_thread(thread_id, claim.owner, claim.seconds)
        if held:
            await self.append_rows(thread_id, rows)
        return held

    async def append_user_row(self, thread_id: str, row: Row, claim: LeaseClaim | None) -> bool:
        """Add the user's message; return True if a staff member should answer, not an agent.

        The default asks for staff after it; override it where a single transaction can do both.

        Raises:
            ThreadBusyError: The lease is another's.
        """
        if claim is None:
            await self.append_rows(thread_id, [row])
        elif not await self.append_held(thread_id, [row], claim):
            raise ThreadBusyError(thread_id)
        return await note_user_message(self.abilities.takeovers, thread_id)

    async def open_run(
        self, thread_id: str, claim: LeaseClaim, run_id: str, limit: int
    ) -> OpenedRun | None:
        """Take the lease, and read the start of a run; see `RunOpener`."""
        await self.get_thread(thread_id)
        runs = cast("RunStore", self)
        if not await runs.lock_thread(thread_id, claim.owner, claim.seconds):
            return None
        own, previous = [await runs.load_run(thread_id, one) for one in (run_id, None)]
        count, page = await self.newest(thread_id, limit)
        return OpenedRun.of_page(own, previous, count, page)

    async def open_unleased(self, thread_id: str, limit: int) -> OpenedRun:
        """Read the start of a run without a lease: the last state, and the newest results.

        The default makes two calls; override it where a single transaction can do both.

        Raises:
            ThreadNotFoundError: The thread does not exist.
        """
        count, page = await self.newest(thread_id, limit)
        runs = self.abilities.runs
        run = None if runs is None else await runs.load_run(thread_id)
        return OpenedRun.of_page(None, run, count, page)

    async def look_up(self, thread_id: str, run_id: str, user_id: str, most: int) -> Known:
        """Return a run, the thread's last state, and how many questions of the user are open.

        The default makes several calls; override it where a single transaction can do all.

        Args:
            thread_id: The thread of the message.
            run_id: The run that answers the message.
            user_id: The user.
            most: The most questions that are counted.
        """
        store = self.abilities.questions
        if store is None:
            return Known(own=None, previous=None, questions=0)
        own, previous = [await store.load_run(thread_id, one) for one in (run_id, None)]
        asked = await store.list_questions(user_id=user_id, limit=most)
        return Known(own=own, previous=previous, questions=len(asked))

    async def notes_of(self, thread_id: str, owner: str) -> Mapping[str, JsonObject]:
        """Return the notes of an owner, in order; see `RunOpener`. Here there are none."""
        del thread_id, owner
        return {}

    async def end_run(self, thread_id: str, owner: str, run: RunRecord) -> str | None:
        """Save the record of a run, drop its notes, and end its lease; see `RunOpener`."""
        runs = cast("RunStore", self)
        await runs.save_run(thread_id, run)
        await runs.drop_notes(thread_id, owner)
        return await runs.unlock_thread(thread_id, owner)

    async def thread_exists(self, thread_id: str) -> bool:
        """Return whether the thread exists."""
        try:
            await self.get_thread(thread_id)
        except ThreadNotFoundError:
            return False
        return True

    async def count_results(self, thread_id: str) -> int:
        """Return the number of results, user turns included.

        The default reads the whole thread; override it where the database can count.

        Raises:
            ThreadNotFoundError: The thread does not exist.
        """
        return len(await self.stored_results(thread_id))

    async def page(self, thread_id: str, before: int, limit: int) -> list[StoredResult]:
        """Return the last ``limit`` results before the position ``before``, oldest first.

        The default reads the whole thread; override it where the database can read a part.
        """
        return _with_extents(await self.stored_results(thread_id))[max(0, before - limit) : before]

    async def newest(self, thread_id: str, limit: int) -> tuple[int, list[StoredResult]]:
        """Return the number of results and the last ``limit`` of them, oldest first.

        The default reads twice; override it where the database can answer at once.

        Raises:
            ThreadNotFoundError: The thread does not exist.
        """
        count = await self.count_results(thread_id)
        return count, await self.page(thread_id, count, limit)

    async def list_threads(
        self, limit: int | None = 50, user_id: str | None = None
    ) -> list[ThreadInfo]:
        """Return threads, the last changed first.

        Args:
            limit: The most threads to return; None: all.
            user_id: Only those of this user.
        """
        return await self.select_threads(None if limit is None else at_most(limit), user_id)

    async def thread_page(
        self,
        limit: int,
        *,
        user_id: str | None = None,
        offset: int = 0,
        before: tuple[datetime, str] | None = None,
    ) -> tuple[list[ThreadInfo], int]:
        """Return a page of threads, the last changed first, and the number of all.

        Threads that changed at the same time are in the order of their ids.

        The default reads all threads; override it where the database can read a part.

        Args:
            limit: The most threads to return.
            user_id: Only those of this user.
            offset: Threads to leave out first.
            before: Time of change and id of the last thread of the page before.
        """
        found = await self.list_threads(None, user_id)
        found.sort(key=lambda one: (one.updated_at, one.id), reverse=True)
        rest = [one for one in found if before is None or (one.updated_at, one.id) < before]
        return rest[offset : offset + limit], len(found)

    async def threads_before(self, before: tuple[datetime, str], limit: int) -> list[ThreadInfo]:
        """Return a page of all threads, as `thread_page` does, without their number."""
        return (await self.thread_page(limit, before=before))[0]

    async def search(
        self, words: str, *, user_id: str | None = None, limit: int = 50
    ) -> list[Match]:
        """Return the first match in each thread that has a match, last changed first.

        A message matches that contains each of the words, ignoring case, in any order. The
        beginning of a word is enough; words in double quotes must be adjacent.

        The default reads all threads; override it where the database can search.

        Args:
            words: The words to search for.
            user_id: Only threads of this user.
            limit: The most threads to return.
        """
        search, limit = WordSearch.parse(words), at_most(limit)
        found: list[Match] = []
        for thread in await self.list_threads(None, user_id):
            stored = await self.stored_results(thread.id)
            matches = (find_words(one, thread.id, search) for one in stored)
            first = next((match for match in matches if match is not None), None)
            found += [] if first is None else [replace(first, thread=thread)]
            if len(found) >= limit:
                break
        return found[:limit]

    async def index_words(self, most: int = 1000) -> int:
        """Add older results to the index of words; return how many it still lacks.

        Results are added when they are saved. Those that are not there, e.g. because a Python
        without full-text search saved them, are read by each search.

        Args:
            most: The most results to add now.
        """
        del most
        return 0

    async def stats(self, user_id: str | None = None) -> StoreStats:
        """Return counts, of a user or in all.

        The default asks for each thread; override it where the database can sum up.
        """
        threads = await self.list_threads(None, user_id)
        results = messages = 0
        for thread in threads:
            results += await self.count_results(thread.id)
            count = thread.message_count
            messages += len(await self.messages(thread.id)) if count is None else count
        users = {thread.user_id for thread in threads if thread.user_id is not None}
        return StoreStats(len(threads), len(users), results, messages)

    async def delete_thread(self, thread_id: str) -> bool:
        """Remove a thread with all data and files; return False if there was none."""
        found = await self.remove_thread(thread_id)
        if found and self.workspace is not None:
            self.workspace.remove(thread_id)
        return found

    async def clean(self, older_than: timedelta, *, most: int | None = None) -> int:
        """Delete threads that have not changed for some time; return their number.

        Those in which a question waits for a person stay.

        Args:
            older_than: How long they have not changed.
            most: Delete about so many; None: all that are so old.
        """
        return await self._clean(older_than, most, "")

    async def _clean(self, older_than: timedelta, most: int | None, spared: str) -> int:
        now = datetime.now(UTC)
        before, gone = (now - older_than, ""), 0
        while most is None or gone < most:
            threads = await self.threads_before(before, _PAGE if most is None else most)
            if not threads:
                break
            before = (threads[-1].updated_at, threads[-1].id)
            for thread in threads:
                if thread.id != spared and await self._may_go(thread):
                    gone += await self.delete_thread(thread.id)
        return gone

    async def clean_sometimes(self, thread_id: str) -> None:
        """Apply the limits of `keep`; runs that begin a thread call it, and theirs stays."""
        now = time.monotonic()
        if self.keep is None or now - self._cleaned_at < _PAUSE:
            return
        self._cleaned_at = now
        await self._clean(self.keep, _AT_ONCE, thread_id)

    async def _may_go(self, thread: ThreadInfo) -> bool:
        """Return whether a thread has not changed since it was listed, and no person is asked."""
        questions = self.abilities.questions
        if questions and await questions.list_questions(thread_id=thread.id, limit=1):
            return False
        try:
            return (await self.get_thread(thread.id)).updated_at == thread.updated_at
        except ThreadNotFoundError:
            return False

    async def delete_user(self, user_id: str) -> int:
        """Remove all threads of a user with all data and files; return their number.

        What is remembered of the user goes, too, in all tenants.
        """
        threads = await self.select_threads(None, user_id)
        count = sum([await self.delete_thread(thread.id) for thread in threads])
        if self.abilities.facts is not None:
            await self.abilities.facts.remove_facts(user_id)
        return count

    async def load(self, thread_id: str) -> list[AgentResult]:
        """Return the results of a thread, user turns included, oldest first.

        Their messages are from before any run: ``from_history`` is True.

        Raises:
            ThreadNotFoundError: The thread does not exist.
            InvalidRecordError: A stored row is damaged.
        """
        stored = await self.stored_results(thread_id)
        return [_as_past(record.result) for record in stored]

    async def messages(self, thread_id: str) -> list[Message]:
        """Return all messages of a thread in the order a model would see them.

        Raises:
            ThreadNotFoundError: The thread does not exist.
            InvalidRecordError: A stored row is damaged.
        """
        return [message for result in await self.load(thread_id) for message in result.messages]

    def broadcast(self) -> Broadcast | None:
        """Return the broadcast between the processes that use the store; None: there is none."""
        return None

    async def thread_data(self, thread_id: str) -> ThreadData:
        """Return the thread's summaries, vectors and runs, for exports; here there are none."""
        del thread_id
        return ThreadData()

    async def set_times(self, thread_id: str, created_at: datetime, updated_at: datetime) -> None:
        """Set the times of a thread, e.g. of an imported thread.

        The default leaves them as they are; override it where the database can change them.
        """

    async def append(self, thread_id: str, results: Sequence[AgentResult]) -> None:
        """Add results at the end of a thread, all or none, without those whose id is stored.

        Raises:
            ThreadNotFoundError: The thread does not exist.
            HistoryError: A result is not JSON, or another result is stored under its id.
        """
        await self.append_rows(thread_id, [encode_row(one, thread_id) for one in results])

    async def __aenter__(self) -> Self:
        """Set the store up; leaving the block closes it."""
        await self.setup()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _create_for_run(self, context: HistoryContext) -> str:
        thread_id = context.thread_id or context.new_thread_id or None
        made = await self.add_thread(thread_id, title=title_of(context.input))
        await self.clean_sometimes(made)
        return made

    async def _append_users_turn(self, context: HistoryContext) -> str | None:
        if context.user_result is None:
            raise HistoryError("The context has no user message to save: user_result is not set.")
        state = context.user_message.state if context.user_message else None
        thread_id = _thread_of(context)
        metadata = None if state is None else {"state": state}
        await self._count([context.user_result])
        row = encode_row(context.user_result, thread_id, metadata)
        is_taken_over = await self.append_user_row(thread_id, row, context.claim)
        return TAKEN_OVER if is_taken_over else None

    async def _append_new_results(self, context: HistoryContext) -> None:
        await self._count(context.new_results)
        thread_id = _thread_of(context)
        if context.claim is None and context.answers is None:
            await self.append(thread_id, context.new_results)
            return
        metadata = None if context.answers is None else {"answers": context.answers}
        rows = [encode_row(one, thread_id, metadata) for one in context.new_results]
        if context.claim is None:
            await self.append_rows(thread_id, rows)
        elif not await self.append_held(thread_id, rows, context.claim):
            raise ThreadBusyError(thread_id)

    async def _count(self, results: Sequence[AgentResult]) -> None:
        """Count tokens before saving: the counts are stored, so that later loads need not count."""
        tokenizer = default_tokenizer()
        if not self.lazy or not (self.counts_tokens or is_ready(tokenizer)):
            return
        await prepare(tokenizer)
        for result in results:
            for message in result.messages:
                count_text(message, tokenizer)


def _as_past(result: AgentResult) -> AgentResult:
    """Return a result as from before any run, with the token counts that are stored with it."""
    past = result.on_side(past=True)
    for message, made in zip(result.messages, past.messages, strict=True):
        token_memo(made).update(token_memo(message))
    return past


def _thread_of(context: HistoryContext) -> str:
    if context.thread_id is None:
        raise HistoryError("The run has no thread id; create_thread has to come first.")
    return check_text("thread id", context.thread_id)


def _place_of(thread_id: str, stored: Sequence[StoredResult], at: str | int | None) -> int:
    """Return the position of a message of the user, or the end."""
    if at is None or at == len(stored):
        return len(stored)
    for one in stored:
        known = one.result.id if isinstance(at, str) else one.position
        if known == at and one.result.agent_name == USER:
            return one.position
    raise MessageNotFoundError(thread_id, at)


def _with_extents(stored: Iterable[StoredResult]) -> list[StoredResult]:
    """Return all results of a thread, each with the size of the thread before it."""
    found: list[StoredResult] = []
    total = Extent()
    for one in stored:
        found.append(replace(one, before=total))
        total += extent_of(one.result.messages)
    return found
