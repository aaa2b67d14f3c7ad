"""Results of the current calls, shortened where they alone are more than a request may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentkit_py.messages import (
    Message,
    Messages,
    ToolResultMessage,
    content_parts,
    derived,
    text_of,
)
from agentkit_py.processors.base import ProcessorContext, Tokenizer
from agentkit_py.processors.shortening import head_and_tail
from agentkit_py.processors.tokenizers import count_text

LEAST_TOKENS = 30
"""Tokens that a result keeps, however little room there is: a line that says something."""

_TRIES = 6


@dataclass(frozen=True, slots=True)
class Shortened:
    """A history in which results of the current calls have head and tail only."""

    messages: Messages
    context: ProcessorContext
    """The context, in which the short results are protected."""

    results: Sequence[tuple[ToolResultMessage, Message]] = ()
    """A shortened message, and the message in its place."""


def shorten_results(
    messages: Messages, context: ProcessorContext, room: int, tokenizer: Tokenizer
) -> Shortened:
    """Shorten protected results so that they have ``room`` tokens together, the longest first.

    Pinned ones and those with images or files stay whole, and each keeps some tokens.
    """
    results = {
        id(message): message
        for message in messages
        if id(message) in context.protected - context.pinned
        and isinstance(message, ToolResultMessage)
        and all(part.type == "text" for part in content_parts(message))
    }
    counts = {one: count_text(message, tokenizer) for one, message in results.items()}
    most = max(LEAST_TOKENS, _share(list(counts.values()), room))
    found = {
        one: _short(message, most, tokenizer)
        for one, message in results.items()
        if counts[one] > most
    }
    if not found:
        return Shortened(messages, context)
    protected = frozenset(id(found[one]) if one in found else one for one in context.protected)
    return Shortened(
        [found.get(id(message), message) for message in messages],
        replace(context, protected=protected),
        [(results[one], short) for one, short in found.items()],
    )


def _share(counts: Sequence[float], room: int) -> int:
    """Return the tokens that each may have, so that all have ``room``: short ones stay whole."""
    left = room
    ordered = sorted(counts)
    for index, count in enumerate(ordered):
        share = left // (len(ordered) - index)
        if count > share:
            return share
        left -= int(count)
    return room


def _short(message: ToolResultMessage, tokens: int, tokenizer: Tokenizer) -> Message:
    """Return the result with head and tail, made once for the same number of tokens."""

    def make() -> Message:
        name = "error" if message.is_error else "data"
        said = message.content.get(name) if isinstance(message.content, dict) else None
        text = said if isinstance(said, str) else text_of(message)
        chars, made = len(text), message
        for _ in range(_TRIES):  # the rest may have more tokens for each character
            count = count_text(made, tokenizer)
            if count <= tokens:
                break
            chars = min(chars - 1, int(chars * tokens / count))
            made = replace(message, content={name: head_and_tail(text, chars)})
        return made

    return derived(message, ("short", tokens, tokenizer.key), make)
