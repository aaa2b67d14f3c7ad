"""Claude's prompt cache: what a request's marks keep, and what they find again.

Source: platform.claude.com/docs/en/build-with-claude/prompt-caching (November 2026). Nothing is
forgotten here, since a test has no minutes.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from agentkit_py.models.capabilities import capabilities_of

from .anthropic import cache_marks
from .replies import Usage
from .rules import Request, fields_of, items_of, sent_key

LOOK_BACK = 20
"""Blocks before a mark in which an earlier mark is looked for."""

_CHARACTERS_PER_TOKEN = 4


@dataclass(slots=True)
class ClaudeCache:
    """The beginnings that requests have asked to keep, by account and model."""

    _kept: set[str] = field(default_factory=set[str])

    def counted(self, request: Request, usage: Usage) -> Usage:
        """Return a request's usage with the tokens that were read and written, and keep them."""
        marked = {id(value) for _, value, _ in cache_marks(request)}
        if not marked:
            return usage
        blocks = _blocks(request.body)
        written = [json.dumps(_unmarked(block)) for block in blocks]
        sizes = list(accumulate(map(len, written)))
        digests = list(accumulate(written, _digest, initial=f"{sent_key(request)} {request.model}"))
        least = capabilities_of(request.model).cache_minimum * _CHARACTERS_PER_TOKEN
        places = [n for n, block in enumerate(blocks) if _is_marked(block, marked)]
        if id(request.body) in marked:
            places.append(len(blocks) - 1)
        places = [n for n in places if sizes[n] >= least]
        found = [
            n
            for place in places
            for n in range(max(0, place - LOOK_BACK + 1), place + 1)
            if digests[n + 1] in self._kept
        ]
        self._kept.update(digests[place + 1] for place in places)
        read = sizes[max(found)] if found else 0
        kept = max(sizes[max(places)] - read, 0) if places else 0
        share = usage.prompt / sizes[-1]
        return replace(
            usage,
            prompt=usage.prompt - int(read * share) - int(kept * share),
            cached=int(read * share),
            written=int(kept * share),
        )


def _blocks(body: dict[str, Any]) -> list[Any]:
    """Return all blocks in the order in which Claude reads them."""
    found = [*items_of(body.get("tools")), *_as_blocks(body.get("system"))]
    for message in items_of(body["messages"]):
        content = _as_blocks(message["content"])
        found += [{"role": message["role"], "block": block} for block in content]
    return found


def _as_blocks(content: Any) -> list[Any]:
    """Return a string as the one block that it stands for."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else items_of(content)


def _is_marked(block: Any, marked: set[int]) -> bool:
    given = fields_of(block).get("block", block)
    inner = items_of(fields_of(given).get("content"))
    return any(id(one) in marked for one in (given, *inner))


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(one) for one in items_of(value)]
    if not isinstance(value, dict):
        return value
    return {k: _unmarked(v) for k, v in fields_of(value).items() if k != "cache_control"}


def _digest(before: str, block: str) -> str:
    return hashlib.blake2b(f"{before}\0{block}".encode(), digest_size=16).hexdigest()
