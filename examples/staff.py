"""A conversation that a person takes over from agents, and hands back. Offline."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request

from agentkit_py import Agent, Network, RouterContext, SqliteHistory, ToolContext, tool
from agentkit_py.history import StaffDesk
from agentkit_py.server import Notice, create_app
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.tools import ask_person


# --8<-- [start:rule]
@tool
async def refund(order: str, amount: int, ctx: ToolContext) -> str:
    """Pay money back."""
    if amount > 100:
        await ctx.ask_for_person(f"a refund of {amount} for {order}")
        return "A colleague decides this, and answers here."
    return f"paid {amount} for {order}"


clerk = Agent(name="clerk", system="You sell hats.", tools=[ask_person, refund])
# --8<-- [end:rule]


def clerk_once(context: RouterContext) -> str | None:
    """One agent turn for each message."""
    return "clerk" if context.call_count == 0 else None


def shop(store: SqliteHistory, *replies: Any) -> Network:
    """The network, as each process makes it."""
    return Network(
        name="shop",
        agents=[clerk],
        router=clerk_once,
        default_model=ScriptedModel(*replies),  # or openai("gpt-4.1"), …
        history=store,
    )


# --8<-- [start:app]
STAFF = {"mia@shop.example", "sam@shop.example"}


def signed_in(request: Request) -> str | None:
    """Return the user's id; yours is in a session or a signed token."""
    return request.headers.get("x-user")


async def notify(user_id: str, notice: Notice) -> None:
    """Write an e-mail to a customer who has left."""
    print(f"to {user_id}: {notice.kind}, go on at {notice.link}")


def app_of(network: Network) -> Starlette:
    """The API, with the page of staff at /staff/."""
    return create_app(
        networks=[network],
        auth=signed_in,
        staff=STAFF,
        approvers=STAFF,
        notify=notify,
        thread_url="https://shop.example/chat/{thread_id}",
    )


# --8<-- [end:app]


async def main() -> None:
    """A customer wants a person, gets one, and is handed back."""
    with tempfile.TemporaryDirectory() as folder:
        async with SqliteHistory(Path(folder) / "shop.db") as store:
            asks = tool_call("ask_person", {"reason": "wants a human"})
            network = shop(store, asks, "A colleague comes.", "Your label is in the mail.")
            run = await network.run("I want to talk to a human.")
            thread = run.thread_id or ""

            # --8<-- [start:desk]
            desk = StaffDesk(store)
            for wanted in await desk.queue(status="asked"):
                print("wanted:", wanted.reason)

            await desk.join(thread, by="mia@shop.example", name="Mia")
            await desk.say(thread, "I am Mia. Keep the hat!", by="mia@shop.example")
            run = await network.run("Thank you!", thread_id=thread)
            print(run.stop_reason)  # taken_over: stored for Mia, and no model was asked

            note = "He may keep the hat. Send him a return label for the coat."
            await desk.hand_back(thread, by="mia@shop.example", note=note)
            run = await network.run("And my coat?", thread_id=thread)
            print(run.text)
            # --8<-- [end:desk]


if __name__ == "__main__":
    asyncio.run(main())
