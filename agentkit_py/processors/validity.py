"""Making calls and results whole, so that no request is refused for what a processor or hook left.

A list is valid when every call message stands together with the other calls of its reply (reasoning
may stand between them), when directly after them come the results, exactly one per call in any
order, and when there are no other results and no empty call messages. Roles, alternation and ids
are rules of single providers, and their encoders' business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

from agentkit_py.errors import ProcessorError
from agentkit_py.messages import (
    Message,
    ReasoningMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.processors.pairing import CallGroup, Key, Pairing, call_groups, key_of, pair

RepairKind: TypeAlias = Literal[
    "dropped_orphan",
    "dropped_duplicate",
    "dropped_empty",
    "answered",
    "moved_result",
    "moved_text",
]
"""What was done: a result without its call, a second result of one call, or a message without calls
was dropped; a call was answered; a result was moved up to its calls; a text was moved out from
between the calls of one reply, ahead of them."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that was done to make a list valid."""

    kind: RepairKind
    tool_call_id: str = ""
    name: str = ""
    """Name of the tool."""

    def __str__(self) -> str:
        call = f" {self.name!r} ({self.tool_call_id or 'no id'})" if self.name else ""
        return f"{self.kind}{call}"

    def to_dict(self) -> dict[str, str]:
        """As JSON, under the names of the wire (camelCase)."""
        return {"kind": self.kind, "toolCallId": self.tool_call_id, "name": self.name}


MISSING_RESULT = "MissingToolResult"
"""Name of the error in the answer to a call whose result is not in the list."""


def ensure_valid(
    messages: Sequence[Message], known: int = 0
) -> tuple[Sequence[Message], list[Repair]]:
    """Make calls and results whole.

    Args:
        messages: Everything that is to be sent, prompt included, in its order.
        known: How many messages at its beginning are known to be a valid list.

    Returns:
        The list and what was done to it. A list that is valid comes back itself, object for object.

    Raises:
        ProcessorError: Something in the list is no message.
    """
    if is_valid(messages, known):
        return messages, []
    repaired, repairs = _repair(messages)
    return (repaired, repairs) if repairs else (messages, [])


def is_valid(messages: Sequence[Message], known: int = 0) -> bool:
    """Whether calls and results are whole.

    One quick pass that says yes to valid lists only; it may say no to a valid one in which a result
    does not name its tool.

    Raises:
        ProcessorError: Something in the list is no message.
    """
    start = _end_of_whole(messages, known)
    return start == len(messages) or _may_follow(messages[start:])


def _may_follow(messages: Sequence[Message]) -> bool:
    """The same of messages in any order, where nothing was left open before."""
    scan = _Scan()
    for message in messages:
        # By far the fastest way to tell them apart, on a path that every model call takes.
        kind = type(message)
        if kind is TextMessage:
            fits = not scan.unanswered
        elif kind is ToolResultMessage:
            fits = scan.read_result(cast("ToolResultMessage", message))
        elif kind is ToolCallMessage:
            fits = scan.read_calls(cast("ToolCallMessage", message))
        elif kind is ReasoningMessage:
            fits = scan.read_reasoning()
        elif isinstance(cast("object", message), Message):
            fits = False  # of a class of somebody's own: a case for the slower reader
        else:
            raise _no_message(message)
        if not fits:
            return False
    return not scan.unanswered


def _end_of_whole(messages: Sequence[Message], index: int) -> int:
    """How far the list is of the simplest form: texts, and calls with their results in order.

    Nothing is left open there, so that whoever reads on may begin there.
    """
    end = len(messages)
    while index < end:
        message = messages[index]
        if isinstance(message, TextMessage):
            index += 1
            continue
        if not isinstance(message, ToolCallMessage):
            break
        calls = message.tools
        after = index + 1 + len(calls)
        if not calls or not all(map(_answers, messages[index + 1 : after], calls)) or after > end:
            break
        index = after
    return index


def _answers(message: Message, call: ToolCall) -> bool:
    if not isinstance(message, ToolResultMessage):
        return False
    tool = message.tool
    return tool is call or (tool.id == call.id and tool.name == call.name)


@dataclass(slots=True)
class _Scan:
    """What may come next. Each method says whether what it reads may."""

    waiting: dict[Key, int] = field(default_factory=dict[Key, int])
    unanswered: int = 0
    calls_ended: bool = False
    reasoning: bool = False
    """Reasoning came after calls that wait: only more calls may follow."""

    def read_calls(self, message: ToolCallMessage) -> bool:
        if not message.tools or (self.unanswered and self.calls_ended):
            return False
        waiting = self.waiting
        for call in message.tools:
            key = (call.id, call.name)
            waiting[key] = waiting.get(key, 0) + 1
        self.unanswered += len(message.tools)
        self.calls_ended = self.reasoning = False
        return True

    def read_result(self, message: ToolResultMessage) -> bool:
        call = message.tool
        key = (call.id, call.name)
        left = self.waiting.get(key)
        if self.reasoning or not left:
            return False
        self.waiting[key] = left - 1
        self.unanswered -= 1
        self.calls_ended = True
        return True

    def read_reasoning(self) -> bool:
        self.reasoning = self.unanswered > 0
        return not (self.reasoning and self.calls_ended)


def _no_message(value: object) -> ProcessorError:
    return ProcessorError(
        f"the list holds {type(value).__name__} {value!r:.80}, which is no message",
        processor="validity",
        level="validity",
    )


def _repair(messages: Sequence[Message]) -> tuple[list[Message], list[Repair]]:
    for message in messages:
        if not isinstance(cast("object", message), Message):
            raise _no_message(message)
    pairing = pair(messages)
    groups = {group.calls[0]: group for group in call_groups(messages, pairing)}
    grouped = {i for group in groups.values() for i in (*group.head, *group.members)}
    repaired: list[Message] = []
    repairs: list[Repair] = []
    answered: set[Key] = set()
    for index, message in enumerate(messages):
        if index in groups:
            repaired += _whole_group(messages, groups[index], pairing, repairs)
        if isinstance(message, ToolResultMessage) and index in grouped:
            answered.add(key_of(message.tool))
        elif index not in grouped:
            reason = _no_place(message, answered)
            repaired += [message] if reason is None else []
            repairs += [] if reason is None else [reason]
    return repaired, repairs


def _no_place(message: Message, answered: set[Key]) -> Repair | None:
    """Why a message that belongs to no call group has no place in a valid list; None: it has."""
    match message:
        case ToolResultMessage():
            key = key_of(message.tool)
            return Repair("dropped_duplicate" if key in answered else "dropped_orphan", *key)
        case ToolCallMessage():
            return Repair("dropped_empty")
        case TextMessage() | ReasoningMessage():
            return None


def _whole_group(
    messages: Sequence[Message], group: CallGroup, pairing: Pairing, repairs: list[Repair]
) -> list[Message]:
    """The messages of one group, put together and completed."""
    calls: list[Message] = []
    answers: list[Message] = []
    for index in (*group.head, *group.calls):
        message = messages[index]
        if isinstance(message, TextMessage):
            repairs.append(Repair("moved_text"))
        elif isinstance(message, ToolCallMessage):
            if not message.tools:
                repairs.append(Repair("dropped_empty"))
                continue
            answers += _missing_answers(message, pairing.answers[index], repairs)
        calls.append(message)
    return [*calls, *_moved_results(messages, group, repairs), *answers]


def _moved_results(
    messages: Sequence[Message], group: CallGroup, repairs: list[Repair]
) -> list[Message]:
    """The group's results; those that something else stands before are said to be moved."""
    expected = group.calls[-1] + 1
    results: list[Message] = []
    for index in group.results:
        message = cast("ToolResultMessage", messages[index])
        if index != expected:
            repairs.append(Repair("moved_result", *key_of(message.tool)))
        else:
            expected += 1
        results.append(message)
    return results


def _missing_answers(
    message: ToolCallMessage, answers: Sequence[int | None], repairs: list[Repair]
) -> list[Message]:
    """Error results for the calls of ``message`` that have none."""
    missing = [c for c, a in zip(message.tools, answers, strict=True) if a is None]
    repairs += [Repair("answered", *key_of(call)) for call in missing]
    return [_missing_answer(message, call) for call in missing]


def _missing_answer(message: ToolCallMessage, call: ToolCall) -> ToolResultMessage:
    return ToolResultMessage(
        call,
        {
            "error": {
                "name": MISSING_RESULT,
                "message": f"The result of this call of {call.name} is not available.",
            }
        },
        from_history=message.from_history,
        agent=message.agent,
    )
