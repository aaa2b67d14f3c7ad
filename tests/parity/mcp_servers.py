"""A scenario's MCP servers, with our own program in place of the recording's."""

from __future__ import annotations

import sys
from pathlib import Path

from agentkit_py.mcp import MCPServer, Stdio

from .vectors import Json

PROGRAM = str(Path(__file__).parent / "mcp_oracle.py")


def server_of(spec: dict[str, Json]) -> MCPServer:
    """The server that ``spec`` describes."""
    transport = spec["transport"]
    _, *arguments = transport["args"]
    process = Stdio(sys.executable, [PROGRAM, *arguments], env=transport.get("env", {}))
    return MCPServer(spec["name"], process, required=spec.get("required", True))
