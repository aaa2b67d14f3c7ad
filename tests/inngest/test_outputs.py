"""What functions return: runs and results as JSON, in one shape, in both languages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import inngest
import pytest

from agentkit_py import Network, create_agent, create_network, create_state
from agentkit_py.errors import InvalidRecordError
from agentkit_py.inngest import AgentKitMiddleware, RunOutput, create_functions
from agentkit_py.messages import UserMessage
from agentkit_py.testing import ScriptedModel
from agentkit_py.testing.executor import ReplayExecutor


@dataclass
class Ticket:
    """State data."""

    number: int = 0


def desk(model: ScriptedModel) -> Network[Any, Any]:
    """A network of one turn."""
    agent = create_agent(name="clerk", system="S", model=model)
    return create_network(
        name="desk", agents=[agent], router=lambda c: agent if c.call_count == 0 else None
    )


async def answer(body: Callable[[Network[Any, Any]], Awaitable[object]], *replies: str) -> Any:
    """Run a function of one's own; return its run and the number of model calls."""
    model = ScriptedModel(*(replies or ("Hi.",)))
    client = inngest.Inngest(app_id="app", is_production=False, middleware=[AgentKitMiddleware])
    network = desk(model)

    async def handler(ctx: inngest.Context) -> Any:
        return await body(network)

    trigger = inngest.TriggerEvent(event="go")
    made = client.create_function(fn_id="own", trigger=trigger, retries=4)(handler)
    run = await ReplayExecutor(client, [made], transport=model.fake.transport).run("go", {})
    return run, len(model.bodies)


async def test_a_function_that_returns_a_run_gives_the_json_of_create_functions() -> None:
    """`return await network.run(…)`, as TypeScript's examples do."""
    own, _ = await answer(lambda network: network.run("Hello"))
    model = ScriptedModel("Hi.")
    client = inngest.Inngest(app_id="app", is_production=False)
    functions = create_functions(client, networks=[desk(model)])
    executor = ReplayExecutor(client, functions, transport=model.fake.transport)
    ready = await executor.run("app/network-desk", {"input": "Hello"})
    assert own.status == "completed"
    assert own.output.keys() == ready.output.keys()
    assert own.output["text"] == "Hi."
    assert own.output["stopReason"] == "done"


async def test_runs_results_messages_and_state_data_are_json_wherever_they_stand() -> None:
    """`return { response, ticket, run }`."""

    async def body(network: Network[Any, Any]) -> object:
        run = await network.run("Hello", state=create_state(Ticket(7)))
        last = run.last_result
        assert last is not None
        return {"all": [run], "last": last, "ticket": run.state.data, "said": last.output}

    run, _ = await answer(body)
    assert run.output["all"][0]["state"] == {"number": 7}
    assert run.output["last"]["agentName"] == "clerk"
    assert run.output["ticket"] == {"number": 7}
    assert run.output["said"][0]["content"] == "Hi."


async def test_a_result_that_is_not_json_fails_once_and_names_its_place() -> None:
    """The function is not tried again: it would return the same."""

    async def body(network: Network[Any, Any]) -> object:
        return {"text": (await network.run("Hello")).text, "at": datetime.now(UTC)}

    run, calls = await answer(body)
    assert run.status == "failed"
    assert "'output.at'" in run.error["message"]
    assert "run.to_dict()" in run.error["message"]
    assert calls == 1


async def test_the_output_of_a_function_is_read_back() -> None:
    """Another function invokes it, and continues with its results."""
    run, _ = await answer(lambda network: network.run("Hello", state=create_state({"n": 2**60})))
    assert run.output["state"] == {"n": {"$number": str(2**60)}}
    found = RunOutput.from_dict(run.output)
    assert (found.text, found.stop_reason, found.state) == ("Hi.", "done", {"n": 2**60})
    assert [result.agent_name for result in found.results] == ["clerk"]


RESULT: dict[str, Any] = {
    "agentName": "clerk",
    "output": [{"type": "text", "role": "assistant", "content": "Hi.", "stop_reason": "stop"}],
    "toolCalls": [],
    "createdAt": "2026-11-27T23:07:36.996Z",
}


def test_outputs_of_typescripts_functions_are_read() -> None:
    """`createServer` gives a whole network's run, and an agent's result."""
    state: dict[str, Any] = {
        "_results": [RESULT],
        "_messages": [],
        "_data": {"x": 1},
        "data": {"x": 1},
        "kv": {},
    }
    run: dict[str, Any] = {"_counter": 1, "name": "desk", "agents": {}, "_stack": []}
    found = RunOutput.from_dict({**run, "state": {**state, "threadId": "t1"}})
    assert (found.text, found.state, found.thread_id) == ("Hi.", {"x": 1}, "t1")
    assert RunOutput.from_dict(RESULT).text == "Hi."


@pytest.mark.parametrize(
    ("output", "field"),
    [
        ("Hi.", "(whole)"),
        ({"answer": 1}, "(whole)"),
        ({"results": "x", "text": ""}, "results"),
        ({"results": [], "text": 1}, "text"),
        ({"state": {"_results": 3}}, "state._results"),
    ],
)
def test_outputs_of_other_functions_are_refused_by_field(output: object, field: str) -> None:
    """The error names the place."""
    with pytest.raises(InvalidRecordError, match="output") as caught:
        RunOutput.from_dict(output)
    assert caught.value.field == field


async def test_a_user_message_goes_to_json_and_back() -> None:
    """As a front end sends it."""
    sent = {
        "id": "m1",
        "role": "user",
        "content": "Hello",
        "state": {"page": "cart"},
        "clientTimestamp": "2026-11-27T10:00:00+00:00",
        "systemPrompt": "Be brief.",
    }
    assert UserMessage.from_dict(sent).to_dict() == sent


async def test_a_run_inside_a_users_step_is_refused_with_advice() -> None:
    """`step.run("…", () => agent.run(q))`, as TypeScript's programs do; it is tried once."""
    model = ScriptedModel("Hi.")
    client = inngest.Inngest(app_id="app", is_production=False, middleware=[AgentKitMiddleware])
    network = desk(model)

    async def handler(ctx: inngest.Context) -> Any:
        async def inner() -> Any:
            return (await network.run("Hello")).text

        return await ctx.step.run("inference", inner)

    trigger = inngest.TriggerEvent(event="go")
    made = client.create_function(fn_id="own", trigger=trigger, retries=4)(handler)
    executor = ReplayExecutor(client, [made], transport=model.fake.transport)
    run = await executor.run("go", {})
    assert run.status == "failed"
    assert run.error is not None
    assert "without a step around it" in run.error["message"]
    assert run.requests <= 2
    assert not model.bodies
