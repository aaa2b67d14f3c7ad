"""Embedders: a small model on this machine, OpenAI, or who speaks its format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from agentkit_py._core.json import as_list, as_object
from agentkit_py._core.lazy import missing_package
from agentkit_py.errors import ConfigurationError, KnowledgeError, MissingDependencyError
from agentkit_py.models import openai
from agentkit_py.models.base import Adapter, Model, ModelReply, ModelRequest, RetryPolicy
from agentkit_py.models.capabilities import OPENAI
from agentkit_py.models.http_errors import unexpected

if TYPE_CHECKING:
    import httpx
    from fastembed import TextEmbedding

    from agentkit_py.runtime.port import Runtime

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
        self._model = model
        self._folder: Path | None = None if folder is None else Path(folder)
        self._loaded: TextEmbedding | None = None
        self._loading = Lock()

    @property
    def model(self) -> str:
        """The model's name."""
        return self._model

    @property
    def folder(self) -> Path | None:
        """The folder that holds the model; None: it is downloaded."""
        return self._folder

    def __repr__(self) -> str:
        return f"<LocalEmbedder: {self._name}>"

    @property
    def key(self) -> str:
        """The model's name, or its folder's."""
        return f"local:{self._name}"

    @property
    def _name(self) -> str:
        return self._folder.resolve().name if self._folder else self._model.rpartition("/")[2]

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a vector for each text, in order; computed in a thread.

        Raises:
            KnowledgeError: The model is not known, cannot be downloaded or cannot be read.
        """
        return await anyio.to_thread.run_sync(self._embed, list(texts))

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
        valid = [text.encode("utf-8", "replace").decode() for text in texts]
        # Texts of equal length together: padding costs as much as text.
        order = sorted(range(len(valid)), key=lambda index: len(valid[index]))
        vectors = self._loaded.embed([valid[index] for index in order], batch_size=_BATCH)
        found = dict(zip(order, vectors, strict=True))
        return [found[index].tolist() for index in range(len(valid))]

    def _load(self) -> TextEmbedding:
        from fastembed import TextEmbedding  # noqa: PLC0415 - an extra, slow to load

        path = None if self._folder is None else str(self._folder)
        try:
            return TextEmbedding(self._model, specific_model_path=path)
        except Exception as error:  # those of onnxruntime and tokenizers have no common class
            where = f"the folder {path}" if path else "fastembed"
            raise KnowledgeError(
                f"{self._model} cannot be loaded from {where}: {type(error).__name__}: {error} "
                "Without a network, give folder=… with the model's files."
            ) from error


class OpenAIEmbedder:
    """Vectors from OpenAI's embeddings API, asked over HTTP when they are needed.

    Keys, retries and errors are those of models: the key is read from ``OPENAI_API_KEY`` unless
    given, rate limits and 5xx are tried again, and a failure is a `ModelError`.

    Args:
        model: The embedding model.
        dimensions: Numbers in a vector; None: as many as the model has.
        api_key: The key.
        base_url: Where the API is, if not at OpenAI.
        headers: Further headers.
        timeout: Seconds to wait for an answer.
        retry: How often and after which time a failed call is tried again.
        transport: An httpx transport: a proxy, or a fake.
        runtime: Sends the requests; None: the runtime that direct runs share.
    """

    def __init__(  # noqa: PLR0913 - each is a setting of its own
        self,
        model: str = "text-embedding-3-small",
        *,
        dimensions: int | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        retry: RetryPolicy | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        made = openai(
            model,
            api_key=api_key,
            base_url=base_url,
            headers=headers,
            timeout=timeout,
            retry=retry or RetryPolicy(),
        )
        adapter = _Embeddings(OPENAI, "/embeddings")
        self._model = replace(made, adapter=adapter, transport=transport)
        self.dimensions = dimensions
        self._runtime = runtime

    @property
    def key(self) -> str:
        """The model, and the length of its vectors where it is not the usual length."""
        size = "" if self.dimensions is None else f":{self.dimensions}"
        return f"openai:{self._model.model}{size}"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """One vector for each text, in order.

        Raises:
            ModelError: The call failed for good.
        """
        if not texts:
            return []
        body: dict[str, Any] = {"model": self._model.model, "input": [t or " " for t in texts]}
        if self.dimensions is not None:
            body["dimensions"] = self.dimensions
        answer = await self._sender().infer("embed", self._model, lambda: body)
        return _vectors(self._model, answer, len(texts))

    def _sender(self) -> Runtime:
        if self._runtime is not None:
            return self._runtime
        # Imported here because httpx costs time.
        from agentkit_py.runtime.direct import shared_runtime

        return shared_runtime()


class _Embeddings(Adapter):
    """The API's address and headers; requests and answers have no messages."""

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        raise ConfigurationError(f"{model.model!r} embeds texts, it answers no messages")

    def decode(self, model: Model, body: object) -> ModelReply:
        raise ConfigurationError(f"{model.model!r} embeds texts, it gives no reply")


def _vectors(model: Model, answer: object, count: int) -> list[list[float]]:
    items = [as_object(item) or {} for item in as_list((as_object(answer) or {}).get("data")) or ()]
    vectors = {item.get("index"): as_list(item.get("embedding")) for item in items}
    found = [vectors.get(index) for index in range(count)]
    if any(not vector for vector in found):
        raise unexpected(model, answer, f"the answer does not hold {count} embeddings")
    return [vector for vector in found if vector is not None]
