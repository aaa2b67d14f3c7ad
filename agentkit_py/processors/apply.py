"""Running chains of processors: each gets what the one before left.

Users' own processors are not trusted to be right: what they return is checked, what they may not
drop is put back, and what they fail with says whose fault it was.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias, cast

from agentkit_py._core.awaiting import resolve
from agentkit_py.errors import ConfigurationError, ProcessorError, passes_through
from agentkit_py.messages import (
    Message,
    ReasoningMessage,
    TextMessage,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.processors.base import HistoryProcessor, Level, Processor, ProcessorContext
from agentkit_py.processors.protection import put_back
from agentkit_py.processors.report import ReportEntry
from agentkit_py.processors.tokenizers import default_tokenizer

Chain: TypeAlias = tuple[Level, Sequence[Processor]]
"""The processors of one level."""

Around: TypeAlias = Callable[
    [
        HistoryProcessor,
        Level,
        Sequence[Message],
        Callable[[], Awaitable[tuple[Message, ...]]],
    ],
    Awaitable[tuple[Message, ...]],
]
"""Gets a processor, its level, what it is given, and what runs it; gives what that gave."""


@dataclass(frozen=True, slots=True)
class ChainOutcome:
    """What all levels left, and what each processor did."""

    messages: Sequence[Message]
    entries: tuple[ReportEntry, ...] = ()


async def apply_processors(
    messages: Sequence[Message],
    processors: Sequence[Processor],
    context: ProcessorContext | None = None,
    *,
    level: Level = "chain",
) -> Sequence[Message]:
    """Run processors one after another, each on what the one before left.

    Calls and results are not made whole afterwards: runs do that themselves, see `ensure_valid`.

    Args:
        messages: The history; it is not changed.
        processors: Processors, or functions of ``(messages)`` or ``(messages, context)``.
        context: What they may know; None: nothing.
        level: What errors and reports name as the place where they were configured.

    Raises:
        ConfigurationError: One of them is no processor.
        ProcessorError: One of them failed or returned something that is no list of messages.
    """
    context = ProcessorContext() if context is None else context
    return (await run_chain(messages, [(level, processors)], context)).messages


async def run_chain(
    history: Sequence[Message],
    chains: Sequence[Chain],
    context: ProcessorContext,
    around: Around | None = None,
) -> ChainOutcome:
    """Run the processors of several levels; see `apply_processors` for what they raise.

    With ``around``, each processor is run by it, e.g. to be measured.

    Messages that ``context`` calls protected, and those that a processor pins, are in the outcome
    whatever the processors do, each itself or as a processor rewrote it. Protected ones may be
    dropped by a processor that asks to.
    """
    steps = steps_of(chains)
    if not steps:
        return ChainOutcome(history)
    context = _with_pins(history, [processor for _, processor in steps], context)
    tokenizer = default_tokenizer() if context.tokenizer is None else context.tokenizer
    entries: list[ReportEntry] = []
    # Processors get a tuple, so that one that works in place fails instead of doing damage.
    current = tuple(history)
    for level, processor in steps:
        # Each has notes of its own: one processor may serve many runs at the same time.
        context = replace(context, level=level, notes=[])
        if around is None:
            left = await _run_one(current, processor, level, context)
        else:
            run = partial(_run_one, current, processor, level, context)
            left = await around(processor, level, current, run)
        kept_back = 0
        held = context.pinned if processor.may_drop_protected else context.held
        if held and left is not current:
            restored = put_back(current, left, held)
            left, kept_back = restored.messages, restored.count
            context = replace(
                context,
                protected=restored.follow(context.protected),
                pinned=restored.follow(context.pinned),
            )
        entry = ReportEntry(
            level=level,
            name=processor.name,
            before=current,
            after=left,
            tokenizer=tokenizer,
            reason="; ".join(context.notes) or processor.reason,
            kept_back=kept_back,
        )
        entries.append(entry)
        current = left
    return ChainOutcome(current, tuple(entries))


def steps_of(chains: Sequence[Chain]) -> list[tuple[Level, HistoryProcessor]]:
    """What runs for the chains, one after another, and of which level each is."""
    return [
        (level, member)
        for level, processors in chains
        for processor in processors
        for member in members_of(as_processor(processor))
    ]


def members_of(processor: HistoryProcessor) -> list[HistoryProcessor]:
    """What runs for ``processor``: itself, or its members and theirs."""
    members = processor.members
    if not members:
        return [processor]
    return [one for member in members for one in members_of(as_processor(member))]


def _with_pins(
    history: Sequence[Message], processors: Sequence[HistoryProcessor], context: ProcessorContext
) -> ProcessorContext:
    """The context with what any processor pins, so that those before it keep that, too.

    And with the history, if it has none: messages are found in it whatever is made of them.
    """
    if not context.history:
        context = replace(context, history=history)
    pinned = {id(message) for one in processors for message in one.pinned(history)}
    return replace(context, pinned=context.pinned.union(pinned)) if pinned else context


_KINDS = frozenset({TextMessage, ToolCallMessage, ToolResultMessage, ReasoningMessage})


async def _run_one(
    messages: tuple[Message, ...],
    processor: HistoryProcessor,
    level: Level,
    context: ProcessorContext,
) -> tuple[Message, ...]:
    try:
        returned: object = await processor.process(messages, context)
        return messages if returned is messages else _checked(returned, processor.name, level)
    except ProcessorError:
        raise
    except Exception as error:
        if passes_through(error):
            raise
        message = f"it failed with {type(error).__name__}: {error}"
        raise ProcessorError(message, processor=processor.name, level=level) from error


def _checked(returned: object, name: str, level: Level) -> tuple[Message, ...]:
    """What a processor returned, as a tuple of messages."""
    if isinstance(returned, str | bytes | Mapping) or not isinstance(returned, Iterable):
        raise ProcessorError(
            f"it returned {returned!r:.80}; return a list of messages", processor=name, level=level
        )
    messages = tuple(cast("Iterable[object]", returned))
    if _KINDS.issuperset(map(type, messages)):
        return cast("tuple[Message, ...]", messages)
    for index, message in enumerate(messages):
        if not isinstance(message, Message):
            raise ProcessorError(
                f"item {index} of what it returned is {message!r:.80}, which is no message",
                processor=name,
                level=level,
            )
    return cast("tuple[Message, ...]", messages)


def as_processors(processors: Iterable[Processor] | None) -> tuple[HistoryProcessor, ...]:
    """All of ``processors``, checked; see `as_processor`."""
    if processors is None:
        return ()
    if isinstance(processors, HistoryProcessor) or not isinstance(
        cast("object", processors), Iterable
    ):
        raise ConfigurationError(f"processors must be a list, not {processors!r}.")
    return tuple(map(as_processor, processors))


def as_processor(value: Processor) -> HistoryProcessor:
    """``value`` as a processor; what a function takes is found out here, once.

    Raises:
        ConfigurationError: It is neither a processor nor a function of one or two arguments.
    """
    if isinstance(value, HistoryProcessor):
        return value
    if isinstance(value, type):
        raise ConfigurationError(
            f"{value.__name__} is a class; give a processor of it: {value.__name__}(…)."
        )
    if not callable(value):
        raise ConfigurationError(
            f"{value!r} is no history processor: give a HistoryProcessor, or a function of "
            "(messages) or (messages, context)."
        )
    return _FunctionProcessor(value, with_context=_takes_context(value))


class _FunctionProcessor(HistoryProcessor):
    """A plain function as a processor."""

    def __init__(self, function: Callable[..., Any], *, with_context: bool) -> None:
        self._function = function
        self._with_context = with_context

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self._function, "__name__", None) or type(self._function).__name__

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """What the function makes of the messages."""
        arguments = (messages, context) if self._with_context else (messages,)
        return await resolve(self._function(*arguments))


def _takes_context(function: Callable[..., Any]) -> bool:
    """Whether to call ``function`` with two arguments.

    An optional second parameter gets the context only if it is called ``context``: it may as well
    be a setting of the function's own.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # built-in functions that do not say
        return False
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    positional = [p for p in signature.parameters.values() if p.kind in kinds]
    second = positional[1] if len(positional) > 1 else None
    with_context = second is not None and (
        second.default is inspect.Parameter.empty or second.name == "context"
    )
    try:
        signature.bind(*((None, None) if with_context else (None,)))
    except TypeError as error:
        name = getattr(function, "__name__", repr(function))
        raise ConfigurationError(
            f"The history processor {name}{signature} must take (messages) or (messages, context)."
        ) from error
    return with_context
