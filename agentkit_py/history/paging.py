"""Loading a thread from its end, in pages: a turn costs what the model sees, not what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol, runtime_checkable

from typing_extensions import TypeIs

from agentkit_py.processors.base import Extent
from agentkit_py.results import AgentResult

FIRST_PAGE = 48
"""Results that are loaded at first; each page after it is half as long as all before it."""


class PagedResult(Protocol):
    """A result and its place."""

    @property
    def result(self) -> AgentResult:
        """The result."""
        ...

    @property
    def before(self) -> Extent | None:
        """How much of the thread stands before it; None: nobody has counted."""
        ...


@runtime_checkable
class PagedStore(Protocol):
    """A store that can read a part of a thread."""

    async def count_results(self, thread_id: str) -> int:
        """How many results the thread has."""
        ...

    async def newest(self, thread_id: str, limit: int) -> tuple[int, Sequence[PagedResult]]:
        """Both at once: how many results there are, and the last ``limit``, oldest first."""
        ...

    async def page(self, thread_id: str, before: int, limit: int) -> Sequence[PagedResult]:
        """The last ``limit`` results before the position ``before``, oldest first."""
        ...


def is_paged(store: object) -> TypeIs[PagedStore]:
    """Whether a store can read a part of a thread; asked several times in each run."""
    return _is_paged(type(store))


@lru_cache(maxsize=256)
def _is_paged(kind: type) -> bool:
    return issubclass(kind, PagedStore)  # slow: it looks at all names of the class


@dataclass(frozen=True, slots=True)
class Older:
    """What has not been loaded yet. Rows never change, so a replay reads the same."""

    store: PagedStore
    thread_id: str
    position: int
    """Position of the oldest result that is loaded."""

    extent: Extent | None = None
    """How much stands before it; None: nobody has counted, so everything has to be loaded."""

    limit: int = FIRST_PAGE
    """How many results the next page has."""

    loaded: int = 0
    """How many results the pages before it had."""

    async def load(self) -> tuple[list[AgentResult], Older | None]:
        """The next older results, oldest first, and what is left then; None: nothing."""
        return self.take(await self.store.page(self.thread_id, self.position, self.limit))

    def take(self, page: Sequence[PagedResult]) -> tuple[list[AgentResult], Older | None]:
        """The same, where that page is at hand."""
        results = [one.result for one in page]
        position = max(0, self.position - self.limit)
        if not position or not page:
            return results, None
        loaded = self.loaded + self.limit
        before, limit = page[0].before, loaded // 2
        return results, replace(self, position=position, extent=before, limit=limit, loaded=loaded)
