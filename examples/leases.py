"""The code of docs/guides/leases.md."""

import asyncio

from agentkit_py import Agent, MemoryHistory, SqliteHistory, UserMessage, tool
from agentkit_py.stores import ThreadLease
from agentkit_py.testing import ScriptedModel, tool_call


# --8<-- [start:turns]
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


async def main() -> None:
    """Both of them."""
    await delivered_twice()
    await said_while_it_works()


if __name__ == "__main__":
    asyncio.run(main())
