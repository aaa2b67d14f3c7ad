"""A share of the model's window for each part of a request: prompt, summary, recent messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, ClassVar, Literal

from agentkit_py._core.json import dumps
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message, Messages
from agentkit_py.models.base import Model, ToolSpec
from agentkit_py.models.capabilities import window_of
from agentkit_py.processors.apply import apply_processors
from agentkit_py.processors.base import (
    HistoryProcessor,
    ProcessorContext,
    SummaryStore,
    Tokenizer,
)
from agentkit_py.processors.cutting import (
    ThreadPositions,
    counted_segments,
    exceeds,
    past_length,
    steady_cut,
)
from agentkit_py.processors.pairing import is_same
from agentkit_py.processors.recall import Recall
from agentkit_py.processors.settings import (
    ConfiguredProcessor,
    flag,
    limits,
    number,
    optional,
    whole,
)
from agentkit_py.processors.summarize import Summarize
from agentkit_py.processors.tokenizers import (
    ApproximateTokenizer,
    count_messages,
    default_tokenizer,
    prepare,
)
from agentkit_py.processors.tool_results import CompressToolResults, older_results
from agentkit_py.search import Embedder

CountMethod = Literal["tiktoken", "estimate"]

UNKNOWN_WINDOW = 128_000
"""Taken where neither the run, the table nor the budget knows the model's; reports say so."""

_KEPT = 0.7
"""Part that is left of an exceeded share, so that it is not exceeded again at the next turn."""

_BLOCK = 40
"""Messages whose tool results are shortened at the same time."""

_GRID = 128
"""The prompt's tokens are rounded up to this part of the window: it may vary a little from turn to
turn without moving the cut, so that the provider's cached beginning stays valid."""


def _method(name: str, value: object) -> CountMethod:
    """Check for a way of counting."""
    if value not in ("tiktoken", "estimate"):
        raise ConfigurationError(f"{name} must be 'tiktoken' or 'estimate', not {value!r:.80}.")
    return value


@dataclass(frozen=True, eq=False, repr=False)
class Budget(ConfiguredProcessor):
    """Keeps a request within a share of the model's window.

    Of ``target`` of the window, the prompt and the tools' schemas have their full size. Of the rest
    the newest messages have the share ``recent``, a summary of the older ones the share
    ``summary`` where there is a model to make it, and the rest is a buffer for the user's words
    and for the calls of the current run. With an ``embedder``, older turns that the user's
    message is about come along, as with `Recall`: in the share of the summary, or half of it. When
    a share is exceeded, 30 % of it is cleared at once, so that the next requests begin like this
    request.

    Args:
        context_window: Tokens; None: the model's, as far as it is known.
        target: The share of the window that a request may take.
        summary: The share of a summary.
        recent: The share of the newest messages.
        model: Makes summaries; None: older messages are left out.
        embedder: Makes vectors, by which older turns are found again; None: they are not.
        compress_tool_output: Whether older tool results are shortened first.
        tool_output_max_tokens: Tokens of such a result.
        keep_recent_results: How many of the newest results are never shortened.
        skip_calls: Whether calls that are, with their results, longer than the history may be are
            left out alone where there is no ``model``; else, all older messages go with them.
        method: Count by tiktoken, or by an estimate, which takes no time.
        windows: Windows by the beginning of a model's name, in place of the table's.
        store: Where summaries are kept; None: with the thread.
        enabled: False: it does nothing.

    Raises:
        ConfigurationError: A number makes no sense, or the shares are more than all.
    """

    context_window: Annotated[int | None, optional(whole(1))] = None
    target: Annotated[float, number(0.01, 1)] = 0.6
    summary: Annotated[float, number(0, 1)] = 0.26
    recent: Annotated[float, number(0, 1)] = 0.65
    _: KW_ONLY
    model: Model | None = None
    embedder: Embedder | None = None
    compress_tool_output: Annotated[bool, flag] = True
    tool_output_max_tokens: Annotated[int, whole(30)] = 200
    keep_recent_results: Annotated[int, whole()] = 5
    skip_calls: Annotated[bool, flag] = False
    method: Annotated[CountMethod, _method] = "tiktoken"
    windows: Annotated[Mapping[str, int] | None, optional(limits)] = None
    store: SummaryStore | None = None
    enabled: Annotated[bool, flag] = True

    aliases: ClassVar[Mapping[str, str]] = {
        "target_usage_ratio": "target",
        "summary_token_ratio": "summary",
        "recent_token_ratio": "recent",
        "token_calculation_method": "method",
        "enable_context_optimization": "enabled",
    }

    parts: ClassVar[tuple[str, ...]] = ("model", "embedder", "store")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.summary + self.recent > 1 or self.recent == 0:
            raise ConfigurationError(
                f"Budget: summary ({self.summary:g}) and recent ({self.recent:g}) must be "
                "at most 1 together, and recent more than 0."
            )

    @property
    def members(self) -> Sequence[HistoryProcessor]:
        """Processors that shorten results and fit the history into its shares."""
        if not self.enabled:
            return ()
        first = [_Shorten(self)] if self.compress_tool_output else []
        return (*first, _Fit(self)) if self.embedder is None else (_Relevant(self, first),)

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages as its members leave them."""
        left = await apply_processors(messages, self.members, context, level=context.level)
        return messages if is_same(messages, left) else left

    def shares(self, context: ProcessorContext, present: Messages) -> Shares:
        """Return how many tokens the history may have in this inference."""
        tokenizer = self.tokenizer(context)
        window = self._window(context)
        known = UNKNOWN_WINDOW if window is None else window
        system = [m for m in context.prompt if m.role == "system"]
        others = [m for m in context.prompt if m.role != "system"]
        fixed = count_messages(system, tokenizer) + tool_tokens(context.tools, tokenizer)
        grid = max(1, known // _GRID)
        room = max(0, int(known * self.target) - _up(fixed, grid))
        buffer = room * (1 - self.summary - self.recent)
        current = count_messages(others, tokenizer) + count_messages(present, tokenizer)
        room = max(0, room - _up(max(0, current - buffer), max(1, room // 8)))
        older = int(room * self.summary)
        relevant = 0 if self.embedder is None else older // 2 if self.model else older
        return Shares(
            window=known,
            known=window is not None,
            fixed=fixed,
            relevant=relevant,
            summary=older - relevant if self.model is not None else 0,
            recent=int(room * self.recent),
        )

    def _window(self, context: ProcessorContext) -> int | None:
        if self.context_window is not None:
            return self.context_window
        name = context.model
        own = window_of(name, self.windows) if name is not None and self.windows else None
        return own or context.context_window or (None if name is None else window_of(name))

    def tokenizer(self, context: ProcessorContext) -> Tokenizer:
        """Return the way of counting tokens."""
        if self.method == "estimate":
            return _ESTIMATE
        return default_tokenizer() if context.tokenizer is None else context.tokenizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """A budget in tokens."""

    window: int
    known: bool
    """True: the window is the model's, and not a guess."""

    fixed: int
    """Tokens of the system prompt and the tools."""

    relevant: int
    """Tokens of older turns that are found again."""

    summary: int
    recent: int

    def __str__(self) -> str:
        guess = "" if self.known else " (not known, a guess)"
        summary = f"a summary of {self.summary} and " if self.summary else ""
        older = f"{self.relevant} of older turns, " if self.relevant else ""
        return (
            f"window {self.window}{guess}, prompt and tools {self.fixed}: "
            f"{older}{summary}{self.recent} tokens of recent messages"
        )


class _BudgetPart(HistoryProcessor):
    """A part of a budget, with its own entry in the report."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    @property
    def name(self) -> str:
        return "Budget"

    @property
    def by_agent(self) -> bool:
        return False


class _Shorten(_BudgetPart):
    """Shortens older tool results, several at once, so that few turns rewrite sent messages."""

    looks_back: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return CompressToolResults.__name__

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages with short results, but for the newest."""
        older, newest = older_results(messages, context.held, 0), self._budget.keep_recent_results
        keep = len(older)
        if not newest:
            keep = 0
        elif keep > newest:
            positions = ThreadPositions(messages, context)
            first = messages[older[newest - 1]]
            block = (positions.position(first) or 0) // _BLOCK * _BLOCK
            found = (positions.position(messages[index]) for index in older)
            # A position is not known where a processor of the user's made a new message.
            keep = sum(position is None or position >= block for position in found)
        most = self._budget.tool_output_max_tokens
        compress = CompressToolResults(most, keep_recent=max(keep, newest))
        context.note(compress.reason)
        return await compress.process(messages, context)


class _Fit(_BudgetPart):
    """Fits the history into its shares."""

    @property
    def makes_text(self) -> bool:
        return self._budget.model is not None

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the newest messages that fit, with a summary if there is a model for it."""
        tokenizer = await prepare(self._budget.tokenizer(context))
        past = messages[: past_length(messages, context)]
        present = messages[len(past) :]
        shares = self._budget.shares(context, present)
        context.note(str(shares))
        limit = shares.summary + shares.recent
        if not exceeds(past, limit, tokenizer):
            return messages
        if self._skips:
            past = _without_long_calls(past, limit, context.held, tokenizer)
            messages = [*past, *present]
        if self._budget.model is not None and shares.summary and limit > 1:
            summarize = self._summarize(shares)
            return await summarize.process(messages, replace(context, tokenizer=tokenizer))
        held = count_messages([m for m in past if id(m) in context.held], tokenizer)
        positions, lower = ThreadPositions(messages, context), int(limit * _KEPT)
        start = steady_cut(past, 0, positions, limit - held, lower - held, tokenizer)
        return [*past[start:], *present] if start else messages

    async def enough(self, newest: Messages, context: ProcessorContext) -> bool:
        """Return whether they exceed their share: older messages are then removed or summarised."""
        tokenizer = await prepare(self._budget.tokenizer(context))
        past = newest[: past_length(newest, context)]
        shares = self._budget.shares(context, newest[len(past) :])
        limit = shares.summary + shares.recent
        if self._skips:
            past = _without_long_calls(past, limit, context.held, tokenizer)
        if not exceeds(past, limit, tokenizer):
            return False
        if self._budget.model is None or not shares.summary or limit <= 1:
            return True
        return await self._summarize(shares).enough(newest, replace(context, tokenizer=tokenizer))

    @property
    def _skips(self) -> bool:
        return self._budget.skip_calls and self._budget.model is None

    def _summarize(self, shares: Shares) -> Summarize:
        budget = self._budget
        assert budget.model is not None
        upper = shares.summary + shares.recent
        return Summarize(
            budget.model,
            upper,
            max(1, int(upper * _KEPT)),
            min_messages=1,
            summary_tokens=shares.summary,
            store=budget.store,
        )


class _Relevant(_BudgetPart):
    """Fits the history into its shares, and finds older turns again that the input is about."""

    def __init__(self, budget: Budget, first: Sequence[HistoryProcessor]) -> None:
        super().__init__(budget)
        self._window = [*first, _Fit(budget)]

    @property
    def makes_text(self) -> bool:
        return True

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages that fit, with older turns right before the user's message."""
        assert self._budget.embedder is not None
        tokenizer = await prepare(self._budget.tokenizer(context))
        present = messages[past_length(messages, context) :]
        room = self._budget.shares(context, present).relevant
        recall = Recall(self._budget.embedder, window=self._window, max_tokens=max(room, 1))
        return await recall.process(messages, replace(context, tokenizer=tokenizer))


def _without_long_calls(
    messages: Messages, limit: float, held: frozenset[int], tokenizer: Tokenizer
) -> Messages:
    """Return the messages without segments of calls that are by themselves too long."""
    left: list[Message] = []
    for segment in counted_segments(messages, 0, tokenizer):
        part = messages[segment.start : segment.stop]
        has_calls = any(message.type not in ("text", "reasoning") for message in part)
        if segment.tokens <= limit or not has_calls or any(id(m) in held for m in part):
            left += part
    return left


_ESTIMATE = ApproximateTokenizer()


def tool_tokens(tools: Sequence[ToolSpec], tokenizer: Tokenizer) -> int:
    """Return the tokens of the schemas of tools; counted once per tool and tokenizer."""
    total = 0
    key = f"tokens:{tokenizer.key}"
    for spec in tools:
        if key not in spec.memo:
            text = dumps([spec.name, spec.description, spec.parameters])
            spec.memo[key] = round(tokenizer.count(text))
        total += spec.memo[key]
    return total


def _up(value: float, step: int) -> int:
    """Return ``value`` rounded up to a multiple of ``step``."""
    return -int(-value // step) * step
