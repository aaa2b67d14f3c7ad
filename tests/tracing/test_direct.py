"""Spans and metrics of runs in this process."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from agentkit_py import Agent, Message, Network, TextMessage, tool
from agentkit_py.errors import BadRequestError, ModelError
from agentkit_py.guardrails import Guardrail
from agentkit_py.processors import HistoryProcessor, ProcessorContext, Redactor
from agentkit_py.routing import together
from agentkit_py.testing import ScriptedModel, error, tool_call, tool_calls
from agentkit_py.tracing import instrument, uninstrument

from .collected import Collected, said
from .conftest import script, support

TREE: Counter[tuple[str, str | None]] = Counter(
    {
        ("invoke_workflow support", None): 1,
        ("invoke_agent desk", "invoke_workflow support"): 1,
        ("invoke_agent refunds", "invoke_workflow support"): 1,
        ("process_history drop_nothing", "invoke_agent desk"): 3,
        ("chat gpt-4o", "invoke_agent desk"): 3,
        ("execute_tool find_order", "invoke_agent desk"): 1,
        ("execute_tool hand_over", "invoke_agent desk"): 1,
        ("chat gpt-4o", "invoke_agent refunds"): 1,
    }
)


async def test_a_run_is_a_tree_of_spans_in_one_trace(collected: Collected) -> None:
    """Network, agents, model calls, tools and processors."""
    run = await support(script()).run("Where is A1?", tracing=collected.tracing())
    assert run.stop_reason == "done"
    assert collected.parents == TREE
    assert len(collected.traces) == 1


async def test_spans_have_the_attributes_of_the_genai_conventions(collected: Collected) -> None:
    """Names, kinds, models, tokens, finish reasons; the thread is the conversation."""
    run = await support(script()).run("Where is A1?", thread_id="t1", tracing=collected.tracing())
    whole, agent = collected.named("invoke_workflow support"), collected.named("invoke_agent desk")
    assert said(whole)["gen_ai.workflow.name"] == "support"
    assert said(whole)["gen_ai.conversation.id"] == "t1"
    assert said(whole)["agentkit.stop_reason"] == "done"
    assert said(agent)["gen_ai.agent.name"] == "desk"
    assert said(agent)["gen_ai.request.model"] == "gpt-4o"
    first = next(span for span in collected.spans if span.name == "chat gpt-4o")
    assert first.kind is SpanKind.CLIENT
    attributes = said(first)
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.provider.name"] == "openai"
    assert attributes["server.address"] == "api.openai.com"
    assert attributes["server.port"] == 443
    assert attributes["gen_ai.response.finish_reasons"] == ("tool_calls",)
    usage = run.results[0].usage
    assert usage is not None
    assert attributes["gen_ai.usage.input_tokens"] == usage.input_tokens > 0
    assert attributes["gen_ai.usage.output_tokens"] == usage.output_tokens > 0
    found = said(collected.named("execute_tool find_order"))
    assert found["gen_ai.tool.name"] == "find_order"
    assert found["gen_ai.tool.type"] == "function"
    assert found["gen_ai.tool.description"] == "Find an order."
    assert "gen_ai.tool.call.id" in found
    assert all((s.end_time or 0) >= (s.start_time or 0) > 0 for s in collected.spans)


async def test_a_guardrail_that_stops_a_run_is_named_on_its_span(collected: Collected) -> None:
    """Without its reason, which may quote content."""
    stop = Guardrail(lambda _: "secret reason", name="stop", reply="No.")
    agent = Agent(name="desk", system="…", model=ScriptedModel("x"), input_guardrails=[stop])
    await agent.run("Hi", tracing=collected.tracing())
    found = said(collected.named("invoke_agent desk"))
    assert found["agentkit.guardrail.name"] == "stop"
    assert found["agentkit.guardrail.stage"] == "input"
    assert found["agentkit.stop_reason"] == "guardrail"
    assert "secret reason" not in str(found)


async def test_content_is_not_written_by_default(collected: Collected) -> None:
    """Content of users, models, tools and prompts is left out."""
    await support(script()).run("Where is A1?", tracing=collected.tracing())
    written = json.dumps([dict(said(span)) for span in collected.spans], default=str)
    for text in ("Where is A1", "A1", "ada@", "first desk.", "money"):
        assert text not in written


async def test_content_is_written_on_request_and_masked(collected: Collected) -> None:
    """The JSON has the form of the semantic conventions."""
    tracing = collected.tracing(content=True, redactor=Redactor(["email"]))
    await support(script()).run("Where is A1?", tracing=tracing)
    chats = [said(span) for span in collected.spans if span.name == "chat gpt-4o"]
    assert json.loads(chats[0]["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "Where is A1?"}]}
    ]
    system = json.loads(chats[0]["gen_ai.system_instructions"])
    assert system == [{"type": "text", "content": "You are the first desk."}]
    (answer,) = json.loads(chats[0]["gen_ai.output.messages"])
    assert answer["parts"][0]["name"] == "find_order"
    assert answer["finish_reason"] == "tool_calls"
    kinds = [m["parts"][0]["type"] for m in json.loads(chats[1]["gen_ai.input.messages"])]
    assert kinds == ["text", "tool_call", "tool_call_response"]
    assert [t["name"] for t in json.loads(chats[0]["gen_ai.tool.definitions"])] == [
        "find_order",
        "hand_over",
    ]
    found = said(collected.named("execute_tool find_order"))
    assert json.loads(found["gen_ai.tool.call.arguments"]) == {"order": "A1"}
    assert json.loads(found["gen_ai.tool.call.result"]) == {"data": "A1 is with [email]"}
    assert "ada@" not in json.dumps([dict(said(span)) for span in collected.spans], default=str)


async def test_tokens_and_durations_are_metrics(collected: Collected) -> None:
    """One point for each model and kind of token, with the number of calls."""
    run = await support(script()).run("Where is A1?", tracing=collected.tracing())
    metrics = collected.metrics
    tokens = {p.attributes["gen_ai.token.type"]: p for p in metrics["gen_ai.client.token.usage"]}
    assert tokens["input"].sum == run.usage.input_tokens
    assert tokens["output"].sum == run.usage.output_tokens
    assert tokens["input"].count == 4
    assert tokens["input"].attributes["gen_ai.request.model"] == "gpt-4o"
    (calls,) = metrics["gen_ai.client.operation.duration"]
    assert calls.count == 4
    assert calls.attributes["gen_ai.provider.name"] == "openai"
    assert {p.attributes["gen_ai.agent.name"] for p in metrics["gen_ai.invoke_agent.duration"]} == {
        "desk",
        "refunds",
    }
    assert metrics["gen_ai.workflow.duration"][0].count == 1
    assert len(metrics["gen_ai.execute_tool.duration"]) == 2


async def test_a_failed_model_call_is_an_error_in_all_spans_around_it(
    collected: Collected,
) -> None:
    """The status names the error's class; the text is content, since it may quote users."""
    model = ScriptedModel(error(400, "no such thing as ada@example.com"))
    with pytest.raises(ModelError):
        await support(model).run("hi", tracing=collected.tracing())
    for name in ("chat gpt-4o", "invoke_agent desk", "invoke_workflow support"):
        span = collected.named(name)
        assert span.status.status_code is StatusCode.ERROR
        assert said(span)["error.type"] == BadRequestError.__name__
        assert span.status.description is None
    (failed,) = collected.metrics["gen_ai.client.operation.duration"]
    assert failed.attributes["error.type"] == "BadRequestError"


async def test_a_tool_that_fails_is_an_error_and_the_run_is_not(collected: Collected) -> None:
    """The model reads the error and continues."""

    def broken() -> str:
        """Break."""
        raise LookupError("nothing about ada@example.com")

    model = ScriptedModel(tool_call("broken"), "Sorry.")
    agent = Agent(name="a", system="S", tools=[broken], model=model, max_iter=2)
    await agent.run("hi", tracing=collected.tracing())
    span = collected.named("execute_tool broken")
    assert said(span)["error.type"] == "LookupError"
    assert span.status.description is None
    assert collected.named("invoke_agent a").status.status_code is StatusCode.UNSET


async def test_parallel_agents_and_tools_have_spans_of_their_own(
    collected: Collected,
) -> None:
    """Each tool call is in its agent, however they are interleaved."""

    async def look(place: str) -> str:
        """Look."""
        return place

    def agent(name: str) -> Agent:
        calls = tool_calls(("look", {"place": "attic"}), ("look", {"place": "cellar"}))
        model = ScriptedModel(calls, "Nothing.")
        return Agent(
            name=name, system="S", tools=[look], model=model, max_iter=2, parallel_tools=True
        )

    left, right = agent("left"), agent("right")
    network = Network(
        name="search",
        agents=[left, right],
        router=lambda ctx: together(left, right) if ctx.call_count == 0 else None,
    )
    await network.run("hi", tracing=collected.tracing())
    assert collected.parents == Counter(
        {
            ("invoke_workflow search", None): 1,
            **{(f"invoke_agent {n}", "invoke_workflow search"): 1 for n in ("left", "right")},
            **{("execute_tool look", f"invoke_agent {n}"): 2 for n in ("left", "right")},
            **{("chat gpt-4o", f"invoke_agent {n}"): 2 for n in ("left", "right")},
        }
    )


async def test_spans_of_the_callers_and_of_tools_are_part_of_the_same_trace(
    collected: Collected,
) -> None:
    """Spans of other instrumentations, e.g. of a web server, join the trace."""
    tracer = collected.provider.get_tracer("mine")

    @tool
    async def query() -> str:
        """Query."""
        with tracer.start_as_current_span("select"):
            return "row"

    inner = Agent(name="inner", system="S", model=ScriptedModel("Done."))
    model = ScriptedModel(tool_calls(("query", {}), ("inner", {"task": "go"})), "Fine.")
    agent = Agent(name="outer", system="S", tools=[query, inner.as_tool()], model=model, max_iter=2)
    with tracer.start_as_current_span("request"):
        await agent.run("hi", tracing=collected.tracing())
    parents = collected.parents
    assert parents["invoke_agent outer", "request"] == 1
    assert parents["select", "execute_tool query"] == 1
    assert parents["invoke_agent inner", "execute_tool inner"] == 1
    assert not trace.get_current_span().get_span_context().is_valid


async def test_streamed_calls_have_the_time_to_the_first_chunk(collected: Collected) -> None:
    """The time is in seconds."""
    agent = Agent(name="a", system="S", model=ScriptedModel("Hello there."))
    async with agent.stream("hi", tracing=collected.tracing()) as stream:
        async for _ in stream:
            pass
    attributes = said(collected.named("chat gpt-4o"))
    assert attributes["gen_ai.request.stream"] is True
    assert attributes["gen_ai.response.time_to_first_chunk"] >= 0


@pytest.mark.parametrize(
    ("provider", "named", "reason"),
    [
        ("openai_responses", "openai", "completed"),
        ("azure_openai", "azure.ai.openai", "stop"),
        ("anthropic", "anthropic", "end_turn"),
        ("gemini", "gcp.gemini", "STOP"),
        ("grok", "x_ai", "stop"),
    ],
)
async def test_providers_have_the_names_of_the_conventions(
    collected: Collected, provider: Any, named: str, reason: str
) -> None:
    """Finish reasons are the providers' own words."""
    model = ScriptedModel("Hi.", provider=provider)
    await Agent(name="a", system="S", model=model).run("hi", tracing=collected.tracing())
    attributes = said(collected.named(f"chat {model.model}"))
    assert attributes["gen_ai.provider.name"] == named
    assert attributes["gen_ai.response.finish_reasons"] == (reason,)
    assert attributes["gen_ai.usage.output_tokens"] > 0


async def test_parameters_of_the_request_are_attributes(collected: Collected) -> None:
    """Those that the conventions know."""
    model = ScriptedModel("Hi.", default_parameters={"temperature": 0, "max_tokens": 50})
    await Agent(name="a", system="S", model=model).run("hi", tracing=collected.tracing())
    attributes = said(collected.named("chat gpt-4o"))
    assert attributes["gen_ai.request.temperature"] == 0.0
    assert attributes["gen_ai.request.max_tokens"] == 50


async def test_instrument_traces_every_run_until_uninstrument(collected: Collected) -> None:
    """Runs without a ``tracing`` argument are traced, too."""
    instrument(tracer_provider=collected.provider, meter_provider=collected.meters)
    await support(script()).run("hi")
    assert collected.parents == TREE
    collected.exporter.clear()
    uninstrument()
    await support(script()).run("hi")
    assert collected.spans == []


async def test_spans_of_a_cancelled_run_end_as_cancelled(collected: Collected) -> None:
    """Its spans end."""
    began = asyncio.Event()

    async def wait() -> str:
        """Wait for ever."""
        began.set()
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel(tool_call("wait"))
    agent = Agent(name="a", system="S", tools=[wait], model=model, max_iter=2)
    task = asyncio.create_task(agent.run("hi", tracing=collected.tracing()))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    for name in ("execute_tool wait", "invoke_agent a"):
        assert said(collected.named(name))["error.type"] == "cancelled"


def test_opentelemetry_is_not_imported_without_tracing() -> None:
    """The extra need not be installed."""
    script = "import sys, agentkit_py; print([m for m in sys.modules if 'opentelemetry' in m])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


class Asking(HistoryProcessor):
    """Asks a model of its own, as `Summarize` does."""

    def __init__(self, model: ScriptedModel) -> None:
        self._model = model

    async def process(
        self, messages: Sequence[Message], context: ProcessorContext
    ) -> Sequence[Message]:
        """All messages."""
        assert context.services is not None
        question = [TextMessage("user", "What is this about?")]
        await context.services.ask_model(context.services.step_id("ask"), self._model, question)
        return messages


async def test_a_model_call_of_a_processor_is_inside_its_span(collected: Collected) -> None:
    """Its tokens are part of the span, too."""
    other = ScriptedModel("Orders.", model="gpt-4o-mini")
    agent = Agent(name="a", system="S", model=ScriptedModel("Hi."), processors=[Asking(other)])
    await agent.run("hi", tracing=collected.tracing())
    assert collected.parents == Counter(
        {
            ("invoke_agent a", None): 1,
            ("process_history Asking", "invoke_agent a"): 1,
            ("chat gpt-4o-mini", "process_history Asking"): 1,
            ("chat gpt-4o", "invoke_agent a"): 1,
        }
    )
    assert said(collected.named("chat gpt-4o-mini"))["gen_ai.usage.output_tokens"] > 0
