"""Run chains of processors: each gets the output of the previous.

Users' own processors are not trusted: their output is checked, messages that they may not drop are
put back, and errors name the processor.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, TypeAlias, cast

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.digests import settings_of
from agentkit_py._core.json import JsonValue
from agentkit_py.errors import ConfigurationError, ProcessorError, is_control_error
from agentkit_py.messages import (
    Message,
    Messages,
    Sealed,
    seal,
    unseal,
)
from agentkit_py.processors.base import (
    HistoryProcessor,
    Level,
    Processor,
    ProcessorContext,
    Processors,
)
from agentkit_py.processors.report import ReportEntry
from agentkit_py.processors.restoring import restore_held, without_results_of_others
from agentkit_py.processors.tokenizers import default_tokenizer
from agentkit_py.processors.validity import is_valid

logger: logging.Logger = logging.getLogger(__name__)

_OURS = "agentkit_py."
"""Where processors come from that change nothing in place."""

LevelChain: TypeAlias = tuple[Level, Sequence[Processor]]
"""The processors of a level."""

Around: TypeAlias = Callable[
    [
        HistoryProcessor,
        Level,
        Messages,
        Callable[[], Awaitable[tuple[Message, ...]]],
    ],
    Awaitable[tuple[Message, ...]],
]
"""Gets a processor, its level, its messages and a function that runs it; returns its result."""


@dataclass(frozen=True, slots=True)
class ChainOutcome:
    """The messages that all levels left, and the report of each processor."""

    messages: Messages
    entries: tuple[ReportEntry, ...] = ()
    protected: frozenset[int] = frozenset()
    """`id()` of the protected messages, as the chain left them."""

    pinned: frozenset[int] = frozenset()
    """`id()` of the pinned messages, as the chain left them."""


async def apply_processors(
    messages: Messages,
    processors: Sequence[Processor],
    context: ProcessorContext | None = None,
    *,
    level: Level = "chain",
) -> Messages:
    """Run processors in order, each on the output of the previous.

    Calls and results are not made whole afterwards: runs do that themselves, see `ensure_valid`.

    Args:
        messages: The history; it is not changed.
        processors: Processors, or functions of ``(messages)`` or ``(messages, context)``.
        context: What they may know; None: nothing.
        level: What errors and reports name as the place where they were configured.

    Raises:
        ConfigurationError: An item is not a processor.
        ProcessorError: A processor failed or did not return a list of messages.
    """
    context = ProcessorContext() if context is None else context
    outcome = await run_chain(messages, [(level, processors)], context)
    context.parts.extend(outcome.entries)
    return outcome.messages


async def run_chain(
    history: Messages,
    chains: Sequence[LevelChain],
    context: ProcessorContext,
    around: Around | None = None,
) -> ChainOutcome:
    """Run the processors of several levels; it raises the errors of `apply_processors`.

    With ``around``, each processor is run by it, e.g. to be measured.

    Messages that ``context`` calls protected, and those that a processor pins, are in the outcome
    whatever the processors do, each itself or as a processor rewrote it. Protected ones may be
    dropped by a processor that asks to.
    """
    steps = steps_of(chains)
    if not steps:
        return ChainOutcome(history, protected=context.protected)
    context = _with_pins(history, [processor for _, processor in steps], context)
    tokenizer = default_tokenizer() if context.tokenizer is None else context.tokenizer
    entries: list[ReportEntry] = []
    # Processors get a tuple: a processor that works in place fails instead of doing damage.
    current = tuple(history)
    for level, processor in steps:
        # Each has its own notes: a processor may serve many runs at the same time.
        may_drop = processor.may_drop_protected
        context = replace(context, level=level, notes=[], parts=[], may_drop=may_drop)
        if around is None:
            left = await _run_one(current, processor, level, context)
        else:
            run = partial(_run_one, current, processor, level, context)
            left = await around(processor, level, current, run)
        kept_back = 0
        if context.held and left is not current:
            restored = restore_held(current, left, context.held)
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
            masks=processor.masks,
            parts=tuple(context.parts),
        )
        entries.append(entry)
        current = left
        context = _after(context, processor)
    return ChainOutcome(current, tuple(entries), context.protected, context.pinned)


def _after(context: ProcessorContext, processor: HistoryProcessor) -> ProcessorContext:
    """Return the context of the processors after this processor."""
    own_view = context.own_view or processor.by_agent
    if processor.same_for_all and own_view is context.own_view:
        return context
    hiding = () if processor.same_for_all else (processor,)
    return replace(context, own_view=own_view, hiding=(*context.hiding, *hiding))


def steps_of(chains: Sequence[LevelChain]) -> list[tuple[Level, HistoryProcessor]]:
    """Return the processors that run for the chains, in order, each with its level.

    A processor that `hides` messages runs before the first processor that makes text of messages,
    so that the text is made for each view and holds nothing that is hidden in it.
    """
    steps: list[tuple[Level, HistoryProcessor]] = [
        (level, member)
        for level, processors in chains
        for processor in processors
        for member in members_of(as_processor(processor))
    ]
    first = next((i for i, (_, one) in enumerate(steps) if one.makes_text), len(steps))
    before, after = steps[:first], steps[first:]
    for _, processor in after[1:]:
        if not _says_what_it_hides(processor):
            _warn_of_text(processor.name, after[0][1].name)
    hiding = [step for step in after if step[1].hides]
    return [*before, *hiding, *(step for step in after if not step[1].hides)]


def _says_what_it_hides(processor: HistoryProcessor) -> bool:
    """Return whether it is the library's, or sets `hides` or ``same_for_all``."""
    if isinstance(processor, _FunctionProcessor):
        return processor.says_what_it_hides
    kind = type(processor)
    is_ours = kind.__module__.startswith(_OURS)
    return is_ours or processor.same_for_all or kind.hides is not HistoryProcessor.hides


@cache  # once for each pair
def _warn_of_text(name: str, maker: str) -> None:
    logger.warning(
        "The processor %s runs after %s, which makes text of messages: the text may contain "
        "messages that %s removes. Set its attribute hides: True (it then runs before), or False "
        "if it removes nothing that the agent may not see.",
        name,
        maker,
        name,
    )


def members_of(processor: HistoryProcessor) -> list[HistoryProcessor]:
    """Return the processors that run for ``processor``: itself, or all its members."""
    members = processor.members
    if not members:
        return [processor]
    return [one for member in members for one in members_of(as_processor(member))]


def _with_pins(
    history: Messages, processors: Sequence[HistoryProcessor], context: ProcessorContext
) -> ProcessorContext:
    """Return the context with all pinned messages, so that earlier processors hold them, too.

    And with the history, if it has none: messages are found in it whatever is made of them.
    """
    if not context.history:
        context = replace(context, history=history)
    pinned = {id(message) for one in processors for message in one.pinned(history)}
    return replace(context, pinned=context.pinned.union(pinned)) if pinned else context


async def _run_one(
    messages: tuple[Message, ...],
    processor: HistoryProcessor,
    level: Level,
    context: ProcessorContext,
) -> tuple[Message, ...]:
    is_ours = type(processor).__module__.startswith(_OURS)
    is_trusted = is_ours and not isinstance(processor, _FunctionProcessor)
    sealed = [] if is_trusted else [seal(message) for message in messages]
    try:
        returned: object = await resolve(processor.process(messages, context))
        _check_unchanged(sealed, processor.name, level)
        if returned is messages:
            return messages
        left = _checked(returned, processor.name, level)
        return left if is_trusted else without_results_of_others(messages, left)
    except ProcessorError:
        raise
    except Exception as error:
        if is_control_error(error):
            raise
        _check_unchanged(sealed, processor.name, level)
        message = f"it failed with {type(error).__name__}: {error}"
        raise ProcessorError(message, processor=processor.name, level=level) from error


def _check_unchanged(sealed: Sequence[Sealed], name: str, level: Level) -> None:
    """Undo a processor's changes in place, which would be saved otherwise, and report them."""
    edited = [one[0].type for one in sealed if unseal(one)]
    if edited:
        raise ProcessorError(
            f"it changed JSON of a {edited[0]} in place. That is undone, since the thread holds "
            "the same object; return another message: dataclasses.replace(message, content=…)",
            processor=name,
            level=level,
        )


def _checked(returned: object, name: str, level: Level) -> tuple[Message, ...]:
    """Return the processor's output as a tuple of messages."""
    if isinstance(returned, str | bytes | Mapping) or not isinstance(returned, Iterable):
        raise ProcessorError(
            f"it returned {returned!r:.80}; return a list of messages", processor=name, level=level
        )
    messages = tuple(cast("Iterable[object]", returned))
    for index, message in enumerate(messages):
        if not isinstance(message, Message):
            raise ProcessorError(
                f"item {index} of the list it returned is {message!r:.80}, not a message",
                processor=name,
                level=level,
            )
    return cast("tuple[Message, ...]", messages)


def as_processors(processors: Processors | None, where: str = "") -> tuple[HistoryProcessor, ...]:
    """Return ``processors`` checked; see `as_processor`.

    Args:
        processors: A list, or a function of the run's context, which becomes `ChosenProcessors`.
        where: What errors begin with: whose they are.

    Raises:
        ConfigurationError: It is neither, or an item is not a processor; the message has the fix.
    """
    given: Any = processors
    before = f"{where}: " if where else ""
    if given is None or given in ((), []):
        return ()
    if callable(given) and not isinstance(given, HistoryProcessor | type):
        return (ChosenProcessors(given, before),)
    if isinstance(given, Mapping):
        given = [given]  # the advice is about each item
    if isinstance(given, str | bytes | HistoryProcessor | Iterator | type) or not isinstance(
        given, Iterable
    ):
        raise ConfigurationError(
            f"{before}processors must be a list, or a function of the run's context that gives "
            f"a list, not {_name(given)}; {_advice(given)}."
        )
    try:
        return tuple(as_processor(one) for one in cast("Iterable[Processor]", given))
    except ConfigurationError as error:
        raise ConfigurationError(f"{before}{error}") from error


def _name(given: Any) -> str:
    return f"{given.__name__}(…)" if isinstance(given, type) else f"{given!r:.80}"


def _advice(given: Any) -> str:
    """Return the line to write instead of a value that is not a list."""
    if isinstance(given, Iterator):
        return "it can be read only once: write a list, [*…]"
    if isinstance(given, HistoryProcessor | type):
        return f"put it into [ ]: processors=[{_name(given)}]"
    return "write processors=[…] with processors in it, e.g. [ToolCallFilter()]"


def as_processor(value: Processor) -> HistoryProcessor:
    """Return ``value`` as a processor; the arguments of a function are read here, once.

    Raises:
        ConfigurationError: It is neither a processor nor a function of 1 or 2 arguments.
    """
    given: Any = value
    if isinstance(given, HistoryProcessor):
        _check_process(type(given))
        return given
    if isinstance(given, type):
        raise ConfigurationError(
            f"{given.__name__} is a class; give a processor of it: {given.__name__}(…)."
        )
    if not callable(given):
        advice = "give a HistoryProcessor, or a function of (messages) or (messages, context)"
        if isinstance(given, Mapping):
            advice = "use agentkit_py.processors.processor_from_settings({…})"
        elif isinstance(given, list | tuple):
            advice = "unpack the list into the outer list: processors=[*first, second]"
        elif hasattr(given, "process"):
            advice = f"let its class inherit it: class {type(given).__name__}(HistoryProcessor)"
        raise ConfigurationError(f"{given!r:.80} is not a history processor: {advice}.")
    _check_returns(given, getattr(given, "__name__", repr(given)))
    return _FunctionProcessor(given, with_context=_takes_context(given))


@cache
def _check_process(kind: type[HistoryProcessor]) -> None:
    """Refuse a class whose `process` cannot be called as the chain calls it."""
    name = f"{kind.__name__}.process"
    _check_returns(kind.process, name)
    try:
        inspect.signature(kind.process).bind(None, (), None)
    except TypeError as error:
        raise ConfigurationError(
            f"{name}{inspect.signature(kind.process)} cannot be called with the messages and the "
            "context: write def process(self, messages, context), with or without async."
        ) from error


def _check_returns(function: Callable[..., Any], name: str) -> None:
    if inspect.isasyncgenfunction(function):
        raise ConfigurationError(f"{name} is an async generator: let it return a list instead.")


class ChosenProcessors(HistoryProcessor):
    """Processors that a function of the run's context chooses when an agent's turns begin.

    Args:
        function: Gets an `agentkit_py.lifecycle.AgentContext`, returns the processors.

    Raises:
        ConfigurationError: It is a processor itself, or takes no context.
    """

    def __init__(self, function: Callable[[Any], Any], where: str = "") -> None:
        """Check that it takes a context, not messages; errors begin with ``where``."""
        self._function = function
        _check_returns(function, self.name)
        try:
            signature = inspect.signature(function)
        except ValueError:  # built-in functions that do not say
            return
        first = next(iter(signature.parameters.values()), None)
        required = [p for p in signature.parameters.values() if p.default is p.empty]
        if len(required) > 1 or (first and ("essage" in f"{first.annotation} {first.name}")):
            raise ConfigurationError(
                f"{where}{self.name}{signature} is a single processor: put it into [ ]: "
                f"processors=[{self.name}]."
            )
        if first is None:
            raise ConfigurationError(
                f"{where}{self.name}{signature} takes no context: write "
                "processors=lambda context: […]."
            )

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self._function, "__name__", None) or type(self._function).__name__

    @property
    def reason(self) -> str:
        """The moments at which they are chosen."""
        return "chosen in each run"

    async def choose(self, context: Any) -> tuple[HistoryProcessor, ...]:
        """Return the processors for a run.

        Raises:
            ConfigurationError: The function gave something else than a list of processors.
        """
        found: Any = await resolve(self._function(context))
        if not isinstance(found, list | tuple):
            raise ConfigurationError(
                f"{self.name} returned {found!r:.80}; return a list of processors: […]."
            )
        found = cast("list[Processor] | tuple[Processor, ...]", found)
        return as_processors(found, f"What {self.name} returned")

    async def enough(self, newest: Messages, context: ProcessorContext) -> bool:
        """Return False: who is chosen says it."""
        return False

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Refuse to run, since only a run has the context to choose by."""
        raise ConfigurationError(f"{self.name} chooses processors in runs; give a list of them.")


class _FunctionProcessor(HistoryProcessor):
    """A plain function as a processor."""

    def __init__(self, function: Callable[..., Any], *, with_context: bool) -> None:
        self._function = function
        self._with_context = with_context

    @property
    def name(self) -> str:
        """The function's name."""
        return getattr(self._function, "__name__", None) or type(self._function).__name__

    @property
    def by_agent(self) -> bool:
        """True if it gets the context, which names the agent."""
        return self._with_context

    @property
    def hides(self) -> bool:
        """The function's attribute of this name; False if it has none."""
        return bool(getattr(self._function, "hides", False))

    @property
    def says_what_it_hides(self) -> bool:
        """True if the function has an attribute ``hides``."""
        return hasattr(self._function, "hides")

    @property
    def fingerprint(self) -> JsonValue:
        """The function's code, and its settings."""
        return [self.name, settings_of(self._function)]

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages as the function leaves them."""
        arguments = (messages, context) if self._with_context else (messages,)
        return await resolve(self._function(*arguments))


def _takes_context(function: Callable[..., Any]) -> bool:
    """Return whether to call ``function`` with two arguments.

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


async def is_enough(
    newest: Messages, chains: Sequence[LevelChain], context: ProcessorContext
) -> bool:
    """Return whether the chains leave the same of the newest messages as of the whole history.

    Then older messages need not be loaded. Each processor up to that with enough messages must give
    newer messages the same output as without older ones. Calls and results must be
    whole; where they are not, everything is loaded.
    """
    steps = steps_of(chains)
    if any(_pins(processor) for _, processor in steps) or not is_valid(newest):
        return False
    context = replace(context, history=newest)
    current: Messages = newest
    for level, processor in steps:
        own = replace(context, level=level, notes=[])
        if _declares(processor, "enough") and await processor.enough(current, own):
            return True
        if _looks_back(processor):
            return False
        current = (await run_chain(current, [(level, [processor])], context)).messages
        context = _after(context, processor)
    return False


def is_bounded(chains: Sequence[LevelChain]) -> bool:
    """Return whether the chains may ever have enough; if not, they need the whole thread."""
    processors = [processor for _, processor in steps_of(chains)]
    if any(map(_pins, processors)):
        return False
    for processor in processors:
        if _declares(processor, "enough"):
            return True
        if _looks_back(processor):
            return False
    return False


def _looks_back(processor: HistoryProcessor) -> bool:
    return processor.looks_back or not _declares(processor, "looks_back")


def _declares(processor: HistoryProcessor, name: str) -> bool:
    """Return whether the class that defines `process`, or a subclass, defines ``name``."""
    kinds = type(processor).__mro__
    owners = [next(kind for kind in kinds if one in vars(kind)) for one in ("process", name)]
    return issubclass(owners[1], owners[0])


def _pins(processor: HistoryProcessor) -> bool:
    return type(processor).pinned is not HistoryProcessor.pinned
