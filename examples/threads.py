"""The code of docs/guides/stores-and-threads.md."""

# ruff: noqa: E402 - each section shows its own imports

# --8<-- [start:sqlite]
import asyncio

from agentkit_py import Agent, MemoryHistory, SqliteHistory
from agentkit_py.testing import ScriptedModel

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


# --8<-- [start:read]
async def look(thread_id: str) -> None:
    """Reading threads, and managing them."""
    for info in await store.list_threads(limit=20):
        print(info.id, info.title, info.updated_at)
    for message in await store.messages(thread_id):
        print(message.role, message.type, message.agent)
    results = await store.load(thread_id)  # user turns among them
    assert [result.agent_name for result in results] == ["user", "host", "user", "host"]

    await store.add_thread("ada-2", user_id="ada", metadata={"channel": "mail"})
    assert (await store.get_thread("ada-2")).metadata == {"channel": "mail"}
    await store.delete_thread("ada-2")
    await store.close()
    # --8<-- [end:read]


# --8<-- [start:turns]
from agentkit_py import UserMessage
from agentkit_py.stores import ThreadLease


async def delivered_twice() -> None:
    """The second delivery of a message gets the stored answer; no model is asked."""
    shared = SqliteHistory("shared.db", lease=ThreadLease())
    clerk = Agent(name="clerk", system="Brief.", model=ScriptedModel("Done."), history=shared)
    for _ in range(2):
        result = await clerk.run(UserMessage("Cancel it.", "webhook-17"), thread_id="ada-1")
        assert result.text == "Done."
    # --8<-- [end:turns]
    await shared.close()


# --8<-- [start:steering]
from agentkit_py import tool
from agentkit_py.testing import tool_call


async def said_while_it_works() -> None:
    """The message reaches the next model call, and its own run finds it answered."""
    begun, painted = asyncio.Event(), asyncio.Event()

    @tool
    async def mix_paint() -> str:
        """Mix paint."""
        begun.set()
        await painted.wait()
        return "mixed"

    script = ScriptedModel(tool_call("mix_paint"), "The door is blue.")
    house = MemoryHistory(lease=ThreadLease(steering=True))
    painter = Agent(name="painter", system="S", model=script, tools=[mix_paint], history=house)

    first = asyncio.create_task(painter.run("Paint the door.", thread_id="t"))
    await begun.wait()
    said = UserMessage("In blue, please.", "m2")
    second = asyncio.create_task(painter.run(said, thread_id="t", on_busy="steer"))
    await asyncio.sleep(0.1)  # the tool is still at work
    painted.set()

    assert (await first).text == (await second).text == "The door is blue."
    script.assert_saw("Paint the door.", "mixed", "In blue, please.")
    # --8<-- [end:steering]


# --8<-- [start:users]
from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.stores import for_user


async def each_user_sees_their_own() -> None:
    """A thread of somebody else is not found."""
    await for_user(store, "ada").add_thread("hers")
    try:
        await for_user(store, "bob").load("hers")
    except ThreadNotFoundError as error:
        print(error)
    assert await store.delete_user("ada") == 1
    # --8<-- [end:users]
    await store.close()


# --8<-- [start:forks]
async def another_question() -> None:
    """A fork asks otherwise; a rewound thread takes the question back."""
    kept = SqliteHistory("kept.db", lease=ThreadLease())
    script = ScriptedModel("Hello Ada.", "In Graz.", "In Linz.", "In Wels.")
    guide = Agent(name="guide", system="Brief.", model=script, history=kept)
    await guide.run(UserMessage("I am Ada.", "m1"), thread_id="t")
    await guide.run(UserMessage("Where is the office?", "m2"), thread_id="t")

    fork = await kept.fork("t", "m2")  # a thread with what was before that message
    await guide.run("Where is the shop?", thread_id=fork)
    script.assert_saw("I am Ada.", "Hello Ada.", "Where is the shop?")
    assert (await kept.get_thread(fork)).forked_from == "t"

    await kept.rewind("t", "m2")  # the same thread, back to before the message
    await guide.run(UserMessage("Where is the bus?", "m3"), thread_id="t")
    script.assert_saw("I am Ada.", "Hello Ada.", "Where is the bus?")
    # --8<-- [end:forks]
    await kept.close()


# --8<-- [start:client]
from agentkit_py import AgentResult, State, TextMessage


async def client_keeps_the_history() -> None:
    """A state that brings messages or results along is believed: nothing is loaded."""
    state = State[dict[str, object]](
        messages=[TextMessage("user", "I am Bob."), TextMessage("assistant", "Hello Bob.")]
    )
    answer = ScriptedModel("You are Bob.")
    await agent.run("Who am I?", state=state, model=answer)
    answer.assert_saw("I am Bob.", "Hello Bob.", "Who am I?")
    # --8<-- [end:client]


# --8<-- [start:config]
from agentkit_py import HistoryConfig
from agentkit_py.history import HistoryContext

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
    await look(await two_turns())
    await delivered_twice()
    await said_while_it_works()
    await each_user_sees_their_own()
    await another_question()
    await client_keeps_the_history()
    await own_store()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main())
