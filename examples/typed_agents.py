"""A support network of three agents with typed state, typed outputs and handoffs."""

# --8<-- [start:network]
from dataclasses import dataclass

from pydantic import BaseModel

from agentkit_py import Agent, Network, State, ToolContext, tool
from agentkit_py.output import ModelRetry
from agentkit_py.routing import Handoff, handoffs
from agentkit_py.stores import MemoryHistory
from agentkit_py.testing import ScriptedModel, tool_call


@dataclass
class Desk:
    """The state that the agents share."""

    customer: str
    refunded: int = 0


class Closed(BaseModel):
    """The end of a case."""

    summary: str
    refund: int


@tool(needs_approval=True)
def refund(euros: int, ctx: ToolContext[Desk]) -> str:
    """Pay money back."""
    ctx.state.data.refunded += euros
    return f"{euros} EUR go to {ctx.state.data.customer}"


desk_model, billing_model = ScriptedModel(), ScriptedModel()  # in life: "openai:gpt-5"
billing = Agent(
    name="billing", system="Pay back what is owed, then close.", tools=[refund],
    model=billing_model, state_type=Desk, output_type=Closed,
)  # fmt: skip
bookings = Agent(
    name="bookings", system="Change bookings, then close.",
    model=billing_model, state_type=Desk, output_type=Closed,
)  # fmt: skip
triage = Agent(
    name="triage", system=lambda ctx: f"Hand {ctx.state.data.customer} over.", model=desk_model,
    state_type=Desk, handoffs=[billing, Handoff(bookings, input_type=str, history="brief")],
)  # fmt: skip
support = Network(
    name="support", agents=[triage, billing, bookings], router=handoffs(triage),
    state_type=Desk, output_type=Closed, history=MemoryHistory(),
)  # fmt: skip
# --8<-- [end:network]

desk_model.reply(tool_call("transfer_to_billing"))
billing_model.reply(tool_call("refund", {"euros": 12}), '{"summary":"Paid back","refund":12}')

# --8<-- [start:run]
run = support.run_sync(
    "I paid twice.", state=State(Desk("Ada")), approver=lambda request: "refund" in str(request)
)
print(run.output.summary, run.state.data.refunded, [h.target for h in run.handoffs])
# --8<-- [end:run]

# --8<-- [start:validator]
extract = Agent(
    name="extract",
    system="Extract the closing note.",
    model=ScriptedModel('{"summary":"","refund":1}', '{"summary":"Fine","refund":1}'),
    output_type=Closed,
    output_retries=2,
)


@extract.output_validator
def has_a_summary(output: Closed) -> Closed:
    """Refuse an empty summary; the model reads why."""
    if not output.summary:
        raise ModelRetry("Write a summary.")
    return output


print(extract.run_sync("…").output)
# --8<-- [end:validator]
