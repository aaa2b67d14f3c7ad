"""A scenario's MCP servers, with our own program in place of the recording's."""

from __future__ import annotations

import sys
from pathlib import Path

from agentkit_py.mcp import MCPServer, Stdio

from .mcp_oracle import is_oracle
from .vectors import Json

PROGRAM = str(Path(__file__).parent / "mcp_oracle.py")


def server_of(spec: dict[str, Json]) -> MCPServer:
    """The server that ``spec`` describes."""
    transport = spec["transport"]
    environment = transport.get("env", {})
    if is_oracle(transport):
        process = Stdio(sys.executable, [PROGRAM, *transport["args"][1:]], env=environment)
    else:
        process = Stdio(transport["command"], transport["args"], env=environment)
    return MCPServer(spec["name"], process, required=spec.get("required", True))
