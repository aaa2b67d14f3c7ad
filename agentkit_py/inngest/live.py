"""Publishing from code that runs again and again.

A replay repeats every event up to the first step that is new. What belongs to the repeated part
has been published before, so it is held back until it is clear that the code is new: when no
remembered step is left. What was held back when a remembered step comes by is dropped, for it was
published when that step was new. Chunk ids are computed, so what is published twice all the same
(a step that is tried again) is recognised by consumers.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

logger = logging.getLogger("agentkit_py.inngest")

Publish: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
"""Sends one chunk."""


class LivePublisher:
    """Decides which chunks of this execution are new."""

    def __init__(self, send: Publish | None, remaining: Callable[[], int] | None) -> None:
        """Begin; without ``remaining`` nothing is known of replays, and every chunk is sent."""
        self.send = send
        self._remaining = remaining
        self._held: list[dict[str, Any]] = []
        self._groups = 0

    @property
    def _is_new(self) -> bool:
        return self._remaining is None or self._remaining() == 0

    async def publish(self, chunk: dict[str, Any]) -> None:
        """Send the chunk now, or hold it back until the code is known to be new."""
        if self.send is None:
            return
        self._held.append(chunk)
        if self._is_new:
            await self.flush()

    async def flush(self) -> None:
        """Send what is held back: what follows is new."""
        if self.send is None or not self._is_new:
            return
        held, self._held = self._held, []
        for chunk in held:
            try:
                await self.send(chunk)
            except Exception:
                logger.warning("A chunk could not be published", exc_info=True)

    def remembered(self) -> None:
        """A remembered step came by: what was before it has been published when it was new."""
        if self._groups == 0:
            self._held.clear()

    @contextmanager
    def group(self) -> Generator[None]:
        """Steps that run at the same time: none of them says what the others have published."""
        self._groups += 1
        try:
            yield
        finally:
            self._groups -= 1
