"""Assembles prompts and history in the model's order. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from agentkit_py.messages import Message, TextMessage

HistoryMode: TypeAlias = Literal["chronological", "typescript"]
"""The order of prompt and history; see `join_history`."""


_USUAL = ["system", "user"]


def assemble(
    system: str, user: TextMessage | None, assistant: str = "", *, addition: str | None = None
) -> tuple[Message, ...]:
    """The prompt: ``[system, user input?, assistant prefill?]``.

    Args:
        system: The agent's system prompt.
        user: The user's message; left out when empty.
        assistant: The beginning of the answer; left out when empty.
        addition: What the client wants added to the system prompt.
    """
    whole = f"{system}\n\n{addition}" if addition else system
    found: list[Message] = [TextMessage("system", whole)]
    if user is not None:
        found.append(user)
    if assistant:
        found.append(TextMessage("assistant", assistant))
    return tuple(found)


def join_history(
    prompt: Sequence[Message], history: Sequence[Message], mode: HistoryMode = "chronological"
) -> tuple[tuple[Message, ...], int]:
    """Prompt and history in a list, and how many messages at its end are prefill.

    Chronological: the prompt's leading system messages, history from before this run, the rest of
    the prompt, history of this run, the prompt's trailing assistant messages. TypeScript: the
    prompt, then all history.
    """
    if mode == "typescript":
        return (*prompt, *history), 0 if history else _trailing_assistant(prompt)
    if [message.role for message in prompt] == _USUAL:
        leading, prefill = 1, 0
    else:
        leading = _leading_system(prompt)
        prefill = _trailing_assistant(prompt[leading:])
    end = len(prompt) - prefill
    past, present = split_sides(history)
    joined = (*prompt[:leading], *past, *prompt[leading:end], *present, *prompt[end:])
    return joined, prefill


def split_sides(history: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """History from before this run, and of this run, each in its own order.

    A message that does not say which side it is on takes that of the message before it; a list
    that begins so begins in the past.
    """
    # Lists, not generators, which would be resumed for each message of the thread.
    sides = [m.from_history for m in history]
    if False not in sides:
        return history, ()
    first = sides.index(False)
    if True not in sides[first:]:
        return history[:first], history[first:]
    past: list[Message] = []
    present: list[Message] = []
    side = past
    for message in history:
        if message.from_history is not None:
            side = past if message.from_history else present
        side.append(message)
    return past, present


def _leading_system(prompt: Sequence[Message]) -> int:
    for index, message in enumerate(prompt):
        if message.role != "system":
            return index
    return len(prompt)


def _trailing_assistant(prompt: Sequence[Message]) -> int:
    count = 0
    for message in reversed(prompt):
        if not (isinstance(message, TextMessage) and message.role == "assistant"):
            break
        count += 1
    return count
