"""Processors that remove, clear, shorten or deduplicate tool calls and their results."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import ClassVar, TypeAlias, cast

from agentkit_py._core.json import JsonValue, dumps
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    Message,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    derived,
    text_of,
)
from agentkit_py.processors.base import ProcessorContext, Tokenizer
from agentkit_py.processors.cutting import past_length
from agentkit_py.processors.pairing import CallGroup, pair, rest_of, without_calls
from agentkit_py.processors.settings import (
    Check,
    ConfiguredProcessor,
    flag,
    names,
    optional,
    text,
    whole,
)
from agentkit_py.processors.settings import names as name_list
from agentkit_py.processors.tokenizers import (
    count_messages,
    count_text,
    default_tokenizer,
    message_counter,
    prepare,
)

Rewrites: TypeAlias = Mapping[int, Message]
"""Index of a message → what stands for it."""


def older_results(
    messages: Sequence[Message], spared: frozenset[int], keep_recent: int
) -> list[int]:
    """Indices of the results that are neither spared nor among the newest, newest first.

    Args:
        messages: The history.
        spared: `id()` of messages that stay as they are and are not counted.
        keep_recent: How many of the others stay as they are.
    """
    found = [
        index
        for index in range(len(messages) - 1, -1, -1)
        if messages[index].type == "tool_result" and id(messages[index]) not in spared
    ]
    return found[keep_recent:]


def rewritten(messages: Sequence[Message], rewrites: Rewrites) -> Sequence[Message]:
    """The messages with some replaced; ``messages`` itself if none is."""
    changed = {i: m for i, m in rewrites.items() if m is not messages[i]}
    if not changed:
        return messages
    left = list(messages)
    for index, message in changed.items():
        left[index] = message
    return left


def payload(message: ToolResultMessage) -> tuple[str, JsonValue]:
    """The envelope's key and what is in it; content without an envelope counts as data."""
    content = message.content
    if isinstance(content, Mapping):
        found = cast("Mapping[str, JsonValue]", content)
        for key in ("error", "data"):
            if key in found:
                return key, found[key]
    return "data", content


LEFT_OUT = " … [{count} characters left out] … "


@dataclass(frozen=True, slots=True)
class Shape:
    """How much of a JSON value is left."""

    first: int
    """Items at the beginning of a list."""

    last: int
    """Items at its end."""

    chars: int
    """Characters of a string."""

    depth: int
    """Levels of lists and objects."""

    keys: int
    """Keys of an object."""


SHAPES = (Shape(2, 2, 100, 3, 10), Shape(1, 1, 60, 2, 8), Shape(1, 0, 40, 2, 5))
"""From the first, which is the seed system's (first and last two items, strings of 100 characters,
depth 3, 10 keys), to what is hardly more than counts."""

IMPORTANT = (
    "success",
    "ok",
    "error",
    "message",
    "status",
    "total",
    "count",
    "id",
    "title",
    "name",
    "type",
    "start",
    "start_time",
)
"""Keys that stay first when an object has too many."""

_RANKS = {key: rank for rank, key in enumerate(IMPORTANT)}


def head_and_tail(text: str, chars: int) -> str:
    """The beginning and the end of ``text``, at most ``chars`` characters with what says so.

    With less room than that needs, it is cut off.
    """
    if len(text) <= chars:
        return text
    # The number in between may have as many digits as the length has.
    room = chars - len(LEFT_OUT.format(count=len(text)))
    if room < 1:
        return text[: max(chars - 1, 0)] + "…"
    tail = room // 3
    head = room - tail
    note = LEFT_OUT.format(count=len(text) - room)
    return f"{text[:head]}{note}{text[len(text) - tail :]}"


def head_only(text: str, chars: int) -> str:
    """The beginning of ``text``, at most ``chars`` characters with what says so."""
    if len(text) <= chars:
        return text
    room = chars - len(LEFT_OUT.format(count=len(text)).rstrip("… "))
    if room < 1:
        return text[: max(chars - 1, 0)] + "…"
    return text[:room] + LEFT_OUT.format(count=len(text) - room).rstrip("… ")


def shortened(value: JsonValue, shape: Shape) -> JsonValue:
    """``value`` with lists, objects and strings shortened; the same object if all of it fits."""
    return _shortened(value, shape, shape.depth)


def _shortened(value: JsonValue, shape: Shape, depth: int) -> JsonValue:
    if isinstance(value, str):
        return head_and_tail(value, shape.chars)
    if isinstance(value, Mapping):
        found = cast("Mapping[str, JsonValue]", value)
        return _object(found, shape, depth) if found else value
    if isinstance(value, Sequence):
        return _list(value, shape, depth) if value else value
    return value


def _object(value: Mapping[str, JsonValue], shape: Shape, depth: int) -> JsonValue:
    if depth <= 0:
        return f"{{… {len(value)} keys …}}"
    if len(value) <= shape.keys:
        return {key: _shortened(item, shape, depth - 1) for key, item in value.items()}
    ranked = sorted(value, key=lambda key: _RANKS.get(key, len(_RANKS)))
    chosen = set(ranked[: shape.keys])
    kept = {key: _shortened(item, shape, depth - 1) for key, item in value.items() if key in chosen}
    left_out = [key for key in value if key not in chosen]
    note = head_and_tail(", ".join(left_out), shape.chars)
    return {**kept, "…": f"{len(left_out)} more keys: {note}"}


def _list(value: Sequence[JsonValue], shape: Shape, depth: int) -> JsonValue:
    if depth <= 0:
        return f"[… {len(value)} items …]"
    first, last = shape.first, shape.last
    if len(value) <= first + last + 1:
        return [_shortened(item, shape, depth - 1) for item in value]
    head = [_shortened(item, shape, depth - 1) for item in value[:first]]
    tail = [_shortened(item, shape, depth - 1) for item in value[len(value) - last :]]
    return [*head, f"… {len(value) - first - last} of {len(value)} items left out …", *tail]


def parsed(value: JsonValue) -> JsonValue:
    """The list or object that a string holds as JSON; every other value as it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        found: object = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return cast("JsonValue", found) if isinstance(found, list | dict) else value


class ToolCallFilter(ConfiguredProcessor):
    """Removes tool calls and their results from what a model sees.

    A model that sees calls of tools it does not have tends to call them. Which tools an agent has
    does not change.

    Args:
        include: Keep calls of these tools only.
        exclude: Remove calls of these tools only. With neither, all calls are removed.
        persist_results: Leave a line of text in place of what is removed ("Used **search** tool").

    Raises:
        ConfigurationError: Both ``include`` and ``exclude`` are given, or one is no list of names.
    """

    looks_back: ClassVar[bool] = False

    settings: ClassVar[Mapping[str, Check]] = {
        "include": optional(name_list),
        "exclude": optional(name_list),
        "persist_results": flag,
    }
    aliases: ClassVar[Mapping[str, str]] = {"persistResults": "persist_results"}

    def __init__(
        self,
        *,
        include: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        persist_results: bool = False,
    ) -> None:
        if include is not None and exclude is not None:
            raise ConfigurationError(
                "ToolCallFilter takes include=… or exclude=…, not both: calls of tools that are "
                "not in include are removed anyway."
            )
        self._include = None if include is None else _names("include", include)
        self._exclude = None if exclude is None else _names("exclude", exclude)
        self._persist_results = persist_results

    @property
    def reason(self) -> str:
        """Which calls it removes."""
        if self._include is not None:
            return f"only calls of {_listed(self._include)}"
        if self._exclude is not None:
            return f"no calls of {_listed(self._exclude)}"
        return "no tool calls"

    def keeps(self, tool: str) -> bool:
        """Whether calls of ``tool`` stay."""
        if self._include is not None:
            return tool in self._include
        return self._exclude is not None and tool not in self._exclude

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages without the calls that are filtered and their results."""
        rule = _Rule(self, messages, context)
        left = None if self._persist_results or context.protected else rule.by_name()
        if left is not None:
            return messages if len(left) == len(messages) and not rule.changed else left
        if not any(rule.affects(message) for message in messages):
            return messages
        return without_calls(
            messages,
            rule.keeps_call,
            keeps_orphan=rule.keeps_orphan,
            in_place_of=rule.summaries if self._persist_results else None,
        )


class _Rule:
    """A filter on one list."""

    def __init__(
        self, rule: ToolCallFilter, messages: Sequence[Message], context: ProcessorContext
    ) -> None:
        self._messages = messages
        self._context = context
        self._keeps = _Verdicts(rule)
        self.changed = False
        """Whether a call message lost some of its calls only."""

    def by_name(self) -> list[Message] | None:
        """What is left where each message decides for itself; None: some do not.

        A result has the tool of its call unless it names none; reasoning goes with its calls.
        """
        keeps = self._keeps
        left: list[Message] = []
        reasoned = False
        for message in self._messages:
            rest: Message | None = message
            if message.type == "text":
                reasoned = False
            elif message.type == "tool_result":
                if not message.tool.name:
                    return None
                if not keeps[message.tool.name]:
                    continue
            elif message.type == "tool_call":
                rest = self._rest(message)
                if reasoned and rest is not message:
                    return None
                if rest is None:
                    continue
            else:
                reasoned = True
            left.append(rest)
        return left

    def _rest(self, message: ToolCallMessage) -> ToolCallMessage | None:
        keeps, tools = self._keeps, message.tools
        if len(tools) == 1:
            return message if keeps[tools[0].name] else None
        kept = [place for place, call in enumerate(tools) if keeps[call.name]]
        rest = rest_of(message, kept)
        self.changed = self.changed or rest is not message
        return rest

    def affects(self, message: Message) -> bool:
        """Whether ``message`` is one that cannot stay as it is."""
        match message:
            case ToolCallMessage():
                filtered = not message.tools or not all(self._keeps[c.name] for c in message.tools)
            case ToolResultMessage():
                # Without a name it is its call's tool that counts.
                filtered = not self._keeps[message.tool.name]
            case _:
                return False
        return filtered and not self._context.is_protected(message)

    def keeps_call(self, index: int, place: int) -> bool:
        """Whether one call stays."""
        message = self._messages[index]
        assert isinstance(message, ToolCallMessage)
        return self._stays(message, message.tools[place])

    def keeps_orphan(self, index: int) -> bool:
        """Whether a result stays that answers no call: it has a tool, too."""
        message = self._messages[index]
        assert isinstance(message, ToolResultMessage)
        return self._stays(message, message.tool)

    def _stays(self, message: Message, call: ToolCall) -> bool:
        return self._keeps[call.name] or self._context.is_protected(message)

    def summaries(self, group: CallGroup) -> list[Message]:
        """A line for each call message of ``group`` that loses calls."""
        summaries: list[Message] = []
        for index in group.calls:
            message = self._messages[index]
            if not isinstance(message, ToolCallMessage):
                continue
            names = [call.name for call in message.tools if not self._stays(message, call)]
            if names:
                summaries.append(
                    TextMessage(
                        "assistant",
                        _summary(names),
                        stop_reason="stop",
                        from_history=message.from_history,
                        agent=message.agent,
                    )
                )
        return summaries


class _Verdicts(dict[str, bool]):
    """Which tools' calls stay, asked once for each name."""

    def __init__(self, rule: ToolCallFilter) -> None:
        self._rule = rule

    def __missing__(self, name: str) -> bool:
        self[name] = verdict = self._rule.keeps(name)
        return verdict


def _summary(names: Sequence[str]) -> str:
    """The words of the upstream proposal."""
    return f"Used **{names[0]}** tool" if len(names) == 1 else f"Used tools: {', '.join(names)}"


def _names(option: str, value: Iterable[str]) -> frozenset[str]:
    names = None if isinstance(value, str) else list(value)
    if names is None or not all(isinstance(name, str) for name in names):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"{option} must be a list of tool names, not {value!r}.")
    return frozenset(names)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "no tool"


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


@dataclass(frozen=True)
class TruncateToolResults(ConfiguredProcessor):
    """Cuts tool results off after ``max_chars`` characters, and says how many are missing.

    A result that is no text is cut as compact JSON, and is text then. This agent's own current
    results are cut, too: a result that is too long for the model is so from the first.

    Args:
        max_chars: Characters of one result, with what says that it was cut.
        keep_recent: How many of the newest results stay as they are.
        exclude: Tools whose results stay as they are.

    Raises:
        ConfigurationError: A setting is not of its kind.
    """

    looks_back: ClassVar[bool] = False

    max_chars: int = 1000
    keep_recent: int = 0
    exclude: Iterable[str] = ()

    settings: ClassVar[Mapping[str, Check]] = {
        "max_chars": whole(1),
        "keep_recent": whole(),
        "exclude": names,
    }
    aliases: ClassVar[Mapping[str, str]] = {"exclude_tools": "exclude"}

    def __post_init__(self) -> None:
        """Check the settings."""
        self._check()

    @property
    def reason(self) -> str:
        """How long results may be."""
        return f"tool results over {self.max_chars} characters"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages with long results cut off."""
        older = older_results(messages, context.pinned, self.keep_recent)
        rewrites = {
            index: self._shorter(cast("ToolResultMessage", messages[index])) for index in older
        }
        return rewritten(messages, rewrites)

    def _shorter(self, message: ToolResultMessage) -> Message:
        # The text with its envelope is computed once, and never shorter than what is in it.
        if len(text_of(message)) <= self.max_chars or message.tool.name in self.exclude:
            return message
        return derived(message, ("truncate", self.max_chars), lambda: self._cut(message))

    def _cut(self, message: ToolResultMessage) -> Message:
        kind, found = payload(message)
        text = found if isinstance(found, str) else dumps(found)
        if len(text) <= self.max_chars:
            return message
        content: JsonValue = head_only(text, self.max_chars)
        if not isinstance(message.content, str):
            content = {kind: content}
        return replace(message, content=content)


REFERENCE = "[The same as the newer result of {name} with {arguments}, further down]"
OUTDATED = "[Outdated: {name} was called with {arguments} again, further down]"
_REFERENCES = ('{"data":"[The same as the newer result of ', '{"data":"[Outdated: ')
_ARGUMENTS = 80  # characters of a call's arguments in a reference


@dataclass(frozen=True)
class Deduplicate(ConfiguredProcessor):
    """Replaces results that stand in the history again, further down, by a reference to these.

    That is so for a result of the same tool that is equal, and for any result of a tool in
    ``reads`` that was called with the same arguments again: a file that was read anew. Errors
    neither replace nor are replaced. This agent's own calls of the current run, and pinned ones,
    stay.

    Args:
        reads: Tools that read something: a newer result for the same arguments replaces an older.
        min_chars: Shorter results stay, since a reference would be no shorter.

    Raises:
        ConfigurationError: A setting is not of its kind.
    """

    reads: Iterable[str] = ()
    min_chars: int = 200

    settings: ClassVar[Mapping[str, Check]] = {"reads": names, "min_chars": whole(1)}

    def __post_init__(self) -> None:
        """Check the settings."""
        self._check()

    @property
    def reason(self) -> str:
        """What it replaces."""
        return "results that stand further down again"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages with references in place of older equal results."""
        calls: dict[int, ToolCall] = {}
        if self.reads and any(m.type == "tool_result" for m in messages):
            calls = _calls(messages)
        held = context.held
        seen: set[Hashable] = set()
        rewrites: dict[int, Message] = {}
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if not isinstance(message, ToolResultMessage) or message.is_error:
                continue
            call = calls.get(index, message.tool)
            reference = self._reference(message, call, seen)
            if reference is not None and id(message) not in held:
                rewrites[index] = _replaced(message, reference)
        return rewritten(messages, rewrites)

    def _reference(
        self, message: ToolResultMessage, call: ToolCall, seen: set[Hashable]
    ) -> str | None:
        """What stands for ``message`` if it is there again, further down; notes that it is."""
        text = text_of(message)
        if text.startswith(_REFERENCES):
            return None
        same = (message.tool.name, text)
        template = REFERENCE if len(text) >= self.min_chars and same in seen else None
        seen.add(same)
        if call.name in self.reads:
            arguments = (call.name, dumps(call.input))
            if template is None and arguments in seen and len(text) >= self.min_chars:
                template = OUTDATED
            seen.add(arguments)
        if template is None:
            return None
        short = head_and_tail(dumps(call.input), _ARGUMENTS)
        return template.format(name=call.name, arguments=short)


def _calls(messages: Sequence[Message]) -> dict[int, ToolCall]:
    """The call of each result: only there its arguments are sure to stand."""
    found: dict[int, ToolCall] = {}
    for result, (index, place) in pair(messages).calls.items():
        message = messages[index]
        assert message.type == "tool_call"
        found[result] = message.tools[place]
    return found


def _replaced(message: ToolResultMessage, reference: str) -> Message:
    content = {"data": reference}
    if message.content == content:
        return message
    return derived(message, ("duplicate", reference), lambda: replace(message, content=content))
