"""A share of the model's window for the history, and what is left when it is exceeded."""

import asyncio

from agentkit_py import Agent, State, TextMessage
from agentkit_py.processors import ApproximateTokenizer, Budget
from agentkit_py.testing import ScriptedModel

# What an application stores for a user, under the names it has there.
settings = {
    "token_calculation_method": "estimate",
    "target_usage_ratio": 0.6,
    "summary_token_ratio": 0.26,
    "recent_token_ratio": 0.65,
    "compress_tool_output": True,
    "tool_output_max_tokens": 200,
}


async def main() -> None:
    """The window is the model's; a smaller one is given here, to see something."""
    agent = Agent(
        name="clerk",
        system="You answer questions on parcels.",
        model=ScriptedModel("Tomorrow."),
        processors=[Budget(context_window=4_000), Budget.from_settings(settings)],
        token_counter=ApproximateTokenizer(),
    )
    history = [TextMessage("user", f"Parcel {n} is on its way to Linz. " * 5) for n in range(100)]
    result = await agent.run("When does the last one arrive?", state=State(messages=history))
    assert result.context is not None
    for entry in result.context.entries:
        print(entry.name, entry.tokens_before, "->", entry.tokens_after, entry.reason)
    assert result.context.tokens_after <= 0.6 * 4_000


if __name__ == "__main__":
    asyncio.run(main())
