"""Knowledge: documents that are added, searched and removed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio
import anyio.to_thread

from agentkit_py._core.json import dumps
from agentkit_py._core.validation import wrong_word
from agentkit_py.errors import (
    ConfigurationError,
    KnowledgeError,
    MissingDependencyError,
)
from agentkit_py.knowledge.documents import (
    FORMATS,
    Added,
    Chunking,
    Document,
    DocumentChunk,
    DocumentFormat,
    Hit,
    KnowledgeStore,
    Progress,
    sections,
)
from agentkit_py.knowledge.filters import (
    AND,
    FilterExpr,
    Scalar,
    as_filter,
    checked_metadata,
    facts_of,
    is_storable,
    storable,
)
from agentkit_py.knowledge.search_tool import Precedence, SearchTool
from agentkit_py.processors.settings import whole
from agentkit_py.search import DOCUMENTS, Embedder, embed_all, ranked
from agentkit_py.search.vectors import normalized

Mode: TypeAlias = Literal["vector", "keyword", "hybrid"]
Filters: TypeAlias = FilterExpr | Mapping[str, Any] | Sequence[FilterExpr | Mapping[str, Any]]

ProgressTo: TypeAlias = Callable[[Progress], None] | Literal["bar"] | None

_BATCH = 64
"""Texts in each call of an embedder."""

_MAX_QUERY = 10_000
"""Characters of a query that are read."""

_CANDIDATES = 4
"""Times as many chunks as are wanted are read before two rankings are merged."""


class Knowledge:
    """Documents that can be searched, by people and by agents: ``Agent(knowledge=…)``.

    Attributes:
        store: Where the documents are.
        embedder: Makes vectors of texts; a store has only a single embedder.
    """

    def __init__(
        self,
        *,
        store: KnowledgeStore,
        embedder: Embedder,
        chunk_size: int = 1000,
        chunk_overlap: int = 100,
        k: int = 5,
        mode: Mode = "hybrid",
    ) -> None:
        """Put a store and an embedder together.

        Args:
            store: `SqliteKnowledge`, `PostgresKnowledge` or your own.
            embedder: `LocalEmbedder`, `OpenAIEmbedder`, or anything with ``key`` and ``embed``.
            chunk_size: Characters of a chunk at the most.
            chunk_overlap: Characters that chunks may share.
            k: How many chunks a search gives.
            mode: How it searches.

        Raises:
            ConfigurationError: A number makes no sense, or the embedder is none.
        """
        if not callable(getattr(embedder, "embed", None)):
            raise ConfigurationError(
                f"Knowledge needs an embedder, with key and embed(texts), not {embedder!r:.80}."
            )
        self.store = store
        self.embedder = embedder
        self.k: int = whole(1)("Knowledge: k", k)
        self.mode: Mode = _mode(mode)
        self._chunking = Chunking(chunk_size, chunk_overlap)

    async def add(
        self,
        content: str | bytes | Path,
        *,
        source: str | None = None,
        format: DocumentFormat | None = None,  # noqa: A002 - the field's word
        metadata: Mapping[str, Any] | None = None,
        replace_metadata: bool = False,
        progress: ProgressTo = None,
    ) -> Added:
        """Add a document, or replace its old version.

        A document is identified by its source; a text without a source by its content
        and metadata. An unchanged document is left alone.

        Args:
            content: A text, bytes, or the path of a file.
            source: What results say they are from; of a file, its path unless given.
            format: What it is; of a file, its ending says so unless given. Else: text.
            metadata: Texts, numbers, truth values and lists of them, to filter by.
            replace_metadata: Let other metadata replace the document's. Without
                it that is an error: it might be another tenant's document of the same name.
            progress: Called with a `Progress` after each batch; ``"bar"``: draw one (needs rich).

        Raises:
            KnowledgeError: It cannot be read or stored, or is there with other metadata.
            ModelError: The embedder failed; nothing was stored.
            ConfigurationError: ``progress`` is a text, and not ``"bar"``.
        """
        wrong = None
        if progress is not None and not callable(progress):
            wrong = wrong_word("progress", progress, ("bar",))
        if wrong:
            raise ConfigurationError(f"Knowledge.add: {wrong}")
        loaded = await _load(content, source, format)
        facts = checked_metadata(metadata)
        document = await anyio.to_thread.run_sync(self._document, loaded, facts)
        known = await self.store.get(document.id)
        texts = await anyio.to_thread.run_sync(loaded.cut, self._chunking)
        if known is not None and known.hash == document.hash:
            return Added(id=document.id, chunks=len(texts), changed=False)
        if known is not None and not replace_metadata and dict(known.metadata) != facts:
            raise KnowledgeError(
                f"There is a document {document.source!r} with other metadata "
                f"({dumps(dict(known.metadata))}). Give this document another source=…, or pass "
                "replace_metadata=True to change it."
            )
        chunks: list[DocumentChunk] = []
        with _reporting(progress) as report:
            for start in range(0, len(texts), _BATCH):
                batch = texts[start : start + _BATCH]
                vectors = map(normalized, await embed_all(self.embedder, batch))
                chunks.extend(map(DocumentChunk, batch, vectors))
                report(Progress(source=document.source, done=len(chunks), total=len(texts)))
        await self.store.put(document, chunks, self.embedder.key)
        return Added(id=document.id, chunks=len(chunks), changed=True)

    async def search(
        self,
        query: str,
        *,
        filters: Filters | None = None,
        k: int | None = None,
        mode: Mode | None = None,
    ) -> list[Hit]:
        """Return the chunks that fit a query best, best first.

        Of a query the first 10,000 characters are read, and by words its first 32 telling words, of
        each the first 256 letters.

        Args:
            query: A question or words.
            filters: What a document must pass, as `EQ` and the like or as values by key; several:
                all of them.
            k: How many, if not as usual.
            mode: ``"vector"`` (by meaning), ``"keyword"`` (by words) or ``"hybrid"`` (both).

        Raises:
            FilterError: A filter is none.
            KnowledgeError: The store cannot be searched.
            ModelError: The embedder failed.
        """
        wanted = _combined(filters)
        count = whole(1)("search: k", self.k if k is None else k)
        how = self.mode if mode is None else _mode(mode)
        query = storable(query[:_MAX_QUERY])
        most = max(50, count * _CANDIDATES) if how == "hybrid" else count
        near: list[Hit] = []
        worded: list[Hit] = []
        if how != "keyword":
            (vector,) = await embed_all(self.embedder, [query])
            near = await self.store.nearest(vector, self.embedder.key, wanted, most)
        if how != "vector":
            worded = await self.store.matching(query, wanted, most)
        found = [*near, *worded]
        if how == "hybrid":
            found = await anyio.to_thread.run_sync(_fused, query, near, worded)
        # Stores filter already; this check does not depend on any of them.
        return [
            hit
            for hit in found
            if wanted is None or wanted.matches(facts_of(hit.source, hit.metadata))
        ][:count]

    async def remove(self, source: str | None = None, *, filters: Filters | None = None) -> int:
        """Remove a document by its source, or all that pass filters, and return how many.

        Raises:
            ConfigurationError: Neither is given, which would mean everything.
        """
        if source is None and filters is None:
            raise ConfigurationError("remove() needs a source or filters")
        ids = None if source is None else [_id(source)]
        return await self.store.remove(_combined(filters), ids)

    async def count(self, filters: Filters | None = None) -> tuple[int, int]:
        """Return the numbers of documents (that pass) and of their chunks."""
        return await self.store.count(_combined(filters))

    async def keys(
        self, filters: Filters | None = None, values: int = 5
    ) -> dict[str, list[Scalar]]:
        """Return the metadata keys of the documents (that pass) with some of their values.

        The values are the most frequent of the newest 500 documents.
        """
        return await self.store.keys(_combined(filters), values)

    async def close(self) -> None:
        """Close the store."""
        await self.store.close()

    def search_for(self, *, filters: Any, agentic: bool, precedence: Precedence) -> SearchTool:
        """Return the search that an agent has; see `Agent.knowledge_filters`.

        Raises:
            ConfigurationError: A filter is none.
        """
        return SearchTool(self, filters=filters, agentic=agentic, precedence=precedence)

    def _document(self, loaded: _Loaded, facts: dict[str, Scalar | list[Scalar]]) -> Document:
        described = [
            loaded.kind,
            facts,
            self._chunking.size,
            self._chunking.overlap,
            self.embedder.key,
        ]
        digest = sha256(dumps(described).encode())
        for section in loaded.sections:
            digest.update(f"{len(section)}:".encode() + section.encode())
        named = digest.hexdigest()
        source = loaded.source or f"text-{named[:12]}"
        return Document(id=_id(source), source=source, hash=named, metadata=facts)


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A document that was read."""

    source: str | None
    kind: DocumentFormat
    sections: list[str]

    def cut(self, chunking: Chunking) -> list[str]:
        """Return the chunks of all sections."""
        return [chunk for one in self.sections for chunk in chunking.cut(one, self.kind)]


async def _load(
    content: str | bytes | Path, source: str | None, kind: DocumentFormat | None
) -> _Loaded:
    if isinstance(content, Path):
        source = content.as_posix() if source is None else source
        kind = kind or FORMATS.get(content.suffix.lower(), "text")
        try:
            content = await anyio.Path(content).read_bytes()
        except OSError as error:
            raise KnowledgeError(f"{content} cannot be read: {error}") from error
    if source is not None and (not source or not is_storable(source)):
        raise KnowledgeError(f"{source!r:.80} cannot be a source")
    how: DocumentFormat = kind or "text"
    found = await anyio.to_thread.run_sync(sections, content, how, source or "The text")
    return _Loaded(source, how, found)


def _combined(filters: Filters | None) -> FilterExpr | None:
    if filters is None:
        return None
    given: Any = filters if isinstance(filters, list | tuple) else [filters]
    found = [as_filter(one) for one in given]
    return found[0] if len(found) == 1 else AND(*found)


def _fused(query: str, near: Sequence[Hit], worded: Sequence[Hit]) -> list[Hit]:
    """Return the chunks found by meaning and by words in a single ranking."""
    likeness = {_key(one): one.score for one in near}
    shares = {_key(one): one.score for one in worded}
    hits = sorted({_key(one): one for one in (*near, *worded)}.items())
    found = ranked(
        query,
        [one.text for _, one in hits],
        {place: likeness[key] for place, (key, _) in enumerate(hits) if key in likeness},
        weights=DOCUMENTS,
        shares=[shares.get(key, 0.0) for key, _ in hits],
    )
    return [replace(hits[place][1], score=score) for place, score in found]


def _key(hit: Hit) -> tuple[str, int]:
    return hit.document, hit.position


@contextmanager
def _reporting(progress: ProgressTo) -> Generator[Callable[[Progress], None], None, None]:
    """Yield the function that progress is reported to."""
    if progress != "bar":
        yield progress or (lambda _: None)
        return
    try:
        from rich.progress import Progress as Bar
    except ImportError as error:
        raise MissingDependencyError("rich", "cli", 'add(progress="bar")') from error
    with Bar() as bar:
        task = bar.add_task("adding", total=None)
        yield lambda made: bar.update(
            task, description=made.source, completed=made.done, total=made.total
        )


def _id(source: str) -> str:
    return sha256(source.encode()).hexdigest()[:32]


def _mode(mode: Any) -> Mode:
    if mode not in ("vector", "keyword", "hybrid"):
        raise ConfigurationError(f'mode={mode!r} must be "vector", "keyword" or "hybrid"')
    return mode
