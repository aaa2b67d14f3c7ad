"""Documents in Qdrant, a vector database, in its local mode: a folder, and no server."""

# --8<-- [start:store]
import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from math import hypot
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from uuid import NAMESPACE_OID, uuid4, uuid5

from qdrant_client import QdrantClient, models

from agentkit_py.errors import KnowledgeError
from agentkit_py.knowledge import Document, DocumentChunk, FilterExpr, Hit, KnowledgeStore
from agentkit_py.search import DOCUMENTS, by_words

T = TypeVar("T")
_PAGE = 1000


class QdrantKnowledge(KnowledgeStore):
    """Documents are points without vectors, and each names the version of its chunks.

    Chunks of a version that no document names are not there. So a document is replaced by writing
    its own point, after the new chunks and before the older ones are deleted.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = str(folder)
        self._client: QdrantClient | None = None
        self._lock = Lock()

    async def _do(self, work: Callable[[QdrantClient], T]) -> T:
        """Run a call in a thread, as the local mode blocks; one call at a time."""

        def locked() -> T:
            with self._lock:
                if self._client is None:
                    self._client = client = QdrantClient(
                        path=self._folder, force_disable_check_same_thread=True
                    )
                    if not client.collection_exists("documents"):
                        client.create_collection("documents", vectors_config={})
                return work(self._client)

        return await asyncio.to_thread(locked)

    async def get(self, document_id: str) -> Document | None:
        found = await self._do(lambda client: client.retrieve("documents", [_point(document_id)]))
        return _document(found[0].payload or {}) if found else None

    async def put(self, document: Document, chunks: Sequence[DocumentChunk], embedder: str) -> None:
        def work(client: QdrantClient) -> None:
            key = f"{len(chunks[0].vector)} {embedder}" if chunks else None
            known = _embedders(client)
            _check(known, key)
            if chunks and not known:
                client.delete_collection("chunks")
                size = models.VectorParams(size=len(chunks[0].vector), distance=models.Distance.DOT)
                client.create_collection("chunks", vectors_config=size)
            version = uuid4().hex
            facts = {"document": document.id, "version": version}
            points = [
                models.PointStruct(
                    id=uuid4().hex,
                    vector=list(chunk.vector),
                    payload={**facts, "position": number, "text": chunk.text},
                )
                for number, chunk in enumerate(chunks)
            ]
            if points:
                client.upsert("chunks", points)
            made = {"id": document.id, "source": document.source, "hash": document.hash}
            payload = {**made, "metadata": json.dumps(dict(document.metadata)), "version": version}
            payload |= {"chunks": len(chunks), "embedder": key}
            self._publish(
                client, models.PointStruct(id=_point(document.id), vector={}, payload=payload)
            )
            _delete_chunks(client, document.id, but=version)

        await self._do(work)

    def _publish(self, client: QdrantClient, document: models.PointStruct) -> None:
        client.upsert("documents", [document])

    async def remove(self, filters: FilterExpr | None, ids: Sequence[str] | None = None) -> int:
        def work(client: QdrantClient) -> int:
            passing = [one["id"] for one in _passing(client, filters)]
            gone = passing if ids is None else [one for one in passing if one in ids]
            if gone:
                client.delete("documents", [_point(one) for one in gone])
            for one in gone:
                _delete_chunks(client, one)
            return len(gone)

        return await self._do(work)

    async def nearest(
        self, vector: Sequence[float], embedder: str, filters: FilterExpr | None, k: int
    ) -> list[Hit]:
        length = hypot(*vector) or 1.0
        query = [number / length for number in vector]

        def work(client: QdrantClient) -> list[Hit]:
            _check(_embedders(client), f"{len(query)} {embedder}")
            passing = {one["version"]: one for one in _passing(client, filters) if one["chunks"]}
            if not passing:
                return []
            found = client.query_points(
                "chunks", query, query_filter=_any("version", passing), limit=k
            )
            return [_hit(passing, point.payload or {}, point.score) for point in found.points]

        return await self._do(work)

    async def matching(self, query: str, filters: FilterExpr | None, k: int) -> list[Hit]:
        def work(client: QdrantClient) -> list[Hit]:
            passing = {one["version"]: one for one in _passing(client, filters) if one["chunks"]}
            found = _scroll(client, "chunks", _any("version", passing)) if passing else []
            found.sort(key=lambda one: (one["document"], one["position"]))
            shares = by_words(query, [one["text"] for one in found], DOCUMENTS)
            hits = [_hit(passing, one, s) for one, s in zip(found, shares, strict=True) if s > 0]
            return sorted(hits, key=lambda hit: -hit.score)[:k]

        return await self._do(work)

    async def keys(self, filters: FilterExpr | None, values: int) -> dict[str, list[Any]]:
        counts: dict[str, Counter[tuple[bool, Any]]] = {}
        for one in await self._do(lambda client: _passing(client, filters)):
            for key, value in _document(one).metadata.items():
                several = value if isinstance(value, list) else [value]
                # True and 1 are equal to Python, and are different values.
                counts.setdefault(key, Counter()).update((v is True, v) for v in several)
        common = {key: count.most_common(values) for key, count in sorted(counts.items())}
        return {key: [value for (_, value), _ in some] for key, some in common.items()}

    async def count(self, filters: FilterExpr | None = None) -> tuple[int, int]:
        passing = await self._do(lambda client: _passing(client, filters))
        return len(passing), sum(one["chunks"] for one in passing)

    async def close(self) -> None:
        def close() -> None:
            with self._lock:
                if self._client is not None:
                    self._client.close()
                self._client = None

        await asyncio.to_thread(close)


def _point(document_id: str) -> str:
    return str(uuid5(NAMESPACE_OID, document_id))


def _embedders(client: QdrantClient) -> set[str]:
    """The embedder of the store's vectors, if it has some."""
    return {one["embedder"] for one in _stored(client)} - {None}


def _check(known: set[str], embedder: str | None) -> None:
    if known and embedder is not None and embedder not in known:
        raise KnowledgeError(f"Vectors of {known} cannot be compared with those of {embedder}")


def _scroll(
    client: QdrantClient, collection: str, where: models.Filter | None = None
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    place: Any = None
    while True:
        points, place = client.scroll(collection, where, limit=_PAGE, offset=place)
        found += [point.payload or {} for point in points]
        if place is None:
            return found


def _stored(client: QdrantClient) -> list[dict[str, Any]]:
    return _scroll(client, "documents")


def _passing(client: QdrantClient, filters: FilterExpr | None) -> list[dict[str, Any]]:
    """The documents that pass, by the rules of the library: all of them are read."""
    return [one for one in _stored(client) if _document(one).passes(filters)]


def _document(stored: dict[str, Any]) -> Document:
    metadata = json.loads(stored["metadata"])
    return Document(
        id=stored["id"], source=stored["source"], hash=stored["hash"], metadata=metadata
    )


def _hit(passing: dict[str, dict[str, Any]], chunk: dict[str, Any], score: float) -> Hit:
    document = _document(passing[chunk["version"]])
    return Hit(
        text=chunk["text"],
        source=document.source,
        score=score,
        document=document.id,
        position=chunk["position"],
        metadata=document.metadata,
    )


def _any(key: str, values: Any) -> models.Filter:
    match = models.MatchAny(any=list(values))
    return models.Filter(must=[models.FieldCondition(key=key, match=match)])


def _delete_chunks(client: QdrantClient, document_id: str, but: str = "") -> None:
    """Delete a document's chunks, those of a version excepted."""
    if client.collection_exists("chunks"):
        older = models.FieldCondition(key="version", match=models.MatchValue(value=but))
        where = _any("document", [document_id])
        where.must_not = [older]
        client.delete("chunks", models.FilterSelector(filter=where))


# --8<-- [end:store]
