"""The code of docs/guides/isolation.md."""

# ruff: noqa: E402 - each section shows its own imports

# --8<-- [start:own_tools]
from agentkit_py import Agent, Network, tool
from agentkit_py.routing import sequence
from agentkit_py.testing import ScriptedModel, tool_call


@tool
def get_invoice(number: int) -> str:
    """Look up an invoice."""
    return f"Invoice {number}: 120.00 EUR, open"


billing = Agent(name="billing", system="You answer questions on invoices.", tools=[get_invoice])
concierge = Agent(name="concierge", system="You close conversations politely.")
model = ScriptedModel(tool_call("get_invoice", {"number": 7}), "It is open.", "Bye.")
apart = Network(
    name="apart",
    agents=[billing, concierge],
    router=sequence(billing, concierge),
    default_model=model,
    isolation="own_tools",
)
run = apart.run_sync("Is invoice 7 paid?")
print(*run.context, sep="\n")
# --8<-- [end:own_tools]
assert "120.00" in str(model.bodies[1])
assert "It is open." in str(model.bodies[2])
assert "120.00" not in str(model.bodies[2])

# --8<-- [start:as_tool]
import asyncio
from typing import Any

from agentkit_py import State


@tool
def read_manual(page: int) -> str:
    """Read a page of the manual."""
    return f"Page {page}: " + "many words " * 500


reader = Agent(
    name="reader",
    description="Finds things in the manual.",
    system="Read until you know, then answer in one sentence.",
    tools=[read_manual],
    model=ScriptedModel(tool_call("read_manual", {"page": 7}), "Hold the button for 5 seconds."),
)
desk_model = ScriptedModel(tool_call("reader", {"task": "How is the device reset?"}), "Hold it.")
desk = Agent(
    name="desk",
    system="You answer customers.",
    model=desk_model,
    tools=[reader.as_tool(allowed_tools=["read_manual"], max_iter=5)],
    max_iter=3,
)
# --8<-- [end:as_tool]

# --8<-- [start:rights]
from agentkit_py import ToolContext
from agentkit_py.lifecycle import AgentContext


@tool
def load_skill(name: str, ctx: ToolContext) -> str:
    """Learn a skill, and with it get its tools."""
    ctx.state.data.setdefault("skills", []).append(name)
    return f"{name} is loaded"


@tool
def refund(order: str) -> str:
    """Pay an order back."""
    return f"{order} is paid back"


def rights(context: AgentContext) -> list[str]:
    """Asked before each inference: only these tools are offered, and may be called."""
    skills = context.state.data.get("skills", [])
    return ["load_skill", *(["refund"] if "billing" in skills else [])]


careful = Agent(
    name="careful",
    system="…",
    tools=[load_skill, refund],
    allowed_tools=rights,
    max_iter=4,
)
# --8<-- [end:rights]

# --8<-- [start:model]
from agentkit_py import openai

cheap, vision = openai("gpt-4.1-mini"), openai("gpt-4.1")
either = Agent(
    name="either",
    system="…",
    model=lambda context: vision if context.state.data.get("image") else cheap,
)
# --8<-- [end:model]

# --8<-- [start:mention]
from agentkit_py.routing import mention_router

office = Network(
    name="office",
    agents=[desk, careful],
    router=mention_router(fallback="desk"),  # "@careful, please refund A1" goes to careful
)
# --8<-- [end:mention]

# --8<-- [start:todos]
from agentkit_py.tools import todo_write


def planning(context: AgentContext) -> str:
    """The list is in the state; a system prompt may show it."""
    return f"Work through your list: {context.state.data.get('todos', [])}"


planner = Agent(name="planner", system=planning, tools=[todo_write], max_iter=9)
# --8<-- [end:todos]


async def main() -> None:
    """Run what can be run without a key."""
    state: State[Any] = State()
    result = await desk.run("My device hangs.", state=state)
    assert result.text == "Hold it."
    desk_model.assert_not_saw("many words")

    model = ScriptedModel(tool_call("load_skill", {"name": "billing"}), "Ready.")
    await careful.run("Learn billing.", state=state, model=model)
    assert [len(body["tools"]) for body in model.bodies] == [1, 2]

    run = await office.run("@careful hello", model=ScriptedModel("Hello."))
    assert run.results[-1].agent_name == "careful"

    todos = [{"content": "look", "status": "in_progress"}, {"content": "answer"}]
    model = ScriptedModel(tool_call("todo_write", {"todos": todos}), "On it.")
    await planner.run("Go", state=state, model=model)
    model.assert_saw("in_progress", "answer")


if __name__ == "__main__":
    asyncio.run(main())
