"""Blocks of Claude's own in tools' results: search results to cite, and the state of a browser.

A tool returns them as the API writes them, alone or in a list with texts and images. Models of
other formats read their JSON.

Source: github.com/anthropics/anthropic-sdk-python 2.14, types/search_result_block_param.py and
types/browser_state_block_param.py (November 2026)
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from agentkit_py._core.json import JsonValue, as_list, as_object, copied, dumps
from agentkit_py.messages import MediaContent, medium_in
from agentkit_py.models.encoding import Encoded, ToolExchange, encodable, may_be_sent, words_for
from agentkit_py.models.replies import objects, text_or_empty

SEARCH_RESULT, BROWSER_STATE = "search_result", "browser_state"

_WRITTEN = re.compile(f'"type":"(?:{SEARCH_RESULT}|{BROWSER_STATE})"')
_FIELDS = {
    SEARCH_RESULT: frozenset({"type", "source", "title", "content", "citations"}),
    BROWSER_STATE: frozenset({"type", "tabs", "state_changes"}),
}


def may_hold_blocks(written: str) -> bool:
    """Return False if a tool's result, as `dumps` writes it, holds no such block."""
    return _WRITTEN.search(written) is not None


def claude_blocks(content: JsonValue) -> tuple[JsonValue, ...]:
    """Return the items of a tool's result, if one of them is such a block; else none."""
    wrapped = as_object(content) or {}
    inner: Any = wrapped["data"] if list(wrapped) == ["data"] else content
    items = as_list(inner) or [inner]
    return tuple(items) if any(own_block_in(item) for item in items) else ()


def own_block_in(item: object) -> Encoded | None:
    """Return the block that an item of a result is, as it is sent; None: it is none."""
    found = as_object(item) or {}
    fields = _FIELDS.get(text_or_empty(found.get("type")))
    if fields is None or not found.keys() <= fields | {"cache_control"}:
        return None
    if found["type"] == SEARCH_RESULT and not _is_search_result(found):
        return None
    if found["type"] == BROWSER_STATE and as_list(found.get("tabs")) is None:
        return None
    kept = {k: v for k, v in found.items() if k in fields and v is not None}
    return dict(copied(kept))


def _is_search_result(found: dict[str, Any]) -> bool:
    texts = objects(found.get("content"))
    said = [text_or_empty(one.get("text")).strip() for one in texts if one.get("type") == "text"]
    named = all(isinstance(found.get(name), str) for name in ("source", "title"))
    return named and bool(texts) and len(said) == len(texts) and all(said)


def result_blocks(
    one: ToolExchange,
    text: Callable[[str], Encoded],
    media: Callable[[MediaContent], Encoded | None],
    *,
    in_browser: bool,
) -> list[Encoded]:
    """Return a result with its own blocks; without any, nothing.

    Args:
        one: The call with its result.
        text: Makes a block of a text.
        media: Makes a block of an image or a file, or nothing.
        in_browser: The call is of Claude's browser, so that its result may tell the state.
    """
    found: list[Encoded] = []
    for item in one.blocks:
        block, medium = own_block_in(item), medium_in(item)
        if block is not None and (block["type"] != BROWSER_STATE or in_browser):
            found.append(block)
        elif medium is not None:
            shown = media(medium) if may_be_sent(medium) else None
            found.append(shown or text(encodable(words_for(medium))))
        elif words := _words(item):
            found.append(text(encodable(words)))
    return found


def _words(item: JsonValue) -> str:
    said = as_object(item) or {}
    if said.get("type") == "text" and isinstance(said.get("text"), str):
        item = said["text"]
    words = item if isinstance(item, str) else dumps(item)
    return words if words.strip() else ""
