"""Processors made of processors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Message
from agentkit_py.processors.apply import as_processors, run_chain
from agentkit_py.processors.base import HistoryProcessor, Processor, ProcessorContext
from agentkit_py.processors.budget import Budget
from agentkit_py.processors.by_author import ByAuthor
from agentkit_py.processors.clear_tool_results import ClearToolResults
from agentkit_py.processors.compress_tool_results import CompressToolResults
from agentkit_py.processors.deduplicate import Deduplicate
from agentkit_py.processors.drop_unanswered import DropUnanswered
from agentkit_py.processors.handoff_view import HandoffView
from agentkit_py.processors.images import KeepImages, StripImages
from agentkit_py.processors.message_window import MessageWindow
from agentkit_py.processors.pin import Pin
from agentkit_py.processors.recent_tool_calls import RecentToolCalls
from agentkit_py.processors.redact import Redact
from agentkit_py.processors.removal import is_same
from agentkit_py.processors.settings import checked_object, optional, whole
from agentkit_py.processors.token_limiter import TokenLimiter
from agentkit_py.processors.tokenizers import count_messages, default_tokenizer, prepare
from agentkit_py.processors.tool_call_filter import ToolCallFilter
from agentkit_py.processors.truncate_tool_results import TruncateToolResults


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
    def from_settings(cls, settings: Mapping[str, Any]) -> Chain:
        """Make one from ``{"processors": [{"type": "MessageWindow", …}, …]}``.

        Raises:
            ConfigurationError: A key, type or value is wrong.
        """
        found = checked_object("Chain.from_settings", settings)
        _known("Chain", found, {"processors"})
        return cls(_processors("Chain: processors", found.get("processors")))

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
        ConfigurationError: A limit is no whole number of at least 0, there is none, or one of
            ``then`` is no processor.
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

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> Threshold:
        """Make one from ``{"trigger": 50000, "then": [{"type": "MessageWindow", …}, …]}``.

        Raises:
            ConfigurationError: A key, type or value is wrong.
        """
        found = checked_object("Threshold.from_settings", settings)
        _known("Threshold", found, {"trigger", "then", "min_messages"})
        then = _processors("Threshold: then", found.get("then"))
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


POLICIES: dict[str, Callable[[Mapping[str, Any]], HistoryProcessor]] = {
    policy.__name__: policy.from_settings
    for policy in (
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
        RecentToolCalls,
        Redact,
        StripImages,
        Threshold,
        TokenLimiter,
        ToolCallFilter,
        TruncateToolResults,
    )
}
"""What a dict makes, by its ``type``."""


def processor_from_settings(settings: Mapping[str, Any]) -> HistoryProcessor:
    """Make a processor from a dict: ``{"type": "MessageWindow", "max_messages": 20}``.

    Args:
        settings: The class's name as ``type``, and what its ``from_settings`` takes.

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
    return make(found)


def _processors(name: str, value: object) -> list[HistoryProcessor]:
    if not isinstance(value, list):
        raise ConfigurationError(f"{name} must be a list of processors' settings, not {value!r}.")
    return [processor_from_settings(one) for one in cast("list[Any]", value)]


def _known(owner: str, found: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(found.keys() - known)
    if unknown:
        raise ConfigurationError(
            f"{owner} has no setting {unknown[0]!r}; known are: {', '.join(sorted(known))}."
        )
