"""Programs of the shapes of the TypeScript repository's examples: twins of node/programs.mjs.

Each is written as a user would, line by line, with what `agentkit_py` exports.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeAlias

import inngest
from pydantic import BaseModel

from agentkit_py import (
    Agent,
    AgentResult,
    HistoryConfig,
    Lifecycle,
    NetworkRun,
    RouterContext,
    State,
    TextMessage,
    ToolContext,
    UserMessage,
    create_agent,
    create_network,
    create_routing_agent,
    create_state,
    create_tool,
)
from agentkit_py.history import HistoryContext
from agentkit_py.lifecycle import AgentContext, ResultContext, Start, StartContext
from agentkit_py.models import Model
from agentkit_py.runs import StreamingConfig

Program: TypeAlias = Callable[[Model], Awaitable[Any]]


class Topics(BaseModel):
    """What `plan` takes."""

    topics: list[str]


class Finding(BaseModel):
    """What `note` takes."""

    finding: str


async def research(model: Model) -> Any:
    """A deep-research agent: stages kept in the state, a router that counts results."""

    def plan(given: Topics, ctx: ToolContext) -> Any:
        ctx.state.data = {**ctx.state.data, "topics": given.topics, "findings": []}
        return {"success": True, "count": len(given.topics)}

    def note(given: Finding, ctx: ToolContext) -> str:
        data = ctx.state.data
        data["findings"].append(given.finding)
        if len(data["findings"]) >= len(data["topics"]):
            data["complete"] = True
        return "kept"

    def look(ctx: AgentContext) -> str:
        data = ctx.state.data
        return f"Look into {data['topics'][len(data['findings'])]}."

    planner = create_agent(
        name="planner",
        system="Plan.",
        tools=[
            create_tool(
                name="plan", description="Say what to look into.", parameters=Topics, handler=plan
            )
        ],
        tool_choice="plan",
    )
    researcher = create_agent(
        name="researcher",
        system=look,
        tools=[
            create_tool(
                name="note", description="Keep a finding.", parameters=Finding, handler=note
            )
        ],
        tool_choice="note",
    )
    writer = create_agent(name="writer", system="Write the report.")

    def route(ctx: RouterContext) -> Agent | None:
        if len(ctx.network.state.results) == 0:
            return planner
        if not ctx.network.state.data.get("complete"):
            return researcher
        assert ctx.last_result is not None
        return writer if ctx.last_result.agent_name != "writer" else None

    network = create_network(
        name="research",
        agents=[planner, researcher, writer],
        default_model=model,
        max_iter=8,
        router=route,
    )
    run = await network.run("Research tea.", state=create_state({"query": "tea"}))
    last = run.state.results[-1]
    return {
        "data": run.state.data,
        "agents": [result.agent_name for result in run.state.results],
        "count": len(run.state.results),
        "report": [m.content for m in last.output if isinstance(m, TextMessage)],
    }


class Plan(BaseModel):
    """What `create_plan` takes."""

    thoughts: str
    files: list[str]


class File(BaseModel):
    """What `write_file` takes."""

    filename: str
    content: str


async def bench(model: Model) -> Any:
    """An SWE-bench agent: the editor sees its own results only, and is enabled by a plan."""

    def create_plan(given: Plan, ctx: ToolContext) -> Any:
        ctx.state.data["plan"] = given.model_dump()
        return given.model_dump()

    def write(given: File, ctx: ToolContext) -> str:
        ctx.state.data.setdefault("files", {})[given.filename] = given.content
        return f"wrote {given.filename}"

    def done(_: object, ctx: ToolContext) -> str:
        ctx.state.data["done"] = True
        return "Done editing"

    def own_history(ctx: StartContext) -> Start:
        history = [
            message
            for result in ctx.state.results
            if result.agent_name == ctx.agent.name
            for message in (*result.output, *result.tool_calls)
        ]
        return Start(ctx.prompt, history, stop=False)

    planner = create_agent(
        name="Planner",
        system="Plan the edits.",
        tools=[
            create_tool(
                name="create_plan",
                description="Describe the edits.",
                parameters=Plan,
                handler=create_plan,
            )
        ],
    )
    editor = create_agent(
        name="Editor",
        system=lambda ctx: f"Edit by this plan: {ctx.state.data['plan']['thoughts']}",
        tools=[
            create_tool(
                name="write_file", description="Write a file.", parameters=File, handler=write
            ),
            create_tool(name="done", description="The files are edited.", handler=done),
        ],
        lifecycle=Lifecycle(
            enabled=lambda ctx: ctx.state.data.get("plan") is not None, on_start=own_history
        ),
    )

    def route(ctx: RouterContext) -> Agent | None:
        if ctx.network.state.data["done"]:
            return None
        return editor if "plan" in ctx.network.state.data else planner

    network = create_network(
        name="code",
        agents=[planner, editor],
        default_model=model,
        default_state=create_state({"repo": "x/y", "done": False}),
        router=route,
    )
    run = await network.run("Fix the bug.")
    assert network.default_state is not None
    return {
        "data": run.state.data,
        "own": network.default_state.data,
        "agents": [result.agent_name for result in run.state.results],
        "calls": [[c.tool.name, c.content] for r in run.state.results for c in r.tool_calls],
    }


async def hybrid(model: Model) -> Any:
    """A router that runs an agent itself, reads what it says, and goes on by code."""
    classifier = create_agent(name="classifier", system="Say billing or technical.")
    billing = create_agent(name="billing", system="You do billing.")
    technical = create_agent(name="technical", system="You do technology.")

    async def route(ctx: RouterContext) -> Agent | None:
        if ctx.call_count >= 2:
            return None
        state = ctx.state.clone()
        answer = await classifier.run(ctx.user_message, state=state, model=model)
        first = answer.output[0]
        assert isinstance(first, TextMessage)
        word, last = first.content, ctx.last_result
        said = [word, last.agent_name if last else None]
        ctx.state.data["said"] = [*ctx.state.data.get("said", []), said]
        return billing if word == "billing" else technical

    network = create_network(
        name="desk", agents=[billing, technical], default_model=model, router=route
    )
    run = await network.run("My invoice is wrong.")
    agents = [result.agent_name for result in run.state.results]
    return {"data": run.state.data, "agents": agents}


class Queries(BaseModel):
    """What `recall` takes."""

    queries: list[str]


class Facts(BaseModel):
    """What `remember` takes."""

    facts: list[str]


async def memory(model: Model) -> Any:
    """Memory that is kept by events, with steps in the tools."""

    async def recall(given: Queries, ctx: ToolContext) -> Any:
        async def look_up() -> list[str]:
            return [f"about {query}" for query in given.queries]

        return await ctx.step.run("recall", look_up)

    async def remember(given: Facts, ctx: ToolContext) -> str:
        event = inngest.Event(name="app/memories.create", data={"facts": given.facts})
        await ctx.step.send_event("keep facts", event)
        return f"Scheduled {len(given.facts)} facts."

    def finish(_: object, ctx: ToolContext) -> str:
        ctx.state.data["finished"] = True
        return "bye"

    recaller = create_agent(
        name="recaller",
        system="Recall.",
        tools=[
            create_tool(
                name="recall",
                description="Look memories up.",
                parameters=Queries,
                handler=recall,
                steps=True,
            )
        ],
        tool_choice="recall",
    )
    assistant = create_agent(
        name="assistant",
        system="Help.",
        tools=[
            create_tool(
                name="remember",
                description="Keep facts.",
                parameters=Facts,
                handler=remember,
                steps=True,
            ),
            create_tool(name="finish", description="End the conversation.", handler=finish),
        ],
    )

    def route(ctx: RouterContext) -> Agent | None:
        if ctx.network.state.data.get("finished"):
            return None
        return recaller if ctx.call_count == 0 else assistant

    network = create_network(
        name="memory",
        agents=[recaller, assistant],
        default_model=model,
        max_iter=5,
        router=route,
    )
    run = await network.run("I like tea.", state=create_state({}))
    return {
        "data": run.state.data,
        "agents": [result.agent_name for result in run.state.results],
        "contents": [call.content for r in run.state.results for call in r.tool_calls],
    }


class Question(BaseModel):
    """What `ask_developer` takes."""

    question: str


class Reply(BaseModel):
    """What `reply` takes."""

    message: str


class Route(BaseModel):
    """What `route` takes."""

    agent: str


async def person(model: Model) -> Any:
    """A person in the loop: a tool waits for an event, a routing agent decides who works."""

    async def ask(given: Question, ctx: ToolContext) -> Any:
        answer = await ctx.step.wait_for_event(
            "developer.response", event="app/developer.answered", timeout=timedelta(hours=4)
        )
        if answer is None:
            return {"error": "No developer response provided"}
        return {"question": given.question, "answer": answer.data["answer"]}

    def reply(given: Reply, ctx: ToolContext) -> None:
        ctx.state.kv["reply"] = given.message

    def choose(given: Route) -> str:
        return given.agent

    technical = create_agent(
        name="technical",
        system="Help.",
        tools=[
            create_tool(
                name="ask_developer",
                description="Ask a developer.",
                parameters=Question,
                handler=ask,
                steps=True,
            ),
            create_tool(
                name="reply", description="Answer the customer.", parameters=Reply, handler=reply
            ),
        ],
    )

    def on_route(ctx: ResultContext) -> list[str] | None:
        if "reply" in ctx.state.kv:
            return None
        content: Any = ctx.result.tool_calls[0].content
        return [content["data"]]

    supervisor = create_routing_agent(
        name="supervisor",
        description="Decides",
        system="You supervise.",
        tools=[
            create_tool(
                name="route", description="Say who works.", parameters=Route, handler=choose
            )
        ],
        tool_choice="route",
        lifecycle=Lifecycle(on_route=on_route),
    )
    network = create_network(
        name="support", agents=[technical], default_model=model, router=supervisor
    )
    run = await network.run("It is broken.")
    return {
        "reply": run.state.kv.get("reply"),
        "agents": [result.agent_name for result in run.state.results],
        "contents": [call.content for r in run.state.results for call in r.tool_calls],
    }


async def chat(model: Model) -> Any:
    """A chat that streams, with an adapter over the rows of a database; two turns."""
    threads: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []

    async def create_thread(ctx: HistoryContext) -> str:
        thread_id = ctx.state.thread_id or f"thread-{len(threads) + 1}"
        threads[thread_id] = {"user": ctx.state.data["userId"]}
        return thread_id

    async def get(ctx: HistoryContext) -> list[AgentResult]:
        return [
            AgentResult.from_dict(
                {
                    "agentName": row["agent"],
                    "output": row["output"],
                    "toolCalls": row["calls"],
                    "createdAt": row["at"],
                }
            )
            for row in rows
            if row["thread"] == ctx.thread_id and row["kind"] == "agent"
        ]

    async def append_user_message(ctx: HistoryContext) -> None:
        said = ctx.user_message
        assert said is not None
        row = {"thread": ctx.thread_id, "kind": "user", "content": said.content, "id": said.id}
        rows.append(row)

    async def append_results(ctx: HistoryContext) -> None:
        for result in ctx.new_results:
            row = result.to_dict()
            rows.append(
                {
                    "thread": ctx.thread_id,
                    "kind": "agent",
                    "agent": row["agentName"],
                    "output": row["output"],
                    "calls": row["toolCalls"],
                    "at": row["createdAt"],
                }
            )

    agent = create_agent(name="chat", description="Talks", system="Talk.")
    network = create_network(
        name="chats",
        agents=[agent],
        default_model=model,
        history=HistoryConfig(
            create_thread=create_thread,
            get=get,
            append_user_message=append_user_message,
            append_results=append_results,
        ),
        router=lambda ctx: agent if ctx.call_count == 0 else None,
    )
    chunks: list[Any] = []

    async def publish(chunk: dict[str, Any]) -> None:
        data = chunk["data"]
        chunks.append([chunk["event"], data.get("threadId"), data.get("delta")])

    async def turn(message_id: str, content: str, thread_id: str | None) -> NetworkRun:
        message = UserMessage(content, message_id)
        state: State[Any] = create_state({"userId": "u1"}, thread_id=thread_id)
        streaming = StreamingConfig(publish=publish, tokens=False, extended=False)
        return await network.run(message, state=state, streaming=streaming)

    first = await turn("m1", "My name is Ada.", None)
    second = await turn("m2", "Who am I?", first.state.thread_id)
    return {
        "threads": [[name, facts] for name, facts in threads.items()],
        "rows": [{k: v for k, v in row.items() if k != "at"} for row in rows],
        "chunks": chunks,
        "results": len(second.state.results),
    }


class Command(BaseModel):
    """Arguments of `terminal`."""

    command: str


class Written(BaseModel):
    """A file of `writeFiles`."""

    path: str
    content: str


class Files(BaseModel):
    """Arguments of `writeFiles`."""

    files: list[Written]


class Paths(BaseModel):
    """Arguments of `readFiles`."""

    files: list[str]


def executed(command: str, sandbox: dict[str, str]) -> str:
    """Return what a command of the sandbox prints."""
    program, name = command.split(" ")
    if program != "cat":
        raise ValueError(f"no such command: {program}")
    return sandbox[name]


async def coder(model: Model) -> Any:
    """A coding agent: tools tell what failed, and a hook sees when the task is done."""
    sandboxes: list[dict[str, str]] = []

    def sandbox_of(state: State[Any]) -> dict[str, str]:
        if "sandbox" not in state.kv:
            sandboxes.append({})
            state.kv["sandbox"] = len(sandboxes) - 1
        return sandboxes[state.kv["sandbox"]]

    async def terminal(given: Command, ctx: ToolContext) -> str:
        try:
            return executed(given.command, sandbox_of(ctx.state))
        except ValueError as error:
            return f"Command failed: {error}"

    async def write(given: Files, ctx: ToolContext) -> str:
        sandbox_of(ctx.state).update({file.path: file.content for file in given.files})
        return f"Written: {', '.join(file.path for file in given.files)}"

    async def read(given: Paths, ctx: ToolContext) -> str:
        sandbox = sandbox_of(ctx.state)
        found = [{"path": path, "content": sandbox.get(path)} for path in given.files]
        return json.dumps(found, separators=(",", ":"))

    async def on_response(ctx: ResultContext) -> AgentResult:
        said = [m for m in ctx.result.output if isinstance(m, TextMessage)]
        if said and "<task_summary>" in said[-1].text:
            ctx.state.kv["summary"] = said[-1].text
        return ctx.result

    agent = create_agent(
        name="Coding Agent",
        description="Writes programs",
        system="Do the task; at its end say what you did in <task_summary>.",
        tools=[
            create_tool(
                name="terminal", description="Run a command.", parameters=Command, handler=terminal
            ),
            create_tool(
                name="writeFiles", description="Write files.", parameters=Files, handler=write
            ),
            create_tool(
                name="readFiles", description="Read files.", parameters=Paths, handler=read
            ),
        ],
        lifecycle=Lifecycle(on_response=on_response),
    )

    def route(ctx: RouterContext) -> Agent | None:
        ctx.state.kv["calls"] = ctx.call_count
        return None if "summary" in ctx.state.kv else agent

    network = create_network(
        name="coding", agents=[agent], default_model=model, max_iter=15, router=route
    )
    run = await network.run("Write a program that greets.")
    return {
        "kv": dict(run.state.kv),
        "sandboxes": sandboxes,
        "agents": [result.agent_name for result in run.state.results],
        "contents": [call.content for r in run.state.results for call in r.tool_calls],
    }


DIRECT: dict[str, Program] = {
    "coder": coder,
    "research": research,
    "bench": bench,
    "hybrid": hybrid,
    "chat": chat,
}
DURABLE: dict[str, Program] = {"memory": memory, "person": person}
"""Those whose tools have steps."""
