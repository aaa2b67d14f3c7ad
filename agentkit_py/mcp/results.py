"""The result of a tool call: JSON for the model, or an error that it reads as a result.

::

    AgentKitError
    └── MCPCallError
        ├── MCPToolError            the tool reports a failure (``isError``)
        ├── MCPProtocolError        the server refused the call, or its answer is no MCP result
        ├── MCPConnectionError      the connection ended during the call, which may be done
        ├── MCPTimeoutError         no answer and no progress in time; the call was cancelled
        └── MCPResultTooLargeError  the call was carried out, and its result is too large to keep
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mcp_types import CallToolResult, ContentBlock, TextContent

from agentkit_py._core.json import JsonValue, dumps
from agentkit_py.errors import AgentKitError


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
    if structured == {"result": "\n".join(texts)}:  # how the SDKs wrap what is no object
        return bool(texts)
    found = [_json(text) for text in texts]
    return structured in found or structured in ({"result": one} for one in (*found, found))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
