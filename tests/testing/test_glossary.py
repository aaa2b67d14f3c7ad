"""The glossary has the words that pages use without saying what they mean."""

from __future__ import annotations

from pathlib import Path

import pytest

GLOSSARY = Path(__file__, "../../../docs/glossary.md").resolve()
WORDS = ["chunk", "part", "inference", "journal", "mailbox", "offload", "steer", "takeover"]


@pytest.mark.parametrize("word", [*WORDS, "state", "lease", "thread", "run", "turn", "step"])
def test_a_word_of_ours_is_in_the_glossary(word: str) -> None:
    """Each in a row of its own."""
    rows = GLOSSARY.read_text(encoding="utf-8").splitlines()
    assert sum(row.startswith((f"| {word} |", f"| [{word}](")) for row in rows) == 1
