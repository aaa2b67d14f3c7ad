"""Repair of calls and results, so that no request is refused after a processor or hook.

A list is valid if the call messages of a reply are together (other parts of the reply may be
between and after them), if the results follow directly, exactly one per call in any order, and if
there are no other results and no empty call messages. Roles, alternation and ids are rules of
single providers, which their encoders apply.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

from agentkit_py.errors import ProcessorError
from agentkit_py.messages import (
    Message,
    Messages,
    OpaqueMessage,
    ReasoningMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.processors.pairing import (
    CallGroup,
    CallKey,
    Pairing,
    call_groups,
    key_of,
    pair,
)

RepairKind: TypeAlias = Literal[
    "dropped_orphan",
    "dropped_duplicate",
    "dropped_empty",
    "answered",
    "moved_result",
]
"""A result without its call, a second result of a call, or a message without calls
was dropped; a call was answered; a result was moved up to its calls."""


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
        """Return it as JSON, under the names of the wire (camelCase)."""
        return {"kind": self.kind, "toolCallId": self.tool_call_id, "name": self.name}


MISSING_RESULT = "MissingToolResult"
"""Name of the error in the answer to a call whose result is not in the list."""


def ensure_valid(messages: Messages, known: int = 0) -> tuple[Messages, list[Repair]]:
    """Make calls and results whole.

    Args:
        messages: All messages of the request, prompt included, in order.
        known: How many messages at its beginning are known to be a valid list.

    Returns:
        The list and its repairs. A valid list is returned unchanged, object for object.

    Raises:
        ProcessorError: An item of the list is not a message.
    """
    if is_valid(messages[known:] if known else messages):
        return messages, []
    repaired, repairs = _repair(messages)
    return (repaired, repairs) if repairs else (messages, [])


def is_valid(messages: Messages) -> bool:
    """Return whether calls and results are whole.

    False may be returned for a valid list in which a result does not name its tool.

    Raises:
        ProcessorError: An item of the list is not a message.
    """
    if {*map(type, messages)} <= _TEXTS:
        return True
    scan = _Scan()
    for message in messages:
        if isinstance(message, (TextMessage, OpaqueMessage)):
            fits = scan.read_text(message.role)
        elif isinstance(message, ToolResultMessage):
            fits = scan.read_result(message)
        elif isinstance(message, ToolCallMessage):
            fits = scan.read_calls(message)
        elif isinstance(message, ReasoningMessage):
            fits = scan.read_reasoning()
        else:
            raise _no_message(message)
        if not fits:
            return False
    return not scan.unanswered


_TEXTS = {TextMessage, OpaqueMessage}


@dataclass(slots=True)
class _Scan:
    """Calls that wait for results. Each method returns whether its message may come next."""

    waiting: dict[CallKey, int] = field(default_factory=dict[CallKey, int])
    unanswered: int = 0
    calls_ended: bool = False
    reasoning: bool = False
    """Reasoning came after calls that wait: only more calls may follow."""

    def read_calls(self, message: ToolCallMessage) -> bool:
        if not message.tools or (self.unanswered and self.calls_ended):
            return False
        for key in map(key_of, message.tools):
            self.waiting[key] = self.waiting.get(key, 0) + 1
        self.unanswered += len(message.tools)
        self.calls_ended = self.reasoning = False
        return True

    def read_result(self, message: ToolResultMessage) -> bool:
        key = key_of(message.tool)
        if self.reasoning or not self.waiting.get(key):
            return False
        self.waiting[key] -= 1
        self.unanswered -= 1
        self.calls_ended = True
        return True

    def read_text(self, role: str) -> bool:
        # In a reply the model says more after calls; a list that ends there is not whole.
        self.reasoning = False
        return not self.unanswered or (role == "assistant" and not self.calls_ended)

    def read_reasoning(self) -> bool:
        self.reasoning = self.unanswered > 0
        return not (self.reasoning and self.calls_ended)


def _no_message(value: object) -> ProcessorError:
    return ProcessorError(
        f"the list holds {type(value).__name__} {value!r:.80}, which is not a message",
        processor="validity",
        level="validity",
    )


def _repair(messages: Messages) -> tuple[list[Message], list[Repair]]:
    for message in messages:
        if not isinstance(cast("object", message), Message):
            raise _no_message(message)
    pairing = pair(messages)
    groups = {group.calls[0]: group for group in call_groups(messages, pairing)}
    members = {i for e in groups.values() for i in e.members}
    repaired: list[Message] = []
    repairs: list[Repair] = []
    answered: set[CallKey] = set()
    for index, message in enumerate(messages):
        if index in groups:
            repaired += _whole_exchange(messages, groups[index], pairing, repairs)
        if isinstance(message, ToolResultMessage) and index in members:
            answered.add(key_of(message.tool))
        elif index not in members:
            reason = _why_dropped(message, answered)
            repaired += [message] if reason is None else []
            repairs += [] if reason is None else [reason]
    return repaired, repairs


def _why_dropped(message: Message, answered: set[CallKey]) -> Repair | None:
    """Return why a message that belongs to no group has no place in a valid list."""
    match message:
        case ToolResultMessage():
            key = key_of(message.tool)
            return Repair("dropped_duplicate" if key in answered else "dropped_orphan", *key)
        case ToolCallMessage():
            return Repair("dropped_empty")
        case TextMessage() | ReasoningMessage() | OpaqueMessage():
            return None


def _whole_exchange(
    messages: Messages, group: CallGroup, pairing: Pairing, repairs: list[Repair]
) -> list[Message]:
    """Return the messages of a group, joined and completed."""
    calls: list[Message] = []
    answers: list[Message] = []
    for index in group.calls:
        message = messages[index]
        if isinstance(message, ToolCallMessage):
            if not message.tools:
                repairs.append(Repair("dropped_empty"))
                continue
            for call, answer in zip(message.tools, pairing.answers[index], strict=True):
                if answer is None:
                    repairs.append(Repair("answered", *key_of(call)))
                    answers.append(_missing_answer(message, call))
        calls.append(message)
    expected = group.calls[-1] + 1
    for index in group.results:
        message = cast("ToolResultMessage", messages[index])
        if index == expected:
            expected += 1
        else:
            repairs.append(Repair("moved_result", *key_of(message.tool)))
        calls.append(message)
    return [*calls, *answers]


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
