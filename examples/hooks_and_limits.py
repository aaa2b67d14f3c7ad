"""The code of docs/guides/hooks-and-limits.md."""

# ruff: noqa: E402 - each section shows its own imports

# --8<-- [start:hooks]
import asyncio

from agentkit_py import Agent, AgentResult, Lifecycle
from agentkit_py.lifecycle import AgentContext, ResultContext
from agentkit_py.testing import ScriptedModel, tool_call


def open_now(ctx: AgentContext) -> bool:
    """A disabled agent is not offered to routers; its name ends the run."""
    return not ctx.state.data.get("closed", False)


async def note(ctx: ResultContext) -> None:
    """After the last inference of the turn. None: the result stays as it is."""
    ctx.state.data["last"] = ctx.result.text


def mask(ctx: ResultContext) -> AgentResult:
    """After each inference, before its tools run: may return another result."""
    return ctx.result


agent = Agent(
    name="host",
    system="You help.",
    lifecycle=Lifecycle(enabled=open_now, on_response=mask, on_finish=note),
)
# --8<-- [end:hooks]

# --8<-- [start:system]
from datetime import UTC, datetime


async def system(ctx: AgentContext) -> str:
    """Asked before each inference, so it may change as the run goes on."""
    customer = ctx.state.data.get("customer", "a guest")
    return f"You help {customer}. Today is {datetime.now(UTC):%A}."


personal = Agent(name="personal", system=system)
# --8<-- [end:system]

# --8<-- [start:limits]
from datetime import timedelta

from agentkit_py import RunLimits, tool
from agentkit_py.messages import Usage


def price(model: str, usage: Usage) -> float:
    """Return a call's cost, here in dollars."""
    dollars_per_token = {"gpt-4o": 5e-6}.get(model, 1e-5)
    return usage.total_tokens * dollars_per_token


limits = RunLimits(
    deadline=timedelta(minutes=2),  # or seconds
    tool_timeout=20,  # seconds for one tool call
    max_inferences=12,
    max_tokens=50_000,
    max_cost=0.50,
    price=price,
)


@tool
def again() -> str:
    """Try again."""
    return "not yet"


async def stops_by_itself() -> None:
    """An agent that never finishes is stopped with whole results."""
    model = ScriptedModel(*[tool_call("again", {}) for _ in range(3)])
    stubborn = Agent(name="stubborn", system="…", tools=[again], model=model, max_iter=50)
    result = await stubborn.run("Go", limits=RunLimits(max_inferences=3))
    assert result.stop_reason == "max_inferences"
    # --8<-- [end:limits]


# --8<-- [start:tool_limits]
@tool(max_calls=2)
def search(words: str) -> str:
    """Search the web."""
    return f"nothing about {words}"


async def searches_no_further() -> None:
    """The third search is not made; the model reads why, and answers."""
    asks = [tool_call("search", {"words": word}) for word in ("hats", "caps", "bonnets")]
    model = ScriptedModel(*asks, "I found nothing.")
    finder = Agent(name="finder", system="You find things.", tools=[search], model=model)
    result = await finder.run("Hats?", limits=RunLimits(max_tool_calls={"search": 5}))
    assert result.text == "I found nothing."
    model.assert_saw("ToolLimitError", "'search' may be called 2 times in a run, and has been")
    # --8<-- [end:tool_limits]


# --8<-- [start:observer]
from agentkit_py.events.types import Event, ModelReplied


def watch(event: Event) -> None:
    """Gets every event, in order; what it raises is logged and disturbs nothing."""
    if isinstance(event, ModelReplied) and event.usage is not None:
        print(f"{event.name}: {event.usage.total_tokens} tokens")


async def watched() -> None:
    """Sync or async, and cheap: the run waits for it."""
    await agent.run("Hello", model=ScriptedModel("Hello."), observer=watch, limits=limits)
    # --8<-- [end:observer]


async def main() -> None:
    """All of them."""
    await watched()
    model = ScriptedModel("Hello.")
    await personal.run("Hello", model=model, state={"data": {"customer": "Ada"}})
    model.assert_saw("You help Ada.")
    await stops_by_itself()
    await searches_no_further()


if __name__ == "__main__":
    asyncio.run(main())
