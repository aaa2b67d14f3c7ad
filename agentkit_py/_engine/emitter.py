"""Telling the world what happens in a run; whoever listens cannot disturb it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agentkit_py._core.awaiting import resolve
from agentkit_py.events.chunks import Chunk
from agentkit_py.events.project import Projector
from agentkit_py.events.types import Event, HitlRequested, Observer, ReplyDelta
from agentkit_py.runtime.port import Runtime

logger: logging.Logger = logging.getLogger("agentkit_py")

Publish: TypeAlias = Callable[[dict[str, Any]], "Awaitable[None] | None"]
"""Sends one streaming chunk; what it raises is logged and does not disturb the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingConfig:
    """How a run is streamed to a front end, in the chunks of the TypeScript package."""

    publish: Publish | None = None
    """Gets each chunk, in order; None: the runtime's own way, e.g. Inngest realtime."""

    tokens: bool = True
    """Stream replies as the model writes them, where provider and runtime can."""

    simulate_chunking: bool = False
    """Cut texts that arrive whole into small deltas, as TypeScript's ``simulateChunking`` does."""

    extended: bool = True
    """Also send ``usage.updated`` and ``metadata.updated``, which TypeScript only declares."""


@dataclass(slots=True)
class Emitter:
    """Hands events to the observer, and their chunks to whoever streams."""

    runtime: Runtime
    observer: Observer | None = None
    streaming: StreamingConfig | None = None
    tokens: bool = False
    """Whether the observer wants replies piece by piece."""

    _projector: Projector | None = field(default=None, init=False)
    _failed: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Prepare the projection, if anybody streams."""
        config = self.streaming
        if config is not None:
            self._projector = Projector(config.simulate_chunking, config.extended)
            self.tokens = self.tokens or config.tokens

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens; if not, nobody need make an event."""
        return self.observer is not None or self._projector is not None

    async def emit(self, event: Event) -> None:
        """Tell the observer, then publish the chunks."""
        if self.observer is not None:
            try:
                await resolve(self.observer(event))
            except Exception:
                logger.exception("An observer failed on %s; the run goes on", type(event).__name__)
        if self._projector is not None:
            await self._publish_all(self._projector.feed(event))

    async def announce(self, event: HitlRequested) -> None:
        """Tell of a question before its turn among the events: somebody waits for the answer."""
        if self._projector is not None:
            await self._publish_all(self._projector.ahead(event))

    async def skip(self, event: ReplyDelta, count: int) -> None:
        """Count pieces that were told when the call really happened, without telling them again."""
        if self._projector is not None:
            for _ in range(count):
                self._projector.feed(event)

    async def _publish_all(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            now = self.runtime.now("chunk")
            await self._publish(chunk.to_dict(int(now.timestamp() * 1000)))

    async def _publish(self, chunk: dict[str, Any]) -> None:
        config = self.streaming
        publish = config.publish if config is not None and config.publish else self.runtime.publish
        try:
            await resolve(publish(chunk))
        except Exception:
            # One traceback says what is wrong; one per chunk would bury everything else.
            if not self._failed:
                logger.exception("A chunk could not be published; the run goes on")
            self._failed = True
