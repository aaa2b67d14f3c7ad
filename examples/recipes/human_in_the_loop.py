"""A refund waits for a person, in any process."""

# --8<-- [start:recipe]
import asyncio

from agentkit_py import Agent, Network, SqliteHistory, tool
from agentkit_py.routing import once
from agentkit_py.testing import ScriptedModel, tool_call

model = ScriptedModel(  # or "openai:gpt-4.1"
    tool_call("refund", {"order": "A1", "amount": 249}), "Your 249 EUR are on their way."
)


@tool(needs_approval=True)
def refund(order: str, amount: int) -> str:
    """Pay money back."""
    return f"paid {amount} for {order}"


clerk = Agent(name="clerk", system="You sell hats.", tools=[refund])
shop = Network(
    name="shop",
    agents=[clerk],
    router=once(clerk),
    default_model=model,
    history=SqliteHistory("shop.db"),  # keeps the thread, its run and the question
)


async def ask() -> str:
    """Run until a person is needed; this process may end now."""
    run = await shop.run("My hat is too small. Money back!")
    print(run.stop_reason, run.pending[0].calls[0].arguments)
    assert run.thread_id is not None
    return run.thread_id


async def answer(thread_id: str) -> None:
    """Answer in any process that has the same network, hours later."""
    for question in await shop.pending(thread_id):
        run = await shop.resume(thread_id, {question.id: True}, by="mia")
        print(run.text)


if __name__ == "__main__":
    asyncio.run(answer(asyncio.run(ask())))
# --8<-- [end:recipe]
