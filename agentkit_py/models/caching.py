"""Prompt caching: the marks in Claude's requests, which end the cached parts.

Providers charge a fraction for the beginning of a request that they have kept. OpenAI, xAI and
Google keep it by themselves (see `encoding.cache_key`). Claude keeps the content before a mark, and
looks it up from each mark, 20 blocks back. So marks come after the tools and the system prompt,
which all threads of an agent have; where its last request on the thread ended, independent of later
messages of others; and at the end.

Source: platform.claude.com/docs/en/build-with-claude/prompt-caching; developers.openai.com, guide
prompt-caching; docs.x.ai, prompt-caching/maximizing-cache-hits (read in November 2026).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentkit_py._core.json import as_list, as_object, dumps
from agentkit_py.models.base import Model, ModelRequest

MARK = "cache_control"
CHARACTERS_PER_TOKEN = 4
"""An estimate, so that no mark is set where Claude would keep nothing."""

_MARKABLE = frozenset({"text", "image", "document", "tool_use", "tool_result"})
"""Blocks that take a mark; thinking does not, and neither do changes of tools."""

WireTurn = dict[str, Any]


def mark_for_claude(
    model: Model, request: ModelRequest, body: dict[str, Any], asked: WireTurn | None
) -> None:
    """Set the marks of a request, four at the most.

    With marks or settings of the user's own, none is added.

    Args:
        model: Who is asked.
        request: What is asked.
        body: The JSON, whose tools, system prompt and turns are replaced by marked ones.
        asked: The turn with which the agent's last request on the thread ended; None: unknown.
    """
    minimum = model.takes.cache_minimum
    if not (model.prompt_cache and minimum) or request.cache_key is None:
        return
    own = [one for one in (model.default_parameters, *request.hosted) if not isinstance(one, str)]
    if any(_has_mark(dict(one)) for one in own):
        return
    control = {"type": "ephemeral", **({"ttl": "1h"} if model.prompt_cache == "1h" else {})}
    wanted = minimum * CHARACTERS_PER_TOKEN
    if tools := as_list(body.get("tools")):
        wanted -= len(dumps(tools))
        if wanted <= 0:
            body["tools"] = _with_last_tool_marked(tools, control)
    if system := body.get("system"):
        wanted -= len(dumps(system))
        if wanted <= 0:
            blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
            body["system"] = _marked(blocks, control) or system
    turns: list[WireTurn] = body["messages"]
    continues = request.cache_key or tools or any(turn["role"] == "assistant" for turn in turns)
    if not continues or "messages" in model.default_parameters:
        return
    for index in _ends(turns, asked, wanted):
        turn = turns[index]
        turns[index] = {**turn, "content": _marked(_blocks(turn), control) or turn["content"]}


def _ends(turns: Sequence[WireTurn], asked: WireTurn | None, wanted: int) -> list[int]:
    """Return the indices of the user's turns that ended the last request and end this request.

    So many characters are ``wanted`` before a mark.
    """
    first = 0
    while wanted > 0 and first < len(turns):
        wanted -= len(dumps(turns[first]["content"]))
        first += wanted > 0
    last = len(turns) - 1
    then = next((index for index in range(last, -1, -1) if turns[index] is asked), -1)
    found = (_last_of_user(turns, first, end) for end in (then, last))
    return list(dict.fromkeys(index for index in found if index is not None))


def _last_of_user(turns: Sequence[WireTurn], first: int, last: int) -> int | None:
    backwards = range(last, first - 1, -1)
    return next((index for index in backwards if turns[index]["role"] == "user"), None)


def _blocks(turn: WireTurn) -> Sequence[Any]:
    content = turn["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _marked(blocks: Sequence[Any], control: Mapping[str, Any]) -> list[Any] | None:
    """Return blocks with a mark on the last block that takes it; None: no block does."""
    for index in reversed(range(len(blocks))):
        block = as_object(blocks[index]) or {}
        if block.get("type") in _MARKABLE and block.get("text") != "":
            return [*blocks[:index], {**block, MARK: control}, *blocks[index + 1 :]]
    return None


def _with_last_tool_marked(tools: Sequence[Any], control: Mapping[str, Any]) -> list[Any]:
    """Return tools with a mark on the last tool of our own; others have rules of their own."""
    for index in reversed(range(len(tools))):
        tool = as_object(tools[index]) or {}
        if tool.get("type") in (None, "custom") and not tool.get("defer_loading"):
            return [*tools[:index], {**tool, MARK: control}, *tools[index + 1 :]]
    return list(tools)


def _has_mark(value: Any) -> bool:
    """Return whether JSON holds a mark."""
    members, items = as_object(value), as_list(value)
    if members is not None:
        return MARK in members or any(map(_has_mark, members.values()))
    return items is not None and any(map(_has_mark, items))
