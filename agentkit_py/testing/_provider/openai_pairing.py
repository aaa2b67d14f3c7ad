"""Rules of OpenAI chat requests for which call belongs to which result."""

from __future__ import annotations

from typing import Any, cast

from .openai_messages import messages
from .rules import OPENAI_LIKE, Inbound, Problem, rule

_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
    "'tool_call_id'. The following tool_call_ids did not have response messages: "
)
_ORPHAN = (
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
    "'tool_calls'."
)


def _ids(message: dict[str, Any]) -> list[str]:
    """Return the ids of a message's calls, empty for messages that call nothing."""
    if message["role"] != "assistant":
        return []
    return [call["id"] for call in cast("list[dict[str, Any]]", message.get("tool_calls") or [])]


@rule(*OPENAI_LIKE)
def duplicate_tool_call_id(request: Inbound) -> Problem | None:
    """The calls of one assistant message have different ids.

    Source: platform.openai.com/docs/guides/function-calling: the id is what a result is matched to,
    so two calls of one message cannot share it. Different messages may use an id again.
    """
    for index, message in enumerate(messages(request)):
        ids = _ids(message)
        if len(set(ids)) < len(ids):
            seen: set[str] = set()
            number = next(n for n, one in enumerate(ids) if one in seen or seen.add(one))
            where = f"messages[{index}].tool_calls[{number}].id"
            words = f"Invalid '{where}': duplicate tool call id '{ids[number]}'."
            return Problem(words, where, "invalid_value")
    return None


@rule(*OPENAI_LIKE)
def missing_tool_call_id(request: Inbound) -> Problem | None:
    """A tool message says which call it answers.

    Source: platform.openai.com/docs/api-reference/chat/create (tool_call_id: string, required).
    """
    for index, message in enumerate(messages(request)):
        call_id = message.get("tool_call_id")
        if message["role"] == "tool" and (not isinstance(call_id, str) or not call_id):
            where = f"messages[{index}].tool_call_id"
            words = f"Missing required parameter: '{where}'."
            return Problem(words, where, "missing_required_parameter")
    return None


@rule(*OPENAI_LIKE)
def orphan_tool_message(request: Inbound) -> Problem | None:
    """A tool message follows an assistant message with `tool_calls`, or another tool message of it.

    Source: the API's answer "messages with role 'tool' must be a response to a preceeding message
    with 'tool_calls'", e.g. github.com/langchain-ai/langchain/issues/33245.
    """
    open_group = False
    for index, message in enumerate(messages(request)):
        if message["role"] == "tool":
            if not open_group:
                return Problem(_ORPHAN, f"messages[{index}].role")
        else:
            open_group = bool(_ids(message))
    return None


@rule(*OPENAI_LIKE)
def unknown_tool_call_id(request: Inbound) -> Problem | None:
    """A tool message names a call of the assistant message that it follows.

    Source: the API's answer "Invalid parameter: 'tool_call_id' of 'x' not found in 'tool_calls' of
    previous message".
    """
    known: list[str] = []
    for index, message in enumerate(messages(request)):
        if message["role"] != "tool":
            known = _ids(message)
        elif message["tool_call_id"] not in known:
            words = (
                f"Invalid parameter: 'tool_call_id' of '{message['tool_call_id']}' not found in "
                "'tool_calls' of previous message."
            )
            return Problem(words, f"messages[{index}].tool_call_id")
    return None


@rule(*OPENAI_LIKE)
def duplicate_tool_message(request: Inbound) -> Problem | None:
    """Each call is answered once.

    Source: platform.openai.com/docs/guides/function-calling (one tool message per call); a second
    one has no call left to answer and gets the same refusal as an orphan.
    """
    answered: set[str] = set()
    for index, message in enumerate(messages(request)):
        if message["role"] != "tool":
            answered.clear()
        elif message["tool_call_id"] in answered:
            return Problem(_ORPHAN, f"messages[{index}].tool_call_id")
        else:
            answered.add(message["tool_call_id"])
    return None


@rule(*OPENAI_LIKE)
def unanswered_tool_call(request: Inbound) -> Problem | None:
    """All calls of an assistant message are answered by the tool messages right after it.

    Source: the API's answer "An assistant message with 'tool_calls' must be followed by tool
    messages responding to each 'tool_call_id'" (platform.openai.com/docs/guides/function-calling).
    """
    waiting: dict[str, int] = {}
    caller = 0
    for index, message in enumerate(messages(request)):
        if message["role"] == "tool":
            waiting.pop(message["tool_call_id"], None)
            continue
        if waiting:
            return _unanswered(waiting, caller)
        caller = index
        waiting = {call_id: number for number, call_id in enumerate(_ids(message))}
    return _unanswered(waiting, caller) if waiting else None


def _unanswered(waiting: dict[str, int], caller: int) -> Problem:
    number = next(iter(waiting.values()))
    where = f"messages[{caller}].tool_calls[{number}].id"
    return Problem(_UNANSWERED + ", ".join(waiting), where)
