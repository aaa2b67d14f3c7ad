import asyncio

from agentkit_py import Agent, Network, tool
from agentkit_py.routing import sequence


@tool
def get_invoice(number: int) -> dict[str, object]:
    """Look up an invoice."""
    return {"number": number, "total": "120.00 EUR", "paid": False}


billing = Agent(name="billing", system="You know invoices.", tools=[get_invoice])
concierge = Agent(name="concierge", system="You close conversations politely.")
support = Network(
    name="support",
    agents=[billing, concierge],
    router=sequence(billing, concierge),
    default_model="openai:gpt-4.1",
    isolation="own_tools",  # everybody's words, and no tool calls but one's own
)
if __name__ == "__main__":
    run = asyncio.run(support.run("Is invoice 7 paid?"))
    print(run, *run.context, sep="\n")
