"""Why a reply ended is told, and a reply that was cut never looks like an answer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agentkit_py import Agent, AgentResult, Network, RouterContext, tool
from agentkit_py.errors import ConfigurationError, EmptyReplyError
from agentkit_py.messages import OpaqueMessage, TextMessage
from agentkit_py.models import Model, ModelRequest, anthropic, gemini, openai, openai_responses
from agentkit_py.routing import sequence
from agentkit_py.testing import FakeProvider, Raw

from .runner import Runner

GEMINI = "gemini-2.5-flash"
MODELS: dict[str, Any] = {
    "chat": lambda: openai("gpt-4o", api_key="k"),
    "responses": lambda: openai_responses("gpt-4.1", api_key="k"),
    "anthropic": lambda: anthropic("claude-sonnet-4-5", api_key="k"),
    "gemini": lambda: gemini(GEMINI, api_key="k"),
}
CUT = {
    "chat": "length",
    "responses": "max_output_tokens",
    "anthropic": "max_tokens",
    "gemini": "MAX_TOKENS",
}
REFUSED = {
    "chat": "content_filter",
    "responses": "content_filter",
    "anthropic": "refusal",
    "gemini": "SAFETY",
}


def body(
    kind: str, word: str, text: str = "", call: dict[str, Any] | None = None, name: str = "wipe"
) -> dict[str, Any]:
    """A reply of one format, with a text, a call with these arguments, or neither."""
    match kind:
        case "chat":
            function = {"name": name, "arguments": json.dumps(call)}
            calls = [{"id": "c1", "type": "function", "function": function}]
            message = {"role": "assistant", "content": text or None}
            message |= {"tool_calls": calls} if call is not None else {}
            return {"choices": [{"index": 0, "message": message, "finish_reason": word}]}
        case "responses":
            output: list[Any] = []
            if text:
                part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
                output.append({"type": "message", "role": "assistant", "content": [part]})
            if call is not None:
                output.append(
                    {
                        "type": "function_call",
                        "call_id": "c1",
                        "name": name,
                        "arguments": json.dumps(call),
                    }
                )
            ended = {"status": "completed"}
            if word != "completed":
                ended = {"status": "incomplete", "incomplete_details": {"reason": word}}
            return {"object": "response", "output": output, **ended}
        case "anthropic":
            blocks: list[Any] = [{"type": "text", "text": text}] if text else []
            if call is not None:
                blocks.append({"type": "tool_use", "id": "c1", "name": name, "input": call})
            return {"type": "message", "role": "assistant", "content": blocks, "stop_reason": word}
        case _:
            parts: list[Any] = [{"text": text}] if text else []
            parts += [{"functionCall": {"name": name, "args": call}}] if call is not None else []
            content = {"content": {"role": "model", "parts": parts}} if parts else {}
            return {"candidates": [{**content, "finishReason": word}]}


def at(fake: FakeProvider, model: Model) -> Model:
    """The model, served by the stand-in."""
    return replace(model, transport=fake.transport)


USED: dict[str, dict[str, Any]] = {
    "chat": {"usage": {"prompt_tokens": 40, "completion_tokens": 60, "total_tokens": 100}},
    "responses": {"usage": {"input_tokens": 40, "output_tokens": 60}},
    "anthropic": {"usage": {"input_tokens": 40, "output_tokens": 60}},
    "gemini": {"usageMetadata": {"promptTokenCount": 40, "candidatesTokenCount": 60}},
}


def once(agent: Agent) -> Any:
    """A router that gives one agent one turn."""

    def route(context: RouterContext) -> Agent | None:
        return None if context.call_count else agent

    return route


DONE = {"chat": "stop", "responses": "completed", "anthropic": "end_turn", "gemini": "STOP"}


@pytest.mark.parametrize("kind", MODELS)
async def test_a_cut_text_says_so_on_result_message_and_thread(runner: Runner, kind: str) -> None:
    """The provider's word is beside the one of all providers."""
    fake = FakeProvider([Raw(json=body(kind, CUT[kind], "It is"))])
    result = await runner.run(Agent(name="a", system="S", model=at(fake, MODELS[kind]())), "x")
    assert result.finish is not None
    assert (result.finish_reason, result.finish.word) == ("length", CUT[kind])
    assert (result.text, result.stop_reason) == ("It is", "length")
    assert [m.stop_reason for m in result.output] == ["length"]
    again = AgentResult.from_dict(result.to_dict())
    assert again.finish == result.finish


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("words", [CUT, REFUSED])
async def test_a_reply_of_nothing_that_was_stopped_is_a_typed_error(
    runner: Runner, kind: str, words: dict[str, str]
) -> None:
    """An empty text would look like an answer."""
    fake = FakeProvider([Raw(json=body(kind, words[kind]))])
    with pytest.raises(EmptyReplyError) as found:
        await runner.run(Agent(name="a", system="S", model=at(fake, MODELS[kind]())), "x")
    assert found.value.finish_reason in ("length", "content_filter", "refusal")


@pytest.mark.parametrize("kind", MODELS)
async def test_a_call_of_a_cut_reply_is_not_run(runner: Runner, kind: str) -> None:
    """Its arguments may be incomplete: `{}` would run the tool with its defaults."""
    ran: list[str] = []

    @tool
    def wipe(path: str = "/") -> str:
        """Wipe a disk."""
        ran.append(path)
        return "wiped"

    cut = Raw(json=body(kind, CUT[kind], call={}))
    fake = FakeProvider([cut, Raw(json=body(kind, DONE[kind], "Sorry."))])
    agent = Agent(name="a", system="S", model=at(fake, MODELS[kind]()), tools=[wipe])
    result = await runner.run(agent, "x")
    assert ran == []
    assert result.text == "Sorry."
    assert "was not run" in str(fake.requests[1].body)


@pytest.mark.parametrize("kind", MODELS)
async def test_a_network_whose_last_reply_was_cut_does_not_say_done(
    runner: Runner, kind: str
) -> None:
    """A program that asks for `run.stop_reason` only must see it, too."""
    fake = FakeProvider([Raw(json=body(kind, CUT[kind], "It is"))])
    agent = Agent(name="a", system="S", model=at(fake, MODELS[kind]()))
    run = await runner.run(Network(name="n", agents=[agent], router=once(agent)), "x")
    assert (run.stop_reason, run.text) == ("length", "It is")


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("call", [{"name": "b"}, None])
async def test_a_cut_reply_of_a_routing_agent_does_not_end_the_run(
    runner: Runner, kind: str, call: dict[str, Any] | None
) -> None:
    """Neither is the beginning of a name the name of an agent."""
    fake = FakeProvider([Raw(json=body(kind, CUT[kind], "I", call, "select_agent"))])
    model = at(fake, MODELS[kind]())
    agents = [Agent(name=name, system="S", model=model) for name in "ab"]
    run = await runner.run(Network(name="n", agents=agents, default_model=model), "x")
    assert (run.stop_reason, run.results) == ("length", [])


@pytest.mark.parametrize("kind", MODELS)
async def test_an_empty_reply_is_counted_with_its_usage(runner: Runner, kind: str) -> None:
    """An agent that was called as a tool fails, and the run continues with less left."""
    empty = body(kind, CUT[kind]) | USED[kind]
    asked = body(kind, DONE[kind], call={"task": "x"})
    fake = FakeProvider([Raw(json=asked), Raw(json=empty), Raw(json=body(kind, DONE[kind], "No."))])
    model = at(fake, MODELS[kind]())
    inner = Agent(name="inner", system="S", model=model, description="Wipes.")
    agent = Agent(name="a", system="S", model=model, tools=[inner.as_tool(name="wipe")])
    run = await runner.run(Network(name="n", agents=[agent], router=once(agent)), "x")
    assert run.text == "No."
    assert run.usage.total_tokens == 100


async def test_a_paused_reply_is_continued_and_does_not_count(runner: Runner) -> None:
    """Claude pauses long turns of its own tools: what it said goes back as it is."""
    call = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "x"},
    }
    found: dict[str, Any] = {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [],
    }
    paused: dict[str, Any] = {
        "type": "message",
        "role": "assistant",
        "content": [call, found],
        "stop_reason": "pause_turn",
    }
    fake = FakeProvider([Raw(json=paused), Raw(json=body("anthropic", "end_turn", "Done."))])
    search = [{"type": "web_search_20250305", "name": "web_search"}]
    model = anthropic("claude-sonnet-4-5", api_key="k", default_parameters={"tools": search})
    result = await runner.run(Agent(name="a", system="S", model=at(fake, model), max_iter=1), "x")
    assert (result.text, result.stop_reason) == ("Done.", None)
    assert fake.requests[1].body["messages"][-1] == {"role": "assistant", "content": [call, found]}


GEMINI_4 = "gemini-4-argon"


def hop(text: str, **end: Any) -> Raw:
    """Return one response of a long answer."""
    content = {"role": "model", "parts": [{"text": text}] if text else []}
    return Raw(json={"candidates": [{"content": content, **end}]})


@pytest.mark.parametrize("first", ["Once upon ", ""])
async def test_a_long_answer_of_gemini_is_continued_by_its_token(
    runner: Runner, first: str
) -> None:
    """The request is the same with the token, not with the part that was written."""
    token, next_token = "dG9rZW4=", "bmV4dA=="
    fake = FakeProvider(
        [
            hop(first, finishReason="CONTINUATION", continuationToken=token),
            hop("a time ", finishReason="CONTINUATION", continuationToken=next_token),
            hop("it ended.", finishReason="STOP"),
            hop("You are welcome.", finishReason="STOP"),
        ]
    )
    model = at(fake, gemini(GEMINI_4, api_key="k"))
    agent = Agent(name="a", system="S", model=model, max_iter=1)
    run = await runner.run(Network(name="n", agents=[agent], router=sequence(agent, agent)), "x")
    bodies = [request.body for request in fake.requests]
    assert [body.get("continuationToken") for body in bodies] == [None, token, next_token, None]
    assert bodies[1]["contents"] == bodies[2]["contents"] == bodies[0]["contents"]
    told = "".join(part["text"] for part in bodies[3]["contents"][1]["parts"])
    assert told == f"{first}a time it ended."
    assert (run.text, run.stop_reason) == ("You are welcome.", "done")


async def test_a_long_answer_without_a_token_is_cut(runner: Runner) -> None:
    """Nothing can continue it."""
    fake = FakeProvider([hop("Once upon ", finishReason="CONTINUATION")])
    agent = Agent(name="a", system="S", model=at(fake, gemini(GEMINI_4, api_key="k")))
    result = await runner.run(agent, "x")
    assert (result.text, result.stop_reason, len(fake.requests)) == ("Once upon ", "length", 1)


@pytest.mark.parametrize("kind", ["chat", "anthropic", "gemini"])
def test_an_unknown_end_of_a_reply_is_not_a_stop(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The provider's word is kept, and logged once."""
    words = [f"A_NEW_{kind}_{number}" for number in range(2)] * 2
    replies = [MODELS[kind]().decode(body(kind, word, "half")) for word in words]
    assert {reply.finish and reply.finish.reason for reply in replies} == {"other"}
    assert [reply.finish and reply.finish.word for reply in replies] == words
    assert len([record for record in caplog.records if "A_NEW" in record.message]) == 2


@pytest.mark.parametrize(
    "candidate",
    [
        {"content": {"role": "model"}, "finishReason": "UNEXPECTED_TOOL_CALL"},
        {"content": {"parts": [{"functionCall": {"args": {"q": "x"}}}]}, "finishReason": "STOP"},
    ],
)
async def test_a_call_of_no_tool_by_gemini_can_be_mended(
    runner: Runner, candidate: dict[str, Any]
) -> None:
    """The model reads that its call was not run."""

    @tool
    def look(q: str) -> str:
        """Look something up."""
        return q

    broken = Raw(json={"candidates": [candidate]})
    fake = FakeProvider([broken, Raw(json=body("gemini", "STOP", "Well."))])
    agent = Agent(name="a", system="S", model=at(fake, gemini(GEMINI, api_key="k")), tools=[look])
    result = await runner.run(agent, "x")
    assert result.text == "Well."
    assert "Available: look" in str(fake.requests[1].body)


async def test_a_call_that_gemini_could_not_read_can_be_mended(runner: Runner) -> None:
    """The model reads what was wrong, as with any malformed arguments."""

    @tool
    def look(q: str) -> str:
        """Look something up."""
        return q

    said = "Malformed function call: print(default_api.look(q='x'"
    broken = {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": said}]}
    fake = FakeProvider([Raw(json=broken), Raw(json=body("gemini", "STOP", "Well."))])
    agent = Agent(name="a", system="S", model=at(fake, gemini(GEMINI, api_key="k")), tools=[look])
    result = await runner.run(agent, "x")
    assert result.text == "Well."
    assert "are no JSON" in str(fake.requests[1].body)


def test_split_texts_are_one_and_others_are_lines() -> None:
    """Claude splits a cited answer into blocks; what a hook adds is a line of its own."""
    claude = anthropic("claude-sonnet-4-5", api_key="k")
    cited = {"type": "text", "text": "42", "citations": [{"type": "char_location"}]}
    blocks = [{"type": "text", "text": "It is "}, cited, {"type": "text", "text": "."}]
    reply = claude.decode({"type": "message", "content": blocks, "stop_reason": "end_turn"})
    result = AgentResult("a", reply.messages)
    assert (result.text, result.citations) == ("It is 42.", ({"type": "char_location"},))
    assert (
        AgentResult("a", [TextMessage("assistant", "a"), TextMessage("assistant", "b")]).text
        == "a\nb"
    )


def test_a_reply_of_an_image_only_has_a_text() -> None:
    """It is said in words."""
    image = OpaqueMessage({"type": "image_generation_call", "result": "aGk="}, "openai-responses")
    assert AgentResult("a", [image]).text == "[image_generation_call]"


HOSTED: dict[str, dict[str, Any]] = {
    "responses": {"type": "web_search"},
    "anthropic": {"type": "web_search_20250305", "name": "web_search"},
    "gemini": {"googleSearch": {}},
}


@pytest.mark.parametrize("kind", HOSTED)
async def test_hosted_tools_are_offered_with_an_agents_own(runner: Runner, kind: str) -> None:
    """Asking for one does not replace the functions."""

    @tool
    def look(q: str) -> str:
        """Look something up."""
        return q

    fake = FakeProvider([Raw(json=body(kind, DONE[kind], "Well."))], strict=False)
    model = at(fake, MODELS[kind]())
    own = Agent(name="a", system="S", model=model, tools=[look], hosted_tools=["web_search"])
    await runner.run(own, "x")
    tools = fake.requests[0].body["tools"]
    assert HOSTED[kind] in tools
    assert "look" in str(tools)


def test_a_format_without_hosted_tools_says_so() -> None:
    """Nothing is left out in silence."""
    request = ModelRequest(messages=(TextMessage("user", "x"),), hosted=("web_search",))
    with pytest.raises(ConfigurationError, match="without hosted tools"):
        openai("gpt-4o", api_key="k").encode(request)
    with pytest.raises(ConfigurationError, match="no tool of this name"):
        gemini(GEMINI, api_key="k").encode(replace(request, hosted=("image_generation",)))
