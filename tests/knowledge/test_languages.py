"""Words are found in other forms, in any language, by every search."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import sql

from agentkit_py import Agent, State, TextMessage
from agentkit_py.errors import ConfigurationError
from agentkit_py.knowledge import Knowledge, PostgresKnowledge, SqliteKnowledge
from agentkit_py.processors import Recall
from agentkit_py.search import by_words
from agentkit_py.search.words import words
from agentkit_py.testing import HashingEmbedder, ScriptedModel

TEXTS = {
    "english": "The refunds of Mrs. Miller were posted on the 3rd of May and are on their way.",
    "german": "Die Rechnungen für das Büro sind noch nicht bezahlt, und wir warten auf Geld.",
    "french": "Nous avons reçu les remboursements de la commande, qui sont arrivés en retard.",
    "spanish": "Las facturas del cliente no están pagadas y por eso el pedido no se envía.",
    "russian": "Ваши заказы были отправлены в понедельник, и вы получите их на этой неделе.",
    "turkish": "Kargolar için bir ücret yok, bu nedenle daha çok sipariş verin.",
    "chinese": "客户可以在三十天内申请退款,运费不退。",
    "japanese": "お客様の注文番号は請求書に記載されています。",
    "korean": "고객님의 환불은 열흘 안에 처리됩니다.",
    "thai": "ลูกค้าสามารถขอเงินคืนได้ภายในสามสิบวัน",
    "hindi": "ग्राहक का पैसा दस दिनों में वापस किया जाता है।",
    "arabic": "يمكن للعميل استرداد المبلغ خلال عشرة أيام.",
}
ASKED = {
    "english": "Is there a refund for Miller?",
    "german": "Welche Rechnung ist offen?",
    "french": "où est mon remboursement ?",
    "spanish": "¿dónde está mi factura?",
    "russian": "где мой заказ",
    "turkish": "Kargo",
    "chinese": "怎么申请退款?",
    "japanese": "注文番号はどこですか",
    "korean": "환불 언제",
    "thai": "ขอเงินคืน",
    "hindi": "पैसा वापस",
    "arabic": "استرداد المبلغ",
}


async def found(knowledge: Knowledge, query: str) -> str:
    """Return the source that is found first by words."""
    hits = await knowledge.search(query, mode="keyword", k=1)
    return hits[0].source if hits else "nothing"


async def test_words_are_found_in_every_language_of_a_store(knowledge: Knowledge) -> None:
    """One store has all of them; each is guessed by its script or its commonest words."""
    for source, text in TEXTS.items():
        await knowledge.add(text, source=source)
    assert {name: await found(knowledge, query) for name, query in ASKED.items()} == {
        name: name for name in ASKED
    }
    await knowledge.add("Ｅｒｒ－４０１２ Café CAFÉ", source="wide")  # noqa: RUF001 - wide letters
    assert await found(knowledge, "ERR-4012") == "wide"
    assert await found(knowledge, "cafe\u0301") == "wide"


@pytest.mark.parametrize("language", list(ASKED))
def test_recall_finds_words_in_every_language(language: str) -> None:
    """By the same words as documents."""
    scores = by_words(ASKED[language], list(TEXTS.values()))
    assert max(scores) == scores[list(TEXTS).index(language)] > 0


async def test_recall_shows_the_turn_with_another_form_of_the_word() -> None:
    """German, among turns that are as long."""
    said = [TEXTS["german"], *(f"Das Wetter ist heute gut, Tag {n}." for n in range(20))]
    model = ScriptedModel("Offen.")
    agent = Agent(
        name="clerk",
        system="You remember.",
        model=model,
        processors=[Recall(HashingEmbedder(), k=1, keep_recent=2, neighbours=0)],
    )
    history = [TextMessage("user", text) for text in said]
    await agent.run("Wie steht es um die Rechnung?", state=State(messages=history))
    model.assert_saw("<recalled_messages>", "Die Rechnungen für das Büro")


@given(st.lists(st.text(max_size=40), max_size=6), st.text(max_size=40))
def test_any_text_can_be_searched(texts: list[str], query: str) -> None:
    """Scores are shares, also of what has no words."""
    scores = by_words(query, texts)
    assert len(scores) == len(texts)
    assert all(0 <= score < 3 for score in scores)


@pytest.mark.parametrize("language", ["german", "simple", None])
async def test_the_language_of_a_store_can_be_set(language: str | None, tmp_path: Path) -> None:
    """A short text tells none by itself; opened again, the file knows its language."""
    path = tmp_path / "documents.db"
    made = Knowledge(store=SqliteKnowledge(path, language=language), embedder=HashingEmbedder())
    await made.add("Rechnungen", source="bills")
    await made.close()
    again = Knowledge(store=SqliteKnowledge(path), embedder=HashingEmbedder())
    assert await found(again, "Rechnungen") == "bills"
    assert await found(again, "Rechnung") == ("bills" if language == "german" else "nothing")
    await again.close()


@pytest.mark.parametrize("wrong", ["klingon", "en", "German"])
@pytest.mark.parametrize("kind", [SqliteKnowledge, PostgresKnowledge])
def test_a_language_that_is_not_known_is_refused(wrong: Any, kind: Any) -> None:
    """With the names that are."""
    with pytest.raises(ConfigurationError, match=f"language='{wrong}' is not known.*german"):
        kind("postgresql://nowhere", language=wrong)


async def test_words_of_a_schema_of_the_version_before_are_stems_now(
    postgres_url: str, postgres_schema: str
) -> None:
    """PostgreSQL made them by its own dictionary."""
    made = Knowledge(
        store=PostgresKnowledge(postgres_url, schema=postgres_schema), embedder=HashingEmbedder()
    )
    await made.add(TEXTS["german"], source="german")
    await made.close()
    with psycopg.connect(postgres_url) as connection:
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(postgres_schema)))
        connection.execute("UPDATE knowledge_chunks SET words = to_tsvector('english', text)")
        connection.execute("DELETE FROM knowledge_facts_of_store WHERE name = 'language german'")
        connection.execute("UPDATE knowledge_facts_of_store SET value='2' WHERE name = 'version'")
    assert await found(made, "Rechnung") == "german"
    await made.close()


async def test_texts_of_several_languages_may_be_added_at_once(knowledge: Knowledge) -> None:
    """None of the store's languages is lost."""
    async with anyio.create_task_group() as tasks:
        for source, text in TEXTS.items():
            tasks.start_soon(partial(knowledge.add, text, source=source))
    assert [await found(knowledge, query) for query in ASKED.values()] == list(ASKED)


HOSTILE = [
    *("'", '"', "a\"b'c\\", "\x00", "'; DROP TABLE x; --", "( OR )", "NEAR(a b)", "*", "x:y"),
    *("'::tsvector", "-a", "\u0301", "a\u0301\u0323", "ー", "🙂🙂", "ﷺ ½ ŉ", "a" * 300, "&|!<->"),
]


async def test_texts_and_queries_of_strangers_are_words_and_nothing_else(
    knowledge: Knowledge,
) -> None:
    """Also in the databases' own languages for searches."""
    for number, text in enumerate(HOSTILE):
        await knowledge.add(f"{text} plain", source=str(number))
    for text in HOSTILE:
        await knowledge.search(text, mode="keyword")
    assert len(await knowledge.search("plain", mode="keyword", k=50)) == len(HOSTILE)


def test_words_of_any_text_take_linear_time() -> None:
    """Accents that follow each other would take minutes to put in order."""
    assert len(words("a" + "\u0301\u0323" * 200_000)) < 2000
