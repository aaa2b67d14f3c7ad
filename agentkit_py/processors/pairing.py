"""Which call a result answers.

Providers repeat tool-call ids or give none, so an id alone pairs nothing. A result answers a call
of the newest reply before it that has an open call of its id and tool; within a reply, in order.

Messages are spoken of by their index, since one message object may stand in a list more than once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from agentkit_py.messages import (
    Message,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)

Slot: TypeAlias = tuple[int, int]
"""One call: index of its message, and its place among that message's calls."""

Key: TypeAlias = tuple[str, str]
"""Id and tool name: the least that a call and its result have in common."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """Calls and the results that answer them."""

    answers: dict[int, list[int | None]] = field(default_factory=dict[int, list[int | None]])
    """Index of a call message → per call, the index of its result (None: not answered)."""

    calls: dict[int, Slot] = field(default_factory=dict[int, Slot])
    """Index of a result → its call. A result that is missing here answers no call."""

    def set(self, slot: Slot, result: int) -> None:
        """Note that the result at index ``result`` answers ``slot``."""
        self.answers[slot[0]][slot[1]] = result
        self.calls[result] = slot

    def last_answer(self, index: int) -> int:
        """Index of the last result of the call message at ``index``; ``index`` if there is none."""
        return max((a for a in self.answers[index] if a is not None), default=index)


def key_of(call: ToolCall) -> Key:
    """By what a call and its result are paired, together with their positions."""
    return (call.id, call.name)


def pair(messages: Sequence[Message]) -> Pairing:
    """Find for each call its result.

    A result without a tool name (as clients of chat formats have it) is paired by its id alone,
    with a call that no other result answers.
    """
    pairing = pair_adjacent(messages)
    if pairing is not None:
        return pairing
    calls = _OpenCalls()
    pairing = Pairing()
    nameless: set[int] = set()
    for at, message in _exchanges(messages):
        if isinstance(message, ToolCallMessage):
            pairing.answers[at.position] = [None] * len(message.tools)
            for place, call in enumerate(message.tools):
                calls.add(call, (at.position, place), at)
        elif not calls.answer(message.tool, at.position) and not message.tool.name:
            nameless.add(at.position)
    for slot, result in calls.pairs():
        pairing.set(slot, result)
    if nameless:
        _pair_by_id(messages, pairing, nameless)
    return pairing


def pair_adjacent(messages: Sequence[Message]) -> Pairing | None:
    """The pairs of a list in which all results stand directly behind their calls; None: not so.

    Calls may be left without a result: no later result can be theirs, since each answers a call of
    the reply right before it, which is the newest.
    """
    pairing = Pairing()
    waiting: dict[Key, deque[Slot]] = {}
    left = 0
    answering = False
    for index, message in enumerate(messages):
        if left and (answering or message.type == "text") and message.type != "tool_result":
            waiting.clear()
            left = 0
        if message.type == "tool_call":
            answering = False
            pairing.answers[index] = [None] * len(message.tools)
            for place, call in enumerate(message.tools):
                waiting.setdefault((call.id, call.name), deque()).append((index, place))
            left += len(message.tools)
        elif message.type == "tool_result":
            slots = waiting.get((message.tool.id, message.tool.name))
            if not slots:
                return None
            pairing.set(slots.popleft(), index)
            left -= 1
            answering = True
    return pairing


def _pair_by_id(messages: Sequence[Message], pairing: Pairing, nameless: set[int]) -> None:
    """Pair the results in ``nameless`` with calls that are open still, the newest reply's first."""
    replies: dict[str, list[tuple[int, deque[Slot]]]] = {}
    for at, message in _exchanges(messages):
        if isinstance(message, ToolCallMessage):
            for place, call in enumerate(message.tools):
                if pairing.answers[at.position][place] is None:
                    _push(replies.setdefault(call.id, []), at.reply, (at.position, place))
        elif at.position in nameless and (stack := replies.get(message.tool.id)):
            pairing.set(stack[-1][1].popleft(), at.position)
            if not stack[-1][1]:
                stack.pop()


def _push(stack: list[tuple[int, deque[Slot]]], reply: int, slot: Slot) -> None:
    if not stack or stack[-1][0] != reply:
        stack.append((reply, deque()))
    stack[-1][1].append(slot)


class _At(NamedTuple):
    """Where a message stands."""

    position: int
    reply: int
    """Counts stretches without a result or another's text in between."""

    run: int
    """Counts stretches without any text in between."""


def _exchanges(
    messages: Sequence[Message],
) -> Iterator[tuple[_At, ToolCallMessage | ToolResultMessage]]:
    """The calls and results of a list, with their places."""
    reply = run = 0
    for index, message in enumerate(messages):
        match message:
            case ToolCallMessage():
                yield _At(index, reply, run), message
            case ToolResultMessage():
                reply += 1
                yield _At(index, reply, run), message
            case TextMessage():
                run += 1
                reply += message.role != "assistant"
            case _:
                pass


@dataclass(slots=True)
class _Bucket:
    """The calls of one reply that have the same id and tool, and the results for them."""

    reply: int
    runs: list[tuple[int, list[Slot]]] = field(default_factory=list[tuple[int, list[Slot]]])
    """The calls, apart where a text stands between them."""

    size: int = 0
    results: list[int] = field(default_factory=list[int])

    def add(self, slot: Slot, run: int) -> None:
        if not self.runs or self.runs[-1][0] != run:
            self.runs.append((run, []))
        self.runs[-1][1].append(slot)
        self.size += 1

    def pairs(self) -> Iterator[tuple[Slot, int]]:
        """Calls with their results, in order.

        Where results are missing, a reply was cut short, so its first calls have the results; but
        calls before a text may be those of an older reply, so the calls after it come first.
        """
        left = len(self.results)
        for _, slots in reversed(self.runs):
            taken = min(left, len(slots))
            left -= taken
            yield from zip(slots, self.results[left : left + taken], strict=False)


class _OpenCalls:
    """The calls that may still be answered, the newest reply's on top."""

    def __init__(self) -> None:
        self._buckets: list[_Bucket] = []
        self._by_key: dict[Key, list[_Bucket]] = {}

    def add(self, call: ToolCall, slot: Slot, at: _At) -> None:
        stack = self._by_key.setdefault(key_of(call), [])
        if not stack or stack[-1].reply != at.reply:
            bucket = _Bucket(at.reply)
            stack.append(bucket)
            self._buckets.append(bucket)
        stack[-1].add(slot, at.run)

    def answer(self, tool: ToolCall, index: int) -> bool:
        """Give the result at ``index`` to an open call of its id and tool, if there is one."""
        stack = self._by_key.get(key_of(tool))
        while stack:
            bucket = stack[-1]
            if len(bucket.results) < bucket.size:
                bucket.results.append(index)
                return True
            stack.pop()
        return False

    def pairs(self) -> Iterator[tuple[Slot, int]]:
        for bucket in self._buckets:
            yield from bucket.pairs()
