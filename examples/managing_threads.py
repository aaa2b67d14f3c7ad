"""The code of docs/guides/managing-threads.md."""

import asyncio
from datetime import UTC, datetime

from agentkit_py import Agent, SqliteHistory, State, TextMessage, UserMessage
from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.history import Rating
from agentkit_py.stores import ThreadLease, for_user
from agentkit_py.testing import ScriptedModel

# --8<-- [start:read]
store = SqliteHistory("threads.db", lease=ThreadLease())
model = ScriptedModel("Hello Ada.")
host = Agent(name="host", system="You are polite.", model=model, history=store)


async def look() -> None:
    """Reading threads, and managing them."""
    await host.run("I am Ada.", thread_id="ada-1")
    for info in await store.list_threads(limit=20):
        print(info.id, info.title, info.updated_at)
    for message in await store.messages("ada-1"):
        print(message.role, message.type, message.agent)
    results = await store.load("ada-1")  # user turns among them
    assert [result.agent_name for result in results] == ["user", "host"]

    await store.add_thread("ada-2", user_id="ada", metadata={"channel": "mail"})
    assert (await store.get_thread("ada-2")).metadata == {"channel": "mail"}
    await store.delete_thread("ada-2")
    # --8<-- [end:read]


# --8<-- [start:users]
async def each_user_sees_their_own() -> None:
    """A thread of somebody else is not found."""
    await for_user(store, "ada").add_thread("hers")
    try:
        await for_user(store, "bob").load("hers")
    except ThreadNotFoundError as error:
        print(error)
    assert await store.delete_user("ada") == 1
    # --8<-- [end:users]


# --8<-- [start:forks]
async def another_question() -> None:
    """A fork asks otherwise; a rewound thread takes the question back."""
    script = ScriptedModel("Hello Ada.", "In Graz.", "In Linz.", "In Wels.")
    guide = Agent(name="guide", system="Brief.", model=script, history=store)
    await guide.run(UserMessage("I am Ada.", "m1"), thread_id="t")
    await guide.run(UserMessage("Where is the office?", "m2"), thread_id="t")

    fork = await store.fork("t", "m2")  # a thread with what was before that message
    await guide.run("Where is the shop?", thread_id=fork)
    script.assert_saw("I am Ada.", "Hello Ada.", "Where is the shop?")
    assert (await store.get_thread(fork)).forked_from == "t"

    await store.rewind("t", "m2")  # the same thread, back to before the message
    await guide.run(UserMessage("Where is the bus?", "m3"), thread_id="t")
    script.assert_saw("I am Ada.", "Hello Ada.", "Where is the bus?")
    # --8<-- [end:forks]


# --8<-- [start:ratings]
async def rate_an_answer() -> None:
    """A user rates an answer; the developer reads the worst."""
    answer = await host.run("Where is the office?", thread_id="ada-1", model=ScriptedModel("Graz."))
    rating = Rating(
        thread_id="ada-1",
        answer_id=answer.id or "",
        score=0,  # from 0 to 1
        comment="It moved to Linz.",
        rated_at=datetime.now(UTC),
    )
    await store.save_rating(rating)
    worst = min(await store.list_ratings(), key=lambda rating: rating.score)
    assert (worst.answer_id, worst.comment) == (answer.id, "It moved to Linz.")
    # --8<-- [end:ratings]


# --8<-- [start:client]
async def client_keeps_the_history() -> None:
    """A state that brings messages or results along is believed: nothing is loaded."""
    state = State[dict[str, object]](
        messages=[TextMessage("user", "I am Bob."), TextMessage("assistant", "Hello Bob.")]
    )
    answer = ScriptedModel("You are Bob.")
    await host.run("Who am I?", state=state, model=answer)
    answer.assert_saw("I am Bob.", "Hello Bob.", "Who am I?")
    # --8<-- [end:client]


async def main() -> None:
    """All of them."""
    await look()
    await each_user_sees_their_own()
    await rate_an_answer()
    await another_question()
    await client_keeps_the_history()
    await store.close()


if __name__ == "__main__":
    asyncio.run(main())
