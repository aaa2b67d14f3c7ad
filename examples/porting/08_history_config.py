"""Threads in a store of one's own; the twin of the TypeScript program beside this file."""

# ruff: noqa: E402 - what runs it offline stands below it
# --8<-- [start:twin]
from agentkit_py import (
    Agent,
    AgentResult,
    HistoryConfig,
    RouterContext,
    create_agent,
    create_network,
    create_state,
    openai,
)
from agentkit_py.history import HistoryContext

threads: dict[str, list[AgentResult]] = {}


async def create_thread(ctx: HistoryContext) -> str:
    """Gives the id itself, and is called for threads that are there, too."""
    thread_id = ctx.thread_id or ctx.new_thread_id
    threads.setdefault(thread_id, [])
    return thread_id


async def get(ctx: HistoryContext) -> list[AgentResult]:
    """Oldest first."""
    return list(threads[ctx.thread_id or ""])


async def append_user_message(ctx: HistoryContext) -> None:
    """Keep the user's message, which is a result already."""
    if ctx.user_result is not None:
        threads[ctx.thread_id or ""].append(ctx.user_result)


async def append_results(ctx: HistoryContext) -> None:
    """Keep the results of this run."""
    threads[ctx.thread_id or ""].extend(ctx.new_results)


history = HistoryConfig(
    create_thread=create_thread,
    get=get,
    append_user_message=append_user_message,
    append_results=append_results,
)

host = create_agent(name="host", system="You remember guests.")


def route(ctx: RouterContext) -> Agent | None:
    """One turn."""
    return host if ctx.call_count == 0 else None


inn = create_network(
    name="inn",
    agents=[host],
    default_model=openai("gpt-4o"),
    router=route,
    history=history,
)


async def main() -> list[str]:
    """Run it."""
    first = await inn.run("I am Ada.", state=create_state())
    thread_id = first.state.thread_id or ""
    await inn.run("Who am I?", state=create_state(thread_id=thread_id))
    return [result.agent_name for result in threads[thread_id]]


# --8<-- [end:twin]

import asyncio

from agentkit_py.testing import ScriptedModel

model = ScriptedModel("Good evening, Ada.", "You are Ada.")
inn.default_model = model
assert asyncio.run(main()) == ["user", "host", "user", "host"]
model.assert_saw("I am Ada.", "Good evening, Ada.", "Who am I?")
model.assert_finished()
