"""The code of docs/guides/stores-and-threads.md."""

import asyncio

from agentkit_py import Agent, AgentResult, HistoryConfig, SqliteHistory
from agentkit_py.history import HistoryContext
from agentkit_py.testing import ScriptedModel

# --8<-- [start:sqlite]
store = SqliteHistory("threads.db")
model = ScriptedModel("Hello Ada.", "You are Ada.")
agent = Agent(name="host", system="You are polite.", model=model, history=store)


async def two_turns() -> str:
    """Without a thread id a new thread begins; with one, that thread goes on."""
    await agent.run("I am Ada.", thread_id="ada-1")
    result = await agent.run("Who am I?", thread_id="ada-1")
    assert result.text == "You are Ada."
    model.assert_saw("I am Ada.", "Hello Ada.", "Who am I?")
    return "ada-1"
    # --8<-- [end:sqlite]


# --8<-- [start:config]
saved: dict[str, list[AgentResult]] = {}


def create(ctx: HistoryContext) -> str:
    """Called at the start of each run; the id that it returns is the thread's."""
    thread_id = ctx.thread_id or f"thread-{len(saved)}"
    saved.setdefault(thread_id, [])
    return thread_id


async def load(ctx: HistoryContext) -> list[AgentResult]:
    """Called for a thread that the run was asked to go on with. Oldest first."""
    return list(saved[ctx.thread_id or ""])


async def save_question(ctx: HistoryContext) -> None:
    """Called before the first model call."""
    assert ctx.user_result is not None
    saved[ctx.thread_id or ""].append(ctx.user_result)


async def save_results(ctx: HistoryContext) -> None:
    """Called at the end, or with save_each=True after each result."""
    saved[ctx.thread_id or ""].extend(ctx.new_results)


config = HistoryConfig(
    create_thread=create,
    get=load,
    append_user_message=save_question,
    append_results=save_results,
    save_each=True,
)


async def own_store() -> None:
    """Four functions are a store."""
    own = Agent(name="host", system="You are polite.", model=ScriptedModel("Hi."), history=config)
    await own.run("Hello")
    assert [result.agent_name for result in saved["thread-0"]] == ["user", "host"]
    # --8<-- [end:config]


async def main() -> None:
    """All of them."""
    await two_turns()
    await own_store()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main())
