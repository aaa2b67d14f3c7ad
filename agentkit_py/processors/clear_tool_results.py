"""Putting a placeholder in place of old tool results, as Anthropic's API does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from agentkit_py.messages import Message, ToolCall, ToolCallMessage, ToolResultMessage, derived
from agentkit_py.processors.base import ProcessorContext
from agentkit_py.processors.pairing import pair
from agentkit_py.processors.settings import (
    Check,
    ConfiguredProcessor,
    flag,
    names,
    text,
    whole,
)
from agentkit_py.processors.tokenizers import count_messages, default_tokenizer, prepare
from agentkit_py.processors.tool_results import older_results, rewritten

DEFAULT_TRIGGER = 100_000
"""Tokens: Anthropic's default
(https://docs.claude.com/en/docs/build-with-claude/context-editing)."""

PLACEHOLDER = "[tool result cleared]"


@dataclass(frozen=True)
class ClearToolResults(ConfiguredProcessor):
    """Clears all but the newest tool results once more than ``trigger`` tokens would be sent.

    Prompt and history are counted. The calls stay, so the model knows what it did and can do it
    again; each cleared result is a placeholder. This agent's own calls of the current run, and
    pinned ones, stay and are not counted.

    Args:
        trigger: Tokens from which on results are cleared.
        keep: How many of the newest results stay.
        clear_inputs: Whether the arguments of these calls are cleared, too.
        exclude: Tools whose results stay.
        placeholder: What stands in place of a result.

    Raises:
        ConfigurationError: A setting is not of its kind.
    """

    trigger: int = DEFAULT_TRIGGER
    keep: int = 3
    clear_inputs: bool = False
    exclude: Iterable[str] = ()
    placeholder: str = PLACEHOLDER

    settings: ClassVar[Mapping[str, Check]] = {
        "trigger": whole(),
        "keep": whole(),
        "clear_inputs": flag,
        "exclude": names,
        "placeholder": text,
    }
    aliases: ClassVar[Mapping[str, str]] = {
        "clear_tool_inputs": "clear_inputs",
        "exclude_tools": "exclude",
    }

    def __post_init__(self) -> None:
        """Check the settings."""
        self._check()

    @property
    def reason(self) -> str:
        """When and what it clears."""
        return f"over {self.trigger} tokens: tool results but for the newest {self.keep}"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages with old results cleared."""
        older = older_results(messages, context.held, self.keep)
        if not older:
            return messages
        tokenizer = await prepare(context.tokenizer or default_tokenizer())
        tokens = count_messages(messages, tokenizer) + count_messages(context.prompt, tokenizer)
        if tokens <= self.trigger:
            return messages
        rewrites: dict[int, Message] = {}
        for index in older:
            message = messages[index]
            assert isinstance(message, ToolResultMessage)
            if message.tool.name not in self.exclude:
                rewrites[index] = self._cleared(message)
        if self.clear_inputs:
            rewrites |= self._without_inputs(messages, rewrites)
        return rewritten(messages, rewrites)

    def _cleared(self, message: ToolResultMessage) -> Message:
        content = {"data": self.placeholder}
        if message.content == content:
            return message
        key = ("clear", self.placeholder)
        return derived(message, key, lambda: replace(message, content=content))

    def _without_inputs(
        self, messages: Sequence[Message], cleared: Mapping[int, Message]
    ) -> dict[int, Message]:
        """The call messages of cleared results, without these calls' arguments."""
        calls = pair(messages).calls
        places: dict[int, set[int]] = {}
        for result in cleared:
            if result in calls:
                index, place = calls[result]
                places.setdefault(index, set()).add(place)
        return {index: _emptied(messages[index], found) for index, found in places.items()}


def _emptied(message: Message, places: set[int]) -> Message:
    assert isinstance(message, ToolCallMessage)
    tools = tuple(
        _without_input(call) if place in places else call
        for place, call in enumerate(message.tools)
    )
    if all(a is b for a, b in zip(tools, message.tools, strict=True)):
        return message
    key = ("clear inputs", frozenset(places))
    return derived(message, key, lambda: replace(message, tools=tools))


def _without_input(call: ToolCall) -> ToolCall:
    if not call.input and call.malformed is None:
        return call
    return replace(call, input={}, malformed=None)
