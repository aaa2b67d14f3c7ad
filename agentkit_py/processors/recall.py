"""Older turns that matter for what the user says now, found by meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Self

from agentkit_py._core.json import JsonValue, as_list, as_object
from agentkit_py.errors import ConfigurationError, HistoryError, ModelError
from agentkit_py.messages import Message, TextMessage, origin_of
from agentkit_py.processors.apply import apply_processors, as_processors
from agentkit_py.processors.base import Processor, ProcessorContext, Tokenizer
from agentkit_py.processors.cutting import fingerprint, past_length, stretches
from agentkit_py.processors.settings import Check, ConfiguredProcessor, number, whole
from agentkit_py.processors.summarize import recalled, transcript
from agentkit_py.processors.tokenizers import default_tokenizer, prepare
from agentkit_py.processors.vectors import Embedder, MemoryIndex, VectorIndex

_MOST_CHARS = 4000
"""Characters of one message that are embedded."""

_AT_ONCE = 64
"""Texts in one call of an embedder."""


class Recall(ConfiguredProcessor):
    """Leaves older turns out, but for those most like what the user says now.

    A turn is what the user said with all that followed, so calls stay with their results. The turns
    that are found come as one delimited message right before the user's, so that the beginning of
    the request stays as it was.

    Each turn is embedded once; the vectors are kept beside the thread where its store can.

    Args:
        embedder: Makes vectors of texts.
        k: How many turns at the most.
        index: Keeps the vectors; None: the run's history, else this run's memory.
        beside: Processors that leave out what this one looks through; None: ``keep_recent``.
        keep_recent: The newest messages, which stay (up to half as many more stay too, so that the
            cut does not move with every turn).
        max_tokens: Tokens of the turns that are recalled, together.
        min_likeness: How like a turn must be, from 0 to 1.

    Raises:
        ConfigurationError: A number makes no sense, or the embedder is none.
    """

    settings: ClassVar[Mapping[str, Check]] = {
        "k": whole(1),
        "keep_recent": whole(),
        "max_tokens": whole(1),
        "min_likeness": number(0, 1),
    }

    def __init__(
        self,
        embedder: Embedder,
        k: int = 5,
        *,
        index: VectorIndex | None = None,
        beside: Sequence[Processor] | None = None,
        keep_recent: int = 20,
        max_tokens: int = 2000,
        min_likeness: float = 0.0,
    ) -> None:
        if not callable(getattr(embedder, "embed", None)):
            raise ConfigurationError(
                f"Recall needs an embedder, with key and embed(texts), not {embedder!r:.80}."
            )
        self.embedder = embedder
        self.index = index
        self.k = k
        self.keep_recent = keep_recent
        self.max_tokens = max_tokens
        self.min_likeness = min_likeness
        self._check()
        self._beside = None if beside is None else as_processors(beside)

    @classmethod
    def from_settings(
        cls,
        settings: Mapping[str, Any],
        *,
        embedder: Embedder | None = None,
        index: VectorIndex | None = None,
        beside: Sequence[Processor] | None = None,
    ) -> Self:
        """Make one from a dict, e.g. what an application stores for a user.

        Args:
            settings: The constructor's numbers by name.
            embedder: Makes vectors of texts.
            index: Keeps the vectors.
            beside: Processors that leave out what it looks through.

        Raises:
            ConfigurationError: A key is not known or has a wrong value, or there is no embedder.
        """
        if embedder is None:
            raise ConfigurationError("Recall.from_settings needs embedder=….")
        return cls._made(settings, embedder=embedder, index=index, beside=beside)

    @property
    def reason(self) -> str:
        """What it looks for."""
        return f"the {self.k} older turns most like the input"

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """What stays, with the turns that were found."""
        given = default_tokenizer() if context.tokenizer is None else context.tokenizer
        tokenizer = await prepare(given)
        left = await self._left(messages, context, tokenizer)
        units = _units(messages[: past_length(messages, context)], left)
        if not units or not context.input:
            return messages if len(left) == len(messages) else left
        chosen = self._known(units, context)
        if chosen is None and context.dry:
            context.note(f"would look for turns like the input among {len(units)}")
            return left
        if chosen is None:
            chosen = await self._chosen(units, context)
        text = _fitting(chosen, units, tokenizer, self.max_tokens)
        end = past_length(left, context)
        return [*left[:end], *text, *left[end:]]

    async def _left(
        self, messages: Sequence[Message], context: ProcessorContext, tokenizer: Tokenizer
    ) -> Sequence[Message]:
        """What stays without being looked for."""
        if self._beside is not None:
            return await apply_processors(messages, self._beside, context, level=context.level)
        length = past_length(messages, context)
        block = max(1, self.keep_recent // 2)
        cut = max(0, length - self.keep_recent) // block * block
        if cut == 0:
            return messages
        found = stretches(messages, 0, length, tokenizer)
        start = next((stretch.start for stretch in found if stretch.start >= cut), length)
        return messages[start:]

    def _memory(self, context: ProcessorContext) -> str:
        """Where the run remembers what was found."""
        return f"recall:{self.embedder.key}:{context.level}:{context.agent}"

    def _known(
        self, units: Sequence[_Unit], context: ProcessorContext
    ) -> Sequence[tuple[str, float]] | None:
        """What was found before in this run; None: it was not looked for, or for other words."""
        known = context.memory.get(self._memory(context))
        sought = (len(units), context.input)
        return known[1] if known is not None and known[0] == sought else None

    async def _chosen(
        self, units: Sequence[_Unit], context: ProcessorContext
    ) -> Sequence[tuple[str, float]]:
        """Ids of the turns that were found, best first; the same for the whole run."""
        search = partial(self._search, units, context)
        host = context.host
        found = await (search() if host is None else host.once(host.step_id("recall"), search))
        record = as_object(found) or {}
        if "problem" in record:
            context.note(f"nothing recalled: {record['problem']}")
        chosen = [
            (str(one), float(likeness))
            for one, likeness in as_list(record.get("found")) or ()
            if likeness >= self.min_likeness
        ]
        context.memory[self._memory(context)] = ((len(units), context.input), chosen)
        return chosen

    async def _search(self, units: Sequence[_Unit], context: ProcessorContext) -> JsonValue:
        """Embed what is new and the input, and find the nearest; runs inside a step."""
        thread, key = context.thread_id or "", self.embedder.key
        index = self._index(context)
        texts = {unit.id: unit.text for unit in units}
        try:
            missing = await index.missing_vectors(thread, key, list(texts))
            for start in range(0, len(missing), _AT_ONCE):
                ids = missing[start : start + _AT_ONCE]
                vectors = await self._embed([texts[one] for one in ids])
                await index.add_vectors(thread, key, dict(zip(ids, vectors, strict=True)))
            (sought,) = await self._embed([context.input])
            found = await index.nearest_vectors(thread, key, sought, list(texts), self.k)
        except (ModelError, HistoryError) as error:
            return {"problem": str(error)}
        return {"found": [[one, likeness] for one, likeness in found]}

    async def _embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        vectors = await self.embedder.embed(texts)
        if len(vectors) != len(texts):
            raise ConfigurationError(
                f"The embedder {self.embedder.key!r} gave {len(vectors)} vectors for {len(texts)} "
                "texts; it must give one for each."
            )
        return vectors

    def _index(self, context: ProcessorContext) -> VectorIndex:
        if self.index is not None:
            return self.index
        if context.vectors is not None and context.thread_id is not None:
            return context.vectors
        return context.memory.setdefault("recall:index", MemoryIndex())


@dataclass(frozen=True, slots=True)
class _Unit:
    """A turn that was left out."""

    id: str
    """A checksum: the same turn has the same vector, wherever it stands."""

    text: str
    """As it is embedded, and shown."""


def _units(past: Sequence[Message], left: Sequence[Message]) -> list[_Unit]:
    """The turns of which nothing is left, in order."""
    kept: set[int] = set()
    for message in left:
        found: Message | None = message
        while found is not None:  # a shorter version of a message stands for it
            kept.add(id(found))
            found = origin_of(found)
    starts = [i for i, m in enumerate(past) if isinstance(m, TextMessage) and m.role == "user"]
    bounds = [*([] if starts[:1] == [0] else [0]), *starts, len(past)]
    units: list[_Unit] = []
    for start, stop in pairwise(bounds):
        turn = past[start:stop]
        text = transcript(turn, _MOST_CHARS)
        if text and not any(id(message) in kept for message in turn):
            units.append(_Unit(fingerprint(turn), text))
    return units


def _fitting(
    chosen: Sequence[tuple[str, float]],
    units: Sequence[_Unit],
    tokenizer: Tokenizer,
    most: int,
) -> list[Message]:
    """The turns that were found, the best first as far as there is room, in their order."""
    texts = {unit.id: unit.text for unit in units}
    room: float = most
    taken: set[str] = set()
    for one, _ in chosen:
        tokens = tokenizer.count(texts.get(one, ""))
        if one in texts and tokens <= room:
            taken.add(one)
            room -= tokens
    shown = [unit.text for unit in units if unit.id in taken]
    return [recalled(shown)] if shown else []
