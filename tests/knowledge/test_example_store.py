"""The example's store for Qdrant, made through the public interface alone, keeps every promise."""

from __future__ import annotations

import runpy
from array import array
from pathlib import Path
from typing import Any

import pytest

from agentkit_py.knowledge import EQ, Document, DocumentChunk, Knowledge
from agentkit_py.testing.fakes import HashingEmbedder
from agentkit_py.testing.knowledge_conformance import KnowledgeCheck, knowledge_checks

pytest.importorskip("qdrant_client", reason="the example needs qdrant-client")

_FILE = Path(__file__).resolve().parents[2] / "examples" / "stores" / "qdrant_knowledge.py"
QdrantKnowledge: Any = runpy.run_path(str(_FILE))["QdrantKnowledge"]


@pytest.mark.parametrize("check", knowledge_checks(), ids=str)
async def test_the_qdrant_store_keeps_every_promise(check: KnowledgeCheck, tmp_path: Path) -> None:
    """The eight methods are enough for what the library's own stores promise."""
    store = QdrantKnowledge(tmp_path / "documents")
    await check(store)
    await store.close()


async def test_documents_are_found_by_another_process(tmp_path: Path) -> None:
    """A client in the same folder reads what another has written, in each mode."""
    first = QdrantKnowledge(tmp_path)
    await Knowledge(store=first, embedder=HashingEmbedder()).add(
        "Lemongrass soup", source="soup", metadata={"tenant": "a"}
    )
    await first.close()

    second = Knowledge(store=QdrantKnowledge(tmp_path), embedder=HashingEmbedder())
    modes: list[Any] = ["vector", "keyword", "hybrid"]
    for mode in modes:
        hits = await second.search("lemongrass", mode=mode, filters=EQ("tenant", "a"))
        assert [hit.source for hit in hits] == ["soup"]
        assert await second.search("lemongrass", mode=mode, filters=EQ("tenant", "b")) == []
    await second.close()


class Dying(QdrantKnowledge):
    """A process that dies before a document's own point is written."""

    def _publish(self, client: Any, document: Any) -> None:
        if document.payload["hash"] == "2":
            raise OSError("dead")
        parent: Any = super()
        parent._publish(client, document)


async def test_a_put_that_breaks_off_leaves_the_older_document(tmp_path: Path) -> None:
    """Its chunks are not found, and the next put takes them away."""
    embedder = HashingEmbedder(3)
    store: Any = Dying(tmp_path)
    knowledge = Knowledge(store=store, embedder=embedder)
    await knowledge.add("old", source="a")
    (known,) = await knowledge.search("old", mode="keyword")
    document = Document(id=known.document, source="a", hash="2", metadata={})
    chunk = (await store.nearest([1, 0, 0], embedder.key, None, 1))[0]
    assert chunk.text == "old"

    with pytest.raises(OSError, match="dead"):
        await store.put(document, [DocumentChunk("new", array("f", [1, 0, 0]))], embedder.key)
    assert [hit.text for hit in await knowledge.search("old new")] == ["old"]
    assert await knowledge.count() == (1, 1)
    await knowledge.close()
