"""A support desk with a person, in a function of one's own; the twin of the TypeScript program."""

# ruff: noqa: E402 - what runs it offline stands below it
# --8<-- [start:twin]
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import inngest
from pydantic import BaseModel

from agentkit_py import (
    Agent,
    RouterContext,
    ToolContext,
    create_agent,
    create_network,
    create_state,
    create_tool,
    openai,
)
from agentkit_py.inngest import AgentKitMiddleware
from agentkit_py.lifecycle import AgentContext


@dataclass
class Ticket:
    """The state's data."""

    ticket: str
    refunded: float = 0


class Refund(BaseModel):
    """Arguments of `refund`."""

    amount: float


paid: list[float] = []


async def ask_and_pay(given: Refund, ctx: ToolContext) -> str:
    """Ask a person, and pay in a step."""
    data = ctx.state.data
    answer = await ctx.step.wait_for_event(
        "person",
        event="desk/refund.answered",
        if_exp=f"async.data.ticket == '{data.ticket}'",
        timeout=timedelta(days=1),
    )
    if answer is None or not answer.data.get("approved"):
        return "a person said no"
    await ctx.step.run("pay", lambda: paid.append(given.amount))
    data.refunded = given.amount
    return "paid"


refund = create_tool(
    name="refund",
    description="Pay money back; a person is asked.",
    parameters=Refund,
    handler=ask_and_pay,
    steps=True,
)


def billing_system(ctx: AgentContext) -> str:
    """Made anew for each inference."""
    return f"You answer ticket {ctx.state.data.ticket}."


billing = create_agent(name="billing", system=billing_system, tools=[refund])


def route(ctx: RouterContext) -> Agent | None:
    """Two turns: the call, and what came of it."""
    return billing if ctx.call_count < 2 else None


desk = create_network(
    name="desk",
    agents=[billing],
    default_model=openai("gpt-4o"),
    router=route,
)

client = inngest.Inngest(app_id="support", is_production=False, middleware=[AgentKitMiddleware])


@client.create_function(
    fn_id="answer-ticket", trigger=inngest.TriggerEvent(event="desk/ticket.opened")
)
async def answer_ticket(ctx: inngest.Context) -> Any:
    """Take JSON as it comes, and return runs, results and data as they are."""
    data: Any = ctx.event.data
    state = create_state(Ticket(data["ticket"]), messages=data.get("history"))
    run = await desk.run(data["userMessage"], state=state)
    return {"ticket": run.state.data, "results": run.state.results}


# --8<-- [end:twin]

import asyncio
from collections.abc import Mapping

from agentkit_py.testing import ReplayExecutor, ScriptedModel, tool_call
from agentkit_py.testing.executor import Wait

model = ScriptedModel(tool_call("refund", {"amount": 12.5}), "You have your money back.")
desk.default_model = model


def person(wait: Wait) -> Mapping[str, Any]:
    """Say yes."""
    assert wait.event == "desk/refund.answered"
    return {"ticket": "t7", "approved": True}


sent = {
    "ticket": "t7",
    "history": [{"type": "text", "role": "user", "content": "My lamp is broken."}],
    "userMessage": {"id": "m1", "role": "user", "content": "I want my money back."},
}
executor = ReplayExecutor(client, [answer_ticket], transport=model.fake.transport, check=True)
run = asyncio.run(executor.run("desk/ticket.opened", sent, answer=person))
assert (run.status, run.differences) == ("completed", []), run.error
assert run.output["ticket"] == {"ticket": "t7", "refunded": 12.5}
assert [result["agentName"] for result in run.output["results"]] == ["billing", "billing"]
assert paid == [12.5]  # once, however often the function ran
assert [m["content"] for m in model.bodies[0]["messages"][1:]] == [
    "My lamp is broken.",
    "I want my money back.",
]
