"""`agentkit mcp`: agents and networks for other clients, here our own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from agentkit_py.mcp import MCPServer, MCPToolError, Stdio, StreamableHTTP

from .world import ProgressLog, text_of

DESK = """
from agentkit_py import Agent, MemoryHistory, Network, tool
from agentkit_py.testing import ScriptedModel, tool_call

@tool
def look_up(order: int) -> str:
    "Look up an order."
    print("a careless print")
    return "lost"

model = ScriptedModel(tool_call("look_up", {"order": 7}), "It is lost.")
clerk = Agent(name="Order Desk", description="Knows orders.", system="S", tools=[look_up],
              model=model, max_iter=2)
empty = Agent(name="7 dwarfs", system="S", model=ScriptedModel())
talk = Network(name="talk", history=MemoryHistory(), router=lambda c: None if c.call_count else a,
               agents=[a := Agent(name="a", system="S", model=ScriptedModel("One.", "Two."))])
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder with a module, as a user has one."""
    (tmp_path / "desk.py").write_text(DESK)
    return tmp_path


def command(desk: Path, target: str, name: str = "d", **options: object) -> MCPServer:
    """The module's object, served over stdio."""
    arguments = ["-m", "agentkit_py.cli", "mcp", f"desk:{target}"]
    return MCPServer(name, Stdio(sys.executable, arguments, cwd=desk), **options)  # type: ignore[arg-type] - options are passed on


async def test_an_agent_is_served_as_a_tool_with_progress(desk: Path) -> None:
    """A print in a tool does not disturb the protocol."""
    progress = ProgressLog()
    server = command(desk, "clerk", on_progress=progress)
    async with server:
        (tool,) = server.tools(await server.listing())
        assert (tool.name, tool.description) == ("d-order-desk", "Knows orders.")
        assert tool.parameters is not None
        assert tool.parameters["required"] == ["input"]
        assert text_of(await server.call("order-desk", {"input": "7?"})) == "It is lost."
    words = [said for _, _, _, said in progress.facts]
    assert words == ["Order Desk begins", "Order Desk calls look_up"]


async def test_a_failed_run_is_an_error_result_of_the_tool(desk: Path) -> None:
    """The text names the kind of error and has no traceback."""
    async with command(desk, "empty") as server:
        (tool,) = server.tools(await server.listing())
        with pytest.raises(MCPToolError) as caught:
            await server.call(server.names[tool.name], {"input": "hi"})
    assert "Traceback" not in str(caught.value)


async def test_a_network_with_history_continues_a_thread(desk: Path) -> None:
    """The answer says which thread; the next call may name it."""
    async with command(desk, "talk") as server:
        first = await server.call("talk", {"input": "hi"})
        found = re.fullmatch(r"thread_id: (\S+)", first[1]["text"])  # type: ignore[index] - asserted just before
        assert found is not None
        again = await server.call("talk", {"input": "go on", "thread_id": found[1]})
    assert [block["text"] for block in again] == ["Two.", f"thread_id: {found[1]}"]  # type: ignore[index,union-attr] - asserted just before


async def test_serving_http_prints_its_url(desk: Path) -> None:
    """The URL is on stderr; port 0 takes any free port."""
    arguments = ["-m", "agentkit_py.cli", "mcp", "desk:clerk", "--http", "--port", "0"]
    process = subprocess.Popen(  # noqa: ASYNC220 - started once, at once
        [sys.executable, *arguments], cwd=desk, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/mcp", process.stderr.readline())
        assert found is not None
        async with MCPServer("d", found[0]) as server:
            assert text_of(await server.call("order-desk", {"input": "7?"})) == "It is lost."
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


async def test_remote_clients_need_an_address_or_an_allowed_name(desk: Path) -> None:
    """A name that nobody allowed could be that of a page in a browser (DNS rebinding)."""
    arguments = ["mcp", "desk:clerk", "--http", "--host", "0.0.0.0", "--port", "0"]  # noqa: S104 - it is asked for
    process = subprocess.Popen(  # noqa: ASYNC220 - started once, at once
        [sys.executable, "-m", "agentkit_py.cli", *arguments, "--allow-host", "desk.internal"],
        cwd=desk,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/mcp", process.stderr.readline())
        assert found is not None
        assert "--allow-host" in process.stderr.readline()
        for host in ("192.0.2.7:8000", "[2001:db8::7]", "desk.internal:9000", "DESK.internal"):
            server = MCPServer("d", StreamableHTTP(found[0], {"Host": host}))
            async with server:
                assert (await server.listing())["tools"]
        async with httpx.AsyncClient() as client:
            for headers, status in (
                ({"Host": "evil.example"}, 421),
                ({"Host": "evil.example:80@127.0.0.1"}, 421),
                ({"Host": ""}, 421),
                ({"Host": "127.0.0.1", "Origin": "http://evil.example"}, 403),
            ):
                answer = await client.post(found[0], headers=headers, json={})
                assert answer.status_code == status, headers
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()
