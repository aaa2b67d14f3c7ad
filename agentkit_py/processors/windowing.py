"""Processors that keep the newest of a history, pins, and the request for a provider's summary."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Self, TypeAlias

from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    Message,
    Messages,
    OpaqueMessage,
    ToolResultMessage,
    lineage,
    text_of,
)
from agentkit_py.models.base import Compaction
from agentkit_py.processors.base import HistoryProcessor, ProcessorContext, Tokenizer
from agentkit_py.processors.current_results import shorten_results
from agentkit_py.processors.cutting import (
    ThreadPositions,
    newest_segment,
    next_cut,
    past_length,
    segments,
)
from agentkit_py.processors.pairing import call_groups, pair, tools_of, without_calls
from agentkit_py.processors.settings import (
    NO_PARTS,
    ConfiguredProcessor,
    ProcessorParts,
    checked_object,
    flag,
    limits,
    names,
    optional,
    text,
    unknown_setting,
    whole,
)
from agentkit_py.processors.tokenizers import (
    DEFAULT_ENCODING,
    CustomTokenizer,
    TokenizerInfo,
    as_tokenizer,
    count_text,
    default_tokenizer,
    message_counter,
    prepare,
)
from agentkit_py.processors.validity import is_valid
from agentkit_py.runtime.current import environment as process_environment

logger: logging.Logger = get_logger("agentkit_py")

VARIABLE = "MAX_MESSAGE_HISTORY"
"""The environment variable that `MessageWindow.from_env` reads."""

LEAST_MESSAGES, MOST_MESSAGES = 10, 100
"""Limits of the environment variable: fewer break conversations, more are too many for a window."""

_WORTHWHILE = 20
"""From so many messages on a window moves in blocks, of which the smallest is larger than a
turn."""


def _window(name: str, value: object) -> int:
    if not name.endswith("max_message_history"):
        return whole(1)(name, value)
    return whole(LEAST_MESSAGES, MOST_MESSAGES)(name, value)


@dataclass(frozen=True)
class MessageWindow(ConfiguredProcessor):
    """Keeps the newest messages, ``max_messages`` at the most; system messages stay in addition.

    When there is another, the oldest are dropped until ``lower`` are left, and then they grow
    again: so the next requests begin like this request, which providers cache. With
    ``lower=max_messages`` there are always as many as may be, and each request begins elsewhere.

    Calls are not parted from their results, nor results of a reply from each other: such a
    segment goes as a whole if it does not fit as a whole. Only the newest segment always stays.

    Protected and pinned messages always stay and are counted first. Where agents share a prefix
    (see `Network.prefix`), what stays begins with a user's turn, and thinking is not counted: it
    stays or goes with the items after it.

    Args:
        max_messages: How many messages at the most.
        lower: How many stay when there are too many; None: three quarters, rounded up, of 20 and
            more, and all of fewer: a turn is some four messages, so that these gain nothing. Of a
            shared prefix only a third stays, so that a cut, which costs all agents, is rare.

    Raises:
        ConfigurationError: A limit is not a positive whole number, or ``lower`` is greater.
    """

    same_for_all: ClassVar[bool] = True

    max_messages: Annotated[int, _window] = 40
    lower: Annotated[int | None, optional(whole())] = None

    aliases: ClassVar[Mapping[str, str]] = {
        "max_message_history": "max_messages",
        "keep_recent": "max_messages",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lower is not None:
            whole(1, self.max_messages)("MessageWindow: lower", self.lower)

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Make a window of ``MAX_MESSAGE_HISTORY`` messages (10 to 100), of 40 if that is not set.

        Args:
            environment: Where to look; None: the environment of the process.

        Raises:
            ConfigurationError: The variable is not a whole number from 10 to 100.
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

    _reason = "window of {max_messages} messages"

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the newest messages."""
        if len(messages) <= self.max_messages:
            return messages
        held = context.held
        staying = [i for i, m in enumerate(messages) if id(m) in held or m.role == "system"]
        if len(staying) == len(messages):
            return messages
        excess = self._excess(messages, context)
        if not excess:
            return messages
        start = next_cut(messages, _after(len(messages), excess, staying))
        if start == len(messages):
            start = newest_segment(messages)
        kept = [messages[i] for i in staying if i < start]
        return messages if len(kept) == start else [*kept, *messages[start:]]

    async def enough(self, newest: Messages, context: ProcessorContext) -> bool:
        """Return whether something has to go, so that all that is older does."""
        others = [m for m in newest if m.role != "system"]
        return not context.unloaded.system and self._over(others, context) > 0

    def _excess(self, messages: Messages, context: ProcessorContext) -> int:
        """Return how many messages have to go: as many until a whole block more has to."""
        others = [m for m in messages if m.role != "system"]
        excess = self._over(others, context)
        block = self.max_messages + 1 - self._lower(shared=context.shares_prefix)
        if not excess or block == 1:
            return excess
        # Blocks of the whole thread, so that they do not depend on how much of it is loaded.
        first = excess - 1
        ranks = ThreadPositions(messages, context).ranks(others, first)
        blocks = [rank // block for rank in ranks]
        bounds = [first + n for n in range(1, len(blocks)) if blocks[n] > blocks[n - 1]]
        if context.shares_prefix:
            bounds = [_turn_before(others, n, self.max_messages - block) for n in bounds]
        return next((n for n in bounds if n >= excess), excess)

    def _over(self, others: Messages, context: ProcessorContext) -> int:
        """Return how many of the oldest messages are too many."""
        counted = range(len(others))
        if context.shares_prefix:
            counted = [n for n in counted if others[n].type != "reasoning"]
        over = len(counted) - self.max_messages
        return counted[over - 1] + 1 if over > 0 else 0

    def _lower(self, *, shared: bool) -> int:
        if self.lower is not None:
            return self.lower
        if shared:
            return -(-self.max_messages // 3)
        whole_window = self.max_messages < _WORTHWHILE
        return self.max_messages if whole_window else -(-self.max_messages * 3 // 4)


@dataclass(frozen=True)
class RecentTurns(ConfiguredProcessor):
    """Keeps the messages of the newest ``turns`` turns of the past, and of this run.

    A turn is a user's message with all that followed, the staff's messages too. 0: nothing of the
    past is sent; a thread is stored and not replayed. Pinned messages stay in addition.

    Args:
        turns: How many.

    Raises:
        ConfigurationError: It is not a whole number of at least 0.
    """

    same_for_all: ClassVar[bool] = True

    turns: Annotated[int, whole()]

    aliases: ClassVar[Mapping[str, str]] = {"num_history_runs": "turns"}

    _reason = "the newest {turns} turns"

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the newest turns."""
        end, starts = self._turns(messages, context)
        start = starts[-self.turns] if 0 < self.turns <= len(starts) else 0 if self.turns else end
        if start == 0:
            return messages
        held = context.held
        return [*(m for m in messages[:start] if id(m) in held), *messages[start:]]

    async def enough(self, newest: Messages, context: ProcessorContext) -> bool:
        """Return whether so many turns are there."""
        return len(self._turns(newest, context)[1]) >= self.turns

    def _turns(self, messages: Messages, context: ProcessorContext) -> tuple[int, list[int]]:
        """Return the length of the past, and where turns begin in it."""
        end = past_length(messages, context)
        return end, [i for i, m in enumerate(messages[:end]) if _is_the_users(m)]


def _is_the_users(message: Message) -> bool:
    """Return whether it is the user's; staff's messages only have the user's role for models."""
    return message.type == "text" and all(one.role == "user" for one in lineage(message))


def _turn_before(messages: Messages, index: int, most: int) -> int:
    """Return where the user's turn begins in which an index lies, if it is not farther away."""
    turn = (n for n in range(index, max(-1, index - most - 1), -1) if messages[n].role == "user")
    return next(turn, index)


def _after(length: int, count: int, staying: Sequence[int]) -> int:
    """Return the index behind the oldest ``count`` messages that may go.

    Those at the indices ``staying``, in order, may not.
    """
    index = count
    for kept in staying:
        if kept >= index:
            break
        index += 1
    return min(index, length)


@dataclass(frozen=True, eq=False, repr=False)
class TokenLimiter(ConfiguredProcessor):
    """Keeps the newest messages that together have at most ``limit`` tokens.

    Calls are not parted from their results: a segment of them stays or goes as a whole. The first
    segment that does not fit ends it, so that the rest has no gap. If the newest alone is too
    long, nothing is left. With ``skip_calls`` calls that do not fit leave a gap, and older messages
    has the room.

    Messages that are protected (this agent's own calls of the current run) or pinned always stay
    and are counted first. Where they alone are more than the limit, results of the current calls
    are shortened, head and tail, and the report and a warning in the log say by how much.

    Args:
        limit: Tokens.
        encoding: Count by this encoding of tiktoken; None: as the run does.
        tokenizer: Count by this: an object with ``count(text)``, or a function of a text.
        use_tiktoken: False: estimate by length.
        skip_calls: Whether calls that do not fit, with their results, are left out alone.
        shorten_current: Whether results of the current calls are shortened where they alone are
            more than the limit; False: they are sent whole.

    Raises:
        ConfigurationError: ``limit`` is not a positive whole number, the tokenizer cannot count, or
            both a tokenizer and an encoding are given.
    """

    same_for_all: ClassVar[bool] = True

    limit: Annotated[int, whole(1)]
    _: KW_ONLY
    encoding: Annotated[str | None, optional(text)] = None
    tokenizer: CustomTokenizer | None = None
    use_tiktoken: Annotated[bool, flag] = True
    skip_calls: Annotated[bool, flag] = False
    shorten_current: Annotated[bool, flag] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokenizer is not None and self.encoding is not None:
            raise ConfigurationError("TokenLimiter takes tokenizer=… or encoding=…, not both.")
        if self.tokenizer is not None:
            object.__setattr__(self, "tokenizer", as_tokenizer(self.tokenizer))

    _reason = "limit of {limit} tokens"

    @property
    def info(self) -> TokenizerInfo:
        """The limit and the way of counting, without loading anything.

        Without an encoding or tokenizer of its own it counts as the run does; this says how that is
        for agents without a `token_counter`.
        """
        return TokenizerInfo.of(self._tokenizer_in(ProcessorContext()), self.limit)

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the newest messages that fit."""
        if self.shorten_current and context.protected:
            messages, context = await self._with_short_results(messages, context)
        if self.skip_calls:
            kept, _ = await self._with_gaps(messages, context)
            return messages if len(kept) == len(messages) else kept
        fitting = await self._first_fitting(messages, context)
        if fitting == 0:
            return messages
        start = next_cut(messages, fitting)
        held = context.held
        kept = [m for m in messages[:start] if id(m) in held]
        return [*kept, *messages[start:]]

    async def enough(self, newest: Messages, context: ProcessorContext) -> bool:
        """Return whether the limit is exceeded: older messages are dropped."""
        if self.skip_calls:
            return (await self._with_gaps(newest, context))[1]
        return await self._first_fitting(newest, context) > 0

    async def _with_short_results(
        self, messages: Messages, context: ProcessorContext
    ) -> tuple[Messages, ProcessorContext]:
        """Return the messages with results of the current calls that fit, and their context."""
        tokenizer, held = await prepare(self._tokenizer_in(context)), context.held
        count = message_counter(tokenizer)
        counts = [(m, count(m)) for m in messages if id(m) in held]
        before = sum(count for _, count in counts)
        if before <= self.limit:
            return messages, context
        others = sum(n for m, n in counts if not isinstance(m, ToolResultMessage))
        short = shorten_results(messages, context, max(0, int(self.limit - others)), tokenizer)
        saved = sum(count_text(a, tokenizer) - count_text(b, tokenizer) for a, b in short.results)
        said = f"limit of {self.limit} tokens"
        if short.results:
            tools = Counter(result.tool.name for result, _ in short.results)
            named = ", ".join(f"{count} of {tool}" for tool, count in tools.items())
            said += (
                f": results of the current calls shortened ({named}), the current calls have "
                f"{before - saved:g} of {before:g} tokens"
            )
        if before - saved > self.limit:
            said += f"; exceeded, since {before - saved:g} tokens of protected messages stay"
        context.note(said)
        key = f"TokenLimiter:{self.limit}:{context.level}:{context.agent}"
        if short.results and not context.dry and key not in context.memory:
            context.memory[key] = True
            logger.warning("Agent %r: %s", context.agent, said)
        return short.messages, short.context

    def _tokenizer_in(self, context: ProcessorContext) -> Tokenizer:
        if self.tokenizer is not None:
            return as_tokenizer(self.tokenizer)
        if self.encoding is not None or not self.use_tiktoken:
            return default_tokenizer(
                self.encoding or DEFAULT_ENCODING, use_tiktoken=self.use_tiktoken
            )
        return context.tokenizer or default_tokenizer()

    async def _with_gaps(
        self, messages: Messages, context: ProcessorContext
    ) -> tuple[Messages, bool]:
        """Return the fitting messages without oversized calls, and whether a text did not fit."""
        tokenizer, held = await prepare(self._tokenizer_in(context)), context.held
        room = self.limit - sum(count_text(m, tokenizer) for m in messages if id(m) in held)
        taken: set[int] = set()
        is_full = False
        for segment in reversed(list(segments(messages))):
            others = [i for i in segment if id(messages[i]) not in held]
            tokens = sum(count_text(messages[i], tokenizer) for i in others)
            if tokens <= room:
                room -= tokens
                taken.update(others)
            elif all(messages[i].type in ("text", "reasoning") for i in others):
                is_full = True
                break
        return [m for i, m in enumerate(messages) if i in taken or id(m) in held], is_full

    async def _first_fitting(self, messages: Messages, context: ProcessorContext) -> int:
        """Return the index of the oldest message from which on everything still fits.

        Older messages are not counted: a turn must not cost more because its thread is long.
        """
        tokenizer, held = await prepare(self._tokenizer_in(context)), context.held
        total = sum(count_text(m, tokenizer) for m in messages if id(m) in held)
        count = message_counter(tokenizer)
        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if id(message) in held:
                continue
            total += count(message)
            if total > self.limit:
                return index + 1
        return 0


@dataclass(frozen=True)
class RecentToolCalls(ConfiguredProcessor):
    """Keeps the newest ``n`` tool calls with their results; texts stay, also those sent with calls.

    Calls are counted, not messages, whether answered or not. Calls that this agent made in the
    current run, and pinned ones, stay in addition and are not counted: ``RecentToolCalls(3)`` gives
    three old calls plus the current call.

    Args:
        n: How many calls; None: all but those of the tools in ``per_tool``.
        per_tool: Tools with a count of their own, in addition to ``n``.

    Raises:
        ConfigurationError: A count is not a whole number of at least 0, or nothing is limited.
    """

    looks_back: ClassVar[bool] = False

    n: Annotated[int | None, optional(whole())] = None
    per_tool: Annotated[Mapping[str, int] | None, optional(limits)] = None

    aliases: ClassVar[Mapping[str, str]] = {"max_tool_calls_from_history": "n"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n is None and self.per_tool is None:
            raise ConfigurationError("RecentToolCalls needs n=… or per_tool=…, or both.")

    @property
    def reason(self) -> str:
        """The limits, for reports."""
        parts = [] if self.n is None else [f"the newest {self.n} tool calls"]
        parts += [f"{count} of {tool}" for tool, count in sorted((self.per_tool or {}).items())]
        return ", ".join(parts)

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages without older calls and their results."""
        held, newest = context.held, self._newest(messages, context.held)

        def keeps(index: int, number: int) -> bool:
            return (index, number) in newest or id(messages[index]) in held

        return without_calls(messages, keeps, keeps_hosted=lambda index: keeps(index, 0), held=held)

    def _newest(self, messages: Messages, held: frozenset[int]) -> set[tuple[int, int]]:
        """Return the calls that are kept for being new, as indices of message and call."""
        own = self.per_tool or {}
        counts: dict[str | None, int | None] = {None: self.n, **own}
        newest: set[tuple[int, int]] = set()
        begun: set[str] = set()
        """Hosted tools' calls that are kept with their results, which come first here."""

        for index in range(len(messages) - 1, -1, -1):
            message = messages[index]
            if id(message) in held or message.type == "tool_result":
                continue
            if isinstance(message, OpaqueMessage) and message.call_id in begun:
                newest.add((index, 0))
                begun.remove(message.call_id)
                continue
            for number, name in reversed(list(enumerate(tools_of(message)))):
                key = name if name in own else None
                left = counts[key]
                if left != 0:
                    newest.add((index, number))
                    counts[key] = None if left is None else left - 1
                    if isinstance(message, OpaqueMessage) and message.part == "result":
                        begun.add(message.call_id)
            if not begun and not any(left != 0 for left in counts.values()):
                break
        return newest


@dataclass(frozen=True)
class DropUnanswered(ConfiguredProcessor):
    """Removes calls without a result; calls of the same reply that have a result stay, with it.

    Without it such a call is answered with an error before the request is sent, so that the model
    knows that it called. Calls that this agent made in the current run stay.
    """

    looks_back: ClassVar[bool] = False
    same_for_all: ClassVar[bool] = True

    _reason = "calls without a result"

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages without unanswered calls."""
        if is_valid(messages):
            return messages
        pairing, held = pair(messages), context.held

        def answered(index: int, number: int) -> bool:
            return pairing.answers[index][number] is not None or id(messages[index]) in held

        return without_calls(messages, answered, pairing=pairing)


Predicate: TypeAlias = Callable[[Message], bool]
"""Gets a message, and returns whether it is pinned."""


class Pin(HistoryProcessor):
    """Keeps some messages, whatever other processors do, before and after it and at any level.

    Of a tool group all is kept if any of it is pinned, so that no call is parted from its
    result. A processor may rewrite a pinned message (mask a name in it), but not drop it.

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
    def from_settings(cls, settings: Mapping[str, Any], parts: ProcessorParts = NO_PARTS) -> Pin:
        """Make a pin from a dict: ``{"contains": [texts], "tools": [names], "agents": [names]}``.

        A message is pinned if any of them fits: it contains any of the texts (in any case), calls
        or answers any of the tools, or was written by any of the agents.

        Raises:
            ConfigurationError: A key is not known, or its value is not a list of strings.
        """
        del parts
        known = ("agents", "contains", "tools")
        found: dict[str, frozenset[str]] = {}
        for key, value in checked_object("Pin.from_settings", settings).items():
            if key not in known:
                raise unknown_setting("Pin", key, known)
            found[key] = names(f"Pin: {key}", value)
        if not found:
            raise ConfigurationError("Pin.from_settings needs agents, contains or tools.")
        return cls(_fits_one_of(**found))

    _reason = "pinned messages stay"

    @property
    def by_agent(self) -> bool:
        """False: all agents keep the same."""
        return False

    def pinned(self, messages: Messages) -> Iterable[Message]:
        """Return the messages that fit, and the tool groups that they belong to."""
        chosen = {index for index, message in enumerate(messages) if self._predicate(message)}
        whole = set(chosen)
        if any(messages[index].type != "text" for index in chosen):
            for group in call_groups(messages):
                if not chosen.isdisjoint(group.members):
                    whole.update(group.members)
        return [messages[index] for index in sorted(whole)]

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages unchanged: pins apply outside the chain."""
        return messages


_NOTHING = frozenset[str]()


def _fits_one_of(
    *,
    contains: frozenset[str] = _NOTHING,
    tools: frozenset[str] = _NOTHING,
    agents: frozenset[str] = _NOTHING,
) -> Predicate:
    """Return the predicate that settings of `Pin` describe."""
    texts = [text.casefold() for text in contains]

    def fits(message: Message) -> bool:
        if message.agent is not None and message.agent in agents:
            return True
        if not tools.isdisjoint(tools_of(message)):
            return True
        content = text_of(message).casefold() if texts else ""
        return any(text in content for text in texts)

    return fits


@dataclass(frozen=True)
class ProviderCompaction(ConfiguredProcessor):
    """Asks the provider to sum up the conversation when the request grows beyond ``tokens``.

    The reply then holds the model's own summary as a block, and later requests of this agent begin
    with it: all before it is left out, but for system messages. Reasoning that comes after it
    holds. The thread keeps all messages.

    A summary replaces exactly the messages that this agent would be sent otherwise, at the host,
    account and model that made it. Where a processor, a hook, another model or system prompt
    changes any of that, and for all other agents, the messages themselves are sent. So combine it
    with nothing that cuts or rewrites; an agent that has it does not share its prefix.

    Claude from 4.6 on does it, and OpenAI's models from GPT-5 on, each at its own API. For others
    nothing happens, and the report says so.

    Args:
        tokens: Claude takes 50,000 at least, OpenAI 1,000; fewer count as that.
        instructions: What the summary has to hold, in place of Claude's own prompt for it; OpenAI
            takes none.

    Raises:
        ConfigurationError: ``tokens`` is not a positive whole number, or the instructions are
            empty.
    """

    tokens: Annotated[int, whole(1)] = 150_000
    instructions: Annotated[str | None, optional(text)] = None

    _reason = "summary by the model from {tokens} tokens on"

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages as they are, and note the request."""
        context.wishes.append(Compaction(tokens=self.tokens, instructions=self.instructions))
        return messages
