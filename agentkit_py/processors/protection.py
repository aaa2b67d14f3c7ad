"""Putting back what a processor may not drop: an agent's own current calls, and what is pinned.

The model asked for its calls and waits for their results, so a history without them makes it ask
again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from agentkit_py.messages import (
    Message,
    TextMessage,
    ToolCallMessage,
    ToolResultMessage,
    origin_of,
)
from agentkit_py.processors.pairing import key_of

_Signature: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Restored:
    """A list with all its protected messages."""

    messages: tuple[Message, ...]
    protected: frozenset[int]
    """`id()` of what is protected from here on: rewritten messages are, in place of the old."""

    count: int
    """How many messages were put back."""

    rewritten: dict[int, int] = field(default_factory=dict[int, int])
    """`id()` of a rewritten message → that of what stands for it."""

    def follow(self, ids: frozenset[int]) -> frozenset[int]:
        """``ids`` with rewritten messages in place of the old."""
        if self.rewritten.keys().isdisjoint(ids):
            return ids
        return frozenset(self.rewritten.get(one, one) for one in ids)


def put_back(
    before: Sequence[Message], after: Sequence[Message], protected: frozenset[int]
) -> Restored:
    """Put protected messages of ``before`` that are not in ``after`` back to their places.

    A message that the processor rewrote (a new one with the same calls, or with the same call's
    result) counts as there; a text only if it was rewritten in its place, in a list as long as
    before, or made by `derived`. A call message that was made smaller becomes whole again.
    If the protected messages came into another order, all are put back into their own.
    """
    ours = list({id(m): m for m in before if id(m) in protected}.values())
    changed = list(after)
    standing, count = _find_standing(ours, before, changed)
    places = _first_places(changed)
    order = [places[id(m)] for m in standing.values()]
    missing = {id(m): m for m in ours if id(m) not in standing}
    if any(a > b for a, b in pairwise(order)):
        # Calls and results are paired by position, so no place the processor gave them can stay.
        missing = {id(m): standing.get(id(m), m) for m in ours}
        gone = {id(m) for m in standing.values()}
        changed = [m for m in changed if id(m) not in gone]
        standing = {}
    whole = _insert(before, changed, standing, missing) if missing else changed
    now = frozenset(id(standing.get(id(m)) or missing[id(m)]) for m in ours)
    left = protected.difference(map(id, ours))
    rewritten = {old: id(new) for old, new in standing.items() if old != id(new)}
    rewritten |= {old: id(new) for old, new in missing.items() if old != id(new)}
    return Restored(tuple(whole), now | left, count + len(missing), rewritten)


def _find_standing(
    ours: Sequence[Message], before: Sequence[Message], after: list[Message]
) -> tuple[dict[int, Message], int]:
    """Who in ``after`` stands for which of our messages: itself, or what it was rewritten to.

    What was made smaller is made whole again in ``after``, in place; how many is the second value.
    """
    there = set(map(id, after))
    standing = {id(message): message for message in ours if id(message) in there}
    if len(standing) == len(ours):
        return standing, 0
    standing |= _rewritten_texts(ours, before, after)
    new = _new_messages(before, after)
    made_whole = 0
    for message in ours:
        if id(message) in standing or isinstance(message, TextMessage):
            continue
        if rewritten := new.get(_signature(message)):
            standing[id(message)] = after[rewritten.pop()]
        elif isinstance(message, ToolCallMessage):
            part = _find_part(message, after, new)
            if part is not None:
                after[part] = standing[id(message)] = message
                made_whole += 1
    # In their own order, by which it is seen whether the processor changed it.
    return {id(m): standing[id(m)] for m in ours if id(m) in standing}, made_whole


def _new_messages(
    before: Sequence[Message], after: Sequence[Message]
) -> dict[_Signature, list[int]]:
    """Indices of the new messages in ``after`` that are no text, the last first."""
    had = set(map(id, before))
    new: dict[_Signature, list[int]] = defaultdict(list)
    for index in reversed(range(len(after))):
        if id(after[index]) not in had and not isinstance(after[index], TextMessage):
            new[_signature(after[index])].append(index)
    return new


def _rewritten_texts(
    ours: Sequence[Message], before: Sequence[Message], after: Sequence[Message]
) -> dict[int, Message]:
    """Which text messages of ours were rewritten, and to what."""
    there = set(map(id, after))
    wanted = {id(m) for m in ours if isinstance(m, TextMessage) and id(m) not in there}
    found: dict[int, Message] = {}
    if not wanted:
        return found
    if len(before) == len(after):
        pairs = zip(before, after, strict=True)
        found = {
            id(a): b for a, b in pairs if id(a) in wanted and (b.type, b.role) == (a.type, a.role)
        }
    for message in after:
        source = origin_of(message)
        while source is not None and id(source) not in wanted:
            source = origin_of(source)
        if source is not None:
            found[id(source)] = message
    return found


def _find_part(
    message: ToolCallMessage, after: Sequence[Message], new: dict[_Signature, list[int]]
) -> int | None:
    """Index of a new message that has some of the calls of ``message``, and no others."""
    calls = Counter(map(key_of, message.tools))
    for indices in new.values():
        candidate = after[indices[-1]] if indices else None
        if (
            isinstance(candidate, ToolCallMessage)
            and candidate.tools
            and Counter(map(key_of, candidate.tools)) <= calls
        ):
            return indices.pop()
    return None


def _signature(message: Message) -> _Signature:
    """What a rewritten message has in common with the original."""
    match message:
        case ToolCallMessage():
            return (message.type, *map(key_of, message.tools))
        case ToolResultMessage():
            return (message.type, key_of(message.tool))
        case _:
            return (message.type, message.role)


def _insert(
    before: Sequence[Message],
    after: Sequence[Message],
    standing: dict[int, Message],
    missing: dict[int, Message],
) -> list[Message]:
    """Put each missing message after its nearest predecessor that is still there.

    Without one it comes before its nearest successor, or at the end. Messages that stand are never
    passed: the order of all of them together is as it was.
    """
    places = _first_places(after)
    found = [places.get(id(standing.get(id(m), m))) for m in before]
    anchor = next((place for place in found if place is not None), len(after))
    ahead = [places[id(m)] for m in standing.values()][::-1]
    low = 0
    inserts: dict[int, list[Message]] = defaultdict(list)
    waiting = dict(missing)
    for message, place in zip(before, found, strict=True):
        if id(message) in waiting:
            low = min(max(anchor, low), ahead[-1] if ahead else len(after))
            inserts[low].append(waiting.pop(id(message)))
        elif place is not None:
            anchor = place + 1
            if ahead and id(message) in standing and ahead[-1] == place:
                low = ahead.pop() + 1
    result: list[Message] = []
    for index in range(len(after) + 1):
        result += inserts.get(index, ())
        result += after[index : index + 1]
    return result


def _first_places(messages: Sequence[Message]) -> dict[int, int]:
    """Where each message object stands first."""
    return {id(messages[index]): index for index in reversed(range(len(messages)))}
