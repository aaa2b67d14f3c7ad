"""A server whose tools an agent can call, and its results: JSON for the model, or errors."""

from __future__ import annotations

import asyncio
import json
import logging
import weakref
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from types import TracebackType
from typing import Any, Self, TypeAlias, cast

import anyio
from mcp import MCPError
from mcp.types import CONNECTION_CLOSED
from mcp_types import CallToolResult, ContentBlock, TextContent
from mcp_types import Tool as MCPTool
from pydantic import ValidationError

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import JsonObject, JsonValue, dumps
from agentkit_py._core.spellings import options_spelled_here
from agentkit_py._core.untrusted import clean, get_logger
from agentkit_py.errors import (
    AgentKitError,
    ConfigurationError,
    ToolDefinitionError,
    ToolSourceError,
)
from agentkit_py.mcp.connection import Connection, Transport, as_transport, hide_secrets
from agentkit_py.mcp.tools import ServerArguments, fit_gemini, offered_name, spec_of
from agentkit_py.tools import Condition, Tool, ToolContext


class MCPCallError(AgentKitError):
    """A call of a tool gave no result.

    Attributes:
        server: The server's name.
        tool: The tool's name on the server.
    """

    def __init__(self, message: str, *, server: str, tool: str) -> None:
        super().__init__(message)
        self.server = server
        self.tool = tool


class MCPToolError(MCPCallError):
    """The tool reports that it failed."""


class MCPProtocolError(MCPCallError):
    """The server refused the call, or its answer is no MCP result."""


class MCPConnectionError(MCPCallError):
    """The connection ended during the call, which may have been carried out all the same."""


class MCPTimeoutError(MCPCallError):
    """There was no answer, and no progress, in time; the call was cancelled."""


class MCPResultTooLargeError(MCPCallError):
    """The call was carried out, and its result is too large to keep."""


def value_of(result: CallToolResult, *, server: str, tool: str, limit: int) -> JsonValue:
    """Return the content blocks: texts, images, sounds, resources and links.

    A structured result is kept as well unless a text says the same.

    Raises:
        MCPToolError: The tool reports that it failed.
        MCPResultTooLargeError: It has more than ``limit`` bytes.
    """
    if result.is_error:
        text = _text_of(result.content) or f"{tool} failed and did not say why"
        raise MCPToolError(text[:limit], server=server, tool=tool)
    blocks: Any = [_plain(block) for block in result.content]
    structured = result.structured_content
    value: JsonValue = blocks
    if structured is not None and not _is_repeated(structured, result.content):
        value = {"content": blocks, "structuredContent": structured}
    size = len(dumps(value).encode("utf-8", "replace"))
    if size > limit:
        raise MCPResultTooLargeError(
            f"{tool} was carried out, but its result has {size:,} bytes, and at most {limit:,} can "
            "be kept. Ask for less, e.g. a part or a page.",
            server=server,
            tool=tool,
        )
    return value


def _plain(block: ContentBlock) -> dict[str, Any]:
    return block.model_dump(mode="json", by_alias=True, exclude_none=True)


def _text_of(blocks: Sequence[ContentBlock]) -> str:
    return "\n".join(
        block.text if isinstance(block, TextContent) else dumps(_plain(block)) for block in blocks
    )


def _is_repeated(structured: Any, blocks: Sequence[ContentBlock]) -> bool:
    """Return whether a text repeats the structured result, as servers do for older clients."""
    texts = [block.text for block in blocks if isinstance(block, TextContent)]
    if structured == {"result": "\n".join(texts)}:  # how the SDKs wrap other values than objects
        return bool(texts)
    found = [_json(text) for text in texts]
    return structured in found or structured in ({"result": one} for one in (*found, found))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


logger: logging.Logger = get_logger("agentkit_py.mcp")

OnProgress: TypeAlias = Callable[[str, float, float | None, str | None], "Awaitable[None] | None"]
"""Gets a tool's name on the server, its progress, the total if known, and a message."""

_SESSION_GONE = "Session terminated"
"""The SDK's words for HTTP 404: the server has dropped the session, and not read the request."""


@dataclass(slots=True)
class _Local:
    """The connection of an event loop: it cannot be used in another."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    connection: Connection | None = None
    holders: int = 0


_Locals: TypeAlias = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Local]


@options_spelled_here
@dataclass(eq=False)
class MCPServer:
    """A server whose tools an agent can call, for ``Agent(mcp_servers=[…])``.

    It is connected when it is first needed or by ``async with`` (of itself, an agent or a
    network), stays connected, and is connected again when it has ended. Agents may share it.
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
    """Seconds that a call may take; each report of progress restarts them."""

    connect_timeout: float = 30.0
    """Seconds until it must have answered for the first time."""

    max_result_bytes: int = 2_000_000
    """Larger results become an error result; Inngest keeps at most 4 MB of a step."""

    needs_approval: bool | Condition = False
    """True or a condition: a person must agree before each call; see `agentkit_py.tool`."""

    on_progress: OnProgress | None = None
    """Gets the progress that tools report."""

    names: dict[str, str] = field(init=False, repr=False, default_factory=dict[str, str])
    """The names on the server, by the names that models get."""

    titles: dict[str, str] = field(init=False, repr=False, default_factory=dict[str, str])
    """The titles that the server gives its tools, by the names that models get."""

    _warned: set[str] = field(init=False, repr=False, default_factory=set[str])
    _locals: _Locals = field(init=False, repr=False, default_factory=_Locals)

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            ConfigurationError: A setting is wrong.
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

    async def open(self) -> None:
        """Connect; the connection stays until each `open` has its `close`.

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
        """Disconnect, if each other `open` has its `close`."""
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
                logger.warning("MCP server %r has ended; connecting again", self.name)
                await old.close()
            try:
                local.connection = await Connection.connect(self._transport, self.connect_timeout)
            except TimeoutError as error:
                reason = f"{self._transport.where} did not answer in {self.connect_timeout} s"
                raise ToolSourceError(self.name, reason) from error
            except Exception as error:
                reason = f"{self._transport.where} cannot be used: {self._reason(error)}"
                raise ToolSourceError(self.name, reason) from error
            return local.connection

    def _reason(self, error: Exception) -> str:
        return hide_secrets(_reason(error), self._transport)

    def _report(self, error: ToolSourceError) -> None:
        logger.warning("%s; going on without its tools (required=False)", error)

    async def listing(self) -> JsonObject:
        """Return its tools as JSON; see `ToolSource`.

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
                self.name, f"it does not list its tools: {self._reason(error)}"
            ) from error
        for name in sorted({*(self.include or ()), *self.exclude} - {one.name for one in found}):
            self._warn(f"include or exclude names {name!r}, which it does not have")
        tools: list[JsonValue] = [
            {
                "name": tool.name,
                "description": tool.description or tool.title or "",
                "inputSchema": tool.input_schema,
                **_title_of(tool),
            }
            for tool in found
            if (self.include is None or tool.name in self.include) and tool.name not in self.exclude
        ]
        return {"tools": tools, "changes": connection.tools_change}

    def tools(self, listing: JsonObject, taken: Collection[str] = ()) -> Sequence[Tool]:
        """Return the tools of a listing; see `ToolSource`."""
        made: list[Tool] = []
        used = set(taken)
        for listed in cast("list[dict[str, Any]]", listing["tools"]):
            name = offered_name(self.name, listed["name"], used)
            try:
                tool = self._tool(name, listed)
                simplified = fit_gemini(tool.spec)
            except (ToolDefinitionError, RecursionError) as error:
                self._warn(f"its tool {listed['name']!r} is left out: {error}")
                continue
            if simplified:
                self._warn(f"Gemini gets a simpler schema of {listed['name']!r}: {simplified}")
            if name != f"{self.name}-{listed['name']}":
                self._warn(
                    f"its tool {listed['name']!r} is offered as {name!r}: the usual name is taken "
                    "already or no name that providers accept"
                )
            self.names[name] = listed["name"]
            if tool.title:
                self.titles[name] = tool.title
            used.add(name)
            made.append(tool)
        return made

    def _tool(self, name: str, listed: dict[str, Any]) -> Tool:
        arguments = ServerArguments(name, listed["inputSchema"])
        spec = spec_of(name, listed)

        async def call(given: Any, _context: ToolContext, /) -> JsonValue:
            return await self.call(listed["name"], given)

        return Tool(
            name,
            spec.description,
            arguments,
            call,
            is_async=True,
            needs_approval=self.needs_approval,
            handler=call,
            spec=spec,
            title=listed.get("title", ""),
        )

    def _warn(self, text: str) -> None:
        """Log a warning once: a durable run comes here at each replay."""
        if text not in self._warned:
            self._warned.add(text)
            logger.warning("MCP server %r: %s", self.name, text)

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None) -> JsonValue:
        """Call a tool by its name on the server.

        Returns:
            Its content blocks, and its structured content if that says more.

        Raises:
            MCPCallError: No result came; its subclasses say why.
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
            f"{tool} gave no answer and no progress in {self.timeout} s, and was cancelled.",
            server=self.name,
            tool=tool,
        )


_LONGEST_TITLE = 80
"""Characters of a title that are kept."""


def _title_of(tool: MCPTool) -> dict[str, JsonValue]:
    """Return the title that the server gives a tool, on a line; it fills in no arguments."""
    title = tool.title or (tool.annotations and tool.annotations.title) or ""
    line = " ".join(clean(title[: 2 * _LONGEST_TITLE]).split())[:_LONGEST_TITLE]
    return {"title": line.replace("{", "{{").replace("}", "}}")} if line else {}


def _reason(error: Exception) -> str:
    """Return the innermost errors in words: a group's own message says only that some failed."""
    if isinstance(error, ExceptionGroup):
        inner = cast("ExceptionGroup[Exception]", error)
        return "; ".join(dict.fromkeys(map(_reason, inner.exceptions)))
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
