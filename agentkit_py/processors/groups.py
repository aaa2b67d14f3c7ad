"""Which call a result answers, and which messages belong together.

Providers repeat tool-call ids or give none, so an id alone pairs nothing. A result answers a call
of the newest reply before it that has an open call of its id and tool; within a reply, in order.

Everything here takes linear time and speaks of messages by their index, since one message object
may stand in a list more than once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from agentkit_py.messages import (
    Message,
    ReasoningMessage,
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

    def last_answer(self, index: int) -> int:
        """Index of the last result of the call message at ``index``; ``index`` if there is none."""
        return max((a for a in self.answers[index] if a is not None), default=index)


@dataclass(frozen=True, slots=True)
class CallGroup:
    """The calls of one reply with all their results, as indices."""

    head: tuple[int, ...]
    """Texts of the same reply that stand between its calls (with the reasoning before them)."""

    calls: tuple[int, ...]
    """Call messages, and the reasoning directly before them."""

    results: tuple[int, ...]
    """Results, in the order they stand in."""

    @property
    def members(self) -> tuple[int, ...]:
        """Calls with their reasoning, and results."""
        return self.calls + self.results


def key_of(call: ToolCall) -> Key:
    """By what a call and its result are paired, together with their positions."""
    return (call.id, call.name)


def pair(messages: Sequence[Message]) -> Pairing:
    """Find for each call its result.

    A result without a tool name (as clients of chat formats have it) is paired by its id alone, with
    a call that no other result answers.
    """
    calls = _OpenCalls()
    reply = run = 0
    nameless: list[int] = []
    answers: dict[int, list[int | None]] = {}
    for index, message in enumerate(messages):
        match message:
            case ToolCallMessage():
                answers[index] = [None] * len(message.tools)
                for place, call in enumerate(message.tools):
                    calls.add(call, (index, place), reply, run)
            case ToolResultMessage():
                reply += 1
                if not calls.answer(message.tool, index) and not message.tool.name:
                    nameless.append(index)
            case TextMessage():
                run += 1
                reply += message.role != "assistant"
            case _:
                pass
    pairing = Pairing(answers)
    for (index, place), result in calls.pairs():
        answers[index][place] = result
        pairing.calls[result] = (index, place)
    if nameless:
        _pair_by_id(messages, pairing, frozenset(nameless))
    return pairing


def _pair_by_id(messages: Sequence[Message], pairing: Pairing, nameless: frozenset[int]) -> None:
    """Pair the results in ``nameless`` with calls that are still open: the newest reply's first."""
    reply = 0
    replies: dict[str, list[tuple[int, deque[Slot]]]] = {}
    for index, message in enumerate(messages):
        match message:
            case ToolCallMessage():
                for place, call in enumerate(message.tools):
                    if pairing.answers[index][place] is None:
                        _push(replies.setdefault(call.id, []), reply, (index, place))
            case ToolResultMessage():
                reply += 1
                stack = replies.get(message.tool.id)
                if stack and index in nameless:
                    slot = pairing.calls[index] = stack[-1][1].popleft()
                    pairing.answers[slot[0]][slot[1]] = index
                    if not stack[-1][1]:
                        stack.pop()
            case TextMessage():
                reply += message.role != "assistant"
            case _:
                pass


def _push(stack: list[tuple[int, deque[Slot]]], reply: int, slot: Slot) -> None:
    if not stack or stack[-1][0] != reply:
        stack.append((reply, deque()))
    stack[-1][1].append(slot)


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

    def add(self, call: ToolCall, slot: Slot, reply: int, run: int) -> None:
        stack = self._by_key.setdefault(key_of(call), [])
        if not stack or stack[-1].reply != reply:
            bucket = _Bucket(reply)
            stack.append(bucket)
            self._buckets.append(bucket)
        stack[-1].add(slot, run)

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


def call_groups(messages: Sequence[Message], pairing: Pairing | None = None) -> list[CallGroup]:
    """The call groups of a list, in order; each call and each answered call's result is in one.

    Call messages belong to one group if nothing stands between them but reasoning, or texts of the
    model while a call before is still waiting for its result: then all came in one reply. Messages
    without calls begin no group and part none.
    """
    pairing = pair(messages) if pairing is None else pairing
    groups: list[CallGroup] = []
    index = 0
    while index < len(messages):
        message = messages[index]
        if isinstance(message, ToolCallMessage) and message.tools:
            group, index = _read_group(messages, index, pairing)
            groups.append(group)
        else:
            index += 1
    return groups


def _read_group(messages: Sequence[Message], first: int, pairing: Pairing) -> tuple[CallGroup, int]:
    """The group whose first call message stands at ``first``, and the index after its calls."""
    head: list[int] = []
    calls = [*_reasoning_before(messages, first), first]
    reach = pairing.last_answer(first)
    last = first
    while (following := _next_call(messages, last, reach)) is not None:
        texts = [i for i in range(last + 1, following) if isinstance(messages[i], TextMessage)]
        split = texts[-1] + 1 if texts else last + 1
        head.extend(range(last + 1, split))
        calls.extend(range(split, following + 1))
        reach = max(reach, pairing.last_answer(following))
        last = following
    results = sorted(
        answer for i in calls for answer in pairing.answers.get(i, ()) if answer is not None
    )
    return CallGroup(tuple(head), tuple(calls), tuple(results)), last + 1


def _next_call(messages: Sequence[Message], last: int, reach: int) -> int | None:
    """Index of the next call message of the same reply, if there is one."""
    has_text = False
    for index in range(last + 1, len(messages)):
        match messages[index]:
            case ToolCallMessage() as message if message.tools:
                return index if not has_text or reach > index else None
            case ToolCallMessage() | ReasoningMessage():
                continue
            case TextMessage(role="assistant"):
                has_text = True
            case _:
                return None
    return None


def _reasoning_before(messages: Sequence[Message], index: int) -> list[int]:
    start = index
    while start > 0 and isinstance(messages[start - 1], ReasoningMessage):
        start -= 1
    return list(range(start, index))


def segments(messages: Sequence[Message], pairing: Pairing | None = None) -> Iterator[range]:
    """Cut a list into the shortest stretches that have no call apart from its result.

    A text is a stretch of its own, with the reasoning before it; calls stretch to their last
    result, with what stands between. An unanswered call stretches over itself only.

    Yields:
        Ranges of indices that cover the list in order.
    """
    pairing = pair(messages) if pairing is None else pairing
    start = 0
    reach = -1
    for index, message in enumerate(messages):
        if index > max(start, reach) and not is_joined(messages[index - 1], message):
            yield range(start, index)
            start = index
        if isinstance(message, ToolCallMessage):
            reach = max(reach, pairing.last_answer(index))
    if messages:
        yield range(start, len(messages))


def is_joined(before: Message, message: Message) -> bool:
    """Whether ``message`` may not be cut off from the one directly before it."""
    match before:
        case ReasoningMessage():
            return isinstance(message, ToolCallMessage | ReasoningMessage) or (
                isinstance(message, TextMessage) and message.role == "assistant"
            )
        case ToolCallMessage():
            return isinstance(message, ToolCallMessage)
        case _:
            return False
