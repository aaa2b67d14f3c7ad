"""Reading and cutting documents."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from agentkit_py.errors import ConfigurationError
from agentkit_py.knowledge import Knowledge, KnowledgeError, Progress, SqliteKnowledge
from agentkit_py.testing.fakes import HashingEmbedder


@pytest.fixture
def knowledge() -> Knowledge:
    """A knowledge base in memory."""
    return Knowledge(
        store=SqliteKnowledge(":memory:"),
        embedder=HashingEmbedder(),
        chunk_size=80,
        chunk_overlap=10,
    )


async def texts(knowledge: Knowledge, query: str) -> list[str]:
    """Return the texts that are found by words."""
    return [hit.text for hit in await knowledge.search(query, mode="keyword", k=50)]


async def test_rows_of_csv_and_items_of_json_are_pieces_of_their_own(
    knowledge: Knowledge, tmp_path: Path
) -> None:
    """Each with the names of its columns or fields."""
    table = tmp_path / "prices.csv"
    table.write_text('name,price\n"Tom, Yum",9\nPad Thai,11\n')
    await knowledge.add(table)
    assert await texts(knowledge, "pad") == ["name: Pad Thai\nprice: 11"]
    await knowledge.add('[{"a": {"b": "deep"}, "n": [1, true]}, "plain"]', format="json")
    assert await texts(knowledge, "deep") == ["a.b: deep\nn: 1\nn: true"]
    assert await texts(knowledge, "plain") == ["plain"]
    hits = await knowledge.search("pad", mode="keyword")
    assert hits[0].source == table.as_posix()


async def test_markdown_is_cut_at_its_headings(knowledge: Knowledge, tmp_path: Path) -> None:
    """Long texts are cut at sentences, and no chunk is longer than the setting."""
    page = tmp_path / "page.md"
    page.write_text(f"# One\n\n{'alpha beta gamma. ' * 4}\n\n## Two\n\n{'delta epsilon. ' * 4}")
    added = await knowledge.add(page)
    assert added.chunks >= 2
    (found,) = [text for text in await texts(knowledge, "two") if text.startswith("## Two")]
    assert "alpha" not in found
    await knowledge.add("word " * 1000, source="long")
    hits = await knowledge.search("word", mode="keyword", k=200)
    assert max(len(hit.text) for hit in hits) <= 80
    assert len(hits) > 50


def pdf(text: str) -> bytes:
    """A PDF with one page that says this."""
    from pypdf import PdfWriter  # noqa: PLC0415 - only here
    from pypdf.generic import (  # noqa: PLC0415 - loaded only where it is used
        DecodedStreamObject,
        DictionaryObject,
        NameObject,
    )

    writer = PdfWriter()
    page = writer.add_blank_page(300, 300)
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    fonts = DictionaryObject({NameObject("/F1"): font})
    page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
    stream = DecodedStreamObject()
    stream.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
    page[NameObject("/Contents")] = stream
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


async def test_the_text_of_a_pdf_is_found(knowledge: Knowledge, tmp_path: Path) -> None:
    """A file that is no PDF gives an error that says so."""
    path = tmp_path / "contract.pdf"
    path.write_bytes(pdf("Termination takes ninety days"))
    await knowledge.add(path)
    assert await texts(knowledge, "ninety") == ["Termination takes ninety days"]
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"no pdf")
    with pytest.raises(KnowledgeError, match="cannot be read as pdf"):
        await knowledge.add(broken)


async def test_an_unreadable_document_is_an_error_and_not_stored(
    knowledge: Knowledge, tmp_path: Path
) -> None:
    """The error names the document."""
    with pytest.raises(KnowledgeError, match="cannot be read"):
        await knowledge.add(tmp_path / "nowhere.txt")
    with pytest.raises(KnowledgeError, match="as json"):
        await knowledge.add("{", format="json")
    with pytest.raises(KnowledgeError, match="as text"):
        await knowledge.add(b"\xff\xfe\xfa", source="bytes")
    with pytest.raises(KnowledgeError, match="is not a key"):
        await knowledge.add("text", metadata={"a b": 1})
    with pytest.raises(KnowledgeError, match="is not a text, number"):
        await knowledge.add("text", metadata={"a": {"b": 1}})
    with pytest.raises(KnowledgeError, match="compared exactly"):
        await knowledge.add("text", metadata={"a": 2**60})
    assert await knowledge.count() == (0, 0)


async def test_progress_is_reported_to_a_function_or_as_a_bar(
    knowledge: Knowledge, capsys: pytest.CaptureFixture[str]
) -> None:
    """To a function, or as a bar."""
    seen: list[Progress] = []
    await knowledge.add("some words here. " * 700, source="long", progress=seen.append)
    assert [one.done for one in seen] == sorted({one.done for one in seen})
    assert len(seen) > 1
    assert seen[-1].done == seen[-1].total
    await knowledge.add("more words", source="short", progress="bar")
    assert "short" in capsys.readouterr().out


def test_invalid_settings_are_refused() -> None:
    """The error comes at construction."""
    store, embedder = SqliteKnowledge(":memory:"), HashingEmbedder()
    bad = [{"chunk_size": 0}, {"chunk_size": 10, "chunk_overlap": 10}, {"k": 0}, {"mode": "best"}]
    for given in bad:
        with pytest.raises(ConfigurationError):
            Knowledge(store=store, embedder=embedder, **given)  # pyright: ignore[reportArgumentType] - wrong on purpose
    with pytest.raises(ConfigurationError, match="embedder"):
        Knowledge(store=store, embedder="text-embedding-3-small")  # pyright: ignore[reportArgumentType] - wrong on purpose


async def test_markdown_with_long_runs_of_spaces_and_empty_lines_is_added() -> None:
    """This includes chunks whose overlap begins before the previous chunk's words."""
    knowledge = Knowledge(store=SqliteKnowledge(":memory:"), embedder=HashingEmbedder())
    gap, empty = " " * 200, "\n" * 950
    await knowledge.add(f"{gap}{empty}{gap}first words\n{gap}last words\n" * 40, format="markdown")
    found = " ".join(await texts(knowledge, "last words"))
    assert found.count("last words") >= 40
