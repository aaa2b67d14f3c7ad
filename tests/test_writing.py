"""Pages keep to docs/writing.md: words of ours are in the glossary, sentences are short."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__, "../../docs").resolve()
WORDS = ["chunk", "part", "inference", "journal", "mailbox", "offload", "steer", "takeover"]
MOST = 20
"""The words of a sentence; a piece of code counts as one."""


@pytest.mark.parametrize("word", [*WORDS, "state", "lease", "thread", "run", "turn", "step"])
def test_a_word_of_ours_is_in_the_glossary(word: str) -> None:
    """Each in a row of its own."""
    rows = (DOCS / "glossary.md").read_text(encoding="utf-8").splitlines()
    assert sum(row.startswith((f"| {word} |", f"| [{word}](")) for row in rows) == 1


def sentences(text: str) -> list[str]:
    """Return a page's sentences, cells of tables among them, with a word for each piece of code."""
    text = re.sub(r"(?ms)^```.*?^```", "", text)
    text = re.sub(r"<!--.*?-->", "", text)
    found: list[str] = []
    for block in re.split(r"\n\s*\n|\n(?=\s*[-*] )|\n(?=\|)|\n(?=\d+\. )", text):
        cells = block.strip().strip("|").split("|") if block.lstrip().startswith("|") else [block]
        for cell in cells if not block.lstrip().startswith("#") else ():
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell)
            plain = " ".join(re.sub(r"`[^`]*`", "X", plain).split())
            found += re.split(r"(?<=[.?!:;])\s+(?=[A-Z`*X])|(?<=[.?!])\s+", plain)
    return found


def words_of(sentence: str) -> list[str]:
    """Return the words of a sentence."""
    return re.findall(r"[\w'./<>-]+", sentence)


@pytest.mark.parametrize("page", ["server", "typed-agents", "staff", "chat-page"])
def test_no_sentence_of_a_guide_is_long(page: str) -> None:
    """Readers of these guides found them hard to follow."""
    found = sentences((DOCS / "guides" / f"{page}.md").read_text(encoding="utf-8"))
    assert len(found) > 10
    assert [one for one in found if len(words_of(one)) > MOST] == []
