"""Putting a placeholder in place of old tool results, as Anthropic's API does."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import ClassVar

from agentkit_py.messages import Message, ToolCall, ToolCallMessage, ToolResultMessage, derived
from agentkit_py.processors.base import ProcessorContext, Tokenizer
from agentkit_py.processors.cutting import past_length
from agentkit_py.processors.pairing import pair
from agentkit_py.processors.settings import (
    Check,
    ConfiguredProcessor,
    flag,
    names,
    text,
    whole,
)
from agentkit_py.processors.tokenizers import (
    count_messages,
    default_tokenizer,
    message_counter,
    prepare,
)
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

    What is cleared is what somebody would have cleared who watched the conversation from its
    beginning: whenever it had grown beyond ``trigger``, all results but the newest ``keep``.
    Between two such moments nothing old changes, and requests begin as those before, which
    providers cache.

    Args:
        trigger: Tokens from which on results are cleared.
        keep: How many of the newest results stay when others are cleared.
        clear_inputs: Whether the arguments of these calls are cleared, too.
        exclude: Tools whose results stay.
        placeholder: What stands in place of a result.
        clear_at_least: Nothing is cleared before results of so many tokens can be cleared at once;
            for conversations whose texts alone come near ``trigger``.

    Raises:
        ConfigurationError: A setting is not of its kind.
    """

    trigger: int = DEFAULT_TRIGGER
    keep: int = 3
    clear_inputs: bool = False
    exclude: Iterable[str] = ()
    placeholder: str = PLACEHOLDER
    clear_at_least: int = 0

    settings: ClassVar[Mapping[str, Check]] = {
        "trigger": whole(),
        "keep": whole(),
        "clear_inputs": flag,
        "exclude": names,
        "placeholder": text,
        "clear_at_least": whole(),
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
        if not older_results(messages, context.held, self.keep):
            return messages
        tokenizer = await prepare(context.tokenizer or default_tokenizer())
        tokens = count_messages(messages, tokenizer) + count_messages(context.prompt, tokenizer)
        if tokens <= self.trigger:
            return messages
        watch = _Watch(self, messages, tokenizer, context.held)
        watch.see_prompt(m for m in context.prompt if m.role == "system")
        end = past_length(messages, context)
        watch.see(0, end)
        watch.see_prompt(m for m in context.prompt if m.role != "system")
        watch.see(end, len(messages))
        return rewritten(messages, watch.rewrites)

    def cleared(self, message: Message) -> Message:
        """The message with the placeholder."""
        assert isinstance(message, ToolResultMessage)
        content = {"data": self.placeholder}
        if message.content == content:
            return message
        key = ("clear", self.placeholder)
        return derived(message, key, lambda: replace(message, content=content))


class _Watch:
    """Sees a conversation grow message by message, and clears results when it is too long."""

    def __init__(
        self,
        policy: ClearToolResults,
        messages: Sequence[Message],
        tokenizer: Tokenizer,
        held: frozenset[int],
    ) -> None:
        self.rewrites: dict[int, Message] = {}
        self._policy = policy
        self._messages = messages
        self._count = message_counter(tokenizer)
        self._held = held
        self._calls = pair(messages).calls if policy.clear_inputs else {}
        self._emptied: dict[int, set[int]] = {}
        self._tokens = 0.0
        self._newest: deque[int] = deque()
        self._older: list[int] = []
        """Results that may be cleared, and what they have together."""
        self._older_tokens = 0.0

    def see_prompt(self, prompt: Iterable[Message]) -> None:
        """Messages around the history."""
        self._tokens += sum(map(self._count, prompt))
        self._clear_if_needed()

    def see(self, start: int, stop: int) -> None:
        """Messages of the history, one after the other."""
        held, keep = self._held, self._policy.keep
        part = self._messages[start:stop]
        sums = list(accumulate(map(self._count, part), initial=self._tokens))
        cleared = 0.0
        # What can be cleared changes with results only, and until the next one it only gets more.
        for index, message in enumerate(part):
            if message.type == "tool_result" and id(message) not in held:
                cleared += self._clear_at(sums[index] - cleared)
                self._newest.append(start + index)
                if len(self._newest) > keep:
                    self._grow_old(self._newest.popleft())
        cleared += self._clear_at(sums[-1] - cleared)
        self._tokens = sums[-1] - cleared

    def _clear_at(self, tokens: float) -> float:
        """Clear if so many tokens are too many; how many there are less then."""
        self._tokens = tokens
        self._clear_if_needed()
        return tokens - self._tokens

    def _grow_old(self, index: int) -> None:
        message = self._messages[index]
        assert isinstance(message, ToolResultMessage)
        if message.tool.name not in self._policy.exclude:
            self._older.append(index)
            if message.content != {"data": self._policy.placeholder}:
                self._older_tokens += self._count(message)

    def _clear_if_needed(self) -> None:
        policy = self._policy
        if self._tokens <= policy.trigger or self._older_tokens < policy.clear_at_least:
            return
        for index in self._older:
            self._put(index, policy.cleared(self._messages[index]))
            if index in self._calls:
                call, place = self._calls[index]
                places = self._emptied.setdefault(call, set())
                places.add(place)
                self._put(call, _emptied(self._messages[call], places))
        self._older.clear()
        self._older_tokens = 0.0

    def _put(self, index: int, message: Message) -> None:
        before = self.rewrites.get(index, self._messages[index])
        self.rewrites[index] = message
        self._tokens -= self._count(before) - self._count(message)


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
