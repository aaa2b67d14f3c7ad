"""Processors made of processors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message
from agentkit_py.models.base import Model
from agentkit_py.processors.apply import as_processors, run_chain
from agentkit_py.processors.base import HistoryProcessor, Processor, ProcessorContext, SummaryStore
from agentkit_py.processors.budget import Budget
from agentkit_py.processors.pairing import is_same
from agentkit_py.processors.recall import Recall
from agentkit_py.processors.redaction import Redact
from agentkit_py.processors.settings import checked_object, optional, whole
from agentkit_py.processors.summarize import Summarize
from agentkit_py.processors.tokenizers import count_messages, default_tokenizer, prepare
from agentkit_py.processors.tool_results import (
    ClearToolResults,
    CompressToolResults,
    Deduplicate,
    ToolCallFilter,
    TruncateToolResults,
)
from agentkit_py.processors.vectors import Embedder, VectorIndex
from agentkit_py.processors.views import ByAuthor, HandoffView, KeepImages, StripImages
from agentkit_py.processors.windowing import (
    DropUnanswered,
    MessageWindow,
    Pin,
    RecentToolCalls,
    TokenLimiter,
)
from agentkit_py.runtime.environment import environment as process_environment

VARIABLE = "AGENTKIT_PROCESSORS"
"""The environment variable that `processors_from_env` reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyParts:
    """What policies need beside their settings, since no dict can hold it."""

    model: Model | None = None
    """Makes summaries; `Summarize` needs it."""

    store: SummaryStore | None = None
    """Keeps summaries; None: beside the thread."""

    embedder: Embedder | None = None
    """Makes vectors; `Recall` needs it."""

    index: VectorIndex | None = None
    """Keeps vectors; None: beside the thread."""


NO_PARTS = PolicyParts()


class Chain(HistoryProcessor):
    """Several processors as one, to be named once and used at several places.

    Each of them has its own entry in the report.

    Args:
        processors: They run in this order, each on what the one before left.

    Raises:
        ConfigurationError: One of them is no processor.
    """

    def __init__(self, processors: Sequence[Processor]) -> None:
        self._processors = as_processors(processors)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], parts: PolicyParts = NO_PARTS) -> Chain:
        """Make one from ``{"processors": [{"type": "MessageWindow", …}, …]}``.

        Raises:
            ConfigurationError: A key, type or value is wrong.
        """
        found = checked_object("Chain.from_settings", settings)
        _known("Chain", found, {"processors"})
        return cls(_processors("Chain: processors", found.get("processors"), parts))

    @property
    def members(self) -> Sequence[HistoryProcessor]:
        """The processors."""
        return self._processors

    @property
    def reason(self) -> str:
        """What they are."""
        return " → ".join(processor.name for processor in self._processors)

    def pinned(self, messages: Sequence[Message]) -> list[Message]:
        """What any of them pins."""
        return [message for one in self._processors for message in one.pinned(messages)]

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """What all of them leave."""
        left = (await run_chain(messages, [(context.level, self._processors)], context)).messages
        return messages if is_same(messages, left) else left


class Threshold(HistoryProcessor):
    """Runs processors only when the history has grown beyond a limit.

    Args:
        trigger: Tokens of prompt and history beyond which they run; None: the number of messages
            alone decides.
        then: They run in this order, each on what the one before left.
        min_messages: They do not run on a history that is not longer than this.

    Raises:
        ConfigurationError: A limit is no whole number of at least 0, there is none, ``then`` is
            empty, or one of it is no processor.
    """

    def __init__(
        self,
        trigger: int | None = None,
        *,
        then: Sequence[Processor],
        min_messages: int | None = None,
    ) -> None:
        self.trigger: int | None = optional(whole())("Threshold: trigger", trigger)
        self.min_messages: int | None = optional(whole())("Threshold: min_messages", min_messages)
        if trigger is None and min_messages is None:
            raise ConfigurationError("Threshold needs trigger=… (tokens) or min_messages=….")
        self._then = as_processors(then)
        if not self._then:
            raise ConfigurationError("Threshold needs processors to run: then=[…].")

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], parts: PolicyParts = NO_PARTS) -> Threshold:
        """Make one from ``{"trigger": 50000, "then": [{"type": "MessageWindow", …}, …]}``.

        Raises:
            ConfigurationError: A key, type or value is wrong.
        """
        found = checked_object("Threshold.from_settings", settings)
        _known("Threshold", found, {"trigger", "then", "min_messages"})
        then = _processors("Threshold: then", found.get("then"), parts)
        return cls(found.get("trigger"), then=then, min_messages=found.get("min_messages"))

    @property
    def reason(self) -> str:
        """When it does what."""
        limits = [] if self.trigger is None else [f"{self.trigger} tokens"]
        limits += [] if self.min_messages is None else [f"{self.min_messages} messages"]
        then = " → ".join(processor.name for processor in self._then)
        return f"over {' and '.join(limits)}: {then}"

    def pinned(self, messages: Sequence[Message]) -> list[Message]:
        """What any of them pins, whether they run or not."""
        return [message for one in self._then for message in one.pinned(messages)]

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """What they leave, or the messages as they are."""
        if self.min_messages is not None and len(messages) <= self.min_messages:
            return messages
        if self.trigger is not None:
            tokenizer = await prepare(context.tokenizer or default_tokenizer())
            tokens = count_messages(messages, tokenizer) + count_messages(context.prompt, tokenizer)
            if tokens <= self.trigger:
                return messages
        left = (await run_chain(messages, [(context.level, self._then)], context)).messages
        return messages if is_same(messages, left) else left


_Maker: TypeAlias = Callable[[Mapping[str, Any], PolicyParts], HistoryProcessor]


def _plain(policy: Any, settings: Mapping[str, Any], parts: PolicyParts) -> HistoryProcessor:
    """A policy that needs nothing beside its settings."""
    del parts
    return policy.from_settings(settings)


POLICIES: dict[str, _Maker] = {
    "Budget": lambda given, parts: Budget.from_settings(
        given, model=parts.model, store=parts.store
    ),
    "Chain": Chain.from_settings,
    "Recall": lambda given, parts: Recall.from_settings(
        given, embedder=parts.embedder, index=parts.index
    ),
    "Summarize": lambda given, parts: Summarize.from_settings(
        given, model=parts.model, store=parts.store
    ),
    "Threshold": Threshold.from_settings,
    **{
        policy.__name__: partial(_plain, policy)
        for policy in (
            ByAuthor,
            ClearToolResults,
            CompressToolResults,
            Deduplicate,
            DropUnanswered,
            HandoffView,
            KeepImages,
            MessageWindow,
            Pin,
            RecentToolCalls,
            Redact,
            StripImages,
            TokenLimiter,
            ToolCallFilter,
            TruncateToolResults,
        )
    },
}
"""What a dict makes, by its ``type``."""


def processor_from_settings(
    settings: Mapping[str, Any], parts: PolicyParts = NO_PARTS
) -> HistoryProcessor:
    """Make a processor from a dict: ``{"type": "MessageWindow", "max_messages": 20}``.

    Args:
        settings: The class's name as ``type``, and what its ``from_settings`` takes.
        parts: A model for `Summarize` and `Budget`, an embedder for `Recall`, wherever they stand.

    Raises:
        ConfigurationError: The type or a key is not known, or a value is wrong; it names the key.
    """
    found = dict(checked_object("A processor's settings", settings))
    kind = found.pop("type", None)
    make = POLICIES.get(kind) if isinstance(kind, str) else None
    if make is None:
        raise ConfigurationError(
            f"type: there is no processor {kind!r}; there are: {', '.join(sorted(POLICIES))}."
        )
    return make(found, parts)


def processors_from_env(
    variable: str = VARIABLE,
    *,
    parts: PolicyParts = NO_PARTS,
    environment: Mapping[str, str] | None = None,
) -> list[HistoryProcessor]:
    """Make processors from an environment variable: JSON of one processor's settings, or a list.

    ``AGENTKIT_PROCESSORS='[{"type": "Budget", "target_usage_ratio": 0.6}]'``

    Args:
        variable: Its name.
        parts: A model for `Summarize` and `Budget`, an embedder for `Recall`, wherever they stand.
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


def _processors(name: str, value: object, parts: PolicyParts) -> list[HistoryProcessor]:
    if not isinstance(value, list):
        raise ConfigurationError(f"{name} must be a list of processors' settings, not {value!r}.")
    return [processor_from_settings(one, parts) for one in cast("list[Any]", value)]


def _known(owner: str, found: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(found.keys() - known)
    if unknown:
        raise ConfigurationError(
            f"{owner} has no setting {unknown[0]!r}; known are: {', '.join(sorted(known))}."
        )
