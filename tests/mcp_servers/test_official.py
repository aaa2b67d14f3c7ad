"""The servers of the MCP project itself, from the npm registry, where Node is present."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentkit_py import Agent
from agentkit_py.mcp import MCPServer, Stdio
from agentkit_py.testing import ScriptedModel, tool_call

from .world import ProgressLog, text_of

PACKAGES = ["@modelcontextprotocol/server-everything", "@modelcontextprotocol/server-filesystem"]
FOLDER = Path(__file__).parent.parent.parent / ".cache" / "mcp-servers"


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder of the two programs, installed once."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("needs Node")
    folder = FOLDER / "node_modules" / ".bin"
    if not (folder / "mcp-server-filesystem").exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(FOLDER), *PACKAGES]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        if done.returncode:
            pytest.skip(f"npm install failed: {done.stderr[-300:]}")
    return folder


async def test_the_filesystem_server_reads_and_writes(programs: Path, tmp_path: Path) -> None:
    """Only in the folder that it was given."""
    folder = Path(os.path.realpath(tmp_path))  # noqa: ASYNC240 - no disk to speak of
    (folder / "hello.txt").write_text("Hello, file.")
    server = MCPServer("files", Stdio(str(programs / "mcp-server-filesystem"), [str(folder)]))
    model = ScriptedModel(
        tool_call("files-read_text_file", {"path": str(folder / "hello.txt")}),
        tool_call("files-read_text_file", {"path": "/etc/passwd"}),
        "Done.",
    )
    agent = Agent(name="a", system="S", mcp_servers=[server], model=model, max_iter=3)
    async with agent:
        await agent.run("hi")
    model.assert_saw("Hello, file.", "MCPToolError", "denied")


async def test_the_everything_server_works_with_every_provider(programs: Path) -> None:
    """Its tools all have a form for every provider; text, sums, images, progress."""
    progress = ProgressLog()
    server = MCPServer(
        "all",
        Stdio(str(programs / "mcp-server-everything"), ["stdio"]),
        on_progress=progress,
    )
    async with server:
        tools = server.tools(await server.listing())
        names = {server.names[tool.name] for tool in tools}
        assert text_of(await server.call("echo", {"message": "hi"})) == "Echo: hi"
        image: Any = await server.call("get-tiny-image")
        await server.call("trigger-long-running-operation", {"duration": 1, "steps": 2})
    assert {"echo", "get-tiny-image"} <= names
    assert any(block["type"] == "image" and block["data"] for block in image)
    assert len(progress.facts) == 2
