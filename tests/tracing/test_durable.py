"""Spans of durable runs: each once, though the function runs again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import inngest
import pytest
from opentelemetry import propagate, trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import StatusCode

from agentkit_py import Agent, Network, ToolContext, tool
from agentkit_py._engine.instrumentation import instrument_all_runs
from agentkit_py.inngest import create_functions
from agentkit_py.inngest.sending import Sender
from agentkit_py.routing import together
from agentkit_py.runtime.port import Runtime
from agentkit_py.testing import ScriptedModel, error, tool_calls
from agentkit_py.testing.executor import ReplayExecutor, Run, kill_points
from agentkit_py.tracing import instrument
from agentkit_py.tracing.tracing import MeasuredRun

from .collected import Collected, said, span_id_of
from .conftest import script, support
from .test_direct import TREE

Inference = Literal["offload", "local"]
BOTH: list[Inference] = ["offload", "local"]


class ManyMachines:
    """Each request of the server is served by a process that has seen no other."""

    def __init__(self, collected: Collected) -> None:
        self._collected = collected

    def of_run(self, runtime: Runtime) -> MeasuredRun:
        """Return a measured run that remembers nothing."""
        return self._collected.tracing().of_run(runtime)

    def carrier(self) -> dict[str, str]:
        """The current trace."""
        return self._collected.tracing().carrier()


async def durably(
    make: Callable[[ScriptedModel], Network],
    model: ScriptedModel,
    inference: Inference,
    data: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[ReplayExecutor, Run]:
    """Run a network as an Inngest function."""
    client = inngest.Inngest(app_id="app", is_production=False)
    network = make(model)
    functions = create_functions(client, networks=[network], inference=inference)
    transport = model.fake.transport
    executor = ReplayExecutor(client, functions, transport=transport, check=False, **options)
    run = await executor.run(
        f"app/network-{network.name}", {"input": "Where is A1?", **(data or {})}
    )
    return executor, run


def everywhere(collected: Collected) -> None:
    """Measure all runs of this process."""
    instrument(tracer_provider=collected.provider, meter_provider=collected.meters)


@pytest.mark.parametrize("inference", BOTH)
async def test_a_durable_run_has_the_spans_of_a_direct_one(
    collected: Collected, inference: Inference
) -> None:
    """The spans are in one trace, each once."""
    everywhere(collected)
    _, run = await durably(support, script(), inference)
    assert run.status == "completed"
    assert collected.parents == TREE
    assert len(collected.traces) == 1
    assert all((s.end_time or 0) >= (s.start_time or 0) > 0 for s in collected.spans)


@pytest.mark.parametrize("inference", BOTH)
async def test_each_span_is_exported_once_by_independent_processes(
    collected: Collected, inference: Inference
) -> None:
    """In the cloud each request may start the function in a new process."""
    instrument_all_runs(ManyMachines(collected))
    await durably(support, script(), inference)
    assert collected.parents == TREE


@pytest.mark.parametrize("inference", BOTH)
async def test_calls_and_tokens_are_counted_once(
    collected: Collected, inference: Inference
) -> None:
    """The metrics count them once, too."""
    everywhere(collected)
    model = script()
    await durably(support, model, inference)
    assert len(model.requests) == 4
    metrics = collected.metrics
    assert sum(p.count for p in metrics["gen_ai.client.operation.duration"]) == 4
    tokens = metrics["gen_ai.client.token.usage"]
    assert [p.count for p in tokens] == [4, 4]
    whole = collected.named("invoke_agent refunds")
    assert said(whole)["gen_ai.usage.output_tokens"] > 0


async def test_the_senders_trace_continues_in_the_function(collected: Collected) -> None:
    """`propagate.inject(event.data)` is all that it takes."""
    everywhere(collected)
    tracer = collected.provider.get_tracer("mine")
    carrier: dict[str, str] = {}
    with tracer.start_as_current_span("POST /chat"):
        propagate.inject(carrier)
    await durably(support, script(), "local", carrier)
    expected = TREE.copy()
    del expected["invoke_workflow support", None]
    expected["invoke_workflow support", "POST /chat"] = 1
    expected["POST /chat", None] = 1
    assert collected.parents == expected
    assert len(collected.traces) == 1


async def test_the_http_api_carries_its_trace_to_the_function(collected: Collected) -> None:
    """`agentkit_py.server` sends the trace with its messages."""
    everywhere(collected)
    model = script()
    network = support(model)
    client = inngest.Inngest(app_id="app", is_production=False)
    functions = create_functions(client, networks=[network], inference="local")
    executor = ReplayExecutor(client, functions)
    tracer = collected.provider.get_tracer("mine")
    with tracer.start_as_current_span("POST /api/chat"), executor.connection.use():
        await Sender(client).start(network, "id-1", {"input": "Where is A1?"})
    run = await executor.finish(executor.runs[0])
    assert run.status == "completed"
    assert collected.parents["invoke_workflow support", "POST /api/chat"] == 1
    assert len(collected.traces) == 1


async def test_the_trace_of_the_request_to_the_worker_is_no_parent(
    collected: Collected,
) -> None:
    """Each request may have a trace of its own, and the run has many requests."""
    everywhere(collected)
    tracer = collected.provider.get_tracer("fastapi")
    with tracer.start_as_current_span("PUT /api/inngest"):
        await durably(support, script(), "local")
    assert collected.parents["invoke_workflow support", None] == 1


async def test_spans_inside_tools_are_children_of_the_tools_spans(collected: Collected) -> None:
    """This includes spans inside a step."""
    everywhere(collected)
    tracer = collected.provider.get_tracer("database")

    def query() -> str:
        """Query."""
        with tracer.start_as_current_span("select"):
            return "row"

    @tool(steps=True)
    async def slow(ctx: ToolContext) -> str:
        """Two steps."""
        await ctx.step.sleep("rest", 1000)

        async def look() -> str:
            with tracer.start_as_current_span("insert"):
                return "done"

        return await ctx.step.run("look", look)

    def make(model: ScriptedModel) -> Network:
        agent = Agent(name="a", system="S", tools=[query, slow], model=model, max_iter=2)
        return Network(name="n", agents=[agent], router=lambda c: None if c.call_count else agent)

    model = ScriptedModel(tool_calls(("query", {}), ("slow", {})), "Done.")
    await durably(make, model, "local")
    parents = collected.parents
    assert parents["select", "execute_tool query"] == 1
    assert parents["insert", "execute_tool slow"] == 1
    assert parents["execute_tool slow", "invoke_agent a"] == 1
    slow_span, insert = collected.named("execute_tool slow"), collected.named("insert")
    assert (slow_span.start_time or 0) <= (insert.start_time or 0)
    assert (slow_span.end_time or 0) >= (insert.end_time or 0)


def fan_out(model: ScriptedModel) -> Network:
    """Two agents together, with two tools together."""

    def look(place: str) -> str:
        """Look."""
        return place

    agents = [
        Agent(name=n, system="S", tools=[look], model=model, max_iter=2, parallel_tools=True)
        for n in ("left", "right")
    ]
    return Network(
        name="search",
        agents=agents,
        router=lambda ctx: together(*agents) if ctx.call_count == 0 else None,
    )


@pytest.mark.parametrize("machines", ["one", "many"])
@pytest.mark.parametrize("seed", range(3))
async def test_spans_of_parallel_branches_have_one_id_each(
    collected: Collected, seed: int, machines: str
) -> None:
    """Whichever step is done first; one process makes each of them once."""
    if machines == "one":
        everywhere(collected)
    else:
        instrument_all_runs(ManyMachines(collected))
    calls = tool_calls(("look", {"place": "attic"}), ("look", {"place": "cellar"}))
    # Who asks first gets the first reply, so both say the same.
    model = ScriptedModel(calls, calls, "Nothing.", "Nothing.")
    _, run = await durably(fan_out, model, "local", seed=seed)
    assert run.status == "completed"
    unique = {span_id_of(span): span for span in collected.spans}
    if machines == "one":
        assert len(unique) == len(collected.spans)
    names = Counter(span.name for span in unique.values())
    assert names["invoke_agent left"] == names["invoke_agent right"] == 1
    assert names["invoke_workflow search"] == 1
    assert names["execute_tool look"] == 4


async def test_spans_of_a_run_whose_worker_dies_have_one_id_each(collected: Collected) -> None:
    """Every third kill point is tried; a step that runs twice has two spans."""
    executor, _ = await durably(support, script(), "local")
    for point in list(kill_points(len(executor.journal)))[::3]:
        fresh = Collected()
        instrument_all_runs(ManyMachines(fresh))
        _, run = await durably(support, _patient(script()), "local", kill=point)
        assert run.status == "completed", point
        unique = {span_id_of(span): span.name for span in fresh.spans}
        names = Counter(unique.values())
        for name in ("invoke_workflow support", "invoke_agent desk", "invoke_agent refunds"):
            assert names[name] == 1, (point, names)
        known = set(unique)
        assert all(s.parent is None or s.parent.span_id in known for s in fresh.spans), point


def _patient(model: ScriptedModel) -> ScriptedModel:
    """A script that repeats its last reply, for requests that come again."""
    model.reply("Your money is on its way.", "Your money is on its way.")
    return model


@pytest.mark.parametrize("inference", BOTH)
async def test_each_try_of_a_retried_call_is_a_span(
    collected: Collected, inference: Inference
) -> None:
    """This process records each try; Inngest's server reports the last one only."""
    everywhere(collected)
    model = ScriptedModel(error(503, "busy"), "Hello.")

    def make(model: ScriptedModel) -> Network:
        agent = Agent(name="a", system="S", model=model)
        return Network(name="n", agents=[agent], router=lambda c: None if c.call_count else agent)

    _, run = await durably(make, model, inference)
    assert run.status == "completed"
    calls = [span for span in collected.spans if span.name == "chat gpt-4o"]
    codes = [span.status.status_code for span in calls]
    expected = [StatusCode.ERROR, StatusCode.UNSET] if inference == "local" else [StatusCode.UNSET]
    assert codes == expected
    assert collected.named("invoke_agent a").status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("inference", BOTH)
async def test_a_run_that_fails_for_good_ends_its_spans_once(
    collected: Collected, inference: Inference
) -> None:
    """The spans have the error of the call."""
    everywhere(collected)
    model = ScriptedModel(*[error(400, "never")] * 6)
    _, run = await durably(support, model, inference)
    assert run.status == "failed"
    for name in ("invoke_agent desk", "invoke_workflow support"):
        assert said(collected.named(name))["error.type"] == "BadRequestError"


async def test_a_trace_that_is_not_sampled_is_not_sampled_anywhere(collected: Collected) -> None:
    """Decided once, by the sampler or by the sender."""
    off = Collected(ParentBased(ALWAYS_OFF))
    everywhere(off)
    await durably(support, script(), "local")
    assert off.spans == []
    assert sum(p.count for p in off.metrics["gen_ai.client.operation.duration"]) == 4
    assert not trace.get_current_span().get_span_context().is_valid
