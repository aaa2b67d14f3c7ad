"""Processors that keep the newest of a history: messages, tokens, calls; and pins, which stay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message, ToolCallMessage, text_of
from agentkit_py.processors.base import HistoryProcessor, ProcessorContext, Tokenizer
from agentkit_py.processors.cutting import Places, newest_stretch, next_cut
from agentkit_py.processors.pairing import (
    call_groups,
    is_joined,
    is_same,
    pair,
    pair_adjacent,
    texts_of_whole,
    without_calls,
)
from agentkit_py.processors.settings import (
    Check,
    ConfiguredProcessor,
    checked_object,
    flag,
    limits,
    names,
    optional,
    text,
    whole,
)
from agentkit_py.processors.tokenizers import (
    DEFAULT_ENCODING,
    CustomTokenizer,
    as_tokenizer,
    count_text,
    default_tokenizer,
    message_counter,
    prepare,
)
from agentkit_py.processors.validity import is_valid
from agentkit_py.runtime.environment import environment as process_environment

VARIABLE = "MAX_MESSAGE_HISTORY"
"""The environment variable that `MessageWindow.from_env` reads."""

DEFAULT_MESSAGES = 40
"""How many messages are kept if nobody says otherwise."""

LEAST_MESSAGES, MOST_MESSAGES = 10, 100
"""What the environment variable may say: fewer break conversations, more are no window."""

_WORTHWHILE = 20
"""From so many messages on a window moves in blocks, of which the least is more than one turn."""


def _window(name: str, value: object) -> int:
    if not name.endswith("max_message_history"):
        return whole(1)(name, value)
    return whole(LEAST_MESSAGES, MOST_MESSAGES)(name, value)


@dataclass(frozen=True)
class MessageWindow(ConfiguredProcessor):
    """Keeps the newest messages, ``max_messages`` at the most; system messages stay in addition.

    When there is one more, the oldest go until ``lower`` are left, and then they grow again: so the
    next requests begin as this one does, which providers cache. With ``lower=max_messages`` there
    are always as many as may be, and each request begins elsewhere.

    Calls are not parted from their results, nor results of one reply from each other: such a
    stretch goes as a whole if it does not fit as a whole. Only the newest stretch always stays.

    Protected and pinned messages always stay and are counted first.

    Args:
        max_messages: How many messages at the most.
        lower: How many stay when there are too many; None: three quarters, rounded up, of 20 and
            more, and all of fewer: a turn is some four messages, so that these gain nothing.

    Raises:
        ConfigurationError: One is no positive whole number, or ``lower`` is the greater one.
    """

    max_messages: int = DEFAULT_MESSAGES
    lower: int | None = None

    settings: ClassVar[Mapping[str, Check]] = {
        "max_messages": _window,
        "lower": optional(whole()),
    }
    aliases: ClassVar[Mapping[str, str]] = {
        "max_message_history": "max_messages",
        "keep_recent": "max_messages",
    }

    def __post_init__(self) -> None:
        """Check the numbers."""
        self._check()
        if self.lower is not None:
            whole(1, self.max_messages)("MessageWindow: lower", self.lower)

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> Self:
        """A window of ``MAX_MESSAGE_HISTORY`` messages (10 to 100), of 40 if that is not set.

        Args:
            environment: Where to look; None: the environment of the process.

        Raises:
            ConfigurationError: The variable is no whole number from 10 to 100.
        """
        found = process_environment() if environment is None else environment
        value = found.get(VARIABLE, "").strip()
        if not value:
            return cls()
        # Digits only: int() takes more, such as "4_0".
        if not (value.isascii() and value.isdigit()) or not (
            LEAST_MESSAGES <= int(value) <= MOST_MESSAGES
        ):
            raise ConfigurationError(
                f"{VARIABLE} must be a whole number from {LEAST_MESSAGES} to {MOST_MESSAGES}, not "
                f"{value!r:.80}."
            )
        return cls(int(value))

    @property
    def reason(self) -> str:
        """How many messages it keeps."""
        return f"window of {self.max_messages} messages"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The newest messages."""
        if len(messages) <= self.max_messages:
            return messages
        held = context.held
        system = [index for index, m in enumerate(messages) if m.role == "system"]
        excess = self._excess(messages, context, system)
        if not excess:
            return messages
        staying = [i for i, m in enumerate(messages) if id(m) in held] if held else ()
        start = next_cut(messages, _after(len(messages), excess, sorted({*system, *staying})))
        if start == len(messages):
            start = newest_stretch(messages)
        kept = [messages[i] for i in sorted({*system, *staying}) if i < start]
        return messages if len(kept) == start else [*kept, *messages[start:]]

    async def enough(self, newest: Sequence[Message], context: ProcessorContext) -> bool:
        """Whether something has to go, so that all that is older does."""
        count = sum(not is_system(m) for m in newest)
        return not context.before.system and count > self.max_messages

    def _excess(
        self, messages: Sequence[Message], context: ProcessorContext, system: Sequence[int]
    ) -> int:
        """How many messages have to go: the same number until a whole block more has to.

        Args:
            messages: The history.
            context: What is known of the thread.
            system: Which messages the system says.
        """
        count = len(messages) - len(system)
        excess = max(0, count - self.max_messages)
        block = self.max_messages + 1 - self._lower
        if not excess or block == 1:
            return excess
        # Blocks of the thread, so that nothing older than the cut has to be looked at.
        if not context.history or is_same(messages, context.history):
            before = context.before.messages - context.before.system
            found = -(-(before + excess) // block) * block - before
            return found if found < count else excess
        others = [m for m in messages if not is_system(m)]
        blocks = [rank // block for rank in Places(messages, context).ranks(others)]
        later = range(excess, len(others))
        return next((n for n in later if blocks[n] > blocks[n - 1]), excess)

    @property
    def _lower(self) -> int:
        if self.lower is not None:
            return self.lower
        whole_window = self.max_messages < _WORTHWHILE
        return self.max_messages if whole_window else -(-self.max_messages * 3 // 4)


def _after(length: int, count: int, staying: Sequence[int]) -> int:
    """The index behind the oldest ``count`` of so many messages that may go.

    Args:
        length: How many messages there are.
        count: At least 1.
        staying: The indices of those that may not go, in order.
    """
    index = count
    for place in staying:
        if place >= index:
            break
        index += 1
    return min(index, length)


def is_system(message: Message) -> bool:
    """Whether the system says it."""
    return message.role == "system"


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


@dataclass(frozen=True)
class RecentToolCalls(ConfiguredProcessor):
    """Keeps the newest ``n`` tool calls with their results; texts stay, also those beside calls.

    Calls are counted, not messages, whether answered or not. Calls that this agent made in the
    current run, and pinned ones, stay in addition and are not counted: ``RecentToolCalls(3)`` gives
    three old calls plus the current one.

    Args:
        n: How many calls; None: all but those of the tools in ``per_tool``.
        per_tool: Tools with a count of their own, beside ``n``.

    Raises:
        ConfigurationError: A count is no whole number of at least 0, or nothing is limited.
    """

    looks_back: ClassVar[bool] = False

    n: int | None = None
    per_tool: Mapping[str, int] | None = None

    settings: ClassVar[Mapping[str, Check]] = {
        "n": optional(whole()),
        "per_tool": optional(limits),
    }
    aliases: ClassVar[Mapping[str, str]] = {"max_tool_calls_from_history": "n"}

    def __post_init__(self) -> None:
        """Check the counts."""
        self._check()
        if self.n is None and self.per_tool is None:
            raise ConfigurationError("RecentToolCalls needs n=… or per_tool=…, or both.")

    @property
    def reason(self) -> str:
        """How many calls it keeps."""
        parts = [] if self.n is None else [f"the newest {self.n} tool calls"]
        parts += [f"{count} of {tool}" for tool, count in sorted((self.per_tool or {}).items())]
        return ", ".join(parts)

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages without older calls and their results."""
        if self.per_tool is None and not context.held:
            left = self._newest_only(messages)
            if left is not None:
                return left
        gone = self._older(messages, context.held)
        if not gone and all(m.type != "tool_call" or m.tools for m in messages):
            return messages
        return without_calls(messages, lambda index, place: (index, place) not in gone)

    def _newest_only(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """What is left where it is cut between two replies; None: that needs a closer look.

        Only the newest messages are paired: what is before them loses all its calls.
        """
        assert self.n is not None
        first = _first_of_newest(messages, self.n)
        newest = messages[first:]
        if (
            first == 0
            or pair_adjacent(newest) is None
            or (newest and is_joined(messages[first - 1], newest[0]))
        ):
            return None
        texts = texts_of_whole(messages[:first])
        if texts is None:
            return None
        return messages if len(texts) == first else [*texts, *newest]

    def _older(self, messages: Sequence[Message], held: frozenset[int]) -> set[tuple[int, int]]:
        """The calls that are too old, as index of the message and place in it."""
        own = self.per_tool or {}
        counts: dict[str | None, int | None] = {None: self.n, **own}
        gone: set[tuple[int, int]] = set()
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if not isinstance(message, ToolCallMessage) or id(message) in held:
                continue
            for place in range(len(message.tools) - 1, -1, -1):
                name = message.tools[place].name
                key = name if name in own else None
                left = counts[key]
                if left == 0:
                    gone.add((index, place))
                elif left is not None:
                    counts[key] = left - 1
        return gone


def _first_of_newest(messages: Sequence[Message], count: int) -> int:
    """Where the oldest of the newest ``count`` calls stands; 0: its message has more of them."""
    index = len(messages)
    while count > 0 and index > 0:
        index -= 1
        message = messages[index]
        if isinstance(message, ToolCallMessage):
            if not 0 < len(message.tools) <= count:
                return 0
            count -= len(message.tools)
    return index


@dataclass(frozen=True)
class DropUnanswered(ConfiguredProcessor):
    """Removes calls without a result; calls of the same reply that have one stay, with it.

    Without it such a call is answered with an error before the request is sent, so that the model
    knows that it called. Calls that this agent made in the current run stay.
    """

    looks_back: ClassVar[bool] = False

    @property
    def reason(self) -> str:
        """Why it removes calls."""
        return "calls without a result"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages without unanswered calls."""
        if is_valid(messages):
            return messages
        pairing = pair(messages)
        held = context.held

        def answered(index: int, place: int) -> bool:
            return pairing.answers[index][place] is not None or id(messages[index]) in held

        return without_calls(messages, answered, pairing=pairing)


Predicate: TypeAlias = Callable[[Message], bool]
"""Gets a message, and says whether it is pinned."""


class Pin(HistoryProcessor):
    """Keeps some messages, whatever other processors do, before and after it and at any level.

    Of a call group all is kept if any of it is pinned, so that no call is parted from its result.
    A processor may rewrite a pinned message (mask a name in it), but not drop it.

    Args:
        predicate: Which messages of the full history are pinned; asked once for each, before any
            processor runs.

    Raises:
        ConfigurationError: ``predicate`` cannot be called.
    """

    def __init__(self, predicate: Predicate) -> None:
        if not callable(predicate):
            raise ConfigurationError(f"Pin needs a function of a message, not {predicate!r:.80}.")
        self._predicate = predicate

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Pin:
        """Make one from a dict: ``{"contains": [texts], "tools": [names], "agents": [names]}``.

        A message is pinned if one of them fits: it has one of the texts in it (in any case), calls
        or answers one of the tools, or was written by one of the agents.

        Raises:
            ConfigurationError: A key is not known, or its value is no list of strings.
        """
        found: dict[str, frozenset[str]] = {}
        for key, value in checked_object("Pin.from_settings", settings).items():
            if key not in ("contains", "tools", "agents"):
                raise ConfigurationError(
                    f"Pin has no setting {key!r}; known are: agents, contains, tools."
                )
            found[key] = names(f"Pin: {key}", value)
        if not found:
            raise ConfigurationError("Pin.from_settings needs agents, contains or tools.")
        return cls(_Rule(found))

    @property
    def reason(self) -> str:
        """What it is for."""
        return "pinned messages stay"

    def pinned(self, messages: Sequence[Message]) -> Iterable[Message]:
        """The messages that fit, and the call groups that they belong to."""
        chosen = {index for index, message in enumerate(messages) if self._predicate(message)}
        if not chosen:
            return ()
        whole = set(chosen)
        if any(messages[index].type != "text" for index in chosen):
            for group in call_groups(messages):
                if not chosen.isdisjoint(group.members):
                    whole.update(group.members)
        return [messages[index] for index in sorted(whole)]

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The messages as they are: pins work beside the chain."""
        del context
        return messages


class _Rule:
    """The predicate that settings describe."""

    def __init__(self, found: Mapping[str, frozenset[str]]) -> None:
        self._texts = [text.casefold() for text in found.get("contains", ())]
        self._tools = found.get("tools", frozenset())
        self._agents = found.get("agents", frozenset())

    def __call__(self, message: Message) -> bool:
        if message.agent is not None and message.agent in self._agents:
            return True
        if message.type == "tool_call" and any(c.name in self._tools for c in message.tools):
            return True
        if message.type == "tool_result" and message.tool.name in self._tools:
            return True
        if not self._texts:
            return False
        said = text_of(message).casefold()
        return any(text in said for text in self._texts)
