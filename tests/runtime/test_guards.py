"""Guards of model calls: breakers and limits, each with a clock of the test's own."""

from __future__ import annotations

from typing import Any

import pytest

from agentkit_py import Agent
from agentkit_py.errors import ConfigurationError, ModelNotAskedError, ProviderUnavailableError
from agentkit_py.messages import Usage
from agentkit_py.models import FallbackModel, RetryPolicy, anthropic, openai
from agentkit_py.models.base import GuardedCall
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.runtime.guards import Breaker, RateLimits
from agentkit_py.testing import FakeProvider, ScriptedModel, error, text


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


async def test_open_breaker_asks_the_second_at_once() -> None:
    """After failures in a row the first is left alone, until one request finds it well again."""
    now = [0.0]
    breaker = Breaker(failures=2, seconds=30, clock=lambda: now[0])
    model = both(
        error(503, "down"),
        error(503, "down"),
        "Back.",
        "Still.",
        second=["1", "2", "3"],
        breaker=breaker,
    )
    agent = Agent(name="a", system="", model=model)
    first = scripts(model)[0]
    for _ in range(3):
        await agent.run("Hi")
    assert len(first.requests) == 2
    now[0] = 31.0
    assert (await agent.run("Hi")).text == "Back."
    assert (await agent.run("Hi")).text == "Still."


async def test_open_breaker_costs_neither_a_request_nor_a_wait() -> None:
    """The first model has retries with pauses; once left alone, the second is asked alone."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    fake = FakeProvider(lambda r: error(503, "down") if r.provider == "openai" else text("Yes."))
    policy = RetryPolicy(attempts=3, min_wait=5)
    models = [openai("gpt-4.1", api_key="k", retry=policy), anthropic("claude-opus-5", api_key="k")]
    model = FallbackModel(models, attempts=3, breaker=Breaker(failures=3, seconds=30))
    runtime = DirectRuntime(transport=fake.transport, sleep=sleep)
    agent = Agent(name="a", system="", model=model)
    for _ in range(3):
        assert (await agent.run("Hi", runtime=runtime)).text == "Yes."
    asked = [request.provider for request in fake.requests]
    assert asked == ["openai"] * 3 + ["anthropic"] * 3
    assert len(waits) == 2  # between the first three


async def test_breaker_of_one_model_is_an_error_that_says_when() -> None:
    """Without an alternative the caller hears when to come again."""
    breaker = Breaker(failures=1, seconds=30, clock=lambda: 5.0)
    model = ScriptedModel(error(500, "down"), guards=[breaker])
    agent = Agent(name="a", system="", model=model)
    with pytest.raises(ProviderUnavailableError):
        await agent.run("Hi")
    with pytest.raises(ModelNotAskedError, match=r"30\.0 s") as caught:
        await agent.run("Hi")
    assert caught.value.retry_after == 30.0


async def test_fallback_answers_without_an_agent() -> None:
    """`respond` goes the same way."""
    model = both(error(500, "down"), second=["Hello."])
    assert (await model.respond("Hi")).text == "Hello."


class Time:
    """A clock that passes while one waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        """Return the seconds."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.waits.append(seconds)
        self.now += seconds


def call(tokens: int = 10, account: str = "a") -> GuardedCall:
    """Return a request."""
    return GuardedCall(model=openai("gpt-4.1", api_key="k"), account=account, tokens=tokens)


async def test_requests_wait_until_the_minute_has_room() -> None:
    """The third of two a minute waits for the first one's minute to end; accounts are apart."""
    time = Time()
    limits = RateLimits(requests=2, clock=time, sleep=time.sleep)
    for _ in range(2):
        await limits.leave(call(), await limits.enter(call()), None, None)
    await limits.enter(call(account="b"))
    assert time.waits == []
    await limits.enter(call())
    assert time.waits == [60.0]


async def test_tokens_are_estimated_and_then_counted() -> None:
    """A reply's tokens make the next one wait; a request too large for a minute is sent alone."""
    time = Time()
    limits = RateLimits(tokens=100, clock=time, sleep=time.sleep)
    ticket = await limits.enter(call(10))
    await limits.leave(call(10), ticket, Usage(10, 85), None)
    await limits.enter(call(10))
    assert time.waits == [60.0]
    await limits.enter(call(1000))
    assert time.waits == [60.0, 60.0]


async def test_only_so_many_requests_are_under_way() -> None:
    """The next one waits until one has ended, and gives up after `max_wait`."""
    time = Time()
    limits = RateLimits(concurrency=1, max_wait=1, clock=time, sleep=time.sleep)
    ticket = await limits.enter(call())
    with pytest.raises(ModelNotAskedError, match=r"RateLimits\(concurrency=1\)"):
        await limits.enter(call())
    await limits.leave(call(), ticket, None, None)
    await limits.enter(call())


def test_wrong_guards_are_refused() -> None:
    """The error names the value."""
    with pytest.raises(ConfigurationError, match="requests=0"):
        RateLimits(requests=0)
    with pytest.raises(ConfigurationError, match="max_wait=nan"):
        RateLimits(max_wait=float("nan"))
    with pytest.raises(ConfigurationError, match="failures=0"):
        Breaker(failures=0)
    with pytest.raises(ConfigurationError, match="seconds='5'"):
        Breaker(seconds="5")  # type: ignore[arg-type] - on purpose: it is refused
