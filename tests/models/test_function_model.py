"""A model that is a function: what it is asked, what it may reply, and that a replay knows it."""

from __future__ import annotations

import json
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, MemoryHistory, TextMessage, explain, tool
from agentkit_py.codec import message_to_dict
from agentkit_py.errors import ConfigurationError, ModelError, ModelResponseError
from agentkit_py.inngest import create_functions
from agentkit_py.messages import Finish, ReasoningMessage, ToolCall, ToolCallMessage, Usage
from agentkit_py.models import FallbackModel, Model, ModelReply, ModelRequest, function_model
from agentkit_py.processors import Summarize
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing.executor import ReplayExecutor

CALL = ToolCall("c1", "track", {"parcel": 17}, provider_metadata={"function": {"seen": True}})
REASONS = ReasoningMessage("They want a place.", provider_metadata={"function": {"key": "k"}})
ASKS = ModelReply(
    messages=(REASONS, ToolCallMessage((CALL,))),
    usage=Usage(120, 12, 100, 7),
    finish=Finish("tool_calls", "tool"),
)


@tool
def track(parcel: int) -> str:
    """Say where a parcel is."""
    return f"{parcel} is in Linz"


def script(*replies: ModelReply | str) -> tuple[Model, list[ModelRequest]]:
    """A model that gives these replies in order, and what it is asked."""
    asked: list[ModelRequest] = []

    async def function(request: ModelRequest) -> ModelReply | str:
        asked.append(request)
        return replies[len(asked) - 1]

    return function_model(function, model="rules"), asked


async def run(model: Model) -> Any:
    """Ask an agent that may track, without any environment."""
    agent = Agent(name="support", system="Be brief.", model=model, tools=[track], max_iter=3)
    return await agent.run("Where is 17?", runtime=DirectRuntime(environment={}))


async def test_a_text_is_a_whole_reply() -> None:
    """No key, no network, no wire format."""
    model, asked = script("In Linz.")
    result = await run(model)
    assert result.text == "In Linz."
    assert result.output[0].stop_reason == "stop"
    assert [message.role for message in asked[0].messages] == ["system", "user"]
    assert [spec.name for spec in asked[0].tools] == ["track"]


async def test_a_reply_may_hold_reasoning_tool_calls_and_usage() -> None:
    """The function sees the results in its next request."""
    model, asked = script(ASKS, "In Linz.")
    result = await run(model)
    assert result.text == "In Linz."
    assert asked[1].messages[-1].type == "tool_result"
    assert {"data": "17 is in Linz"} in [getattr(m, "content", None) for m in asked[1].messages]


async def test_the_answer_is_kept_as_json() -> None:
    """Results and logged requests need the answer as JSON, like those of providers."""
    model, _ = script(ASKS)
    request = ModelRequest(messages=(TextMessage("user", "Where is 17?"),))
    body = model.with_parameters(mood="calm").encode(request)
    assert json.loads(json.dumps(body)) == {"model": "rules", "mood": "calm"}
    assert model.answers is not None
    answer = await model.answers(body)
    assert model.decode(answer) == ASKS
    assert model.decode(json.loads(json.dumps(answer))) == ASKS
    text, _ = script("hi")
    said = {"type": "text", "role": "assistant", "content": "hi", "stop_reason": "stop"}
    assert json.loads((await run(text)).raw)["messages"] == [said]


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (None, "gave no ModelReply and no text"),
        (ModelReply(messages=(TextMessage("user", "hi"),)), "texts, calls, reasoning"),
    ],
)
async def test_an_impossible_reply_is_an_error_of_the_model(reply: Any, says: str) -> None:
    """A function that forgot its return is the usual case."""
    model, _ = script(reply)
    with pytest.raises(ModelResponseError, match=says):
        await run(model)


def says_hi(_: ModelRequest) -> str:
    """A function that is not async."""
    return "hi"


@pytest.mark.parametrize("function", [None, "hi", says_hi])
async def test_a_value_that_is_not_an_async_function_is_named(function: Any) -> None:
    """The error comes when the model is made if possible, else at its first call."""
    with pytest.raises(ConfigurationError, match="function_model takes an async function"):
        await run(function_model(function))


@pytest.mark.parametrize("body", [None, [], {}, {"messages": [{"said": "hi"}]}, {"choices": []}])
def test_the_reply_of_another_model_is_refused(body: Any) -> None:
    """A function whose model was changed while its run continued."""
    model, _ = script()
    with pytest.raises(ModelResponseError, match="no reply that this model has given"):
        model.decode(body)


async def fails(_: ModelRequest) -> str:
    """A function with an error of its own."""
    raise LookupError("no rule for that")


async def test_an_error_of_the_function_is_a_failed_model() -> None:
    """Its cause is the function's error; another try may help."""
    with pytest.raises(ModelError, match="LookupError: no rule for that") as caught:
        await run(function_model(fails))
    assert isinstance(caught.value.__cause__, LookupError)
    assert caught.value.retriable


async def test_the_next_model_is_asked_after_a_function_that_fails() -> None:
    """As after any failed model."""
    works, asked = script(ModelReply(messages=(TextMessage("assistant", "from the second"),)))
    result = await run(FallbackModel([function_model(fails), works]))
    assert (result.text, len(asked)) == ("from the second", 1)


async def test_a_summary_is_left_out_where_its_function_fails() -> None:
    """The run continues, and the report says why there is no summary."""
    works, asked = script("fine", "fine", "fine")
    store = MemoryHistory(processors=[Summarize(function_model(fails), 20, 10, min_messages=1)])
    agent = Agent(name="a", system="S", model=works, history=store)
    await agent.run("word " * 30, thread_id="t")
    result = await agent.run("word " * 30, thread_id="t")
    assert len(asked) == 2
    assert result.context is not None
    assert "no rule for that" in str([entry.reason for entry in result.context.entries])


async def test_text_of_another_agent_is_a_reply_in_both_modes() -> None:
    """A function may pass on the messages of a run of its own; they came signed."""

    async def passes_on(_: ModelRequest) -> ModelReply:
        said = TextMessage("assistant", "In Linz.", agent="tracker", from_history=True)
        return ModelReply(messages=(said,))

    agent = Agent(name="support", system="Be brief.", model=function_model(passes_on))
    direct = await agent.run("Where is 17?", runtime=DirectRuntime(environment={}))
    client = inngest.Inngest(app_id="app", is_production=False)
    executor = ReplayExecutor(client, create_functions(client, agents=[agent]))
    done: Any = await executor.run("app/agent-support", {"input": "Where is 17?"})
    assert [message_to_dict(m) for m in direct.output] == done.output["results"][0]["output"]
    assert direct.output[0].agent == "support"


async def test_explain_works_without_asking_the_function() -> None:
    """It is dry."""
    model, asked = script()
    agent = Agent(name="support", system="Be brief.", model=model, tools=[track], max_iter=1)
    report = await explain(agent, input="Where is 17?")
    assert [message.role for message in report.prompt] == ["system", "user"]
    assert asked == []


@pytest.mark.parametrize("inference", ["local", "offload"])
async def test_an_inngest_run_asks_once_and_remembers_the_reply(inference: Any) -> None:
    """Replays of the function reuse the remembered reply."""
    model, asked = script(ASKS, "In Linz.")
    agent = Agent(name="support", system="Be brief.", model=model, tools=[track], max_iter=3)
    client = inngest.Inngest(app_id="app", is_production=False)
    functions = create_functions(client, agents=[agent], inference=inference)
    executor = ReplayExecutor(client, functions)
    done = await executor.run("app/agent-support", {"input": "Where is 17?"})
    assert done.status == "completed", done.error
    assert "In Linz." in json.dumps(done.output)
    assert len(asked) == 2
    assert asked[1].messages[-1].type == "tool_result"
