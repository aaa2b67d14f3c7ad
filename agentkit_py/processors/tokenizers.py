"""Ways of counting tokens, and counts that are computed once per message.

By tiktoken where its encoding can be loaded in bounded time, by an estimate of length otherwise.
Nothing is loaded before the first text is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count as counting
from math import ceil
from typing import Literal, Protocol, TypeAlias, cast

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    Message,
    Messages,
    content_parts,
    counter,
)
from agentkit_py.processors.base import Tokenizer
from agentkit_py.runtime.tiktoken_loader import is_decided, load_encoding, warm_up

DEFAULT_ENCODING = "o200k_base"
"""The encoding of OpenAI's current models; near enough for the other providers'."""

CHARS_PER_TOKEN = {
    "o200k_base": 4.2,
    "cl100k_base": 4.0,
    "p50k_base": 3.8,
    "r50k_base": 3.5,
    "gpt2": 3.2,
}
"""UTF-16 units of English text per token: the figures of the upstream proposal."""

_OTHER_CHARS_PER_TOKEN = 4.0


_TIKTOKEN_CHUNK = 200_000
"""Characters handed to tiktoken at once: a million blanks in a row make its regex engine panic."""


class TextCounter(Protocol):
    """An object that counts, without a `key`."""

    def count(self, text: str) -> float:
        """Return how many tokens ``text`` has."""
        ...


CustomTokenizer: TypeAlias = Tokenizer | TextCounter | Callable[[str], float]
"""Every value that is accepted as a tokenizer: an object or a function that counts."""


@dataclass(frozen=True, slots=True)
class ApproximateTokenizer:
    """Estimates tokens by the text's length, rounded up.

    Length is counted in UTF-16 units, as in JavaScript, so that both languages give the same
    figures.

    Raises:
        ConfigurationError: ``chars_per_token`` is not positive.
    """

    encoding: str = DEFAULT_ENCODING
    """The encoding to estimate; an unknown encoding counts as 4 characters per token."""

    chars_per_token: float | None = None
    """UTF-16 units per token; None: as is usual for the encoding."""

    key: str = field(init=False, repr=False, compare=False, default="")
    _ratio: float = field(init=False, repr=False, compare=False, default=1.0)

    def __post_init__(self) -> None:
        ratio = self.chars_per_token
        key = f"approximate:{self.encoding}"
        if ratio is None:
            ratio = CHARS_PER_TOKEN.get(self.encoding, _OTHER_CHARS_PER_TOKEN)
        elif isinstance(ratio, bool) or not ratio > 0:
            raise ConfigurationError(f"chars_per_token must be a positive number, not {ratio!r}.")
        else:
            key = f"approximate:{ratio!r}"
        object.__setattr__(self, "_ratio", ratio)
        object.__setattr__(self, "key", key)

    def count(self, text: str) -> int:
        """Return the estimate for ``text``."""
        return ceil(utf16_length(text) / self._ratio)


@dataclass(frozen=True, slots=True)
class TiktokenTokenizer:
    """Counts with tiktoken. Special tokens such as ``<|endoftext|>`` count as the text they are.

    The encoding is loaded when the first text is counted; see `agentkit_py.runtime.tiktoken_loader`
    for where it comes from.
    """

    encoding: str = DEFAULT_ENCODING

    @property
    def key(self) -> str:
        """``tiktoken:`` and the encoding."""
        return f"tiktoken:{self.encoding}"

    def count(self, text: str) -> int:
        """Return how many tokens ``text`` has.

        Raises:
            ConfigurationError: The encoding cannot be loaded here.
        """
        encoder = load_encoding(self.encoding)
        if encoder is None:
            raise ConfigurationError(
                f"tiktoken cannot load the encoding {self.encoding!r} here. Fill a folder with "
                "`python -m agentkit_py.tiktoken_cache FOLDER` and point TIKTOKEN_CACHE_DIR at it, "
                "or use default_tokenizer(), which estimates where tiktoken cannot count."
            )
        chunks = range(0, len(text), _TIKTOKEN_CHUNK)
        return sum(len(encoder.encode_ordinary(text[i : i + _TIKTOKEN_CHUNK])) for i in chunks)


@dataclass(slots=True)
class AutoTokenizer:
    """Counts by tiktoken if its encoding can be loaded, else by estimate; decided when first asked.

    Loading takes part of a second, or a bounded wait without network; `prepare` does it outside
    the event loop.
    """

    encoding: str = DEFAULT_ENCODING
    _chosen: Tokenizer | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def key(self) -> str:
        """The key of the tokenizer that was chosen."""
        return self.chosen.key

    def count(self, text: str) -> float:
        """Return how many tokens ``text`` has."""
        return self.chosen.count(text)

    @property
    def chosen(self) -> Tokenizer:
        """The tokenizer that counts."""
        if self._chosen is None:
            encoder = load_encoding(self.encoding)
            tokenizer = ApproximateTokenizer if encoder is None else TiktokenTokenizer
            self._chosen = tokenizer(self.encoding)
        return self._chosen


@dataclass(frozen=True, slots=True)
class _Keyed:
    """A tokenizer of the user's, with a key that nothing else has."""

    counts: Callable[[str], float]
    key: str

    def count(self, text: str) -> float:
        return self.counts(text)


_custom = counting(1)
_NO_TOKENIZERS = (type, str, bytes, list, tuple)


def default_tokenizer(encoding: str = DEFAULT_ENCODING, *, use_tiktoken: bool = True) -> Tokenizer:
    """Return a tokenizer that uses tiktoken if ``encoding`` can be loaded, else the estimate.

    The choice is made at its first use, once per process and encoding, with a logged
    warning if it is the estimate.
    """
    return AutoTokenizer(encoding) if use_tiktoken else ApproximateTokenizer(encoding)


def as_tokenizer(value: CustomTokenizer) -> Tokenizer:
    """Return ``value`` as a tokenizer: functions and objects without a key get a key of their own.

    Raises:
        ConfigurationError: ``value`` neither counts nor can be called.
    """
    candidate = cast("object", value)
    counts = getattr(candidate, "count", None)
    # Strings and lists count as well, but something else.
    if not isinstance(candidate, _NO_TOKENIZERS) and callable(counts):
        if isinstance(getattr(candidate, "key", None), str):
            return cast("Tokenizer", candidate)
        return _Keyed(cast("Callable[[str], float]", counts), f"custom:{next(_custom)}")
    if callable(value) and not isinstance(value, type):
        return _Keyed(value, f"custom:{next(_custom)}")
    raise ConfigurationError(
        f"A tokenizer is an object with count(text), or a function of a text, not {value!r}."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerInfo:
    """A limit of tokens, and how they are counted."""

    limit: int
    kind: Literal["tiktoken", "approximate", "custom", "auto"]
    """``"auto"``: tiktoken if its encoding can be loaded, which was not tried yet."""

    encoding: str | None
    """The encoding that is counted or estimated; None: a custom tokenizer's."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, limit: int) -> TokenizerInfo:
        """Return the facts about a tokenizer; nothing is loaded for it."""
        if isinstance(tokenizer, AutoTokenizer):
            if not is_ready(tokenizer):
                return cls(limit=limit, kind="auto", encoding=tokenizer.encoding)
            tokenizer = tokenizer.chosen
        match tokenizer:
            case TiktokenTokenizer():
                return cls(limit=limit, kind="tiktoken", encoding=tokenizer.encoding)
            case ApproximateTokenizer():
                return cls(limit=limit, kind="approximate", encoding=tokenizer.encoding)
            case _:
                return cls(limit=limit, kind="custom", encoding=None)


def chars_per_token(tokenizer: Tokenizer) -> float:
    """Return roughly how many characters a token has."""
    if isinstance(tokenizer, ApproximateTokenizer) and tokenizer.chars_per_token is not None:
        return tokenizer.chars_per_token
    encoding = getattr(tokenizer, "encoding", "")
    return CHARS_PER_TOKEN.get(encoding, _OTHER_CHARS_PER_TOKEN)


def is_ready(tokenizer: Tokenizer) -> bool:
    """Return whether it counts without loading anything first."""
    if isinstance(tokenizer, AutoTokenizer | TiktokenTokenizer):
        return is_decided(tokenizer.encoding)
    return True


async def prepare(tokenizer: Tokenizer) -> Tokenizer:
    """Return ``tokenizer``, loaded in a worker thread: counting then does not wait."""
    if isinstance(tokenizer, AutoTokenizer | TiktokenTokenizer):
        await warm_up(tokenizer.encoding)
    return tokenizer


IMAGE_TOKENS = 765
"""Tokens that an image is counted as, whatever its size: 1024 x 1024 pixels at OpenAI
(https://platform.openai.com/docs/guides/images-vision#calculating-costs). The same picture has
about 1,400 at Anthropic and 258 for each tile at Gemini."""

FILE_TOKENS = 1500
"""Tokens that a file is counted as, whatever its length: the least that Anthropic names for a page
(https://docs.claude.com/en/docs/build-with-claude/pdf-support#estimate-your-costs)."""


def media_tokens(message: Message) -> int:
    """Return the tokens of the message's images and files, without those of `text_of`."""
    tokens = {"text": 0, "image": IMAGE_TOKENS, "file": FILE_TOKENS}
    return sum(tokens[part.type] for part in content_parts(message))


def count_text(message: Message, tokenizer: Tokenizer) -> float:
    """Return the tokens of a message; computed once per message and tokenizer."""
    return message_counter(tokenizer)(message)


def message_counter(tokenizer: Tokenizer) -> Callable[[Message], float]:
    """Return a function like `count_text` for many messages."""
    return counter(tokenizer.key, tokenizer.count, media_tokens)


def count_messages(messages: Messages, tokenizer: Tokenizer) -> int:
    """Return the tokens of messages together; fractions of custom tokenizers are rounded up."""
    if not messages:
        return 0
    return ceil(sum(map(message_counter(tokenizer), messages)))


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 units, which is a string's length in JavaScript."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
