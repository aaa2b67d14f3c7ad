"""An embedder for tests: the same vectors everywhere, without a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b

_WORDS = re.compile(r"\w+")


class HashingEmbedder:
    """Embeds texts by their words: those with words in common are alike.

    Attributes:
        texts: Every text that it was given, in order.
    """

    def __init__(self, dimensions: int = 256) -> None:
        """Choose the length of vectors."""
        self.dimensions = dimensions
        self.texts: list[str] = []

    @property
    def key(self) -> str:
        """The embedder's name, with the length of its vectors."""
        return f"hashing:{self.dimensions}"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each text."""
        self.texts.extend(texts)
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        for word in _WORDS.findall(text.lower()):
            digest = blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
            place = int.from_bytes(digest[:4], "big") % self.dimensions
            vector[place] += 1.0 if digest[4] & 1 else -1.0
        return vector
