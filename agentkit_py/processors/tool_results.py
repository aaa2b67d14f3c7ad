"""Processors that remove, clear, shorten or deduplicate tool calls and their results."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, Literal, TypeAlias, cast

from agentkit_py._core.json import JsonValue, dumps
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    Message,
    Messages,
    OpaqueMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    derived,
    text_of,
    without_ciphers,
)
from agentkit_py.processors.base import ProcessorContext, Tokenizer
from agentkit_py.processors.cutting import past_length
from agentkit_py.processors.pairing import (
    CallGroup,
    is_own,
    pair,
    rewritten,
    tools_of,
    without_calls,
)
from agentkit_py.processors.settings import ConfiguredProcessor, flag, names, optional, text, whole
from agentkit_py.processors.shortening import SHAPES, head_and_tail, head_only, parsed, shortened
from agentkit_py.processors.tokenizers import (
    count_messages,
    count_text,
    default_tokenizer,
    message_counter,
    prepare,
)


def own_or_names(name: str, value: object) -> frozenset[str] | Literal["own"]:
    """Check for a list of strings, or ``"own"``."""
    return "own" if value == "own" else names(name, value)


@dataclass(frozen=True, eq=False, repr=False)
class ToolCallFilter(ConfiguredProcessor):
    """Removes tool calls and their results from the messages that a model sees.

    A model that sees calls of tools it does not have tends to call them. Which tools an agent has
    does not change.

    Args:
        include: Keep only calls of these tools, by any agent; ``"own"``: calls that the agent
            made itself, of tools that it has (its servers' and hosted ones included). A call whose
            author is not known counts as the agent's own if it has a tool of this name.
        exclude: Remove calls of these tools only. With neither, all calls are removed.
        persist_results: Leave a line of text in place of removed calls ("Used **search** tool").

    Raises:
        ConfigurationError: Both ``include`` and ``exclude`` are given, or one is not a list of
            names.
    """

    looks_back: ClassVar[bool] = False

    _: KW_ONLY
    include: Annotated[Iterable[str] | Literal["own"] | None, optional(own_or_names)] = None
    exclude: Annotated[Iterable[str] | None, optional(names)] = None
    persist_results: Annotated[bool, flag] = False

    aliases: ClassVar[Mapping[str, str]] = {"persistResults": "persist_results"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.include is not None and self.exclude is not None:
            raise ConfigurationError(
                "ToolCallFilter takes include=… or exclude=…, not both: calls of tools that are "
                "not in include are removed anyway."
            )

    @property
    def reason(self) -> str:
        """The calls it removes, for reports."""
        if self.include is None and self.exclude is None:
            return "no tool calls"
        if self.include == "own":
            return "only its own tool calls"
        rule, tools = ("only", self.include) if self.exclude is None else ("no", self.exclude)
        return f"{rule} calls of {', '.join(sorted(tools or ())) or 'no tool'}"

    @property
    def hides(self) -> bool:
        """True: neither calls nor their results may be seen."""
        return True

    @property
    def by_agent(self) -> bool:
        """True if calls stay because the agent made them."""
        return self.include == "own"

    def keeps(self, tool: str) -> bool:
        """Return whether calls of ``tool`` stay by its name; with ``include="own"``: none does."""
        if self.include is not None:
            return self.include != "own" and tool in self.include
        return self.exclude is not None and tool not in self.exclude

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages without the calls that are filtered and their results."""
        own = context.own_tools
        if own is None:
            own = frozenset(spec.name for spec in context.tools)
        held = frozenset[int]() if context.may_drop else context.protected

        def keeps(index: int, number: int = 0) -> bool:
            message = messages[index]
            is_call = isinstance(message, ToolCallMessage)
            tool = message.tools[number].name if is_call else tools_of(message)[0]
            if id(message) in held:
                return True
            if self.include == "own":
                return is_own(message, tool, context.agent, own)
            return self.keeps(tool)

        def used(group: CallGroup) -> list[Message]:
            calls = (i for i in group.calls if messages[i].type == "tool_call")
            names = {i: list(enumerate(tools_of(messages[i]))) for i in calls}
            gone = {i: [name for n, name in names[i] if not keeps(i, n)] for i in names}
            return [_used_tools(messages[i], tools) for i, tools in gone.items() if tools]

        return without_calls(
            messages,
            keeps,
            keeps_orphan=keeps,
            keeps_hosted=keeps,
            in_place_of=used if self.persist_results else None,
            held=held,
        )


def _used_tools(message: Message, tools: Sequence[str]) -> Message:
    """Return the line in place of calls, in the words of the upstream proposal."""
    one = len(tools) == 1
    line = f"Used **{tools[0]}** tool" if one else f"Used tools: {', '.join(tools)}"
    return derived(message, ("used", *tools), partial(line_for, message, line))


def line_for(message: Message, text: str) -> TextMessage:
    """Return a line of text in place of a message, by the same author."""
    side, agent = message.from_history, message.agent
    return TextMessage("assistant", text, stop_reason="stop", from_history=side, agent=agent)


def older_results(messages: Messages, spared: frozenset[int], keep_recent: int) -> list[int]:
    """Return indices of the results that are neither spared nor among the newest, newest first.

    Messages that are spared, by their `id()`, are not counted.
    """
    found = [
        index
        for index in range(len(messages) - 1, -1, -1)
        if _holds_result(messages[index]) and id(messages[index]) not in spared
    ]
    return found[keep_recent:]


RESULT_LINE = "[Result of {name}: {content}]"
"""The text in place of a result of another agent's, or of a hosted tool's: its host takes no other
block than its own."""


def _holds_result(message: Message) -> bool:
    """Return whether a message is a tool's result, a hosted tool's among them; media are none."""
    if isinstance(message, OpaqueMessage):
        return message.part in ("result", "whole") and message.medium is None
    return isinstance(message, ToolResultMessage)


def _as_result(message: Message) -> ToolResultMessage:
    """Return a result; a hosted tool's as if it were ours."""
    if isinstance(message, ToolResultMessage):
        return message
    assert isinstance(message, OpaqueMessage)

    def make() -> ToolResultMessage:
        return ToolResultMessage(
            ToolCall(message.call_id, message.tool),
            {"data": without_ciphers(message.content)},
            from_history=message.from_history,
            agent=message.agent,
        )

    return cast("ToolResultMessage", derived(message, "as result", make))


def _with_results(messages: Messages, changed: Mapping[int, Message]) -> Messages:
    """Return the messages with other results; texts in place of hosted tools' calls and results."""
    rewrites: dict[int, Message] = {}
    calls: dict[str, int] = {}
    gone: set[int] = set()
    for index, message in enumerate(messages):
        made = changed.get(index, message)
        if isinstance(message, OpaqueMessage):
            if message.part == "call":
                calls[message.call_id] = index
            call = calls.pop(message.call_id, None) if message.part == "result" else None
            if isinstance(made, ToolResultMessage):
                gone |= set() if call is None else {call}
                made = _line(made)
        rewrites[index] = made
    found = rewritten(messages, rewrites)
    return [m for i, m in enumerate(found) if i not in gone] if gone else found


def _line(message: ToolResultMessage) -> Message:
    _, found = payload_of(message)
    content = found if isinstance(found, str) else dumps(found)
    text = RESULT_LINE.format(name=message.tool.name, content=content)
    return derived(message, "as line", lambda: line_for(message, text))


def _changed(
    messages: Messages, older: Sequence[int], change: Callable[[ToolResultMessage], Message]
) -> Messages:
    """Return the messages with some results changed."""
    results = {index: _as_result(messages[index]) for index in older}
    made = {index: change(result) for index, result in results.items()}
    return _with_results(messages, {i: m for i, m in made.items() if m is not results[i]})


@dataclass(frozen=True)
class ClearToolResults(ConfiguredProcessor):
    """Clears all but the newest tool results once more than ``trigger`` tokens would be sent.

    Prompt and history are counted. The calls stay, so the model knows what it did and can do it
    again; each cleared result is a placeholder. This agent's own calls of the current run, and
    pinned ones, stay and are not counted. Of a hosted tool a line of text stays, since its host
    takes its results back unchanged only.

    The cleared results are those that watching the conversation from its beginning would clear:
    whenever it had grown beyond ``trigger``, all results but the newest ``keep``.
    Between two such moments nothing old changes, and requests begin as those before, which
    providers cache.

    Args:
        trigger: Tokens from which on results are cleared; the default is Anthropic's
            (https://docs.claude.com/en/docs/build-with-claude/context-editing).
        keep: How many of the newest results stay when others are cleared.
        clear_inputs: Whether the arguments of these calls are cleared, too.
        exclude: Tools whose results stay.
        placeholder: The text in place of a result.
        clear_at_least: Nothing is cleared before results of so many tokens can be cleared at once;
            for conversations whose texts alone come near ``trigger``.

    Raises:
        ConfigurationError: A setting is not of its kind.
    """

    trigger: Annotated[int, whole()] = 100_000
    keep: Annotated[int, whole()] = 3
    clear_inputs: Annotated[bool, flag] = False
    exclude: Annotated[Iterable[str], names] = ()
    placeholder: Annotated[str, text] = "[tool result cleared]"
    clear_at_least: Annotated[int, whole()] = 0

    aliases: ClassVar[Mapping[str, str]] = {
        "clear_tool_inputs": "clear_inputs",
        "exclude_tools": "exclude",
    }

    _reason = "over {trigger} tokens: tool results but for the newest {keep}"

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages with old results cleared."""
        if not older_results(messages, context.held, self.keep):
            return messages
        tokenizer = await prepare(context.tokenizer or default_tokenizer())
        tokens = count_messages(messages, tokenizer) + count_messages(context.prompt, tokenizer)
        if tokens <= self.trigger:
            return messages
        before = [m for m in context.prompt if m.role == "system"]
        after = [m for m in context.prompt if m.role != "system"]
        end = past_length(messages, context)
        clearing = _Clearing(self, messages, tokenizer, context.held)
        clearing.add(before)
        clearing.add(messages[:end], 0)
        clearing.add(after)
        clearing.add(messages[end:], end)
        return _with_results(messages, clearing.rewrites)


class _Clearing:
    """A conversation that grows message by message; results are cleared when it is too long."""

    def __init__(
        self,
        processor: ClearToolResults,
        messages: Messages,
        tokenizer: Tokenizer,
        held: frozenset[int],
    ) -> None:
        self.rewrites: dict[int, Message] = {}
        self._processor = processor
        self._messages = messages
        self._count = message_counter(tokenizer)
        self._held = held
        self._calls = pair(messages).calls if processor.clear_inputs else {}
        self._emptied: dict[int, set[int]] = defaultdict(set)
        self._tokens = 0.0
        self._newest: deque[int] = deque()
        self._older: list[int] = []
        """Results that may be cleared."""
        self._older_tokens = 0.0

    def add(self, part: Messages, first: int | None = None) -> None:
        """Add messages of the history from the index ``first`` on; None: around the history."""
        for offset, message in enumerate(part):
            self._tokens += self._count(message)
            if first is not None and _holds_result(message):
                self._add_result(first + offset, message)
            if self._tokens > self._processor.trigger and self._older:
                self._clear()

    def _add_result(self, index: int, message: Message) -> None:
        if id(message) in self._held:
            return
        self._newest.append(index)
        if len(self._newest) > self._processor.keep:
            older = self._newest.popleft()
            result = _as_result(self._messages[older])
            if result.tool.name not in self._processor.exclude:
                self._older.append(older)
                if result.content != {"data": self._processor.placeholder}:
                    self._older_tokens += self._count(result)

    def _clear(self) -> None:
        if self._older_tokens < self._processor.clear_at_least:
            return
        placeholder = self._processor.placeholder
        for index in self._older:
            result = _as_result(self._messages[index])
            content = {"data": placeholder}
            self._put(index, _with_content(result, ("clear", placeholder), content))
            if index in self._calls:
                call, number = self._calls[index]
                self._emptied[call].add(number)
                message = cast("ToolCallMessage", self._messages[call])
                self._put(call, _emptied(message, self._emptied[call]))
        self._older.clear()
        self._older_tokens = 0.0

    def _put(self, index: int, message: Message) -> None:
        before = self.rewrites.get(index, self._messages[index])
        self.rewrites[index] = message
        self._tokens -= self._count(before) - self._count(message)


def _with_content(message: ToolResultMessage, key: Hashable, content: JsonValue) -> Message:
    if message.content == content:
        return message
    return derived(message, key, lambda: replace(message, content=content))


def _emptied(message: ToolCallMessage, numbers: set[int]) -> Message:
    """Return the message with some of its calls without their arguments."""
    if all(not message.tools[n].arguments and message.tools[n].malformed is None for n in numbers):
        return message
    tools = tuple(
        replace(call, arguments={}, malformed=None) if number in numbers else call
        for number, call in enumerate(message.tools)
    )
    key = ("clear inputs", frozenset(numbers))
    return derived(message, key, lambda: replace(message, tools=tools))


MARK = "compressed"
"""In the envelope of a compressed result, next to ``original_tokens``."""


@dataclass(frozen=True)
class CompressToolResults(ConfiguredProcessor):
    """Shortens tool results that have more than ``max_tokens`` tokens, but for the newest.

    JSON, also in a string, keeps its form: of lists the first and last items and how many there
    are, of objects the telling keys first, long strings by head and tail, all to a bounded depth;
    harder, then as text, if it is still too long. Text is cut by head and tail. The result then
    says ``"compressed": true`` and its ``original_tokens``.

    Results of this agent's own calls of the current run, and pinned ones, stay as they are and are
    not counted.

    A hosted tool's result, which its host takes back unchanged only, becomes a text, and its call
    goes.

    Args:
        max_tokens: Tokens of a result; at least 30, since a marker takes some.
        keep_recent: How many of the newest results stay as they are.
        exclude: Tools whose results stay as they are.

    Raises:
        ConfigurationError: A setting is not of its kind.
    """

    looks_back: ClassVar[bool] = False

    max_tokens: Annotated[int, whole(30)] = 200
    keep_recent: Annotated[int, whole()] = 5
    exclude: Annotated[Iterable[str], names] = ()

    aliases: ClassVar[Mapping[str, str]] = {
        "tool_output_max_tokens": "max_tokens",
        "preserve_recent_messages": "keep_recent",
        "exclude_tools": "exclude",
    }

    _reason = "tool results over {max_tokens} tokens, but for the newest {keep_recent}"

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages with long results shortened."""
        older = older_results(messages, context.held, self.keep_recent)
        if not older:
            return messages
        tokenizer = await prepare(context.tokenizer or default_tokenizer())
        return _changed(messages, older, lambda message: self._shorter(message, tokenizer))

    def _shorter(self, message: ToolResultMessage, tokenizer: Tokenizer) -> Message:
        tokens = count_text(message, tokenizer)
        if (
            tokens <= self.max_tokens
            or message.tool.name in self.exclude
            or _is_compressed(message.content)
        ):
            return message
        key = ("compress", self.max_tokens, tokenizer.key)
        return derived(message, key, lambda: self._compress(message, int(tokens), tokenizer))

    def _compress(self, message: ToolResultMessage, tokens: int, tokenizer: Tokenizer) -> Message:
        kind, found = payload_of(message)

        def marked(value: JsonValue) -> ToolResultMessage:
            content: JsonValue = {kind: value, MARK: True, "original_tokens": tokens}
            return replace(message, content=content)

        value = parsed(found)
        for shape in SHAPES if not isinstance(value, str) else ():
            made = marked(shortened(value, shape))
            if count_text(made, tokenizer) <= self.max_tokens:
                return made
        content = found if isinstance(found, str) else dumps(found)
        low, high = 0, min(len(content), self.max_tokens * 12)
        best = marked("")
        while low < high:  # as much of the text as fits, by halving
            middle = (low + high + 1) // 2
            made = marked(head_and_tail(content, middle))
            if count_text(made, tokenizer) <= self.max_tokens:
                low, best = middle, made
            else:
                high = middle - 1
        # The marker that something is missing must not cost more than the missing text.
        return best if count_text(best, tokenizer) < tokens else message


def _is_compressed(content: JsonValue) -> bool:
    return (
        isinstance(content, Mapping) and content.get(MARK) is True and "original_tokens" in content
    )


def payload_of(message: ToolResultMessage) -> tuple[str, JsonValue]:
    """Return the envelope's key and its content; content without an envelope counts as data."""
    content = message.content
    if isinstance(content, Mapping):
        found = cast("Mapping[str, JsonValue]", content)
        for key in ("error", "data"):
            if key in found:
                return key, found[key]
    return "data", content


NamedBy: TypeAlias = tuple[str, str | int]
"""A key that names a record, with its value."""

_ID = re.compile(r"(?:^|[_\W]|(?<=[a-z]))(?:id|ID|Id|number|no|code|key|sku|uuid)$")


def is_id(key: str) -> bool:
    """Return whether a key names a record: ``id``, ``order_id``, ``flight_number``."""
    return _ID.search(key) is not None


def id_of(record: Mapping[str, JsonValue]) -> NamedBy | None:
    """Return the first of a record's keys that names it, with its value."""
    for key, value in record.items():
        if is_id(key) and isinstance(value, str | int):
            return key, value
    return None


@dataclass(frozen=True)
class TruncateToolResults(ConfiguredProcessor):
    """Cuts tool results off after ``max_chars`` characters, and says how many are missing.

    A result that is not a text is cut as compact JSON, and is text then. This agent's own current
    results are cut, too: a result that is too long for the model is so from the first.

    Args:
        max_chars: Characters of a result, including the note that it was cut.
        keep_recent: How many of the newest results stay as they are.
        exclude: Tools whose results stay as they are.

    Raises:
        ConfigurationError: A setting is not of its kind.
    """

    looks_back: ClassVar[bool] = False

    max_chars: Annotated[int, whole(1)] = 1000
    keep_recent: Annotated[int, whole()] = 0
    exclude: Annotated[Iterable[str], names] = ()

    aliases: ClassVar[Mapping[str, str]] = {"exclude_tools": "exclude"}

    _reason = "tool results over {max_chars} characters"

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages with long results cut off."""
        older = older_results(messages, context.pinned, self.keep_recent)
        # A hosted tool's results of this run are sent back whole, or the reply cannot continue.
        hosted = {id(m) for m in messages if m.type == "opaque"} & context.held
        return _changed(
            messages, [i for i in older if id(messages[i]) not in hosted], self._shorter
        )

    def _shorter(self, message: ToolResultMessage) -> Message:
        # The text with its envelope is computed once, and never shorter than its content.
        if len(text_of(message)) <= self.max_chars or message.tool.name in self.exclude:
            return message
        return derived(message, ("truncate", self.max_chars), lambda: self._cut(message))

    def _cut(self, message: ToolResultMessage) -> Message:
        kind, found = payload_of(message)
        content = found if isinstance(found, str) else dumps(found)
        if len(content) <= self.max_chars:
            return message
        short = head_only(content, self.max_chars)
        return replace(
            message, content=short if isinstance(message.content, str) else {kind: short}
        )


REFERENCE = "[The same as the newer result of {name} with {arguments}, further down]"
OUTDATED = "[Outdated: {name} was called with {arguments} again, further down]"
CHANGED = "[Outdated: {key} {value} is in a newer result, further down]"
_REFERENCES = ('{"data":"[The same as the newer result of ', '{"data":"[Outdated: ')
_ARGUMENTS = 80  # characters of a call's arguments in a reference


@dataclass(frozen=True)
class Deduplicate(ConfiguredProcessor):
    """Replaces results that are repeated later in the history by a reference to the last.

    That is so for a result of the same tool that is equal, and for any result of a tool in
    ``reads`` that was called with the same arguments again: a file that was read again. Errors
    neither replace nor are replaced. This agent's own calls of the current run, and pinned ones,
    stay.

    With ``texts``, so is a text of the user's: a long document that was pasted twice.

    With ``records``, so is an older state of a record: a JSON object whose id, and all of whose
    keys, are in a newer result of the same call, or of another tool if at least half of the other
    values are still the same. What a record was before a change is not in the history then.
    Results must be JSON still: put it before `TableResults`.

    Args:
        reads: Tools that read something: a newer result for the same arguments replaces an older.
        min_chars: Shorter results stay, since a reference would not be shorter.
        texts: Whether texts of the user are replaced, too, where the user sent the same again.
        records: Whether older states of a record are replaced.

    Raises:
        ConfigurationError: A setting is not of its kind.
    """

    reads: Annotated[Iterable[str], names] = ()
    min_chars: Annotated[int, whole(1)] = 200
    texts: Annotated[bool, flag] = False
    records: Annotated[bool, flag] = False

    @property
    def reason(self) -> str:
        """The results it replaces, for reports."""
        what = "results and texts" if self.texts else "results"
        older = ", and older states of records" if self.records else ""
        return f"{what} that are repeated further down{older}"

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages with references in place of older equal results."""
        # Only the call is sure to have the arguments.
        calls = pair(messages).calls if self.reads or self.records else {}
        held = context.held
        seen: set[Hashable] = set()
        states: dict[Hashable, list[_RecordState]] = defaultdict(list)
        rewrites: dict[int, Message] = {}
        for message in context.prompt if self.texts else ():
            self._is_repeated(message, seen)
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if self.texts and self._is_repeated(message, seen) and id(message) not in held:
                rewrites[index] = derived(message, "same text", partial(_same_text, message))
            if not isinstance(message, ToolResultMessage) or message.is_error:
                continue
            call = message.tool
            if index in calls:
                at, number = calls[index]
                call = cast("ToolCallMessage", messages[at]).tools[number]
            reference = self._reference(message, call, seen)
            if self.records:
                reference = self._newer_state(message, call, states) or reference
            if reference is not None and id(message) not in held:
                content = {"data": reference}
                rewrites[index] = _with_content(message, ("duplicate", reference), content)
        return rewritten(messages, rewrites)

    def _is_repeated(self, message: Message, seen: set[Hashable]) -> bool:
        """Return whether a user's text is there again further down; record that it is."""
        if not isinstance(message, TextMessage) or message.role != "user":
            return False
        content = message.content
        if not isinstance(content, str) or len(content) < self.min_chars:
            return False
        said = (message.role, content.strip())  # pasted again, with another line's end
        is_seen = said in seen
        seen.add(said)
        return is_seen

    def _reference(
        self, message: ToolResultMessage, call: ToolCall, seen: set[Hashable]
    ) -> str | None:
        """Return the reference for a result that is repeated later; record the repetition."""
        content = text_of(message)
        if content.startswith(_REFERENCES):
            return None
        same = (message.tool.name, content)
        template = REFERENCE if len(content) >= self.min_chars and same in seen else None
        seen.add(same)
        if call.name in self.reads:
            arguments = (call.name, dumps(call.arguments))
            if template is None and arguments in seen and len(content) >= self.min_chars:
                template = OUTDATED
            seen.add(arguments)
        if template is None:
            return None
        short = head_and_tail(dumps(call.arguments), _ARGUMENTS)
        return template.format(name=call.name, arguments=short)

    def _newer_state(
        self, message: ToolResultMessage, call: ToolCall, states: dict[Hashable, list[_RecordState]]
    ) -> str | None:
        """Return the reference for a record that is repeated later; record the repetition."""
        kind, inner = payload_of(message)
        record = parsed(inner) if kind == "data" else None
        named = id_of(record) if isinstance(record, dict) else None
        if named is None or not isinstance(record, dict):
            return None
        state = _RecordState(call.name, dumps(call.arguments), record)
        newer = any(state.is_before(one) for one in states[named])
        if not newer:
            states[named].append(state)
        if not newer or len(text_of(message)) < self.min_chars:
            return None
        return CHANGED.format(key=named[0], value=head_and_tail(str(named[1]), _ARGUMENTS))


@dataclass(frozen=True, slots=True)
class _RecordState:
    """A record as a call gave it."""

    tool: str
    arguments: str
    record: Mapping[str, JsonValue]

    def is_before(self, newer: _RecordState) -> bool:
        """Return whether ``newer`` is the same record, later, with all that it had."""
        if not self.record.keys() <= newer.record.keys():
            return False
        if self.tool == newer.tool:  # other arguments may show another part of it
            return self.arguments == newer.arguments
        same = sum(newer.record[key] == value for key, value in self.record.items())
        others = len(self.record) - 1
        return others > 0 and (same - 1) * 2 >= others


SAME_TEXT = "[The same text as in a newer message of the user, further down]"


def _same_text(message: Message) -> Message:
    return TextMessage("user", SAME_TEXT, from_history=message.from_history)
