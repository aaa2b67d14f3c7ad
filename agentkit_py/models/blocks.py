"""Blocks of a reply as the provider sent them.

A message that was read from a reply keeps the provider's own block where our form of it on the wire
would not be the same: `kept` puts it into `provider_metadata` under the name of the format, next to
`ORIGIN`, which names its maker. The encoder sends that block back if the host is the same and the
message still has the block's content; a changed message is sent in our own form.

Blocks without a type of ours are `OpaqueMessage`s. Nothing here does I/O.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple, cast

from agentkit_py._core.json import JsonObject, as_object
from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import EmptyReplyError
from agentkit_py.messages import (
    CITATIONS,
    CONTINUES,
    EMPTY,
    ORIGIN,
    Finish,
    FinishReason,
    Message,
    OpaqueMessage,
    StopReason,
    TextMessage,
    ToolCallMessage,
    Usage,
)
from agentkit_py.models.base import Model, ModelReply
from agentkit_py.models.capabilities import host_of_url
from agentkit_py.models.encoding import wired

logger: logging.Logger = get_logger("agentkit_py")

Block = dict[str, Any]


def host_of(model: Model) -> str:
    """Return the host that a model's requests go to, e.g. ``"api.anthropic.com"``."""
    return host_of_url(model.base_url)


def origin_of_block(metadata: JsonObject | None) -> dict[str, Any]:
    """Return the known origin of a message's block; empty: unknown."""
    return as_object((metadata or {}).get(ORIGIN)) or {}


def with_origin(metadata: JsonObject | None, host: str, **facts: Any) -> dict[str, Any]:
    """Return a message's metadata with further facts about who made it."""
    return {**(metadata or {}), ORIGIN: {"host": host, **origin_of_block(metadata), **facts}}


def with_empty_marks(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages of a reply that says nothing, marked for the next request.

    The request has a user's turn in their place, which asks the model to continue.
    """
    last = len(messages) - 1
    marked: list[Message] = []
    for index, message in enumerate(messages):
        metadata = message.provider_metadata
        origin = {**origin_of_block(metadata), EMPTY: "end" if index == last else "part"}
        marked.append(replace(message, provider_metadata={**(metadata or {}), ORIGIN: origin}))
    return tuple(marked)


def kept(model: Model, key: str, block: Block, ours: object = None) -> dict[str, Any] | None:
    """Return the metadata for a message that was read from ``block``; None: none is needed.

    Args:
        model: The model that replied.
        key: The name of the format, or of the host's dialect of it.
        block: The provider's JSON.
        ours: The message as our own form on the wire; the block is not kept where that is the same.
    """
    said = without_nulls(block)
    if said == ours:
        return None
    return {key: said, ORIGIN: {"host": host_of(model)}}


def own_block(metadata: JsonObject | None, key: str, host: str) -> Block | None:
    """Return a copy of the block that a message was read from, if it is this host's.

    A block of which the host is not known is anyone's who speaks the format.
    """
    block = as_object((metadata or {}).get(key))
    made_by = origin_of_block(metadata).get("host", host)
    return None if block is None or made_by != host else cast("Block", wired(block))


def turn_mark(metadata: JsonObject | None) -> str:
    """Return the mark of a reply before which a user's turn of ours was sent; empty: none was.

    It stays before the reply as long as that follows an assistant's message.
    """
    mark = origin_of_block(metadata).get("turn")
    return mark if isinstance(mark, str) else ""


def with_turn_mark(messages: Sequence[Message], mark: str, host: str) -> tuple[Message, ...]:
    """Return the messages of a reply with the mark of the turn that was sent before it."""
    found: list[Message] = []
    for message in messages:
        own = with_origin(message.provider_metadata, host, turn=mark)
        made = replace(message, provider_metadata=own)
        if isinstance(made, ToolCallMessage):
            first, *rest = made.tools
            own = with_origin(first.provider_metadata, host, turn=mark)
            made = replace(made, tools=(replace(first, provider_metadata=own), *rest))
        found.append(made)
    return tuple(found)


class Activity(NamedTuple):
    """The part that an opaque block has in a hosted tool's activity; all empty: none."""

    part: Literal["call", "result", "whole", ""] = ""
    call_id: str = ""


def opaque(
    model: Model,
    key: str,
    block: Block,
    activity: Activity | None = None,
    *,
    tool: str = "",
    metadata: JsonObject | None = None,
) -> OpaqueMessage:
    """Return a block without a type of ours as a message."""
    part, call_id = activity or Activity()
    return OpaqueMessage(
        without_nulls(block),
        key,
        host_of(model),
        tool,
        call_id,
        part,
        provider_metadata=metadata,
    )


def opaque_block(message: OpaqueMessage) -> Block:
    """Return a copy of the block of a message that is `sendable`."""
    return cast("Block", wired(message.content))


def sendable(
    messages: Sequence[Message],
    key: str,
    host: str,
    read: Callable[[Block], Activity | None],
    offered: Callable[[OpaqueMessage], bool] = lambda _: True,
) -> Sequence[Message]:
    """Return the messages without the opaque ones that cannot go to this host.

    These are those that it did not make (of which a picture stays as words), blocks that are not as
    the format has them, activity of hosted tools that this request does not offer, and calls and
    results of hosted tools that do not have each other. Two kinds of calls stay without a result:
    a call that still runs in a reply that continues, and a call without an id: Gemini's file search
    writes its code so (a recorded reply).

    Args:
        messages: The conversation.
        key: The name of the format.
        host: The host that is asked.
        read: Reads a block as the format has them; None: unknown to the format. Messages may come
            from anywhere: a block goes back only if it matches its message.
        offered: Whether the request offers the hosted tool of a message.
    """
    if OpaqueMessage not in {*map(type, messages)}:
        return messages
    found: list[Message] = []
    for message in messages:
        if not isinstance(message, OpaqueMessage):
            found.append(message)
        elif (message.format, message.host) != (key, host):
            found += _in_words(message)
        elif read(dict(message.content)) == (message.part, message.call_id):
            found.append(message)
    whole = _whole_tools(found)
    return [
        message
        for message in found
        if not isinstance(message, OpaqueMessage)
        or message.part == ""
        or (offered(message) and id(message) in whole)
    ]


def _whole_tools(messages: Sequence[Message]) -> set[int]:
    """Return the `id()` of hosted tools' calls and results that have each other, or still may."""
    calls: dict[str, OpaqueMessage] = {}
    running: dict[str, OpaqueMessage] = {}
    whole: set[int] = set()
    for message in messages:
        if isinstance(message, TextMessage) and message.role == "user":
            running.clear()
        if not isinstance(message, OpaqueMessage):
            continue
        if message.part == "call" and not message.call_id:
            whole.add(id(message))
            calls[""] = message
        elif message.part == "call":
            calls[message.call_id] = running[message.call_id] = message
        elif message.part == "whole":
            whole.add(id(message))
        elif message.part == "result" and message.call_id in calls:
            running.pop(message.call_id, None)
            whole |= {id(message), id(calls[message.call_id])}
    return whole | {id(message) for message in running.values()}


_PICTURES = frozenset({"image_generation_call", "inlineData", "image", "image_url"})


def _in_words(message: OpaqueMessage) -> list[Message]:
    """Return a text in place of another host's picture; of anything else its texts say enough."""
    if message.kind not in _PICTURES:
        return []
    side = message.from_history
    return [TextMessage("assistant", "[image]", agent=message.agent, from_history=side)]


def finished(
    model: Model,
    messages: Sequence[Message],
    words: Mapping[str, FinishReason],
    word: str,
    details: Mapping[str, Any] | None = None,
) -> Finish:
    """Return why a reply ended, with the provider's further details.

    Without a word the messages show the end. A word that is not among ``words`` is ``"other"``,
    with a single warning for each provider and word: the reply may be incomplete.
    """
    reason = words.get(word) or words.get(word.lower()) or ("other" if word else "stop")
    if reason == "other":
        _warn_of_unknown_end(model.provider, word[:80])
    calls = ToolCallMessage in map(type, messages)
    if reason in ("stop", "tool_calls"):
        reason = "tool_calls" if calls else "stop"
    said = {name: value for name, value in (details or {}).items() if value not in (None, "", [])}
    return Finish(reason, word, said or None)


@lru_cache(maxsize=256)
def _warn_of_unknown_end(provider: str, word: str) -> None:
    """Log once that a provider ended a reply for a reason that is not in our tables."""
    logger.warning(
        "%s ended a reply with the unknown reason %r: finish_reason is 'other', and the reply "
        "may be incomplete.",
        provider,
        word,
    )


def checked_reply(
    model: Model,
    messages: Sequence[Message],
    finish: Finish,
    usage: Usage | None,
    *,
    stop: StopReason | None = None,
) -> ModelReply:
    """Return a reply, its messages with the reason of its end (or ``stop`` in place of it).

    Raises:
        EmptyReplyError: It says nothing, and not because the model was done.
    """
    if not any(map(says, messages)) and finish.reason not in ("stop", "pause"):
        raise empty_reply(model, finish, usage)
    return ModelReply(messages=ended(messages, stop or finish.stop), usage=usage, finish=finish)


def empty_reply(model: Model, finish: Finish, usage: Usage | None) -> EmptyReplyError:
    """Return the error for a reply that says nothing."""
    return EmptyReplyError(
        finish.reason,
        provider=model.provider,
        model=model.model,
        provider_reason=finish.word,
        details=finish.details,
        usage=usage,
    )


def end_of(error: EmptyReplyError) -> Finish:
    """Return why a reply ended that says nothing."""
    reason = cast("FinishReason", error.finish_reason)
    return Finish(reason, error.provider_reason, error.details)


def citing(messages: list[Message], sources: Sequence[JsonObject]) -> list[Message]:
    """Return the messages with the sources that a provider lists separately, on the last text."""
    texts = [index for index, message in enumerate(messages) if message.type == "text"]
    if texts and sources:
        message = messages[texts[-1]]
        metadata = {**(message.provider_metadata or {}), CITATIONS: list(sources)}
        messages[texts[-1]] = replace(message, provider_metadata=metadata)
    return messages


def adjoined(model: Model, messages: Sequence[Message]) -> list[Message]:
    """Return the messages, each text that directly follows another text marked as its continuation.

    Claude splits an answer with citations into many blocks, Gemini any answer into parts.
    """
    found: list[Message] = []
    for message in messages:
        after_text = bool(found) and found[-1].type == "text"
        if after_text and isinstance(message, TextMessage):
            own = with_origin(message.provider_metadata, host_of(model), **{CONTINUES: True})
            found.append(replace(message, provider_metadata=own))
        else:
            found.append(message)
    return found


def says(message: Message) -> bool:
    """Return whether a message of a reply is something that a user or a tool can do with."""
    if not isinstance(message, TextMessage):
        return message.type in ("tool_call", "opaque")
    content = message.content
    return not isinstance(content, str) or bool(content.strip())


def ended(messages: Sequence[Message], reason: StopReason) -> tuple[Message, ...]:
    """Return the messages of a reply, its texts and blocks with the reason of its end."""
    found = list(messages)
    for index, message in enumerate(found):
        if isinstance(message, TextMessage | OpaqueMessage):
            found[index] = replace(message, stop_reason=reason)
    return tuple(found)


def without_nulls(block: Block) -> Block:
    """Return a block without the members that are null, which say nothing."""
    if None not in block.values():
        return block
    return {name: value for name, value in block.items() if value is not None}
