"""OpenAIEmbedder: what is sent, what comes back, and what goes wrong."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from agentkit_py.errors import (
    AuthenticationError,
    ConfigurationError,
    ModelResponseError,
    RateLimitError,
)
from agentkit_py.knowledge import OpenAIEmbedder
from agentkit_py.models import RetryPolicy
from agentkit_py.runtime.direct import DirectRuntime


class Server:
    """Answers embeddings requests."""

    def __init__(self, *answers: httpx.Response) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.transport = httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.answers:
            return self.answers.pop(0)
        texts = json.loads(request.content)["input"]
        data = [{"index": n, "embedding": [float(len(t)), 1.0]} for n, t in enumerate(texts)]
        return httpx.Response(200, json={"data": data[::-1]})


def embedder(server: Server, **options: Any) -> OpenAIEmbedder:
    """One with a key and without waiting."""

    async def at_once(_seconds: float) -> None:
        """Do not wait."""

    runtime = DirectRuntime(environment={}, sleep=at_once)
    given: dict[str, Any] = {"api_key": "sk-test", **options}
    return OpenAIEmbedder(transport=server.transport, runtime=runtime, **given)


async def test_texts_become_vectors_in_their_order() -> None:
    """The API may return vectors in another order."""
    server = Server()
    found = await embedder(server).embed(["a", "bbb", ""])
    assert [vector[0] for vector in found] == [1.0, 3.0, 1.0]
    (request,) = server.requests
    assert str(request.url) == "https://api.openai.com/v1/embeddings"
    assert request.headers["authorization"] == "Bearer sk-test"
    assert json.loads(request.content) == {
        "model": "text-embedding-3-small", "input": ["a", "bbb", " "],
    }  # fmt: skip


async def test_another_model_address_and_length() -> None:
    """The embedder's key names them."""
    server = Server()
    one = embedder(
        server, model="bge-m3", base_url="http://localhost:1/v1/", dimensions=8, api_key=None
    )
    assert one.key == "openai:bge-m3:8"
    await one.embed(["a"])
    assert str(server.requests[0].url) == "http://localhost:1/v1/embeddings"
    assert json.loads(server.requests[0].content)["dimensions"] == 8
    assert "authorization" not in server.requests[0].headers


async def test_nothing_is_sent_for_nothing() -> None:
    """An empty list."""
    server = Server()
    assert await embedder(server).embed([]) == []
    assert server.requests == []


async def test_a_rate_limit_is_tried_again() -> None:
    """The policy limits the number of attempts."""
    slow = [httpx.Response(429, json={"error": {"message": "slow down"}}) for _ in range(3)]
    server = Server(*slow[:2])
    assert await embedder(server).embed(["a"])
    assert len(server.requests) == 3
    with pytest.raises(RateLimitError, match="slow down"):
        await embedder(Server(*slow), retry=RetryPolicy(attempts=2)).embed(["a"])


async def test_errors_are_typed_and_hold_no_key() -> None:
    """The errors are those of models."""
    wrong = httpx.Response(401, json={"error": {"message": "Incorrect API key: sk-test"}})
    with pytest.raises(AuthenticationError) as caught:
        await embedder(Server(wrong)).embed(["a"])
    assert "sk-test" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        await embedder(Server(), api_key=None).embed(["a"])


@pytest.mark.parametrize("answer", [{}, {"data": []}, {"data": [{"index": 1}]}, [], {"data": "x"}])
async def test_an_answer_without_the_vectors_is_an_error(answer: Any) -> None:
    """It is said how many there should be."""
    with pytest.raises(ModelResponseError, match="does not hold 1 embeddings"):
        await embedder(Server(httpx.Response(200, json=answer))).embed(["a"])
