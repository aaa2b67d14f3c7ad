"""Which messages belong together: calls with their results, reasoning with what it led to.

Everything here takes linear time and speaks of messages by their index, since one message object
may stand in a list more than once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentkit_py.messages import (
    Message,
    ReasoningMessage,
    TextMessage,
    ToolCallMessage,
)
from agentkit_py.processors.pairing import Pairing, pair


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
