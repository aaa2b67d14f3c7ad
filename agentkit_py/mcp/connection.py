"""One session with one server, owned by a task of its own.

An open session is a task group, and a step that ends a request must never raise through one. So
the task that opens it is neither ours nor the run's; what we do with it is send requests.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextvars import Context
from types import TracebackType
from typing import Any, Self

import anyio
from mcp import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import Implementation, ServerNotification, Tool, ToolListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agentkit_py.mcp.transports import Transport

_PAGES = 100
"""Of a list of tools at the most: a server that always has one more must not hang a run."""


class Connection:
    """A session; made by `connect`."""

    def __init__(self, transport: Transport) -> None:
        """Keep what is needed; nothing happens yet."""
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listed: list[Tool] | None = None
        self._news = 0  # how often the list has changed
        self.ended: bool = False
        """Whether the server has gone, or we have closed."""

        self.client: Client = Client(
            _watched(transport, self),
            client_info=Implementation(name="agentkit", version="1"),
            message_handler=self._on_message,
            cache=None,
        )
        self._task = asyncio.get_running_loop().create_task(
            self._own(), name="agentkit-mcp", context=Context()
        )

    @classmethod
    async def connect(cls, transport: Transport, timeout: float) -> Connection:
        """A connection that is ready.

        Raises:
            TimeoutError: It was not ready in time.
            Exception: Whatever the transport or the SDK raises.
        """
        made = cls(transport)
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(made._ready)
        except (Exception, asyncio.CancelledError):
            made.ended = True
            made._task.cancel()
            raise
        return made

    async def close(self) -> None:
        """End the session, and the server if it is a process of ours."""
        self.ended = True
        self._stop.set()
        await asyncio.wait([self._task])

    @property
    def changes(self) -> bool:
        """Whether the server says that its list of tools may change."""
        tools = self.client.server_capabilities.tools
        return bool(tools and tools.list_changed)

    async def tools(self) -> list[Tool]:
        """All of the server's tools; asked for once, and again when it says that they changed."""
        if self._listed is not None:
            return self._listed
        known = self._news
        found: list[Tool] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await self.client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        if self.changes and known == self._news:
            self._listed = found
        return found

    def _changed(self) -> None:
        self._news += 1
        self._listed = None

    async def _own(self) -> None:
        try:
            async with self.client as client:
                modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
                if modern and self.changes:
                    await self._listen(client)
                else:
                    self._say_ready()
                    await self._stop.wait()
        except Exception as error:  # noqa: BLE001 - told to those who wait; the task is nobody's
            if self._ready.done():
                return
            self._ready.set_exception(error)
            self._ready.exception()  # somebody may have stopped waiting
        finally:
            self.ended = True
            self._ready.cancel()

    async def _listen(self, client: Client) -> None:
        with contextlib.suppress(SubscriptionLost):
            async with client.listen(tools_list_changed=True) as events:
                self._say_ready()
                stopped = asyncio.ensure_future(self._stop.wait())
                told = asyncio.ensure_future(self._follow(events))
                await asyncio.wait([stopped, told], return_when=asyncio.FIRST_COMPLETED)
                told.cancel()
                await asyncio.wait([told])
                stopped.cancel()
        if not self._stop.is_set():
            self.ended = True  # without news there is no knowing: connect anew

    async def _follow(self, events: Any) -> None:
        with contextlib.suppress(SubscriptionLost):
            async for _ in events:
                self._changed()

    def _say_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    async def _on_message(self, message: ServerNotification | Exception) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._changed()
        await anyio.lowlevel.checkpoint()


@contextlib.asynccontextmanager
async def _watched(transport: Transport, owner: Connection) -> AsyncGenerator[Any, None]:
    async with transport.streams() as (read, write):
        yield _Reader(read, owner), write


class _Reader:
    """The stream of what the server says, which notices its end."""

    def __init__(self, stream: Any, owner: Connection) -> None:
        self._stream = stream
        self._owner = owner

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        return await self._stream.receive()

    async def aclose(self) -> None:
        await self._stream.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except (StopAsyncIteration, anyio.ClosedResourceError):
            self._owner.ended = True
            raise

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, traceback)
