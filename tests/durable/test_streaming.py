"""Chunks that replays publish, and the messages that a consumer builds from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, Network, RouterContext, tool
from agentkit_py.inngest import AgentKitMiddleware, create_functions, publisher
from agentkit_py.runs import StreamingConfig
from agentkit_py.testing import EventLog, ScriptedModel, tool_call
from agentkit_py.testing.executor import ReplayExecutor, kill_points

from .conftest import FAN_OUT, fan_out
from .world import INFERENCES, Inference, Scenario


@pytest.mark.parametrize("tokens", [True, False])
async def test_streamed_tokens_are_those_of_the_direct_run(support: Scenario, tokens: bool) -> None:
    """With inference="local", replies are streamed from inside the step."""
    support.tokens = tokens
    direct, durable = await support.direct(), await support.durable("local", check=False)
    assert durable.chunks == direct.chunks
    deltas = [chunk for chunk in direct.chunks if chunk[1] == "text.delta"]
    assert len(deltas) > (2 if tokens else 1)


@pytest.mark.parametrize("inference", INFERENCES)
async def test_sequence_numbers_have_no_gap_and_each_is_one_chunk(
    support: Scenario, inference: Inference
) -> None:
    """The order is that of the first publication."""
    outcome = await support.durable(inference)
    assert [chunk[0] for chunk in outcome.chunks] == list(range(len(outcome.chunks)))
    assert outcome.chunks[0][1] == "run.started"
    assert [chunk[1] for chunk in outcome.chunks][-2:] == ["run.completed", "stream.ended"]


@pytest.mark.parametrize("tokens", [True, False])
async def test_chunks_of_a_killed_run_are_those_of_one_that_was_not(
    support: Scenario, tokens: bool
) -> None:
    """Every third kill point is tried; duplicates carry the ids of the first chunks."""
    support.tokens = tokens
    direct = await support.direct()
    reference = await support.durable("local", check=False)
    assert reference.run is not None
    for point in list(kill_points(reference.run.requests))[::3]:
        outcome = await support.durable("local", kill=point, check=False)
        assert outcome.chunks == direct.chunks, point


@pytest.mark.parametrize("tokens", [True, False])
async def test_chunks_of_agents_that_run_together_come_in_the_order_of_the_agents(
    scenario: Callable[..., Scenario], tokens: bool
) -> None:
    """The order does not depend on the agents' durations, directly and durably."""
    searched = scenario(fan_out, FAN_OUT, tokens=tokens)
    direct = await searched.direct()
    for seed in range(4):
        for discovery in ("joined", "eager"):
            durable = await searched.durable(
                "local",
                seed=seed,
                discovery=discovery,
                check=False,
            )
            assert durable.chunks == direct.chunks


async def test_a_function_publishes_to_the_users_channel() -> None:
    """The SDK's realtime publishes, as the useAgent hook expects it."""
    client = inngest.Inngest(app_id="app", is_production=False)
    model = ScriptedModel("Hello.")
    agent = Agent(name="greeter", system="S", model=model)
    functions = create_functions(client, agents=[agent], inference="local", realtime=True)
    executor = ReplayExecutor(client, functions)
    run = await executor.run("app/agent-greeter", {"input": "hi", "userId": "u1"})
    assert run.status == "completed"
    assert {(p.channel, p.topic) for p in executor.published} == {("user:u1", "agent_stream")}
    ids = [p.data["id"] for p in executor.published]
    assert ids[0] == "publish-0:run.started"
    assert len(ids) == len(set(ids))


async def test_a_publisher_that_fails_does_not_disturb_the_run() -> None:
    """It is logged."""
    client = inngest.Inngest(app_id="app", is_production=False)
    model = ScriptedModel("Hello.")
    agent = Agent(name="greeter", system="S", model=model)
    network = Network(
        name="net", agents=[agent], router=lambda c: agent if c.call_count == 0 else None
    )

    async def broken(_chunk: dict[str, Any]) -> None:
        raise OSError("away")

    async def handler(ctx: inngest.Context) -> str:
        run = await network.run("hi", ctx=ctx, streaming=StreamingConfig(publish=broken))
        return run.text

    make = client.create_function(fn_id="f", trigger=inngest.TriggerEvent(event="go"))
    run = await ReplayExecutor(client, [make(handler)], transport=model.transport).run("go")
    assert run.output == "Hello."


async def test_an_own_publisher_in_an_own_function_sends_each_chunk_once() -> None:
    """A replay repeats the code before the step that is new, and not what it has published."""
    model = ScriptedModel(*[tool_call("track", {"parcel": n}) for n in range(4)], "Done.")

    def track(parcel: int) -> int:
        """Track it."""
        return parcel

    agent = Agent(name="clerk", system="S", model=model, tools=[tool(track)])
    sent: list[str] = []

    def publish(chunk: dict[str, Any]) -> None:
        sent.append(chunk["id"])

    client = inngest.Inngest(app_id="a", is_production=False, middleware=[AgentKitMiddleware])

    async def own(ctx: inngest.Context) -> str:
        result = await agent.run("Where?", streaming=StreamingConfig(publish=publish))
        return result.text

    trigger = inngest.TriggerEvent(event="own")
    made = client.create_function(fn_id="own", trigger=trigger)(own)
    run = await ReplayExecutor(client, [made], transport=model.fake.transport).run("own", {})
    assert run.output == "Done."
    assert len(sent) == len(set(sent)) > 20
    assert sent[0].endswith("run.started")
    assert sent[-1].endswith("stream.ended")


async def test_an_observer_in_an_own_function_gets_each_event_once() -> None:
    """As a direct run's does, in the same order."""

    def track(parcel: int) -> int:
        """Track it."""
        return parcel

    def desk() -> tuple[ScriptedModel, Network]:
        calls = [tool_call("track", {"parcel": n}) for n in range(3)]
        model = ScriptedModel(*calls, "Done.")
        clerk = Agent(name="clerk", system="S", model=model, tools=[tool(track)])
        return model, Network(name="desk", agents=[clerk], router=once)

    def once(context: RouterContext) -> str | None:
        return "clerk" if context.call_count == 0 else None

    direct, durable = EventLog(), EventLog()
    _, network = desk()
    await network.run("Where?", observer=direct)
    model, network = desk()
    client = inngest.Inngest(app_id="a", is_production=False, middleware=[AgentKitMiddleware])

    async def own(ctx: inngest.Context) -> str:
        return (await network.run("Where?", observer=durable)).text

    trigger = inngest.TriggerEvent(event="own")
    made = client.create_function(fn_id="own", trigger=trigger)(own)
    run = await ReplayExecutor(client, [made], transport=model.fake.transport).run("own", {})
    assert run.output == "Done."
    assert durable.story == direct.story
    assert len(direct.story) > 10


async def test_the_librarys_publisher_in_an_own_function_sends_each_chunk_once() -> None:
    """As many requests to the realtime service as there are chunks."""
    client = inngest.Inngest(app_id="a", is_production=False, middleware=[AgentKitMiddleware])
    model = ScriptedModel(*[tool_call("track", {"parcel": n}) for n in range(4)], "Done.")

    def track(parcel: int) -> int:
        """Track it."""
        return parcel

    agent = Agent(name="clerk", system="S", model=model, tools=[tool(track)])

    async def own(ctx: inngest.Context) -> str:
        streaming = StreamingConfig(publish=publisher(client, "ada"))
        return (await agent.run("Where?", streaming=streaming)).text

    trigger = inngest.TriggerEvent(event="own")
    made = client.create_function(fn_id="own", trigger=trigger)(own)
    executor = ReplayExecutor(client, [made], transport=model.fake.transport)
    run = await executor.run("own", {})
    assert run.output == "Done."
    ids = [published.data["id"] for published in executor.published]
    assert len(ids) == len(set(ids)) > 20
