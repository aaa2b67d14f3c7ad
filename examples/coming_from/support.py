"""The program of the "coming from" pages, in our words."""

# --8<-- [start:program]
import asyncio

from agentkit_py import Agent, SqliteHistory, tool
from agentkit_py.testing import ScriptedModel, tool_call

model = ScriptedModel(  # or "openai:gpt-4.1", "anthropic:claude-sonnet-4-5", …
    tool_call("get_invoice", {"number": 7}), "Invoice 7 is still open.", "120 EUR."
)


@tool
def get_invoice(number: int) -> dict[str, object]:
    """Look up an invoice."""
    return {"number": number, "total": "120.00 EUR", "paid": False}


support = Agent(
    name="support",
    system="You answer questions on invoices.",
    model=model,
    tools=[get_invoice],
    history=SqliteHistory("threads.db"),
)


async def main() -> None:
    """Ask twice; the second question needs the first."""
    await support.run("Is invoice 7 paid?", thread_id="customer-1")
    answer = await support.run("And how much is it?", thread_id="customer-1")
    print(answer.text)


asyncio.run(main())
# --8<-- [end:program]
