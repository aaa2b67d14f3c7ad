"""Taking calls out of a history: their results go with them, and the reasoning that led to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from agentkit_py.messages import Message, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors.groups import CallGroup, call_groups
from agentkit_py.processors.pairing import Key, Pairing, pair

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
