"""Cuts in a history: between tool exchanges, and not elsewhere with every turn.

What a processor cuts must not depend on how much of the thread is loaded, so cuts go by positions
in the whole thread. A cut is found again by a checksum of the messages before it, since messages
have no ids and earlier processors may drop some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate

from agentkit_py.messages import (
    Message,
    Messages,
    OpaqueMessage,
    ReasoningMessage,
    TextMessage,
    ToolCallMessage,
    ToolResultMessage,
    lineage,
    text_of,
)
from agentkit_py.processors.base import ProcessorContext, Tokenizer
from agentkit_py.processors.pairing import pair
from agentkit_py.processors.tokenizers import chars_per_token, count_text
from agentkit_py.processors.validity import is_valid

_HALVINGS = 8
"""Number of times that `steady_cut` halves its blocks where they would leave too little."""

_NEAR = 16
"""The number of messages at the end among which the newest segment is looked for first."""

_ANCHORED = 4
"""The number of messages of an anchor: a single message may well occur twice."""


def segments(messages: Messages) -> Iterator[range]:
    """Cut a list into the shortest segments that have no call apart from its result.

    A text is a segment of its own, with the reasoning before it; calls reach to their last result,
    with everything between. An unanswered call reaches over itself only.

    Yields:
        Ranges of indices that cover the list in order.
    """
    pairing = pair(messages)
    start, reach = 0, -1
    for index, message in enumerate(messages):
        if index > max(start, reach) and not _is_joined(messages[index - 1], message):
            yield range(start, index)
            start = index
        if isinstance(message, ToolCallMessage):
            reach = max(reach, pairing.last_answer(index))
    if messages:
        yield range(start, len(messages))


def _is_joined(before: Message, message: Message) -> bool:
    """Return whether ``message`` may not be separated from the message directly before it."""
    if isinstance(message, OpaqueMessage):
        return before.role == "assistant"
    match before:
        case OpaqueMessage():
            return message.role == "assistant"
        case ReasoningMessage():
            return isinstance(message, ToolCallMessage | ReasoningMessage) or (
                isinstance(message, TextMessage) and message.role == "assistant"
            )
        case ToolCallMessage():
            return isinstance(message, ToolCallMessage)
        case _:
            return False


def next_cut(messages: Messages, index: int) -> int:
    """Return the first index from ``index`` on where a list can be cut without parting a call."""
    cut = index
    while cut < len(messages) and not _may_begin(messages, cut):
        cut += 1
    if is_valid(messages[cut:]):
        return cut
    # A result is apart from its call: only reading all of it shows the groups.
    starts = (segment.start for segment in segments(messages) if segment.start >= index)
    return next(starts, len(messages))


def newest_segment(messages: Messages) -> int:
    """Return where the newest of the segments begins; see `segments`."""
    for start in range(len(messages) - 1, max(-1, len(messages) - 1 - _NEAR), -1):
        if _may_begin(messages, start) and is_valid(messages[start:]):
            return start
    return max((segment.start for segment in segments(messages)), default=0)


def _may_begin(messages: Messages, index: int) -> bool:
    """Return whether a message is neither a result nor the middle of a model's reply."""
    return not isinstance(messages[index], ToolResultMessage) and (
        index == 0 or not _is_joined(messages[index - 1], messages[index])
    )


@dataclass(frozen=True, slots=True)
class Segment:
    """Messages that stay or go together, with their tokens."""

    start: int
    stop: int
    tokens: float


def counted_segments(messages: Messages, start: int, tokenizer: Tokenizer) -> list[Segment]:
    """Return the segments of the messages from ``start`` on."""
    part = messages[start:]
    return [
        Segment(
            start + found.start,
            start + found.stop,
            sum(count_text(part[i], tokenizer) for i in found),
        )
        for found in segments(part)
    ]


def past_length(messages: Messages, context: ProcessorContext) -> int:
    """Return how many messages at the beginning are from before this run."""
    for index, message in enumerate(messages):
        if message.from_history is False or context.is_protected(message):
            return index
    return len(messages)


def exceeds(messages: Messages, limit: float, tokenizer: Tokenizer) -> bool:
    """Return whether the messages have more than ``limit`` tokens; the newest are counted first."""
    total: float = 0
    for message in reversed(messages):
        total += count_text(message, tokenizer)
        if total > limit:
            return True
    return False


def newest_that_fit(found: Sequence[Segment], room: float, max_messages: int | None = None) -> int:
    """Return the index in ``found`` of the oldest segment that is kept: from there on all fit.

    No more than ``max_messages`` are kept, rounded up to whole segments.
    """
    first, total, kept = len(found), 0.0, 0
    while first > 0 and (max_messages is None or kept < max_messages):
        total += found[first - 1].tokens
        if total > room:
            break
        first -= 1
        kept += found[first].stop - found[first].start
    return first


def steady_cut(
    messages: Messages,
    start: int,
    positions: ThreadPositions,
    upper: float,
    lower: float,
    tokenizer: Tokenizer,
) -> int:
    """Return the index of the oldest message that is kept, leaving at most ``upper`` tokens.

    The thread is divided into blocks of about ``upper - lower`` tokens from its beginning, and
    whole blocks are left out. So the rest grows to ``upper`` and is then cut to about ``lower``
    at once; the cut stays for many turns, and with it the beginning of the request, which providers
    cache. Nothing older than the cut has to be counted, and nothing before ``start`` is kept.

    Blocks are measured in characters, which are the same for every tokenizer.
    """
    found, sizes = counted_segments(messages, start, tokenizer), positions.sizes(messages)
    starts = [*(segment.start for segment in found), len(messages)]
    oldest, fits = len(found), 0.0
    kept = [0.0] * (len(found) + 1)
    for index in range(len(found) - 1, -1, -1):
        fits += found[index].tokens
        if fits > upper:
            break
        kept[index], oldest = fits, index
    if oldest == 0:
        return starts[0]
    block = max(1.0, (upper - lower) * chars_per_token(tokenizer))
    for _ in range(_HALVINGS):
        for index in range(oldest, len(found)):
            if sizes[starts[index]] // block > sizes[starts[index - 1]] // block:
                if kept[index] >= lower / 2:
                    return starts[index]
                break
        block /= 2
    return starts[oldest]


class ThreadPositions:
    """Positions of messages in their thread, also of those that processors rewrote.

    Without a thread, the history that a processor is given counts as all there is.
    """

    def __init__(self, messages: Messages, context: ProcessorContext) -> None:
        self._source = context.history or messages
        self._unloaded = context.unloaded
        self._indices = {id(message): index for index, message in enumerate(self._source)}

    @property
    def total(self) -> int:
        """Number of messages of the thread, with this run so far."""
        return self._unloaded.messages + len(self._source)

    def position(self, message: Message) -> int | None:
        """Return how many messages of the thread come before it; None: not known."""
        index = self._index(message)
        return None if index is None else self._unloaded.messages + index

    def sizes(self, messages: Messages) -> list[int]:
        """Return how many characters of the thread come before each message."""
        return self._before(messages, [len(text_of(m)) for m in self._source], self._unloaded.size)

    def ranks(self, messages: Messages, first: int = 0) -> list[int]:
        """Return how many messages come before each, system messages not counted.

        Args:
            messages: Messages in order.
            first: The first message whose rank is returned.
        """
        start = self._unloaded.messages - self._unloaded.system
        counted = [message.role != "system" for message in self._source]
        return self._before(messages, counted, start, first)

    def _before(
        self, messages: Messages, amounts: Sequence[int], total: int, first: int = 0
    ) -> list[int]:
        """Return the total before each message; for unknown ones that of the message before."""
        totals = list(accumulate(amounts, initial=total))
        earlier = (self._index(messages[place]) for place in range(first - 1, -1, -1))
        known = next((index for index in earlier if index is not None), 0)
        last = totals[known]
        found: list[int] = []
        for message in messages[first:]:
            index = self._index(message)
            last = last if index is None else totals[index]
            found.append(last)
        return found

    def _index(self, message: Message) -> int | None:
        known = (self._indices.get(id(found)) for found in lineage(message))
        return next((index for index in known if index is not None), None)


def fingerprint(messages: Messages) -> str:
    """Return a checksum of the messages' words, before or after processors rewrote them."""
    digest = blake2b(digest_size=8)
    for message in messages:
        digest.update(_identity(message).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _identity(message: Message) -> str:
    # A result that is new today is shortened tomorrow, and is the same result all the same.
    *_, message = lineage(message)
    match message:
        case ToolCallMessage():
            about = ""
        case ToolResultMessage(tool=tool):
            about = f"{tool.id}\x1f{tool.name}"
        case _:
            about = message.agent or ""
    return f"{message.type}\x1f{message.role}\x1f{about}\x1f{text_of(message)}\x1e"


def anchor_before(messages: Messages, stop: int) -> str:
    """Return the checksum by which the cut before the message at ``stop`` is found again."""
    return fingerprint(messages[max(0, stop - _ANCHORED) : stop])


def find_anchor(messages: Messages, expected: int, anchor: str) -> int | None:
    """Return the cut with this anchor: at its expected place, else the first; None: not found.

    Of several cuts the first is the safe choice: no message is left out without a summary.
    """
    if expected <= len(messages) and anchor_before(messages, expected) == anchor:
        return expected
    cuts = range(1, len(messages) + 1)
    return next((stop for stop in cuts if anchor_before(messages, stop) == anchor), None)
