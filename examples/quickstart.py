"""Two agents, one thread: billing's tool calls stay out of the concierge's sight."""

import asyncio

from agentkit_py import (
    Agent,
    MemoryHistory,
    Network,
    RouterContext,
    TokenLimiter,
    ToolCallFilter,
    tool,
)
from agentkit_py.testing import ScriptedModel, tool_call


@tool
def get_invoice(number: int) -> dict[str, object]:
    """Look up an invoice.

    Args:
        number: The invoice's number.
    """
    return {"number": number, "total": "120.00 EUR", "paid": False}


# A real model is one line: openai("gpt-4o"), anthropic("claude-sonnet-4-5"), gemini("…"), …
model = ScriptedModel(
    tool_call("get_invoice", {"number": 7}),
    "Invoice 7 over 120.00 EUR is still open.",
    "Gladly. Is there anything else?",
)

billing = Agent(
    name="billing", system="You answer questions on invoices.", tools=[get_invoice], max_iter=5
)
concierge = Agent(
    name="concierge", system="You close conversations politely.", processors=[ToolCallFilter()]
)


def router(ctx: RouterContext) -> Agent | None:
    """Billing first, then the concierge, then the run is done."""
    return (billing, concierge)[ctx.call_count] if ctx.call_count < 2 else None


support = Network(
    name="support",
    agents=[billing, concierge],
    default_model=model,
    router=router,
    history=MemoryHistory(),  # SqliteHistory("support.db") keeps it
    processors=[TokenLimiter(16_000)],
)


async def main() -> None:
    """Run it, and show what each agent was allowed to see."""
    run = await support.run("Is invoice 7 paid?")
    for result in run.results:
        print(f"{result.agent_name}: {result.text or 'calls a tool'}")
    for report in run.context:
        for entry in report.entries:
            print(
                f"{report.agent:10} {entry.level:8} {entry.name:15} "
                f"{entry.messages_before} -> {entry.messages_after} messages, "
                f"{entry.tokens_before} -> {entry.tokens_after} tokens"
            )


if __name__ == "__main__":
    asyncio.run(main())
