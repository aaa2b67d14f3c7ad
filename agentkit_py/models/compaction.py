"""Compaction: a provider's own summary of a conversation, which replaces the summarised messages.

A model that is asked to (`ModelRequest.compaction`) sums up a conversation that has grown too long,
and puts the summary as a block into its reply: Claude as text, OpenAI encrypted. From then on the
block replaces everything before it, system messages excepted.

A summary may contain everything that its agent was shown. So it is kept with facts (host, account,
model, and a digest of every message that it sums up), and replaces messages only in requests of the
same agent where all of that is still the same: an agent that may not see some of them is sent its
own view of them instead, and so is every other host and model.

Source: platform.claude.com/docs/en/build-with-claude, pages compaction and compaction-threshold;
developers.openai.com, guide compaction (read in November 2026).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from typing_extensions import TypeIs

from agentkit_py.codec import message_to_dict
from agentkit_py.messages import Message, OpaqueMessage, ReasoningMessage
from agentkit_py.models.base import Model, ModelRequest
from agentkit_py.models.binding import (
    Binding,
    Standing,
    account_of,
    binding_of,
    digest_of,
    with_bindings,
)
from agentkit_py.models.blocks import host_of
from agentkit_py.models.encoding import split_prefill

KIND = "compaction"
"""The type of such a block, at Anthropic and at OpenAI."""


def is_compaction(message: Message) -> TypeIs[OpaqueMessage]:
    """Return whether a message is a provider's summary."""
    return isinstance(message, OpaqueMessage) and message.kind == KIND


def has_compaction(messages: Sequence[Message]) -> bool:
    """Return whether any of the messages is a provider's summary."""
    return OpaqueMessage in {*map(type, messages)} and any(map(is_compaction, messages))


class Compacted(NamedTuple):
    """A request and its reply, after summaries have replaced messages."""

    request: ModelRequest
    reply: Sequence[Message]
    made: dict[int, str]
    """Digests of all before the summaries of the reply, by the `id()` of their messages."""


def compacted(
    model: Model, request: ModelRequest, key: str, reply: Sequence[Message] = ()
) -> Compacted:
    """Return a request from the newest summary on that holds, without the others.

    Args:
        model: Who is asked.
        request: What is asked.
        key: The name of the model's format.
        reply: What was answered; a summary in it holds.
    """
    conversation = split_prefill(request)[0]
    if not has_compaction((*conversation, *reply)):
        return Compacted(request, reply, {})
    own = _OwnSummaries(model, request, key)
    digest, start, kept = "", 0, None
    made: dict[int, str] = {}
    for index, message in enumerate((*conversation, *reply)):
        if not is_compaction(message):
            digest = _after(digest, message)
            continue
        is_new = index >= len(conversation)
        if is_new:
            made[id(message)] = digest
        if _says_something(message) and (is_new or own.holds(message, digest)):
            start, kept = index, message
            digest = digest_of([digest, message.content])
    sent = [
        message
        for index, message in enumerate(conversation)
        if message is kept
        or (message.role == "system" if index < start else not is_compaction(message))
    ]
    begun = max(0, start - len(conversation))
    rest = [m for m in reply[begun:] if m is kept or not is_compaction(m)]
    prefill = request.messages[len(conversation) :]
    return Compacted(replace(request, messages=(*sent, *prefill)), rest, made)


def with_compactions_bound(
    model: Model, request: ModelRequest, key: str, messages: Sequence[Message]
) -> tuple[Message, ...]:
    """Return a reply's messages, its summaries bound to the messages that they summarise."""
    if not has_compaction(messages):
        return tuple(messages)
    account = account_of(model, request)
    bindings = {
        key: Binding(account=account, model=model.model, prefix=digest)
        for key, digest in compacted(model, request, key, messages).made.items()
    }
    return with_bindings(messages, bindings, host_of(model))


class _OwnSummaries:
    """Checks of summaries in a request."""

    def __init__(self, model: Model, request: ModelRequest, key: str) -> None:
        self._made_by = (key, host_of(model), request.agent)
        self._bound_to = (account_of(model, request), model.model)
        self._standing = Standing(model, request)

    def holds(self, message: OpaqueMessage, digest: str) -> bool:
        """Return whether a summary was made by this agent and model, of these messages."""
        binding = binding_of(message.provider_metadata)
        return (
            (message.format, message.host, message.agent or "") == self._made_by
            and (binding.account, binding.model) == self._bound_to
            and binding.prefix == digest
            and self._standing.reason(message, message.content) is None
        )


def _says_something(message: OpaqueMessage) -> bool:
    """Return whether it is a summary: Claude sends an empty block when it made none."""
    return any(message.content.get(name) for name in ("content", "encrypted_content"))


def _after(digest: str, message: Message) -> str:
    """Return the digest of all up to a message; reasoning, which comes and goes, does not count."""
    if isinstance(message, ReasoningMessage):
        return digest
    record = message_to_dict(message)
    for part in (record, record.get("tool"), *(record.get("tools") or ())):
        for name in ("providerMetadata", "stop_reason"):
            (part or {}).pop(name, None)
    return digest_of([digest, record])
