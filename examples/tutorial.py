"""The program of docs/tutorial.md, step by step. It needs neither network nor key."""

# ruff: noqa: E402 - each section shows its own imports

# --8<-- [start:agent]
import asyncio
import os

from agentkit_py import Agent, tool
from agentkit_py.testing import ScriptedModel, tool_call


@tool
def find_parcel(number: int) -> dict[str, str]:
    """Look up where a parcel is.

    Args:
        number: The parcel's number, as on the receipt.
    """
    return {"parcel": str(number), "place": "Linz", "expected": "tomorrow"}


async def first_agent() -> None:
    """One agent with one tool."""
    model = ScriptedModel(
        tool_call("find_parcel", {"number": 17}),  # what the model says first
        "Parcel 17 is in Linz and comes tomorrow.",  # what it says when it has read the result
    )
    agent = Agent(
        name="parcels",
        system="You answer questions on parcels.",
        tools=[find_parcel],
        model=model,
        max_iter=3,
    )
    result = await agent.run("Where is parcel 17?")
    print(result.text)


# --8<-- [end:agent]

# --8<-- [start:network]
from agentkit_py import Network, RouterContext


@tool
def refund(number: int, reason: str) -> str:
    """Refund what was paid for a parcel."""
    return f"Refund for parcel {number} is on its way ({reason})."


parcels = Agent(
    name="parcels",
    system="You find parcels.",
    description="Knows where parcels are",
    tools=[find_parcel],
    max_iter=3,
)
refunds = Agent(
    name="refunds",
    system="You decide on refunds.",
    description="Pays money back",
    tools=[refund],
    max_iter=3,
)


def route(ctx: RouterContext) -> Agent | None:
    """Refunds for whoever wants money, parcels for everybody else; one agent per question."""
    if ctx.call_count > 0:
        return None
    return refunds if "money" in ctx.input else parcels


async def first_network() -> None:
    """Two agents, and code that says who is next."""
    network = Network(
        name="support",
        agents=[parcels, refunds],
        router=route,
        default_model=ScriptedModel("Parcel 17 is in Linz."),
    )
    run = await network.run("Where is parcel 17?")
    print(run.text, run.stop_reason)


# --8<-- [end:network]

# --8<-- [start:thread]
from agentkit_py import SqliteHistory, TokenLimiter, ToolCallFilter


def support_network(model: ScriptedModel) -> Network:
    """The network with a memory, and with processors at all three levels."""
    return Network(
        name="support",
        agents=[
            # Each agent sees its own tool calls, not the other's.
            Agent(
                name="parcels",
                system="You find parcels.",
                tools=[find_parcel],
                max_iter=3,
                processors=[ToolCallFilter(include="own")],
            ),
            Agent(
                name="refunds",
                system="You decide on refunds.",
                tools=[refund],
                max_iter=3,
                processors=[ToolCallFilter(include="own")],
            ),
        ],
        router=lambda ctx: (
            None if ctx.call_count else "refunds" if "money" in ctx.input else "parcels"
        ),
        default_model=model,
        history=SqliteHistory("support.db", processors=[TokenLimiter(8_000)]),
        processors=[TokenLimiter(4_000)],
    )


async def two_turns() -> None:
    """The second question only makes sense with the first."""
    model = ScriptedModel(
        tool_call("find_parcel", {"number": 17}),
        "Parcel 17 is in Linz.",
        tool_call("refund", {"number": 17, "reason": "late"}),
        "I have refunded it.",
    )
    network = support_network(model)
    first = await network.run("Where is parcel 17?")
    second = await network.run("Too late. I want my money back.", thread_id=first.thread_id)
    print(second.text)
    # --8<-- [end:thread]

    # --8<-- [start:report]
    report = second.context[0]
    for entry in report.entries:
        print(
            f"{entry.level:8} {entry.name:15} {entry.messages_before} -> {entry.messages_after} "
            f"messages, {entry.tokens_before} -> {entry.tokens_after} tokens  {entry.reason}"
        )
    print(f"sent: {len(report.sent)} messages, {report.tokens_after} tokens")
    # --8<-- [end:report]


# --8<-- [start:test]
async def test_refunds_does_not_see_what_parcels_called() -> None:
    """Requests can be read, so they can be tested."""
    model = ScriptedModel(
        tool_call("find_parcel", {"number": 17}), "In Linz.", "What is the reason?"
    )
    network = support_network(model)
    first = await network.run("Where is parcel 17?")
    await network.run("I want my money back.", thread_id=first.thread_id)

    model.assert_saw("Where is parcel 17?", "In Linz.", "I want my money back.")
    model.assert_not_saw("find_parcel")
    model.assert_finished()


# --8<-- [end:test]

# --8<-- [start:real]
from agentkit_py import openai


async def with_a_real_model() -> None:
    """Run the agent with another model."""
    agent = Agent(
        name="parcels",
        system="You answer questions on parcels.",
        tools=[find_parcel],
        model=openai("gpt-4o"),  # the key comes from OPENAI_API_KEY
        max_iter=3,
    )
    result = await agent.run("Where is parcel 17?")
    print(result.text, result.usage)


# --8<-- [end:real]


async def main() -> None:
    """Every step; the last one only where there is a key."""
    await first_agent()
    await first_network()
    await two_turns()
    await test_refunds_does_not_see_what_parcels_called()
    if os.environ.get("OPENAI_API_KEY"):
        await with_a_real_model()


if __name__ == "__main__":
    asyncio.run(main())
