"""Reasoning that a server writes into the text, between tags: ``<think>…</think>``.

Open models (DeepSeek-R1, Qwen 3) reason in tags. Servers with a parser give the reasoning in a
member of its own; Ollama, vLLM and others without a parser leave it at the beginning of the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from agentkit_py.errors import ConfigurationError

ThinkTags: TypeAlias = tuple[str, str]
"""The texts before and after reasoning, e.g. ``("<think>", "</think>")``."""

THINK_TAGS: ThinkTags = ("<think>", "</think>")


class Piece(NamedTuple):
    """A piece of a reply: reasoning or text."""

    kind: Literal["reasoning", "text"]
    text: str


class ThinkTagSplitter:
    """Splits a text, which may come in pieces, into its reasoning and the rest.

    Tags count at the beginning of the text only: later ones are words of the answer. White space
    around the tags belongs to neither part.
    """

    def __init__(self, tags: ThinkTags) -> None:
        self._opening, self._closing = tags
        self._held = ""
        self._blank: list[str] = []
        self._state: Literal["start", "opened", "thinking", "closed", "text"] = "start"

    def feed(self, piece: str) -> Iterator[Piece]:
        """Yield the parts that a piece completes; a possible beginning of a tag is held back."""
        if self._state in ("start", "opened", "closed") and not self._held:
            if piece.isspace():
                self._blank.append(piece)
                return
            if self._state != "start":
                piece = piece.lstrip()
        self._held += piece
        if self._state == "start":
            self._look_for_opening()
        if self._state in ("opened", "thinking") and self._held:
            self._state = "thinking"
            yield from self._think()
        if self._state == "closed" and self._held:
            self._state = "text"
        if self._state == "text" and self._held:
            yield Piece("text", self._take(len(self._held)))

    def end(self) -> Iterator[Piece]:
        """Yield the text that was held back when the text has ended."""
        if self._state == "start":
            self._held = "".join(self._blank) + self._held
        if self._held:
            kind = "reasoning" if self._state == "thinking" else "text"
            yield Piece(kind, self._take(len(self._held)))

    def _look_for_opening(self) -> None:
        begun = self._held.lstrip()
        if begun.startswith(self._opening):
            self._state = "opened"
            self._held = begun[len(self._opening) :].lstrip()
        elif not self._opening.startswith(begun):
            self._state = "text"
            self._held = "".join(self._blank) + self._held

    def _think(self) -> Iterator[Piece]:
        end = self._held.find(self._closing)
        if end >= 0:
            thought = self._take(end)
            self._held = self._held[len(self._closing) :].lstrip()
            self._state = "closed"
        else:
            thought = self._take(len(self._held) - self._begun_closing())
        if thought:
            yield Piece("reasoning", thought)

    def _begun_closing(self) -> int:
        """Return how many characters at the end may be the beginning of the closing tag."""
        for length in range(min(len(self._closing) - 1, len(self._held)), 0, -1):
            if self._closing.startswith(self._held[-length:]):
                return length
        return 0

    def _take(self, length: int) -> str:
        taken, self._held = self._held[:length], self._held[length:]
        return taken


def split_thinking(text: str, tags: ThinkTags) -> tuple[str, str]:
    """Return the reasoning of a whole text, empty if it has none, and the rest."""
    splitter = ThinkTagSplitter(tags)
    pieces = [*splitter.feed(text), *splitter.end()]
    reasoning = "".join(piece.text for piece in pieces if piece.kind == "reasoning")
    return reasoning, "".join(piece.text for piece in pieces if piece.kind == "text")


def checked_tags(tags: object) -> ThinkTags | None:
    """Return tags that can be searched for.

    Raises:
        ConfigurationError: It is not a pair of texts.
    """
    if tags is None:
        return None
    match tags:
        case (str(opening), str(closing)) if opening.strip() and closing.strip():
            return opening.strip(), closing.strip()
        case _:
            raise ConfigurationError(
                f"think_tags={tags!r:.200}: pass two texts, e.g. {THINK_TAGS!r}, or None."
            )
