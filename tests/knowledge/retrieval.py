"""Figures of how well each way of searching finds what is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agentkit_py.knowledge import Embedder, Knowledge, KnowledgeStore

from .retrieval_corpus import CLASSES, Class, Corpus, Question

Mode: TypeAlias = Literal["vector", "keyword", "hybrid"]
MODES: tuple[Mode, ...] = ("vector", "keyword", "hybrid")
DEEP = 10
"""So many chunks are looked at."""


@dataclass(frozen=True)
class Quality:
    """Figures of one class of questions."""

    questions: int
    first: float
    """Share of questions whose answer comes first."""

    five: float
    """Share whose answer is among the five that an agent gets by default."""

    mrr: float
    """The mean of 1 / rank; 0 for what is not among the first ten."""


class Remembering:
    """An embedder that is asked once for each text: both stores get the same vectors."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._known: dict[str, Sequence[float]] = {}

    @property
    def key(self) -> str:
        """The inner embedder's key."""
        return self._inner.key

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known |= zip(new, await self._inner.embed(new), strict=True)
        return [self._known[text] for text in texts]


async def filled(store: KnowledgeStore, embedder: Embedder, made: Corpus) -> Knowledge:
    """The corpus in a store."""
    await embedder.embed(list(made.documents.values()))  # in large batches
    knowledge = Knowledge(store=store, embedder=embedder)
    for source, text in made.documents.items():
        await knowledge.add(text, source=source, metadata={"product": made.products[source]})
    return knowledge


async def measured(
    knowledge: Knowledge, questions: Sequence[Question]
) -> dict[Class, dict[Mode, Quality]]:
    """The figures for each class and way to search."""
    found: dict[Class, dict[Mode, Quality]] = {}
    await knowledge.embedder.embed([question.text for question in questions])
    for asked in CLASSES:
        chosen = [question for question in questions if question.asked == asked]
        found[asked] = {mode: await _quality(knowledge, chosen, mode) for mode in MODES}
    return found


async def _quality(knowledge: Knowledge, questions: Sequence[Question], mode: Mode) -> Quality:
    ranks: list[int] = []
    for question in questions:
        hits = await knowledge.search(question.text, mode=mode, k=DEEP)
        sources = [hit.source for hit in hits]
        if question.answer in sources:
            ranks.append(sources.index(question.answer) + 1)
    count = len(questions)
    return Quality(
        questions=count,
        first=ranks.count(1) / count,
        five=sum(rank <= 5 for rank in ranks) / count,
        mrr=sum(1 / rank for rank in ranks) / count,
    )
