"""Streams of every provider: their deltas, and a whole that equals the plain answer.

The bodies in ``streams/`` are written after the providers' documentation: text, parallel calls,
reasoning, usage, keep-alives, characters of several bytes. Each has a file with the same answer as
it is without streaming.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py.errors import (
    AuthenticationError,
    BadRequestError,
    ContextOverflowError,
    ModelError,
    ModelResponseError,
    ModelStreamError,
    ProviderUnavailableError,
    RateLimitError,
)
from agentkit_py.messages import (
    Delta,
    Message,
    ReasoningDelta,
    ReasoningMessage,
    TextDelta,
    TextMessage,
    ToolCallDelta,
    ToolCallMessage,
    Usage,
)
from agentkit_py.models import (
    Assembler,
    Model,
    ModelRequest,
    anthropic,
    azure_openai,
    compatible,
    gemini,
    grok,
    openai,
    openai_responses,
)
from agentkit_py.runtime.model_requests import StreamedPieces, read_stream

STREAMS = Path(__file__).parent / "streams"
MODELS: dict[str, Model] = {
    "openai": openai("gpt-4.1"),
    "openai_refusal": openai("gpt-4.1"),
    "openai_responses": openai_responses("gpt-5"),
    "azure_openai": azure_openai("gpt-4o", endpoint="https://r.openai.azure.com"),
    "anthropic": anthropic("claude-sonnet-4-5"),
    "gemini": gemini("gemini-3-pro-preview"),
    "gemini_malformed": gemini("gemini-3-pro-preview"),
    "grok": grok("grok-4"),
}
WITH_CALLS = [name for name in MODELS if "_" not in name or name.endswith(("openai", "responses"))]
EVERY = pytest.mark.parametrize("name", MODELS)


def body_of(name: str) -> bytes:
    """The stream's bytes."""
    return (STREAMS / f"{name}.sse").read_bytes()


def plain_of(name: str) -> Any:
    """Return the answer of this name without streaming."""
    return json.loads((STREAMS / f"{name}.json").read_text(encoding="utf-8"))


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


class Chunks(httpx.AsyncByteStream):
    """A body that comes in these pieces, and then ends or breaks."""

    def __init__(self, chunks: Sequence[bytes], *, breaks: bool = False) -> None:
        self._chunks = chunks
        self._breaks = breaks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk
        if self._breaks:
            raise httpx.RemoteProtocolError("peer closed connection")


def assembler_of(model: Model) -> Assembler:
    """A new assembler of the model's format."""
    assembler = model.adapter.assembler(model)
    assert assembler is not None
    return assembler


async def read(
    model: Model, chunks: Sequence[bytes], *, breaks: bool = False, sink: Sink | None = None
) -> object:
    """Return the whole reply that comes in these chunks."""
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    response = httpx.Response(200, headers=headers, stream=Chunks(chunks, breaks=breaks))
    return await read_stream(model, response, assembler_of(model), StreamedPieces(sink or Sink()))


def told_text(deltas: Sequence[Delta], kind: type[Delta]) -> dict[int, str]:
    """The pieces of one kind put together, by part."""
    found: dict[int, str] = {}
    for delta in deltas:
        if isinstance(delta, kind):
            found[delta.index] = found.get(delta.index, "") + delta.delta
    return found


def said(messages: Sequence[Message]) -> tuple[list[str], list[str], list[tuple[str, str, Any]]]:
    """Texts, reasonings and calls of a reply."""
    texts = [m.text for m in messages if isinstance(m, TextMessage) and m.text]
    thoughts = [m.content for m in messages if isinstance(m, ReasoningMessage) and m.content]
    calls = [
        (call.id, call.name, call.arguments)
        for m in messages
        if isinstance(m, ToolCallMessage)
        for call in m.tools
    ]
    return texts, thoughts, calls


# ------------------------------------------------------------------------------------- the whole


@EVERY
async def test_the_whole_equals_the_answer_without_streaming(name: str) -> None:
    """Usage, signatures, finish reasons, ids and all: the engine decodes it on the same path."""
    assert await read(MODELS[name], [body_of(name)]) == plain_of(name)


@pytest.mark.parametrize("name", WITH_CALLS)
async def test_streamed_pieces_add_up_to_the_reply(name: str) -> None:
    """Each part's pieces, joined, are its text, its reasoning or its arguments."""
    model, sink = MODELS[name], Sink()
    reply = model.decode(await read(model, [body_of(name)], sink=sink))
    texts, thoughts, calls = said(reply.messages)
    assert list(told_text(sink.deltas, TextDelta).values()) == texts
    assert list(told_text(sink.deltas, ReasoningDelta).values()) == thoughts
    heads = {d.index: (d.id, d.name) for d in sink.deltas if isinstance(d, ToolCallDelta)}
    written = told_text(sink.deltas, ToolCallDelta)
    assert [(*heads[i], json.loads(text or "{}")) for i, text in written.items()] == calls
    assert len(calls) == 2
    assert reply.usage is not None
    assert reply.usage.output_tokens


@EVERY
async def test_parts_are_numbered_from_zero_in_the_order_of_their_beginning(name: str) -> None:
    """A front end may take the number for the part's place."""
    sink = Sink()
    await read(MODELS[name], [body_of(name)], sink=sink)
    assert list(dict.fromkeys(d.index for d in sink.deltas)) == list(
        range(len({d.index for d in sink.deltas}))
    )


async def test_each_piece_of_a_call_says_whose_it_is() -> None:
    """Parallel calls of one tool differ by their ids."""
    sink = Sink()
    await read(MODELS["openai"], [body_of("openai")], sink=sink)
    pieces = [d for d in sink.deltas if isinstance(d, ToolCallDelta)]
    assert [(d.id, d.name) for d in pieces] == [("call_a", "search")] * 3 + [
        ("call_b", "refund")
    ] * 2


async def test_a_malformed_call_of_geminis_is_one_that_the_model_can_mend() -> None:
    """It comes after the text before it, as without streaming."""
    model = MODELS["gemini_malformed"]
    reply = model.decode(await read(model, [body_of("gemini_malformed")]))
    call = reply.messages[-1]
    assert isinstance(call, ToolCallMessage)
    assert call.tools[0].malformed is not None
    assert [message.type for message in reply.messages] == ["text", "tool_call"]
    assert reply.finish is not None
    assert reply.finish.word == "MALFORMED_FUNCTION_CALL"


# ------------------------------------------------------------------------------------ cut streams


class Recorder:
    """An assembler that only writes down the events."""

    def __init__(self) -> None:
        self.events: list[tuple[str | None, str]] = []
        self.ended = False
        self.whole = True

    def feed(self, event: str | None, data: str) -> Sequence[Delta]:
        """Write it down."""
        self.events.append((event, data))
        return ()

    def finish(self) -> object:
        """The events."""
        return self.events


async def events_of(chunks: Sequence[bytes]) -> object:
    """The server-sent events that come in these chunks."""
    headers = {"content-type": "text/event-stream"}
    response = httpx.Response(200, headers=headers, stream=Chunks(chunks))
    return await read_stream(MODELS["openai"], response, Recorder(), StreamedPieces(Sink()))


@EVERY
async def test_no_cut_between_two_chunks_changes_an_event(name: str) -> None:
    """Cuts fall in the middle of characters, of line ends and of field names."""
    body = body_of(name)
    whole = await events_of([body])
    for cut in range(len(body) + 1):
        assert await events_of([body[:cut], body[cut:]]) == whole, cut


@EVERY
async def test_byte_by_byte_is_the_same_as_at_once(name: str) -> None:
    """The whole and the joined deltas do not depend on the cuts."""
    body, sinks = body_of(name), (Sink(), Sink())
    one = await read(MODELS[name], [body], sink=sinks[0])
    many = await read(MODELS[name], [body[i : i + 1] for i in range(len(body))], sink=sinks[1])
    assert one == many == plain_of(name)
    assert sinks[0].deltas == sinks[1].deltas


@EVERY
@given(data=st.data())
async def test_any_chunks_give_the_same_reply(name: str, data: st.DataObject) -> None:
    """The number of chunks, their boundaries and empty chunks must not matter."""
    body = body_of(name)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    bounds = [0, *cuts, len(body)]
    chunks = [body[a:b] for a, b in itertools.pairwise(bounds)]
    assert await read(MODELS[name], chunks) == plain_of(name)


async def outcome(
    model: Model, body: bytes, sink: Sink, *, breaks: bool
) -> tuple[object, ModelStreamError | None]:
    """The whole, or the error."""
    try:
        return await read(model, [body], breaks=breaks, sink=sink), None
    except ModelStreamError as error:
        return None, error


@EVERY
@pytest.mark.parametrize("breaks", [False, True], ids=["ends", "breaks"])
async def test_a_stream_that_is_cut_anywhere_fails_or_was_whole(name: str, breaks: bool) -> None:
    """Never half a reply: at every byte it is a typed error, or past the end all that was said.

    Usage may come after the end of chat completions, and be lost.
    """
    body, plain, model = body_of(name), plain_of(name), MODELS[name]
    expected = model.decode(plain)
    outcomes: list[bool] = []
    whole: object = None
    for cut in range(len(body) + 1):
        sink = Sink()
        whole, error = await outcome(model, body[:cut], sink, breaks=breaks)
        outcomes.append(error is None)
        if error is None:
            reply = model.decode(whole)
            assert (reply.messages, reply.finish) == (expected.messages, expected.finish), cut
            assert reply.usage in (None, expected.usage)
        else:
            assert error.partial == "".join(told_text(sink.deltas, TextDelta).values())
            assert error.retriable is (not sink.deltas)
    # Once it is whole it stays so; and not before the end, or the cut would say nothing.
    assert outcomes == sorted(outcomes)
    assert whole == plain
    assert outcomes.count(True) < len(body) / 2


async def test_the_received_part_can_be_shown() -> None:
    """Texts, reasoning and calls; arguments that were cut are malformed."""
    body = body_of("anthropic")
    cut = body.index('ße 👟\\"}'.encode())
    with pytest.raises(ModelStreamError) as caught:
        await read(MODELS["anthropic"], [body[:cut]])
    thought, text, call = caught.value.messages
    assert thought == ReasoningMessage("Erst nachdenken… 🤔")
    assert text == TextMessage("assistant", "Schön, 你好 👋")
    assert caught.value.partial == "Schön, 你好 👋"
    assert isinstance(call, ToolCallMessage)
    assert (call.tools[0].name, call.tools[0].malformed) == ("search", '{"q":"Grö')


async def test_an_empty_stream_is_a_stream_that_was_cut() -> None:
    """A status of success without a single event."""
    with pytest.raises(ModelStreamError, match="ended before") as caught:
        await read(MODELS["openai"], [])
    assert caught.value.retriable


# ------------------------------------------------------------------------------- errors in streams


def sse(*events: object) -> bytes:
    """Return the events as bytes of the network."""
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return "".join(f"data: {text}\n\n" for text in texts).encode()


def failure(kind: str, **more: Any) -> dict[str, Any]:
    """An error as most providers word it."""
    return {"error": {"type": kind, "message": "No luck", **more}}


ERRORS: list[tuple[str, dict[str, Any], type[ModelError]]] = [
    ("openai", failure("server_error"), ProviderUnavailableError),
    ("openai", failure("tokens", code="rate_limit_exceeded"), RateLimitError),
    ("openai", failure("x", code="context_length_exceeded"), ContextOverflowError),
    ("openai", failure("invalid_request_error"), BadRequestError),
    ("openai", failure("x", code="503"), ProviderUnavailableError),
    ("openai", failure("something_else"), ModelResponseError),
    ("grok", {"code": "Internal error", "error": "No luck"}, ModelResponseError),
    ("anthropic", {"type": "error", **failure("overloaded_error")}, ProviderUnavailableError),
    ("anthropic", {"type": "error", **failure("rate_limit_error")}, RateLimitError),
    ("anthropic", {"type": "error", **failure("authentication_error")}, AuthenticationError),
    ("gemini", failure("x", code=429, status="RESOURCE_EXHAUSTED"), RateLimitError),
    ("gemini", failure("x", code=503, status="UNAVAILABLE"), ProviderUnavailableError),
    (
        "openai_responses",
        {"type": "error", "code": "rate_limit_exceeded", "message": "No luck", "param": None},
        RateLimitError,
    ),
    ("openai_responses", {"type": "error", **failure("server_error")}, ProviderUnavailableError),
    (
        "openai_responses",
        {"type": "response.failed", "response": failure("x", code="server_error")},
        ProviderUnavailableError,
    ),
]


@pytest.mark.parametrize(("name", "event", "kind"), ERRORS)
async def test_an_error_in_a_stream_has_the_type_that_it_has_without(
    name: str, event: dict[str, Any], kind: type[ModelError]
) -> None:
    """A retry then depends on the same reasons."""
    with pytest.raises(kind, match="No luck") as caught:
        await read(MODELS[name], [sse(event)])
    assert type(caught.value) is kind


@pytest.mark.parametrize("data", ["{", "[1]", "hello", '{"a": NaN}'])
@EVERY
async def test_an_event_that_is_no_json_object_is_an_error(name: str, data: str) -> None:
    """The error has the beginning of the data."""
    with pytest.raises(ModelResponseError, match="no JSON") as caught:
        await read(MODELS[name], [sse(data)])
    assert data[:1] in caught.value.excerpt


# ---------------------------------------------------------------------------- odd and lenient ways


def chat(*deltas: dict[str, Any], finish: str | None = "stop") -> list[dict[str, Any]]:
    """Chunks of one choice."""
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    return [*chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}]


async def reply_to(name: str, *events: object) -> tuple[tuple[Message, ...], list[Delta]]:
    """Return the messages of these events, and the deltas."""
    sink = Sink()
    whole = await read(MODELS[name], [sse(*events)], sink=sink)
    return MODELS[name].decode(whole).messages, sink.deltas


def piece(arguments: str, **more: Any) -> dict[str, Any]:
    """A piece of a tool call in OpenAI's format."""
    name = {"name": more.pop("name")} if "name" in more else {}
    return {"tool_calls": [{**more, "function": {**name, "arguments": arguments}}]}


@pytest.mark.parametrize(
    "deltas",
    [
        [piece("{}", index=0, id="a", name="f"), piece("[1]", index=0, id="b", name="g")],
        [piece("{}", id="a", name="f"), piece("[1", id="b", name="g"), piece("]")],
        [
            piece("[1", index=1, id="b", name="g"),
            piece("{}", index=0, id="a", name="f"),
            piece("]", index=1, id="b", name="g"),
        ],
        [
            piece("", index=0, id="a"),
            piece("{}", index=0, name="f"),
            piece("[1]", index=1, id="b", name="g"),
        ],
    ],
    ids=["one index for all", "no index", "mixed up, names repeated", "the name comes late"],
)
async def test_servers_number_calls_in_their_own_ways(deltas: list[dict[str, Any]]) -> None:
    """Index left out, the same for all, names and ids in each piece."""
    messages, deltas_sent = await reply_to("openai", *chat(*deltas), "[DONE]")
    assert said(messages)[2] == [("a", "f", {}), ("b", "g", [1])]
    assert {d.name for d in deltas_sent if isinstance(d, ToolCallDelta)} == {"f", "g"}


async def test_without_end_marker_a_finish_reason_is_enough() -> None:
    """Some servers close the connection after their last chunk, or send no usage."""
    usage: dict[str, Any] = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    whole = await read(MODELS["openai"], [sse(*chat({"content": "Hi"}), usage)])
    assert MODELS["openai"].decode(whole).usage == Usage(3, 2)
    whole = await read(MODELS["openai"], [sse(*chat({"content": "Hi"}))])
    reply = MODELS["openai"].decode(whole)
    assert (said(reply.messages), reply.usage) == (said([TextMessage("assistant", "Hi")]), None)
    with pytest.raises(ModelStreamError):
        await read(MODELS["openai"], [sse(*chat({"content": "Hi"}, finish=None))])


async def test_a_byte_order_mark_before_the_first_event_is_skipped() -> None:
    """A text that begins with the same character keeps it."""
    events = sse(*chat({"content": "\ufeffHi"}), "[DONE]")
    reply = MODELS["openai"].decode(await read(MODELS["openai"], ["\ufeff".encode() + events]))
    assert said(reply.messages) == said([TextMessage("assistant", "\ufeffHi")])


@pytest.mark.parametrize("arguments", [{"q": "x", "n": [1]}, {}])
async def test_arguments_that_are_an_object_are_read_like_text(arguments: dict[str, Any]) -> None:
    """Ollama and several proxies send them so, whole and streamed."""
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}}
    messages, _ = await reply_to("openai", *chat({"tool_calls": [call]}), "[DONE]")
    assert said(messages)[2] == [("a", "f", arguments)]


@pytest.mark.parametrize("each", [True, False])
async def test_thinking_of_mistral_is_streamed_and_kept(*, each: bool) -> None:
    """It comes in chunks of the content, closed by the last or by each piece; the text follows."""

    def thinking(text: str, **more: Any) -> dict[str, Any]:
        inner = [{"type": "text", "text": text}]
        return {"content": [{"type": "thinking", "thinking": inner, **more}]}

    first = thinking("12*12 ", **({"closed": True} if each else {}))
    pieces = [first, thinking("= 144", closed=True), {"content": "144"}]
    model = compatible("mistral", "magistral-medium-latest", api_key="k")
    sink = Sink()
    whole = await read(model, [sse(*chat(*pieces), "[DONE]")], sink=sink)
    chunk: dict[str, Any] = {
        "type": "thinking",
        "closed": True,
        "thinking": [{"type": "text", "text": "12*12 = 144"}],
    }
    text = {"type": "text", "text": "144"}
    plain: dict[str, Any] = {"message": {"role": "assistant", "content": [chunk, text]}}
    plain |= {"index": 0, "finish_reason": "stop"}
    assert model.decode(whole).messages == model.decode({"choices": [plain]}).messages
    assert told_text(sink.deltas, ReasoningDelta) == {0: "12*12 = 144"}
    assert told_text(sink.deltas, TextDelta) == {1: "144"}
    answer = model.decode(whole).messages
    question = TextMessage("user", "12*12?")
    body = model.encode(ModelRequest(messages=(question, *answer, question)))
    assert body["messages"][1]["content"][0] == chunk


async def test_white_space_that_is_no_text_is_not_streamed() -> None:
    """Many models write line breaks before a call: kept with the reply, but nothing to show."""
    deltas = [{"content": "\n"}, {"content": "\n"}, piece("{}", index=0, id="a", name="f")]
    messages, deltas_sent = await reply_to("openai", *chat(*deltas, finish="tool_calls"), "[DONE]")
    assert [type(d) for d in deltas_sent] == [ToolCallDelta]
    assert [m.type for m in messages] == ["text", "tool_call"]
    _, deltas_sent = await reply_to("openai", *chat({"content": "\n"}, {"content": "Hi"}), "[DONE]")
    assert deltas_sent == [TextDelta(0, "\nHi")]


async def test_half_a_surrogate_pair_waits_for_the_other_half() -> None:
    """No front end could show it, and no JSON encoder would take it."""
    halves = chat({"content": "A\ud83d"}, {"content": "\ude00B"})
    messages, deltas_sent = await reply_to("openai", *halves, "[DONE]")
    assert deltas_sent == [TextDelta(0, "A"), TextDelta(0, "😀B")]
    assert said(messages)[0] == ["A😀B"]


async def test_arguments_that_were_cut_by_the_token_limit_are_malformed() -> None:
    """Anthropic sends objects without streaming, and text that need be none with it."""
    block: dict[str, Any] = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    messages, _ = await reply_to(
        "anthropic",
        {"type": "message_start", "message": {"type": "message", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": '{"q": "x'},
        },
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
        {"type": "message_stop"},
    )
    assert isinstance(messages[0], ToolCallMessage)
    assert messages[0].tools[0].malformed == '{"q": "x'


async def test_a_prompt_that_gemini_blocks_is_a_whole_stream() -> None:
    """One event without candidates; decoding says why."""
    body = await read(MODELS["gemini"], [sse({"promptFeedback": {"blockReason": "SAFETY"}})])
    with pytest.raises(ModelResponseError, match="blocked: SAFETY"):
        MODELS["gemini"].decode(body)


async def test_calls_of_geminis_without_ids_are_streamed_under_the_ids_that_they_get() -> None:
    """Computed from the response's id, alike in the pieces and in the reply."""
    sink = Sink()
    whole = await read(MODELS["gemini"], [body_of("gemini")], sink=sink)
    calls = said(MODELS["gemini"].decode(whole).messages)[2]
    assert [c[0] for c in calls] == ["resp_1_1", "resp_1_2"]
    assert [d.id for d in sink.deltas if isinstance(d, ToolCallDelta)] == ["resp_1_1", "resp_1_2"]


async def test_events_of_unknown_kinds_are_ignored() -> None:
    """Anthropic and OpenAI say that there will be more."""
    for name in ("anthropic", "openai_responses"):
        new = b'event: news\ndata: {"type": "news", "delta": "x", "index": 7}\n\n'
        sink = Sink()
        assert await read(MODELS[name], [new, body_of(name)], sink=sink) == plain_of(name)


async def test_items_missing_from_the_last_event_are_those_sent_before() -> None:
    """Some servers of the Responses API end with an empty output."""
    plain = plain_of("openai_responses")
    end: dict[str, Any] = {"type": "response.completed", "response": {**plain, "output": []}}
    body = body_of("openai_responses")
    before = body[: body.index(b"event: response.completed")]
    assert await read(MODELS["openai_responses"], [before, sse(end)]) == plain


def test_a_finish_reason_of_one_call_does_not_end_the_next_call() -> None:
    """Together ends each call with one; a cut in the second call is no whole reply."""
    assembler = assembler_of(openai("m", base_url="https://api.together.xyz/v1"))
    call = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": "{}"}}
    second = {"index": 1, "id": "c2", "function": {"name": "look", "arguments": '{"a'}}
    rest = {"index": 1, "function": {"arguments": '": 1}'}}
    steps: list[tuple[dict[str, Any], str | None, bool]] = [
        ({"tool_calls": [call]}, None, False),
        ({}, "tool_calls", True),
        ({"tool_calls": [second]}, None, False),
        ({"tool_calls": [rest]}, None, False),
        ({}, "tool_calls", True),
        ({"content": ""}, None, True),
    ]
    for delta, finish, whole in steps:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        assembler.feed(None, json.dumps({"choices": [choice]}))
        assert assembler.whole is whole


@pytest.mark.parametrize(
    ("parts", "finish", "whole"),
    [
        ([{"executableCode": {"code": "1"}}], "STOP", False),
        ([{"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}], None, False),
        ([{"text": "It is "}], None, False),
        ([{"text": "1."}], "STOP", True),
        ([], None, True),  # usage and sources come last
    ],
)
def test_a_finish_reason_of_gemini_before_more_parts_is_no_end(
    parts: list[dict[str, Any]], finish: str | None, whole: bool
) -> None:
    """Recorded with gemini-2.5-flash: each run of code but the last ends with STOP."""
    events: list[tuple[list[dict[str, Any]], str | None]] = [
        ([{"executableCode": {"code": "1"}}], "STOP"),
        ([{"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}], None),
        ([{"text": "It is "}], None),
        ([{"text": "1."}], "STOP"),
        ([], None),
    ]
    assembler = assembler_of(MODELS["gemini"])
    for before, reason in events[: events.index((parts, finish)) + 1]:
        ended = {"finishReason": reason} if reason else {}
        content = {"content": {"role": "model", "parts": before}} if before else {}
        assembler.feed(None, json.dumps({"candidates": [{"index": 0, **content, **ended}]}))
    assert assembler.whole is whole
