"""The output of a network: which types fit, and what an error says of one that does not."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional, Protocol

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from agentkit_py import Agent, Network, RouterContext
from agentkit_py.errors import ConfigurationError, OutputError
from agentkit_py.routing import handoffs, once
from agentkit_py.testing import ScriptedModel, tool_call


class Closed(BaseModel):
    """The end of a case."""

    refund: int


def shop(output_type: Any, *said: Any) -> Network[Any, Any]:
    """A desk whose triage talks or hands over, and whose clerk closes."""
    clerk = Agent(
        name="clerk", system="S", model=ScriptedModel('{"refund":12}'), output_type=Closed
    )
    triage = Agent(name="triage", system="S", model=ScriptedModel(*said), handoffs=[clerk])
    return Network(
        name="shop", agents=[triage, clerk], router=handoffs(triage), output_type=output_type
    )


FITTING: dict[str, Any] = {
    "a type": Closed,
    "a union": Closed | str,
    "an optional type": Closed | None,
    "typing's Optional": Optional[Closed],  # noqa: UP045 - as older code writes it
    "a type with metadata": Annotated[Closed, Field()],
    "a list of types": [Closed, str],
    "a union in a list": [Closed | int, str],
}


@pytest.mark.parametrize("kind", FITTING)
async def test_an_output_of_the_type_fits(kind: str) -> None:
    """Unions and annotated types are looked into."""
    run = await shop(FITTING[kind], tool_call("transfer_to_clerk", {})).run("I paid twice.")
    assert run.output == Closed(refund=12)


@pytest.mark.parametrize("kind", [Closed | str, [Closed, str], Literal["Hello!"]])
async def test_a_desk_may_talk_until_it_closes(kind: Any) -> None:
    """The text is the output of that run."""
    assert (await shop(kind, "Hello!").run("Hi")).output == "Hello!"


@pytest.mark.parametrize("kind", [Closed, Closed | None, [Closed, int], Annotated[Closed, Field()]])
async def test_an_error_names_the_value_its_source_and_the_fix(kind: Any) -> None:
    """The way out is a line of code."""
    with pytest.raises(OutputError, match=r"agent 'triage' gave 'Hello!'.*Closed") as caught:
        await shop(kind, "Hello!").run("Hi")
    assert "Network[…, " in str(caught.value)
    assert ", str])" in str(caught.value)
    assert caught.value.reason == "type"


class Row(TypedDict):
    """A dict with names."""

    refund: int


class Closing(Protocol):
    """For type checkers alone."""

    refund: int


ITEMS: dict[str, tuple[Any, Any, bool]] = {
    "items": (list[int], [1, 2], True),
    "other items": (list[int], ["x"], False),
    "an optional item": (list[int | None], [None], True),
    "a tuple": (tuple[int, str], (1, "x"), True),
    "a tuple of another length": (tuple[int, str], (1,), False),
    "a tuple of any length": (tuple[int, ...], (1, 2, 3), True),
    "keys": (dict[str, int], {"x": 1}, True),
    "other values": (dict[str, int], {"x": "y"}, False),
    "a bare list": (list, [1, "x"], True),
    "an int for a float": (float, 1, True),
    "a float for an int": (int, 1.5, False),
    "anything": (Any, 3, True),
    "a typed dict": (Row, {"refund": 1}, True),
    "a model for a typed dict": (Row, Closed(refund=1), False),
    "a protocol": (Closing, Closed(refund=1), True),
}


@pytest.mark.parametrize("case", ITEMS)
async def test_items_of_an_output_are_looked_into(case: str) -> None:
    """A list of another type would be found where the program uses it."""
    kind, value, fits = ITEMS[case]
    agent = Agent(name="a", system="S", model=ScriptedModel("x"), output_type=str)

    def give(context: object) -> Any:
        del context
        return value

    network = Network(name="n", agents=[agent], router=once(agent), output=give, output_type=kind)
    if fits:
        assert (await network.run("Hi")).output == value
    else:
        with pytest.raises(OutputError, match="output= gave"):
            await network.run("Hi")


async def test_an_output_of_another_object_says_that_both_are_to_be_the_same() -> None:
    """The agent's own type is another than the network's."""
    with pytest.raises(OutputError, match="the same output_type"):
        await shop(int, tool_call("transfer_to_clerk", {})).run("I paid twice.")


async def test_an_error_of_a_function_names_the_option() -> None:
    """No agent gave it."""
    agent = Agent(name="a", system="S", model=ScriptedModel("x"))
    network = Network(
        name="n", agents=[agent], router=once(agent), output=lambda ctx: 3, output_type=str
    )
    with pytest.raises(OutputError, match="output= gave 3, and output_type is str"):
        await network.run("Hi")


def test_an_output_that_no_agent_could_give_is_refused() -> None:
    """When the network is made."""
    agent = Agent(name="a", system="S", model=ScriptedModel("x"))
    with pytest.raises(ConfigurationError, match="no agent has an output_type"):
        Network(name="n", agents=[agent], router=once(agent), output_type=Closed)


def test_agents_that_a_router_brings_along_may_give_it() -> None:
    """What a function returns is not known."""

    def route(context: RouterContext) -> None:
        return None

    agent = Agent(name="a", system="S", model=ScriptedModel("x"))
    assert Network(name="n", agents=[agent], router=route, output_type=Closed)
