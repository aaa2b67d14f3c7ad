"""The ids of steps are part of the stored format: a run that waits must find its steps again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import inngest
import pytest

from agentkit_py import (
    Agent,
    Lifecycle,
    MemoryHistory,
    Message,
    Network,
    RouterContext,
    RoutingAgent,
    State,
    TextMessage,
    ToolContext,
    UserMessage,
    tool,
)
from agentkit_py.history.leases import ThreadLease
from agentkit_py.inngest import AgentKitMiddleware
from agentkit_py.models import Model
from agentkit_py.processors import ApproximateTokenizer, Summarize
from agentkit_py.results import AgentResult
from agentkit_py.routing import together
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls
from agentkit_py.testing.executor import KillAt, ReplayExecutor, Wait

from .world import EVENT, INFERENCES, Inference, executor_for


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


@tool(steps=True)
async def walk(ctx: ToolContext) -> str:
    """Walk, in two steps."""

    async def step() -> int:
        return 1

    await ctx.step.run("left", step)
    await ctx.step.sleep("rest", 10)
    await ctx.step.run("right", step)
    return "there"


@tool(needs_approval=True)
def refund(amount: int) -> str:
    """Pay money back."""
    return f"paid {amount}"


def _agent(name: str, *replies: Any, **options: Any) -> Agent:
    return Agent(name=name, system=f"{name} S", model=ScriptedModel(*replies), **options)


async def _steps(
    runnable: Agent | Network,
    *,
    inference: Inference = "local",
    answer: Any = None,
    turns: Sequence[Mapping[str, Any]] = ({},),
) -> list[str]:
    """Names of the steps of one function that runs ``runnable`` once for each turn."""

    async def handler(ctx: inngest.Context) -> None:
        for number, options in enumerate(turns):
            await runnable.run(UserMessage(f"turn {number}", f"m{number}"), **options)

    model = runnable.model if isinstance(runnable, Agent) else None
    transport = model.transport if isinstance(model, Model) else None
    executor = executor_for(handler, inference=inference, seed=0, transport=transport)
    run = await executor.run(EVENT, {}, answer=answer)
    assert (run.status, run.error, run.differences) == ("completed", None, [])
    return run.names


def _approve(wait: Wait) -> dict[str, Any]:
    assert wait.expression is not None
    return {"approvalId": wait.expression.split("'")[1], "approved": True}


@pytest.mark.parametrize("inference", INFERENCES)
async def test_an_agent_with_tools(inference: Inference) -> None:
    """The ids do not depend on where the model is called."""
    agent = _agent("solo", tool_call("look", {"place": "attic"}), "Done.", tools=[look], max_iter=3)
    assert await _steps(agent, inference=inference) == [
        "solo.0.infer",
        "solo.0.tool.0.look",
        "solo.1.infer",
    ]


async def test_tools_one_after_another_and_with_steps_of_their_own() -> None:
    """Each call has its number."""
    calls = tool_calls(("look", {"place": "attic"}), ("walk", {}))
    agent = _agent("solo", calls, "Done.", tools=[look, walk], max_iter=3)
    assert await _steps(agent) == [
        "solo.0.infer",
        "solo.0.tool.0.look",
        "solo.0.tool.1.walk.left",
        "solo.0.tool.1.walk.rest",
        "solo.0.tool.1.walk.right",
        "solo.1.infer",
    ]


async def test_parallel_tools() -> None:
    """Parallel calls have the step ids of sequential ones."""
    calls = tool_calls(("look", {"place": "attic"}), ("walk", {}), ("look", {"place": "cellar"}))
    agent = _agent("solo", calls, "Done.", tools=[look, walk], max_iter=3, parallel_tools=True)
    assert sorted(await _steps(agent)) == [
        "solo.0.infer",
        "solo.0.tool.0.look",
        "solo.0.tool.1.walk.left",
        "solo.0.tool.1.walk.rest",
        "solo.0.tool.1.walk.right",
        "solo.0.tool.2.look",
        "solo.1.infer",
    ]


async def test_a_network_with_a_router() -> None:
    """Ids are made of the run, the agent, the number among its own turns, and the inference."""
    one, two = _agent("one", "1", "3"), _agent("two", "2")

    def router(context: RouterContext) -> Agent | None:
        return [one, two, one, None][context.call_count]

    network = Network(name="net", agents=[one, two], router=router)
    assert await _steps(network) == [
        "net.one.0.0.infer",
        "net.two.0.0.infer",
        "net.one.1.0.infer",
    ]


async def test_a_network_with_a_routing_agent() -> None:
    """The routing agent's inferences are apart from those of the others."""
    choose = [tool_call("select", {"name": "one"}), tool_call("select", {"name": ""})]

    @tool
    def select(name: str) -> str:
        """Select."""
        return name

    routing = RoutingAgent(
        name="routing",
        system="routing S",
        tools=[select],
        tool_choice="select",
        model=ScriptedModel(*choose),
        lifecycle=Lifecycle(on_route=_selected),
    )
    network = Network(name="net", agents=[_agent("one", "1")], router=routing)
    assert await _steps(network) == [
        "net.route.0.0.infer",
        "net.route.0.0.tool.0.select",
        "net.one.0.0.infer",
        "net.route.1.0.infer",
        "net.route.1.0.tool.0.select",
    ]


def _selected(context: Any) -> list[str] | None:
    [message] = [m for m in context.result.tool_calls if m.type == "tool_result"]
    name = message.content["data"]
    return [name] if name else None


async def test_a_network_with_the_default_router() -> None:
    """Its routing agent has a name of its own."""
    choices = [tool_call("select_agent", {"name": "one"}), tool_call("done", {"answer": "Bye."})]
    network = Network(
        name="net", agents=[_agent("one", "1")], default_model=ScriptedModel(*choices)
    )
    assert await _steps(network) == [
        "net.route.0.0.infer",
        "net.route.0.0.tool.0.select_agent",
        "net.one.0.0.infer",
        "net.route.1.0.infer",
        "net.route.1.0.tool.0.done",
    ]


async def test_a_call_that_a_person_approves() -> None:
    """The question is a step."""
    calls = tool_calls(("refund", {"amount": 1}), ("look", {"place": "attic"}))
    agent = _agent("solo", calls, "Done.", tools=[refund, look], max_iter=2)
    assert await _steps(agent, answer=_approve) == [
        "solo.0.infer",
        "solo.0.approve",
        "solo.0.tool.0.refund",
        "solo.0.tool.1.look",
        "solo.1.infer",
    ]


async def test_an_agent_as_a_tool() -> None:
    """Its steps carry the call's id."""
    inner = _agent("inner", tool_call("look", {"place": "attic"}), "I.", tools=[look], max_iter=2)
    calls = [tool_call("inner", {"task": "go"}), "Done."]
    outer = _agent(
        "outer", *calls, tools=[inner.as_tool(description="Ask.", allowed_tools="own")], max_iter=2
    )
    assert await _steps(outer) == [
        "outer.0.infer",
        "outer.0.tool.0.inner/inner.0.infer",
        "outer.0.tool.0.inner/inner.0.tool.0.look",
        "outer.0.tool.0.inner/inner.1.infer",
        "outer.1.infer",
    ]


async def test_a_thread_in_a_store() -> None:
    """Two turns of one thread."""
    agent = _agent("solo", "1", "2", history=MemoryHistory())
    assert await _steps(agent, turns=[{"thread_id": "t"}] * 2) == [
        "solo.history.create-thread",
        "solo.history.count",
        "solo.history.append-user-message",
        "solo.0.infer",
        "solo.history.append-results.solo.0",
        "solo:2.history.create-thread",
        "solo:2.history.count",
        "solo:2.history.append-user-message",
        "solo:2.0.infer",
        "solo:2.history.append-results.solo.0",
    ]


async def test_a_thread_that_runs_take_turns_on() -> None:
    """The run asks a person, and other runs may lease the thread meanwhile."""
    model = ScriptedModel(*REFUNDING)
    network = _leased(MemoryHistory(lease=ThreadLease()), model)
    assert await _steps(network, answer=_approve, turns=[{"thread_id": "t"}]) == [
        "net.history.open.0",
        "net.history.append-user-message",
        "net.solo.0.0.infer",
        "net.history.turn.net.solo.0.0.approve.pause",
        "net.solo.0.0.approve.asked",
        "net.solo.0.0.approve",
        "net.solo.0.0.approve.closed",
        "net.history.turn.net.solo.0.0.approve.back.0",
        "net.solo.0.0.tool.0.refund",
        "net.history.append-results.solo.0",
        "net.solo.0.1.infer",
        "net.history.append-results.solo.1",
        "net.history.turn.end",
    ]


REFUNDING = [tool_call("refund", {"amount": 1}), "Done."]


def _leased(store: MemoryHistory, model: ScriptedModel) -> Network:
    agent = Agent(name="solo", system="S", model=model, tools=[refund], max_iter=2, history=store)
    return Network(name="net", agents=[agent], history=store, router=_once(agent))


class _StoreOfBefore(MemoryHistory):
    """A store whose threads were opened in four steps."""

    one_step = False

    @property
    def looks_first(self) -> bool:
        return self.one_step


OPENING = [f"net.history.{name}" for name in ("create-thread", "turn.1.0", "recall", "count")]
"""The steps that opened a thread with a lease before they were one."""


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("done", range(1, 5))
async def test_runs_that_began_to_open_their_thread_in_four_steps_continue_so(
    done: int, *, known: bool
) -> None:
    """Without middleware nobody knows, and all do. The run sees earlier messages once."""
    store = _StoreOfBefore(lease=ThreadLease())
    await store.append(await store.add_thread("t"), [AgentResult.from_user("before", id="b")])
    model = ScriptedModel(*REFUNDING)
    network = _leased(store, model)
    workers = [False, True]

    def functions() -> list[inngest.Function[Any]]:
        store.one_step = workers.pop(0)
        middleware: Any = [AgentKitMiddleware] if known else []
        client = inngest.Inngest(app_id="test", is_production=False, middleware=middleware)

        async def handler(ctx: inngest.Context) -> int:
            message = UserMessage("now", "m")
            return len((await network.run(message, thread_id="t", ctx=ctx)).results)

        trigger = inngest.TriggerEvent(event=EVENT)
        return [client.create_function(fn_id="f", trigger=trigger, retries=2)(handler)]

    client = inngest.Inngest(app_id="test", is_production=False)
    kill = KillAt(request=done, when="after")
    executor = ReplayExecutor(client, functions, transport=model.fake.transport, kill=kill)
    run = await executor.run(EVENT, {}, answer=_approve)
    assert (run.status, run.error, run.differences) == ("completed", None, [])
    assert run.names[:4] == OPENING
    assert workers == []
    sent = str(model.bodies[-1])
    assert (sent.count("before"), sent.count("now")) == (1, 1)


def _once(agent: Agent) -> Any:
    def router(context: RouterContext) -> Agent | None:
        return agent if context.call_count == 0 else None

    return router


async def test_agents_together() -> None:
    """Each has its own number."""
    one = _agent("one", tool_call("look", {"place": "attic"}), "1", tools=[look], max_iter=2)
    two = _agent("two", "2")

    def router(context: RouterContext) -> Any:
        return together(one, two) if context.call_count == 0 else None

    network = Network(name="net", agents=[one, two], router=router, history=MemoryHistory())
    assert sorted(await _steps(network)) == [
        "net.history.append-results.one.0",
        "net.history.append-results.one.1",
        "net.history.append-results.two.0",
        "net.history.append-user-message",
        "net.history.create-thread",
        "net.one.0.0.infer",
        "net.one.0.0.tool.0.look",
        "net.one.0.1.infer",
        "net.two.0.0.infer",
    ]


async def test_a_processor_that_calls_a_model() -> None:
    """A summary is made in steps."""
    summary = Summarize(ScriptedModel("They spoke."), 3000, 2000, summary_tokens=300)
    agent = _agent(
        "solo",
        "Done.",
        history=MemoryHistory(),
        processors=[summary],
        token_counter=ApproximateTokenizer(chars_per_token=1),
    )
    past: list[Message] = [
        TextMessage("user" if n % 2 == 0 else "assistant", f"{n:04}".ljust(100, "x"))
        for n in range(40)
    ]
    assert await _steps(agent, turns=[{"state": State(messages=past, thread_id="t")}]) == [
        "solo.history.create-thread",
        "solo.history.append-user-message",
        "solo.0.summary.load",
        "solo.0.summary.lock",
        "solo.0.summary.ask",
        "solo.0.summary.save",
        "solo.0.infer",
        "solo.history.append-results.solo.0",
    ]
