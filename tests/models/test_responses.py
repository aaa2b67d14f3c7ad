"""OpenAI's Responses API: what it is sent, what is made of its answers, what the fake refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py import Agent
from agentkit_py.errors import ConfigurationError, ModelResponseError
from agentkit_py.inngest.steps import GatewayAdapter
from agentkit_py.messages import (
    FileContent,
    Finish,
    ImageContent,
    Message,
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    Usage,
)
from agentkit_py.models import Model, ModelRequest, ToolSpec, openai_responses
from agentkit_py.testing import FakeProvider, Raw, ScriptedModel, tool_calls

GPT_5 = openai_responses("gpt-5", api_key="sk-test")
GPT_4 = openai_responses("gpt-4.1", api_key="sk-test")
PARAMETERS = {
    "type": "object",
    "properties": {"q": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["q"],
}
SEARCH = ToolSpec("search", "Searches.", PARAMETERS)
PING = ToolSpec("ping")
USER = TextMessage("user", "Hi")


def reasoning(name: str, **more: Any) -> dict[str, Any]:
    """A reasoning item."""
    item: dict[str, Any] = {
        "id": name,
        "type": "reasoning",
        "summary": [],
        "encrypted_content": "gAAA",
    }
    return {**item, **more}


def call(call_id: str, **more: Any) -> dict[str, Any]:
    """A function call item."""
    item = {"id": f"fc_{call_id}", "type": "function_call", "call_id": call_id, "name": "search"}
    return {**item, "arguments": '{"q":"x"}', **more}


def said(text: str, **more: Any) -> dict[str, Any]:
    """A message item."""
    content: list[Any] = [{"type": "output_text", "text": text, "annotations": []}]
    item: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "content": content,
    }
    return {**item, **more}


def response(*output: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A response."""
    return {"status": "completed", "error": None, "output": list(output), **more}


def answers(message: Message) -> list[Message]:
    """A result for each call of the message."""
    tools = message.tools if isinstance(message, ToolCallMessage) else ()
    return [ToolResultMessage(tool, {"data": tool.id}) for tool in tools]


def body(model: Model, *messages: Message, **options: Any) -> dict[str, Any]:
    """Return the request body sent to the model."""
    given: dict[str, Any] = {"tools": (SEARCH,), **options}
    return model.encode(ModelRequest(messages=messages, **given))


def items(model: Model, *messages: Message, **options: Any) -> list[dict[str, Any]]:
    """The input items that the model is sent."""
    return cast("list[dict[str, Any]]", body(model, *messages, **options)["input"])


def reply(*output: dict[str, Any], model: Model = GPT_5) -> tuple[Message, ...]:
    """The messages of a response with these items."""
    return model.decode(response(*output)).messages


# ---------------------------------------------------------------------------------------- requests


def test_a_conversation_becomes_items() -> None:
    """Roles stay, the assistant's texts are its output, calls and results are paired by id."""
    asked = ToolCallMessage([ToolCall("c1", "search", {"q": "x"})])
    found = items(
        GPT_4,
        TextMessage("system", "You help."),
        USER,
        TextMessage("assistant", "Let me see."),
        asked,
        *answers(asked),
    )
    assert found == [
        {
            "type": "message",
            "role": "system",
            "content": [{"type": "input_text", "text": "You help."}],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
        },
        {"type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"q":"x"}'},
        {"type": "function_call_output", "call_id": "c1", "output": '{"data":"c1"}'},
    ]


def test_nothing_is_stored_and_reasoning_comes_encrypted() -> None:
    """Reasoning is requested of models that reason; the others refuse the option."""
    assert body(GPT_5, USER)["store"] is False
    assert body(GPT_5, USER)["include"] == ["reasoning.encrypted_content"]
    assert "include" not in body(GPT_4, USER)
    keeping = openai_responses("my-deployment", keep_reasoning=True)
    assert body(keeping, USER)["include"] == ["reasoning.encrypted_content"]


@pytest.mark.parametrize(
    ("name", "keeps"),
    [
        ("gpt-5", True),
        ("gpt-5.1-codex", True),
        ("o4-mini", True),
        ("ft:o3:acme", True),
        ("gpt-5-chat-latest", False),
        ("gpt-4o", False),
        ("gpt-4.1-mini", False),
        ("llama3.1", False),
    ],
)
def test_the_models_name_decides_whether_it_reasons(name: str, keeps: bool) -> None:
    """A name shows it only partly, so ``keep_reasoning`` overrides it."""
    assert ("include" in body(openai_responses(name), USER)) is keeps


def test_tools_are_flat_and_say_whether_they_are_strict() -> None:
    """This API takes tools for strict that do not say."""
    tools = body(GPT_4, USER, tools=(SEARCH, PING))["tools"]
    assert [(t["type"], t["name"], t["strict"]) for t in tools] == [
        ("function", "search", True),
        ("function", "ping", False),
    ]
    assert tools[0]["parameters"]["required"] == ["q", "limit"]
    assert tools[1]["parameters"] == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("any", "required"),
        ("search", {"type": "function", "name": "search"}),
    ],
)
def test_the_choice_of_a_tool_is_sent_in_this_apis_words(choice: str, sent: object) -> None:
    """Flat, too."""
    assert body(GPT_4, USER, tool_choice=choice)["tool_choice"] == sent


def test_a_choice_of_a_tool_that_is_not_there_is_a_configuration_error() -> None:
    """The error comes before the request."""
    with pytest.raises(ConfigurationError, match="refund"):
        body(GPT_4, USER, tool_choice="refund")


def test_default_parameters_overwrite_and_settings_of_tools_go_without_tools() -> None:
    """The rules are those of chat completions."""
    model = GPT_5.with_parameters(reasoning={"effort": "low"}, parallel_tool_calls=True)
    assert body(model, USER)["reasoning"] == {"effort": "low"}
    assert body(model, USER)["parallel_tool_calls"] is True
    assert body(GPT_5, USER)["parallel_tool_calls"] is False
    bare = body(model, USER, tools=())
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & bare.keys()
    assert "parallel_tool_calls" not in body(openai_responses("o4-mini"), USER)


def test_pictures_and_files_of_a_user_are_parts() -> None:
    """Bytes as data URLs; only users may show something."""
    shown = [
        TextContent("Look:"),
        ImageContent(url="https://x.test/y.png", detail="low"),
        ImageContent(data="AAAA", media_type="image/png"),
        FileContent(data="AAAA", media_type="application/pdf", name="a.pdf"),
        FileContent(url="https://x.test/a.pdf"),
    ]
    assert items(GPT_4, TextMessage("user", shown))[0]["content"] == [
        {"type": "input_text", "text": "Look:"},
        {"type": "input_image", "image_url": "https://x.test/y.png", "detail": "low"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
        {
            "type": "input_file",
            "filename": "a.pdf",
            "file_data": "data:application/pdf;base64,AAAA",
        },
        {"type": "input_file", "file_url": "https://x.test/a.pdf"},
    ]


# --------------------------------------------------------------------------------------- reasoning


def test_reasoning_goes_back_before_the_reply_after_it() -> None:
    """Both keep their ids: OpenAI refuses the one without the other."""
    made = reply(reasoning("rs_1"), reasoning("rs_2"), call("a"), call("b"))
    found = items(GPT_5, USER, *made, *[m for call_ in made for m in answers(call_)])
    assert [(item["type"], item.get("id")) for item in found[1:]] == [
        ("reasoning", "rs_1"),
        ("reasoning", "rs_2"),
        ("function_call", "fc_a"),
        ("function_call", None),
        ("function_call_output", None),
        ("function_call_output", None),
    ]


def test_reasoning_between_calls_stays_between_them() -> None:
    """Though our messages have it before the group."""
    made = reply(reasoning("rs_1"), call("a"), reasoning("rs_2"), call("b"))
    found = items(GPT_5, USER, *made, *[m for call_ in made for m in answers(call_)])
    assert [item.get("id") for item in found[1:5]] == ["rs_1", "fc_a", "rs_2", "fc_b"]


def test_an_id_of_another_shape_is_left_out_with_reasoning() -> None:
    """OpenAI wants 'fc' at its beginning; an item as such may have none."""
    made = reply(reasoning("rs_1"), {**call("a"), "id": "item_1"})
    found = items(GPT_5, USER, *made, *answers(made[1]))
    assert [item.get("id") for item in found[1:3]] == ["rs_1", None]


def test_reasoning_before_an_answer_goes_back_with_it() -> None:
    """The answer then has its id, status and phase."""
    made = reply(reasoning("rs_1"), said("Hello.", phase="final_answer"))
    found = items(GPT_5, USER, *made, USER)
    assert found[1]["id"] == "rs_1"
    assert (found[2]["id"], found[2]["status"], found[2]["phase"]) == (
        "msg_1",
        "completed",
        "final_answer",
    )


def test_reasoning_whose_call_was_filtered_out_is_left_out() -> None:
    """OpenAI refuses it "without its required following item"."""
    made = reply(reasoning("rs_1"), call("a"))
    thoughts = [m for m in made if isinstance(m, ReasoningMessage)]
    assert [item["type"] for item in items(GPT_5, USER, *thoughts, USER)] == ["message"] * 2


def test_a_call_whose_reasoning_was_filtered_out_has_no_id() -> None:
    """With the id, OpenAI would require the reasoning."""
    made = [m for m in reply(reasoning("rs_1"), call("a")) if m.type != "reasoning"]
    found = items(GPT_5, USER, *made, *answers(made[0]))
    assert [(item["type"], item.get("id")) for item in found[1:]] == [
        ("function_call", None),
        ("function_call_output", None),
    ]


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {"anthropic": {"type": "thinking", "thinking": "x", "signature": "s"}},
        {"openai-responses": {"id": "rs_1", "type": "reasoning", "summary": []}},
        {"openai-responses": {"id": "rs_1", "type": "reasoning", "encrypted_content": "x"}},
        {"openai-responses": "odd"},
    ],
)
def test_reasoning_of_others_and_without_its_content_is_left_out(metadata: Any) -> None:
    """OpenAI has not stored it."""
    thought = ReasoningMessage("Hm.", provider_metadata=metadata)
    own = {"openai-responses": {"id": "msg_1", "reasoning": ["rs_1"]}}
    answer = TextMessage("assistant", "Hello.", provider_metadata=own)
    found = items(GPT_5, USER, thought, answer)
    assert [item["type"] for item in found] == ["message"] * 2
    assert "id" not in found[1]


def test_models_that_do_not_reason_get_no_reasoning() -> None:
    """They refuse it."""
    made = reply(reasoning("rs_1"), said("Hello."))
    assert [item["type"] for item in items(GPT_4, USER, *made)] == ["message"] * 2


async def test_reasoning_survives_a_run_with_tools() -> None:
    """Decoded, kept in the state, encoded again; the strict provider accepts it."""

    def search(q: str) -> str:
        """Searches."""
        return q

    first = {**tool_calls(("search", {"q": "x"}), ("search", {"q": "y"})), "reasoning": "Hm."}
    model = ScriptedModel(first, "Found.", provider="openai_responses")
    agent = Agent(name="a", system="S", tools=[search], model=model, max_iter=2)
    assert (await agent.run("q?")).text == "Found."
    model.assert_finished()
    sent = model.bodies[1]["input"]
    assert [item["type"] for item in sent[2:]] == [
        "reasoning",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
    ]


# ----------------------------------------------------------------------------------------- answers


def test_an_answer_becomes_messages_in_its_order() -> None:
    """Reasoning, texts and calls, and what the server's own tools did."""
    summary = [{"type": "summary_text", "text": "One."}, {"type": "summary_text", "text": "Two."}]
    made = reply(
        reasoning("rs_1", summary=summary),
        {"type": "web_search_call", "id": "ws_1"},
        call("a"),
        said("Well."),
        call("b", arguments="{bad"),
    )
    assert [(m.type, m.stop_reason) for m in made] == [
        ("reasoning", None),
        ("opaque", "tool"),
        ("tool_call", "tool"),
        ("text", "tool"),
        ("tool_call", "tool"),
    ]
    assert isinstance(made[0], ReasoningMessage)
    assert made[0].content == "One.\n\nTwo."
    calls = [tool for m in made if isinstance(m, ToolCallMessage) for tool in m.tools]
    assert [(c.id, c.name, c.arguments, c.malformed) for c in calls] == [
        ("a", "search", {"q": "x"}, None),
        ("b", "search", {}, "{bad"),
    ]


def test_open_reasoning_and_refusals_are_read() -> None:
    """Open models say their reasoning in `content`; a user has a right to a refusal."""
    content = [{"type": "reasoning_text", "text": "Hm."}]
    refusal = said("", content=[{"type": "refusal", "refusal": "I cannot."}])
    thought, text = reply(reasoning("rs_1", content=content), refusal)
    assert isinstance(thought, ReasoningMessage)
    assert thought.content == "Hm."
    assert isinstance(text, TextMessage)
    assert (text.text, text.stop_reason) == ("I cannot.", "refusal")


def test_usage_and_the_reason_of_the_end_are_read() -> None:
    """Cached input and reasoning are parts of the whole."""
    usage = {
        "input_tokens": 30,
        "input_tokens_details": {"cached_tokens": 8},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 12},
    }
    made = GPT_5.decode(response(said("Hi"), usage=usage))
    assert made.usage == Usage(30, 20, 8, 12)
    assert made.finish == Finish("stop", "completed")
    assert GPT_5.decode(response(said("Hi"))).usage is None


def test_a_text_that_was_cut_is_a_reply_and_says_so() -> None:
    """A cut reply is handled like with every other provider."""
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    made = GPT_5.decode(response(reasoning("rs_1"), said("It is"), **cut))
    assert made.finish_reason == "length"
    assert [m.type for m in made.messages] == ["reasoning", "text"]


def test_a_reason_that_nobody_knows_is_another_end_with_its_word() -> None:
    """Neither a stop nor one of the reasons that we know."""
    cut = {"status": "incomplete", "incomplete_details": {"reason": "brand_new"}}
    assert GPT_5.decode(response(said("It is"), **cut)).finish == Finish(
        "other", "brand_new", {"incomplete_details": {"reason": "brand_new"}}
    )


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (
            response(status="failed", error={"message": "No luck"}),
            "No luck",
        ),
        (response(status="failed"), "failed"),
        (response(status="cancelled"), "cancelled"),
        (response(status="queued"), "queued"),
        (
            response(
                reasoning("rs_1"),
                status="incomplete",
                incomplete_details={"reason": "max_output_tokens"},
            ),
            "max_output_tokens",
        ),
        (response(status="incomplete", incomplete_details={"reason": "content_filter"}), "filter"),
        ({"status": "completed"}, "not a finished response"),
        ({"choices": []}, "not a finished response"),
        ([], "no JSON object"),
        ({"error": {"message": "No luck"}}, "No luck"),
    ],
)
def test_an_answer_that_is_none_is_a_typed_error(answer: object, what: str) -> None:
    """Failed, stopped before it said anything, of another API, or odd."""
    with pytest.raises(ModelResponseError, match=what):
        GPT_5.decode(answer)


_odd = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "id", "content", "summary", "text", "name", "call_id"]),
            inner | st.sampled_from(["message", "reasoning", "function_call", "output_text"]),
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(st.lists(_odd, max_size=3), _odd)
def test_no_answer_however_odd_is_an_untyped_error(output: list[Any], usage: Any) -> None:
    """No part of the JSON is trusted."""
    try:
        made = GPT_5.decode({"output": output, "status": "completed", "usage": usage})
    except ModelResponseError:
        return
    assert json.dumps(items(GPT_5, *made.messages))


# -------------------------------------------------------------------------------- ways to reach it


async def test_it_works_over_http() -> None:
    """The base URL of the fake, a bearer key, the path of the API."""
    with FakeProvider([Raw(reply="Hello.")], api_keys={"openai_responses": "sk-right"}) as fake:
        url = fake.base_url("openai_responses")
        model = openai_responses("gpt-5", api_key="sk-right", base_url=url)
        assert (await Agent(name="a", system="S", model=model).run("Hi")).text == "Hello."
    assert fake.requests[0].path == "/openai/v1/responses"
    assert fake.requests[0].provider == "openai_responses"
    assert fake.rejections == []


def test_inngests_gateway_sends_it_to_its_own_url_with_a_bearer_key() -> None:
    """The gateway takes what it does not know for OpenAI's: body as it is, key as Bearer."""
    bridge = GatewayAdapter(GPT_5, "sk-test")
    assert bridge.format() == "openai-chat"
    assert bridge.url_infer() == "https://api.openai.com/v1/responses"
    assert bridge.auth_key() == "sk-test"
    assert bridge.headers() == {}


def test_a_server_of_ones_own_may_go_without_key() -> None:
    """A local server needs no key, like with `openai`."""
    assert not openai_responses("gpt-oss", base_url="http://localhost:11434/v1").key_required
    assert GPT_5.key_required
    assert "authorization" not in GPT_5.adapter.headers(replace(GPT_5, api_key=None), None)
