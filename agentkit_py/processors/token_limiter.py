"""Cutting the oldest messages off, so that the rest fits a number of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message
from agentkit_py.processors.base import ProcessorContext, Tokenizer
from agentkit_py.processors.settings import Check, ConfiguredProcessor, flag, optional, text, whole
from agentkit_py.processors.tokenizers import (
    DEFAULT_ENCODING,
    CustomTokenizer,
    as_tokenizer,
    count_text,
    default_tokenizer,
    message_counter,
    prepare,
)
from agentkit_py.processors.windows import next_cut


class TokenLimiter(ConfiguredProcessor):
    """Keeps the newest messages that together have at most ``limit`` tokens.

    Calls are not parted from their results: a stretch of them stays or goes as a whole. The first
    stretch that does not fit ends it, so that what is left has no gap. If the newest alone is too
    long, nothing is left.

    Messages that are protected (this agent's own calls of the current run) or pinned always stay
    and are counted first.

    Args:
        limit: Tokens.
        encoding: Count by this encoding of tiktoken; None: as the run does.
        tokenizer: Count by this: an object with ``count(text)``, or a function of a text.
        use_tiktoken: False: estimate by length.

    Raises:
        ConfigurationError: ``limit`` is no positive whole number, the tokenizer cannot count, or
            both a tokenizer and an encoding are given.
    """

    settings: ClassVar[Mapping[str, Check]] = {
        "limit": whole(1),
        "encoding": optional(text),
        "use_tiktoken": flag,
    }

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
        self._encoding = encoding
        self._tokenizer = tokenizer
        self._use_tiktoken = use_tiktoken
        self._counter: Tokenizer | None = None
        if tokenizer is not None:
            self._counter = as_tokenizer(tokenizer)
        elif encoding is not None or not use_tiktoken:
            self._counter = default_tokenizer(
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
        given = context.tokenizer if self._counter is None else self._counter
        tokenizer = await prepare(default_tokenizer() if given is None else given)
        held = context.held
        reserved = sum(count_text(m, tokenizer) for m in messages if id(m) in held) if held else 0
        fitting = self._first_fitting(messages, held, tokenizer, reserved)
        if fitting == 0:
            return messages
        start = next_cut(messages, fitting)
        kept = [m for m in messages[:start] if id(m) in held] if held else []
        return [*kept, *messages[start:]]

    async def enough(self, newest: Sequence[Message], context: ProcessorContext) -> bool:
        """Whether the limit is exceeded: what is older goes."""
        given = context.tokenizer if self._counter is None else self._counter
        tokenizer = await prepare(default_tokenizer() if given is None else given)
        held = context.held
        reserved = sum(count_text(m, tokenizer) for m in newest if id(m) in held) if held else 0
        return self._first_fitting(newest, held, tokenizer, reserved) > 0

    def _first_fitting(
        self,
        messages: Sequence[Message],
        held: frozenset[int],
        tokenizer: Tokenizer,
        reserved: float,
    ) -> int:
        """Index of the oldest message with which everything from there on still fits.

        Older messages are not looked at: a turn must not cost more because its thread is long.
        """
        total, count = reserved, message_counter(tokenizer)
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if held and id(message) in held:
                continue
            total += count(message)
            if total > self.limit:
                return index + 1
        return 0
