"""A refund that a person approves, at once or in another process, and who may. Offline."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from agentkit_py import Agent, Network, RouterContext, SqliteHistory, tool
from agentkit_py.events import ApprovalAnswer, ApprovalRequest, Decision
from agentkit_py.testing import ScriptedModel, tool_call


# --8<-- [start:plain]
@tool(needs_approval=True)
def pay_back(order: str, amount: int) -> str:
    """Pay money back for an order."""
    return f"paid {amount} for {order}"


def ask(request: ApprovalRequest) -> bool:
    """Ask the person at the keyboard."""
    for call in request.calls:
        print(f"{request.agent} wants {call.name} with {call.arguments}")
    return True  # or input("Allow it? [y/n] ") == "y"


model = ScriptedModel(  # or "openai:gpt-5", …
    tool_call("pay_back", {"order": "A1", "amount": 50}), "50 are on their way."
)
cashier = Agent(name="cashier", system="You sell hats.", tools=[pay_back], model=model)


def with_an_approver() -> None:
    """The run waits until the function has answered."""
    result = cashier.run_sync("My hat is too small. Money back!", approver=ask)
    print(result.text)
    # --8<-- [end:plain]


# --8<-- [start:approvers]
@tool(
    needs_approval=True,
    approvers=["mia", "sam"],
    escalate_after=timedelta(hours=2),
    escalate_to=["boss"],
    approval_timeout=timedelta(days=2),
)
def refund(order: str, amount: int) -> str:
    """Pay money back."""
    return f"paid {amount} for {order}"


# --8<-- [end:approvers]


# --8<-- [start:store]
def clerk_once(context: RouterContext) -> str | None:
    """One agent turn for each message."""
    return "clerk" if context.call_count == 0 else None


def shop(store: SqliteHistory, *replies: Any) -> Network:
    """The network, as each process makes it."""
    clerk = Agent(name="clerk", system="You sell hats.", tools=[refund])
    return Network(
        name="shop",
        agents=[clerk],
        router=clerk_once,
        default_model=ScriptedModel(*replies),  # or openai("gpt-4.1"), …
        history=store,
    )
    # --8<-- [end:store]


async def main() -> None:
    """Ask in one process, answer in another."""
    with tempfile.TemporaryDirectory() as folder:
        async with SqliteHistory(Path(folder) / "shop.db") as store:
            # --8<-- [start:run]
            network = shop(store, tool_call("refund", {"order": "A1", "amount": 249}))
            run = await network.run("My hat is too small. Money back!")
            for question in run.pending:
                print("waiting:", question.calls[0].name, question.calls[0].arguments)
            thread_id = run.thread_id
            # --8<-- [end:run]

        async with SqliteHistory(Path(folder) / "shop.db") as store:  # another process, days later
            # --8<-- [start:resume]
            network = shop(store, "200 are on their way.")
            half = Decision(approved=True, arguments={"order": "A1", "amount": 200})
            answer = ApprovalAnswer(approved=True, reason="worn twice", calls={0: half})
            for question in await network.pending(thread_id):
                run = await network.resume(thread_id, {question.id: answer}, by="mia")
                print(run.text)
            # --8<-- [end:resume]


if __name__ == "__main__":
    with_an_approver()
    asyncio.run(main())
