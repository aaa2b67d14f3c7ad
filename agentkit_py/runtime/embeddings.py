"""Embeddings from OpenAI, or from who speaks its format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agentkit_py._core.json import as_list, as_object
from agentkit_py.errors import ConfigurationError, ModelResponseError
from agentkit_py.models import openai
from agentkit_py.models.base import Adapter, Model, ModelReply, ModelRequest, RetryPolicy
from agentkit_py.models.capabilities import OPENAI
from agentkit_py.models.http_errors import excerpt_of, hide_keys

if TYPE_CHECKING:
    import httpx

    from agentkit_py.runtime.port import Runtime


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
        runtime: What sends the requests; None: the one that direct runs share.
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
        """Keep how it is asked; nothing is sent yet."""
        made = openai(
            model,
            api_key=api_key,
            base_url=base_url,
            headers=headers,
            timeout=timeout,
            retry=retry or RetryPolicy(),
        )
        self._model = Model(
            model=made.model,
            adapter=_Embeddings(OPENAI, "/embeddings"),
            base_url=made.base_url,
            api_key=made.api_key,
            headers=made.headers,
            key_required=made.key_required,
            timeout=made.timeout,
            retry=made.retry,
            transport=transport,
        )
        self.dimensions = dimensions
        self._runtime = runtime

    @property
    def key(self) -> str:
        """The model, and the length of its vectors where it is not the usual one."""
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
        raise ModelResponseError(
            f"the answer does not hold {count} embeddings",
            provider=model.provider,
            model=model.model,
            excerpt=hide_keys(excerpt_of(answer), model, None),
        )
    return [vector for vector in found if vector is not None]
