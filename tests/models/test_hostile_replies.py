"""Replies that no provider should send end in a typed error, or go back in a form that it takes."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Any

import httpx
import pytest

from agentkit_py.errors import BadRequestError, ModelError, ModelResponseError
from agentkit_py.messages import Delta, TextMessage, ToolCallMessage, ToolResultMessage
from agentkit_py.models import Model, ModelRequest, RetryPolicy, ToolSpec, anthropic, gemini, openai
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing import FakeProvider, Raw

ONCE = RetryPolicy(attempts=1)
CHAT = openai("gpt-4o", api_key="k", retry=ONCE)
CLAUDE = anthropic("claude-sonnet-4-5", api_key="k", retry=ONCE)
GEMINI = gemini("gemini-3-flash-preview", api_key="k", retry=ONCE)
HALF = "\ud83d"


class PassOver:
    """Hears the pieces of a reply, and does nothing."""

    async def __call__(self, delta: Delta, /) -> None:
        return

    async def skip(self, delta: Delta, count: int, /) -> None:
        return

    def noting(self) -> AbstractAsyncContextManager[None]:
        """Note nothing."""
        return nullcontext()


async def ask(model: Model, answer: httpx.Response, *, stream: bool = False) -> Any:
    """Return the answer's JSON as the runtime reads it."""
    runtime = DirectRuntime(transport=httpx.MockTransport(lambda _: answer))

    try:
        return await runtime.infer("s", model, dict, PassOver() if stream else None)
    finally:
        await runtime.aclose()


def events(*found: Any) -> httpx.Response:
    """A stream of these events, and the end marker."""
    lines = [f"data: {json.dumps(one)}\n\n" for one in found]
    kind = {"content-type": "text/event-stream"}
    return httpx.Response(200, headers=kind, text="".join([*lines, "data: [DONE]\n\n"]))


@pytest.mark.parametrize("name", ["hex", "idna", "zlib", "rot13", "undefined", "utf-16", "x\0y"])
@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_in_an_encoding_that_is_no_texts_is_an_error_of_the_model(
    name: str, status: int
) -> None:
    """The header's word for the encoding is the server's; JSON is UTF-8."""
    kind = {"content-type": f"application/json; charset={name}"}
    with pytest.raises(ModelError):
        await ask(CHAT, httpx.Response(status, headers=kind, content=b'{"err\xff'))


@pytest.mark.parametrize("code", ["9" * 5_000, "400"])
async def test_an_error_in_a_stream_whose_code_is_a_huge_number_is_an_error_of_the_model(
    code: str,
) -> None:
    """Python reads no number of 5,000 digits; a status has three."""
    said = events({"error": {"code": code, "message": "no"}})
    with pytest.raises(BadRequestError if code == "400" else ModelResponseError):
        await ask(CHAT, said, stream=True)


@pytest.mark.parametrize("message", [None, {}, {"role": "assistant", "content": "Hi "}])
async def test_a_message_together_with_the_pieces_of_a_stream_does_not_replace_them(
    message: Any,
) -> None:
    """Some servers send both, or null in its place."""
    choices = [
        {"index": 0, "delta": {"content": "Hi "}, "message": message},
        {"index": 0, "delta": {"content": "there"}, "message": message, "finish_reason": "stop"},
    ]
    body = await ask(CHAT, events(*[{"choices": [one]} for one in choices]), stream=True)
    assert CHAT.decode(body).text == "Hi there"


async def test_a_stream_of_nothing_but_a_message_is_that_message() -> None:
    """It is not lost for want of pieces."""
    message = {"role": "assistant", "content": "Hi"}
    chunk = {"choices": [{"index": 0, "delta": {}, "message": message, "finish_reason": "stop"}]}
    assert CHAT.decode(await ask(CHAT, events(chunk), stream=True)).text == "Hi"


CALLS = [{"id": "a", "type": "function", "function": {"name": "wipe", "arguments": ""}}]
PART = {"functionCall": {"name": "wipe"}}


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (
            CHAT,
            {
                "choices": [
                    {"message": {"content": "x"}, "finish_reason": "stop"},
                    {"message": {"tool_calls": CALLS}, "finish_reason": "length"},
                ]
            },
        ),
        (
            GEMINI,
            {
                "candidates": [
                    {"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"},
                    {"content": {"parts": [PART]}, "finishReason": "MAX_TOKENS"},
                ]
            },
        ),
    ],
)
def test_a_reply_with_a_choice_that_was_cut_is_cut(model: Model, body: Any) -> None:
    """The call in it would run with the defaults of its tool."""
    finish = model.decode(body).finish
    assert finish is not None
    assert finish.is_cut


def test_a_call_of_geminis_without_a_name_is_malformed() -> None:
    """The model can mend it, like a MALFORMED_FUNCTION_CALL."""
    (message,) = GEMINI.decode(google({"functionCall": {"args": {"a": 1}}})).messages
    assert isinstance(message, ToolCallMessage)
    assert "without a name" in (message.tools[0].malformed or "")


def google(*parts: Any) -> dict[str, Any]:
    """An answer of Gemini's."""
    return {"candidates": [{"content": {"parts": list(parts)}, "finishReason": "STOP"}]}


def claude(*blocks: Any) -> dict[str, Any]:
    """An answer of Anthropic's."""
    return {"type": "message", "content": list(blocks), "stop_reason": "end_turn"}


WRONG: list[Any] = ["?", [], 7]
SIGNED: dict[str, Any] = {"thoughtSignature": "c2lnbmVk"}
LOOK: dict[str, Any] = {"name": "look", "args": {}}


@pytest.mark.parametrize(
    ("model", "body"),
    [
        *[(GEMINI, google({"functionCall": LOOK, "thoughtSignature": s})) for s in WRONG],
        *[(GEMINI, google({"functionCall": {**LOOK, "args": a}, **SIGNED})) for a in ([1], "{}")],
        (GEMINI, google({"functionCall": {**LOOK, "id": {}}, **SIGNED})),
        (GEMINI, google({"text": "x", "thoughtSignature": {}})),
        (GEMINI, google({"functionCall": {**LOOK, "name": HALF}, **SIGNED})),
        (GEMINI, google({"text": "x", "partMetadata": {HALF: HALF}})),
        (CLAUDE, claude({"type": "text", "text": "x", "citations": [{"cited_text": HALF}]})),
        (CLAUDE, claude({"type": "tool_use", "id": "a", "name": "look", "input": {HALF: HALF}})),
    ],
)
async def test_the_next_request_after_a_wild_reply_is_accepted(model: Model, body: Any) -> None:
    """A thread that keeps what its provider refuses, or what cannot be written, would be dead."""
    messages = model.decode(body).messages
    calls = [call for m in messages if isinstance(m, ToolCallMessage) for call in m.tools]
    results = [ToolResultMessage(call, {"data": 1}) for call in calls]
    look = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})
    said = (TextMessage("user", "Hi"), *messages, *results, TextMessage("user", "On."))
    fake = FakeProvider(lambda _: Raw(json=body))
    runtime = DirectRuntime()
    asked = replace(model, transport=fake.transport)
    request = ModelRequest(messages=said, tools=(look,))
    await runtime.infer("s", asked, lambda: asked.encode(request))
    await runtime.aclose()
    assert not fake.rejections
