"""When a provider says that a request is longer than the model's window."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit_py import Agent, AgentResult, Lifecycle, Message, State, TextMessage
from agentkit_py.errors import ContextOverflowError
from agentkit_py.events import ContextBuilt
from agentkit_py.messages import ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors import ApproximateTokenizer, ContextPolicy, Pin, Redact
from agentkit_py.testing import EventLog, ScriptedModel, tool_call
from agentkit_py.testing import error as error_reply

from .runner import Runner

COUNT = ApproximateTokenizer(chars_per_token=1)
TOO_LONG = error_reply(400, "This model's maximum context length is 8192 tokens.")


def past(count: int, size: int = 100) -> list[Message]:
    """Questions and answers in turn."""
    roles: list[Any] = ["user", "assistant"]
    return [TextMessage(roles[n % 2], f"{n:04}".ljust(size, "x")) for n in range(count)]


def clerk(model: ScriptedModel, **more: Any) -> Agent:
    """An agent that counts characters."""
    return Agent(name="clerk", system="S", model=model, token_counter=COUNT, **more)


async def test_half_of_it_is_sent_once_more(runner: Runner) -> None:
    """The newest half; the report of the result names what was done, and is announced."""
    model = ScriptedModel(TOO_LONG, "Short enough.")
    log = EventLog()
    result = await runner.run(clerk(model), "Now?", state=State(messages=past(40)), observer=log)
    assert result.text == "Short enough."
    assert result.context is not None
    entry = result.context.entries[-1]
    assert (entry.level, entry.name) == ("overflow", "ContextOverflow")
    assert "refused 4005 tokens" in entry.reason
    assert entry.messages_after == (4005 // 2 - 5) // 100
    assert result.context.tokens_after <= 4005 // 2
    model.assert_saw("0039", "Now?")
    model.assert_not_saw("0000")
    assert [event.report for event in log.of(ContextBuilt)][-1] is result.context
    assert len(result.history) == entry.messages_after


async def test_a_second_refusal_is_the_typed_error(runner: Runner) -> None:
    """There is one retry."""
    model = ScriptedModel(TOO_LONG, TOO_LONG, "never")
    with pytest.raises(ContextOverflowError):
        await runner.run(clerk(model), "Now?", state=State(messages=past(40)))
    assert len(model.requests) == 2


async def test_nothing_is_sent_twice_where_nothing_can_be_left_out(runner: Runner) -> None:
    """A question that is too long by itself."""
    model = ScriptedModel(TOO_LONG, "never")
    with pytest.raises(ContextOverflowError):
        await runner.run(clerk(model), "x" * 9000)
    assert len(model.requests) == 1


async def test_the_typescript_mode_does_as_typescript(runner: Runner) -> None:
    """It fails at once."""
    model = ScriptedModel(TOO_LONG, "never")
    agent = clerk(model, history_mode="typescript")
    with pytest.raises(ContextOverflowError):
        await runner.run(agent, "Now?", state=State(messages=past(40)))
    assert len(model.requests) == 1


async def test_the_agents_own_calls_stay_with_shorter_results(runner: Runner) -> None:
    """The model waits for them; the strict provider would refuse half of a call group."""

    def look() -> str:
        """Look."""
        return "r" * 6000

    model = ScriptedModel(tool_call("look"), TOO_LONG, "Done.")
    agent = clerk(model, tools=[look], max_iter=3)
    result = await runner.run(agent, "Go", state=State(messages=past(10)))
    model.assert_finished()
    assert result.text == "Done."
    model.assert_saw("characters left out")
    assert result.context is not None
    assert "results of the current calls shortened" in result.context.entries[-1].reason
    assert result.context.tokens_after < 7000 // 2


async def test_calls_and_results_of_the_past_go_together(runner: Runner) -> None:
    """Halving at any point keeps each call with its result."""
    messages: list[Message] = []
    for n in range(15):
        call = ToolCall(f"c{n}", "look", {})
        messages += [
            TextMessage("user", f"{n}".ljust(70 + n)),
            ToolCallMessage([call]),
            ToolResultMessage(call, {"data": "r" * (100 + 7 * n)}),
            TextMessage("assistant", "a" * 50),
        ]
    for start in range(0, 40, 3):
        model = ScriptedModel(TOO_LONG, "Done.")
        state = State(messages=messages[start - start % 4 :])
        await runner.run(clerk(model, tools=[]), "Go", state=state)
        model.assert_finished()


async def test_pinned_messages_stay(runner: Runner) -> None:
    """It survives everything."""
    model = ScriptedModel(TOO_LONG, "Done.")
    agent = clerk(model, processors=[Pin(lambda m: "0003" in getattr(m, "text", ""))])
    await runner.run(agent, "Go", state=State(messages=past(40)))
    model.assert_saw("0003", "0039")


@pytest.mark.parametrize("place", ["policy", "masked"])
async def test_pinned_messages_stay_in_every_place_and_wording(runner: Runner, place: str) -> None:
    """In a policy of several processors, and masked by another processor."""
    pin = Pin(lambda m: "0003" in getattr(m, "text", ""))
    policy = ContextPolicy("mine", [(pin, "The order's number.")])
    given = [policy] if place == "policy" else [pin, Redact({"number": "0003x"})]
    model = ScriptedModel(TOO_LONG, "Done.")
    await runner.run(clerk(model, processors=given), "Go", state=State(messages=past(40)))
    model.assert_saw("0003" if place == "policy" else "[number]", "0039")
    model.assert_not_saw("0005")


async def test_the_hook_sees_the_reply_of_the_second_request(runner: Runner) -> None:
    """The hook runs once."""
    seen: list[AgentResult] = runner.again([])
    model = ScriptedModel(TOO_LONG, "Done.")
    lifecycle = Lifecycle(on_response=lambda context: seen.append(context.result))
    await runner.run(clerk(model, lifecycle=lifecycle), "Go", state=State(messages=past(40)))
    assert [result.text for result in seen] == ["Done."]


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "grok", "azure_openai"])
async def test_every_providers_words_are_known(runner: Runner, provider: Any) -> None:
    """Each provider reports an overflow with a message of its own."""
    words = {
        "openai": "This model's maximum context length is 128000 tokens. However, your messages "
        "resulted in 130000 tokens.",
        "azure_openai": "This model's maximum context length is 128000 tokens.",
        "anthropic": "prompt is too long: 210000 tokens > 200000 maximum",
        "gemini": "The input token count (1100000) exceeds the maximum number of tokens allowed "
        "(1048576).",
        "grok": "This model's maximum prompt length is 131072 but the request contains 140000 "
        "tokens.",
    }[provider]
    model = ScriptedModel(error_reply(400, words), "Done.", provider=provider)
    result = await runner.run(clerk(model), "Now?", state=State(messages=past(40)))
    assert result.text == "Done."


async def test_a_streamed_call_is_sent_again_too() -> None:
    """The first request streamed no delta."""
    model = ScriptedModel(TOO_LONG, "Short enough.")
    async with clerk(model).stream("Now?", state=State(messages=past(40))) as stream:
        async for _ in stream:
            pass
    assert stream.result.text == "Short enough."
