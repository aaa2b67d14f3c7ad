"""A FallbackModel in runs: who is asked, in which step, and what was streamed before."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from agentkit_py import Agent, State, tool
from agentkit_py.errors import (
    BadRequestError,
    ConfigurationError,
    ModelStreamError,
    RateLimitError,
    RejectedReplyError,
)
from agentkit_py.events import (
    Event,
    ModelFailedOver,
    ModelReplied,
    Projector,
    ReplyDelta,
    RunStarted,
)
from agentkit_py.messages import TextDelta, TextMessage
from agentkit_py.models import FallbackModel, Model, ModelReply, anthropic, openai
from agentkit_py.processors import Summarize
from agentkit_py.testing import EventLog, ScriptedModel, error, tool_call

from .runner import Runner


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} is under way"


def both(*first: Any, second: list[Any], **options: Any) -> FallbackModel:
    """Return OpenAI with Anthropic behind it; the breaker is the test's own."""
    options.setdefault("breaker", None)
    return FallbackModel(
        [ScriptedModel(*first), ScriptedModel(*second, provider="anthropic")], **options
    )


def scripts(model: FallbackModel) -> list[ScriptedModel]:
    """Return the models with their requests."""
    found = [one for one in model.models if isinstance(one, ScriptedModel)]
    assert len(found) == len(model.models)
    return found


async def test_the_second_model_continues_the_conversation(runner: Runner) -> None:
    """The first one fails in the middle; the second sees what it said and called."""
    model = both(
        tool_call("look_up", {"order": "7"}), error(503, "down"), second=["It is under way."]
    )
    agent = Agent(name="desk", system="Help.", tools=[look_up], model=model)
    result = await runner.run(agent, "Where is 7?")
    assert result.text == "It is under way."
    first, second = scripts(model)
    second.assert_saw("Where is 7?", "look_up", "7 is under way")
    assert (first.fake.rejections, second.fake.rejections) == ([], [])
    assert (len(first.requests), len(second.requests)) == (2, 1)
    assert result.context is not None
    said = [entry.reason for entry in result.context.entries if entry.name == "fallback"]
    assert "503" in said[0]
    assert "claude" in said[0]
    if runner.mode == "inngest":
        steps = [name for name in runner.runs[-1].names if "infer" in name]
        assert [name.rpartition("desk.")[2] for name in steps] == [
            "0.infer",
            "1.infer",
            "1.infer.fallback.1",
        ]


async def test_an_invalid_request_is_sent_to_no_other_model(runner: Runner) -> None:
    """A 400 would be one at the next provider too, and must be seen."""
    model = both(error(400, "bad tool"), second=["never"])
    agent = Agent(name="desk", system="", model=model)
    with pytest.raises(BadRequestError, match="bad tool"):
        await runner.run(agent, "Hi")
    assert scripts(model)[1].requests == []


async def test_errors_that_count_may_be_chosen(runner: Runner) -> None:
    """By class, or by a function of the error."""
    model = both(error(400, "retired"), second=["Hello."], on=[BadRequestError])
    assert (await runner.run(Agent(name="a", system="", model=model), "Hi")).text == "Hello."


async def test_rejected_reply_goes_to_the_next_model_and_is_reported(runner: Runner) -> None:
    """A predicate, a reason or a ValueError rejects; the report says why, the answer is kept."""

    def check(reply: ModelReply) -> object:
        if "json" not in reply.text:
            raise ValueError("no JSON in it")
        return None

    model = both("Sorry.", second=['{"json": 1}'], check=check)
    log = EventLog()
    result = await runner.run(Agent(name="a", system="", model=model), "Hi", observer=log)
    assert result.text == '{"json": 1}'
    kinds = [e.__class__ for e in log.events if isinstance(e, ReplyDelta | ModelFailedOver)]
    failed = kinds.index(ModelFailedOver)
    if ReplyDelta in kinds:  # streamed: before it, and after it again
        assert ReplyDelta in kinds[:failed]
        assert ReplyDelta in kinds[failed:]
    assert result.context is not None
    said = [entry.reason for entry in result.context.entries if entry.name == "fallback"]
    assert "rejected: no JSON in it" in said[0]


async def test_a_check_is_not_called_again_once_a_step_holds_its_verdict(runner: Runner) -> None:
    """One that would say otherwise later changes nothing."""
    said: list[str] = []

    def check(reply: ModelReply) -> bool:
        said.append(reply.text)
        return reply.text != "Sorry." or "" in said

    @tool
    def look() -> str:
        return "seen"

    model = both("Sorry.", "Done.", second=[tool_call("look")], check=check)
    result = await runner.run(Agent(name="a", system="", model=model, tools=[look]), "Hi")
    assert (result.text, [text for text, _ in groupby(said)]) == ("Done.", ["Sorry.", "", "Done."])


async def test_a_check_judges_a_summary_too(runner: Runner) -> None:
    """The words of the fallback model are taken."""

    def check(reply: ModelReply) -> bool:
        return reply.text != "Sorry."

    model = both("Sorry.", second=["All of it."], check=check)
    agent = Agent(
        name="a", system="", model=ScriptedModel("Hello."),
        processors=[Summarize(model, 3000, 2000, summary_tokens=300)],
    )  # fmt: skip
    said = [TextMessage("user", "word " * 200), TextMessage("assistant", "word " * 200)]
    state: State[Any] = State(messages=said * 20)
    await runner.run(agent, "Hi", state=state)
    assert isinstance(agent.model, ScriptedModel)
    agent.model.assert_saw("All of it.")


async def test_last_rejected_reply_is_an_error_and_no_answer(runner: Runner) -> None:
    """Where no reply will do, none looks like an answer."""

    def no(reply: ModelReply) -> bool:
        return False

    async def short(reply: ModelReply) -> str:
        return "too short"

    model = both("One.", second=["Two."], check=no)
    with pytest.raises(RejectedReplyError, match="returned False"):
        await runner.run(Agent(name="a", system="", model=model), "Hi")
    model = both("One.", second=["Two."], check=short)
    with pytest.raises(RejectedReplyError, match="too short"):
        await model.respond("Hi")


async def test_last_error_is_the_one_raised(runner: Runner) -> None:
    """Where all fail, the run fails as the last one did."""
    model = both(error(503, "first"), second=[error(401, "revoked")])
    agent = Agent(name="a", system="", model=model)
    with pytest.raises(Exception, match="revoked"):
        await runner.run(agent, "Hi")


async def test_events_name_the_model_that_is_called(runner: Runner) -> None:
    """Observers get the error and the model's name; the wire gets `model_fallback`."""
    log = EventLog()
    model = both(error(429, "slow down"), second=["Hello."])
    await runner.run(Agent(name="a", system="", model=model), "Hi", observer=log)
    found = [event for event in log.events if isinstance(event, ModelFailedOver)]
    assert [event.model for event in found] == ["anthropic:claude-sonnet-4-5"]
    assert "slow down" in str(found[0].error)


def test_streamed_parts_are_taken_back() -> None:
    """A part that was streamed before the failure fails; the next reply has parts of its own."""
    facts: dict[str, Any] = {"run_id": "r", "name": "a", "message_id": "m"}
    broken = ModelStreamError("broke", provider="openai", model="gpt-4o", messages=[])
    events: list[Event] = [
        RunStarted(**facts, scope="agent"),
        ReplyDelta(**facts, delta=TextDelta(0, "Hel")),
        ModelFailedOver(**facts, error=broken, model="anthropic:claude"),
        ReplyDelta(**facts, delta=TextDelta(0, "Hello")),
        ModelReplied(**facts, messages=[TextMessage("assistant", "Hello", stop_reason="stop")]),
    ]
    projector = Projector()
    chunks = [chunk for event in events for chunk in projector.feed(event)]
    parts = [c.data["partId"] for c in chunks if c.event == "part.created"]
    failed = [c.data["partId"] for c in chunks if c.event == "part.failed"]
    done = [c.data["partId"] for c in chunks if c.event == "part.completed"]
    assert (failed, done) == (parts[:1], parts[1:])
    assert any(c.data.get("type") == "model_fallback" for c in chunks)


@pytest.mark.parametrize(
    "models", [[], [openai("gpt-4.1")], [openai("gpt-4.1"), "anthropic:claude"]]
)
def test_fallback_needs_two_models(models: list[Model]) -> None:
    """Options that cannot work are refused where they are given."""
    with pytest.raises(ConfigurationError, match="at least two"):
        FallbackModel(models)


@pytest.mark.parametrize(
    "options",
    [
        {"attempts": 0},
        {"attempts": 1.5},
        {"on": [ValueError]},
        {"on": 3},
        {"on": RateLimitError},
        {"breaker": 3},
        {"check": 1},
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any]) -> None:
    """The error names option and value."""
    [name] = options
    with pytest.raises(ConfigurationError, match=rf"FallbackModel\({name}="):
        FallbackModel([openai("gpt-4.1"), anthropic("claude-opus-5")], **options)


def test_smallest_window_counts() -> None:
    """Processors shorten the history so that each of the models can take it."""
    model = FallbackModel([openai("gpt-4.1"), anthropic("claude-sonnet-4-5")])
    assert model.context_window == 200_000
    assert [m.default_parameters["seed"] for m in model.with_parameters(seed=1).models] == [1, 1]
