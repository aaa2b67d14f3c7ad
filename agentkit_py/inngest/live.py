"""Publishing from code that runs again and again.

A replay repeats every event up to the first step that is new. What belongs to the repeated part
has been published before, so it is held back until it is clear that the code is new: a step is
asked for that was not done before, or no remembered step is left. What is held back when a
remembered step comes by is dropped: it was published when that step was new. Chunk ids are
computed, so what is published twice all the same is recognised by consumers.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeAlias

from agentkit_py.inngest.sdk import Memos

logger: logging.Logger = logging.getLogger("agentkit_py.inngest")

Publish: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
"""Sends one chunk."""


class LivePublisher:
    """Decides which chunks of this execution are new."""

    def __init__(self, send: Publish | None, memos: Memos) -> None:
        """Begin an execution."""
        self.send = send
        self._memos = memos
        self._held: list[dict[str, Any]] = []
        self._untold: list[Callable[[], None]] = []
        self._groups = 0

    async def publish(self, chunk: dict[str, Any], *, inside: bool) -> None:
        """Send the chunk now, or hold it back until the code is known to be new.

        Args:
            chunk: The chunk.
            inside: It comes from a step that really runs now.
        """
        if self.send is None:
            return
        self._held.append(chunk)
        if inside or not self._memos.left:
            await self._flush()

    @property
    def is_new(self) -> bool:
        """Whether no remembered step is left, so that all code from here on is new."""
        return not self._memos.left

    def tell(self, call: Callable[[], None]) -> None:
        """Make a call that belongs to new code only, now or when that is known."""
        if self.is_new:
            call()
        else:
            self._untold.append(call)

    async def before_step(self, step_id: str) -> None:
        """A step is about to be asked for."""
        if self._memos.knows(step_id):
            self.passed()
        else:
            self._tell_all()
            await self._flush()

    def passed(self) -> None:
        """A remembered step comes by: what led to it was told when it was new."""
        if (self._held or self._untold) and not self._groups:
            self._held.clear()
            self._untold.clear()

    def _tell_all(self) -> None:
        untold, self._untold = self._untold, []
        for call in untold:
            call()

    async def _flush(self) -> None:
        held, self._held = self._held, []
        if self.send is None:
            return
        for chunk in held:
            try:
                await self.send(chunk)
            except Exception:
                logger.warning("A chunk could not be published", exc_info=True)

    @contextmanager
    def group(self) -> Generator[None]:
        """Steps that run at the same time: none of them says what the others have published."""
        self._groups += 1
        try:
            yield
        finally:
            self._groups -= 1
