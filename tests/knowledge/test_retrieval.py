"""Retrieval quality with a real model, on questions that no setting was chosen on."""

from __future__ import annotations

import pytest

from agentkit_py.knowledge import EQ, KnowledgeStore

from .minilm import installed, local_embedder
from .retrieval import MODES, Remembering, filled, measured
from .retrieval_corpus import CLASSES, corpus

PRODUCTS = ("router", "thermostat", "headset")
"""Their questions are asked; all documents are searched. docs/retrieval.md has all questions."""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Remembering:
    """The model, which embeds each text once for both stores."""
    if not installed():
        pytest.skip("needs fastembed and the model's packages")
    return Remembering(local_embedder(tmp_path_factory.mktemp("models")))


async def test_hybrid_is_as_good_as_the_better_of_the_two_on_every_class(
    store: KnowledgeStore, model: Remembering
) -> None:
    """It beats vectors on identifiers, and words on paraphrases."""
    made = corpus()
    knowledge = await filled(store, model, made)
    questions = [
        one
        for one in made.questions
        if one.half == "held out" and made.products[one.answer] in PRODUCTS
    ]
    found = await measured(knowledge, questions)
    for asked in CLASSES:
        vector, keyword, hybrid = (found[asked][mode] for mode in MODES)
        assert hybrid.questions >= 36
        rivals = [vector] if asked == "one word" else [vector, keyword]  # see docs/retrieval.md
        for rival in rivals:
            assert hybrid.first >= rival.first, (asked, found[asked])
            assert hybrid.five >= rival.five, (asked, found[asked])
            assert hybrid.mrr >= rival.mrr - 1e-9, (asked, found[asked])
    identifiers, paraphrases = found["identifier"], found["paraphrase"]
    assert identifiers["hybrid"].first > identifiers["vector"].first + 0.5
    assert paraphrases["hybrid"].first > paraphrases["keyword"].first + 0.2
    for question in questions[::9]:
        for mode in MODES:
            hits = await knowledge.search(
                question.text, filters=EQ("product", "headset"), mode=mode, k=300
            )
            assert {made.products[hit.source] for hit in hits} <= {"headset"}
            assert len(hits) == len({hit.source for hit in hits})
            assert mode == "keyword" or len(hits) == len(
                [product for product in made.products.values() if product == "headset"]
            )


def test_the_corpus_is_the_same_each_time_and_its_questions_have_one_answer() -> None:
    """Otherwise figures could not be compared."""
    made = corpus()
    assert made == corpus()
    assert made != corpus(8)
    for question in made.questions:
        if question.asked == "identifier":
            having = [source for source, text in made.documents.items() if question.text in text]
            assert having in ([], [question.answer])
