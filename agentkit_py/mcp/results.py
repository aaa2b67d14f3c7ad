"""What a tool of a server gave, as JSON for the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mcp_types import CallToolResult, ContentBlock, TextContent

from agentkit_py._core.json import JsonValue, dumps
from agentkit_py.mcp.errors import MCPResultTooLargeError, MCPToolError


def value_of(result: CallToolResult, *, server: str, tool: str, limit: int) -> JsonValue:
    """The content blocks as they came: texts, images, sounds, resources and links.

    A structured result beside them is kept unless a text says the same.

    Raises:
        MCPToolError: The tool says that it failed.
        MCPResultTooLargeError: It has more than ``limit`` bytes.
    """
    if result.is_error:
        said = _words(result.content) or f"{tool} failed and did not say why"
        raise MCPToolError(said[:limit], server=server, tool=tool)
    blocks: Any = [_plain(block) for block in result.content]
    structured = result.structured_content
    value: JsonValue = blocks
    if structured is not None and not _is_said(structured, result.content):
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


def _words(blocks: Sequence[ContentBlock]) -> str:
    return "\n".join(
        block.text if isinstance(block, TextContent) else dumps(_plain(block)) for block in blocks
    )


def _is_said(structured: Any, blocks: Sequence[ContentBlock]) -> bool:
    """Whether the texts hold the structured result: servers send it twice for older clients."""
    texts = [block.text for block in blocks if isinstance(block, TextContent)]
    if structured == {"result": "\n".join(texts)}:  # how the SDKs wrap what is no object
        return bool(texts)
    found = [_json(text) for text in texts]
    return structured in found or structured in ({"result": one} for one in (*found, found))


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
