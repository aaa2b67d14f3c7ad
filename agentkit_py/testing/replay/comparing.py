"""Whether a stored thread is what was recorded, and where it first differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from agentkit_py._core.json import JsonValue
from agentkit_py.messages import TextMessage, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.results import USER, AgentResult
from agentkit_py.testing.replay.recording import Conversation


def difference(conversation: Conversation, thread: Sequence[AgentResult]) -> str | None:
    """Where the thread first differs from the recording, in words; None: nowhere.

    System messages are no part of a thread, so they are not compared; message 1 is the first
    after them.
    """
    pairs = zip_longest(conversation.messages(), thread_messages(thread))
    for number, (recorded, stored) in enumerate(pairs, start=1):
        if recorded is None:
            return f"message {number} ({stored['role']}) is in the thread only"
        if stored is None:
            return f"message {number} ({recorded['role']}) is not in the thread"
        if recorded != stored:
            return f"message {number}: {_field(recorded, stored)}"
    return None


def thread_messages(thread: Sequence[AgentResult]) -> list[dict[str, Any]]:
    """The thread's messages in the form of `Conversation.messages`."""
    return [message for result in thread for message in _messages(result)]


def _messages(result: AgentResult) -> list[dict[str, Any]]:
    texts = [m.text for m in result.output if isinstance(m, TextMessage)]
    if result.agent_name == USER:
        return [{"role": "user", "content": text} for text in texts]
    calls = [c for m in result.output if isinstance(m, ToolCallMessage) for c in m.tools]
    if not texts and not calls:
        return []  # a turn that was stopped before the model was asked
    asked = {
        "role": "assistant",
        "content": "\n".join(texts) if texts else None,
        "tool_calls": [_call(call) for call in calls],
    }
    return [asked, *(_result(message) for message in result.tool_calls)]


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = call.input if call.malformed is None else call.malformed
    return {"id": call.id, "name": call.name, "arguments": arguments}


def _result(message: ToolResultMessage) -> dict[str, Any]:
    return {
        "role": "tool",
        "tool_call_id": message.tool.id,
        "name": message.tool.name,
        "content": _unwrapped(message.content),
    }


def _unwrapped(content: JsonValue) -> JsonValue:
    """What the tool returned, out of the envelope in which the engine keeps it."""
    if isinstance(content, Mapping) and list(content) == ["data"]:
        return content["data"]
    return content


def _field(recorded: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    """The first field in which two messages differ."""
    if recorded["role"] != stored["role"]:
        return f"{recorded['role']} in the recording, {stored['role']} in the thread"
    name = next(key for key in recorded if recorded[key] != stored.get(key))
    theirs, ours = f"{recorded[name]!r:.120}", f"{stored.get(name)!r:.120}"
    return f"{recorded['role']}, {name} is {theirs} in the recording, {ours} in the thread"
