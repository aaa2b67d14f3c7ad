"""Programs of the shapes of TypeScript's examples, written line by line, do the same here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import inngest
import pytest
from pydantic import BaseModel

from agentkit_py import (
    Agent,
    AgentResult,
    HistoryConfig,
    Lifecycle,
    Message,
    RouterContext,
    State,
    ToolContext,
    create_agent,
    create_network,
    create_state,
    create_tool,
)
from agentkit_py.history import HistoryContext
from agentkit_py.inngest import create_functions
from agentkit_py.lifecycle import AgentContext, Start, StartContext
from agentkit_py.runs import StreamingConfig
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.testing.executor import ReplayExecutor

from .runner import Runner


@dataclass
class Research:
    """Deep research: what is asked, and what was found."""

    stages: list[str] = field(default_factory=list[str])
    findings: list[str] = field(default_factory=list[str])
    report: str = ""


class Stages(BaseModel):
    """Arguments of `plan_stages`."""

    stages: list[str]


class Finding(BaseModel):
    """Arguments of `keep_finding`."""

    text: str


def plan(given: Stages, ctx: ToolContext) -> str:
    """Keep the stages."""
    ctx.state.data.stages = given.stages
    return "planned"


def keep(given: Finding, ctx: ToolContext) -> str:
    """Keep what was found."""
    ctx.state.data.findings.append(given.text)
    return "kept"


async def test_a_research_network_goes_by_state_and_the_number_of_results(runner: Runner) -> None:
    """Staging, a turn for each stage, a report; `len(state.results)` counts what agents gave."""
    model = ScriptedModel(
        tool_call("plan_stages", {"stages": ["history", "prices"]}),
        tool_call("keep_finding", {"text": "old"}),
        tool_call("keep_finding", {"text": "dear"}),
        "Old and dear.",
    )
    planner = create_agent(
        name="planner",
        system="Plan.",
        tools=[create_tool(name="plan_stages", parameters=Stages, handler=plan)],
    )
    reasoner = create_agent(
        name="reasoner",
        system=lambda ctx: f"Stage: {ctx.state.data.stages[len(ctx.state.data.findings)]}",
        tools=[create_tool(name="keep_finding", parameters=Finding, handler=keep)],
    )
    reporter = create_agent(
        name="reporter", system=lambda ctx: f"Report: {', '.join(ctx.state.data.findings)}"
    )
    counts: list[int] = []

    def route(ctx: RouterContext) -> Agent | None:
        data = ctx.network.state.data
        counts.append(len(ctx.state.results))
        if not data.stages:
            return planner
        if len(data.findings) < len(data.stages):
            return reasoner
        return reporter if len(ctx.network.state.results) < 1 + len(data.stages) + 1 else None

    network = create_network(
        name="research",
        agents=[planner, reasoner, reporter],
        default_model=model,
        max_iter=25,
        router=route,
    )
    run = await runner.run(network, "Tulips", state=create_state(Research()))
    assert [r.agent_name for r in run.results] == ["planner", "reasoner", "reasoner", "reporter"]
    assert counts[-5:] == [0, 1, 2, 3, 4]
    systems = [r.body["messages"][0]["content"] for r in model.requests]
    assert systems == ["Plan.", "Stage: history", "Stage: prices", "Report: old, dear"]


@dataclass
class Repository:
    """SWE-bench: the plan, and whether the edit is done."""

    plan: str | None = None
    done: bool = False


class Plan(BaseModel):
    """Arguments of `create_plan`."""

    details: str


def make_plan(given: Plan, ctx: ToolContext) -> str:
    """Keep the plan."""
    ctx.state.data.plan = given.details
    return "planned"


def read_file(_given: object) -> str:
    """Read the file."""
    return "def f(): ..."


def finish(_given: object, ctx: ToolContext) -> str:
    """End."""
    ctx.state.data.done = True
    return "Done editing"


async def test_an_editing_agent_whose_on_start_leaves_others_results_out(runner: Runner) -> None:
    """It sees its own results only, as it puts them together from `state.results`."""
    model = ScriptedModel(
        tool_call("read_file", {}),
        tool_call("create_plan", {"details": "Change f."}),
        tool_call("read_file", {}),
        tool_call("done", {}),
    )
    reading = create_tool(name="read_file", handler=read_file)
    planner = create_agent(
        name="Planner",
        system="Plan.",
        tools=[reading, create_tool(name="create_plan", parameters=Plan, handler=make_plan)],
    )

    def on_start(ctx: StartContext) -> Start:
        own = [r for r in ctx.state.results if r.agent_name == ctx.agent.name]
        history: list[Message] = [m for r in own for m in (*r.output, *r.tool_calls)]
        return Start(ctx.prompt, history, stop=False)

    def enabled(ctx: AgentContext) -> bool:
        return ctx.state.data.plan is not None

    editor = create_agent(
        name="Editor",
        system=lambda ctx: f"The plan: {ctx.state.data.plan}",
        tools=[reading, create_tool(name="done", handler=finish)],
        lifecycle=Lifecycle(enabled=enabled, on_start=on_start),
    )

    def route(ctx: RouterContext) -> Agent | None:
        if ctx.state.data.done:
            return None
        return planner if ctx.state.data.plan is None else editor

    network = create_network(
        name="coding", agents=[planner, editor], default_model=model, router=route
    )
    run = await runner.run(network, "Mend f.", state=create_state(Repository()))
    assert run.state.data.done
    assert [r.agent_name for r in run.results] == ["Planner", "Planner", "Editor", "Editor"]
    roles = [[m["role"] for m in r.body["messages"]] for r in model.requests]
    first, then = ["system", "user"], ["system", "user", "assistant", "tool"]
    assert roles == [first, then, first, then]


async def test_a_streaming_chat_continues_with_the_rows_of_its_database(runner: Runner) -> None:
    """Thread, user's message and results are rows; the client's chunks are the answer."""
    rows: dict[str, list[dict[str, Any]]] = {}

    async def create_thread(ctx: HistoryContext) -> str:
        thread_id = ctx.thread_id or ctx.new_thread_id
        rows.setdefault(thread_id, [])
        return thread_id

    async def get(ctx: HistoryContext) -> list[AgentResult]:
        return [AgentResult.from_dict(row) for row in rows[ctx.thread_id or ""]]

    async def append_user_message(ctx: HistoryContext) -> None:
        if ctx.user_result is not None:
            rows[ctx.thread_id or ""].append(ctx.user_result.to_dict())

    async def append_results(ctx: HistoryContext) -> None:
        rows[ctx.thread_id or ""].extend(result.to_dict() for result in ctx.new_results)

    model = ScriptedModel("Good evening, Ada.", "You are Ada.")
    host = create_agent(name="host", system="You remember.", model=model)
    network = create_network(
        name="chat",
        agents=[host],
        router=lambda ctx: host if ctx.call_count == 0 else None,
        history=HistoryConfig(
            create_thread=create_thread,
            get=get,
            append_user_message=append_user_message,
            append_results=append_results,
        ),
    )
    said: list[str] = []
    for text in ("I am Ada.", "Who am I?"):
        chunks: dict[str, dict[str, Any]] = {}

        async def publish(chunk: dict[str, Any], to: Any = chunks) -> None:
            to[chunk["id"]] = chunk

        state: State[Any] = create_state(thread_id="t")
        await runner.run(network, text, state=state, streaming=StreamingConfig(publish=publish))
        deltas = [c for c in chunks.values() if c["event"] == "text.delta"]
        said.append("".join(c["data"]["delta"] for c in deltas))
    assert said == ["Good evening, Ada.", "You are Ada."]
    assert [row["agentName"] for row in rows["t"]] == ["user", "host", "user", "host"]
    model.assert_saw("I am Ada.", "Good evening, Ada.", "Who am I?")


class Statements(BaseModel):
    """Arguments of `create_memories`."""

    statements: list[str]


@pytest.mark.direct_only("drives a function of its own")
async def test_a_memory_tool_sends_its_event_once() -> None:
    """Another function remembers; it gets the statements once, however often this one replays."""
    client = inngest.Inngest(app_id="memory", is_production=False)
    remembered: list[str] = []

    async def remember(given: Statements, ctx: ToolContext) -> str:
        event = inngest.Event(
            name="app/memories.create", data={"statements": list(given.statements)}
        )
        await ctx.step.send_event("add-memories", [event])
        return f"I have scheduled {len(given.statements)} memories."

    @client.create_function(
        fn_id="add-memories", trigger=inngest.TriggerEvent(event="app/memories.create")
    )
    async def add(ctx: inngest.Context) -> None:
        found: Any = ctx.event.data["statements"]
        remembered.extend(found)

    tool = create_tool(name="create_memories", parameters=Statements, handler=remember, steps=True)
    model = ScriptedModel(
        tool_call("create_memories", {"statements": ["Ada likes tea."]}), "Noted."
    )
    helper = create_agent(name="helper", system="S", model=model, tools=[tool])
    executor = ReplayExecutor(client, [*create_functions(client, agents=[helper]), add])
    run = await executor.run("memory/agent-helper", {"input": "I like tea."})
    assert run.output["results"][0]["toolCalls"][0]["content"] == {
        "data": "I have scheduled 1 memories."
    }
    assert remembered == ["Ada likes tea."]
