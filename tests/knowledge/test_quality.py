"""How well each way of searching finds what is asked for."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agentkit_py.knowledge import Knowledge, KnowledgeStore

TOP = 3
KINDS = ("identifier", "paraphrase", "wording")


@pytest.fixture(scope="module")
def corpus() -> ModuleType:
    """The script that makes documents and questions."""
    path = Path(__file__).with_name("corpus.py")
    spec = importlib.util.spec_from_file_location("knowledge_corpus", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["knowledge_corpus"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def recall(knowledge: Knowledge, questions: list[Any], mode: Any) -> dict[str, float]:
    """For each kind of question, how often the answer is among the best."""
    right = dict.fromkeys(KINDS, 0)
    for question in questions:
        hits = await knowledge.search(question.text, mode=mode, k=TOP)
        right[question.kind] += any(hit.source == question.answer for hit in hits)
    each = len(questions) / len(KINDS)
    return {kind: count / each for kind, count in right.items()}


async def test_hybrid_is_never_worse_and_better_where_one_way_is_blind(
    store: KnowledgeStore, corpus: Any
) -> None:
    """Vectors do not see identifiers, words do not see paraphrases."""
    knowledge = Knowledge(store=store, embedder=corpus.MeaningEmbedder())
    for source, text in corpus.documents().items():
        await knowledge.add(text, source=source)
    questions = corpus.questions()
    vector = await recall(knowledge, questions, "vector")
    keyword = await recall(knowledge, questions, "keyword")
    hybrid = await recall(knowledge, questions, "hybrid")
    for kind in KINDS:
        assert hybrid[kind] >= max(vector[kind], keyword[kind]), (kind, vector, keyword, hybrid)
    assert hybrid["identifier"] > vector["identifier"]
    assert hybrid["paraphrase"] > keyword["paraphrase"]
