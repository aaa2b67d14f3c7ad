"""Health endpoints, for load balancers and orchestrators: is the process alive, is it ready."""

from __future__ import annotations

import asyncio
import logging

from starlette.requests import Request
from starlette.responses import Response

from agentkit_py._core.untrusted import get_logger
from agentkit_py.server.api import respond
from agentkit_py.server.runs import Backend
from agentkit_py.server.schemas import ApiError
from agentkit_py.stores import HistoryStore

logger: logging.Logger = get_logger("agentkit_py.server")

_NO_THREAD = "00000000-0000-0000-0000-000000000000"
"""An id that no thread has; a UUID, since TypeScript's tables take nothing else."""

_RETRY = {"Retry-After": "5"}


async def live(_request: Request) -> Response:
    """`GET /health/live`: answer; who gets no answer may restart the process."""
    return respond({"status": "ok"})


class Readiness:
    """`GET /health/ready`: new requests are welcome here, and the store answers.

    Anybody may ask, so the store gets one question at a time, however many want to know.
    """

    def __init__(self, backend: Backend, store: HistoryStore, seconds: float) -> None:
        """Take what is looked at, and the seconds that the store may take."""
        self._backend = backend
        self._store = store
        self._seconds = seconds
        self._asking: asyncio.Task[bool] | None = None

    async def __call__(self, _request: Request) -> Response:
        """Answer 200, or 503 with the reason."""
        if not self._backend.accepts_runs():
            raise ApiError(503, "stopping", "The server is stopping.", _RETRY)
        if not await self._store_answers():
            raise ApiError(503, "store", "The store of threads does not answer.", _RETRY)
        return respond({"status": "ok"})

    async def _store_answers(self) -> bool:
        """Return whether the store answered in time; a question without an answer stays open."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        asked = self._asking
        await asyncio.wait([asked], timeout=self._seconds)
        return asked.done() and not asked.cancelled() and asked.result()

    async def _ask(self) -> bool:
        try:
            await self._store.thread_exists(_NO_THREAD)
        except Exception:
            logger.exception("The server is not ready: its store does not answer")
            return False
        return True
