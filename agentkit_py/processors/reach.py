"""How far back a chain of processors has to see: what is older need not be loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentkit_py.messages import Message
from agentkit_py.processors.apply import Chain, run_chain, steps_of
from agentkit_py.processors.base import HistoryProcessor, ProcessorContext
from agentkit_py.processors.validity import is_valid


async def is_enough(
    newest: Sequence[Message], chains: Sequence[Chain], context: ProcessorContext
) -> bool:
    """Whether the chains leave the same of ``newest`` as they would of the whole history.

    Each processor up to the one that has enough has to give newer messages what it would give them
    if there were no older ones. Calls and results have to be whole; where they are not, everything
    is looked at.

    Args:
        newest: The newest messages of the history, in order.
        chains: The processors of each level.
        context: What they may know.
    """
    steps = steps_of(chains)
    if any(_pins(processor) for _, processor in steps) or not is_valid(newest):
        return False
    context = replace(context, history=newest)
    current: Sequence[Message] = newest
    for level, processor in steps:
        own = replace(context, level=level, notes=[])
        if _says(processor, "enough") and await processor.enough(current, own):
            return True
        if _looks_back(processor):
            return False
        current = (await run_chain(current, [(level, [processor])], context)).messages
    return False


def is_bounded(chains: Sequence[Chain]) -> bool:
    """Whether there may ever be enough for the chains; if not, they want everything."""
    processors = [processor for _, processor in steps_of(chains)]
    if any(map(_pins, processors)):
        return False
    for processor in processors:
        if _says(processor, "enough"):
            return True
        if _looks_back(processor):
            return False
    return False


def _looks_back(processor: HistoryProcessor) -> bool:
    return processor.looks_back or not _says(processor, "looks_back")


def _says(processor: HistoryProcessor, name: str) -> bool:
    """Whether whoever wrote its `process` says so; what a subclass inherits is its base's word."""
    kinds = type(processor).__mro__
    owners = [next(kind for kind in kinds if one in vars(kind)) for one in ("process", name)]
    return issubclass(owners[1], owners[0])


def _pins(processor: HistoryProcessor) -> bool:
    """Whether it may want to hold messages that nobody has looked at yet."""
    return type(processor).pinned is not HistoryProcessor.pinned
