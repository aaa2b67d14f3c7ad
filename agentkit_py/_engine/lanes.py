"""Events of what runs at the same time, told in an order that does not depend on who is quicker.

Chunks are numbered as they are told. A durable run comes by the same events again and again, with
more of them done each time, and must give each the same number. So the first of those that run
together is told of at once, and each further one when all before it have ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

from agentkit_py._engine.emitter import Emitter
from agentkit_py.events.types import Event, HitlRequested, ReplyDelta

T = TypeVar("T")

_place: ContextVar[tuple[int, ...]] = ContextVar("agentkit_place", default=())


def place() -> tuple[int, ...]:
    """Which of those that run together this is, from the outermost group in; empty: none."""
    return _place.get()


@dataclass(slots=True, kw_only=True)
class Lane(Emitter):
    """The emitter of one of several that run together."""

    parent: Emitter
    _open: bool = field(default=False, init=False)
    _waiting: list[tuple[Event, int | None]] = field(
        default_factory=list[tuple[Event, int | None]], init=False
    )

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens to those that run together."""
        return self.parent.is_heard

    async def emit(self, event: Event) -> None:
        """Tell it now, or when the lane's turn comes."""
        if self._open:
            await self.parent.emit(event)
            return
        if isinstance(event, HitlRequested):
            await self.parent.announce(event)
        self._waiting.append((event, None))

    async def announce(self, event: HitlRequested) -> None:
        """Tell of a question at once."""
        await self.parent.announce(event)

    async def skip(self, event: ReplyDelta, count: int) -> None:
        """Count pieces that were told before, now or when the lane's turn comes."""
        if self._open:
            await self.parent.skip(event, count)
        else:
            self._waiting.append((event, count))

    async def open(self) -> None:
        """Tell what has waited; what comes from now on is told at once."""
        while self._waiting:
            event, count = self._waiting.pop(0)
            if count is None:
                await self.parent.emit(event)
            elif isinstance(event, ReplyDelta):
                await self.parent.skip(event, count)
        self._open = True


class Lanes:
    """The lanes of several that run together."""

    def __init__(self, parent: Emitter, count: int) -> None:
        """Make ``count`` lanes, all closed."""
        self._parent = parent
        # A reply that arrives while its lane is closed cannot be told piece by piece, and whether
        # it is closed depends on who is quicker: only the first lane, always open, has pieces.
        self.lanes: list[Lane] = [
            Lane(runtime=parent.runtime, tokens=parent.tokens and index == 0, parent=parent)
            for index in range(count)
        ]
        self._ended: set[int] = set()
        self._next = 0

    async def run(self, index: int, call: Callable[[], Awaitable[T]]) -> T:
        """Run what emits to lane ``index``.

        Where it fails and will be tried again, the lanes after it stay closed: their events have
        numbers after those that it has not told yet.
        """
        if self._next == 0:
            await self._open_next()
        token = _place.set((*_place.get(), index))
        try:
            result = await call()
        except Exception as error:
            if self._parent.runtime.is_final(error):
                await self._end(index)
            raise
        finally:
            _place.reset(token)
        await self._end(index)
        return result

    async def _end(self, index: int) -> None:
        self._ended.add(index)
        while self._next < len(self.lanes) and self._next - 1 in self._ended:
            await self._open_next()

    async def _open_next(self) -> None:
        self._next += 1
        await self.lanes[self._next - 1].open()
