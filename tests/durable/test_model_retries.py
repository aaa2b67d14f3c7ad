"""A model's own retry policy in a durable run, and the tokens that its steps show."""

from __future__ import annotations

from typing import Any

import inngest
import pytest

from agentkit_py import Agent, openai
from agentkit_py.inngest import FunctionOptions, create_functions
from agentkit_py.models import RetryPolicy
from agentkit_py.testing import FakeProvider
from agentkit_py.testing.executor import ReplayExecutor, Run
from agentkit_py.testing.provider import error


async def run(replies: list[Any], *, retries: int, **options: Any) -> tuple[Run, int]:
    """Run an agent; gives the run, and the number of requests."""
    fake = FakeProvider(replies)
    agent = Agent(name="a", system="S", model=openai("gpt-4o", api_key="k", **options))
    client = inngest.Inngest(app_id="app", is_production=False)
    made = {"a": FunctionOptions(retries=retries)}
    functions = create_functions(client, agents=[agent], options=made)
    executor = ReplayExecutor(client, functions, transport=fake.transport)
    found = await executor.run("app/agent-a", {"input": "hi"})
    return found, len(fake.requests)


OVERLOADED = [error(503, "overloaded")]


@pytest.mark.parametrize("attempts", [1, 6])
async def test_a_policy_that_is_not_durable_counts_alone(attempts: int) -> None:
    """More or less than the function's retries, all in one step; then the error is remembered."""
    policy = RetryPolicy(attempts=attempts, min_wait=0, durable=False)
    found, requests = await run(OVERLOADED * 9, retries=2, retry=policy)
    assert (found.status, requests) == ("failed", attempts)
    assert "503" in str(found.error)


async def test_the_default_policy_leaves_retries_to_the_function() -> None:
    """Four attempts of three retries."""
    found, requests = await run(OVERLOADED * 9, retries=3)
    assert (found.status, requests) == ("failed", 4)


async def test_a_model_step_shows_its_tokens() -> None:
    """In the form that the Inngest server reads them in."""
    found, _ = await run(["Hello."], retries=0)
    (memo,) = found.memos.values()
    shown, reply = memo["data"], memo["data"]["reply"]["usage"]
    assert shown["steps"] == [{"request": {"body": {"model": "gpt-4o"}}}]
    assert shown["totalUsage"] == {
        "inputTokens": reply["prompt_tokens"],
        "outputTokens": reply["completion_tokens"],
        "totalTokens": reply["total_tokens"],
    }
