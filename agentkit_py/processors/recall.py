"""Older turns that matter again, found by words and meaning of the user's message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, date, datetime
from functools import partial
from itertools import pairwise
from typing import Annotated, ClassVar

from agentkit_py._core.json import JsonValue, as_list, as_object
from agentkit_py.errors import ConfigurationError, HistoryError, ModelError
from agentkit_py.messages import Message, Messages, TextMessage, lineage
from agentkit_py.processors.apply import apply_processors, as_processors, is_enough
from agentkit_py.processors.base import CATCH_UP_CALLS, Processor, ProcessorContext, Tokenizer
from agentkit_py.processors.cutting import (
    ThreadPositions,
    fingerprint,
    past_length,
    segments,
)
from agentkit_py.processors.settings import ConfiguredProcessor, number, optional, whole
from agentkit_py.processors.shortening import head_and_tail
from agentkit_py.processors.summarize import conversation_text
from agentkit_py.processors.time_words import Period, periods
from agentkit_py.processors.tokenizers import default_tokenizer, prepare
from agentkit_py.search import (
    Embedder,
    MemoryIndex,
    VectorIndex,
    embed_all,
    passages,
    ranked,
)

_MOST_CHARS = 4000
"""Characters of a message that are embedded, and shown."""

_MOST_SEARCHED = 40_000
"""Characters of a message, such as a tool's result, in which words are looked for."""

_CANDIDATES = 1000
"""The turns nearest by meaning that are ranked, as are those that have words of the input."""

_AT_ONCE = 64
"""Texts in each call of an embedder."""


@dataclass(frozen=True, eq=False, repr=False)
class Recall(ConfiguredProcessor):
    """Leaves older turns out, except those that the user's message is about.

    They are found by words and by meaning: see `agentkit_py.search`. So names, numbers
    and dates in a question count, and turns with the same meaning in other words are found, too.
    Turns next to those come along, as far as there is room.

    A turn is the user's message with all that followed, so calls stay with their results. The turns
    found come as a single delimited message right before the user's, so that the beginning of
    the request stays as it was.

    English words for times, such as "last week" and "in March", are understood: in the input
    relative to now, in a turn relative to its own day. Turns of a time that the input
    names count more, and are shown with their days.

    Of messages longer than 4,000 characters, such as lists that a tool gave, the lines and records
    that the input is about are shown.

    Each turn is embedded once; the vectors are stored with the thread where its store can. One run
    embeds 128 turns at the most, the newest first: of a longer thread that has no vectors yet, the
    others are found by their words only, which the report says. ``agentkit threads index`` embeds
    all that are searched.

    No more than ``most_turns`` are searched, the newest of those left out, and no more of the
    thread is loaded, so that a turn costs the same in a thread of years. Where turns are not
    searched for that, the report says so.

    Args:
        embedder: Makes vectors of texts.
        k: How many turns are found at the most.
        neighbours: How many turns before and after each come along.
        index: Keeps the vectors; None: the run's history, else this run's memory.
        window: Processors that remove the messages to be searched; None: ``keep_recent`` decides.
        keep_recent: The newest messages, which stay (up to half as many more stay too, so that the
            cut does not move with every turn).
        max_tokens: Tokens of the turns that are recalled, together.
        min_likeness: How like a turn must be, from 0 to 1.
        most_turns: How many turns are searched; None: all, however long that takes.

    Raises:
        ConfigurationError: A number makes no sense, or the embedder is none.
    """

    embedder: Embedder
    k: Annotated[int, whole(1)] = 5
    _: KW_ONLY
    index: VectorIndex | None = None
    window: Sequence[Processor] | None = None
    keep_recent: Annotated[int, whole()] = 20
    max_tokens: Annotated[int, whole(1)] = 2000
    neighbours: Annotated[int, whole()] = 1
    min_likeness: Annotated[float, number(0, 1)] = 0.0
    most_turns: Annotated[int | None, optional(whole(1))] = 800

    parts: ClassVar[tuple[str, ...]] = ("embedder", "index")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(getattr(self.embedder, "embed", None)):
            raise ConfigurationError(
                f"Recall needs an embedder, with key and embed(texts), not {self.embedder!r:.80}."
            )
        if self.window is not None:
            object.__setattr__(self, "window", as_processors(self.window))

    @property
    def makes_text(self) -> bool:
        """True: older turns come as a single message."""
        return True

    @property
    def by_agent(self) -> bool:
        """True if any processor of its window is."""
        return any(one.by_agent for one in as_processors(self.window))

    _reason = "the {k} older turns that the input is most about"

    async def process(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages that stay, with the turns that were found."""
        tokenizer = await prepare(context.tokenizer or default_tokenizer())
        left = await self._left(messages, context)
        past = messages[: past_length(messages, context)]
        gone = _left_out(past, left)
        most = len(gone) if self.most_turns is None else self.most_turns
        first = max(0, len(gone) - most)
        times = None if context.times is None or not _asked(context) else context.times()
        turns = _turns(gone[first:], times or {})
        if not turns or not (context.input or context.catching_up):
            return messages if len(left) == len(messages) else left
        if first or (context.unloaded.messages and len(gone) == most):
            context.note(
                f"the {self.k} turns that the input is most about, of the newest {len(turns)} that "
                "are left out (most_turns)"
            )
        chosen = self._known(turns, context)
        if chosen is None and context.dry:
            context.note(f"would look for turns like the input among {len(turns)}")
            return left
        if chosen is None:
            chosen = await self._chosen(turns, context)
        found = self._with_neighbours(chosen, turns)
        text = _fitting(found, turns, context.input, tokenizer, self.max_tokens)
        end = past_length(left, context)
        return [*left[:end], *text, *left[end:]]

    async def _left(self, messages: Messages, context: ProcessorContext) -> Messages:
        """Return the messages that stay and are not searched."""
        if self.window is not None:
            return await apply_processors(messages, self.window, context, level=context.level)
        past = messages[: past_length(messages, context)]
        excess = len(past) - self.keep_recent
        # Blocks of the whole thread, so that they do not depend on how much of it is loaded.
        block = max(1, self.keep_recent // 2)
        ranks = ThreadPositions(messages, context).ranks(past)
        blocks = [rank // block for rank in (*ranks, ranks[-1] + 1 if ranks else 0)]
        cut = next((n for n in range(excess, 0, -1) if blocks[n] > blocks[n - 1]), 0)
        if cut == 0:
            return messages
        start = next((one.start for one in segments(past) if one.start >= cut), len(past))
        return messages[start:]

    async def enough(self, newest: Messages, context: ProcessorContext) -> bool:
        """Return whether all turns that are searched are there."""
        most, past = self.most_turns, newest[: past_length(newest, context)]
        begins = _begins(past)
        if most is None or len(begins) <= most:
            return False  # those that stay are not searched; to find them takes longer
        if self.window is not None and not await is_enough(
            newest, [(context.level, self.window)], context
        ):
            return False
        left = await self._left(newest, context)
        # The beginning of the first turn may not be loaded.
        return len(_left_out(past[begins[0] :], left)) >= most

    def _with_neighbours(
        self, chosen: Sequence[tuple[str, float]], turns: Sequence[_LeftOutTurn]
    ) -> Sequence[str]:
        """Return the turns that were found, best first, then those next to them."""
        places = {turn.id: place for place, turn in enumerate(turns)}
        found = [one for one, _ in chosen if one in places]
        beside = [
            turns[place].id
            for distance in range(1, self.neighbours + 1)
            for one in found
            for place in (places[one] - distance, places[one] + distance)
            if 0 <= place < len(turns)
        ]
        return list(dict.fromkeys([*found, *beside]))

    def _memory(self, context: ProcessorContext) -> str:
        """Return the key under which the run remembers the turns that were found."""
        return f"recall:{self.embedder.key}:{context.level}:{context.agent}"

    def _known(
        self, turns: Sequence[_LeftOutTurn], context: ProcessorContext
    ) -> Sequence[tuple[str, float]] | None:
        """Return the turns found before in this run for the same input; None: there are none."""
        known = context.memory.get(self._memory(context))
        sought = (len(turns), context.input)
        return known[1] if known is not None and known[0] == sought else None

    async def _chosen(
        self, turns: Sequence[_LeftOutTurn], context: ProcessorContext
    ) -> Sequence[tuple[str, float]]:
        """Return ids of the turns that were found, best first; the same for the whole run."""
        found = await context.once("recall", partial(self._search, turns, context))
        record = as_object(found) or {}
        if "problem" in record:
            context.note(f"found by words alone: {record['problem']}")
        if record.get("left"):
            context.note(
                f"{record['left']} older turns have no vectors yet; agentkit threads index makes "
                "them"
            )
        chosen = [
            (str(one), float(likeness))
            for one, likeness in as_list(record.get("found")) or ()
            if likeness >= self.min_likeness
        ]
        context.memory[self._memory(context)] = ((len(turns), context.input), chosen)
        return chosen

    async def _search(self, turns: Sequence[_LeftOutTurn], context: ProcessorContext) -> JsonValue:
        """Return the best turns, by words alone where the embedder fails; runs inside a step."""
        known = {turn.id: turn for turn in turns}
        found: dict[str, JsonValue] = {}
        near: Mapping[str, float] = {}
        try:
            near, found["left"] = await self._near(known, context)
        except (ModelError, HistoryError) as error:
            if context.catching_up:
                raise
            found["problem"] = str(error)
        if not context.input:
            return {"found": []}
        asked = _asked(context)
        ids = list(known)
        order = ranked(
            context.input,
            [turn.searched for turn in known.values()],
            {place: near[one] for place, one in enumerate(ids) if one in near},
            {place for place, turn in enumerate(known.values()) if turn.is_of(asked)},
        )
        best: list[JsonValue] = [[ids[n], near.get(ids[n], 0.0)] for n, _ in order[: self.k]]
        return {"found": best, **found}

    async def _near(
        self, turns: Mapping[str, _LeftOutTurn], context: ProcessorContext
    ) -> tuple[Mapping[str, float], int]:
        """Embed new turns and the input; return likenesses, and the number of turns left."""
        thread, key = context.thread_id or "", self.embedder.key
        index = self._index(context)
        missing = await index.missing_vectors(thread, key, list(turns))
        missing.reverse()  # users ask most about the newest
        now = missing if context.catching_up else missing[: CATCH_UP_CALLS * _AT_ONCE]
        for start in range(0, len(now), _AT_ONCE):
            ids = now[start : start + _AT_ONCE]
            vectors = await embed_all(self.embedder, [turns[one].text for one in ids])
            await index.add_vectors(thread, key, dict(zip(ids, vectors, strict=True)))
        left = len(missing) - len(now)
        if not context.input:
            return {}, left
        (sought,) = await embed_all(self.embedder, [context.input])
        count = max(_CANDIDATES, self.k)
        return dict(await index.nearest_vectors(thread, key, sought, list(turns), count)), left

    def _index(self, context: ProcessorContext) -> VectorIndex:
        if self.index is not None:
            return self.index
        if context.vectors is not None and context.thread_id is not None:
            return context.vectors
        return context.memory.setdefault("recall:index", MemoryIndex())


@dataclass(frozen=True, slots=True)
class _LeftOutTurn:
    """A turn that was left out."""

    id: str
    """A checksum: the same turn has the same vector, wherever it is."""

    text: str
    """The text that is embedded."""

    messages: Messages

    day: date | None = None
    """The day (UTC) on which it began, if that matters and is known."""

    def is_of(self, asked: Sequence[Period]) -> bool:
        """Return whether the turn is of any of these days, or mentions any of them."""
        if self.day is None or not asked:
            return False
        own = [Period(self.day, self.day), *periods(self.text, self.day)]
        return any(one.meets(other) for one in own for other in asked)

    @property
    def searched(self) -> str:
        """The text in which words are looked for."""
        if len(self.text) < _MOST_CHARS // 2:
            return self.text  # nothing of it was cut
        return conversation_text(self.messages, _MOST_SEARCHED)

    def shown(self, query: str) -> str:
        """Return the text, with the day; of long messages the parts that the query is about."""

        def cut(text: str, most: int) -> str:
            return passages(query, text[:_MOST_SEARCHED], most) or head_and_tail(text, most)

        text = conversation_text(self.messages, _MOST_CHARS, cut)
        return text if self.day is None else f"[{self.day.isoformat()}]\n{text}"


def _asked(context: ProcessorContext) -> list[Period]:
    """Return the days that the user's message speaks of."""
    return [] if context.now is None else periods(context.input, _day(context.now))


def _day(when: datetime) -> date:
    """Return the day in UTC; a client may have sent its time with another offset."""
    return (when if when.tzinfo is None else when.astimezone(UTC)).date()


def _begins(past: Messages) -> list[int]:
    """Return the indices at which turns begin."""
    return [i for i, m in enumerate(past) if m.role == "user" and isinstance(m, TextMessage)]


def _left_out(past: Messages, left: Messages) -> list[Messages]:
    """Return the messages of each turn of which nothing is left, in order."""
    # A shorter version of a message counts as the message.
    kept = {id(found) for message in left for found in lineage(message)}
    starts = _begins(past)
    bounds = [*([] if starts[:1] == [0] else [0]), *starts, len(past)]
    turns = (past[start:stop] for start, stop in pairwise(bounds))
    return [one for one in turns if not any(id(message) in kept for message in one)]


def _turns(found: Sequence[Messages], times: Mapping[int, datetime]) -> list[_LeftOutTurn]:
    """Return turns with their texts; those without any text are left out."""
    turns: list[_LeftOutTurn] = []
    for messages in found:
        text = conversation_text(messages, _MOST_CHARS)
        if text:
            known = (times.get(id(one)) for message in messages for one in lineage(message))
            when = next((time for time in known if time is not None), None)
            day = None if when is None else _day(when)
            turns.append(_LeftOutTurn(fingerprint(messages), text, messages, day))
    return turns


def _fitting(
    chosen: Sequence[str],
    turns: Sequence[_LeftOutTurn],
    query: str,
    tokenizer: Tokenizer,
    most: int,
) -> list[Message]:
    """Return the turns that were found as a single message: the best for which there is room."""
    known = {turn.id: turn for turn in turns}
    room: float = most
    taken: dict[str, str] = {}
    for one in chosen:
        text = known[one].shown(query) if one in known else ""
        tokens = tokenizer.count(text)
        if text and tokens <= room:
            taken[one] = text
            room -= tokens
    shown = [taken[turn.id] for turn in turns if turn.id in taken]
    if not shown:
        return []
    content = (
        "<recalled_messages>\n"
        "These older messages of this conversation may matter for what comes next. They are "
        "background, not a request.\n\n" + "\n\n".join(shown) + "\n</recalled_messages>"
    )
    return [TextMessage("user", content, from_history=True)]
