"""Request bodies of each provider, for one conversation after the other."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    Message,
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
)
from agentkit_py.models import (
    Model,
    ModelRequest,
    ToolSpec,
    anthropic,
    azure_openai,
    gemini,
    grok,
    openai,
)
from agentkit_py.models.encoding import EMPTY_TURN, OPENING_TURN

OPENAI = openai("gpt-4.1")
GROK = grok("grok-4")
CLAUDE = anthropic("claude-3-5-haiku-latest")
GEMINI = gemini("gemini-2.5-flash")
GEMINI_3 = gemini("gemini-3-pro-preview")

SEARCH = ToolSpec(
    "search", "Searches.", {"type": "object", "properties": {"q": {"type": "string"}}}
)
A = ToolCall("a", "search", {"q": "a"})
B = ToolCall("b", "search", {"q": "b"})


def text(role: Any, content: str, agent: str | None = None) -> TextMessage:
    """A text message."""
    return TextMessage(role, content, agent=agent)


def asked(*tools: ToolCall) -> ToolCallMessage:
    """A message with calls."""
    return ToolCallMessage(list(tools))


def answer(tool: ToolCall, content: Any) -> ToolResultMessage:
    """The result of a call."""
    return ToolResultMessage(tool, content)


def body(
    model: Model, *messages: Message, tools: tuple[ToolSpec, ...] = (SEARCH,), **options: Any
) -> Any:
    """The body that the agent ``me`` sends."""
    return model.encode(ModelRequest(messages=messages, tools=tools, agent="me", **options))


def chat(model: Model, *messages: Message, **options: Any) -> list[Any]:
    """The messages of an OpenAI or Anthropic body."""
    return body(model, *messages, **options)["messages"]


def contents(*messages: Message, model: Model = GEMINI, **options: Any) -> list[Any]:
    """The contents of a Gemini body."""
    return body(model, *messages, **options)["contents"]


def tool_use(call_id: str, q: str) -> dict[str, Any]:
    """Anthropic's block of a search."""
    return {"type": "tool_use", "id": call_id, "input": {"q": q}, "name": "search"}


def tool_result(call_id: str, content: str) -> dict[str, Any]:
    """Anthropic's block of a result."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content}


def function_call(q: str) -> dict[str, Any]:
    """Gemini's part of a search."""
    return {"functionCall": {"name": "search", "args": {"q": q}}}


def function_response(content: str) -> dict[str, Any]:
    """Gemini's part of a result."""
    response = {"name": "search", "content": content}
    return {"functionResponse": {"name": "search", "response": response}}


ONE_CALL = (text("user", "Find a"), asked(A), answer(A, {"data": 1}))
# The results are in another order than the calls, as parallel tools finish.
PARALLEL = (text("user", "Find"), asked(A), asked(B), answer(B, "two"), answer(A, {"data": 1}))


# ------------------------------------------------------------------------------------- tool calls


def test_openai_gets_one_call_and_its_result() -> None:
    """The form of TypeScript's bodies, key order included."""
    call, result = chat(OPENAI, *ONE_CALL)[1:]
    assert list(call) == ["role", "content", "tool_calls"]
    assert call["content"] is None
    assert call["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "search", "arguments": '{"q":"a"}'}}
    ]
    assert result == {"role": "tool", "tool_call_id": "a", "content": '{"data":1}'}


def test_openai_gets_parallel_calls_as_one_message() -> None:
    """Two assistant messages in a row would leave the first one's calls unanswered."""
    _, call, first, second = chat(OPENAI, *PARALLEL)
    assert [each["id"] for each in call["tool_calls"]] == ["a", "b"]
    assert (first["content"], second["content"]) == ('{"data":1}', "two")


def test_anthropic_gets_the_results_of_a_group_in_one_user_turn_before_its_text() -> None:
    """Text before results is refused."""
    turns = chat(CLAUDE, *PARALLEL, text("user", "And?"))
    assert turns == [
        {"role": "user", "content": "Find"},
        {"role": "assistant", "content": [tool_use("a", "a"), tool_use("b", "b")]},
        {
            "role": "user",
            "content": [
                tool_result("a", '{"data":1}'),
                tool_result("b", "two"),
                {"type": "text", "text": "And?"},
            ],
        },
    ]


def test_gemini_gets_the_responses_in_the_order_of_the_calls() -> None:
    """Gemini has no ids: the order is what pairs them."""
    assert contents(*PARALLEL) == [
        {"role": "user", "parts": [{"text": "Find"}]},
        {"role": "model", "parts": [function_call("a"), function_call("b")]},
        {"role": "user", "parts": [function_response('{"data":1}'), function_response("two")]},
    ]


def test_an_error_result_is_sent_in_its_envelope() -> None:
    """The model reads what went wrong."""
    error = {"error": {"name": "ToolError", "message": "down"}}
    expected = '{"error":{"name":"ToolError","message":"down"}}'
    messages = (text("user", "x"), asked(A), answer(A, error))
    assert chat(OPENAI, *messages)[-1]["content"] == expected
    assert chat(CLAUDE, *messages)[-1]["content"][0]["content"] == expected
    assert contents(*messages)[-1]["parts"] == [function_response(expected)]


def test_three_rounds_alternate() -> None:
    """Each group stays a group, although nothing is between them."""
    messages = (text("user", "x"), *[part for _ in range(3) for part in (asked(A), answer(A, 1))])
    assert [m["role"] for m in chat(OPENAI, *messages)] == ["user"] + ["assistant", "tool"] * 3
    assert [m["role"] for m in chat(CLAUDE, *messages)] == ["user"] + ["assistant", "user"] * 3
    assert [m["role"] for m in contents(*messages)] == ["user"] + ["model", "user"] * 3


def test_repeated_ids_become_unique_and_stay_paired() -> None:
    """Recorded conversations reuse ids, within one turn even; providers refuse that."""
    messages = (
        text("user", "x"), asked(A), answer(A, "1"), asked(A, A), answer(A, "2"), answer(A, "3"),
    )  # fmt: skip
    _, *rest = chat(OPENAI, *messages)
    ids = [c["id"] for m in rest for c in m.get("tool_calls", ())]
    assert ids == ["a", "a_1", "a_2"]
    answers = [(m["tool_call_id"], m["content"]) for m in rest if m["role"] == "tool"]
    assert answers == [("a", "1"), ("a_1", "2"), ("a_2", "3")]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (["", ""], ["call_1", "call_2"]),
        (["call_1", ""], ["call_1", "call_2"]),
        (["fine-1_x"], ["fine-1_x"]),
        (["é.b", "é:b"], ["__b", "__b_1"]),
        (["i" * 41, "i" * 42], ["i" * 40, "i" * 38 + "_1"]),
    ],
)
def test_ids_are_made_fit_without_chance(given: list[str], sent: list[str]) -> None:
    """Empty, foreign and over-long ids get computed ones; an id that is fine stays."""
    tools = [ToolCall(call_id, "search", {}) for call_id in given]
    messages = (asked(*tools), *(answer(tool, 1) for tool in tools))
    assert [c["id"] for c in chat(OPENAI, *messages)[0]["tool_calls"]] == sent


def test_names_that_no_provider_accepts_are_cleaned() -> None:
    """History may come from anywhere."""
    tools = [ToolCall("a", "billing.look up", {}), ToolCall("b", "", {}), ToolCall("c", "9x", {})]
    messages = (asked(*tools), *(answer(tool, 1) for tool in tools))
    names = [c["function"]["name"] for c in chat(OPENAI, *messages)[0]["tool_calls"]]
    assert names == ["billing_look_up", "_", "9x"]


def test_names_that_begin_with_a_digit_are_changed_for_gemini_alone() -> None:
    """OpenAI and Claude take them as they are, and call the tool by its name."""
    tools = [ToolCall(name, name, {}) for name in ("0", "_x", "-x")]
    messages = (text("user", "x"), asked(*tools), *(answer(tool, 1) for tool in tools))
    assert [c["function"]["name"] for c in chat(OPENAI, *messages)[1]["tool_calls"]] == [
        *("0", "_x", "-x")
    ]
    assert [block["name"] for block in chat(CLAUDE, *messages)[1]["content"]] == ["0", "_x", "-x"]
    _, called, answered = contents(*messages)
    expected = ["_0", "_x", "_-x"]
    assert [part["functionCall"]["name"] for part in called["parts"]] == expected
    assert [part["functionResponse"]["name"] for part in answered["parts"]] == expected


def test_a_signature_without_any_text_goes_back_in_its_place() -> None:
    """Gemini signs the end of a text in a part of its own."""
    parts = [{"text": "5"}, {"thoughtSignature": "c2ln"}]
    reply = GEMINI.decode({"candidates": [{"content": {"role": "model", "parts": parts}}]})
    bodies = contents(text("user", "2+3?"), *reply.messages, text("user", "Thanks."))
    assert bodies[1]["parts"] == parts


def test_arguments_that_are_no_object_are_wrapped_where_one_is_due() -> None:
    """OpenAI takes any JSON text, Anthropic and Gemini objects only."""
    tools = (ToolCall("a", "search", 42), ToolCall("b", "search", {}, malformed="{q"))
    messages = (text("user", "x"), asked(*tools), *(answer(tool, 1) for tool in tools))
    sent = [c["function"]["arguments"] for c in chat(OPENAI, *messages)[1]["tool_calls"]]
    assert sent == ["42", '{"malformed_arguments":"{q"}']
    wrapped = [{"value": 42}, {"malformed_arguments": "{q"}]
    assert [block["input"] for block in chat(CLAUDE, *messages)[1]["content"]] == wrapped
    parts = contents(*messages)[1]["parts"]
    assert [part["functionCall"]["args"] for part in parts] == wrapped


def test_an_agent_without_tools_reads_others_calls_as_text_at_anthropic() -> None:
    """Anthropic refuses tool blocks without tools; the others accept them."""
    turns = chat(CLAUDE, *ONE_CALL, tools=())
    assert turns[1:] == [
        {"role": "assistant", "content": '[Called tool search with {"q":"a"}]'},
        {"role": "user", "content": '[Result of tool search: {"data":1}]'},
    ]
    assert chat(OPENAI, *ONE_CALL, tools=())[1]["tool_calls"]
    assert "functionCall" in contents(*ONE_CALL, tools=())[1]["parts"][0]


def test_calls_and_results_that_lack_each_other_do_not_break_the_encoder() -> None:
    """Valid histories have none; the encoder is total nevertheless."""
    messages = (answer(A, "orphan"), text("user", "x"), ToolCallMessage([]), asked(A))
    assert chat(OPENAI, *messages)[1:][1] == {
        "role": "tool", "tool_call_id": "a", "content": "No result.",
    }  # fmt: skip


# ------------------------------------------------------------------------------ roles and order


def test_system_messages_anywhere_go_to_the_system_prompt() -> None:
    """Anthropic and Gemini know instructions at one place only; OpenAI at any."""
    messages = (text("system", "S"), text("user", "x"), text("system", "T"), text("user", "y"))
    assert body(CLAUDE, *messages)["system"] == "S\n\nT"
    assert body(GEMINI, *messages)["systemInstruction"] == {"parts": [{"text": "S\n\nT"}]}
    assert [m["role"] for m in chat(OPENAI, *messages)] == ["system", "user", "system", "user"]


def test_texts_of_one_side_are_one_turn() -> None:
    """Turns alternate; a single text stays a plain string, as in TypeScript."""
    messages = (text("user", "1"), text("user", "2"), text("assistant", "3"), text("user", "4"))
    assert chat(CLAUDE, *messages) == [
        {"role": "user", "content": [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}]},
        {"role": "assistant", "content": "3"},
        {"role": "user", "content": "4"},
    ]
    assert [len(content["parts"]) for content in contents(*messages)] == [2, 1, 1]


def test_a_conversation_that_begins_with_an_assistant_gets_an_opening() -> None:
    """The first turn is the user's."""
    messages = (text("assistant", "Hello"), text("user", "Hi"))
    assert chat(CLAUDE, *messages)[0] == {"role": "user", "content": OPENING_TURN}
    assert contents(*messages)[0] == {"role": "user", "parts": [{"text": OPENING_TURN}]}


def test_empty_texts_are_left_out_where_they_are_refused() -> None:
    """OpenAI takes them (and TypeScript sends them); the others answer 400."""
    messages = (text("system", ""), text("user", " "), TextMessage("user", []))
    assert [m["content"] for m in chat(OPENAI, *messages)] == ["", " ", ""]
    assert chat(GROK, *messages) == [{"role": "user", "content": EMPTY_TURN}]
    assert chat(CLAUDE, *messages) == [{"role": "user", "content": OPENING_TURN}]
    assert contents(*messages) == [{"role": "user", "parts": [{"text": OPENING_TURN}]}]
    assert "system" not in body(CLAUDE, *messages)


def test_content_lists_are_sent_as_parts() -> None:
    """Anthropic's are not wrapped twice; Gemini's are one text, as in TypeScript."""
    message = TextMessage("user", [TextContent("a"), TextContent(""), TextContent("b")])
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert chat(OPENAI, message) == chat(CLAUDE, message) == [{"role": "user", "content": parts}]
    assert contents(message) == [{"role": "user", "parts": [{"text": "ab"}]}]


def test_text_that_utf_8_cannot_carry_is_replaced() -> None:
    """A model's half surrogate would fail the request's encoding."""
    broken = ToolCall("a", "search", {"q": "\ud83d"})
    messages = (text("user", "\ud83d!"), asked(broken), answer(broken, "x\ud83d"))
    for model in (OPENAI, CLAUDE, GEMINI):
        assert "?" in str(body(model, *messages))
        json.dumps(body(model, *messages), ensure_ascii=False).encode()


# ---------------------------------------------------------------------------------- the last word


@pytest.mark.parametrize(
    ("author", "said"),
    [
        ("billing", "(The last message is from agent billing.) Continue."),
        ("me", "(The last message is from agent me.) Continue."),
        (None, "Continue."),
    ],
)
def test_a_closing_text_is_followed_by_a_users_turn_that_names_its_author(
    author: str | None, said: str
) -> None:
    """Anthropic and Gemini would take it for a reply to continue, or refuse it."""
    messages = (text("user", "Paid?"), text("assistant", "Paid. ", author))
    assert chat(CLAUDE, *messages)[1:] == [
        {"role": "assistant", "content": "Paid. "},
        {"role": "user", "content": said},
    ]
    assert contents(*messages)[1:] == [
        {"role": "model", "parts": [{"text": "Paid. "}]},
        {"role": "user", "parts": [{"text": said}]},
    ]
    assert chat(OPENAI, *messages)[-1] == {"role": "assistant", "content": "Paid. "}


def test_a_closing_text_stays_unchanged_when_the_conversation_continues() -> None:
    """A text is sent in one form for ever: newer models sign it."""
    messages = (
        text("user", "x"), text("assistant", "1", "billing"), text("assistant", "2", "billing"),
        text("assistant", " ", "me"), text("system", "S"),
    )  # fmt: skip
    for model in (CLAUDE, GEMINI, anthropic("claude-opus-5-5")):
        request = ModelRequest(messages=messages, agent="me")
        sent = model.encode(request)
        turns = sent.get("messages") or sent["contents"]
        reply = model.bind(request, (text("assistant", "3", "me"),))
        later = model.encode(replace(request, messages=(*messages, *reply, text("user", "y"))))
        later_turns = later.get("messages") or later["contents"]
        assert later_turns[: len(turns)] == turns
        assert len(later_turns) == len(turns) + 2


def test_a_prefill_stays_the_beginning_of_the_answer_where_the_model_takes_one() -> None:
    """White space at its end, which Anthropic refuses, is removed."""
    messages = (text("user", "JSON!"), text("assistant", '{"a": ', "me"))
    assert chat(CLAUDE, *messages, prefill=1)[-1] == {"role": "assistant", "content": '{"a":'}
    assert chat(CLAUDE, messages[1], prefill=1)[0]["content"] == OPENING_TURN
    assert chat(OPENAI, *messages, prefill=1)[-1] == {"role": "assistant", "content": '{"a": '}


@pytest.mark.parametrize(
    "model",
    [
        anthropic("claude-opus-4-6"),
        anthropic("us.anthropic.claude-sonnet-4-6-v1"),
        anthropic("claude-sonnet-5"),
        anthropic("my-claude"),
        anthropic("claude-sonnet-4-5", default_parameters={"thinking": {"type": "adaptive"}}),
        GEMINI,
    ],
    ids=lambda model: model.model,
)
def test_a_prefill_becomes_an_instruction_where_the_model_takes_none(model: Model) -> None:
    """Claude since 4.6, models that think, names that tell nothing, and Gemini."""
    messages = (text("user", "JSON!"), text("assistant", "{", "me"))
    sent = body(model, *messages, prefill=1)
    turns = sent.get("messages") or sent["contents"]
    assert [turn["role"] for turn in turns] == ["user"]
    assert "Begin" not in str(turns)
    said = str(sent.get("system") or sent["systemInstruction"])
    assert "Begin each of your replies with exactly this text" in said


@pytest.mark.parametrize(
    "name", ["claude-3-opus", "claude-sonnet-4-20250514", "claude-opus-4-1-20250805", "claude-2.1"]
)
def test_older_claudes_take_a_prefill(name: str) -> None:
    """The version is read from the name; a date is no version."""
    assert chat(anthropic(name), text("assistant", "{"), prefill=1)[-1]["role"] == "assistant"


def test_a_forced_tool_leaves_no_room_for_a_prefill() -> None:
    """The provider prefills the call itself."""
    messages = (text("user", "x"), text("assistant", "{"))
    turns = chat(CLAUDE, *messages, prefill=1, tool_choice="any")
    assert [turn["role"] for turn in turns] == ["user"]


# -------------------------------------------------------------------------------------- reasoning

SIGNED = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
ENABLED = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2048}


def thought(block: dict[str, Any] | None = None, provider: str = "anthropic") -> ReasoningMessage:
    """A reasoning message with the provider's block."""
    return ReasoningMessage("Hm.", provider_metadata={provider: block or SIGNED})


def test_anthropics_thinking_goes_back_as_it_came_before_its_call() -> None:
    """It is signed: changed or missing blocks are refused."""
    thinker = anthropic("claude-sonnet-4-5", default_parameters=ENABLED)
    sent = body(thinker, text("user", "x"), thought(), asked(A), answer(A, 1))
    assert sent["messages"][1]["content"] == [SIGNED, tool_use("a", "a")]
    assert json.dumps(sent["messages"][1]["content"][0]) == json.dumps(SIGNED)
    assert sent["thinking"] == ENABLED["thinking"]


def test_thoughts_between_parallel_calls_keep_their_position() -> None:
    """A reply goes back as it came; calls and results stay whole."""
    messages = (text("user", "x"), asked(A), thought(), asked(B), answer(A, 1), answer(B, 2))
    assert chat(CLAUDE, *messages)[1]["content"] == [tool_use("a", "a"), SIGNED, tool_use("b", "b")]
    trailing = chat(CLAUDE, text("user", "x"), asked(A), thought(), text("user", "y"))
    assert trailing[1]["content"] == [tool_use("a", "a")]


def test_thinking_that_cannot_be_sent_is_left_out() -> None:
    """Foreign, unsigned, at the end of a turn, or with thinking switched off."""
    unsigned = {"type": "thinking", "thinking": "Hm."}
    foreign = thought(provider="openai")
    messages = (text("user", "x"), thought(unsigned), foreign, text("assistant", "1"), thought())
    turns = chat(CLAUDE, *messages, text("user", "y"))
    assert [turn["content"] for turn in turns] == ["x", "1", "y"]
    off = anthropic("claude-sonnet-4-5", default_parameters={"thinking": {"type": "disabled"}})
    assert chat(off, text("user", "x"), thought(), asked(A), answer(A, 1))[1]["content"] == [
        tool_use("a", "a")
    ]


def test_a_request_that_would_be_refused_for_thinking_goes_without() -> None:
    """Forced tools, and calls that another model made without thinking."""
    thinker = anthropic("claude-sonnet-4-5", default_parameters=ENABLED)
    assert "thinking" not in body(thinker, text("user", "x"), tool_choice="any")
    assert "thinking" not in body(thinker, *ONE_CALL)
    assert "thinking" in body(thinker, *ONE_CALL, text("assistant", "1"), text("user", "y"))
    assert "thinking" in body(thinker, text("user", "x"))


def test_geminis_signatures_go_back_on_their_part() -> None:
    """Texts, calls and reasoning keep theirs; unsigned reasoning carries nothing over."""
    own = {"gemini": {"thoughtSignature": "c2ln"}}
    call = ToolCall("a", "search", {"q": "a"}, provider_metadata=own)
    messages = (
        text("user", "x"), ReasoningMessage("Hm.", provider_metadata=own), ReasoningMessage("No."),
        TextMessage("assistant", "1", provider_metadata=own), asked(call, B), answer(call, "1"),
        answer(B, "2"),
    )  # fmt: skip
    for model in (GEMINI, GEMINI_3):
        assert contents(*messages, model=model)[1]["parts"] == [
            {"text": "Hm.", "thought": True, "thoughtSignature": "c2ln"},
            {"text": "1", "thoughtSignature": "c2ln"},
            {**function_call("a"), "thoughtSignature": "c2ln"},
            function_call("b"),
        ]


@pytest.mark.parametrize(
    ("name", "signed"),
    [("gemini-2.5-pro", False), ("gemini-3-flash", True), ("gemini-10", True),
     ("gemini-pro-latest", True), ("tunedModels/mine", False)],
)  # fmt: skip
def test_gemini_3_gets_the_placeholder_for_calls_of_others(name: str, signed: bool) -> None:
    """It refuses calls without a signature; of parallel calls only the first is signed."""
    first, second = contents(*PARALLEL, model=gemini(name))[1]["parts"]
    expected = "skip_thought_signature_validator" if signed else None
    assert first.get("thoughtSignature") == expected
    assert "thoughtSignature" not in second


def test_thoughts_at_the_end_are_no_turn() -> None:
    """The last word is the user's."""
    own = ReasoningMessage("Hm.", provider_metadata={"gemini": {"thoughtSignature": "c2ln"}})
    assert [c["role"] for c in contents(text("user", "x"), own)] == ["user"]


# ---------------------------------------------------------------------------- tools and parameters


def test_each_format_says_its_own_word_for_the_choice_of_tools() -> None:
    """auto, any, or one by its name."""
    x = text("user", "x")
    assert [body(OPENAI, x, tool_choice=c)["tool_choice"] for c in ("auto", "any", "search")] == [
        "auto", "required", {"type": "function", "function": {"name": "search"}},
    ]  # fmt: skip
    assert [body(CLAUDE, x, tool_choice=c)["tool_choice"] for c in ("auto", "any", "search")] == [
        {"type": "auto"}, {"type": "any"}, {"type": "tool", "name": "search"},
    ]  # fmt: skip
    modes = [body(GEMINI, x, tool_choice=c)["toolConfig"] for c in ("auto", "any", "search")]
    assert [mode["functionCallingConfig"] for mode in modes] == [
        {"mode": "AUTO"}, {"mode": "ANY"}, {"mode": "ANY", "allowedFunctionNames": ["search"]},
    ]  # fmt: skip


@pytest.mark.parametrize("model", [OPENAI, CLAUDE, GEMINI], ids=lambda model: model.provider)
def test_the_choice_of_a_tool_that_is_not_there_is_an_error(model: Model) -> None:
    """The provider would answer 400; the error names the tools there are."""
    with pytest.raises(ConfigurationError, match=r"tool_choice='gone'.*'me'.*search"):
        body(model, text("user", "x"), tool_choice="gone")


@pytest.mark.parametrize("model", [OPENAI, GROK, CLAUDE, GEMINI], ids=lambda model: model.provider)
def test_without_tools_a_request_has_no_field_of_tools(model: Model) -> None:
    """No empty list, no choice: providers refuse both."""
    sent = body(model, text("user", "x"), tools=(), tool_choice="any")
    assert not {"tools", "tool_choice", "parallel_tool_calls", "toolConfig"} & sent.keys()


@pytest.mark.parametrize(
    ("name", "omitted"),
    [("gpt-4o", False), ("gpt-5", False), ("o1", True), ("o1-preview", True), ("o3-mini", True),
     ("o4-mini", True), ("openai/o3", True), ("my-o3-finetune", True), ("foo1", False),
     ("O3-Mini", True), ("my-org/my-local-model", False)],
)  # fmt: skip
def test_parallel_calls_are_switched_off_but_for_models_that_do_not_know_the_switch(
    name: str, omitted: bool
) -> None:
    """The o-series answers 400 to it; TypeScript forgets o4-mini."""
    sent = body(openai(name), text("user", "x"))
    assert ("parallel_tool_calls" not in sent) == omitted
    assert omitted or sent["parallel_tool_calls"] is False


def test_default_parameters_overwrite_for_openai_and_anthropic() -> None:
    """TypeScript also replaces the model's name, and sends choices about tools only with tools."""
    parameters = {"temperature": 0, "model": "other", "tool_choice": "none", "max_tokens": 7}
    sent = body(OPENAI.with_parameters(**parameters), text("user", "x"))
    assert sent["tool_choice"] == "none"
    assert (sent["model"], sent["temperature"]) == ("other", 0)
    without = body(OPENAI.with_parameters(**parameters), text("user", "x"), tools=())
    assert "tool_choice" not in without
    assert body(CLAUDE.with_parameters(max_tokens=7), text("user", "x"))["max_tokens"] == 7
    assert body(CLAUDE, text("user", "x"))["max_tokens"] == 4096
    claude = CLAUDE.with_parameters(tool_choice={"type": "none"})
    assert "tool_choice" not in body(claude, text("user", "x"), tools=())


def test_default_parameters_fill_in_for_gemini() -> None:
    """TypeScript's parameters do not replace the conversation either."""
    model = GEMINI.with_parameters(generationConfig={"topP": 1}, contents="no")
    sent = body(model, text("user", "x"))
    assert sent["generationConfig"] == {"topP": 1}
    assert sent["contents"] == [{"role": "user", "parts": [{"text": "x"}]}]


def test_keys_are_in_typescripts_order() -> None:
    """Cheap to keep, and recordings compare byte by byte."""
    messages = (text("system", "S"), text("user", "x"))
    assert list(body(OPENAI.with_parameters(temperature=0), *messages)) == [
        "messages", "tool_choice", "parallel_tool_calls", "tools", "temperature", "model",
    ]  # fmt: skip
    assert list(body(CLAUDE, *messages)) == [
        "system", "model", "max_tokens", "messages", "tools", "tool_choice",
    ]  # fmt: skip


def test_azure_cuts_descriptions_that_it_would_refuse() -> None:
    """Azure's limit is 1,024 characters."""
    spec = ToolSpec("t", "d" * 2000)
    azure = azure_openai("gpt-4o", endpoint="https://r.openai.azure.com")
    sent = [body(model, text("user", "x"), tools=(spec,)) for model in (azure, OPENAI)]
    assert [len(each["tools"][0]["function"]["description"]) for each in sent] == [1024, 2000]


def test_grok_gets_no_strict_schemas_and_no_empty_results() -> None:
    """Messages without text are refused by xAI."""
    sent = body(GROK, text("user", "x"), asked(A), answer(A, ""))
    assert sent["tools"][0]["function"]["strict"] is False
    assert sent["messages"][-1]["content"] == "(empty)"
