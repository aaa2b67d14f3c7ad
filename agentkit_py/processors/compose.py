"""Processors made of processors: chains, and a policy that explains itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, ClassVar, Self, TypeAlias, cast

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message, Messages
from agentkit_py.models.base import Model
from agentkit_py.processors.apply import apply_processors, as_processors, steps_of
from agentkit_py.processors.base import HistoryProcessor, Processor, ProcessorContext
from agentkit_py.processors.budget import Budget
from agentkit_py.processors.pairing import is_same
from agentkit_py.processors.recall import Recall
from agentkit_py.processors.redaction import Redact
from agentkit_py.processors.settings import (
    NO_PARTS,
    ConfiguredProcessor,
    ProcessorParts,
    checked_object,
    optional,
    whole,
)
from agentkit_py.processors.summarize import Summarize
from agentkit_py.processors.tables import TableResults
from agentkit_py.processors.tokenizers import count_messages, default_tokenizer, prepare
from agentkit_py.processors.tool_results import (
    ClearToolResults,
    CompressToolResults,
    Deduplicate,
    ToolCallFilter,
    TruncateToolResults,
)
from agentkit_py.processors.views import ByAuthor, HandoffView, KeepImages, StripImages
from agentkit_py.processors.windowing import (
    DropUnanswered,
    MessageWindow,
    Pin,
    ProviderCompaction,
    RecentToolCalls,
    RecentTurns,
    TokenLimiter,
)
from agentkit_py.runtime.current import environment as process_environment

VARIABLE = "AGENTKIT_PROCESSORS"
"""The environment variable that `processors_from_env` reads."""


def _chain(name: str, value: object) -> tuple[HistoryProcessor, ...]:
    del name
    return as_processors(cast("Sequence[Processor]", value))


class _Composed(ConfiguredProcessor):
    """A processor made of others."""

    argument: ClassVar[str]
    """The constructor's argument that holds them."""

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], parts: ProcessorParts = NO_PARTS) -> Self:
        """Make a processor from a dict in which processors are dicts with a ``type``.

        Raises:
            ConfigurationError: A key, type or value is wrong.
        """
        found = checked_object(f"{cls.__name__}.from_settings", settings)
        made = _processors(f"{cls.__name__}: {cls.argument}", found.get(cls.argument), parts)
        return super().from_settings({**found, cls.argument: made}, parts)

    @property
    def chain(self) -> tuple[HistoryProcessor, ...]:
        """The processors."""
        return getattr(self, self.argument)

    @property
    def makes_text(self) -> bool:
        """True if any of them does."""
        return any(one.makes_text for _, one in steps_of([("chain", self.chain)]))

    @property
    def by_agent(self) -> bool:
        """True if any of them is."""
        return any(one.by_agent for one in self.chain)

    def pinned(self, messages: Messages) -> list[Message]:
        """Return the messages that any of them pins, whether they run or not."""
        return [message for one in self.chain for message in one.pinned(messages)]

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages as all of them leave them."""
        left = await apply_processors(messages, self.chain, context, level=context.level)
        return messages if is_same(messages, left) else left


@dataclass(frozen=True, eq=False, repr=False)
class Chain(_Composed):
    """Several processors combined, to be named once and used in several places.

    Each of them has its own entry in the report.

    Args:
        processors: They run in this order, each on the output of the previous.

    Raises:
        ConfigurationError: An item is not a processor.
    """

    processors: Annotated[Sequence[Processor], _chain]

    argument: ClassVar[str] = "processors"

    @property
    def members(self) -> Sequence[Processor]:
        """The processors."""
        return self.chain

    @property
    def reason(self) -> str:
        """The names of the processors."""
        return _names(self.chain)


@dataclass(frozen=True, eq=False, repr=False)
class Threshold(_Composed):
    """Runs processors only when the history has grown beyond a limit.

    Args:
        trigger: Tokens of prompt and history beyond which they run; None: the number of messages
            alone decides.
        then: They run in this order, each on the output of the previous.
        min_messages: They do not run on a history that is not longer than this.

    Raises:
        ConfigurationError: A limit is not a whole number of at least 0, there is none, ``then`` is
            empty, or an item of it is not a processor.
    """

    trigger: Annotated[int | None, optional(whole())] = None
    _: KW_ONLY
    then: Annotated[Sequence[Processor], _chain]
    min_messages: Annotated[int | None, optional(whole())] = None

    argument: ClassVar[str] = "then"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trigger is None and self.min_messages is None:
            raise ConfigurationError("Threshold needs trigger=… (tokens) or min_messages=….")
        if not self.then:
            raise ConfigurationError("Threshold needs processors to run: then=[…].")

    @property
    def reason(self) -> str:
        """The limits, and the names of the processors."""
        limits = [] if self.trigger is None else [f"{self.trigger} tokens"]
        limits += [] if self.min_messages is None else [f"{self.min_messages} messages"]
        return f"over {' and '.join(limits)}: {_names(self.chain)}"

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages as they leave them, or as they are."""
        if self.min_messages is not None and len(messages) <= self.min_messages:
            return messages
        if self.trigger is not None:
            tokenizer = await prepare(context.tokenizer or default_tokenizer())
            tokens = count_messages(messages, tokenizer) + count_messages(context.prompt, tokenizer)
            if tokens <= self.trigger:
                return messages
        return await super().process(messages, context)


def _names(processors: Sequence[HistoryProcessor]) -> str:
    return " → ".join(processor.name for processor in processors)


PROCESSORS: Mapping[str, type[ConfiguredProcessor | Pin]] = {
    kind.__name__: kind
    for kind in (
        Budget,
        ByAuthor,
        Chain,
        ClearToolResults,
        CompressToolResults,
        Deduplicate,
        DropUnanswered,
        HandoffView,
        KeepImages,
        MessageWindow,
        Pin,
        ProviderCompaction,
        Recall,
        RecentToolCalls,
        RecentTurns,
        Redact,
        StripImages,
        Summarize,
        TableResults,
        Threshold,
        TokenLimiter,
        ToolCallFilter,
        TruncateToolResults,
    )
}
"""The processors that a dict can make, by its ``type``."""


def processor_from_settings(
    settings: Mapping[str, Any], parts: ProcessorParts = NO_PARTS
) -> HistoryProcessor:
    """Make a processor from a dict: ``{"type": "MessageWindow", "max_messages": 20}``.

    Args:
        settings: The class's name as ``type``, and the settings of its ``from_settings``.
        parts: A model for `Summarize` and `Budget`, an embedder for `Recall`.

    Raises:
        ConfigurationError: The type or a key is not known, or a value is wrong; it names the key.
    """
    found = dict(checked_object("A processor's settings", settings))
    kind = found.pop("type", None)
    processor = PROCESSORS.get(kind) if isinstance(kind, str) else None
    if processor is None:
        raise ConfigurationError(
            f"type: unknown processor {kind!r}; there are: {', '.join(sorted(PROCESSORS))}."
        )
    return processor.from_settings(found, parts)


def processors_from_env(
    variable: str = VARIABLE,
    *,
    parts: ProcessorParts = NO_PARTS,
    environment: Mapping[str, str] | None = None,
) -> list[HistoryProcessor]:
    """Make processors from an environment variable: JSON of a processor's settings, or a list.

    ``AGENTKIT_PROCESSORS='[{"type": "Budget", "target_usage_ratio": 0.6}]'``

    Args:
        variable: Its name.
        parts: A model for `Summarize` and `Budget`, an embedder for `Recall`.
        environment: Where to look; None: the environment of the process.

    Returns:
        The processors, none where the variable is not set or empty.

    Raises:
        ConfigurationError: It is no JSON, or something in it is wrong; it names the variable.
    """
    found = process_environment() if environment is None else environment
    text = found.get(variable, "").strip()
    if not text:
        return []
    try:
        settings: object = json.loads(text)
        given = cast("list[object]", settings if isinstance(settings, list) else [settings])
        return _processors(variable, given, parts)
    except ValueError as error:  # of json, and ConfigurationError
        raise ConfigurationError(f"{variable}: {error}") from error


def _processors(name: str, value: object, parts: ProcessorParts) -> list[HistoryProcessor]:
    if not isinstance(value, list):
        raise ConfigurationError(f"{name} must be a list of processors' settings, not {value!r}.")
    return [processor_from_settings(one, parts) for one in cast("list[Any]", value)]


Step: TypeAlias = tuple[HistoryProcessor, str]
"""A processor, and when and why it is there."""

_USED = 0.5
_TARGET = 0.85
_NEWEST = 5
_MESSAGES = 30
_TABLES = "Always: results are tables, so each key appears once. No value is lost."


class ContextPolicy(HistoryProcessor):
    """Combined processors, with a reason for each; each has its own entry in the report.

    ``processors=[ContextPolicy.balanced(128_000)]``; ``print(policy.explain())``.

    Args:
        name: Name in reports.
        steps: The processors in their order, each with the sentence that `explain` gives.
    """

    def __init__(self, name: str, steps: Sequence[Step]) -> None:
        self._name = name
        self._steps = tuple(steps)

    @classmethod
    def balanced(cls, window: int, *, model: Model | None = None) -> ContextPolicy:
        """Return the policy that is right for most.

        On the recorded conversations of docs/policies.md it sends about three quarters of the
        characters, and every later call and answer finds its values.

        Args:
            window: The model's context window in tokens.
            model: Summarises messages that do not fit the window; None: they are left out.

        Raises:
            ConfigurationError: ``window`` is not a whole number of at least 1,000.
        """
        whole(1000)("ContextPolicy.balanced: window", window)
        half = int(window * _USED)
        return cls(
            "ContextPolicy.balanced",
            [
                (
                    Threshold(half, then=[TableResults(used_rows=True, keep_recent=_NEWEST)]),
                    f"Beyond {half:,} tokens: rows of older results without a mention are removed.",
                ),
                (TableResults(), _TABLES),
                (
                    Deduplicate(),
                    "Always: a result that is already there is not repeated.",
                ),
                _newest(window, model),
            ],
        )

    @classmethod
    def lean(cls, window: int, *, model: Model | None = None) -> ContextPolicy:
        """Return the policy for those who pay by the token, and whose threads are long.

        On the recorded conversations of docs/policies.md it sends about two thirds of the
        characters; two of a hundred later calls lack a value.

        Args:
            window: The model's context window in tokens.
            model: Summarises messages that do not fit the window; None: they are left out.

        Raises:
            ConfigurationError: ``window`` is not a whole number of at least 1,000.
        """
        whole(1000)("ContextPolicy.lean: window", window)
        return cls(
            "ContextPolicy.lean",
            [
                (
                    Deduplicate(records=True),
                    "Always: of a record that was read or changed again, the newest state stays.",
                ),
                (TableResults(), _TABLES),
                (
                    MessageWindow(_MESSAGES),
                    f"Beyond {_MESSAGES} messages: older ones are left out.",
                ),
                _newest(window, model),
            ],
        )

    @property
    def name(self) -> str:
        """The policy's name."""
        return self._name

    @property
    def reason(self) -> str:
        """The names of its processors."""
        return " → ".join(step.name for step, _ in self._steps)

    @property
    def by_agent(self) -> bool:
        """True if any of its processors is."""
        return any(one.by_agent for one in self.members)

    @property
    def members(self) -> Sequence[HistoryProcessor]:
        """The processors."""
        return [step for step, _ in self._steps]

    def explain(self) -> str:
        """Return a line for each step: its condition, its effect and the reason."""
        return "\n".join(f"{number}. {why}" for number, (_, why) in enumerate(self._steps, 1))

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages as all of them leave them."""
        return await apply_processors(messages, self.members, context, level=context.level)


def _newest(window: int, model: Model | None) -> Step:
    """Return the step that limits the history to the window."""
    budget = Budget(window, target=_TARGET, model=model, compress_tool_output=False)
    if model is None:
        budget = replace(budget, recent=1.0, summary=0.0)
    oldest = "are summarised" if model else "are left out"
    return budget, f"Beyond {int(window * _TARGET):,} tokens: the oldest messages {oldest}."
