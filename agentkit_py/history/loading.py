"""ThreadPages: which part of a thread a run has loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonValue
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.abilities import PagedStore
from agentkit_py.history.config import GetResults, HistoryConfig, HistoryContext
from agentkit_py.history.paging import FIRST_PAGE, RESULTS, Older
from agentkit_py.history.runs import OpenedRun
from agentkit_py.history.saving import ThreadSaves
from agentkit_py.history.thread_state import ThreadState, opened_unleased
from agentkit_py.history.thread_steps import ThreadSteps
from agentkit_py.results import AgentResult

_ALL = 2**31 - 1
"""More results than a thread has."""


@dataclass(slots=True)
class ThreadPages:
    """Loads a thread from its end, into the run's state."""

    config: HistoryConfig | None
    steps: ThreadSteps
    saves: ThreadSaves
    older: Older | None = None
    """The part of the thread that is not loaded, where the store loads in pages."""

    _loads_all: bool = field(default=True, init=False)
    _sought: frozenset[str] = field(default=frozenset(), init=False)
    """Ids of results of an earlier run for the same message, which must be loaded."""

    _opened: OpenedRun | None = field(default=None, init=False)
    """The rows that were loaded to look for the thread."""

    def load_whole(self, is_whole: bool) -> None:  # noqa: FBT001 - the value that the method sets
        """Load all of the thread at once, or the newest part first."""
        self._loads_all = is_whole

    def seek(self, ids: Iterable[str]) -> None:
        """Load as much as holds these results."""
        self._sought = frozenset(ids)

    def hold(self, opened: OpenedRun) -> None:
        """Keep the rows that were loaded to look for the thread."""
        self._opened = opened

    @property
    def first_page(self) -> int:
        """The number of results to load at first."""
        return _ALL if self._loads_all else FIRST_PAGE

    def may_look(self, config: HistoryConfig) -> bool:
        """Return whether the newest results may be loaded when the thread is looked for."""
        if config.lease is not None or self.steps.runtime.durable:
            # The lease comes first; and a step does not share its data with the next.
            return False
        if config.abilities.pages is None:
            return False
        return config.looks_first and config.lazy and not self.steps.state.is_seeded

    async def look_for(self, config: HistoryConfig, thread_id: str) -> None:
        """Load the newest results to see whether there is such a thread.

        Raises:
            ThreadNotFoundError: There is none.
        """
        assert config.abilities.pages is not None
        self._opened = await opened_unleased(config.abilities.pages, thread_id, self.first_page)

    async def look(self) -> None:
        """Load the thread without a step."""
        state, thread_id = self.steps.state, self.steps.state.thread_id
        if self.config is None or self.config.get is None or thread_id is None:
            return
        if not state.is_seeded:
            pages = self.config.abilities.pages
            if self.config.lazy and pages is not None:
                count, page = await pages.newest(thread_id, FIRST_PAGE)
                self._take(*Older(pages, thread_id, count).take(page))
            else:
                state.load_transcript(await resolve(self.config.get(self.steps.context())))
        await self.find_older(self.config)

    async def load_older(self) -> list[AgentResult]:
        """Load the next page of older results, oldest first, into the state; return them.

        A part of a run that saves nothing itself leaves its state as it is.
        """
        if self.older is None:
            return []
        results, self.older = await self.older.load()
        if self.config is None:
            return results
        self.steps.state.prepend(results)
        self._note_rest()
        self.saves.shift(len(results))
        return results

    def forget_older(self) -> None:
        """Load nothing more of the thread."""
        self.older = None

    def _take(self, results: list[AgentResult], older: Older | None) -> None:
        self.steps.state.load_transcript(results)
        self.older = older
        self._note_rest()

    def _note_rest(self) -> None:
        """Record in the state the number of results that are not loaded."""
        self.steps.state.leave_out(0 if self.older is None else self.older.position)

    async def find_older(self, config: HistoryConfig) -> None:
        """Find the part that a state of an earlier run has not loaded; load all if it is needed."""
        state = self.steps.state
        count, thread_id = state.not_loaded, state.thread_id
        if self.older is None and count:
            pages = config.abilities.pages
            if thread_id is not None and pages is not None:
                first = await pages.page(thread_id, count + 1, 1)
                self.older = Older(pages, thread_id, count, first[0].before) if first else None
            self._note_rest()
        if self._loads_all and self.older is not None:
            self.older = replace(self.older, limit=self.older.position)
            await self.load_older()

    async def load(self, config: HistoryConfig, stored: ThreadState | None) -> None:
        """Load the thread, in a step.

        Args:
            config: The store.
            stored: Reads the state's data with the results, without a lease.
        """
        state, thread_id = self.steps.state, self.steps.state.thread_id
        pages = config.abilities.pages
        if config.lazy and thread_id is not None and pages is not None:
            self._take(await self._newest(pages, thread_id, stored), self.older)
            missing = set(self._sought).difference(entry.id for entry in state.transcript)
            while missing and self.older is not None:
                missing.difference_update(result.id for result in await self.load_older())
        elif config.get is not None:
            get = partial(_results, config.get, self.steps.context())
            state.load_transcript(await self.steps.once("get", get, RESULTS))

    async def _newest(
        self, config: PagedStore, thread_id: str, stored: ThreadState | None
    ) -> list[AgentResult]:
        """Load the newest results. A step keeps only how many there were: rows never change."""
        known, self._opened = self._opened, None
        opened = known

        async def ask() -> JsonValue:
            nonlocal opened
            opened = known or await opened_unleased(config, thread_id, self.first_page)
            return opened.count if stored is None else stored.beside(opened)

        if known is not None and known.results is None:
            count = known.count
        else:
            kept = await self.steps.once("count", ask)
            count = cast("int", kept) if stored is None else stored.split(kept)
        older = Older(config, thread_id, count, limit=self.first_page)
        # Where the count is another, a paused run resumes: its results are not an earlier turn.
        if opened is None or opened.results is None or opened.count != count:
            results, self.older = await older.load()
            return results
        self.older = older.rest(opened.before)
        return [*opened.results]


async def _results(get: GetResults, context: HistoryContext) -> Sequence[AgentResult]:
    """Return the results that a hook loaded.

    Raises:
        ConfigurationError: It is not a list of results.
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
                "AgentResult.from_dict(row) reads the output of to_dict() or TypeScript's export()."
            )
    return found
