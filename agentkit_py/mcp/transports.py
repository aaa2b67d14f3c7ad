"""How a server is reached: a process of our own, streamable HTTP, or SSE."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, TypeAlias
from urllib.parse import urlsplit

import httpx2
from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from agentkit_py.errors import ConfigurationError

Streams: TypeAlias = AbstractAsyncContextManager[Any]


@dataclass(frozen=True, slots=True)
class Stdio:
    """A server that we start, and talk to over its standard input and output."""

    command: str
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Its environment, beside HOME, LOGNAME, PATH, SHELL, TERM and USER (on Windows their like).
    Nothing else of ours reaches it: our keys are not its business."""

    cwd: str | Path | None = None

    @property
    def where(self) -> str:
        """The server as messages show it: arguments may be secret."""
        return f"the command {self.command!r}"

    def streams(self) -> Streams:
        """The connection, not open yet."""
        parameters = StdioServerParameters(
            command=self.command, args=list(self.args), env=dict(self.env), cwd=self.cwd
        )
        return _process(parameters)


@asynccontextmanager
async def _process(parameters: StdioServerParameters) -> AsyncGenerator[Any, None]:
    log = _standard_error()
    if log is not None:
        async with stdio_client(parameters, errlog=log) as streams:
            yield streams
        return
    with Path(os.devnull).open("w", encoding="utf-8") as nothing:  # noqa: ASYNC230 - no disk
        async with stdio_client(parameters, errlog=nothing) as streams:
            yield streams


def _standard_error() -> TextIO | None:
    """Ours, unless it is something that no process can write to, as in a notebook."""
    try:
        sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return None
    return sys.stderr


@dataclass(frozen=True, slots=True)
class StreamableHTTP:
    """A server at a URL, the way MCP has used since 2025."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Sent with each request, e.g. ``{"Authorization": "Bearer …"}``."""

    auth: httpx2.Auth | None = field(default=None, repr=False)
    """An httpx2 auth provider, e.g. ``mcp.client.auth.OAuthClientProvider``."""

    @property
    def where(self) -> str:
        """The server as messages show it."""
        return _shown(self.url)

    def streams(self) -> Streams:
        """The connection, not open yet."""
        return _http(self)


@asynccontextmanager
async def _http(transport: StreamableHTTP) -> AsyncGenerator[Any, None]:
    client = create_mcp_http_client(headers=dict(transport.headers), auth=transport.auth)
    async with client, streamable_http_client(transport.url, http_client=client) as streams:
        yield streams


@dataclass(frozen=True, slots=True)
class SSE:
    """A server at a URL, the way MCP used before streamable HTTP."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    auth: httpx2.Auth | None = field(default=None, repr=False)

    @property
    def where(self) -> str:
        """The server as messages show it."""
        return _shown(self.url)

    def streams(self) -> Streams:
        """The connection, not open yet."""
        return sse_client(self.url, headers=dict(self.headers), auth=self.auth)


Transport: TypeAlias = Stdio | StreamableHTTP | SSE


def _shown(url: str) -> str:
    """A URL without what may be secret: user, password and query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def as_transport(server: str, given: Transport | str | Mapping[str, Any]) -> Transport:
    """The transport that was given as one, as a URL, or as TypeScript's ``{type, …}``.

    Raises:
        ConfigurationError: It is none of these, or one that the SDK does not have.
    """
    if isinstance(given, Stdio | StreamableHTTP | SSE):
        return given
    if isinstance(given, str):
        return _of_url(server, given)
    if isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not check their types
        return _of_settings(server, given)
    raise ConfigurationError(f"MCP server {server!r}: {type(given).__name__} is no transport")


def _of_url(server: str, url: str) -> Transport:
    scheme = urlsplit(url).scheme.lower()
    if scheme in ("ws", "wss"):
        raise _no_websocket(server)
    if scheme not in ("http", "https"):
        raise ConfigurationError(
            f"MCP server {server!r}: a transport given as text must be an http(s) URL; "
            "a command goes into Stdio(command, args)"
        )
    return StreamableHTTP(url)


def _of_settings(server: str, given: Mapping[str, Any]) -> Transport:
    settings = dict(given)
    kind = settings.pop("type", "stdio" if "command" in settings else "streamable-http")
    if kind in ("ws", "websocket"):
        raise _no_websocket(server)
    kinds: dict[str, Any] = {
        "stdio": Stdio,
        "streamable-http": StreamableHTTP,
        "http": StreamableHTTP,
        "sse": SSE,
    }
    if kind not in kinds:
        raise ConfigurationError(
            f"MCP server {server!r}: there is no transport {kind!r}; there are stdio, "
            "streamable-http and sse"
        )
    try:
        return kinds[kind](**settings)
    except TypeError as error:  # of a wrong name, which is no secret; values are not in it
        text = str(error).partition("() ")[2]
        raise ConfigurationError(f"MCP server {server!r}: its {kind} transport {text}") from None


def _no_websocket(server: str) -> ConfigurationError:
    return ConfigurationError(
        f"MCP server {server!r}: the MCP SDK for Python has no WebSocket transport. Use its "
        'streamable HTTP endpoint (StreamableHTTP("https://…/mcp")), its SSE endpoint '
        "(SSE(…)), or start it here (Stdio(command, args))."
    )
