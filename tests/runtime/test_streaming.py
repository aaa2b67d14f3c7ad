"""Streaming by DirectRuntime: requests, deltas, retries, and errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Any

import httpx
import pytest

from agentkit_py import anthropic, gemini, openai
from agentkit_py.errors import (
    AuthenticationError,
    BadRequestError,
    ModelConnectionError,
    ModelHTTPError,
    ModelResponseError,
    ModelStreamError,
    ModelTimeoutError,
    ProviderUnavailableError,
    RateLimitError,
)
from agentkit_py.messages import Delta, ReasoningDelta, TextDelta, TextMessage, ToolCallDelta
from agentkit_py.models import (
    Adapter,
    Model,
    ModelReply,
    ModelRequest,
    RetryPolicy,
    ToolSpec,
    azure_openai,
    grok,
    openai_responses,
)
from agentkit_py.models.capabilities import OPENAI
from agentkit_py.models.chat import ChatAdapter
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing import FakeProvider, Raw, error, text
from agentkit_py.testing.provider import Reply

ALL = ("openai", "openai_responses", "azure_openai", "anthropic", "gemini", "grok")
PARAMETERS = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
REQUEST = ModelRequest(
    messages=(TextMessage("user", "Hi"),), tools=(ToolSpec("search", "Searches.", PARAMETERS),)
)
RICH: dict[str, Any] = {
    "text": "Grüße 👋 und 你好",
    "reasoning": "Erst nachdenken… 🤔",
    "tool_calls": [
        {"name": "search", "arguments": {"q": "Größe"}, "id": "c1"},
        {"name": "search", "arguments": {"q": "b"}, "id": "c2"},
    ],
    "usage": {"input_tokens": 30, "output_tokens": 20, "cached_tokens": 5},
}


def make(provider: str, fake: FakeProvider, **options: Any) -> Model:
    """A model of the provider at the fake."""
    root = fake.base_url(provider)
    given: dict[str, Any] = {"api_key": "sk-test", "retry": RetryPolicy(attempts=1), **options}
    match provider:
        case "azure_openai":
            return azure_openai("gpt-4o", endpoint=root, **given)
        case "anthropic":
            return anthropic("claude-sonnet-4-5", base_url=root, **given)
        case "gemini":
            return gemini("gemini-2.5-flash", base_url=root, **given)
        case "grok":
            return grok("grok-4", base_url=root, **given)
        case "openai_responses":
            return openai_responses("gpt-5", base_url=root, **given)
        case _:
            return openai("gpt-4o", base_url=root, **given)


class Sink:
    """Records the deltas."""

    def __init__(self) -> None:
        self.deltas: list[Delta] = []

    async def __call__(self, delta: Delta, /) -> None:
        self.deltas.append(delta)

    async def skip(self, delta: Delta, count: int, /) -> None:
        """Never called here."""

    def noting(self) -> AbstractAsyncContextManager[None]:
        """Never entered here."""
        return nullcontext()

    @property
    def text(self) -> str:
        return "".join(d.delta for d in self.deltas if isinstance(d, TextDelta))


class Waits:
    """Sleeps without sleeping."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def fake() -> Iterator[FakeProvider]:
    """A provider over real HTTP."""
    with FakeProvider() as provider:
        yield provider


async def infer(
    model: Model, sink: Sink | None, *, sleep: Any = None, transport: Any = None
) -> ModelReply:
    """One inference, streamed if there is a sink."""
    runtime = DirectRuntime(transport=transport, sleep=sleep or Waits())
    try:
        body = await runtime.infer("step", model, lambda: model.encode(REQUEST), sink)
        return model.decode(body)
    finally:
        await runtime.aclose()


@pytest.mark.parametrize("provider", ALL)
async def test_a_streamed_reply_is_the_plain_one(provider: str) -> None:
    """Messages, usage and finish reason; deltas of text, reasoning and arguments before it."""
    sink = Sink()
    replies: list[ModelReply] = []
    for wanted in (None, sink):
        fake = FakeProvider([RICH])  # as a transport: a reply says which host and port made it
        replies.append(await infer(make(provider, fake), wanted, transport=fake.transport))
        assert fake.rejections == []
    assert replies[0] == replies[1]
    assert sink.text == RICH["text"]
    written = "".join(d.delta for d in sink.deltas if isinstance(d, ToolCallDelta))
    assert written.count("Größe") + written.count("Gr\\u00f6\\u00dfe") == 1
    thought = "".join(d.delta for d in sink.deltas if isinstance(d, ReasoningDelta))
    hidden = provider in ("openai", "azure_openai")  # chat completions keep it to themselves
    assert thought == ("" if hidden else RICH["reasoning"])


@pytest.mark.parametrize("provider", ALL)
async def test_the_request_asks_for_a_stream(provider: str, fake: FakeProvider) -> None:
    """A field or the URL asks for it; OpenAI's format also asks for the usage."""
    fake.reply("one", "two")
    model = make(provider, fake)
    await infer(model, None)
    await infer(model, Sink())
    plain, streamed = fake.requests
    added = {k: v for k, v in streamed.body.items() if k not in plain.body}
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    only = {"gemini": {}, "anthropic": {"stream": True}, "openai_responses": {"stream": True}}
    assert added == only.get(provider, usage)
    assert streamed.headers["accept"] == "text/event-stream"
    if provider == "gemini":
        assert streamed.path.endswith(":streamGenerateContent")
        assert streamed.query == {"alt": "sse"}


@pytest.mark.parametrize("provider", ["openai", "azure_openai"])
async def test_servers_that_do_not_know_stream_options_are_not_sent_any(
    provider: str, fake: FakeProvider
) -> None:
    """``stream_usage=False``; the reply then has no usage."""
    fake.reply("Hi")
    reply = await infer(make(provider, fake, stream_usage=False), Sink())
    assert "stream_options" not in fake.requests[0].body
    assert reply.usage is None


@pytest.mark.parametrize("provider", ALL)
async def test_errors_before_the_stream_are_those_without_streaming(
    provider: str, fake: FakeProvider
) -> None:
    """Status, detail, waiting time and whether it is worth another try."""
    for status, kind in (
        (400, BadRequestError),
        (401, AuthenticationError),
        (429, RateLimitError),
        (503, ProviderUnavailableError),
    ):
        found: list[ModelHTTPError] = []
        for sink in (None, Sink()):
            fake.reply(error(status, "No luck", headers={"retry-after": "7"}))
            with pytest.raises(kind) as caught:
                await infer(make(provider, fake), sink)
            found.append(caught.value)
        assert str(found[0]) == str(found[1])
        assert found[0].retry_after == found[1].retry_after == 7


def overloaded(provider: str) -> Raw:
    """A stream whose first event is an error."""
    kinds: dict[str, dict[str, Any]] = {
        "anthropic": {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}},
        "gemini": {"error": {"code": 503, "status": "UNAVAILABLE", "message": "Busy"}},
        "openai_responses": {"type": "error", "code": "server_error", "message": "Busy"},
    }
    return Raw(sse=[kinds.get(provider, {"error": {"type": "server_error", "message": "Busy"}})])


@pytest.mark.parametrize("provider", ALL)
@pytest.mark.parametrize("failure", ["status", "event", "cut", "disconnect"])
async def test_a_failure_before_the_first_piece_is_tried_again(
    provider: str, failure: str, fake: FakeProvider
) -> None:
    """No delta was sent, so another answer contradicts nothing."""
    failures: dict[str, Reply] = {
        "status": error(503, "Busy"),
        "event": overloaded(provider),
        "cut": Raw(reply="Never seen", cut_after=10),
        "disconnect": Raw(disconnect=True),
    }
    fake.reply(failures[failure], "Hello there")
    sink, waits = Sink(), Waits()
    model = make(provider, fake, retry=RetryPolicy(attempts=3))
    reply = await infer(model, sink, sleep=waits)
    assert sink.text == "Hello there"
    assert [m.text for m in reply.messages if isinstance(m, TextMessage)] == ["Hello there"]
    assert (len(fake.requests), len(waits.seconds)) == (2, 1)


# The point in each format's stream after "Hello" and before the rest.
def half(fake: FakeProvider, provider: str) -> int:
    """Return the length of the part of "Hello there"'s stream that holds only its first piece."""
    with FakeProvider(["Hello there"]) as other, httpx.Client() as client:
        model = make(provider, other)
        adapter: Any = model.adapter
        body = adapter.stream_body(model.encode(REQUEST))
        headers = adapter.headers(model, "sk-test")
        content = client.post(adapter.stream_url(model), json=body, headers=headers).content
    return content.index(b" ther")


@pytest.mark.parametrize("provider", ALL)
async def test_a_break_after_the_first_piece_is_not_tried_again(
    provider: str, fake: FakeProvider
) -> None:
    """A typed error with what had arrived, and the reason as its cause."""
    fake.reply(Raw(reply="Hello there", cut_after=half(fake, provider)), "Another answer")
    sink = Sink()
    with pytest.raises(ModelStreamError, match="broke off") as caught:
        await infer(make(provider, fake, retry=RetryPolicy(attempts=3)), sink)
    assert caught.value.partial == sink.text == "Hello"
    assert caught.value.messages == (TextMessage("assistant", "Hello"),)
    assert not caught.value.retriable
    assert isinstance(caught.value.__cause__, httpx.RemoteProtocolError)
    assert len(fake.requests) == 1


async def test_an_error_event_after_the_first_piece_is_the_cause(fake: FakeProvider) -> None:
    """The provider's text is part of the error's message."""
    start = {"choices": [{"index": 0, "delta": {"content": "Hel"}}]}
    busy = {"error": {"type": "rate_limit_exceeded", "message": "Slow down"}}
    fake.reply(Raw(sse=[start, busy]))
    with pytest.raises(ModelStreamError, match="Slow down") as caught:
        await infer(make("openai", fake, retry=RetryPolicy(attempts=3)), Sink())
    assert caught.value.partial == "Hel"
    assert isinstance(caught.value.__cause__, RateLimitError)
    assert len(fake.requests) == 1


@pytest.mark.parametrize("over_http", [True, False])
async def test_the_time_out_holds_between_two_pieces(over_http: bool) -> None:
    """A stream may take long as a whole, but no pause in it may."""
    with FakeProvider([Raw(reply="Hello there", pause=5)]) as fake:
        model = make("openai", fake, timeout=0.05)
        if not over_http:
            model = replace(model, transport=fake.transport)
        with pytest.raises(ModelTimeoutError):
            await infer(model, Sink())


async def test_a_time_out_after_the_first_piece_keeps_the_received_text(fake: FakeProvider) -> None:
    """It is a stream that broke off, because of a time-out."""
    start = {"choices": [{"index": 0, "delta": {"content": "Hel"}}]}
    fake.reply(Raw(sse=[start, ": keep-alive"], pause=5))
    model = replace(make("openai", fake, timeout=0.5), transport=fake.transport)
    with pytest.raises(ModelStreamError, match="no answer within") as caught:
        await infer(model, Sink())
    assert caught.value.partial == "Hel"
    assert isinstance(caught.value.__cause__, ModelTimeoutError)


async def test_a_server_that_answers_in_one_piece_is_understood_too(
    fake: FakeProvider,
) -> None:
    """The reply is whole, and there are no deltas."""
    plain = {"choices": [{"message": {"role": "assistant", "content": "Hi"}}]}
    fake.reply(Raw(json=plain), Raw(json={"error": {"message": "No luck"}}))
    sink = Sink()
    assert (await infer(make("openai", fake), sink)).messages[0].type == "text"
    assert sink.deltas == []
    with pytest.raises(ModelResponseError, match="No luck"):
        await infer(make("openai", fake), sink)


async def test_the_connection_is_used_again_after_a_stream(fake: FakeProvider) -> None:
    """It is read to its end, also where the format has a marker before."""
    fake.reply("one", "two")
    model = make("openai", fake)
    runtime = DirectRuntime()
    for _ in range(2):
        await runtime.infer("step", model, lambda: model.encode(REQUEST), Sink())
    clients: Any = vars(runtime)["_clients"]
    pool = next(iter(next(iter(clients.values())).values()))._transport._pool
    assert len(pool.connections) == 1
    await runtime.aclose()


async def test_a_server_that_does_not_close_after_the_end_is_not_waited_for() -> None:
    """The end marker is the end."""
    chunk = b'data: {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}\n\n'
    fake = FakeProvider([Raw(chunks=[chunk + b"data: [DONE]\n\n", b": late\n\n"], pause=60)])
    model = replace(make("openai", fake), transport=fake.transport)
    reply = await infer(model, Sink())
    assert [m.text for m in reply.messages if isinstance(m, TextMessage)] == ["Hi"]


async def test_a_missing_server_is_a_connection_error() -> None:
    """The error is the one without streaming."""
    model = openai("gpt-4o", base_url="http://127.0.0.1:9/v1", retry=RetryPolicy(attempts=1))
    with pytest.raises(ModelConnectionError):
        await infer(model, Sink())


async def test_a_stream_that_cannot_be_unpacked_is_a_stream_that_broke_off(
    fake: FakeProvider,
) -> None:
    """A proxy's mistake, say."""
    headers = {"content-encoding": "gzip"}
    fake.reply(Raw(chunks=[b"no gzip at all"], headers=headers))
    with pytest.raises(ModelStreamError) as caught:
        await infer(make("openai", fake), Sink())
    assert isinstance(caught.value.__cause__, httpx.DecodingError)


async def test_the_key_that_was_sent_is_in_no_error(fake: FakeProvider) -> None:
    """This includes a key from the environment that a stream repeats."""
    fake.reply(Raw(sse=[{"error": {"message": "Bad key topsecret"}}]))
    model = replace(make("openai", fake), api_key=None)
    runtime = DirectRuntime(environment={"OPENAI_API_KEY": "topsecret"})
    with pytest.raises(ModelResponseError) as caught:
        await runtime.infer("step", model, lambda: model.encode(REQUEST), Sink())
    assert "topsecret" not in str(caught.value) + caught.value.excerpt
    await runtime.aclose()


CHAT = ChatAdapter(OPENAI)


class PlainAdapter(Adapter):
    """An adapter of somebody's own that knows nothing of streams."""

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        return CHAT.encode(model, request)

    def decode(self, model: Model, body: object) -> ModelReply:
        return CHAT.decode(model, body)


async def test_an_adapter_without_streams_is_asked_without(fake: FakeProvider) -> None:
    """Streaming is optional for adapters."""
    fake.reply(text("Hi"))
    model = make("openai", fake)
    model = replace(model, adapter=PlainAdapter(OPENAI, CHAT.path))
    sink = Sink()
    assert (await infer(model, sink)).messages
    assert sink.deltas == []
    assert "stream" not in fake.requests[0].body
