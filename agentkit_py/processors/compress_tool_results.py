"""Shortening long tool results so that what matters most of them is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

from agentkit_py._core.json import JsonValue, dumps
from agentkit_py.messages import Message, ToolResultMessage, derived
from agentkit_py.processors.base import ProcessorContext, Tokenizer
from agentkit_py.processors.settings import Check, ConfiguredProcessor, names, whole
from agentkit_py.processors.shortening import SHAPES, head_and_tail, parsed, shortened
from agentkit_py.processors.tokenizers import count_text, default_tokenizer, prepare
from agentkit_py.processors.tool_results import older_results, payload, rewritten

MARK = "compressed"
"""In the envelope of a compressed result, beside ``original_tokens``."""


@dataclass(frozen=True)
class CompressToolResults(ConfiguredProcessor):
    """Shortens tool results that have more than ``max_tokens`` tokens, but for the newest.

    JSON, also in a string, keeps its form: of lists the first and last items and how many there
    are, of objects the telling keys first, long strings by head and tail, all to a bounded depth;
    harder, then as text, if it is still too long. Text is cut by head and tail. The result then
    says ``"compressed": true`` and what it had: ``original_tokens``.

    Results of this agent's own calls of the current run, and pinned ones, stay as they are and are
    not counted.

    Args:
        max_tokens: Tokens of one result; at least 30, since saying what was done takes some.
        keep_recent: How many of the newest results stay as they are.
        exclude: Tools whose results stay as they are.

    Raises:
        ConfigurationError: A setting is not of its kind.
    """

    looks_back: ClassVar[bool] = False

    max_tokens: int = 200
    keep_recent: int = 5
    exclude: Iterable[str] = ()

    settings: ClassVar[Mapping[str, Check]] = {
        "max_tokens": whole(30),
        "keep_recent": whole(),
        "exclude": names,
    }
    aliases: ClassVar[Mapping[str, str]] = {
        "tool_output_max_tokens": "max_tokens",
        "preserve_recent_messages": "keep_recent",
        "exclude_tools": "exclude",
    }

    def __post_init__(self) -> None:
        """Check the settings."""
        self._check()

    @property
    def reason(self) -> str:
        """How long results may be."""
        return f"tool results over {self.max_tokens} tokens, but for the newest {self.keep_recent}"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages with long results shortened."""
        older = older_results(messages, context.held, self.keep_recent)
        if not older:
            return messages
        tokenizer = await prepare(context.tokenizer or default_tokenizer())
        rewrites = {
            index: self._shorter(cast("ToolResultMessage", messages[index]), tokenizer)
            for index in older
        }
        return rewritten(messages, rewrites)

    def _shorter(self, message: ToolResultMessage, tokenizer: Tokenizer) -> Message:
        tokens = count_text(message, tokenizer)
        if tokens <= self.max_tokens or message.tool.name in self.exclude or is_compressed(message):
            return message
        key = ("compress", self.max_tokens, tokenizer.key)
        return derived(message, key, lambda: self._compress(message, int(tokens), tokenizer))

    def _compress(self, message: ToolResultMessage, tokens: int, tokenizer: Tokenizer) -> Message:
        kind, found = payload(message)
        value = parsed(found)
        for shape in SHAPES if not isinstance(value, str) else ():
            made = _marked(message, kind, shortened(value, shape), tokens)
            if count_text(made, tokenizer) <= self.max_tokens:
                return made
        text = found if isinstance(found, str) else dumps(found)
        made = _as_text(message, kind, text, (tokens, self.max_tokens, tokenizer))
        # What says that something is missing must not cost more than what is missing.
        return made if count_text(made, tokenizer) < tokens else message


def _as_text(
    message: ToolResultMessage, kind: str, text: str, limit: tuple[int, int, Tokenizer]
) -> ToolResultMessage:
    """As much of ``text`` as fits, by halving."""
    tokens, most, tokenizer = limit
    low, high = 0, min(len(text), most * 12)
    best = _marked(message, kind, "", tokens)
    while low < high:
        middle = (low + high + 1) // 2
        made = _marked(message, kind, head_and_tail(text, middle), tokens)
        if count_text(made, tokenizer) <= most:
            low, best = middle, made
        else:
            high = middle - 1
    return best


def _marked(
    message: ToolResultMessage, kind: str, value: JsonValue, tokens: int
) -> ToolResultMessage:
    content: JsonValue = {kind: value, MARK: True, "original_tokens": tokens}
    return replace(message, content=content)


def is_compressed(message: ToolResultMessage) -> bool:
    """Whether `CompressToolResults` made it."""
    content = message.content
    return (
        isinstance(content, Mapping) and content.get(MARK) is True and "original_tokens" in content
    )
