"""Connections to MCP servers: a child process, streamable HTTP or SSE, and the session over it.

An open session is a task group, and a step that ends a request must never raise through a task
group. So a task of its own opens and closes the session; runs only send requests through it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO, TypeAlias
from urllib.parse import unquote, urlsplit

import anyio
import httpx2
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import Implementation, ServerNotification, Tool, ToolListChangedNotification
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agentkit_py._core.untrusted import clean
from agentkit_py.errors import ConfigurationError

_HTTP_TIMEOUT = httpx2.Timeout(30.0, read=300.0)
"""A server may keep a stream open for long without an event. The SDK has the same."""

_LONGEST_LINE = 4096
"""Characters of a child's standard error that are passed on at once."""

_MAX_PAGES = 100
"""The most pages of a list of tools, so that an endless list does not hang a run."""


@dataclass(frozen=True, slots=True, repr=False)
class Stdio:
    """A server as a child process, over its standard input and output."""

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Its environment, in addition to HOME, LOGNAME, PATH, SHELL, TERM and USER (on Windows their
    like). It gets nothing else of this process's, so no keys."""

    cwd: str | Path | None = None

    def __repr__(self) -> str:
        return f"<Stdio: {self.where}>"

    @property
    def where(self) -> str:
        """The server as messages show it, without its arguments: they may be secret."""
        return f"the command {self.command.partition(' ')[0]!r}"

    def secrets(self) -> list[str]:
        """Return the values that may be secret: arguments and values of the environment."""
        return [*self.args, *self.env.values()]

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[Any, None]:
        """Start the process and open the connection."""
        parameters = StdioServerParameters(
            command=self.command, args=list(self.args), env=dict(self.env), cwd=self.cwd
        )
        with clean_stderr() as log:
            async with stdio_client(parameters, errlog=log) as streams:
                yield streams


@contextlib.contextmanager
def clean_stderr() -> Generator[TextIO]:
    """Give a file for a child's standard error; its lines go to ours, cleaned."""
    reading, writing = os.pipe()

    def pass_on() -> None:
        with open(reading, encoding="utf-8", errors="replace") as lines:  # noqa: PTH123 - a descriptor
            while text := lines.readline(_LONGEST_LINE):
                with contextlib.suppress(OSError, ValueError):  # as in a notebook, or at the end
                    sys.stderr.write(clean(text))
                    sys.stderr.flush()

    threading.Thread(target=pass_on, name="agentkit-mcp-stderr", daemon=True).start()
    with open(writing, "w", encoding="utf-8") as log:  # noqa: PTH123 - a descriptor
        yield log


@dataclass(frozen=True, slots=True, repr=False)
class _Remote:
    """A server at a URL."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Sent with each request, e.g. ``{"Authorization": "Bearer …"}``."""

    auth: httpx2.Auth | None = None
    """An httpx2 auth provider, e.g. ``mcp.client.auth.OAuthClientProvider``."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.where}>"

    @property
    def where(self) -> str:
        """The server as messages show it, without user, password and query: they may be secret."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def secrets(self) -> list[str]:
        """Return the parts that may be secret: user, password, query, fragment and headers."""
        parts = urlsplit(self.url)
        queries = [value for part in parts.query.split("&") for value in part.split("=", 1)[1:]]
        login = parts.netloc.rpartition("@")[0].split(":", 1)
        values = [*login, parts.query, *queries, parts.fragment, *self.headers.values()]
        return [*values, *map(unquote, values)]


class StreamableHTTP(_Remote):
    """A server at a URL, over streamable HTTP (MCP since 2025)."""

    __slots__ = ()

    @asynccontextmanager
    async def streams(self) -> AsyncGenerator[Any, None]:
        """Open the connection."""
        client = httpx2.AsyncClient(
            headers=dict(self.headers), auth=self.auth, timeout=_HTTP_TIMEOUT
        )
        async with client, streamable_http_client(self.url, http_client=client) as streams:
            yield streams


class SSE(_Remote):
    """A server at a URL, over server-sent events (MCP before 2025)."""

    __slots__ = ()

    def streams(self) -> AbstractAsyncContextManager[Any]:
        """Open the connection."""
        return sse_client(self.url, headers=dict(self.headers), auth=self.auth)


Transport: TypeAlias = Stdio | StreamableHTTP | SSE

_KINDS: dict[str, Any] = {
    "stdio": Stdio,
    "streamable-http": StreamableHTTP,
    "http": StreamableHTTP,
    "sse": SSE,
}


def as_transport(server: str, given: Transport | str | Mapping[str, Any]) -> Transport:
    """Return the transport given as a transport, as a URL, or as TypeScript's ``{type, …}``.

    Raises:
        ConfigurationError: It is none of these, or a transport that the SDK does not have.
    """
    if isinstance(given, Stdio | StreamableHTTP | SSE):
        return given
    if isinstance(given, str):
        scheme = given.partition(":")[0].lower()
        if scheme in ("http", "https"):
            return as_transport(server, {"url": given})
        if scheme in ("ws", "wss"):
            raise _no_websocket(server)
        raise ConfigurationError(
            f"MCP server {server!r}: a transport given as text must be an http(s) URL; "
            "a command goes into Stdio(command, args)"
        )
    if not isinstance(given, Mapping):
        raise ConfigurationError(
            f"MCP server {server!r}: {type(given).__name__} is not a transport"
        )
    settings = dict(given)
    kind = settings.pop("type", "stdio" if "command" in settings else "streamable-http")
    if kind in ("ws", "websocket"):
        raise _no_websocket(server)
    if kind not in _KINDS:
        raise ConfigurationError(
            f"MCP server {server!r}: unknown transport {kind!r}; there are stdio, "
            "streamable-http and sse"
        )
    try:
        made = _KINDS[kind](**settings)
        _ = made.where
        return made
    except ValueError:  # its text may quote the URL
        raise ConfigurationError(f"MCP server {server!r}: its URL cannot be read") from None
    except TypeError as error:  # it names a wrong argument, and no value: that may be secret
        text = str(error).partition("() ")[2]
        raise ConfigurationError(f"MCP server {server!r}: its {kind} transport {text}") from None


def hide_secrets(text: str, transport: Transport) -> str:
    """Return a message of the SDK or of httpx without secrets, e.g. a URL's query."""
    for secret in sorted(filter(None, transport.secrets()), key=len, reverse=True):
        text = text.replace(secret, "[hidden]")
    return text


def _no_websocket(server: str) -> ConfigurationError:
    return ConfigurationError(
        f"MCP server {server!r}: the MCP SDK for Python has no WebSocket transport. Use its "
        'streamable HTTP endpoint (StreamableHTTP("https://…/mcp")), its SSE endpoint '
        "(SSE(…)), or start it here (Stdio(command, args))."
    )


class Connection:
    """A session with a server; made by `connect`."""

    def __init__(self, transport: Transport) -> None:
        """Start the task that opens the session."""
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listed: list[Tool] | None = None
        self._version = 0
        self.ended: bool = False
        """True once the server has gone or the session is closed."""

        self.client: Client = Client(
            _streams_of(transport, self),
            client_info=Implementation(name="agentkit", version="1"),
            message_handler=self._on_message,
            cache=None,
        )
        self._task = asyncio.get_running_loop().create_task(
            self._run(), name="agentkit-mcp", context=Context()
        )

    @classmethod
    async def connect(cls, transport: Transport, timeout: float) -> Connection:
        """Return a session that is ready; errors of the transport and the SDK are passed on."""
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
        """End the session, and the server if it is a child process."""
        self.ended = True
        self._stop.set()
        await asyncio.wait([self._task])

    @property
    def tools_change(self) -> bool:
        """True if the server announces changes of its list of tools."""
        tools = self.client.server_capabilities.tools
        return bool(tools and tools.list_changed)

    async def tools(self) -> list[Tool]:
        """Return the server's tools; asked for again when it announces a change."""
        if self._listed is not None:
            return self._listed
        version = self._version
        found: list[Tool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self.client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        if self.tools_change and version == self._version:
            self._listed = found
        return found

    def _forget_tools(self) -> None:
        self._version += 1
        self._listed = None

    async def _run(self) -> None:
        try:
            async with self.client as client:
                modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
                if modern and self.tools_change:
                    await self._listen(client)
                else:
                    self._set_ready()
                    await self._stop.wait()
        except Exception as error:  # noqa: BLE001 - `connect` raises it
            if self._ready.done():
                return
            self._ready.set_exception(error)
            self._ready.exception()  # read, if `connect` has stopped waiting
        finally:
            self.ended = True
            self._ready.cancel()

    async def _listen(self, client: Client) -> None:
        with contextlib.suppress(SubscriptionLost):
            async with client.listen(tools_list_changed=True) as events:
                self._set_ready()
                stopped = asyncio.ensure_future(self._stop.wait())
                following = asyncio.ensure_future(self._follow(events))
                await asyncio.wait([stopped, following], return_when=asyncio.FIRST_COMPLETED)
                following.cancel()
                await asyncio.wait([following])
                stopped.cancel()
        if not self._stop.is_set():
            self.ended = True  # changes would be missed: connect again

    async def _follow(self, events: Any) -> None:
        with contextlib.suppress(SubscriptionLost):
            async for _ in events:
                self._forget_tools()

    def _set_ready(self) -> None:
        if not self._ready.done():
            self._ready.set_result(None)

    async def _on_message(self, message: ServerNotification | Exception) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._forget_tools()
        await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def _streams_of(transport: Transport, owner: Connection) -> AsyncGenerator[Any, None]:
    async with transport.streams() as (read, write):
        yield _ServerStream(read, owner), write


class _ServerStream:
    """The stream of the server's messages; it marks the connection as ended at its end."""

    def __init__(self, stream: Any, owner: Connection) -> None:
        self._stream = stream
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

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
