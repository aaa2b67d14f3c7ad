"""Replies decoded from the providers' answers, valid and invalid."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py import AgentResult
from agentkit_py.errors import EmptyReplyError, ModelResponseError
from agentkit_py.messages import (
    Finish,
    OpaqueMessage,
    ReasoningMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    Usage,
)
from agentkit_py.models import (
    Model,
    ModelReply,
    ModelRequest,
    anthropic,
    azure_openai,
    gemini,
    grok,
    openai,
)

OPENAI = openai("gpt-4.1", api_key="sk-secret-key")
CLAUDE = anthropic("claude-sonnet-4-5")
GEMINI = gemini("gemini-2.5-flash")
ALL: list[Model] = [
    OPENAI,
    azure_openai("gpt-4o", endpoint="https://r.openai.azure.com"),
    grok("grok-4"),
    CLAUDE,
    GEMINI,
]
CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q":"a"}'}}


def chat(message: Any, finish: Any = "stop", **more: Any) -> dict[str, Any]:
    """A chat completion."""
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}


def claude(*content: Any, stop: str = "end_turn", **more: Any) -> dict[str, Any]:
    """An answer of Anthropic's."""
    return {"type": "message", "content": list(content), "stop_reason": stop, **more}


def google(*parts: Any, finish: str = "STOP", **more: Any) -> dict[str, Any]:
    """An answer of Gemini's."""
    content = {"role": "model", "parts": list(parts)}
    return {"candidates": [{"content": content, "finishReason": finish}], **more}


def stops(reply: ModelReply) -> list[tuple[str, str | None]]:
    """Type and stop reason of each message."""
    return [(message.type, message.stop_reason) for message in reply.messages]


# ------------------------------------------------------------------------------------------ OpenAI


def test_text_and_calls_are_two_messages_that_wait_for_the_tool() -> None:
    """All calls of the reply are one message, as in TypeScript."""
    reply = OPENAI.decode(
        chat(
            {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL, CALL]},
            "tool_calls",
        )
    )
    search = ToolCall("c1", "search", {"q": "a"})
    assert reply.messages == (
        TextMessage("assistant", "Let me see.", stop_reason="tool"),
        ToolCallMessage([search, search]),
    )
    assert reply.finish_reason == "tool_calls"


@pytest.mark.parametrize("finish", ["stop", "length", "content_filter", None, 3])
def test_calls_wait_for_their_tool_whatever_the_finish_reason(finish: Any) -> None:
    """TypeScript's loop ends there and leaves the call unanswered."""
    reply = OPENAI.decode(chat({"content": None, "tool_calls": [CALL]}, finish))
    assert stops(reply) == [("tool_call", "tool")]
    said = finish if finish in ("length", "content_filter") else "stop"
    assert stops(OPENAI.decode(chat({"content": "t"}, finish))) == [("text", said)]


@pytest.mark.parametrize(
    "message", [{"content": " \n"}, {"content": ""}, {"content": None}, {"content": []}, {}, None]
)
def test_an_answer_without_text_is_no_message(message: Any) -> None:
    """TypeScript returns no message either."""
    assert OPENAI.decode(chat(message)).messages == ()


def test_a_refusal_is_text() -> None:
    """The user has a right to it; TypeScript drops it."""
    reply = OPENAI.decode(chat({"content": None, "refusal": "I can't."}))
    assert reply.messages == (TextMessage("assistant", "I can't.", stop_reason="refusal"),)
    assert reply.finish == Finish("refusal", "stop", {"refusal": "I can't."})


FROM_FIELD = {
    "chat_reasoning": {"fields": ["reasoning_content"]},
    "origin": {"host": "api.openai.com"},
}


def test_content_parts_and_reasoning_are_read() -> None:
    """Servers of the format send them."""
    message = {
        "content": [{"type": "text", "text": "a"}, {"text": "b"}],
        "reasoning_content": "Hm.",
    }
    assert OPENAI.decode(chat(message)).messages == (
        ReasoningMessage("Hm.", provider_metadata=FROM_FIELD),
        TextMessage("assistant", "ab", stop_reason="stop"),
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (None, {}),
        ("", {}),
        ("   ", {}),
        ("null", {}),
        ("{}", {}),
        ("42", 42),
        ({"q": 1}, {"q": 1}),
        (
            '{"f":"a.ts","c":`const x = "q"; // \\n ${1}`}',
            {"f": "a.ts", "c": 'const x = "q"; // \\n ${1}'},
        ),
        ('{"c":`line1\nline2`}', {"c": "line1\nline2"}),
        ('\'{"f":"a"}\'', {"f": "a"}),
        ('"{\\"f\\":\\"a\\"}"', {"f": "a"}),
    ],
)
def test_arguments_are_read_and_repaired(arguments: Any, expected: Any) -> None:
    """Backticks and stray quotes are repaired like in TypeScript; JSON in JSON is read too."""
    function = {"name": "f", "arguments": arguments}
    reply = OPENAI.decode(chat({"tool_calls": [{"id": "1", "function": function}]}))
    assert reply.messages == (ToolCallMessage([ToolCall("1", "f", expected)]),)


@pytest.mark.parametrize(
    "arguments",
    [
        "not json",
        "{'f':'a'}",
        '{"c":`abc}',
        '"just text"',
        '{"n": NaN}',
        '{"n": 1e400}',
        "[" * 100_000,
    ],
)
def test_arguments_that_are_no_json_are_kept_for_the_model_to_read(arguments: str) -> None:
    """No error: the engine tells the model what it wrote, and the run continues."""
    function = {"name": "f", "arguments": arguments}
    reply = OPENAI.decode(chat({"tool_calls": [{"id": "1", "function": function}]}))
    assert reply.messages == (ToolCallMessage([ToolCall("1", "f", {}, malformed=arguments)]),)


@pytest.mark.parametrize(
    "call", [{"id": "1", "type": "custom", "custom": {}}, {"function": {}}, None, 3]
)
def test_a_call_without_a_name_is_one_that_the_model_can_mend(call: Any) -> None:
    """It cannot be run, and the model reads why."""
    (message,) = OPENAI.decode(chat({"tool_calls": [call]})).messages
    assert isinstance(message, ToolCallMessage)
    assert "a call without a name" in (message.tools[0].malformed or "")


# --------------------------------------------------------------------------------------- Anthropic


def test_each_block_is_a_message() -> None:
    """Stop reasons as in TypeScript; calls come last, where their results follow."""
    reply = CLAUDE.decode(
        claude(
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": "a"}},
            {"type": "text", "text": "And"},
            {"type": "tool_use", "id": "t2", "name": "search", "input": "{broken"},
            {"type": "server_tool_use", "id": "s"},
            "?",
            stop="tool_use",
        )
    )
    *said, hosted = reply.messages
    assert isinstance(hosted, OpaqueMessage)
    assert hosted.content == {"type": "server_tool_use", "id": "s"}
    first, second, third, fourth = said
    assert (first, third) == (
        TextMessage("assistant", "Let me see.", stop_reason="stop"),
        TextMessage("assistant", "And", stop_reason="stop"),
    )
    assert second == ToolCallMessage([ToolCall("t1", "search", {"q": "a"})])
    assert isinstance(fourth, ToolCallMessage)
    assert fourth.tools[0].malformed == "{broken"
    assert reply.finish == Finish("tool_calls", "tool_use")


def test_thinking_is_kept_whole() -> None:
    """Its signature has to go back."""
    block = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    redacted = {"type": "redacted_thinking", "data": "x"}
    origin = {"host": "api.anthropic.com"}
    assert CLAUDE.decode(claude(block, redacted)).messages == (
        ReasoningMessage("Hm.", provider_metadata={"anthropic": block, "origin": origin}),
        ReasoningMessage("", provider_metadata={"anthropic": redacted, "origin": origin}),
    )


@pytest.mark.parametrize(
    "body", [{"type": "message"}, {"type": "message", "content": None}, claude()]
)
def test_an_answer_of_nothing_is_an_empty_reply(body: Any) -> None:
    """Claude ends a turn after a tool's result with nothing to add."""
    assert CLAUDE.decode(body).messages == ()


@pytest.mark.parametrize(
    "body",
    [{}, {"detail": "internal"}, {"type": "ping"}, {"type": "message", "content": "text"}],
)
def test_a_value_that_is_not_a_message_of_anthropics_is_an_error(body: Any) -> None:
    """An empty reply would hide it."""
    with pytest.raises(ModelResponseError, match="not a message"):
        CLAUDE.decode(body)


# ------------------------------------------------------------------------------------------ Gemini


def test_calls_get_ids_of_their_own() -> None:
    """TypeScript calls two searches alike. A response's id makes them unique in a conversation."""
    part = {"functionCall": {"name": "search", "args": {"q": "a"}}}
    own = {"functionCall": {"id": "own", "name": "search"}}

    def ids(**more: Any) -> list[str]:
        messages = GEMINI.decode(google(part, part, own, **more)).messages
        return [call.id for m in messages if isinstance(m, ToolCallMessage) for call in m.tools]

    assert ids() == ["search", "search_2", "own"]
    assert ids(responseId="r7") == ["r7_1", "r7_2", "own"]


def test_signatures_thoughts_and_stop_reasons_are_kept() -> None:
    """The parts are kept as they came, in their order; the role does not matter."""
    said = {"text": "Let me see.", "thoughtSignature": "s1"}
    code = {"executableCode": {"code": "1"}}
    asked: dict[str, Any] = {
        "functionCall": {"name": "search", "args": {}},
        "thoughtSignature": "s2",
    }
    reply = GEMINI.decode(
        google({"text": "Hm.", "thought": True}, said, code, asked, {"functionCall": {}})
    )
    host = "generativelanguage.googleapis.com"
    origin = {"host": host}
    call = ToolCall("search", "search", {}, provider_metadata={"gemini": asked, "origin": origin})
    assert reply.messages == (
        ReasoningMessage("Hm."),
        TextMessage(
            "assistant",
            "Let me see.",
            stop_reason="tool",
            provider_metadata={"gemini": said, "origin": origin},
        ),
        OpaqueMessage(code, "gemini", host, "code_execution", "", "call", stop_reason="tool"),
        ToolCallMessage([call]),
    )
    assert stops(GEMINI.decode(google({"text": "x"}))) == [("text", "stop")]


def test_all_candidates_are_read() -> None:
    """TypeScript reads all candidates, too."""
    one, two = google({"text": "one"}), google({"text": "two"})
    both = {"candidates": one["candidates"] + two["candidates"]}
    assert [getattr(m, "content", "") for m in GEMINI.decode(both).messages] == ["one", "two"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"candidates": []}, "no candidates"),
        ({"promptFeedback": {"blockReason": "SAFETY"}}, "prompt was blocked: SAFETY"),
        (google(finish="SAFETY"), "content_filter .SAFETY."),
        ({"candidates": [{"finishReason": "OTHER", "finishMessage": "Hm."}]}, "error .OTHER.*Hm."),
    ],
)
def test_blocked_and_broken_answers_are_errors_that_say_why(body: Any, said: str) -> None:
    """An empty reply would look like an agent with nothing to say."""
    with pytest.raises(ModelResponseError, match=said):
        GEMINI.decode(body)


def test_an_answer_that_used_up_its_tokens_and_says_nothing_is_an_error() -> None:
    """Thinking may use all of them; an empty reply would look like an agent with nothing to say."""
    with pytest.raises(EmptyReplyError) as found:
        GEMINI.decode({"candidates": [{"finishReason": "MAX_TOKENS"}]})
    assert (found.value.finish_reason, found.value.provider_reason) == ("length", "MAX_TOKENS")


# ------------------------------------------------------------------------------------- all of them


def test_usage_counts_cached_and_reasoning_tokens_the_same_way() -> None:
    """Cached and written within input, reasoning within output, however the provider counts."""
    details = {
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    expected = Usage(10, 8, 4, 3, 2)
    within = {"prompt_tokens": 10, "completion_tokens": 8, "total_tokens": 18, **details}
    apart = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 18, **details}
    assert OPENAI.decode(chat({}, usage=within)).usage == expected
    assert grok("grok-4").decode(chat({}, usage=apart)).usage == expected
    counts = {
        "promptTokenCount": 10, "candidatesTokenCount": 5,
        "cachedContentTokenCount": 4, "thoughtsTokenCount": 3,
    }  # fmt: skip
    assert GEMINI.decode(google(usageMetadata=counts)).usage == Usage(10, 8, 4, 3)
    read = {"input_tokens": 4, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2}
    found = CLAUDE.decode(claude(usage={**read, "output_tokens": 8})).usage
    assert found == Usage(10, 8, 4, cache_write_tokens=2)
    assert OPENAI.decode(chat({})).usage is None
    assert OPENAI.decode(chat({}, usage={"prompt_tokens": "many"})).usage == Usage()


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.provider)
@pytest.mark.parametrize("body", [None, [], "text", 3, True])
def test_a_value_that_is_not_an_object_is_an_error(model: Model, body: Any) -> None:
    """Each model says which it is and shows the beginning of what came."""
    with pytest.raises(ModelResponseError, match="no JSON object") as caught:
        model.decode(body)
    assert (caught.value.provider, caught.value.model) == (model.provider, model.model)


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.provider)
@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "overloaded"}},
        {"error": "overloaded"},
        [{"error": {"message": "overloaded"}}],
    ],
)
def test_an_error_that_calls_itself_a_success_is_an_error(model: Model, body: Any) -> None:
    """Gateways do that."""
    with pytest.raises(ModelResponseError, match="overloaded"):
        model.decode(body)


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": None}, {"choices": [None]}])
def test_an_answer_without_choices_is_an_error(body: Any) -> None:
    """The API promises one; TypeScript takes it for an empty reply."""
    with pytest.raises(ModelResponseError, match="choice"):
        OPENAI.decode(body)


def test_no_key_gets_into_an_error() -> None:
    """Some proxies echo the request."""
    with pytest.raises(ModelResponseError) as caught:
        OPENAI.decode({"echo": "sk-secret-key"})
    assert "secret" not in str(caught.value) + caught.value.excerpt


_words = st.sampled_from(
    ["choices", "message", "content", "tool_calls", "function", "name", "arguments", "type", "text",
     "tool_use", "thinking", "candidates", "parts", "functionCall", "args", "usage", "error", "id",
     "usageMetadata", "finishReason", "promptFeedback", "message", "input", "code", "details"]
)  # fmt: skip
_anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=5),
    max_leaves=15,
)
_likely = st.one_of(
    _anything,
    _anything.map(lambda x: {"choices": x}),
    _anything.map(lambda x: {"choices": [{"message": x}]}),
    _anything.map(lambda x: chat({"tool_calls": [{"function": x}], "content": x}, usage=x)),
    _anything.map(lambda x: claude(x, {"type": "text", "text": x}, usage=x)),
    _anything.map(lambda x: claude({"type": "tool_use", "name": "n", "input": x})),
    _anything.map(lambda x: google(x, {"functionCall": x}, usageMetadata=x)),
    _anything.map(lambda x: {"candidates": [x], "promptFeedback": x}),
)


@given(body=_likely)
def test_any_json_gives_a_reply_or_a_typed_error(body: Any) -> None:
    """No KeyError, no TypeError, whatever a provider sends."""
    for model in ALL:
        try:
            reply = model.decode(body)
        except ModelResponseError:
            continue
        assert all(m.agent is None and m.from_history is None for m in reply.messages)


USER_SAYS = TextMessage("user", "Hi")
URL = {"type": "url_citation", "url_citation": {"url": "https://x.example", "title": "X"}}
SOURCE = {"web": {"uri": "https://x.example", "title": "X"}}


@pytest.mark.parametrize(
    ("model", "event", "sources"),
    [
        (
            openai("gpt-4o-search-preview", api_key="k"),
            {"choices": [{"delta": {"content": "It is.", "annotations": [URL]}}]},
            [URL],
        ),
        (
            gemini("gemini-2.5-flash", api_key="k"),
            {
                "candidates": [
                    {
                        "content": {"role": "model", "parts": [{"text": "It is."}]},
                        "groundingMetadata": {"groundingChunks": [SOURCE]},
                    }
                ]
            },
            [SOURCE],
        ),
    ],
)
def test_sources_of_a_text_survive_streams_and_stores(
    model: Model, event: dict[str, Any], sources: list[dict[str, Any]]
) -> None:
    """The raw reply, in which they stand, is not kept."""
    assembler = model.adapter.assembler(model)
    assert assembler is not None
    assembler.feed(None, json.dumps(event))
    result = AgentResult("a", model.decode(assembler.finish()).messages)
    again = AgentResult.from_dict(json.loads(json.dumps(result.to_dict())))
    assert (again.text, list(again.citations)) == ("It is.", sources)
    sent = json.dumps(model.encode(ModelRequest(messages=(USER_SAYS, *again.output, USER_SAYS))))
    assert "x.example" not in sent


def test_references_in_a_streamed_content_list_are_kept() -> None:
    """Mistral sends them between texts."""
    model = openai("mistral-large", api_key="k", base_url="https://api.mistral.ai/v1")
    assembler = model.adapter.assembler(model)
    assert assembler is not None
    chunk = {"type": "reference", "reference_ids": [7]}
    for content in ("It is", [chunk], "."):
        assembler.feed(None, json.dumps({"choices": [{"delta": {"content": content}}]}))
    messages = model.decode(assembler.finish()).messages
    text, reference = messages
    assert isinstance(text, TextMessage)
    assert isinstance(reference, OpaqueMessage)
    assert (text.text, reference.content) == ("It is.", chunk)
