"""Seeing a request to a model where it is really sent, which only the runtime knows.

A durable run comes by each call again on every replay, and Inngest's server may send the request
itself; so whoever measures calls cannot stand around `Runtime.infer`. Where nobody watches, a call
costs one look at a context variable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Protocol, TypeAlias, runtime_checkable

from agentkit_py.runtime.port import DeltaSink

Send: TypeAlias = Callable[[DeltaSink | None], Awaitable[object]]
"""Sends the request and gives the answer's JSON; pieces of it go to the sink."""


class Watch(Protocol):
    """Sees one call of a model."""

    async def here(self, send: Send, on_delta: DeltaSink | None) -> object:
        """Call ``send``, which sends the request from this process, and return what it gives."""
        ...

    def elsewhere(self, outcome: object) -> None:
        """Another process has sent it: its answer, or the error. Told again by each replay."""
        ...


@runtime_checkable
class Replaying(Protocol):
    """What a runtime whose code runs again and again says of itself."""

    @property
    def execution(self) -> str:
        """Id of the whole execution, the same on each replay."""
        ...

    @property
    def carried(self) -> Mapping[str, Any]:
        """What the execution was started with; a trace context may be in it."""
        ...

    @property
    def recorded_time(self) -> datetime:
        """The latest time that is the same on each replay."""
        ...

    @property
    def is_new(self) -> bool:
        """Whether it is certain that the code runs here for the first time."""
        ...

    def when_new(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` unless the code at hand turns out to be a replay."""
        ...


_watch: ContextVar[Watch | None] = ContextVar("agentkit_watch", default=None)


@contextmanager
def watched(watch: Watch) -> Generator[None]:
    """The next call of a model in the block is seen by ``watch``."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def take_watch() -> Watch | None:
    """Who sees the call that is about to be made; nobody sees the one after it."""
    found = _watch.get()
    if found is not None:
        _watch.set(None)
    return found
