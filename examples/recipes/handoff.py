"""Agents that hand over."""

# --8<-- [start:recipe]
from agentkit_py import Agent, Network
from agentkit_py.routing import handoffs
from agentkit_py.testing import ScriptedModel, tool_call

model = ScriptedModel(  # or "openai:gpt-4.1"
    tool_call("transfer_to_billing"), "Invoice 7 is still open."
)
billing = Agent(name="billing", description="Invoices and refunds.", system="You do invoices.")
triage = Agent(name="triage", system="Hand over to the right desk.", handoffs=[billing])
support = Network(
    name="support",
    agents=[triage, billing],
    router=handoffs(triage),
    default_model=model,
)
run = support.run_sync("Is invoice 7 paid?")
print([handoff.target for handoff in run.handoffs], run.text)
# --8<-- [end:recipe]
