"""History processors of the reference model: the upstream proposal's, and ours."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..vectors import Json
from .core import Failure, Switches, our_failure
from .js import stringify

_RATIOS = {"o200k_base": 4.2, "cl100k_base": 4.0, "p50k_base": 3.8, "r50k_base": 3.5, "gpt2": 3.2}


class SpecialToken(Exception):  # noqa: N818 - a signal
    """TypeScript's tiktoken refuses the text."""


@dataclass(frozen=True, slots=True)
class Item:
    """A message, and where in the input it stands (-1: it is new)."""

    index: int
    message: dict[str, Json]


def counted_text(message: dict[str, Json]) -> str:
    """The text by which a message is counted."""
    if message["type"] == "tool_call":
        return stringify(message["tools"])
    content = message.get("content")
    if message["type"] == "tool_result":
        return stringify(content)
    return content if isinstance(content, str) else stringify(content)


def units(text: str) -> int:
    """UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


_CUSTOM: dict[str, Callable[[str], float]] = {
    "chars": units,
    "words": lambda text: len(text.split()),
    "const42": lambda text: 42,
    "zero": lambda text: 0,
    "float": lambda text: units(text) / 3,
}


class CaseModel:
    """Plays the cases of one recording."""

    def __init__(self, data: dict[str, Json], on: frozenset[str], exact: Callable[..., Any]) -> None:
        """Begin.

        Args:
            data: The recording; only messages, texts and counts are looked at.
            on: The divergences that are switched on.
            exact: Counts a text that the recording does not have, by an encoding of tiktoken.
        """
        self.on = Switches(on)
        self._messages = data["messages"]
        self._counts = data["tokenCounts"]
        self._texts = [counted_text(message) for message in self._messages]
        self._exact = exact

    def case(self, case: dict[str, Json]) -> dict[str, Json]:
        """One case in the recording's shape."""
        record = {key: case[key] for key in ("label", "processors", "levels") if key in case}
        items = [Item(i, m) for i, m in enumerate(copy.deepcopy(self._messages))]
        try:
            for spec in case["processors"]:
                self._check(spec)
            left = items
            for spec in case["processors"]:
                left = self._applied(spec, left)
        except SpecialToken:
            return {**record, "error": {"special": True}, "inputUnmodified": True}
        except Failure as failure:
            return {**record, "error": failure.facts, "inputUnmodified": True}
        record["output"] = [item.message for item in left]
        record["outputIndices"] = [item.index for item in left]
        record["sameArray"] = self._same(items, left)
        return {**record, "inputUnmodified": True}

    def _same(self, before: list[Item], after: list[Item]) -> bool:
        unchanged = [item.index for item in after] == [item.index for item in before]
        if after is before or not unchanged:
            return after is before
        return self.on("what-is-unchanged-stays-itself")

    def _check(self, spec: dict[str, Json]) -> None:
        options = spec.get("options", {})
        if spec["type"] == "ToolCallFilter":
            if {"include", "exclude"} <= options.keys() and self.on("processor-options-are-checked"):
                raise our_failure("ConfigurationError")
            return
        limit = _limit(options)
        whole = isinstance(limit, int) and limit > 0
        if not whole and self.on("processor-options-are-checked"):
            raise our_failure("ConfigurationError")

    def _applied(self, spec: dict[str, Json], items: list[Item]) -> list[Item]:
        if spec["type"] == "ToolCallFilter":
            return self._filtered(items, spec.get("options", {}))
        return self._limited(items, spec)

    # ------------------------------------------------------------------ filter

    def _filtered(self, items: list[Item], options: dict[str, Json]) -> list[Item]:
        theirs = _their_filter(items, options)
        ours = _our_filter(items, options)
        if _shown(theirs) == _shown(ours):
            if theirs == ours:
                return ours
            return ours if self.on("what-is-unchanged-stays-itself") else theirs
        if not self.on("summary-before-its-calls"):
            return theirs
        return ours

    # ------------------------------------------------------------------ limit

    def _limited(self, items: list[Item], spec: dict[str, Json]) -> list[Item]:
        options = spec.get("options", {})
        limit = _limit(options)
        counts = [self._count(item, spec) for item in items]
        theirs = _their_limit(items, counts, limit)
        ours = _our_limit(items, counts, limit)
        if theirs != ours:
            return ours if self.on("call-groups-not-segments") else theirs
        if (theirs is items) == (ours is items):
            return ours
        return ours if self.on("what-is-unchanged-stays-itself") else theirs

    def _count(self, item: Item, spec: dict[str, Json]) -> float:
        if "customTokenizer" in spec:
            return _CUSTOM[spec["customTokenizer"]](counted_text(item.message))
        options = spec.get("options", {})
        options = options if isinstance(options, dict) else {}
        encoding = options.get("encoding", "o200k_base")
        counts = self._counts.get(f"tiktoken:{encoding}")
        text = counted_text(item.message)
        if options.get("useTiktoken") is False or counts is None:
            return math.ceil(units(text) / _RATIOS.get(encoding, 4.0))
        if not isinstance(counts, list):
            if self.on("special-tokens-are-text"):
                return self._exact(encoding, text)
            raise SpecialToken
        if text in self._texts:
            return counts[self._texts.index(text)]
        return self._exact(encoding, text)


def _limit(options: Json) -> Json:
    value = options["limit"] if isinstance(options, dict) else options
    return float(value["$number"]) if isinstance(value, dict) else value


def _shown(items: list[Item]) -> list[Json]:
    return [item.message for item in items]


def _keeps(name: str, options: dict[str, Json]) -> bool:
    if options.get("include"):
        return name in options["include"]
    return "exclude" in options and "include" not in options and name not in options["exclude"]


def _split(message: Json, options: dict[str, Json]) -> tuple[list[Json], list[str]]:
    kept = [call for call in message["tools"] if _keeps(call["name"], options)]
    gone = [call["name"] for call in message["tools"] if not _keeps(call["name"], options)]
    return kept, gone


def _summary(names: list[str]) -> Item:
    text = f"Used **{names[0]}** tool" if len(names) == 1 else f"Used tools: {', '.join(names)}"
    words = {"type": "text", "role": "assistant", "content": text, "stop_reason": "stop"}
    return Item(-1, words)


def _their_filter(items: list[Item], options: dict[str, Json]) -> list[Item]:
    persist = options.get("persistResults")
    everything = not options.get("include") and "exclude" not in options
    everything = everything or options.get("include") == []
    dropped: set[str] = set()
    found: list[Item] = []
    for item in items:
        message = item.message
        if message["type"] == "tool_call":
            kept, gone = _split(message, options)
            dropped |= {c["id"] for c in message["tools"] if not _keeps(c["name"], options)}
            if kept:
                found.append(Item(-1, {**message, "tools": kept}))
            if persist and not (kept and options.get("include")) and (gone or everything):
                found.append(_summary(gone))
        elif message["type"] != "tool_result" or message["tool"]["id"] not in dropped:
            found.append(item)
    return found


def _our_filter(items: list[Item], options: dict[str, Json]) -> list[Item]:
    found: list[Item] = []
    replies = _replies([item.message for item in items])
    for index, item in enumerate(items):
        message = item.message
        if message["type"] == "tool_call":
            kept, gone = _split(message, options)
            if options.get("persistResults"):
                losing = [_split(items[i].message, options)[1] for i in replies.get(index, [])]
                found += [_summary(names) for names in losing if names]
            if kept:
                found.append(Item(-1, {**message, "tools": kept}) if gone else item)
        elif message["type"] != "tool_result" or _keeps(message["tool"]["name"], options):
            found.append(item)
    return found


def _replies(messages: list[Json]) -> dict[int, list[int]]:
    """Index of the first call message of each reply, and the indices of all of them."""
    answers: dict[int, int] = {}
    for call, result in _pairs(messages):
        answers[call] = max(answers.get(call, call), result)
    found: dict[int, list[int]] = {}
    first = -1
    reach, texts = -1, False
    for index, message in enumerate(messages):
        is_call = message["type"] == "tool_call"
        if is_call and message["tools"]:
            if first < 0 or (texts and reach <= index):
                first, reach = index, -1
            found.setdefault(first, []).append(index)
            reach, texts = max(reach, answers.get(index, index)), False
        elif message["type"] == "text" and message["role"] == "assistant" and first >= 0:
            texts = True
        elif not is_call:
            first = -1
    return found


def _their_limit(items: list[Item], counts: list[float], limit: float) -> list[Item]:
    if sum(counts) <= limit:
        return items
    segments: list[list[int]] = []
    index = 0
    while index < len(items):
        segment = [index]
        message = items[index].message
        index += 1
        if message["type"] == "tool_call":
            open_ids = {call["id"] for call in message["tools"]}
            while index < len(items) and open_ids:
                segment.append(index)
                later = items[index].message
                if later["type"] == "tool_result":
                    open_ids.discard(later["tool"]["id"])
                elif later["type"] == "tool_call":
                    open_ids |= {call["id"] for call in later["tools"]}
                index += 1
        segments.append(segment)
    kept: list[list[int]] = []
    total: float = 0
    for segment in reversed(segments):
        total += sum(counts[i] for i in segment)
        if total > limit:
            break
        kept.insert(0, segment)
    return [items[i] for segment in kept for i in segment]


def _our_limit(items: list[Item], counts: list[float], limit: float) -> list[Item]:
    start, total = len(items), 0.0
    while start > 0 and total + counts[start - 1] <= limit:
        start -= 1
        total += counts[start]
    if start == 0:
        return items
    pairs = _pairs([item.message for item in items])
    cut = _next_cut(items, start, pairs, results=False)
    answered = {result for _, result in pairs}
    rest = [i for i in range(cut, len(items)) if items[i].message["type"] == "tool_result"]
    if any(i not in answered for i in rest):
        cut = _next_cut(items, start, pairs, results=True)
    return items[cut:]


def _next_cut(
    items: list[Item], start: int, pairs: list[tuple[int, int]], *, results: bool
) -> int:
    while start < len(items) and not _may_begin(items, start, pairs, results=results):
        start += 1
    return start


def _pairs(messages: list[Json]) -> list[tuple[int, int]]:
    """Each answered call as the indices of its message and of its result."""
    waiting: list[tuple[str, str, int]] = []
    found: list[tuple[int, int]] = []
    for index, message in enumerate(messages):
        if message["type"] == "tool_call":
            waiting = [*waiting, *((c["id"], c["name"], index) for c in message["tools"])]
        elif message["type"] == "tool_result":
            tool = message["tool"]
            same = [w for w in waiting if w[:2] == (tool["id"], tool["name"])]
            if same:
                newest = max(w[2] for w in same)
                match = next(w for w in same if w[2] == newest)
                waiting.remove(match)
                found.append((newest, index))
    return found


def _may_begin(
    items: list[Item], start: int, pairs: list[tuple[int, int]], *, results: bool
) -> bool:
    if any(call < start <= result for call, result in pairs):
        return False
    message = items[start].message
    if message["type"] == "tool_result" and not results:
        return False
    before = items[start - 1].message if start > 0 else None
    return not (message["type"] == "tool_call" and before and before["type"] == "tool_call")
