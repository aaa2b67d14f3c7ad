"""Cutting the oldest messages off, so that the rest fits a number of tokens."""

from __future__ import annotations

from collections.abc import Sequence

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    Message,
    ToolResultMessage,
)
from agentkit_py.processors.base import HistoryProcessor, ProcessorContext, Tokenizer
from agentkit_py.processors.groups import is_joined, segments
from agentkit_py.processors.tokenizers import (
    DEFAULT_ENCODING,
    CustomTokenizer,
    as_tokenizer,
    count_text,
    default_tokenizer,
    prepare,
)
from agentkit_py.processors.validity import is_valid


class TokenLimiter(HistoryProcessor):
    """Keeps the newest messages that together have at most ``limit`` tokens.

    Calls are not parted from their results: a stretch of them stays or goes as a whole. The first
    stretch that does not fit ends it, so that what is left has no gap. If the newest alone is too
    long, nothing is left.

    Messages that are protected (this agent's own calls of the current run) always stay and are
    counted first.

    Args:
        limit: Tokens.
        encoding: Count by this encoding of tiktoken; None: as the run does.
        tokenizer: Count by this: an object with ``count(text)``, or a function of a text.
        use_tiktoken: False: estimate by length.

    Raises:
        ConfigurationError: ``limit`` is no positive whole number, the tokenizer cannot count, or
            both a tokenizer and an encoding are given.
    """

    def __init__(
        self,
        limit: int,
        *,
        encoding: str | None = None,
        tokenizer: CustomTokenizer | None = None,
        use_tiktoken: bool = True,
    ) -> None:
        if not isinstance(limit, int) or isinstance(limit, bool) or limit <= 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"TokenLimiter's limit must be a positive whole number of tokens, not {limit!r}."
            )
        if tokenizer is not None and encoding is not None:
            raise ConfigurationError("TokenLimiter takes tokenizer=… or encoding=…, not both.")
        self.limit = limit
        self._tokenizer: Tokenizer | None = None
        if tokenizer is not None:
            self._tokenizer = as_tokenizer(tokenizer)
        elif encoding is not None or not use_tiktoken:
            self._tokenizer = default_tokenizer(
                encoding or DEFAULT_ENCODING, use_tiktoken=use_tiktoken
            )

    @property
    def reason(self) -> str:
        """The limit."""
        return f"limit of {self.limit} tokens"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The newest messages that fit."""
        given = context.tokenizer if self._tokenizer is None else self._tokenizer
        tokenizer = await prepare(default_tokenizer() if given is None else given)
        protected = [m for m in messages if id(m) in context.protected] if context.protected else []
        reserved = sum(count_text(message, tokenizer) for message in protected)
        fitting = self._first_fitting(messages, context, tokenizer, reserved)
        if fitting == 0:
            return messages
        start = _next_cut(messages, fitting)
        kept = [m for m in messages[:start] if id(m) in context.protected] if protected else []
        return [*kept, *messages[start:]]

    def _first_fitting(
        self,
        messages: Sequence[Message],
        context: ProcessorContext,
        tokenizer: Tokenizer,
        reserved: float,
    ) -> int:
        """Index of the oldest message with which everything from there on still fits.

        Older messages are not looked at: a turn must not cost more because its thread is long.
        """
        total = reserved
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if context.protected and id(message) in context.protected:
                continue
            total += count_text(message, tokenizer)
            if total > self.limit:
                return index + 1
        return 0


def _next_cut(messages: Sequence[Message], index: int) -> int:
    """The first place at or after ``index`` where a list can be cut without parting a call."""
    cut = index
    while cut < len(messages) and not _may_begin(messages, cut):
        cut += 1
    if is_valid(messages[cut:]):
        return cut
    # Some result stands apart from its call: only reading all of it says what belongs together.
    starts = (segment.start for segment in segments(messages) if segment.start >= index)
    return next(starts, len(messages))


def _may_begin(messages: Sequence[Message], index: int) -> bool:
    """Whether the message at ``index`` is neither a result nor the middle of a model's reply."""
    return not isinstance(messages[index], ToolResultMessage) and (
        index == 0 or not is_joined(messages[index - 1], messages[index])
    )
