"""Conversations of any length."""

from __future__ import annotations

from agentkit_py import AgentResult, Message, TextMessage
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage

TOOLS = ("track", "refund", "invoice", "booking", "weather")
STOPS = [{"stop": stop, "note": "on time " * 4} for stop in range(12)]


def conversation(count: int) -> list[Message]:
    """``count`` new messages: question, call, result, answer, and again."""
    made: list[Message] = []
    for number in range(-(-count // 4)):
        made += turn(number)
    return made[:count]


def turn(number: int) -> tuple[TextMessage, ToolCallMessage, ToolResultMessage, TextMessage]:
    """One question with everything that answers it."""
    call = ToolCall(f"call_{number}", TOOLS[number % len(TOOLS)], {"parcel": number})
    found = {"parcel": number, "status": "on its way", "mail": "ada@example.com"}
    answer = f"Parcel {number} has left Linz this morning and is expected in Wien tomorrow."
    return (
        TextMessage("user", f"Hello again, could you tell me where my parcel {number} is today?"),
        ToolCallMessage((call,), agent="support"),
        ToolResultMessage(call, {"data": {**found, "stops": STOPS}}, agent="support"),
        TextMessage("assistant", answer, stop_reason="stop", agent="support"),
    )


def results(count: int) -> list[AgentResult]:
    """Return the conversation as ``count`` messages of a state or thread."""
    found: list[AgentResult] = []
    for number in range(count // 4):
        question, calls, answer, text = turn(number)
        found += [
            AgentResult.from_user(question.content, id=f"user-{number}"),
            AgentResult("support", (calls,), (answer,), id=f"calls-{number}"),
            AgentResult("support", (text,), id=f"text-{number}"),
        ]
    return found
