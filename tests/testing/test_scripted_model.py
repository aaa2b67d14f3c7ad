"""ScriptedModel: what it takes for replies, and what it says when they are used up."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit_py import Agent, TextMessage, UserMessage, tool
from agentkit_py.errors import ConfigurationError, ModelError
from agentkit_py.messages import ToolCall, ToolResultMessage
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.testing.provider import ReceivedRequest


def agent(model: Any, *tools: Any) -> Agent[Any, Any]:
    """An agent that asks the model."""
    return Agent(name="a", system="S", model=model, tools=list(tools), max_iter=2)


@tool
def look() -> str:
    """Look it up."""
    return "shipped on Monday"


RESULT = ToolResultMessage(ToolCall("c", "look", {}), {"data": "x"})


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (7, "cannot reply with 7: a reply is a text, tool_call"),
        (None, "cannot reply with None"),
        ({"txt": "Hi."}, r"unknown keys \['txt'\]"),
        ({"finish": "done"}, "finish='done' is none of"),
        ({"tool_calls": ["look"]}, "its calls are"),
        (ValueError("broken"), "cannot reply with ValueError"),
        (UserMessage("Hi."), "cannot reply with UserMessage"),
        (RESULT, "cannot reply with ToolResultMessage"),
        ([RESULT], "a model says texts, calls and reasoning"),
        ([TextMessage("assistant", "Hi."), "Hi."], "a model says texts, calls and reasoning"),
    ],
)
@pytest.mark.parametrize("later", [False, True])
def test_a_value_that_is_not_a_reply_is_refused_when_the_model_is_made(
    reply: Any, said: str, later: bool
) -> None:
    """Not in the run, as an error of the provider."""
    model = ScriptedModel("Hi.")
    with pytest.raises(ConfigurationError, match=said):
        model.reply(reply) if later else ScriptedModel("Hi.", reply)


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_gives_the_reply_to_each_request(is_async: bool) -> None:
    """It sees what was sent."""

    def answer(request: ReceivedRequest) -> Any:
        return f"You said {request.body['messages'][-1]['content']}"

    async def answer_later(request: ReceivedRequest) -> Any:
        return [TextMessage("assistant", answer(request))]

    model = ScriptedModel(answer_later if is_async else answer)
    for text in ("Hi.", "Bye."):
        assert (await agent(model).run(text)).text == f"You said {text}"
    assert len(model.requests) == 2


async def test_a_function_that_gives_no_reply_is_an_error() -> None:
    """The error names the value."""
    with pytest.raises(ConfigurationError, match="cannot reply with 7"):
        await agent(ScriptedModel(lambda _request: 7)).run("Hi.")  # type: ignore[arg-type]


def test_a_function_among_replies_is_refused() -> None:
    """Which of them would be asked?"""
    with pytest.raises(ConfigurationError, match="a single function of the request"):
        ScriptedModel("Hi.", lambda _request: "Bye.")


async def test_a_script_that_is_used_up_quotes_the_last_message() -> None:
    """So that the missing reply is known without a debugger."""
    with pytest.raises(ModelError, match=r"exhausted: request 1 .*'Where is my order\?'"):
        await agent(ScriptedModel()).run("Where is my order?")
    with pytest.raises(ModelError, match=r"the result of look: .*shipped on Monday"):
        await agent(ScriptedModel(tool_call("look")), look).run("Where is my order?")


@pytest.mark.parametrize("kind", [ScriptedModel, int])
def test_a_class_in_place_of_a_model_is_refused_with_advice(kind: Any) -> None:
    """A class can be called, so it looked like a function that chooses a model."""
    with pytest.raises(ConfigurationError, match=rf"model is the class {kind.__name__}; write"):
        agent(kind)
