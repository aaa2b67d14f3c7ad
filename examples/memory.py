"""The code of docs/guides/memory.md."""

# ruff: noqa: E402 - each section shows its own imports

# --8<-- [start:agent]
from agentkit_py import Agent, MemoryHistory
from agentkit_py.memory import Memory
from agentkit_py.testing import ScriptedModel, tool_call

store = MemoryHistory()  # in life: SqliteHistory("threads.db")
memory = Memory(store)
model = ScriptedModel(  # in life: "openai:gpt-5"
    tool_call("remember", {"fact": "Ada wants aisle seats."}), "Noted.", "An aisle seat, as ever."
)
desk = Agent(
    name="desk",
    system="You book flights.",
    model=model,
    tools=memory.tools(),
    processors=[memory.recall()],
    history=store,
    max_iter=3,
)
# --8<-- [end:agent]

# --8<-- [start:run]
import asyncio

ada = {"user_id": "ada", "tenant": "acme"}


async def talk() -> None:
    """Two threads: what was said in the first is known in the second."""
    await desk.run("I always want aisle seats.", state={"data": ada, "threadId": "monday"})
    await desk.run("Book me to Graz.", state={"data": ada, "threadId": "friday"})
    model.assert_saw("Ada wants aisle seats.")


# --8<-- [end:run]


# --8<-- [start:user]
async def show() -> None:
    """Show, correct and forget facts, as their user."""
    mine = memory.of(user="ada", tenant="acme")
    (fact,) = await mine.facts()
    print(fact.text, fact.thread_id, fact.message_id, fact.created_at)
    better = await mine.correct(fact.id, "Ada wants window seats.")
    await mine.forget(better.id)
    assert await mine.facts(replaced=True) == []


# --8<-- [end:user]

# --8<-- [start:http]
from starlette.requests import Request

from agentkit_py.server import create_app

TENANTS = {"ada": "acme", "bob": "globex"}
"""Tenants by user; yours are in a database."""


def signed_in(request: Request) -> str | None:
    """Return the user's id; None refuses the request."""
    return request.session.get("user")


app = create_app(agents=[desk], auth=signed_in, tenant_of=TENANTS.get, memory=memory)
# --8<-- [end:http]

# --8<-- [start:learn]
from agentkit_py import State
from agentkit_py.memory import extractor

small = ScriptedModel('{"facts": [{"text": "Ada is vegetarian.", "source": 0}]}')


async def learn() -> None:
    """Find facts after a run."""
    state = State(ada, thread_id="sunday")
    await desk.run("No meat for me, please.", state=state)
    (fact,) = await memory.learn(state, extractor(small))
    print(fact.text)
    await store.delete_thread("sunday")  # and the fact with it
    assert await memory.of(user="ada", tenant="acme").facts() == []


# --8<-- [end:learn]


async def main() -> None:
    """Run the sections in order."""
    await talk()
    await show()
    model.reply("A salad, then.")
    await learn()
    await store.close()


asyncio.run(main())
