"""The fake provider streams as the real ones do, and breaks off where a test wants it to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import httpx_sse
import pytest

from agentkit_py import Agent, openai
from agentkit_py.messages import TextMessage
from agentkit_py.models import Model, ModelRequest, ToolSpec
from agentkit_py.testing import (
    FakeProvider,
    PacedTransport,
    Raw,
    ScriptedModel,
    error,
    text,
    tool_call,
)
from agentkit_py.testing.fakes import Provider
from agentkit_py.testing.provider import Reply

ALL: tuple[Provider, ...] = (
    "openai",
    "openai_responses",
    "azure_openai",
    "anthropic",
    "gemini",
    "grok",
)
EVERY = pytest.mark.parametrize("provider", ALL)
PIECES = ('"Hello"', '" ther"', '"e, yo"', '"u"')
PING = ToolSpec("ping", "", {"type": "object", "properties": {}, "additionalProperties": False})


def request_of(provider: Provider, **changes: Any) -> httpx.Request:
    """A request for a stream, as this provider's adapter makes it."""
    model: Model = ScriptedModel(provider=provider)
    adapter: Any = model.adapter
    request = ModelRequest(messages=(TextMessage("user", "Hi"),), tools=(PING,))
    body = {**adapter.stream_body(model.encode(request)), **changes}
    headers = {**adapter.headers(model, "sk-test"), "accept": "text/event-stream"}
    return httpx.Request("POST", adapter.stream_url(model), json=body, headers=headers)


def send(fake: FakeProvider, request: httpx.Request) -> httpx.Response:
    """The whole answer, in process."""
    with httpx.Client(transport=fake.transport) as client:
        return client.send(request)


def events(reply: Reply, provider: Provider, **changes: Any) -> list[tuple[str, Any]]:
    """The events with which the provider streams this reply."""
    response = send(FakeProvider([reply]), request_of(provider, **changes))
    found = list(httpx_sse.EventSource(response).iter_sse())
    return [(e.event, e.data if e.data == "[DONE]" else json.loads(e.data)) for e in found]


@EVERY
def test_a_reply_is_cut_into_small_pieces_always_the_same(provider: Provider) -> None:
    """Tests rely on the same pieces each time."""
    first = send(FakeProvider(["Hello there, you"]), request_of(provider))
    again = send(FakeProvider(["Hello there, you"]), request_of(provider))
    assert first.headers["content-type"] == "text/event-stream"
    assert first.content == again.content
    positions = [first.text.index(piece) for piece in PIECES]
    assert positions == sorted(positions)


def test_openai_sends_usage_if_it_is_asked_for() -> None:
    """The usage is in a chunk of its own without choices, and null in the others."""
    asked = events("Hi", "openai")
    assert asked[-1] == ("message", "[DONE]")
    assert asked[-2][1]["choices"] == []
    assert asked[-2][1]["usage"]["completion_tokens"] == 1
    assert {chunk["usage"] for _, chunk in asked[:-2]} == {None}
    silent = events("Hi", "openai", stream_options=None)
    assert all("usage" not in chunk for _, chunk in silent[:-1])


def test_azure_begins_with_a_chunk_about_its_filters() -> None:
    """It has no choices."""
    assert events("Hi", "azure_openai")[0][1]["prompt_filter_results"]


def test_anthropics_events_have_names() -> None:
    """A message with blocks; the ping is one of the documented events."""
    names = [name for name, _ in events(tool_call("ping"), "anthropic")]
    assert names == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_the_responses_api_numbers_its_events_and_ends_with_all() -> None:
    """The last one holds the whole response."""
    found = events({"text": "Hi", "reasoning": "Hm."}, "openai_responses")
    assert [data["sequence_number"] for _, data in found] == list(range(len(found)))
    assert all(name == data["type"] for name, data in found)
    assert found[-1][0] == "response.completed"
    assert [item["type"] for item in found[-1][1]["response"]["output"]] == ["reasoning", "message"]
    cut = events({"text": "Hi", "finish": "length"}, "openai_responses")
    assert cut[-1][0] == "response.incomplete"


def test_gemini_without_alt_sse_answers_with_a_list() -> None:
    """The real API does so, too; the pieces are the same."""
    request = request_of("gemini")
    url = request.url.copy_with(query=None)
    plain = httpx.Request("POST", url, headers=request.headers, content=request.content)
    response = send(FakeProvider(["Hello there"]), plain)
    assert response.headers["content-type"] == "application/json"
    assert [c for _, c in events("Hello there", "gemini")] == response.json()


@EVERY
def test_a_request_that_is_wrong_without_a_stream_is_wrong_with_a_stream(
    provider: Provider,
) -> None:
    """The rules and the JSON of errors are the same."""
    fake = FakeProvider(["never"])
    field = {"gemini": "contents", "openai_responses": "input"}.get(provider, "messages")
    response = send(fake, request_of(provider, **{field: []}))
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/json"
    assert len(fake.rejections) == 1


@EVERY
def test_errors_and_exact_json_are_no_streams(provider: Provider) -> None:
    """A status comes before any stream, and `Raw(json=…)` is sent as it is."""
    fake = FakeProvider([error(503, "Busy"), Raw(json={"a": 1})])
    assert send(fake, request_of(provider)).status_code == 503
    assert send(fake, request_of(provider)).json() == {"a": 1}


def test_events_can_be_given_exactly() -> None:
    """JSON, text, named events and bytes are sent without additions."""
    raw = Raw(sse=[{"a": "ü"}, "two\nlines", ("ping", {"b": 1}), b": comment\r\n\r\n"])
    response = send(FakeProvider([raw]), request_of("openai"))
    assert response.headers["content-type"] == "text/event-stream"
    assert response.content.decode() == (
        'data: {"a": "ü"}\n\ndata: two\ndata: lines\n\nevent: ping\ndata: {"b": 1}\n\n'
        ": comment\r\n\r\n"
    )


def over_http(fake: FakeProvider, request: httpx.Request) -> Iterator[bytes]:
    """The pieces of the answer, over loopback."""
    url = httpx.URL(fake.url).copy_with(raw_path=request.url.raw_path)
    with (
        httpx.Client() as client,
        client.stream("POST", url, headers=request.headers, content=request.content) as response,
    ):
        yield from response.iter_raw()


def test_pieces_of_the_network_can_be_given_exactly() -> None:
    """A cut may be within a character; over HTTP each piece is a chunk of its own."""
    chunks = [b"data: {}\n", "ü".encode()[:1], "ü".encode()[1:], b"\n\n"]
    fake = FakeProvider([Raw(chunks=chunks, pause=0.01), Raw(chunks=chunks)])
    with fake:
        assert b"".join(over_http(fake, request_of("openai"))) == b"".join(chunks)
    with httpx.Client(transport=fake.transport) as client:
        request = request_of("openai")
        with client.stream(
            "POST", request.url, headers=request.headers, content=request.content
        ) as response:
            assert list(response.iter_raw()) == chunks


@pytest.mark.parametrize("count", [0, 1, 40, 10_000])
def test_a_stream_can_be_cut_after_so_many_bytes(count: int) -> None:
    """The client gets these, then learns that the connection is gone, in process and over HTTP."""
    whole = send(FakeProvider(["Hello there"]), request_of("openai")).content
    fake = FakeProvider([Raw(reply="Hello there", cut_after=count)] * 2)
    got: list[bytes] = []
    with fake, pytest.raises(httpx.RemoteProtocolError):
        got.extend(over_http(fake, request_of("openai")))
    assert b"".join(got) == whole[:count]
    with pytest.raises(httpx.RemoteProtocolError):
        send(fake, request_of("openai"))


def test_a_pause_between_two_pieces_can_be_longer_than_the_time_out() -> None:
    """This works in process and over HTTP, and for sync clients too."""
    fake = FakeProvider([Raw(reply="Hello there", pause=30)])
    with (
        httpx.Client(transport=fake.transport, timeout=0.01) as client,
        pytest.raises(httpx.ReadTimeout),
    ):
        client.send(request_of("openai"))


async def test_a_pause_is_kept_where_the_time_out_allows_it() -> None:
    """Async clients wait without blocking."""
    fake = FakeProvider([Raw(reply="Hi", pause=0.001)])
    async with httpx.AsyncClient(transport=fake.transport) as client:
        assert "Hi" in (await client.send(request_of("openai"))).text


async def read_paced(pause: float) -> str:
    """Return the text of a streamed reply with such pauses."""
    transport = PacedTransport(FakeProvider([text("One two three.")]).transport, pause)
    model = replace(openai("offline", api_key="sk-offline"), transport=transport)
    async with Agent(name="a", system="S", model=model).stream("Hi") as stream:
        async for _ in stream:
            pass
        return stream.result.text


async def test_a_paced_reply_says_the_same() -> None:
    """Pauses change nothing of what is read in the end."""
    assert await read_paced(0) == "One two three."


async def test_a_reply_with_long_pauses_is_not_there_yet() -> None:
    """An hour before each piece: a moment later nobody has it."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(read_paced(3600), 0.1)
