"""Where a history can be cut so that no call is parted from its result."""

from __future__ import annotations

from collections.abc import Sequence

from agentkit_py.messages import Message, ToolResultMessage
from agentkit_py.processors.groups import is_joined, segments
from agentkit_py.processors.validity import is_valid


def next_cut(messages: Sequence[Message], index: int) -> int:
    """The first place at or after ``index`` where a list can be cut without parting a call."""
    cut = index
    while cut < len(messages) and not _may_begin(messages, cut):
        cut += 1
    if is_valid(messages[cut:]):
        return cut
    # Some result stands apart from its call: only reading all of it says what belongs together.
    starts = (segment.start for segment in segments(messages) if segment.start >= index)
    return next(starts, len(messages))


def newest_stretch(messages: Sequence[Message]) -> int:
    """Where the last stretch begins that can only stay or go as a whole."""
    return max((segment.start for segment in segments(messages)), default=0)


def _may_begin(messages: Sequence[Message], index: int) -> bool:
    """Whether the message at ``index`` is neither a result nor the middle of a model's reply."""
    return not isinstance(messages[index], ToolResultMessage) and (
        index == 0 or not is_joined(messages[index - 1], messages[index])
    )
