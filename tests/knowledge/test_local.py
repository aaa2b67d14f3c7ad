"""The embedder that computes vectors on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from agentkit_py.errors import KnowledgeError
from agentkit_py.knowledge import Knowledge, LocalEmbedder, SqliteKnowledge
from agentkit_py.search.vectors import Vector

from .minilm import folder_of_minilm, installed, local_embedder

needs_model = pytest.mark.skipif(not installed(), reason="needs fastembed and the model's packages")

# The first numbers of what sentence-transformers 6.2.0 with torch 2.15.0 gives for these texts.
REFERENCE = {
    "The customer wants a refund.": (-0.109492, 0.054787, 0.019710, 0.013389, -0.048986),
    "ERR-4012": (-0.041914, 0.062467, -0.055950, -0.057300, 0.016993),
    "Ünïcödé 漢字 emoji 🙂 test": (-0.017268, -0.018649, 0.032742, -0.000446, -0.006152),
    "word " * 600: (-0.008124, -0.095586, -0.038673, 0.049662, -0.043794),
}


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> LocalEmbedder:
    """Loaded once."""
    return local_embedder(tmp_path_factory.mktemp("models"))


def likeness(a: Vector, b: Vector) -> float:
    """The cosine of two vectors of length 1."""
    return sum(x * y for x, y in zip(a, b, strict=True))


@needs_model
async def test_vectors_are_near_those_of_the_reference_implementation(
    embedder: LocalEmbedder,
) -> None:
    """Short and cut texts, and what is no English; as near as weights of 8 bits can be."""
    vectors = await embedder.embed([*REFERENCE, ""])
    for vector, expected in zip(vectors, REFERENCE.values(), strict=False):
        assert vector[:5] == pytest.approx(expected, abs=0.01)
    for vector in vectors:
        assert len(vector) == 384
        assert likeness(vector, vector) == pytest.approx(1, abs=1e-5)


PARAPHRASES = [
    ("I want my money back", "The customer asks for a refund"),
    ("A man is eating food.", "Someone is having a meal."),
    ("How do I reset my password?", "I forgot my login credentials"),
    ("The flight was cancelled.", "The plane will not depart."),
]


@needs_model
async def test_a_paraphrase_is_nearer_than_other_texts(embedder: LocalEmbedder) -> None:
    """Each text is nearest to its own paraphrase."""
    first = await embedder.embed([a for a, _ in PARAPHRASES])
    second = await embedder.embed([b for _, b in PARAPHRASES])
    for index, vector in enumerate(first):
        scores = [likeness(vector, other) for other in second]
        assert scores.index(max(scores)) == index, PARAPHRASES[index]


@needs_model
async def test_vectors_come_in_the_order_of_the_texts_also_to_concurrent_callers(
    embedder: LocalEmbedder,
) -> None:
    """Neighbours in a batch change only last digits; texts end after 256 word pieces."""
    texts = [f"{'many words ' * n}number {n}" for n in range(12)]
    together = await embedder.embed(texts)
    found: dict[int, Vector] = {}

    async def alone(index: int) -> None:
        (found[index],) = await embedder.embed([texts[index]])

    async with anyio.create_task_group() as group:
        for index in range(len(texts)):
            group.start_soon(alone, index)
    for index, vector in enumerate(together):
        assert likeness(vector, found[index]) > 0.995
    long, longer = await embedder.embed(["word " * 300, "word " * 300 + "something else"])
    assert long == pytest.approx(longer, abs=1e-5)
    assert await embedder.embed([]) == []
    assert len((await embedder.embed(["half of a pair: \ud800"]))[0]) == 384


@needs_model
async def test_documents_are_found_by_their_meaning(embedder: LocalEmbedder) -> None:
    """The question and the document have no word in common."""
    knowledge = Knowledge(store=SqliteKnowledge(":memory:"), embedder=embedder, mode="vector", k=1)
    await knowledge.add("Refunds are paid within ten days.", source="refunds")
    await knowledge.add("The battery lasts eight hours.", source="battery")
    assert [hit.source for hit in await knowledge.search("get my money back")] == ["refunds"]
    assert [hit.source for hit in await knowledge.search("running time unplugged")] == ["battery"]


@needs_model
async def test_a_folder_without_a_readable_model_is_an_error(
    embedder: LocalEmbedder, tmp_path: Path
) -> None:
    """It names the folder; a readable one gives the embedder its key."""
    mine = LocalEmbedder(folder=folder_of_minilm(tmp_path / "mine"))
    assert (embedder.key, mine.key) == ("local:all-MiniLM-L6-v2", "local:mine")
    assert LocalEmbedder().key == embedder.key
    assert await mine.embed(["a text"]) == await embedder.embed(["a text"])
    with pytest.raises(KnowledgeError, match=r"cannot be loaded from the folder .*nowhere"):
        await LocalEmbedder(folder=tmp_path / "nowhere").embed(["a text"])
    (tmp_path / "mine" / "model.onnx").write_bytes(b"spoilt")
    with pytest.raises(KnowledgeError, match=r"cannot be loaded from the folder .*mine"):
        await LocalEmbedder(folder=tmp_path / "mine").embed(["a text"])
    with pytest.raises(KnowledgeError, match="is not supported"):
        await LocalEmbedder("nobody/knows-it").embed(["a text"])


def run(script: str) -> list[str]:
    """Return the words that another process prints."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_missing_fastembed_is_named_with_its_extra() -> None:
    """The error comes when the embedder is made, not at the first search."""
    script = (
        "import sys; sys.modules['fastembed'] = None\n"
        "from agentkit_py.errors import MissingDependencyError\n"
        "from agentkit_py.knowledge import LocalEmbedder\n"
        "try: LocalEmbedder()\n"
        "except MissingDependencyError as error: print(error.package, error.extra)"
    )
    assert run(script) == ["fastembed", "embedder"]


@needs_model
def test_embedding_loads_no_torch(tmp_path: Path) -> None:
    """Transformers is not loaded either."""
    folder = folder_of_minilm(tmp_path / "model")
    script = (
        "import asyncio, sys\n"
        "from agentkit_py.knowledge import LocalEmbedder\n"
        f"asyncio.run(LocalEmbedder(folder={str(folder)!r}).embed(['a text']))\n"
        "print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    assert run(script) == ["False", "False"]
