"""Calls and the results that answer them: which belong together, and how calls are taken out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeAlias

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


KeepsCall: TypeAlias = Callable[[int, int], bool]
"""Gets the index of a call message and a call's place in it: whether that call stays."""

KeepsOrphan: TypeAlias = Callable[[int], bool]
"""Gets the index of a result that answers no call: whether it stays."""

InPlaceOf: TypeAlias = Callable[[CallGroup], Sequence[Message]]
"""Gets a call group: what is to stand before what is left of it."""


def without_calls(
    messages: Sequence[Message],
    keeps: KeepsCall,
    *,
    keeps_orphan: KeepsOrphan = lambda _: True,
    in_place_of: InPlaceOf | None = None,
    pairing: Pairing | None = None,
) -> Sequence[Message]:
    """The messages without the calls that do not stay, and without what belongs to these only.

    A call message that keeps some calls is made anew with these; one without calls goes.

    Args:
        messages: The history.
        keeps: Which calls stay.
        keeps_orphan: Which results stay that answer no call.
        in_place_of: What stands before each group.
        pairing: Which result answers which call, if that is known already.

    Returns:
        What is left; ``messages`` itself if that is all.
    """
    left: list[Message] | None = None
    if in_place_of is None and pairing is None:
        left = _Pass(keeps).over(messages)
    if left is None:
        removal = _Removal(messages, keeps, keeps_orphan, pairing or pair(messages))
        left = removal.run(in_place_of)
    return messages if is_same(messages, left) else left


_NO_CALLS: Sequence[ToolCall] = ()


def texts_of_whole(messages: Sequence[Message]) -> list[Message] | None:
    """The messages without any calls and results; None: that is not said so quickly.

    Each result has to stand behind its calls, which may be left without. Reasoning may lead to a
    call or to a text.
    """
    left: list[Message] = []
    waiting = _NO_CALLS
    for message in messages:
        if message.type == "text":
            left.append(message)
            waiting = _NO_CALLS
        elif message.type == "tool_call":
            waiting = [*waiting, *message.tools] if waiting else message.tools
        elif message.type != "tool_result":
            return None
        else:
            tool = message.tool
            place = 0 if waiting and waiting[0] is tool else _place_of(tool, waiting)
            if place is None:
                return None
            waiting = _without(waiting, place) if len(waiting) > 1 else _NO_CALLS
    return left


def _without(calls: Sequence[ToolCall], place: int) -> Sequence[ToolCall]:
    return [*calls[:place], *calls[place + 1 :]]


def _place_of(tool: ToolCall, waiting: Sequence[ToolCall]) -> int | None:
    """Where the call stands that a result is of."""
    for place, call in enumerate(waiting):
        if call is tool or (call.id == tool.id and call.name == tool.name):
            return place
    return None


def is_same(one: Sequence[Message], other: Sequence[Message]) -> bool:
    """Whether two lists hold the same objects."""
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def rest_of(message: ToolCallMessage, kept: Sequence[int]) -> ToolCallMessage | None:
    """What is left of a call message with only the calls at the places ``kept``."""
    if len(kept) == len(message.tools):
        return message if kept else None
    return replace(message, tools=tuple(message.tools[place] for place in kept)) if kept else None


@dataclass(slots=True)
class _Pass:
    """One quick pass, for lists in which calls and results are whole."""

    keeps: KeepsCall
    out: list[Message] = field(default_factory=list[Message])
    waiting: dict[Key, deque[bool]] = field(default_factory=dict[Key, deque[bool]])
    """For the calls of the reply that is being read: whether each stays."""

    open: int = 0
    thoughts: list[Message] = field(default_factory=list[Message])
    """Reasoning that may lead to a call."""

    head: list[Message | None] = field(default_factory=list[Message | None])
    """Calls and reasoning of the reply; None: a call message of which nothing is left."""

    def over(self, messages: Sequence[Message]) -> list[Message] | None:
        """What is left; None: calls and results are not whole."""
        out = self.out
        for index, message in enumerate(messages):
            if message.type == "text":
                if self.open:
                    return None
                if self.thoughts:
                    self._flush()
                out.append(message)
            elif message.type == "tool_call":
                if not self._call(message, index):
                    return None
            elif message.type == "tool_result":
                if not self._result(message):
                    return None
            elif self.open and not self.head:
                return None
            else:
                self.thoughts.append(message)
        self._flush()
        return None if self.open else out

    def _flush(self) -> None:
        self.out += self.thoughts
        self.thoughts.clear()

    def _call(self, message: ToolCallMessage, index: int) -> bool:
        if not message.tools or (self.open and not self.head):
            return False
        kept: list[int] = []
        for place, call in enumerate(message.tools):
            stays = self.keeps(index, place)
            self.waiting.setdefault((call.id, call.name), deque()).append(stays)
            if stays:
                kept.append(place)
        self.open += len(message.tools)
        self.head += self.thoughts
        self.thoughts.clear()
        self.head.append(rest_of(message, kept))
        return True

    def _result(self, message: ToolResultMessage) -> bool:
        call = message.tool
        found = self.waiting.get((call.id, call.name))
        if not found or self.thoughts:
            return False
        if self.head:
            self._end_calls()
        if found.popleft():
            self.out.append(message)
        self.open -= 1
        if not self.open:
            self.waiting.clear()
        return True

    def _end_calls(self) -> None:
        """The reply's calls are over; reasoning stays if it led to a call that does."""
        leads_on = False
        kept: list[Message] = []
        for message in reversed(self.head):
            if message is not None and (leads_on or message.type == "tool_call"):
                leads_on = True
                kept.append(message)
        self.out += reversed(kept)
        self.head.clear()


class _Removal:
    """The same for any list, in whatever state."""

    def __init__(
        self,
        messages: Sequence[Message],
        keeps: KeepsCall,
        keeps_orphan: KeepsOrphan,
        pairing: Pairing,
    ) -> None:
        self._messages = messages
        self._keeps = keeps
        self._keeps_orphan = keeps_orphan
        self._pairing = pairing

    def run(self, in_place_of: InPlaceOf | None) -> list[Message]:
        groups = {g.calls[0]: g for g in call_groups(self._messages, self._pairing)}
        kept: dict[int, Message | None] = {}
        for group in groups.values():
            self._read(group, kept)
        out: list[Message] = []
        for index, message in enumerate(self._messages):
            group = groups.get(index)
            if group is not None and in_place_of is not None:
                # Ahead of the group: between its calls and results it would tear them apart.
                out += in_place_of(group)
            rest = kept.get(index, message)
            if rest is not None and self._stays(index, rest):
                out.append(rest)
        return out

    def _read(self, group: CallGroup, kept: dict[int, Message | None]) -> None:
        """Note what is left of each member of a group; None: nothing."""
        leads_on = False
        for index in reversed(group.calls):
            message = self._messages[index]
            if isinstance(message, ToolCallMessage):
                places = [p for p in range(len(message.tools)) if self._keeps(index, p)]
                rest = kept[index] = rest_of(message, places)
                leads_on = leads_on or rest is not None
            elif not leads_on:
                # Reasoning goes with the calls it led to.
                kept[index] = None
        for index in group.results:
            if not self._keeps(*self._pairing.calls[index]):
                kept[index] = None

    def _stays(self, index: int, message: Message) -> bool:
        """Whether a message stays for its own sake."""
        if isinstance(message, ToolResultMessage):
            return index in self._pairing.calls or self._keeps_orphan(index)
        return not isinstance(message, ToolCallMessage) or len(message.tools) > 0
