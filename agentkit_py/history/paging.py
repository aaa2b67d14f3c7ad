"""Loading a thread from its end, in pages: a turn costs the same in a long thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentkit_py._core.json import JsonValue
from agentkit_py.history.abilities import PagedStore
from agentkit_py.history.runs import PagedResult
from agentkit_py.processors.base import Extent
from agentkit_py.results import AgentResult

FIRST_PAGE = 48
"""Results that are loaded at first; each page after it is half as long as all before it."""


class _Results:
    """Keeps results whole while they are few; else reads them again, as rows never change."""

    def dump(self, value: Sequence[AgentResult], /) -> JsonValue:
        return [result.to_dict() for result in value]

    def load(self, dumped: JsonValue, /) -> Sequence[AgentResult]:
        assert isinstance(dumped, list)
        return [AgentResult.from_dict(record) for record in dumped]

    def cursor(self, value: Sequence[AgentResult], /) -> JsonValue:
        return len(value)

    def resume(self, value: Sequence[AgentResult], cursor: JsonValue, /) -> Sequence[AgentResult]:
        assert isinstance(cursor, int)
        return value[:cursor]


RESULTS = _Results()


@dataclass(frozen=True, slots=True)
class Older:
    """The part of a thread that is not loaded yet. Rows never change: a replay reads the same."""

    store: PagedStore
    thread_id: str
    position: int
    """Position of the oldest result that is loaded."""

    extent: Extent | None = None
    """Size of the thread before it; None: not counted, so everything has to be loaded."""

    limit: int = FIRST_PAGE
    """Results of the next page."""

    loaded: int = 0
    """Results of the pages before it."""

    async def load(self) -> tuple[list[AgentResult], Older | None]:
        """Load the next older results, oldest first, and return them with the rest (None: none)."""
        return self.take(await self.store.page(self.thread_id, self.position, self.limit))

    def take(self, page: Sequence[PagedResult]) -> tuple[list[AgentResult], Older | None]:
        """Return the results of a page that was read, and the rest."""
        return [row.result for row in page], self.rest(page[0].before) if page else None

    def rest(self, before: Extent | None) -> Older | None:
        """Return the part of the thread before a page, whose size is given; None: there is none."""
        position = max(0, self.position - self.limit)
        if not position:
            return None
        loaded = self.loaded + self.limit
        return replace(self, position=position, extent=before, limit=loaded // 2, loaded=loaded)
