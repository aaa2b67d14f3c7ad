"""Fallbacks, limits, tenants and budgets, as docs/guides/operation.md shows them."""
# ruff: noqa: E402 - sections of a page

from __future__ import annotations

import asyncio

from agentkit_py import Agent, MemoryHistory, State, anthropic, openai
from agentkit_py.errors import BudgetExceededError, RateLimitError
from agentkit_py.lifecycle import AgentContext

# --8<-- [start:names]
from agentkit_py.models import compatible, model_named
from agentkit_py.runtime.current import use_runtime
from agentkit_py.runtime.direct import DirectRuntime
from agentkit_py.testing import FakeProvider, ReceivedRequest, error, text

fast = Agent(name="fast", system="Be brief.", model="groq:llama-3.3-70b-versatile")
own = compatible("vllm", "qwen3-32b", base_url="http://gpu-1:8000/v1")
again = model_named("openrouter:anthropic/claude-sonnet-4.5", timeout=30)
# --8<-- [end:names]

# --8<-- [start:clouds]
from agentkit_py.runtime.cloud import bedrock, vertex

on_aws = bedrock("us.anthropic.claude-sonnet-4-5-20250929-v1:0", region="us-east-1")
on_google = vertex("claude-sonnet-4-5@20250929", project="acme-1", location="eu")
gemini_there = vertex("gemini-2.5-flash", project="acme-1", location="europe-west4")
# --8<-- [end:clouds]

# --8<-- [start:fallback]
from agentkit_py.models import FallbackModel

model = FallbackModel([openai("gpt-4.1"), anthropic("claude-sonnet-4-5")])
only_limits = FallbackModel(model.models, on=[RateLimitError])
complete = FallbackModel(model.models, check=lambda reply: reply.finish_reason != "length")
# --8<-- [end:fallback]

# --8<-- [start:limits]
from agentkit_py.runtime.guards import RateLimits

limits = RateLimits(requests=500, tokens=30_000, concurrency=20)
limited = openai("gpt-4.1", guards=[limits])
# --8<-- [end:limits]


# --8<-- [start:tenants]
KEYS = {"acme": "sk-of-acme", "globex": "sk-of-globex"}


async def key_of(context: AgentContext) -> str:
    """Called for each request, and again where a provider refuses the key."""
    return KEYS[context.state.data["tenant"]]


def model_of(context: AgentContext) -> str:
    """Tenants may have models of their own."""
    return "openai:gpt-4.1-mini" if context.state.data["tenant"] == "globex" else "openai:gpt-4.1"


desk = Agent(name="desk", system="Help.", model=openai("gpt-4.1", api_key=key_of))
by_plan = Agent(name="by-plan", system="Help.", model=model_of)
# --8<-- [end:tenants]

# --8<-- [start:budgets]
from agentkit_py.budgets import Budgets, Price, Prices, UsageLimit

prices = Prices({"gpt-4.1": Price(input=2.0, output=8.0, cached=0.5)})
budgets = Budgets(
    MemoryHistory(),  # or SqliteHistory("support.db"), PostgresHistory("postgresql://…")
    {"user": UsageLimit(tokens=200_000, runs=100), "tenant": UsageLimit(cost=50.0, per="month")},
    prices=prices,
)


async def answer(user: str, tenant: str, said: str) -> str:
    """Answer a user as far as the user's and the tenant's budgets allow."""
    budget = budgets.of(user=user, tenant=tenant)
    state = State({"tenant": tenant})
    try:
        return (await desk.run(said, state=state, budget=budget)).text
    except BudgetExceededError as error:
        return f"Try again after {error.resets_at}."


# --8<-- [end:budgets]


# --8<-- [start:respond]
async def title_of(thread: str) -> str:
    """A model call without an agent; inside an Inngest function it is a step."""
    reply = await model.respond(thread, system="Give this a title of five words.")
    return reply.text


# --8<-- [end:respond]


async def main() -> None:
    """Run what is shown, offline."""

    def reply(request: ReceivedRequest) -> object:
        down = request.provider == "openai" and "five words" in str(request.body)
        return error(401, "not today") if down else text("Fine.")

    keys = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
    runtime = DirectRuntime(transport=FakeProvider(reply).transport, environment=keys)
    with use_runtime(runtime):
        print(await answer("u1", "acme", "How are you?"))
        print(await title_of("A long story."))


asyncio.run(main())
