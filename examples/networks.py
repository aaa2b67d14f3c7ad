"""The code of docs/guides/networks-and-routers.md."""

# ruff: noqa: E402 - each section shows its own imports

# --8<-- [start:function]
import asyncio

from agentkit_py import Agent, Network, RouterContext
from agentkit_py.testing import ScriptedModel, tool_call

writer = Agent(name="writer", system="You write.", description="Writes a first draft")
editor = Agent(name="editor", system="You edit.", description="Improves a draft")


def write_then_edit(ctx: RouterContext) -> Agent | None:
    """Asked before each agent turn; None ends the run."""
    if ctx.call_count == 0:
        return writer
    if ctx.last_result is not None and ctx.last_result.agent_name == "writer":
        return editor
    return None


async def function_router() -> None:
    """Code decides."""
    network = Network(
        name="press",
        agents=[writer, editor],
        router=write_then_edit,
        default_model=ScriptedModel("A drafft.", "A draft."),
    )
    run = await network.run("Write one line.")
    assert [result.agent_name for result in run.results] == ["writer", "editor"]
    assert run.stop_reason == "done"
    # --8<-- [end:function]


# --8<-- [start:default]
async def default_router() -> None:
    """Without a router, a model decides: it is asked before each agent turn."""
    network = Network(
        name="press",
        agents=[writer, editor],
        default_model=ScriptedModel(
            tool_call("select_agent", {"name": "writer"}),
            "A draft.",
            tool_call("done", {"summary": "The draft is written."}),
        ),
    )
    run = await network.run("Write one line.")
    assert run.text == "A draft."
    assert len(run.routing_results) == 2  # what the router said is not part of the conversation
    # --8<-- [end:default]


# --8<-- [start:routing_agent]
from agentkit_py import Lifecycle, RoutingAgent
from agentkit_py.lifecycle import ResultContext


def by_name(ctx: ResultContext) -> list[str]:
    """The names in the answer, in order; an empty list ends the run."""
    return [name for name in ("writer", "editor") if name in ctx.result.text]


chief = RoutingAgent(
    name="chief",
    system="Say who works next: writer, editor or nobody.",
    lifecycle=Lifecycle(on_route=by_name),
)


async def routing_agent() -> None:
    """An agent of your own decides; a function may call it in only when it does not know itself."""

    def hybrid(ctx: RouterContext) -> Agent | None:
        return writer if ctx.call_count == 0 else chief

    network = Network(
        name="press",
        agents=[writer, editor],
        router=hybrid,
        default_model=ScriptedModel("A drafft.", "editor, please", "A draft.", "nobody"),
    )
    run = await network.run("Write one line.")
    assert [result.agent_name for result in run.results] == ["writer", "editor"]
    # --8<-- [end:routing_agent]


# --8<-- [start:hand_over]
from agentkit_py import ToolContext, tool


@tool
def hand_over(agent: str, ctx: ToolContext) -> str:
    """Hand the conversation over to another agent."""
    assert ctx.network is not None
    ctx.network.schedule(agent)
    ctx.state.data["handed_over_to"] = agent
    return f"{agent} takes over"


async def agents_decide() -> None:
    """Agents hand over by a tool; the router begins, and ends when nobody is scheduled."""
    triage = Agent(name="triage", system="You find out who helps.", tools=[hand_over], max_iter=1)
    network = Network(
        name="support",
        agents=[triage, editor],
        router=lambda ctx: triage if ctx.call_count == 0 else None,
        default_model=ScriptedModel(tool_call("hand_over", {"agent": "editor"}), "Here I am."),
    )
    run = await network.run("Help!")
    assert run.text == "Here I am."
    assert run.state.data == {"handed_over_to": "editor"}
    # --8<-- [end:hand_over]


# --8<-- [start:state]
from dataclasses import dataclass, field

from agentkit_py import State


@dataclass
class Order:
    """Facts that the agents share."""

    customer: str = ""
    items: list[str] = field(default_factory=list[str])


@tool
def add_item(name: str, ctx: ToolContext) -> int:
    """Put an item into the order."""
    order: Order = ctx.state.data
    order.items.append(name)
    return len(order.items)


async def typed_state() -> None:
    """State is a dict unless you give a dataclass or a pydantic model."""
    clerk = Agent(name="clerk", system="You take orders.", tools=[add_item], max_iter=2)
    network = Network(
        name="shop",
        agents=[clerk],
        router=lambda ctx: clerk if ctx.call_count == 0 else None,
        default_model=ScriptedModel(tool_call("add_item", {"name": "tea"}), "Tea it is."),
        default_state=State(Order(customer="ada")),  # each run gets a copy
    )
    run = await network.run("Tea, please.")
    assert run.state.data == Order("ada", ["tea"])
    # --8<-- [end:state]


async def main() -> None:
    """All of them."""
    await function_router()
    await default_router()
    await routing_agent()
    await agents_decide()
    await typed_state()


if __name__ == "__main__":
    asyncio.run(main())
