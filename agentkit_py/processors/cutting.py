"""Where a history may be cut: between call groups, and not at another place with every turn.

A place is found again by the messages before it, since the same messages may stand at another index
when an earlier processor drops some, and messages have no ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise

from agentkit_py.messages import (
    Message,
    ToolCallMessage,
    ToolResultMessage,
    origin_of,
    text_of,
)
from agentkit_py.processors.base import ProcessorContext, Tokenizer
from agentkit_py.processors.pairing import is_joined, segments
from agentkit_py.processors.tokenizers import count_text
from agentkit_py.processors.validity import is_valid

_HALVINGS = 8
"""How often the blocks of `steady_cut` are halved where whole ones would leave too little."""

_ANCHORED = 4
"""Messages of which an anchor is made: one alone may well be said twice."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Messages that stay or go together."""

    start: int
    stop: int
    tokens: float


def past_length(messages: Sequence[Message], context: ProcessorContext) -> int:
    """How many messages at the beginning are from before this run."""
    for index, message in enumerate(messages):
        if message.from_history is False or context.is_protected(message):
            return index
    return len(messages)


def exceeds(messages: Sequence[Message], limit: float, tokenizer: Tokenizer) -> bool:
    """Whether the messages have more than ``limit`` tokens; no more are counted than needed."""
    total: float = 0
    for message in reversed(messages):
        total += count_text(message, tokenizer)
        if total > limit:
            return True
    return False


def newest_beyond(messages: Sequence[Message], limit: float, tokenizer: Tokenizer) -> int:
    """Where the newest messages begin that have more than ``limit`` tokens and stand by themselves.

    What is cut to the limit begins after that, so that nothing older has to be looked at.
    """
    total = 0.0
    for index in range(len(messages) - 1, 0, -1):
        message = messages[index]
        total += count_text(message, tokenizer)
        # Nothing is joined to what a user says, so a list can be cut there.
        if total > limit and message.type == "text" and message.role == "user":
            return index if is_valid(messages[index:]) else 0
    return 0


def stretches(
    messages: Sequence[Message], start: int, stop: int, tokenizer: Tokenizer
) -> list[Stretch]:
    """The messages from ``start`` to ``stop``, cut where no call is parted from its result."""
    part = messages[start:stop]
    return [
        Stretch(
            start + found.start,
            start + found.stop,
            sum(count_text(part[i], tokenizer) for i in found),
        )
        for found in segments(part)
    ]


def newest_that_fit(found: Sequence[Stretch], room: float, max_messages: int | None = None) -> int:
    """Index in ``found`` of the oldest stretch that is kept: from there on all fit.

    Args:
        found: The stretches, in order.
        room: Tokens.
        max_messages: Keep no more than so many, rounded up to whole stretches.
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
    found: Sequence[Stretch], sizes: Sequence[int], upper: float, lower: float, rate: float
) -> int:
    """Index in ``found`` of the oldest stretch that is kept, so that at most ``upper`` is left.

    The thread is thought of as cut into blocks of about ``upper - lower`` tokens from its
    beginning, and whole blocks are left out. So what is kept grows to ``upper`` and is then cut to
    about ``lower`` at once; the cut stays where it is for many turns, and with it the beginning of
    the request, which providers cache. Nothing older than the cut has to be looked at.

    Args:
        found: The stretches, in order.
        sizes: How many characters of the thread stand before each message.
        upper: Tokens.
        lower: Tokens.
        rate: Characters that a token has, more or less: blocks are measured in characters, which
            are the same for every tokenizer.
    """
    oldest, fits = len(found), 0.0
    kept = [0.0] * (len(found) + 1)
    for index in range(len(found) - 1, -1, -1):
        fits += found[index].tokens
        if fits > upper:
            break
        kept[index], oldest = fits, index
    if oldest == 0:
        return 0
    block = max(1.0, (upper - lower) * rate)
    for _ in range(_HALVINGS):
        for index in range(oldest, len(found)):
            if sizes[found[index].start] // block > sizes[found[index - 1].start] // block:
                if kept[index] >= lower / 2:
                    return index
                break
        block /= 2
    return oldest


def batches(found: Sequence[Stretch], limit: float) -> list[tuple[int, int]]:
    """Stretches put together to batches of at most ``limit`` tokens, or one longer stretch.

    Returns:
        Start and stop of each batch, as indices of messages.
    """
    bounds: list[int] = []
    total = 0.0
    for stretch in found:
        if not bounds or total + stretch.tokens > limit:
            bounds.append(stretch.start)
            total = 0.0
        total += stretch.tokens
    return list(pairwise([*bounds, found[-1].stop])) if found else []


def fingerprint(messages: Sequence[Message]) -> str:
    """A checksum of what the messages say, or said before processors rewrote them."""
    digest = blake2b(digest_size=8)
    for message in messages:
        digest.update(_said(_original(message)).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _original(message: Message) -> Message:
    # A result that is new today is shortened tomorrow, and is the same result all the same.
    before = origin_of(message)
    while before is not None:
        message, before = before, origin_of(before)
    return message


def _said(message: Message) -> str:
    match message:
        case ToolCallMessage():
            about = ""
        case ToolResultMessage(tool=tool):
            about = f"{tool.id}\x1f{tool.name}"
        case _:
            about = message.agent or ""
    return f"{message.type}\x1f{message.role}\x1f{about}\x1f{text_of(message)}\x1e"


def anchor_before(messages: Sequence[Message], stop: int) -> str:
    """By what the place before the message at ``stop`` is found again."""
    return fingerprint(messages[max(0, stop - _ANCHORED) : stop])


def find_anchor(messages: Sequence[Message], expected: int, anchor: str) -> int | None:
    """The place with this anchor: where it is expected, else the first one; None: nowhere.

    Of several places the first is the safe one: nothing is left out that nobody summarised.
    """
    if expected <= len(messages) and anchor_before(messages, expected) == anchor:
        return expected
    places = range(1, len(messages) + 1)
    return next((stop for stop in places if anchor_before(messages, stop) == anchor), None)


def next_cut(messages: Sequence[Message], index: int) -> int:
    """The first place at or after ``index`` where a list can be cut without parting a call."""
    cut = index
    while cut < len(messages) and not _may_begin(messages, cut):
        cut += 1
    if is_valid(messages[cut:]):
        return cut
    # Some result stands apart from its call: only reading all of it says what belongs together.
    starts = (segment.start for segment in segments(messages) if segment.start >= index)
    return next(starts, len(messages))


def newest_stretch(messages: Sequence[Message]) -> int:
    """Where the last stretch begins that can only stay or go as a whole."""
    return max((segment.start for segment in segments(messages)), default=0)


def _may_begin(messages: Sequence[Message], index: int) -> bool:
    """Whether the message at ``index`` is neither a result nor the middle of a model's reply."""
    return not isinstance(messages[index], ToolResultMessage) and (
        index == 0 or not is_joined(messages[index - 1], messages[index])
    )


class Places:
    """The places of a history's messages, found again after processors rewrote some.

    Without a thread, the history that a processor is given is taken for all there is.
    """

    def __init__(self, messages: Sequence[Message], context: ProcessorContext) -> None:
        self._source = context.history or messages
        self._before = context.before
        self._at: dict[int, int] = {}
        self._sizes: list[int] = []

    @property
    def total(self) -> int:
        """How many messages the thread has, and this run so far."""
        return self._before.messages + len(self._source)

    def number(self, message: Message) -> int | None:
        """How many messages of the thread stand before it; None: it is of no known place."""
        index = self._index(message)
        return None if index is None else self._before.messages + index

    def sizes(self, messages: Sequence[Message]) -> list[int]:
        """How many characters stand before each; where that is not known, as for the one before."""
        if not self._sizes:
            total = self._before.size
            for message in self._source:
                self._sizes.append(total)
                total += len(text_of(message))
        found: list[int] = []
        last = self._before.size
        for message in messages:
            index = self._index(message)
            last = last if index is None else self._sizes[index]
            found.append(last)
        return found

    def ranks(self, messages: Sequence[Message]) -> list[int]:
        """The same in messages, those that the system says not counted."""
        ranks: list[int] = []
        total = self._before.messages - self._before.system
        for message in self._source:
            ranks.append(total)
            total += message.role != "system"
        found: list[int] = []
        last = self._before.messages - self._before.system
        for message in messages:
            index = self._index(message)
            last = last if index is None else ranks[index]
            found.append(last)
        return found

    def _index(self, message: Message) -> int | None:
        if not self._at:
            self._at = {id(one): index for index, one in enumerate(self._source)}
        current: Message | None = message
        while current is not None:
            index = self._at.get(id(current))
            if index is not None:
                return index
            current = origin_of(current)
        return None
