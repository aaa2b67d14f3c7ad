"""History processors of the reference model: the upstream proposal's, and ours."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import tiktoken

from ..vectors import Json
from .core import Failure, Switches, our_failure, read
from .js import stringify, written
from .turns import images_in, is_image

_DEFAULT = "o200k_base"
_RATIOS = {"o200k_base": 4.2, "cl100k_base": 4.0, "p50k_base": 3.8, "r50k_base": 3.5, "gpt2": 3.2}


Counter: TypeAlias = Callable[[dict[str, Json], str], float]
"""Counts a text as one processor does."""


class SpecialToken(Exception):  # noqa: N818 - a signal
    """TypeScript's tiktoken refuses the text."""


@dataclass(frozen=True, slots=True)
class Item:
    """A message, and where in the input it stands (-1: it is new)."""

    index: int
    message: dict[str, Json]


def counted_text(message: dict[str, Json], on: Switches | None = None) -> str:
    """The text by which a message is counted."""
    content = message.get("content")
    if message["type"] == "tool_call":  # without what the model notes down for itself
        content = [{k: v for k, v in c.items() if k[0] != "_"} for c in message["tools"]]
    if isinstance(content, str) and message["type"] != "tool_result":
        return content
    return stringify(content) if on is None else written(content, on)


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


def estimate(spec: dict[str, Json], text: str) -> float:
    """Tokens by length, as the build of the branch counts that finds no tiktoken."""
    if "customTokenizer" in spec:
        return _CUSTOM[spec["customTokenizer"]](text)
    return math.ceil(units(text) / _RATIOS.get(encoding_of(spec), 4.0))


def exact_counts(spec: dict[str, Json], text: str) -> float:
    """Tokens by tiktoken, unless the scenario wants an estimate."""
    options = spec.get("options", {})
    estimated = isinstance(options, dict) and options.get("useTiktoken") is False
    if estimated or "customTokenizer" in spec:
        return estimate(spec, text)
    return len(tiktoken.get_encoding(encoding_of(spec)).encode(text, disallowed_special=()))


def encoding_of(spec: dict[str, Json]) -> str:
    """The encoding that a limiter counts by."""
    options = spec.get("options", {})
    return options.get("encoding", _DEFAULT) if isinstance(options, dict) else _DEFAULT


class ItemModel:
    """Runs processors on items.

    Args:
        on: The divergences.
        theirs: How TypeScript counts.
        ours: How we count.
    """

    def __init__(self, on: Switches, theirs: Counter, ours: Counter) -> None:
        self.on = on
        self._theirs, self._ours = theirs, ours

    def check(self, spec: dict[str, Json]) -> None:
        """Refuse options that mean nothing.

        Raises:
            Failure: We refuse them.
        """
        options = spec.get("options", {})
        if spec["type"] == "ToolCallFilter":
            bad = {"include", "exclude"} <= options.keys()
        else:
            limit = _limit(options)
            bad = not isinstance(limit, int) or limit <= 0
        if bad and self.on("processor-options-are-checked"):
            raise our_failure("ConfigurationError")

    def applied(self, spec: dict[str, Json], items: list[Item]) -> list[Item]:
        """Return the items that one processor leaves."""
        if spec["type"] == "ToolCallFilter":
            return self._filtered(items, spec.get("options", {}))
        return self._limited(items, spec)

    def _filtered(self, items: list[Item], options: dict[str, Json]) -> list[Item]:
        theirs = _their_filter(items, options)
        ours = _our_filter(items, options)
        if _shown(theirs) != _shown(ours):
            return ours if self.on("summary-before-its-calls") else theirs
        if theirs == ours:
            return ours
        return ours if self.on("what-is-unchanged-stays-itself") else theirs

    def _limited(self, items: list[Item], spec: dict[str, Json]) -> list[Item]:
        limit = _limit(spec.get("options", {}))
        counts = self._counts(items, spec)
        theirs = _their_limit(items, counts, limit)
        ours = _our_limit(items, counts, limit)
        if theirs != ours:
            return ours if self.on("call-groups-not-segments") else theirs
        if (theirs is items) == (ours is items):
            return ours
        return ours if self.on("what-is-unchanged-stays-itself") else theirs

    def _counts(self, items: list[Item], spec: dict[str, Json]) -> list[float]:
        texts = [counted_text(item.message, self.on) for item in items]
        try:
            theirs = [self._theirs(spec, text) for text in texts]
        except SpecialToken:
            if not self.on("special-tokens-are-text"):
                raise
            theirs = None
        ours = [self._ours(spec, text) for text in texts]
        chosen = theirs or ours
        if chosen != ours and self.on("tiktoken-is-found"):
            chosen = ours
        for index, item in enumerate(items):
            if images_in(item.message) and self.on("images-in-results"):
                chosen[index] = self._shown(spec, item.message)
        return chosen

    def _shown(self, spec: dict[str, Json], message: Json) -> float:
        """The tokens of a result with images, whatever their sizes."""
        found = message["content"]["data"]
        said = [{"type": "image"} if is_image(item) else item for item in found]
        words = self._ours(spec, written({"data": said}, self.on))
        return words + 765 * sum(map(is_image, found))


class CaseModel:
    """Plays the cases of one recording."""

    def __init__(self, data: dict[str, Json], on: frozenset[str]) -> None:
        """Begin; only messages and counts of the recording are looked at."""
        self.on = Switches(on)
        self._messages = read(data["messages"], self.on)
        self._counts = data["tokenCounts"]
        self.texts = [counted_text(message) for message in data["messages"]]
        self.our_texts = [counted_text(message, self.on) for message in self._messages]
        self._model = ItemModel(self.on, self._count, self._our_count)

    def _count(self, spec: dict[str, Json], text: str) -> float:
        options = spec.get("options", {})
        estimated = isinstance(options, dict) and options.get("useTiktoken") is False
        counts = self._counts.get(f"tiktoken:{encoding_of(spec)}")
        if estimated or counts is None or "customTokenizer" in spec:
            return estimate(spec, text)
        if not isinstance(counts, list):
            raise SpecialToken
        for texts in (self.texts, self.our_texts):
            if text in texts:
                return counts[texts.index(text)]
        return exact_counts(spec, text)

    def _our_count(self, spec: dict[str, Json], text: str) -> float:
        try:
            return self._count(spec, text)
        except SpecialToken:
            return exact_counts(spec, text)

    def case(self, case: dict[str, Json]) -> dict[str, Json]:
        """One case in the recording's shape."""
        record = {key: case[key] for key in ("label", "processors", "levels") if key in case}
        items = [Item(i, m) for i, m in enumerate(copy.deepcopy(self._messages))]
        left = items
        try:
            for spec in case["processors"]:
                self._model.check(spec)
            for spec in case["processors"]:
                left = self._model.applied(spec, left)
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


def _summary(names: list[str], message: Json) -> Item:
    text = f"Used **{names[0]}** tool" if len(names) == 1 else f"Used tools: {', '.join(names)}"
    words = {"type": "text", "role": "assistant", "content": text, "stop_reason": "stop"}
    return Item(-1, {**words, "_by": message["_by"]} if "_by" in message else words)


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
                found.append(_summary(gone, message))
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
                losing = [items[i].message for i in replies.get(index, [])]
                split = [(_split(each, options)[1], each) for each in losing]
                found += [_summary(names, each) for names, each in split if names]
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
    kept: list[int] = []
    total: float = 0
    for segment in reversed(_their_segments(items)):
        total += sum(counts[i] for i in segment)
        if total > limit:
            break
        kept = [*segment, *kept]
    return [items[i] for i in kept]


def _their_segments(items: list[Item]) -> list[list[int]]:
    """Stretches that stay together: from a call to the last result that is waited for."""
    segments: list[list[int]] = []
    waiting: set[str] = set()
    for index, item in enumerate(items):
        message = item.message
        if waiting:
            segments[-1].append(index)
        else:
            segments.append([index])
        if message["type"] == "tool_call":
            waiting |= {call["id"] for call in message["tools"]}
        elif message["type"] == "tool_result":
            waiting.discard(message["tool"]["id"])
    return segments


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


def _next_cut(items: list[Item], start: int, pairs: list[tuple[int, int]], *, results: bool) -> int:
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
