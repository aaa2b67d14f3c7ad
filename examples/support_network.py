"""A support desk: three agents, typed state and result, handoffs, approval, a thread."""

# ruff: noqa: D101 - as short as the programs beside it
# --8<-- [start:program]
from dataclasses import dataclass

from pydantic import BaseModel

from agentkit_py import Agent, MemoryHistory, Network, State, ToolContext, tool
from agentkit_py.routing import Handoff, handoffs
from agentkit_py.testing import ScriptedModel, tool_call

# Scripts in place of models; with keys, both lines are "openai:gpt-5".
desk = ScriptedModel(tool_call("transfer_to_billing"))
clerk = ScriptedModel(tool_call("refund", {"euros": 12}), '{"summary":"Paid back","refund":12}')


@dataclass
class Desk:
    customer: str
    refunded: int = 0


class Closed(BaseModel):
    summary: str
    refund: int


@tool(needs_approval=True)
def refund(euros: int, ctx: ToolContext[Desk]) -> str:
    """Pay money back."""
    ctx.state.data.refunded += euros
    return f"{euros} EUR go to {ctx.state.data.customer}"


billing = Agent(
    name="billing", system="Pay back what is owed, then close.", model=clerk,
    tools=[refund], state_type=Desk, output_type=Closed,
)  # fmt: skip
bookings = Agent(
    name="bookings", system="Change bookings, then close.", model=clerk,
    state_type=Desk, output_type=Closed,
)  # fmt: skip
triage = Agent(
    name="triage", system=lambda ctx: f"Hand {ctx.state.data.customer} over.", model=desk,
    state_type=Desk, handoffs=[billing, Handoff(bookings, input_type=str, history="brief")],
)  # fmt: skip
support = Network(
    name="support", agents=[triage, billing, bookings], router=handoffs(triage),
    state_type=Desk, output_type=Closed, history=MemoryHistory(),
)  # fmt: skip
run = support.run_sync("I paid twice.", state=State(Desk("Ada")), approver=lambda _: True)
print(run.output.refund, run.state.data.refunded, run.thread_id)
# --8<-- [end:program]
