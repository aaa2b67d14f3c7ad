"""A summary in place of the older part of a conversation, made once and kept beside the thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message
from agentkit_py.models.base import Model
from agentkit_py.processors.base import ProcessorContext, Tokenizer
from agentkit_py.processors.cutting import (
    Stretch,
    anchor_before,
    exceeds,
    find_anchor,
    newest_that_fit,
    past_length,
    steady_cut,
    stretches,
)
from agentkit_py.processors.places import Places
from agentkit_py.processors.settings import (
    Check,
    ConfiguredProcessor,
    number,
    optional,
    text,
    whole,
)
from agentkit_py.processors.summaries import Summary, SummaryStore
from agentkit_py.processors.summary_text import placed
from agentkit_py.processors.summary_writer import SummaryWriter, Wanted
from agentkit_py.processors.tokenizers import (
    chars_per_token,
    count_messages,
    count_text,
    default_tokenizer,
    prepare,
)


class Summarize(ConfiguredProcessor):
    """Puts a summary in place of older messages once a conversation has more than ``upper`` tokens.

    The summary and the newest messages then have less than ``lower`` together. It is kept beside
    the thread, used by every later run, and renewed with what has come since when there is too much
    again. What belongs to the current run is never summarised.

    Where no summary can be had (the model fails, says nothing or too much, another run is making
    one), the older messages are left out, and the report says why.

    Args:
        model: Makes the summaries.
        upper: Tokens of past messages above which there is a new summary.
        lower: Tokens that the summary and the past messages after it have at the most then.
        keep_recent: Past messages after the summary at the most; None: as many as fit ``lower``.
        min_messages: There is no summary of conversations with fewer messages.
        min_new: A summary is renewed when there are at least so many messages to take in,
        ratio: and these have more than so many times the tokens of the summary.
        store: Where summaries are kept; None: beside the thread, in the run's history.
        summary_tokens: Tokens a summary may have; None: a quarter of ``lower``.
        key: Which summary of the thread this is: processors with one key share it, if they are
            given the same messages. None: one for the thread; at the level of agents one for each.
        lock: Seconds for which others wait for a run that is making a summary, and for which nobody
            tries again after one failed.

    Raises:
        ConfigurationError: ``lower`` is not below ``upper``, or a number makes no sense.
    """

    settings: ClassVar[Mapping[str, Check]] = {
        "upper": whole(1),
        "lower": whole(1),
        "keep_recent": optional(whole(0)),
        "min_messages": whole(0),
        "min_new": whole(1),
        "ratio": number(0),
        "summary_tokens": optional(whole(1)),
        "key": optional(text),
        "lock": number(0),
    }
    aliases: ClassVar[Mapping[str, str]] = {
        "upper_threshold": "upper",
        "lower_threshold": "lower",
        "keep_recent_messages": "keep_recent",
        "min_messages_before_summary": "min_messages",
        "min_new_messages": "min_new",
        "trigger_ratio": "ratio",
        "target_summary_tokens": "summary_tokens",
    }

    def __init__(  # noqa: PLR0913 - each is a setting of its own
        self,
        model: Model,
        upper: int = 50_000,
        lower: int = 30_000,
        *,
        keep_recent: int | None = None,
        min_messages: int = 20,
        min_new: int = 10,
        ratio: float = 0.5,
        store: SummaryStore | None = None,
        summary_tokens: int | None = None,
        key: str | None = None,
        lock: float = 300.0,
    ) -> None:
        self.model = model
        self.upper = upper
        self.lower = lower
        self.keep_recent = keep_recent
        self.min_messages = min_messages
        self.min_new = min_new
        self.ratio = ratio
        self.store = store
        self.summary_tokens = summary_tokens
        self.key = key
        self.lock = lock
        self._check()
        if not isinstance(model, Model):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"Summarize needs a model that summarises, not {model!r:.80}.")
        if lower >= upper:
            raise ConfigurationError(
                f"Summarize: lower ({lower}) must be less than upper ({upper}), or every turn "
                "would need a new summary."
            )

    @classmethod
    def from_settings(
        cls,
        settings: Mapping[str, Any],
        *,
        model: Model | None = None,
        store: SummaryStore | None = None,
    ) -> Self:
        """Make one from a dict, e.g. what an application stores for a user.

        Args:
            settings: The constructor's arguments by name, and the names of other systems
                (``upper_threshold``, ``lower_threshold``, ``trigger_ratio``, …).
            model: Makes the summaries.
            store: Where summaries are kept.

        Raises:
            ConfigurationError: A key is not known or has a wrong value, or there is no model.
        """
        if model is None:
            raise ConfigurationError("Summarize.from_settings needs model=…, which summarises.")
        return cls._made(settings, model=model, store=store)

    @property
    def reason(self) -> str:
        """The thresholds."""
        return f"a summary above {self.upper} tokens, down to {self.lower}"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """The summary, if there is one, and what came after what it stands for."""
        given = default_tokenizer() if context.tokenizer is None else context.tokenizer
        past = messages[: past_length(messages, context)]
        if not exceeds(past, self.upper, await prepare(given)):
            return messages
        task = _Task(self, messages, past, context, given)
        left = await task.run()
        return [*left, *messages[len(past) :]]

    async def enough(self, newest: Sequence[Message], context: ProcessorContext) -> bool:
        """Whether there is a summary of all that is older."""
        given = default_tokenizer() if context.tokenizer is None else context.tokenizer
        past = newest[: past_length(newest, context)]
        if not exceeds(past, self.upper, await prepare(given)):
            return False
        return await _Task(self, newest, past, context, given).is_covered()

    def key_in(self, context: ProcessorContext) -> str:
        """The key under which its summary of this context's thread is kept."""
        if self.key is not None:
            return self.key
        return f"agent:{context.agent}" if context.level == "agent" else "thread"


@dataclass(frozen=True, slots=True)
class _Known:
    """What a run knows of a summary; a new one is put in its place, none is changed."""

    summary: Summary | None = None
    tried: bool = False
    """Whether this run has tried to make a new one."""

    problem: str = ""


class _Task:
    """One call of the processor, for a conversation that is too long."""

    def __init__(
        self,
        policy: Summarize,
        messages: Sequence[Message],
        past: Sequence[Message],
        context: ProcessorContext,
        tokenizer: Tokenizer,
    ) -> None:
        self._policy = policy
        self._past = past
        self._context = context
        self._tokenizer = tokenizer
        self._places = Places(messages, context)
        self._held = count_messages([m for m in past if id(m) in context.held], tokenizer)
        """Tokens that stay whatever is cut."""

        store = policy.store or context.summaries
        self._writer = SummaryWriter(
            policy.model, store, policy.key_in(context), policy.lock, context
        )
        self._memory = f"summary:{context.thread_id}:{policy.key_in(context)}"

    async def run(self) -> Sequence[Message]:
        known = await self._known()
        start = self._start(known.summary)
        if self._too_much(known.summary, start) and not known.tried:
            known = await self._renewed(known)
            self._context.memory[self._memory] = known
            start = self._start(known.summary)
        return self._view(known, start)

    async def is_covered(self) -> bool:
        """Whether the kept summary stands for all before a place among these messages."""
        return self._place((await self._known()).summary) is not None

    async def _known(self) -> _Known:
        known = self._context.memory.get(self._memory)
        if isinstance(known, _Known):
            return known
        known = _Known(await self._writer.load())
        if not self._context.dry:
            self._context.memory[self._memory] = known
        return known

    def _start(self, summary: Summary | None) -> int:
        """Index of the first message that the summary does not stand for."""
        if summary is None:
            return 0
        place = self._place(summary)
        if place is not None:
            return place
        return find_anchor(self._past, summary.covered, summary.anchor) or 0

    def _place(self, summary: Summary | None) -> int | None:
        """The same by its place in the thread; None if other messages stand there."""
        if summary is None or summary.place is None:
            return None
        for stop in range(len(self._past), 0, -1):
            number = self._places.number(self._past[stop - 1])
            if number is not None and number < summary.place:
                same = number == summary.place - 1
                same = same and anchor_before(self._past, stop) == summary.anchor
                return stop if same else None
        return None

    def _too_much(self, summary: Summary | None, start: int) -> bool:
        used = 0 if summary is None or not start else self._size(summary)
        return exceeds(self._past[start:], self._policy.upper - used, self._tokenizer)

    def _size(self, summary: Summary) -> float:
        return count_text(placed(summary.text, summary.covered), self._tokenizer)

    async def _renewed(self, known: _Known) -> _Known:
        """What is known after trying to make a new summary."""
        wanted, problem = self._wanted(known.summary)
        if wanted is None:
            return _Known(known.summary, tried=True, problem=problem)
        if self._context.dry:
            count, tokens = wanted.stop - wanted.start, wanted.tokens
            doing = f"would summarise {count} messages ({tokens} tokens)"
            return _Known(known.summary, tried=True, problem=doing)
        written = await self._writer.write(self._past, wanted, self._tokenizer)
        return _Known(written.summary or known.summary, tried=True, problem=written.problem)

    def _wanted(self, summary: Summary | None) -> tuple[Wanted | None, str]:
        """What the next summary is to stand for; None, and why, if there is to be none."""
        policy = self._policy
        start = self._start(summary)
        earlier = summary if start else None
        if earlier is None and len(self._past) < policy.min_messages:
            return None, f"no summary of fewer than {policy.min_messages} messages"
        most = policy.summary_tokens or max(1, policy.lower // 4)
        found = stretches(self._past, start, len(self._past), self._tokenizer)
        frame = count_text(placed("", self._places.total), self._tokenizer)
        room = policy.lower - most - frame - self._held
        cut = newest_that_fit(found, room, policy.keep_recent)
        covered = found[:cut]
        if not covered:
            return None, "nothing older to summarise"
        wanted = Wanted(covered, summary, earlier, most, policy.upper)
        new, tokens = wanted.stop - wanted.start, wanted.tokens
        if earlier is not None and new < policy.min_new:
            return None, f"no new summary for {new} messages"
        if earlier is not None and tokens <= policy.ratio * earlier.tokens:
            return None, f"no new summary for {tokens} tokens"
        return wanted, ""

    def _view(self, known: _Known, start: int) -> Sequence[Message]:
        summary = known.summary if start else None
        front: list[Message] = []
        if summary is not None:
            front.append(placed(summary.text, summary.covered))
            share = f"{self._size(summary):g} of {summary.original_tokens} tokens"
            self._context.note(f"summary of {summary.covered} messages ({share})")
        elif known.summary is not None:
            self._context.note("the stored summary is of other messages")
        if known.problem:
            self._context.note(known.problem)
        if not self._too_much(summary, start):
            return [*front, *self._past[start:]]
        first = self._window(summary, start)
        self._context.note(f"{first - start} older messages left out")
        return [*front, *self._past[first:]]

    def _window(self, summary: Summary | None, start: int) -> int:
        """Index of the first message that is kept where there is no summary of those before."""
        used = self._held + (0 if summary is None else self._size(summary))
        found: Sequence[Stretch] = stretches(self._past, start, len(self._past), self._tokenizer)
        sizes = self._places.sizes(self._past)
        upper, lower = self._policy.upper - used, self._policy.lower - used
        first = steady_cut(found, sizes, upper, lower, chars_per_token(self._tokenizer))
        return found[first].start if first < len(found) else len(self._past)
