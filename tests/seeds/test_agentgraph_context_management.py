"""AgentGraph's state of a conversation: contexts, todos, mentions, files, loops; old sessions."""

from __future__ import annotations

from typing import Any

from agentkit_py import Agent, AgentResult, Network, State, ToolContext, UserMessage
from agentkit_py.lifecycle import AgentContext
from agentkit_py.messages import FileContent, ImageContent, TextContent
from agentkit_py.testing import ScriptedModel, tool_call
from agentkit_py.tools import todo_write
from tests.engine.runner import Runner


def where(ctx: ToolContext) -> str:
    """Say in which context this runs."""
    return f"{ctx.state.context_id} in {ctx.state.parent_context}"


async def test_context_id_is_main_and_a_subagents_has_a_parent(runner: Runner) -> None:
    """On the state of each run, and a copy of it."""
    inner_model = ScriptedModel(tool_call("where"), "there")
    inner = Agent(name="inner", system="S", model=inner_model, tools=[where])
    model = ScriptedModel(tool_call("where"), tool_call("inner", {"task": "t"}), "ok")
    outer = Agent(
        name="outer",
        system="S",
        model=model,
        tools=[where, inner.as_tool(allowed_tools="own")],
    )
    await runner.run(outer, "q?")
    model.assert_saw("main in None")
    inner_model.assert_saw("subagent-", " in main")
    state = State[Any]()
    state.context_id, state.parent_context = "subagent-1", "main"
    assert (state.clone().context_id, state.clone().parent_context) == ("subagent-1", "main")


async def test_todos_are_on_the_state(runner: Runner) -> None:
    """As `todo_write` keeps them."""
    items = [{"content": "Look", "status": "completed"}, {"content": "Fly", "status": "pending"}]
    seen: list[Any] = runner.again([])

    def system(context: AgentContext) -> str:
        seen.append(context.state.todos)
        return "S"

    model = ScriptedModel(tool_call("todo_write", {"todos": items}), "ok")
    await runner.run(Agent(name="a", system=system, model=model, tools=[todo_write]), "q?")
    assert seen == [[], items]


async def test_mentions_are_those_of_the_newest_message(runner: Runner) -> None:
    """Also while the run is on; addresses are none."""
    seen: list[Any] = runner.again([])

    def system(context: AgentContext) -> str:
        seen.append(context.state.mentions)
        return "S"

    agent = Agent(name="a", system=system, model=ScriptedModel("ok"))
    state = State[Any](results=[AgentResult.from_user("@old")])
    said = "Ask @data-desk, @Anna. And @data-desk, not a@b.example or @site.example."
    await runner.run(agent, said, state=state)
    assert seen == [["data-desk", "Anna"]]
    assert State[Any]().mentions == []


async def test_uploaded_files_are_what_the_user_sent(runner: Runner) -> None:
    """Images and files of all messages, in order."""
    image = ImageContent(url="https://files.example/a.png")
    file = FileContent("YQ==", media_type="text/plain", name="a.txt")
    seen: list[Any] = runner.again([])

    def system(context: AgentContext) -> str:
        seen.append(context.state.uploaded_files)
        return "S"

    agent = Agent(name="a", system=system, model=ScriptedModel("ok"))
    state = State[Any](results=[AgentResult.from_user([TextContent("See"), image])])
    await runner.run(agent, UserMessage([TextContent("And"), file]), state=state)
    assert seen == [[image, file]]


async def test_loops_count_the_inferences_of_the_run(runner: Runner) -> None:
    """Of all agents of a network; a new run begins anew."""
    seen: list[int] = runner.again([])

    def router(context: Any) -> Any:
        seen.append(context.network.state.loops)
        return None if context.call_count == 2 else "a"

    model = ScriptedModel(tool_call("where"), "one", "two")
    agent = Agent(name="a", system="S", model=model, tools=[where])
    state = State[Any](results=[AgentResult.from_user("old")])
    run = await runner.run(Network(name="n", agents=[agent], router=router), "q?", state=state)
    assert seen == [0, 2, 3]
    assert run.state.loops == 3
