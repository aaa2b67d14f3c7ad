"""Agents and networks that use servers."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import Agent, Network, RunLimits, State, create_agent, explain, tool
from agentkit_py.errors import ConfigurationError, ToolSourceError
from agentkit_py.mcp import MCPServer, Stdio
from agentkit_py.messages import Message, TextMessage, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.testing import ScriptedModel, tool_call, tool_calls

from .world import eventually, handwritten, is_alive, modern, notes, text_of


def offered(model: ScriptedModel, request: int) -> list[str]:
    """The tools that a request offers."""
    body: Any = model.requests[request].body
    return [each["function"]["name"] for each in body.get("tools", [])]


@tool
def local(a: int) -> int:
    """One more."""
    return a + 1


async def test_an_agent_calls_the_tools_of_its_servers_and_its_own(tmp_path: Path) -> None:
    """Errors and arguments that do not fit are results that the model reads."""
    model = ScriptedModel(
        tool_calls(
            ("m-add", {"a": 1, "b": 2}),
            ("m-add", {"a": -1, "b": 2}),
            ("m-fail", {}),
            ("local", {"a": 1}),
        ),
        "Done.",
    )
    servers = [modern(tmp_path, include=["add", "fail"])]
    agent = create_agent(
        name="a", system="S", tools=[local], mcp_servers=servers, model=model, max_iter=3
    )
    async with agent:
        result = await agent.run("hi")
    assert result.text == "Done."
    assert offered(model, 0) == ["local", "m-add", "m-fail"]
    model.assert_saw("3 cm", "InvalidArgumentsError", "minimum of 0", "no such order")
    assert notes(tmp_path) == ["add 1 2"]


async def test_async_with_closes_the_connection_that_all_runs_share(tmp_path: Path) -> None:
    """All agents of a network, all runs."""
    server = modern(tmp_path)
    model = ScriptedModel(*([tool_call("m-pid", {}), "Done."] * 2))
    agents = [Agent(name=n, system="S", mcp_servers=[server], max_iter=2) for n in ("a", "b")]
    network = Network(
        name="n",
        agents=agents,
        default_model=model,
        router=lambda c: agents[c.call_count] if c.call_count < 2 else None,
    )
    async with network:
        run = await network.run("hi")
        pid = text_of(await server.call("pid"))
    found = [m.content for r in run.results for m in r.tool_calls]
    assert found == [{"data": [{"type": "text", "text": pid}]}] * 2
    assert not is_alive(int(pid))


async def test_an_unreachable_server_fails_the_run_before_the_model_is_asked() -> None:
    """`async with` raises it at the start."""
    gone = MCPServer("gone", Stdio("no-such-command-anywhere"))
    model = ScriptedModel()
    agent = Agent(name="a", system="S", mcp_servers=[gone], model=model, max_iter=1)
    with pytest.raises(ToolSourceError, match="'gone'"):
        await agent.run("hi")
    with pytest.raises(ToolSourceError):
        async with agent:
            pass
    assert model.requests == []


async def test_a_run_continues_without_an_optional_server(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The run has the tools of the other servers."""
    gone = MCPServer("gone", Stdio("no-such-command-anywhere"), required=False)
    model = ScriptedModel("Hello.")
    agent = Agent(name="a", system="S", tools=[local], mcp_servers=[gone], model=model, max_iter=1)
    assert (await agent.run("hi")).text == "Hello."
    assert offered(model, 0) == ["local"]
    assert "going on without" in caplog.text


async def test_a_name_that_is_taken_is_mapped_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent's own tool keeps its name."""

    @tool(name="m-pid")
    def own() -> str:
        """Ours."""
        return "ours"

    server = modern(tmp_path, include=["pid"])
    model = ScriptedModel(tool_call("m-pid", {}), "Done.")
    agent = Agent(name="a", system="S", tools=[own], mcp_servers=[server], model=model, max_iter=2)
    with caplog.at_level(logging.WARNING):
        async with agent:
            await agent.run("hi")
    first, second = offered(model, 0)
    assert first == "m-pid"
    assert server.names == {second: "pid"}
    assert f"is offered as '{second}'" in caplog.text
    model.assert_saw("ours")


async def test_a_tool_that_appears_during_a_turn_is_offered_in_its_next_inference() -> None:
    """The server says that its list has changed."""
    server = handwritten(include=["grow", "grown0"])
    model = ScriptedModel(tool_call("h-grow", {}), tool_call("h-grown0", {}), "Done.")
    agent = Agent(name="a", system="S", mcp_servers=[server], model=model, max_iter=4)
    async with agent:
        await agent.run("hi")
    assert offered(model, 0) == ["h-grow"]
    assert offered(model, 1) == ["h-grow", "h-grown0"]


async def test_a_runs_time_limit_for_tools_ends_a_call_on_the_server(tmp_path: Path) -> None:
    """Like a call of any other tool."""
    model = ScriptedModel(tool_call("m-hang", {}), "Sorry.")
    agent = Agent(name="a", system="S", mcp_servers=[modern(tmp_path)], model=model, max_iter=2)
    async with agent:
        await agent.run("hi", limits=RunLimits(tool_timeout=0.3))
        await eventually(lambda: "hang cancelled" in notes(tmp_path))
    model.assert_saw("ToolTimeoutError")


async def test_rights_may_name_tools_of_servers(tmp_path: Path) -> None:
    """Names that no server can have are refused at once, as before."""
    server = modern(tmp_path)
    agent = Agent(name="a", system="S", tools=[local], mcp_servers=[server], max_iter=1)
    narrow = Agent(
        name="a",
        system="S",
        tools=[local],
        mcp_servers=[server],
        allowed_tools=["m-pid"],
        tool_choice="m-pid",
        model=ScriptedModel(tool_call("m-add", {"a": 1, "b": 1}), "Done."),
        max_iter=2,
    )
    async with narrow:
        await narrow.run("hi")
    assert isinstance(narrow.model, ScriptedModel)
    assert offered(narrow.model, 0) == ["m-pid"]
    narrow.model.assert_saw("ToolNotAllowedError")
    assert agent.as_tool(allowed_tools=["m-pid"]).name == "a"
    with pytest.raises(ConfigurationError, match="x-pid"):
        agent.as_tool(allowed_tools=["x-pid"])
    with pytest.raises(ConfigurationError, match="x-pid"):
        Agent(name="a", system="S", mcp_servers=[server], allowed_tools=["x-pid"], max_iter=1)


def test_invalid_servers_of_an_agent_are_refused(tmp_path: Path) -> None:
    """Two of one name, and settings that are no server; values are not shown."""
    with pytest.raises(ConfigurationError, match="two servers called 'm'"):
        Agent(name="a", system="S", mcp_servers=[modern(tmp_path), modern(tmp_path)], max_iter=1)
    settings: Any = {"name": "x", "transport": {"env": {"KEY": "secret"}}}
    with pytest.raises(ConfigurationError, match="MCPServer") as caught:
        Agent(name="a", system="S", mcp_servers=[settings], max_iter=1)
    assert "secret" not in str(caught.value)


async def test_explain_and_the_routing_prompt_list_the_servers_tools(tmp_path: Path) -> None:
    """The routing prompt has what servers have said so far, and nothing of their settings."""
    server = modern(tmp_path, include=["pid"])
    model = ScriptedModel(
        tool_call("select_agent", {"name": "a"}), "One.", tool_call("done", {}), strict=False
    )
    agent = Agent(name="a", system="S", mcp_servers=[server], max_iter=1)
    network = Network(name="n", agents=[agent], default_model=model)
    async with network:
        assert (await explain(network, model=model)).agent == "a"
        await network.run("hi")
    first, _, second = (str(request.body) for request in model.requests)
    assert "m-pid" not in first
    assert "m-pid" in second
    assert "modern.py" not in second


async def test_calls_of_servers_tools_are_an_agents_own(tmp_path: Path) -> None:
    """An isolated network names no tool, and each agent sees its servers' calls."""
    past: list[Message] = [TextMessage("user", "before")]
    for name in ("m-add", "local"):
        call = ToolCall(f"c-{name}", name, {})
        past += [ToolCallMessage([call]), ToolResultMessage(call, {"data": f"{name} was called"})]
    model = ScriptedModel("one", "two")
    network = Network(
        name="n",
        agents=[
            Agent(name="far", system="S", mcp_servers=[modern(tmp_path)]),
            Agent(name="near", system="S", tools=[local]),
        ],
        default_model=model,
        router=lambda ctx: ["far", "near"][ctx.call_count] if ctx.call_count < 2 else None,
        isolation="own_tools",
    )
    async with network:
        run = await network.run("hi", state=State(messages=past))
    seen = [str(body["messages"]) for body in model.bodies]
    assert ["m-add was called" in one for one in seen] == [True, False]
    assert ["local was called" in one for one in seen] == [False, True]
    assert not any(report.foreign for report in run.context)
