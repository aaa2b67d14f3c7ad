"""The words of staff, and of users beside them, as models read them.

A provider's request has users and assistants, and no third. A person of the staff is neither, so
what they wrote is a user's turn in a ``<staff>`` element with their name; a note for agents says
so. Users cannot write such an element: in their texts its ``<`` is escaped. Each message becomes
what it becomes by itself, so that requests begin alike for ever.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import overload

from agentkit_py.messages import Message, TextContent, TextMessage, derived
from agentkit_py.results import USER, AgentResult, StaffAuthor

_ELEMENT = re.compile(r"<(?=\s*+(?:/\s*+)?staff)", re.IGNORECASE)


def read_by_models(entry: AgentResult) -> Sequence[Message]:
    """Return the messages of an entry as models read them."""
    if entry.staff is not None:
        said = partial(_of_staff, entry.staff)
        return [derived(m, ("staff", entry.staff), partial(said, m)) for m in entry.output]
    if entry.agent_name == USER:
        return [users_words(message) for message in entry.output]
    return (*entry.output, *entry.tool_calls)


def _of_staff(author: StaffAuthor, message: Message) -> Message:
    assert isinstance(message, TextMessage)
    to = "" if author.to == "user" else ' to="agents"'
    text = f'<staff name="{author.name}"{to}>\n{_escaped(message.text)}\n</staff>'
    return TextMessage("user", text, from_history=message.from_history)


@overload
def users_words(message: TextMessage) -> TextMessage: ...
@overload
def users_words(message: Message) -> Message: ...
def users_words(message: Message) -> Message:
    """Return a user's message without what would look like the words of staff."""
    if not isinstance(message, TextMessage) or message.role != "user":
        return message
    return derived(message, "user's words", partial(_of_user, message))


def _of_user(message: TextMessage) -> TextMessage:
    if isinstance(message.content, str):
        text = _escaped(message.content)
        return message if text == message.content else replace(message, content=text)
    parts = tuple(
        replace(part, text=_escaped(part.text)) if isinstance(part, TextContent) else part
        for part in message.content
    )
    return message if parts == tuple(message.content) else replace(message, content=parts)


def _escaped(text: str) -> str:
    return _ELEMENT.sub("&lt;", text) if "<" in text else text
