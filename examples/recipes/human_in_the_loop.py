"""A refund waits for a person, in any process."""

import asyncio

from agentkit_py.testing import ScriptedModel, tool_call

model = ScriptedModel(
    tool_call("refund", {"order": "A1", "amount": 249}), "Your 249 EUR are on their way."
)

# --8<-- [start:recipe]
from agentkit_py import Agent, MemoryHistory, Network, tool
from agentkit_py.routing import once


@tool(needs_approval=True, approvers=["mia"])
def refund(order: str, amount: int) -> str:
    """Pay money back."""
    return f"paid {amount} for {order}"


clerk = Agent(name="clerk", system="You sell hats.", tools=[refund], max_iter=5)
shop = Network(
    name="shop",
    agents=[clerk],
    router=once(clerk),
    default_model=model,  # or "openai:gpt-4.1"
    history=MemoryHistory(),  # a database keeps the question for other processes
)


async def main() -> None:
    """Ask, and answer later."""
    run = await shop.run("My hat is too small. Money back!")
    question = run.pending[0]
    print("waiting:", question.calls[0].name, question.calls[0].arguments)
    assert run.thread_id is not None
    run = await shop.resume(run.thread_id, {question.id: True}, by="mia")
    print(run.text)


asyncio.run(main())
# --8<-- [end:recipe]
