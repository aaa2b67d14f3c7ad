"""Conversations as wire formats write them, each message once for all requests of a run.

An encoder reads a conversation as texts, reasoning, and groups of `ToolExchange`s that no format
can take apart; calls get ids that every provider accepts.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from itertools import compress
from operator import is_not
from typing import Any, ClassVar, Self, TypeAlias, TypeVar, cast

from agentkit_py._core.json import Growing, JsonValue, as_object, dumps
from agentkit_py.messages import (
    Message,
    OpaqueMessage,
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    may_hold_media,
    result_parts,
)
from agentkit_py.models.base import Model, ModelRequest
from agentkit_py.models.binding import Standing, digest_of
from agentkit_py.models.blocks import host_of
from agentkit_py.models.claude_results import claude_blocks, may_hold_blocks
from agentkit_py.models.encoding import (
    OPENING_TURN,
    ToolExchange,
    closing_turn,
    encodable,
    words_for,
)

NO_RESULT = "No result."
"""Result of a call that has none. The engine never sends it; encoders stay total."""

_MAX_ID = 40  # OpenAI's limit for tool_call_id; Anthropic's pattern is stricter.
_ID = re.compile(rf"[a-zA-Z0-9_-]{{1,{_MAX_ID}}}")
_NOT_IN_IDS = re.compile(r"[^a-zA-Z0-9_-]")

Said: TypeAlias = TextMessage | ReasoningMessage | OpaqueMessage
"""A message that is not a tool's."""

HistoryItem: TypeAlias = "Said | list[Said | ToolExchange]"
"""A part of a conversation: a message, or a reply from its first call on, with the results."""


def _entries(messages: Sequence[Message], ids: _UniqueIds) -> list[HistoryItem]:
    """Return the conversation with the calls of each reply as tool exchanges.

    A model's texts keep their places between its calls or after them. A result
    without a call cannot be sent anywhere and is left out; valid histories have none.
    """
    found: list[HistoryItem] = []
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        if isinstance(message, ToolCallMessage):
            end = _end_of_group(messages, index)
            if group := _group(messages[index - 1 : end], ids):
                found.append(group)
            index = end
        elif not isinstance(message, ToolResultMessage):
            found.append(message)
    return found


def _group(messages: Sequence[Message], ids: _UniqueIds) -> list[Said | ToolExchange]:
    """Return the messages of a reply from its first call on, each call with its result."""
    calls = [call for m in messages if isinstance(m, ToolCallMessage) for call in m.tools]
    results = [m for m in messages if isinstance(m, ToolResultMessage)]
    contents = iter(_results_of(calls, results))
    group: list[Said | ToolExchange] = []
    for message in messages:
        if isinstance(message, ToolCallMessage):
            group += [
                exchange(call, ids.take(call.id), next(contents), message.agent)
                for call in message.tools
            ]
        elif not isinstance(message, ToolResultMessage):
            group.append(message)
    return group


def exchanges_of(entry: Sequence[Said | ToolExchange]) -> list[ToolExchange]:
    """Return the calls of a reply with their results."""
    return [one for one in entry if isinstance(one, ToolExchange)]


def _end_of_group(messages: Sequence[Message], start: int) -> int:
    """Return the index after the last result of the calls before ``start``.

    Calls may follow calls; other messages belong to the group if a call or a result follows.
    """
    end, answered = start, False
    for index in range(start, len(messages)):
        message = messages[index]
        if isinstance(message, ToolResultMessage):
            answered = True
        elif answered or (isinstance(message, TextMessage) and message.role != "assistant"):
            break
        elif not isinstance(message, ToolCallMessage):
            continue
        end = index + 1
    return end


def _results_of(calls: Sequence[ToolCall], results: Sequence[ToolResultMessage]) -> list[JsonValue]:
    """Return the result of each call: by id and name, and the remaining by order."""
    wanted = [(call.id, call.name) for call in calls]
    if wanted == [(result.tool.id, result.tool.name) for result in results]:
        return [result.content for result in results]
    waiting: dict[tuple[str, str], list[int]] = {}
    for index in reversed(range(len(calls))):
        waiting.setdefault(wanted[index], []).append(index)
    matched: dict[int, JsonValue] = {}
    unmatched: list[JsonValue] = []
    for result in results:
        same = waiting.get((result.tool.id, result.tool.name))
        if same:
            matched[same.pop()] = result.content
        else:
            unmatched.append(result.content)
    spare = iter(unmatched)
    return [
        matched[index] if index in matched else next(spare, NO_RESULT)
        for index in range(len(calls))
    ]


def exchange(call: ToolCall, call_id: str, content: JsonValue, agent: str | None) -> ToolExchange:
    """Return a call with its result in all forms that formats take."""
    if isinstance(content, str):
        return ToolExchange(call, call_id, encodable(content), agent=agent)
    failed, text = "error" in (as_object(content) or {}), dumps(content)
    parts = result_parts(content) if may_hold_media(text) else None
    blocks = claude_blocks(content) if may_hold_blocks(text) else ()
    if parts is None:
        return ToolExchange(call, call_id, encodable(text), (), failed, agent, blocks)
    pieces = [part.text if isinstance(part, TextContent) else words_for(part) for part in parts]
    said = encodable("\n".join(pieces))
    return ToolExchange(call, call_id, said, tuple(parts), failed, agent, blocks)


class _UniqueIds:
    """Ids that are unique within a request and that every provider accepts.

    A valid, new id is unchanged. Others are derived from the messages before them only, so
    the beginning of a conversation is encoded the same as it grows (providers cache prefixes).
    """

    def __init__(self, length: int | None = None) -> None:
        self._length = length
        """The number of letters and digits that an id must have; None: all that `_ID` takes."""

        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    def __copy__(self) -> _UniqueIds:
        made = _UniqueIds(self._length)
        made._used, made._next = self._used.copy(), self._next.copy()
        return made

    def take(self, call_id: str) -> str:
        if self._length is not None:
            return self._take_short(call_id, self._length)
        if call_id not in self._used and _ID.fullmatch(call_id):
            self._used.add(call_id)
            return call_id
        base = _NOT_IN_IDS.sub("_", call_id)[:_MAX_ID] or "call"
        number = self._next.get(base, 1)
        # A cleaned id is tried first; an empty or repeated id is numbered at once.
        wire_id = base if call_id and base not in self._used else ""
        while not wire_id or wire_id in self._used:
            suffix = f"_{number}"
            wire_id = base[: _MAX_ID - len(suffix)] + suffix
            number += 1
        self._next[base] = number
        self._used.add(wire_id)
        return wire_id

    def _take_short(self, call_id: str, length: int) -> str:
        fits = len(call_id) == length and call_id.isascii() and call_id.isalnum()
        wire_id, number = call_id if fits else "", 0
        while not wire_id or wire_id in self._used:
            said = f"{call_id}\0{number}".encode("utf-8", "replace")
            wire_id = hashlib.blake2b(said).hexdigest()[:length]
            number += 1
        self._used.add(wire_id)
        return wire_id


class Writer(ABC):
    """A conversation as a wire format writes it, as far as it has been read."""

    def __init__(self, model: Model, request: ModelRequest) -> None:
        self.found: Growing = Growing()
        """The turns or items as they grow."""

        self.read: Sequence[Message] = ()
        """Messages that are written, and with which later requests begin, too."""

        self.facts: Sequence[object] = ()
        """Everything else that the form of messages depends on."""

        self.reply: frozenset[int] = frozenset()
        """The `id()` of messages that the model has just given."""

        self._last: HistoryItem | None = None
        self._ids = _UniqueIds(model.takes.call_id_length)
        self._standing = Standing(model, request)

    @abstractmethod
    def _say(self, message: Said) -> None:
        """Write a message that has no calls."""

    @abstractmethod
    def _add_reply(self, entry: list[Said | ToolExchange]) -> None:
        """Write a reply with its calls and their results."""

    def add(self, messages: Sequence[Message]) -> None:
        """Write the next messages."""
        for entry in _entries(messages, self._ids):
            if isinstance(entry, list):
                self._add_reply(entry)
            else:
                self._say(entry)
            self._last = entry

    def is_continued(self, reader: str) -> bool:
        """Return whether the conversation ends with a paused reply of the reader."""
        last = self._last
        if last is None or isinstance(last, list):
            return False
        return last.stop_reason == "pause" and last.agent in (None, reader)

    def fork(self, reply: frozenset[int]) -> Self:
        """Return an independent copy, with a reply."""
        made = copy(self)
        made.reply = reply
        for name, value in vars(made).items():
            if isinstance(value, list | dict | set | _UniqueIds):
                setattr(made, name, copy(cast("object", value)))
        if self.found:  # more may be added to the last turn, but a sent turn stays the same
            last = self.found[-1].items()
            self.found[-1] = {name: copy(cast("object", value)) for name, value in last}
        return made

    def begins(self, messages: Sequence[Message], facts: Sequence[object]) -> bool:
        """Return whether the written messages are the beginning of a conversation.

        System messages are new objects for each request; others are the same objects.
        """
        count = len(self.read)
        same = count <= len(messages) and self.facts == facts
        others = compress(zip(self.read, messages, strict=False), map(is_not, self.read, messages))
        same = same and all(old.role == "system" and old == new for old, new in others)
        if not same or not _is_between(messages, count):
            return False
        return self._standing.may_continue(messages[count:])


class TurnWriter(Writer):
    """Turns that alternate: consecutive messages of a side are a turn."""

    _assistant: ClassVar[str] = "assistant"
    """The format's name for the side of the model."""

    _parts: ClassVar[str] = "content"
    """The format's name for a turn's content."""

    def __init__(self, model: Model, request: ModelRequest) -> None:
        super().__init__(model, request)
        self.system: list[str] = []
        """All system messages, from all places: the format has a single place for them."""

        self.closed: str = ""
        """The mark of the user's turn that had to end the conversation; empty: none had to."""

        self._host = host_of(model)
        self._model = model.model
        self._author: str | None = None
        """The agent of the last text."""

        self._opened = ""
        self._waits = False
        """True while a call waits for its result: no user's turn may come between them."""

    @abstractmethod
    def _text(self, text: str) -> dict[str, Any]:
        """Return a text as a turn holds it."""

    @property
    def _ends_with_assistant(self) -> bool:
        return bool(self.found) and self.found[-1]["role"] == self._assistant

    def _add(self, role: str, parts: list[dict[str, Any]]) -> None:
        """Add parts to the last turn if it is of the same side, else begin a turn."""
        if self.found and self.found[-1]["role"] == role:
            self.found[-1][self._parts] += parts
            return
        # A provider's summary may be the first of all, since it replaces the messages before it.
        if not self.found and role == self._assistant and parts[0].get("type") != "compaction":
            self.found.append({"role": "user", self._parts: [self._text(OPENING_TURN)]})
        self.found.append({"role": role, self._parts: parts})

    def _close(self) -> None:
        """Add the user's turn between an assistant's closing text and the next message."""
        self._add("user", [self._text(closing_turn(self._author))])

    def _open(self, mark: str) -> None:
        """Put the user's turn in its place that was sent before the reply with this mark."""
        if mark and mark != self._opened and self._ends_with_assistant and not self._waits:
            self._close()
        self._opened = mark or self._opened

    def end(self, reader: str, *, continues: bool = False) -> None:
        """Write the required end of an agent's request, unless a reply continues."""
        if not self.found:
            self._add("user", [self._text(OPENING_TURN)])
        if self._ends_with_assistant and not continues and not self.is_continued(reader):
            self.closed = digest_of([len(self.found), self.found[-1][self._parts]])
            self._close()


W = TypeVar("W", bound=Writer)
_MOST_WRITERS = 4
"""The agents whose conversations a run keeps as they were written."""


def written(
    request: ModelRequest,
    messages: Sequence[Message],
    own: Sequence[Message],
    facts: Sequence[object],
    begin: Callable[[], W],
) -> W:
    """Return a writer that has written a request's conversation, for the caller to end.

    A message has the same form on the wire whatever follows it. So the next request of a run
    extends the written form of the last request, where that is its beginning.

    Args:
        request: The request.
        messages: What is written.
        own: Those at its end that later requests do not begin with: a prefill, or the reply.
        facts: Everything else that the form of the messages depends on.
        begin: Makes a writer that has read nothing.
    """
    kept, end = request.writers, max(0, len(messages) - len(own))
    reply = frozenset(map(id, own))
    if kept is None or not _is_between(messages, end):
        writer = begin()
        writer.reply = reply
        writer.add(messages)
        return writer
    last = kept.pop(request.agent, None)
    if last is None or not last.begins(messages[:end], facts):
        last = begin()
        last.facts = facts
    last.add(messages[len(last.read) : end])
    last.read = messages[:end]
    kept[request.agent] = last
    if len(kept) > _MOST_WRITERS:
        del kept[next(iter(kept))]
    writer = last.fork(reply)
    writer.add(messages[end:])
    return writer


def _is_between(messages: Sequence[Message], index: int) -> bool:
    """Return whether a place in a conversation is none inside a reply with its results."""
    if not 0 < index < len(messages):
        return True
    if messages[index].type == "tool_result":
        return False
    for before in range(index - 1, -1, -1):
        message = messages[before]
        if message.type == "tool_call":
            return False
        if message.role != "assistant":
            return True
    return True
