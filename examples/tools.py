"""The code of docs/guides/tools.md."""

# ruff: noqa: E402 - each section shows its own imports

# --8<-- [start:function]
import asyncio
from typing import Annotated, Literal

from pydantic import Field

from agentkit_py import Agent, tool
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls


@tool
async def get_weather(
    city: Annotated[str, Field(description="The city's English name")],
    unit: Literal["c", "f"] = "c",
) -> dict[str, object]:
    """Get today's weather."""
    return {"city": city, "degrees": 21, "unit": unit}


def roll(sides: int = 6) -> int:
    """Roll a die.

    :param sides: How many sides it has.
    """
    return sides


agent = Agent(name="host", system="You help.", tools=[get_weather, roll], max_iter=5)
# --8<-- [end:function]

# --8<-- [start:create]
from pydantic import BaseModel

from agentkit_py import ToolContext, create_tool


class Address(BaseModel):
    """Arguments that the model has to give."""

    street: str
    city: str = Field(max_length=50)


async def check_address(address: Address, ctx: ToolContext) -> str:
    """Gets the validated input as one value."""
    ctx.state.data["city"] = address.city
    return f"{address.street}, {address.city} exists"


check = create_tool(
    name="check_address",
    description="Check that an address exists.",
    parameters=Address,
    handler=check_address,
)
# --8<-- [end:create]

# --8<-- [start:repair]
from typing import Any

from agentkit_py import State


@tool
def find_orders(tags: list[str], newest: int = 10) -> str:
    """Find orders."""
    return f"{newest} orders with {' and '.join(tags)}"


async def nearly_right() -> None:
    """The list came as JSON text, the number as text."""
    slip = tool_call("find_orders", {"tags": '["open", "late"]', "newest": "5"})
    model = ScriptedModel(slip, "There are five.")
    clerk = Agent(name="clerk", system="You find orders.", tools=[find_orders], model=model)
    state = State[Any]()
    await clerk.run("Open and late ones?", state=state)
    model.assert_saw("5 orders with open and late")
    print(state.results[0].context)  # … repaired find_orders(tags: text read as a list)
    # --8<-- [end:repair]


# --8<-- [start:errors]
from agentkit_py.errors import NonRetriableError, ToolError


@tool
def charge(card: str, cents: int) -> str:
    """Charge a card."""
    if cents > 100_000:
        # The model reads the first text, the user the second.
        raise ToolError("more than 1000.00 needs a person", to_user="We will call you.")
    if card == "stolen":
        raise NonRetriableError("a stolen card was used")  # the run ends here
    return "charged"
    # --8<-- [end:errors]


async def what_the_model_reads() -> None:
    """Everything that goes wrong in a tool is a result with an error."""
    model = ScriptedModel(
        tool_calls(
            ("charge", {"card": "mine", "cents": 200_000}),
            ("charge", {"card": "mine", "cents": "many"}),
            ("charge_twice", {}),
        ),
        "It did not work.",
    )
    clerk = Agent(name="clerk", system="You sell.", tools=[charge], model=model, max_iter=2)
    await clerk.run("Charge me.")
    model.assert_saw("ToolError", "InvalidArgumentsError", "UnknownToolError")


# --8<-- [start:parallel]
together = Agent(
    name="host",
    system="You help.",
    tools=[get_weather],
    parallel_tools=True,  # all calls of one reply at the same time
    max_iter=5,
)
# --8<-- [end:parallel]


# --8<-- [start:timeout]
from agentkit_py import RunLimits


@tool
async def slow() -> None:
    """Take your time."""
    await asyncio.sleep(60)


async def with_a_timeout() -> None:
    """The tool is cancelled, and the model reads that it took too long."""
    model = ScriptedModel(tool_call("slow", {}), "That took too long.")
    sleeper = Agent(name="sleeper", system="…", tools=[slow], model=model, max_iter=2)
    await sleeper.run("Go", limits=RunLimits(tool_timeout=0.05))
    model.assert_saw("ToolTimeoutError")
    # --8<-- [end:timeout]


# --8<-- [start:provider]
from agentkit_py.tools import provider_tool


def run_bash(arguments: dict[str, str]) -> str:
    """Run a command in your own sandbox."""
    return f"ran {arguments['command']}"


operator = Agent(
    name="operator",
    system="You look after a server.",
    tools=[provider_tool("bash_20250124", run_bash, needs_approval=True)],
)


async def with_a_provider_tool() -> None:
    """Claude knows the tool; a person agrees, and the program runs it."""
    model = ScriptedModel(
        tool_call("bash", {"command": "uptime"}), "All is well.", provider="anthropic"
    )
    await operator.run("How is it?", model=model, approver=lambda _: True)
    model.assert_saw("ran uptime")
    # --8<-- [end:provider]


async def main() -> None:
    """All of them."""
    cities = tool_calls(("get_weather", {"city": "Graz"}), ("get_weather", {"city": "Linz"}))
    result = await together.run("Weather?", model=ScriptedModel(cities, "Fine in both."))
    assert result.text == "Fine in both."
    address = tool_call("check_address", {"street": "Main Street 1", "city": "Graz"})
    poster = Agent(name="post", system="You post.", tools=[check], max_iter=2)
    await poster.run("Check it.", model=ScriptedModel(address, "It exists."))
    assert (await agent.run("Hello", model=ScriptedModel("Hello."))).text == "Hello."
    assert "How many sides it has." in str(agent.tool_map["roll"].parameters)
    await nearly_right()
    await what_the_model_reads()
    await with_a_timeout()
    await with_a_provider_tool()


if __name__ == "__main__":
    asyncio.run(main())
