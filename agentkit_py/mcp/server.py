"""A server whose tools an agent can call."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeAlias, cast

import anyio
from mcp import MCPError
from mcp.types import CONNECTION_CLOSED, CallToolResult
from pydantic import ValidationError

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonObject, JsonValue
from agentkit_py.errors import ConfigurationError, ToolDefinitionError, ToolSourceError
from agentkit_py.mcp.connection import Connection
from agentkit_py.mcp.errors import MCPConnectionError, MCPProtocolError, MCPTimeoutError
from agentkit_py.mcp.listing import ServerArguments, offered_name, spec_of, told_less
from agentkit_py.mcp.results import value_of
from agentkit_py.mcp.transports import Transport, as_transport
from agentkit_py.tools import Condition, Tool, ToolContext

logger: logging.Logger = logging.getLogger("agentkit_py.mcp")

Progress: TypeAlias = Callable[[str, float, float | None, str | None], "Awaitable[None] | None"]
"""Gets a tool's name on the server, how far it is, of how much, and what it says."""

_SESSION_GONE = "Session terminated"
"""How the SDK words HTTP 404: the server has forgotten us, and has not looked at the request."""


@dataclass(slots=True)
class _Local:
    """What belongs to one event loop: connections cannot be used in another."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    connection: Connection | None = None
    holders: int = 0


_Locals: TypeAlias = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Local]


@dataclass(eq=False)
class MCPServer:
    """A server whose tools an agent can call, for ``Agent(mcp_servers=[…])``.

    It is connected when it is first needed or by ``async with`` (of itself, an agent or a
    network), stays so, and is connected anew when it has died. Agents may share it.
    """

    name: str
    """Its tools are called ``{name}-{tool}``."""

    transport: Transport | str | Mapping[str, Any]
    """`Stdio`, `StreamableHTTP`, `SSE`, a URL, or TypeScript's ``{"type": …}``."""

    _: KW_ONLY
    include: Collection[str] | None = None
    """The server's tools that are offered, by their names on the server; None: all."""

    exclude: Collection[str] = ()
    """Tools that are not offered."""

    required: bool = True
    """False: a server that cannot be reached is reported in the log, and its tools are missing."""

    timeout: float = 60.0
    """Seconds that a call may take; each report of progress begins them anew."""

    connect_timeout: float = 30.0
    """Seconds until it must have answered for the first time."""

    max_result_bytes: int = 2_000_000
    """Larger results become an error result; Inngest keeps at most 4 MB of a step."""

    needs_approval: bool | Condition = False
    """Whether a person must agree before each call; see `agentkit_py.tool`."""

    on_progress: Progress | None = None
    """Gets the progress that tools report."""

    names: dict[str, str] = field(init=False, repr=False, default_factory=dict[str, str])
    """The names on the server, by the names that models are told."""

    _told: set[str] = field(init=False, repr=False, default_factory=set[str])
    _locals: _Locals = field(init=False, repr=False, default_factory=_Locals)

    def __post_init__(self) -> None:
        """Check what was given.

        Raises:
            ConfigurationError: It cannot work.
        """
        if not self.name:
            raise ConfigurationError("An MCP server needs a name: its tools' names begin with it")
        for given, what in ((self.include, "include"), (self.exclude, "exclude")):
            if isinstance(given, str):
                raise ConfigurationError(
                    f"MCP server {self.name!r}: {what} must be a list of names, not {given!r}"
                )
        self._transport: Transport = as_transport(self.name, self.transport)
        self.transport = self._transport

    # ------------------------------------------------------------------------- the connection

    async def open(self) -> None:
        """Connect, until as many have closed as have opened.

        Raises:
            ToolSourceError: It cannot be reached, and is required.
        """
        self._local().holders += 1
        try:
            await self._connection()
        except ToolSourceError as error:
            if self.required:
                self._local().holders -= 1
                raise
            self._report(error)

    async def close(self) -> None:
        """Disconnect when the last one who opened has closed."""
        local = self._local()
        local.holders = max(0, local.holders - 1)
        if local.holders == 0 and local.connection is not None:
            connection, local.connection = local.connection, None
            await connection.close()

    async def __aenter__(self) -> Self:
        """Connect; see `open`."""
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Disconnect; see `close`."""
        await self.close()

    def _local(self) -> _Local:
        return self._locals.setdefault(asyncio.get_running_loop(), _Local())

    async def _connection(self) -> Connection:
        local = self._local()
        async with local.lock:
            if local.connection is not None and not local.connection.ended:
                return local.connection
            old, local.connection = local.connection, None
            if old is not None:
                logger.warning("MCP server %r has gone; connecting anew", self.name)
                await old.close()
            try:
                local.connection = await Connection.connect(self._transport, self.connect_timeout)
            except TimeoutError as error:
                reason = f"{self._transport.where} did not answer in {self.connect_timeout} s"
                raise ToolSourceError(self.name, reason) from error
            except Exception as error:
                reason = f"{self._transport.where} cannot be used: {_reason(error)}"
                raise ToolSourceError(self.name, reason) from error
            return local.connection

    def _report(self, error: ToolSourceError) -> None:
        logger.warning("%s; going on without its tools (required=False)", error)

    # --------------------------------------------------------------------------- what it has

    async def listing(self) -> JsonObject:
        """Its tools as JSON; see `ToolSource`.

        Raises:
            ToolSourceError: It cannot be reached or does not list its tools, and is required.
        """
        try:
            return await self._listing()
        except ToolSourceError as error:
            if self.required:
                raise
            self._report(error)
            return {"tools": [], "missing": error.reason}

    async def _listing(self) -> JsonObject:
        connection = await self._connection()
        try:
            with anyio.fail_after(self.connect_timeout):
                found = await connection.tools()
        except Exception as error:
            if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
                connection.ended = True
            raise ToolSourceError(
                self.name, f"it does not list its tools: {_reason(error)}"
            ) from error
        chosen = [tool for tool in found if self._is_offered(tool.name)]
        self._check_chosen({tool.name for tool in found})
        tools: list[JsonValue] = [
            {
                "name": tool.name,
                "description": tool.description or tool.title or "",
                "inputSchema": tool.input_schema,
            }
            for tool in chosen
        ]
        return {"tools": tools, "changes": connection.changes}

    def _is_offered(self, tool: str) -> bool:
        return (self.include is None or tool in self.include) and tool not in self.exclude

    def _check_chosen(self, found: Collection[str]) -> None:
        for name in sorted({*(self.include or ()), *self.exclude} - set(found)):
            self._warn(f"include or exclude names {name!r}, which it does not have")

    def tools(self, listing: JsonObject, taken: Collection[str] = ()) -> Sequence[Tool]:
        """The tools of a listing; see `ToolSource`."""
        made: list[Tool] = []
        used = set(taken)
        for listed in cast("list[dict[str, Any]]", listing["tools"]):
            name = offered_name(self.name, listed["name"], used)
            try:
                tool = self._tool(name, listed)
            except ToolDefinitionError as error:
                self._warn(f"its tool {listed['name']!r} is left out: {error}")
                continue
            self._warn_of_gemini(listed["name"], tool)
            if name != f"{self.name}-{listed['name']}":
                self._warn(
                    f"its tool {listed['name']!r} is offered as {name!r}: the usual name is taken "
                    "already or no name that providers accept"
                )
            self.names[name] = listed["name"]
            used.add(name)
            made.append(tool)
        return made

    def _tool(self, name: str, listed: dict[str, Any]) -> Tool:
        arguments = ServerArguments.of(name, listed["inputSchema"])
        spec = spec_of(name, listed)
        call = partial(self._invoke, listed["name"])
        return Tool(
            name,
            spec.description,
            arguments,
            call,
            is_async=True,
            needs_approval=self.needs_approval,
            handler=call,
            spec=spec,
        )

    def _warn_of_gemini(self, tool: str, made: Tool) -> None:
        lost = told_less(made.spec)
        if lost is not None:
            self._warn(f"Gemini is told less of its tool {tool!r}: {lost}")

    def _warn(self, text: str) -> None:
        """Say it once: a durable run goes through here again and again."""
        if text not in self._told:
            self._told.add(text)
            logger.warning("MCP server %r: %s", self.name, text)

    # ------------------------------------------------------------------------------- a call

    async def _invoke(self, tool: str, arguments: Any, _context: ToolContext, /) -> JsonValue:
        return await self.call(tool, arguments)

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> JsonValue:
        """Call a tool by its name on the server.

        Returns:
            Its content blocks; beside them its structured content, if that says more.

        Raises:
            MCPCallError: There is no result; its subclasses say why.
            ToolSourceError: The server cannot be reached.
        """
        given = None if arguments is None else dict(arguments)
        result = await self._call(tool, given)
        return value_of(result, server=self.name, tool=tool, limit=self.max_result_bytes)

    async def _call(self, tool: str, arguments: dict[str, Any] | None) -> CallToolResult:
        facts = {"server": self.name, "tool": tool}
        connection = await self._connection()
        try:
            try:
                return await self._send(connection, tool, arguments)
            except MCPError as error:
                if error.message != _SESSION_GONE:
                    raise
                connection.ended = True
                return await self._send(await self._connection(), tool, arguments)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                connection.ended = True
                raise MCPConnectionError(
                    f"The connection to {self.name} ended during the call; whether {tool} was "
                    "carried out is not known.",
                    **facts,
                ) from error
            text = f"MCP error {error.code}: {error.message}"
            raise MCPProtocolError(text, **facts) from error
        except ValidationError as error:
            text = f"{tool} answered something that is no MCP result ({error.error_count()} errors)"
            raise MCPProtocolError(text, **facts) from error
        except RuntimeError as error:  # the SDK's, e.g. of a structured result unlike its schema
            raise MCPProtocolError(str(error), **facts) from error

    async def _send(
        self, connection: Connection, tool: str, arguments: dict[str, Any] | None
    ) -> CallToolResult:
        with anyio.move_on_after(self.timeout) as timer:

            async def progressed(progress: float, total: float | None, message: str | None) -> None:
                timer.deadline = anyio.current_time() + self.timeout
                if self.on_progress is not None:
                    await resolve(self.on_progress(tool, progress, total, message))

            return await connection.client.call_tool(tool, arguments, progress_callback=progressed)
        raise MCPTimeoutError(
            f"{tool} gave no answer and no progress in {self.timeout} s, and was told to stop.",
            server=self.name,
            tool=tool,
        )


def _reason(error: Exception) -> str:
    """The innermost errors in words: a group of tasks says only that some of them failed."""
    if isinstance(error, ExceptionGroup):
        inner = cast("ExceptionGroup[Exception]", error)
        return "; ".join(dict.fromkeys(map(_reason, inner.exceptions)))
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
