"""Agents and networks as functions to serve."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import inngest
import pytest

from agentkit_py import Agent, Network, State, ToolContext, tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.inngest import AgentKitMiddleware, FunctionOptions, create_functions
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.testing.executor import ReplayExecutor

from .world import INFERENCES, Inference


def client(**options: Any) -> inngest.Inngest:
    """A client in development mode."""
    return inngest.Inngest(app_id="shop", is_production=False, **options)


def greeter(*replies: Any) -> tuple[Agent, ScriptedModel]:
    """An agent with a script."""
    model = ScriptedModel(*replies)

    @tool
    def remember(word: str, ctx: ToolContext) -> str:
        """Remember."""
        ctx.state.data["word"] = word
        return "ok"

    return Agent(name="Greeter Bot", system="S", tools=[remember], model=model, max_iter=2), model


@pytest.mark.parametrize("inference", INFERENCES)
async def test_the_function_of_an_agent_returns_the_fields_that_a_caller_needs(
    inference: Inference,
) -> None:
    """Started by the event of its name, with state and thread of the event."""
    agent, model = greeter(tool_call("remember", {"word": "tea"}), "Hello.")
    made = client()
    functions = create_functions(made, agents=[agent], inference=inference)
    executor = ReplayExecutor(made, functions, transport=model.transport, check=True)
    data = {"input": "hi", "state": {"known": True}, "threadId": "t1"}
    run = await executor.run("shop/agent-greeter-bot", data)
    assert run.error is None
    assert run.output["text"] == "Hello."
    assert run.output["threadId"] == "t1"
    assert run.output["state"] == {"known": True, "word": "tea"}
    assert [r["agentName"] for r in run.output["results"]][-1] == "Greeter Bot"
    assert run.differences == []


async def test_the_functions_own_settings_win_over_the_clients_middleware() -> None:
    """create_functions(inference="local") under a client that offloads."""
    agent, model = greeter("Hello.")
    made = client(middleware=[AgentKitMiddleware])
    functions = create_functions(made, agents=[agent], inference="local")
    run = await ReplayExecutor(made, functions).run("shop/agent-greeter-bot", {"input": "hi"})
    assert run.output["text"] == "Hello."
    assert [step.op for step in run.steps] == ["StepRun"]
    model.assert_finished()


async def test_a_networks_function_says_why_it_ended() -> None:
    """Its default state is a fresh copy for each run."""
    agent, model = greeter("One.", "Two.")
    network = Network(
        name="front desk",
        agents=[agent],
        router=lambda c: agent if c.call_count == 0 else None,
        default_state=State({"n": 1}),
    )
    made = client()
    executor = ReplayExecutor(
        made, create_functions(made, networks=[network]), transport=model.transport
    )
    message = {"content": "hi", "id": "m1", "systemPrompt": "Be kind."}
    for text in ("One.", "Two."):
        run = await executor.run("shop/network-front-desk", {"input": message})
        assert (run.output["text"], run.output["stopReason"]) == (text, "done")
        assert run.output["state"] == {"n": 1}
    model.assert_saw("Be kind.")


@pytest.mark.parametrize("data", [{}, {"input": 7}, {"input": {"text": "hi"}}])
async def test_a_bad_event_fails_once_and_names_the_expected_fields(data: dict[str, Any]) -> None:
    """Trying again would not change the event."""
    agent, _ = greeter()
    made = client()
    run = await ReplayExecutor(made, create_functions(made, agents=[agent])).run(
        "shop/agent-greeter-bot", data
    )
    assert run.status == "failed"
    assert run.requests == 1
    assert run.error is not None
    assert "event.data.input" in run.error["message"]


def _functions(**options: Any) -> Any:
    return create_functions(client(), agents=[greeter()[0]], **options)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (_functions, "inference"),
        (_functions, "realtime"),
        (AgentKitMiddleware.configured, "inference"),
        (AgentKitMiddleware.configured, "on_version_mismatch"),
        (FunctionOptions, "on_version_mismatch"),
    ],
)
def test_a_word_that_an_option_does_not_know_is_refused_with_its_choices(
    make: Any, name: str
) -> None:
    """A slip would mean something: the default, or the other word."""
    with pytest.raises(ConfigurationError, match=f"{name} must be .* or .*, got 'fial'"):
        make(**{name: "fial"})


def test_options_are_passed_on_to_the_server() -> None:
    """They have the SDK's types, and options that were not given are not set."""

    async def on_failure(ctx: inngest.Context) -> None:
        return None

    options = FunctionOptions(
        cancel=[inngest.Cancel(event="shop/stop", if_exp="async.data.id == event.data.id")],
        concurrency=[inngest.Concurrency(limit=2, key="event.data.userId")],
        debounce=inngest.Debounce(period=timedelta(seconds=5)),
        idempotency="event.data.id",
        on_failure=on_failure,
        priority=inngest.Priority(run="event.data.vip ? 100 : 0"),
        rate_limit=inngest.RateLimit(limit=3, period=timedelta(minutes=1)),
        retries=7,
        singleton=inngest.Singleton(mode="skip"),
        throttle=inngest.Throttle(limit=4, period=timedelta(minutes=1)),
        timeouts=inngest.Timeouts(finish=timedelta(hours=1)),
    )
    agent, _ = greeter()
    [function] = create_functions(client(), agents=[agent], options={"Greeter Bot": options})
    config = function.get_config("http://here").main
    assert function.id == "shop-agent-greeter-bot"
    assert config.name == "Greeter Bot"
    assert config.steps["step"].retries is not None
    assert config.steps["step"].retries.attempts == 7
    given = json.loads(config.model_dump_json(by_alias=True))
    for name in ("cancel", "concurrency", "debounce", "idempotency", "priority", "rateLimit",
                 "singleton", "throttle", "timeouts"):  # fmt: skip
        assert given[name], name
    assert function.get_config("http://here").on_failure is not None


def test_agents_that_cannot_be_served_are_refused() -> None:
    """Options for nobody, and two names with one id."""
    agent, _ = greeter()
    with pytest.raises(ConfigurationError, match="'nobody'"):
        create_functions(client(), agents=[agent], options={"nobody": FunctionOptions()})
    twin = Agent(name="greeter-bot", system="S")
    with pytest.raises(ConfigurationError, match="same function id"):
        create_functions(client(), agents=[agent, twin])


async def test_a_failed_run_calls_on_failure_with_the_error() -> None:
    """Once, after the last attempt."""
    seen: list[Any] = []

    async def on_failure(ctx: inngest.Context) -> None:
        seen.append(ctx.event.data["error"])

    agent, model = greeter()
    made = client()
    options = {"Greeter Bot": FunctionOptions(on_failure=on_failure, retries=0)}
    functions = create_functions(made, agents=[agent], options=options)
    executor = ReplayExecutor(made, functions, transport=model.transport)
    run = await executor.run("shop/agent-greeter-bot", {"input": "hi"})
    await executor.advance(60)
    assert run.status == "failed"
    assert len(seen) == 1
