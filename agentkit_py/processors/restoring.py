"""Restoring: held messages that a processor dropped come back; no call gets another's result."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from agentkit_py.messages import (
    Message,
    Messages,
    TextMessage,
    ToolCallMessage,
    ToolResultMessage,
    lineage,
)
from agentkit_py.processors.pairing import key_of, pair


def without_results_of_others(before: Messages, after: Messages) -> tuple[Message, ...]:
    """Return the messages without results that a call of the same id and tool would take over.

    Providers repeat ids. A function that leaves out the result of the first call and the call of
    the second result must not give the first call the second result.

    Args:
        before: The messages that a processor or hook was given, whole.
        after: The messages that it returned: those, rewritten ones, and new ones.
    """
    calls = Counter(
        key_of(call) for m in before if isinstance(m, ToolCallMessage) for call in m.tools
    )
    if all(count == 1 for count in calls.values()):
        return tuple(after)
    own_calls = {id(before[r]): id(before[c]) for r, (c, _) in pair(before).calls.items()}
    known = {id(message) for message in before}
    origins = {i: id(message) for i, message in enumerate(after) if id(message) in known}
    origins |= _originals(before, after)
    left = [(message, origins.get(index)) for index, message in enumerate(after)]
    for _ in range(2):  # without a result that belongs to no call, others may move up
        left = _without_mispaired(left, own_calls)
    return tuple(message for message, _ in left)


def _without_mispaired(
    messages: list[tuple[Message, int | None]], own_calls: Mapping[int, int]
) -> list[tuple[Message, int | None]]:
    """Return messages and their origins without results that are paired with another's call."""
    calls = pair([message for message, _ in messages]).calls
    mispaired: set[int] = set()
    for index, (_, origin) in enumerate(messages):
        own = None if origin is None else own_calls.get(origin)
        call = messages[calls[index][0]][1] or own if index in calls else None
        if own is not None and call != own:
            mispaired.add(index)
    return [one for index, one in enumerate(messages) if index not in mispaired]


@dataclass(frozen=True, slots=True)
class Restored:
    """A list with all its held messages."""

    messages: tuple[Message, ...]
    count: int = 0
    """Number of messages that were put back."""

    rewritten: Mapping[int, int] = field(default_factory=dict[int, int])
    """`id()` of a rewritten message → that of the message in its place."""

    def follow(self, ids: frozenset[int]) -> frozenset[int]:
        """Return ``ids`` with rewritten messages in place of the old."""
        if self.rewritten.keys().isdisjoint(ids):
            return ids
        return frozenset(self.rewritten.get(one, one) for one in ids)


def restore_held(before: Messages, after: Messages, held: frozenset[int]) -> Restored:
    """Put held messages of ``before`` that are missing in ``after`` back in place.

    The model asked for its calls and waits for their results, so a history without them makes it
    ask again. A rewritten message (a new message with the same calls, or with the same call's
    result) counts as present; a text only if it was rewritten in its place, in a list as long as
    before, or made by `derived`. A call message that lost calls gets them back. If the held
    messages came into another order, all are put back into their own.
    """
    if [id(m) for m in before if id(m) in held] == [id(m) for m in after if id(m) in held]:
        return Restored(tuple(after))
    ours = list({id(m): m for m in before if id(m) in held}.values())
    left = list(after)
    standing, count = _find_standing(ours, before, left)
    positions = _first_positions(left)
    order = [positions[id(m)] for m in standing.values()]
    missing = {id(m): m for m in ours if id(m) not in standing}
    if any(a > b for a, b in pairwise(order)):
        # Calls and results are paired by position, so no place the processor gave them can stay.
        missing = {id(m): standing.get(id(m), m) for m in ours}
        gone = {id(m) for m in standing.values()}
        left = [m for m in left if id(m) not in gone]
        standing = {}
    whole = _insert(before, left, standing, missing) if missing else left
    rewritten = {old: id(new) for old, new in {**standing, **missing}.items() if old != id(new)}
    return Restored(tuple(whole), count + len(missing), rewritten)


def _find_standing(
    ours: Messages, before: Messages, after: list[Message]
) -> tuple[dict[int, Message], int]:
    """Return the messages in ``after`` that represent ours: themselves, or rewritten ones.

    What was made smaller is made whole again in ``after``, in place; how many is the second value.
    """
    there = set(map(id, after))
    standing = {id(message): message for message in ours if id(message) in there}
    if len(standing) == len(ours):
        return standing, 0
    standing |= _rewritten_texts(ours, before, after)
    originals = _originals(before, after)
    rewritten = {source: index for index, source in originals.items()}
    had = set(map(id, before))
    new = [i for i, m in enumerate(after) if id(m) not in had and i not in originals]
    made_whole = 0
    for message in ours:
        if id(message) in standing or isinstance(message, TextMessage):
            continue
        if (index := rewritten.get(id(message))) is not None:
            standing[id(message)] = after[index]
        elif isinstance(message, ToolCallMessage):
            part = _find_part(message, after, new)
            if part is not None:
                after[part] = standing[id(message)] = message
                made_whole += 1
    # In their own order, which shows whether the processor changed it.
    return {id(m): standing[id(m)] for m in ours if id(m) in standing}, made_whole


def _rewritten_texts(ours: Messages, before: Messages, after: Messages) -> dict[int, Message]:
    """Return our rewritten text messages, each with its new version."""
    there = set(map(id, after))
    wanted = {id(m) for m in ours if isinstance(m, TextMessage) and id(m) not in there}
    found: dict[int, Message] = {}
    if wanted and len(before) == len(after):
        pairs = zip(before, after, strict=True)
        found = {
            id(a): b for a, b in pairs if id(a) in wanted and (b.type, b.role) == (a.type, a.role)
        }
    for message in after if wanted else ():
        source = next((m for m in lineage(message) if id(m) in wanted), None)
        if source is not None:
            found[id(source)] = message
    return found


def _originals(before: Messages, after: Messages) -> dict[int, int]:
    """Return the original of each new call or result: index in ``after`` → `id()`.

    Providers repeat ids, so equal calls and results are identified by their places:
    a new message stays between the same messages as its original. The rest is matched from the
    end, since limits remove the oldest. `derived` messages know their sources.
    """
    places = _first_positions(before)
    sources: dict[_Signature, list[int]] = defaultdict(list)
    there = set(map(id, after))
    for index, message in enumerate(before):
        if id(message) not in there and not isinstance(message, TextMessage):
            sources[_signature(message)].append(index)
    kept = [places[id(message)] for message in after if id(message) in places]
    in_order = all(a < b for a, b in pairwise(kept))
    found: dict[int, int] = {}
    bound = len(before)
    for index in reversed(range(len(after))):
        message = after[index]
        if id(message) in places:
            bound = places[id(message)] if in_order else bound
        elif not isinstance(message, TextMessage):
            signature = _signature(message)
            known = (places[id(m)] for m in lineage(message) if id(m) in places)
            fitting = (place for place in known if _signature(before[place]) == signature)
            source = _take_below(sources[signature], next(fitting, bound - 1) + 1)
            if source is not None:
                found[index] = id(before[source])
    return found


def _take_below(places: list[int], bound: int) -> int | None:
    """Take the last place below a bound; those above it have no use any more."""
    while places and places[-1] >= bound:
        places.pop()
    return places.pop() if places else None


def _find_part(message: ToolCallMessage, after: Messages, new: list[int]) -> int | None:
    """Take from ``new`` the index of a message that has only calls of ``message``, not all."""
    calls = Counter(map(key_of, message.tools))
    for place in reversed(range(len(new))):
        candidate = after[new[place]]
        if (
            isinstance(candidate, ToolCallMessage)
            and candidate.tools
            and Counter(map(key_of, candidate.tools)) <= calls
        ):
            return new.pop(place)
    return None


_Signature: TypeAlias = tuple[object, ...]
"""Facts that a rewritten message has in common with the original."""


def _signature(message: Message) -> _Signature:
    match message:
        case ToolCallMessage():
            return (message.type, *map(key_of, message.tools))
        case ToolResultMessage():
            return (message.type, key_of(message.tool))
        case _:
            return (message.type, message.role)


def _insert(
    before: Messages,
    after: Messages,
    standing: Mapping[int, Message],
    missing: Mapping[int, Message],
) -> list[Message]:
    """Put each missing message after its nearest predecessor that is still there.

    Without a predecessor it comes before its nearest successor, or at the end. Messages in place
    are never passed: the order of all of them together is as it was.
    """
    positions = _first_positions(after)
    found = [positions.get(id(standing.get(id(m), m))) for m in before]
    anchor = next((position for position in found if position is not None), len(after))
    ahead = [positions[id(m)] for m in standing.values()][::-1]
    low = 0
    inserts: dict[int, list[Message]] = defaultdict(list)
    waiting = dict(missing)
    for message, position in zip(before, found, strict=True):
        if id(message) in waiting:
            low = min(max(anchor, low), ahead[-1] if ahead else len(after))
            inserts[low].append(waiting.pop(id(message)))
        elif position is not None:
            anchor = position + 1
            if ahead and id(message) in standing and ahead[-1] == position:
                low = ahead.pop() + 1
    result: list[Message] = []
    for index in range(len(after) + 1):
        result += inserts.get(index, ())
        result += after[index : index + 1]
    return result


def _first_positions(messages: Messages) -> dict[int, int]:
    return {id(messages[index]): index for index in reversed(range(len(messages)))}
