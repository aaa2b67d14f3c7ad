"""HistoryStore: what every store can do, and how it serves a run's thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

from agentkit_py._core.json import JsonObject
from agentkit_py.errors import ConfigurationError, HistoryError, ThreadNotFoundError
from agentkit_py.history.config import HistoryConfig, HistoryContext
from agentkit_py.history.turns import Turns
from agentkit_py.messages import Message
from agentkit_py.processors.base import Processor
from agentkit_py.processors.tokenizers import count_text, default_tokenizer, is_ready, prepare
from agentkit_py.results import AgentResult
from agentkit_py.stores.beside import Beside
from agentkit_py.stores.records import (
    Match,
    Row,
    StoredResult,
    StoreStats,
    ThreadInfo,
    check_text,
    encode_row,
    encode_rows,
    find_words,
    new_thread,
    title_of,
    with_extents,
)
from agentkit_py.stores.workspace import Workspace


class HistoryStore(HistoryConfig, ABC):
    """A place where threads live, usable as ``history=…`` of agents and networks.

    A store for another database implements the abstract methods; everything else follows. Results
    are only ever added: what is stored is never rewritten. Every write happens whole or not at all,
    and a result whose id its thread already holds is not added again, so a write can be repeated.
    """

    workspace: Workspace | None = None
    """Where tools keep files of threads; they are deleted with their threads."""

    counts_tokens: bool
    """Whether tokens are counted at each save; else only where their encoding is loaded anyway."""

    def __init__(
        self,
        *,
        processors: Sequence[Processor] = (),
        turns: Turns | None = None,
        lazy: bool | None = None,
    ) -> None:
        """Connect the run's callbacks to the store's methods.

        Args:
            processors: History processors that run before those of networks and agents.
            turns: How runs share a thread; None: they do not know of each other.
            lazy: Whether only as much of a thread is loaded as processors want to see. True: and
                tokens are counted at each save, though the encoding has to be loaded for that.
        """
        super().__init__(
            create_thread=self._create_for_run,
            get=self._load_for_run,
            append_user_message=self._append_users_turn,
            append_results=self._append_new_results,
            processors=processors,
            save_each=True,
            turns=turns,
            lazy=lazy is not False,
        )
        self.counts_tokens = lazy is True

    @property
    def looks_first(self) -> bool:
        """Whether a thread that is there is left as it is, as long as nobody has changed that.

        What a subclass does whenever a run asks for its thread, e.g. look whose it is, is done.
        """
        kind = type(self)
        made = (self.create_thread, kind._create_for_run, kind.add_thread)  # noqa: SLF001 - its own class
        own = (self._create_for_run, HistoryStore._create_for_run, HistoryStore.add_thread)
        return made == own

    # What a database has to do.

    @abstractmethod
    async def insert_thread(self, thread: ThreadInfo) -> None:
        """Add a thread, unless there is one of its id. What is in it has been checked."""

    @abstractmethod
    async def append_rows(self, thread_id: str, rows: Sequence[Row]) -> None:
        """Add rows at the end, in order, those whose id is there already left out.

        All or none is written, also if the caller is cancelled. `check_same` says whether a row may
        be left out.

        Raises:
            ThreadNotFoundError: There is no such thread.
        """

    @abstractmethod
    async def records(self, thread_id: str) -> list[StoredResult]:
        """The results with their positions and what is kept beside them, oldest first.

        Raises:
            ThreadNotFoundError: There is no such thread.
            InvalidRecordError: A stored row is damaged.
        """

    @abstractmethod
    async def get_thread(self, thread_id: str) -> ThreadInfo:
        """What is known of a thread.

        Raises:
            ThreadNotFoundError: There is no such thread.
        """

    @abstractmethod
    async def select_threads(self, limit: int | None, user_id: str | None) -> list[ThreadInfo]:
        """Threads, those changed last first."""

    @abstractmethod
    async def remove_thread(self, thread_id: str) -> bool:
        """Remove a thread with all that is kept of it and beside it; False if there was none."""

    # What follows from it.

    async def setup(self) -> None:
        """Create or update the tables. Not needed: the first use does it."""

    async def close(self) -> None:
        """Let go of connections. A store that is used after that connects again."""

    async def add_thread(
        self,
        thread_id: str | None = None,
        *,
        user_id: str | None = None,
        title: str = "",
        metadata: JsonObject | None = None,
    ) -> str:
        """Create a thread and return its id; one that is there already stays as it is.

        Args:
            thread_id: Its id, a new one unless given.
            user_id: Whose thread it is.
            title: A title for lists.
            metadata: JSON that is kept with the thread; the library does not read it.

        Raises:
            HistoryError: The id is empty or no valid Unicode, or the metadata is not JSON.
        """
        thread = new_thread(thread_id, user_id, title, metadata)
        await self.insert_thread(thread)
        return thread.id

    async def thread_exists(self, thread_id: str) -> bool:
        """Whether there is such a thread."""
        try:
            await self.get_thread(thread_id)
        except ThreadNotFoundError:
            return False
        return True

    async def count_results(self, thread_id: str) -> int:
        """How many results the thread has, user turns among them.

        This one reads the whole thread; a database that can count should.

        Raises:
            ThreadNotFoundError: There is no such thread.
        """
        return len(await self.records(thread_id))

    async def page(self, thread_id: str, before: int, limit: int) -> list[StoredResult]:
        """The last ``limit`` results before the position ``before``, oldest first.

        This one reads the whole thread; a database that can read a part should.
        """
        return with_extents(await self.records(thread_id))[max(0, before - limit) : before]

    async def newest(self, thread_id: str, limit: int) -> tuple[int, list[StoredResult]]:
        """How many results a thread has, and the last ``limit``, oldest first.

        This one asks twice; a database that can answer at once should.

        Raises:
            ThreadNotFoundError: There is no such thread.
        """
        count = await self.count_results(thread_id)
        return count, await self.page(thread_id, count, limit)

    async def list_threads(
        self, limit: int | None = 50, user_id: str | None = None
    ) -> list[ThreadInfo]:
        """Threads, those changed last first.

        Args:
            limit: How many at most; None: all.
            user_id: Only those of this user.
        """
        if limit is not None and limit < 0:
            raise ConfigurationError(f"limit must be 0 or more, or None for all, got {limit}")
        return await self.select_threads(limit, user_id)

    async def search(
        self, words: str, *, user_id: str | None = None, limit: int = 50
    ) -> list[Match]:
        """Threads in which something was said, those changed last first, with the first place.

        This one reads all threads; a database that can look by itself should.

        Args:
            words: What is sought; upper and lower case are the same.
            user_id: Only threads of this user.
            limit: How many threads at most.
        """
        found: list[Match] = []
        for thread in await self.list_threads(None, user_id):
            records = await self.records(thread.id)
            matches = (find_words(record, thread.id, words) for record in records)
            found += [match for match in matches if match is not None][:1]
            if len(found) >= limit:
                break
        return found[:limit]

    async def stats(self, user_id: str | None = None) -> StoreStats:
        """How much there is, of one user or in all.

        This one asks for each thread; a database that can add up should.
        """
        threads = await self.list_threads(None, user_id)
        results = messages = 0
        for thread in threads:
            results += await self.count_results(thread.id)
            messages += (
                len(await self.messages(thread.id)) if thread.messages is None else thread.messages
            )
        users = {thread.user_id for thread in threads if thread.user_id is not None}
        return StoreStats(len(threads), len(users), results, messages)

    async def delete_thread(self, thread_id: str) -> bool:
        """Remove a thread with all its results and its files; False if there was none."""
        found = await self.remove_thread(thread_id)
        if found and self.workspace is not None:
            self.workspace.remove(thread_id)
        return found

    async def delete_user(self, user_id: str) -> int:
        """Remove all threads of a user with everything that is kept beside them; how many."""
        threads = await self.select_threads(None, user_id)
        return sum([await self.delete_thread(thread.id) for thread in threads])

    async def load(self, thread_id: str) -> list[AgentResult]:
        """The results of a thread, user turns among them, oldest first.

        Raises:
            ThreadNotFoundError: There is no such thread.
            InvalidRecordError: A stored row is damaged.
        """
        return [record.result for record in await self.records(thread_id)]

    async def messages(self, thread_id: str) -> list[Message]:
        """All messages of a thread in the order a model would see them.

        Raises:
            ThreadNotFoundError: There is no such thread.
            InvalidRecordError: A stored row is damaged.
        """
        return [message for result in await self.load(thread_id) for message in result.messages]

    async def beside(self, thread_id: str) -> Beside:
        """All that is kept beside a thread, for exports. This one keeps nothing there."""
        del thread_id
        return Beside()

    async def set_times(self, thread_id: str, created_at: datetime, updated_at: datetime) -> None:
        """Say when a thread was made and changed, e.g. one that is imported.

        This one leaves the times as they are; a database that can change them should.
        """

    async def append(self, thread_id: str, results: Sequence[AgentResult]) -> None:
        """Add results at the end of a thread, all or none; those whose id is there are left out.

        Raises:
            ThreadNotFoundError: There is no such thread.
            HistoryError: A result is not JSON, or another one is stored under its id.
        """
        await self.append_rows(thread_id, encode_rows(results, thread_id))

    async def __aenter__(self) -> Self:
        """Set the store up; leaving the block closes it."""
        await self.setup()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _create_for_run(self, context: HistoryContext) -> str:
        thread_id = context.thread_id or context.new_thread_id or None
        return await self.add_thread(thread_id, title=title_of(context.input))

    async def _load_for_run(self, context: HistoryContext) -> list[AgentResult]:
        return await self.load(_thread_of(context))

    async def _append_users_turn(self, context: HistoryContext) -> None:
        if context.user_result is None:
            raise HistoryError("There is no user message to save; user_result is not set.")
        state = context.user_message.state if context.user_message else None
        thread_id = _thread_of(context)
        beside = None if state is None else {"state": state}
        await self._count([context.user_result])
        await self.append_rows(thread_id, [encode_row(context.user_result, thread_id, beside)])

    async def _append_new_results(self, context: HistoryContext) -> None:
        await self._count(context.new_results)
        await self.append(_thread_of(context), context.new_results)

    async def _count(self, results: Sequence[AgentResult]) -> None:
        """Count tokens, which are stored too: whoever loads a part of a thread need not count."""
        tokenizer = default_tokenizer()
        if not self.lazy or not (self.counts_tokens or is_ready(tokenizer)):
            return
        await prepare(tokenizer)
        for result in results:
            for message in result.messages:
                count_text(message, tokenizer)


def _thread_of(context: HistoryContext) -> str:
    if context.thread_id is None:
        raise HistoryError("The run has no thread id; create_thread has to come first.")
    return check_text("thread id", context.thread_id)
