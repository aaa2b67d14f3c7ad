"""LocalEmbedder: vectors from a small model on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import anyio.to_thread

from agentkit_py._core.lazy import missing_package
from agentkit_py.errors import KnowledgeError, MissingDependencyError

if TYPE_CHECKING:
    from fastembed import TextEmbedding

_BATCH = 8
"""Texts at once: more take more memory, and no less time on a CPU."""


class LocalEmbedder:
    """Vectors computed on this machine's CPU by fastembed (extra ``embedder``), without torch.

    The default, all-MiniLM-L6-v2, gives 384 numbers, knows English and reads some 1,000 characters
    of a text. fastembed downloads a model when it is first used and keeps it in
    ``FASTEMBED_CACHE_PATH``; with ``folder`` nothing is downloaded.
    """

    def __init__(
        self,
        model: str = "sentence-transformers/all-MiniLM-L6-v2",
        *,
        folder: str | Path | None = None,
    ) -> None:
        """Name the model; it is loaded when it is first used.

        Args:
            model: One of ``fastembed.TextEmbedding.list_supported_models()``.
            folder: Where its files are: the ONNX model, ``config.json``, ``tokenizer.json`` and
                ``tokenizer_config.json``. Its vectors have the key of the folder's name.

        Raises:
            MissingDependencyError: fastembed is not installed.
        """
        if package := missing_package("fastembed"):
            raise MissingDependencyError(package, "embedder", "LocalEmbedder")
        self.model = model
        self.folder: Path | None = None if folder is None else Path(folder)
        self._loaded: TextEmbedding | None = None
        self._loading = Lock()

    def __repr__(self) -> str:
        return f"<LocalEmbedder: {self._name}>"

    @property
    def key(self) -> str:
        """The model's name, or its folder's."""
        return f"local:{self._name}"

    @property
    def _name(self) -> str:
        return self.folder.resolve().name if self.folder else self.model.rpartition("/")[2]

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector for each text, in order; computed in a thread.

        Raises:
            KnowledgeError: The model is not known, cannot be downloaded or cannot be read.
        """
        return await anyio.to_thread.run_sync(self._embed, list(texts))

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
        valid = [text.encode("utf-8", "replace").decode() for text in texts]
        # Texts of one length side by side: padding costs as much as text.
        order = sorted(range(len(valid)), key=lambda index: len(valid[index]))
        vectors = self._loaded.embed([valid[index] for index in order], batch_size=_BATCH)
        found = dict(zip(order, vectors, strict=True))
        return [found[index].tolist() for index in range(len(valid))]

    def _load(self) -> TextEmbedding:
        from fastembed import TextEmbedding  # noqa: PLC0415 - an extra, slow to load

        path = None if self.folder is None else str(self.folder)
        try:
            return TextEmbedding(self.model, specific_model_path=path)
        except Exception as error:  # those of onnxruntime and tokenizers have no common class
            where = f"the folder {path}" if path else "fastembed"
            raise KnowledgeError(
                f"{self.model} cannot be loaded from {where}: {type(error).__name__}: {error} "
                "Without a network, give folder=… with the model's files."
            ) from error
