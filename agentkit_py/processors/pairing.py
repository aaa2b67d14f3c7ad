"""Calls and the results that answer them: which belong together, and how calls are taken out.

Providers repeat tool-call ids or give none, so an id alone pairs nothing. A result answers a call
of the newest reply before it that has an open call of its id and tool; within a reply, in order.

Everything here takes linear time. Messages are named by their index, since a message object may
be in a list more than once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import is_
from typing import TypeAlias

from agentkit_py.messages import (
    Message,
    Messages,
    OpaqueMessage,
    ReasoningMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    derived,
)

CallIndex: TypeAlias = tuple[int, int]
"""Index of a call message, and index of a call in that message."""

CallKey: TypeAlias = tuple[str, str]
"""Id and tool name: the least that a call and its result have in common."""


def key_of(call: ToolCall) -> CallKey:
    """Return the id and tool name by which a call and its result are paired."""
    return (call.id, call.name)


def tools_of(message: Message) -> Sequence[str]:
    """Return the names of the tools that a message calls or answers, or whose activity it is."""
    match message:
        case ToolCallMessage():
            return [call.name for call in message.tools]
        case ToolResultMessage():
            return [message.tool.name]
        case OpaqueMessage(tool=str(name)) if name:
            return [name]
        case _:
            return []


def is_own(message: Message, tool: str, agent: str, own_tools: Container[str]) -> bool:
    """Return whether a call of a tool, or its result, is an agent's own.

    The agent made it, and has the tool. Two agents may have tools of the same name, even the same
    tool: the author decides. A message whose author is not known (seed messages, threads of other
    programs) goes by the tool's name.

    Args:
        message: The call, the result, or a hosted tool's activity.
        tool: The tool's name.
        agent: The agent's name; empty: not known, as outside of runs.
        own_tools: Names of the agent's tools.
    """
    return tool in own_tools and (not agent or message.agent in (None, agent))


@dataclass(frozen=True, slots=True)
class Pairing:
    """Calls and the results that answer them."""

    answers: dict[int, list[int | None]] = field(default_factory=dict[int, list[int | None]])
    """Index of a call message → per call, the index of its result (None: not answered)."""

    calls: dict[int, CallIndex] = field(default_factory=dict[int, CallIndex])
    """Index of a result → its call. A result that is missing here answers no call."""

    def set(self, call: CallIndex, result: int) -> None:
        """Record that the result at index ``result`` answers ``call``."""
        self.answers[call[0]][call[1]] = result
        self.calls[result] = call

    def last_answer(self, index: int) -> int:
        """Return the index of the last result of a call message, or its own if there is none."""
        return max((a for a in self.answers[index] if a is not None), default=index)


@dataclass(slots=True)
class _UnansweredCalls:
    """Calls of a reply that have the same key, and the results for them."""

    reply: int
    runs: dict[int, list[CallIndex]] = field(default_factory=dict[int, list[CallIndex]])
    """The calls, separated by texts between them."""

    size: int = 0
    results: list[int] = field(default_factory=list[int])

    def pairs(self) -> Iterator[tuple[CallIndex, int]]:
        """Yield calls with their results, in order.

        Where results are missing, a reply was cut short, so its first calls have the results; but
        calls before a text may be those of an older reply, so the calls after it come first.
        """
        left = len(self.results)
        for calls in reversed(self.runs.values()):
            taken = min(left, len(calls))
            left -= taken
            yield from zip(calls, self.results[left : left + taken], strict=False)


def pair(messages: Messages) -> Pairing:
    """Find for each call its result.

    A result without a tool name (as clients of chat formats have it) is paired by its id alone,
    with a call that no other result answers.
    """
    pairing = Pairing()
    every: list[_UnansweredCalls] = []
    newest: dict[CallKey, list[_UnansweredCalls]] = {}
    nameless: set[int] = set()
    for index, reply, run, message in _calls_and_results(messages):
        if isinstance(message, ToolCallMessage):
            pairing.answers[index] = [None] * len(message.tools)
            for number, call in enumerate(message.tools):
                stack = newest.setdefault(key_of(call), [])
                if not stack or stack[-1].reply != reply:
                    stack.append(_UnansweredCalls(reply))
                    every.append(stack[-1])
                stack[-1].runs.setdefault(run, []).append((index, number))
                stack[-1].size += 1
        elif not _answer(newest.get(key_of(message.tool)), index) and not message.tool.name:
            nameless.add(index)
    for calls in every:
        for call, result in calls.pairs():
            pairing.set(call, result)
    if nameless:
        _pair_by_id(messages, pairing, nameless)
    return pairing


def _answer(stack: list[_UnansweredCalls] | None, result: int) -> bool:
    """Give a result to the newest calls of its key that still wait for a result."""
    while stack:
        if len(stack[-1].results) < stack[-1].size:
            stack[-1].results.append(result)
            return True
        stack.pop()
    return False


def _pair_by_id(messages: Messages, pairing: Pairing, nameless: set[int]) -> None:
    """Pair the results in ``nameless`` with calls that are still open, the newest reply's first."""
    replies: dict[str, list[tuple[int, deque[CallIndex]]]] = {}
    for index, reply, _, message in _calls_and_results(messages):
        if isinstance(message, ToolCallMessage):
            for number, call in enumerate(message.tools):
                if pairing.answers[index][number] is None:
                    stack = replies.setdefault(call.id, [])
                    if not stack or stack[-1][0] != reply:
                        stack.append((reply, deque()))
                    stack[-1][1].append((index, number))
        elif index in nameless and (stack := replies.get(message.tool.id)):
            pairing.set(stack[-1][1].popleft(), index)
            if not stack[-1][1]:
                stack.pop()


def _calls_and_results(
    messages: Messages,
) -> Iterator[tuple[int, int, int, ToolCallMessage | ToolResultMessage]]:
    """Yield calls and results with their index and numbers of reply and run.

    A reply ends with a result or another's text, a run with any text.
    """
    reply = run = 0
    for index, message in enumerate(messages):
        if isinstance(message, ToolCallMessage):
            yield index, reply, run, message
        elif isinstance(message, ToolResultMessage):
            reply += 1
            yield index, reply, run, message
        elif isinstance(message, TextMessage):
            run += 1
            reply += message.role != "assistant"


@dataclass(frozen=True, slots=True)
class CallGroup:
    """The calls of a reply with all their results, as indices."""

    calls: tuple[int, ...]
    """The reply from its first call on: calls, the reasoning before them, and its other words
    between them and their results."""

    results: tuple[int, ...]
    """Results, in their order."""

    @property
    def members(self) -> tuple[int, ...]:
        """The reply and the results."""
        return self.calls + self.results


def call_groups(messages: Messages, pairing: Pairing | None = None) -> list[CallGroup]:
    """Return the call groups of a list in order; each call and each answer is in a single group.

    Call messages belong to a group if nothing is between them but reasoning, or texts and
    opaque blocks of the model while a call before is still waiting for its result: then all came in
    the same reply. Messages without calls neither begin nor separate groups.
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


def _read_group(messages: Messages, first: int, pairing: Pairing) -> tuple[CallGroup, int]:
    """Return the group whose calls begin at ``first``, and the index after its calls."""
    start = first
    while start > 0 and isinstance(messages[start - 1], ReasoningMessage):
        start -= 1
    end = _end_of_reply(messages, first, pairing)
    calls = range(start, end)
    results = sorted(
        answer for i in calls for answer in pairing.answers.get(i, ()) if answer is not None
    )
    return CallGroup(tuple(calls), tuple(results)), end


def _end_of_reply(messages: Messages, first: int, pairing: Pairing) -> int:
    """Return the index after the reply that has its first call at ``first``."""
    end, reach = first + 1, pairing.last_answer(first)
    parted = False
    for index in range(first + 1, len(messages)):
        match messages[index]:
            case ToolCallMessage() as message if message.tools:
                if parted and reach <= index:
                    break
                end, parted = index + 1, False
                reach = max(reach, pairing.last_answer(index))
            case ToolCallMessage() | ReasoningMessage():
                continue
            case TextMessage(role="assistant") | OpaqueMessage():
                parted = True
                end = index + 1 if reach > index else end
            case _:
                break
    return end


KeepsCall: TypeAlias = Callable[[int, int], bool]
"""Gets the index of a call message and of a call in it; returns whether that call stays."""

InPlaceOf: TypeAlias = Callable[[CallGroup], Messages]
"""Gets a call group; returns the message to put before the rest of the group."""


def without_calls(
    messages: Messages,
    keeps: KeepsCall,
    *,
    keeps_orphan: Callable[[int], bool] = lambda _: True,
    keeps_hosted: Callable[[int], bool] = lambda _: True,
    in_place_of: InPlaceOf | None = None,
    pairing: Pairing | None = None,
    held: frozenset[int] = frozenset(),
) -> Messages:
    """Return the messages without the calls that do not stay, their results and their reasoning.

    A call message that keeps some calls becomes a new message; without calls it is removed.

    Args:
        messages: The history.
        keeps: Which calls stay.
        keeps_orphan: Whether the result at an index stays that answers no call.
        keeps_hosted: Whether the activity of a hosted tool at an index stays.
        in_place_of: The message before each group.
        pairing: Which result answers which call, if that is known already.
        held: `id()` of messages that stay in any case. From the last message on that may go nothing
            is read: a long run's own calls are not paired before each model call.

    Returns:
        What is left; ``messages`` itself if that is all.
    """
    whole = messages
    end = len(messages)
    while end and (id(messages[end - 1]) in held or isinstance(messages[end - 1], TextMessage)):
        end -= 1
    messages, tail = messages[:end], messages[end:]
    pairing = pairing or pair(messages)
    groups = {e.calls[0]: e for e in call_groups(messages, pairing)}
    rests: dict[int, Message | None] = {}
    for group in groups.values():
        rests |= _rests_of(group, messages, keeps, keeps_hosted, pairing)
    left: list[Message] = []
    for index, message in enumerate(messages):
        if index in groups and in_place_of is not None:
            # Before the group: between its calls and results it would tear them apart.
            left += in_place_of(groups[index])
        rest = rests.get(index, message)
        if isinstance(rest, ToolResultMessage):
            stays = index in pairing.calls or keeps_orphan(index)
        elif isinstance(rest, OpaqueMessage):
            stays = not rest.tool or keeps_hosted(index)
        else:
            stays = not isinstance(rest, ToolCallMessage) or len(rest.tools) > 0
        if rest is not None and stays:
            left.append(rest)
    return whole if is_same(messages, left) else [*left, *tail]


def _rests_of(
    group: CallGroup,
    messages: Messages,
    keeps: KeepsCall,
    keeps_hosted: Callable[[int], bool],
    pairing: Pairing,
) -> dict[int, Message | None]:
    """Return the rest of each member of a group; None: nothing is left."""
    rests: dict[int, Message | None] = {}
    leads_on = False
    for index in reversed(group.calls):
        message = messages[index]
        if isinstance(message, OpaqueMessage) and message.tool and not keeps_hosted(index):
            rests[index] = None
        elif isinstance(message, TextMessage | OpaqueMessage):
            leads_on = True  # the reply's words stay, and the reasoning before them
        elif isinstance(message, ToolCallMessage):
            kept = [number for number in range(len(message.tools)) if keeps(index, number)]
            rests[index] = _with_calls(message, kept) if kept else None
            leads_on = leads_on or len(kept) > 0
        elif not leads_on:
            rests[index] = None  # reasoning goes with the calls it led to
    rests |= {index: None for index in group.results if not keeps(*pairing.calls[index])}
    return rests


def _with_calls(message: ToolCallMessage, kept: Sequence[int]) -> ToolCallMessage:
    """Return a call message with only the calls at the indices ``kept``."""
    if len(kept) == len(message.tools):
        return message
    tools = tuple(message.tools[number] for number in kept)
    made = derived(message, ("calls", *kept), partial(replace, message, tools=tools))
    assert isinstance(made, ToolCallMessage)
    return made


def is_same(one: Messages, other: Messages) -> bool:
    """Return whether two lists hold the same objects."""
    return len(one) == len(other) and all(map(is_, one, other))


def rewritten(messages: Messages, rewrites: Mapping[int, Message]) -> Messages:
    """Return the messages with those at some indices replaced; ``messages`` itself if none is."""
    changed = {i: m for i, m in rewrites.items() if m is not messages[i]}
    return [changed.get(i, m) for i, m in enumerate(messages)] if changed else messages
