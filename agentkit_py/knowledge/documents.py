"""Documents: read from files and cut into chunks, and the store that keeps these."""

from __future__ import annotations

import csv
import io
import json
from abc import ABC, abstractmethod
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

from agentkit_py._core.json import JsonObject
from agentkit_py.errors import KnowledgeError, MissingDependencyError
from agentkit_py.knowledge.filters import FilterExpr, Metadata, Scalar, facts_of, is_storable
from agentkit_py.processors.settings import whole
from agentkit_py.search.vectors import Vector

DocumentFormat: TypeAlias = Literal["text", "markdown", "pdf", "csv", "json"]

FORMATS: dict[str, DocumentFormat] = {
    ".txt": "text",
    ".text": "text",
    ".log": "text",
    ".md": "markdown",
    ".markdown": "markdown",
    ".pdf": "pdf",
    ".csv": "csv",
    ".json": "json",
}

_MAX_LABEL = 100
"""Characters of a column's or field's name that are repeated with each value."""

_WINDOW = 32
"""Chunks' sizes that the splitter reads at once: its time grows with the square of a text."""


@dataclass(frozen=True, slots=True)
class Chunking:
    """Cuts texts at headings, paragraphs and sentences where they fit, else at words."""

    size: int = 1000
    """Characters of a chunk at the most."""

    overlap: int = 100
    """Characters that a chunk may share with the previous chunk."""

    def __post_init__(self) -> None:
        whole(1)("chunk_size", self.size)
        whole(0)("chunk_overlap", min(self.overlap, self.size - 1 - self.overlap))

    def cut(self, text: str, kind: DocumentFormat) -> list[str]:
        """Return the chunks of a text, in order.

        Raises:
            MissingDependencyError: It must be cut, and semantic-text-splitter is not installed.
        """
        if len(text) <= self.size:
            return [text.strip()] if text.strip() else []
        try:
            from semantic_text_splitter import (  # noqa: PLC0415 - an extra
                MarkdownSplitter,
                TextSplitter,
            )
        except ImportError as error:
            raise MissingDependencyError(
                "semantic-text-splitter", "knowledge", "Cutting a long text"
            ) from error
        made = MarkdownSplitter if kind == "markdown" else TextSplitter
        splitter = made(self.size, overlap=self.overlap)
        chunks: list[str] = []
        window, start = _WINDOW * self.size, 0
        while start + window < len(text):
            part = text[start : start + window]
            # Not chunk_indices: it panics where spaces are as long as a chunk's overlap.
            found = splitter.chunks(part)
            # The last chunk may extend beyond the window, so the next window begins with it.
            last = part.rindex(found[-1]) if len(found) > 1 else 0
            chunks.extend(found[:-1] if last else found)
            start += last or window
        return chunks + splitter.chunks(text[start:])


def sections(content: str | bytes, kind: DocumentFormat, source: str) -> list[str]:
    """Return the content in sections, which are never joined.

    A text is a section, a PDF has a section for each page, CSV for each row (``column: value``),
    JSON for each item of a list (``path: value``).

    Raises:
        KnowledgeError: It is not of the given ``kind``.
        MissingDependencyError: It is a PDF, and pypdf is not installed.
    """
    if kind not in _READERS:
        raise KnowledgeError(f"{source}: format={kind!r} is none of {', '.join(_READERS)}")
    try:
        found = [one for one in _READERS[kind](content) if one.strip()]
    except MissingDependencyError:
        raise
    except (ValueError, csv.Error, RecursionError) as error:
        raise KnowledgeError(f"{source} cannot be read as {kind}: {error}") from error
    if not all(map(is_storable, found)):  # JSON's escapes can write characters that no text has
        raise KnowledgeError(f"{source} cannot be read as {kind}: it is not valid Unicode")
    return found


def _text(content: str | bytes) -> str:
    text = content if isinstance(content, str) else content.decode("utf-8-sig")
    text = text.replace("\0", "")
    if not is_storable(text):
        raise ValueError("it is not valid Unicode")
    return text


def _plain(content: str | bytes) -> list[str]:
    return [_text(content)]


def _csv(content: str | bytes) -> list[str]:
    rows = csv.reader(io.StringIO(_text(content)))
    header = [_label(name) for name in next(rows, list[str]())]
    return ["\n".join(_cells(header, row)) for row in rows]


def _cells(header: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    for index, cell in enumerate(row):
        if cell.strip():
            name = header[index] if index < len(header) else f"column {index + 1}"
            yield f"{name}: {cell}"


def _json(content: str | bytes) -> list[str]:
    found: Any = json.loads(_text(content))
    items = cast("list[Any]", found) if isinstance(found, list) else [found]
    return ["\n".join(_leaves(item)) for item in items]


def _leaves(root: Any) -> Iterator[str]:
    """Yield ``path: value`` of each value; not recursive, so depth costs nothing."""
    waiting: list[tuple[str, Any]] = [("", root)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            inner = cast("dict[str, Any]", value)
            waiting.extend(
                (_label(f"{path}.{key}" if path else key), inner[key]) for key in reversed(inner)
            )
        elif isinstance(value, list):
            waiting.extend((path, one) for one in reversed(cast("list[Any]", value)))
        else:
            shown = value if isinstance(value, str) else json.dumps(value)
            yield f"{path}: {shown}" if path else shown


def _label(name: str) -> str:
    return name if len(name) <= _MAX_LABEL else f"…{name[-_MAX_LABEL:]}"


def _pdf(content: str | bytes) -> list[str]:
    try:
        from pypdf import PdfReader  # noqa: PLC0415 - an extra
        from pypdf.errors import PyPdfError  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingDependencyError("pypdf", "knowledge", "Reading a PDF") from error
    if isinstance(content, str):
        raise ValueError("a PDF is bytes")  # noqa: TRY004 - the document is wrong, not the type
    try:
        return [_text(page.extract_text()) for page in PdfReader(io.BytesIO(content)).pages]
    except PyPdfError as error:
        raise ValueError(str(error)) from error


_READERS: dict[str, Callable[[str | bytes], list[str]]] = {
    "text": _plain,
    "markdown": _plain,
    "pdf": _pdf,
    "csv": _csv,
    "json": _json,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document as stores keep it."""

    id: str
    source: str
    hash: str
    """A hash of content, metadata and chunking; if it is equal, nothing has changed."""

    metadata: Metadata

    def passes(self, filters: FilterExpr | None) -> bool:
        """Return whether its metadata and source pass a filter; None: everything passes."""
        return filters is None or filters.matches(facts_of(self.source, self.metadata))


@dataclass(frozen=True, slots=True)
class DocumentChunk:
    """A chunk of a document, with its vector at length 1."""

    text: str
    vector: array[float] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A chunk that a search found."""

    text: str
    source: str
    score: float
    """Comparable within a search: likeness (``vector``, 1: equal), the share of the
    query's words say (``keyword``, about 1: all of them), or both (``hybrid``, at most 1)."""

    document: str
    """The document's id."""

    position: int
    """The chunk's number in its document, from 0."""

    metadata: Metadata

    def to_dict(self) -> JsonObject:
        """Return the JSON that a model reads."""
        return {"source": self.source, "score": round(self.score, 4), "text": self.text}


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """The result of adding a document."""

    id: str
    chunks: int
    changed: bool
    """False: the store had it already, unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of adding a document."""

    source: str
    done: int
    """Chunks that are embedded."""

    total: int


class KnowledgeStore(ABC):
    """Keeps documents in chunks, and finds those that pass a filter.

    Every chunk that a search returns passes its filter, or the search fails. No method may block
    the event loop. `agentkit_py.testing.knowledge_conformance` checks a store of your own.
    """

    @abstractmethod
    async def get(self, document_id: str) -> Document | None:
        """Return the document, or None if there is none."""

    @abstractmethod
    async def put(self, document: Document, chunks: Sequence[DocumentChunk], embedder: str) -> None:
        """Store a document, replacing the document with its id: all of it, or nothing.

        Args:
            document: Its id, source, hash and metadata.
            chunks: Its chunks, in order.
            embedder: The embedder's key: all vectors of a store are from a single embedder.

        Raises:
            KnowledgeError: The store has vectors of another embedder.
        """

    @abstractmethod
    async def remove(self, filters: FilterExpr | None, ids: Sequence[str] | None = None) -> int:
        """Remove the documents that pass (of ``ids``, if given), and return how many there were."""

    @abstractmethod
    async def nearest(
        self, vector: Vector, embedder: str, filters: FilterExpr | None, k: int
    ) -> list[Hit]:
        """Return the ``k`` chunks with the nearest vectors, best first."""

    @abstractmethod
    async def matching(self, query: str, filters: FilterExpr | None, k: int) -> list[Hit]:
        """Return the ``k`` chunks with the most telling words of the query, best first.

        A score is the share of the query's words that a chunk has, each weighted by how rare it is
        (as in BM25, a word that no chunk has included): hybrid search asks how near to 1 it is.
        """

    @abstractmethod
    async def keys(self, filters: FilterExpr | None, values: int) -> dict[str, list[Scalar]]:
        """Return the metadata keys of the documents that pass, each with a few of its values."""

    @abstractmethod
    async def count(self, filters: FilterExpr | None = None) -> tuple[int, int]:
        """Return the numbers of documents that pass and of their chunks."""

    @abstractmethod
    async def close(self) -> None:
        """Close the database; the next use opens it again."""
