"""Texts in pieces that are small enough to be found and to be read."""

from __future__ import annotations

from dataclasses import dataclass

from agentkit_py.errors import MissingDependencyError
from agentkit_py.knowledge.reading import Format
from agentkit_py.processors.settings import whole

_WINDOW = 32
"""Pieces' sizes that the splitter reads at once: its time grows with the square of a text."""


@dataclass(frozen=True, slots=True)
class Chunking:
    """How texts are cut: at headings, paragraphs and sentences where they fit, else at words."""

    size: int = 1000
    """Characters of a piece at the most."""

    overlap: int = 100
    """Characters that a piece may share with the one before."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        whole(1)("chunk_size", self.size)
        whole(0)("chunk_overlap", min(self.overlap, self.size - 1 - self.overlap))

    def cut(self, text: str, kind: Format) -> list[str]:
        """The pieces of a text, in order.

        Raises:
            MissingDependencyError: It must be cut, and semantic-text-splitter is not installed.
        """
        if len(text) <= self.size:
            return [text.strip()] if text.strip() else []
        try:
            from semantic_text_splitter import (  # noqa: PLC0415 - an extra
                MarkdownSplitter,
                TextSplitter,
            )
        except ImportError as error:
            raise MissingDependencyError(
                "semantic-text-splitter", "knowledge", "Cutting a long text"
            ) from error
        made = MarkdownSplitter if kind == "markdown" else TextSplitter
        splitter = made(self.size, overlap=self.overlap)
        chunks: list[str] = []
        window, start = _WINDOW * self.size, 0
        while start + window < len(text):
            found = splitter.chunk_indices(text[start : start + window])
            # The last chunk may go on after the window, so the next window begins with it.
            last = found.pop()[0] if len(found) > 1 else window
            chunks.extend(chunk for _, chunk in found)
            start += last
        return chunks + splitter.chunks(text[start:])
