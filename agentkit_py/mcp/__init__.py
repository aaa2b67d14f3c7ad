"""MCP: the tools of other servers for our agents, and our agents for other clients.

::

    files = MCPServer("files", Stdio("npx", ["-y", "@modelcontextprotocol/server-filesystem", "."]))
    agent = Agent(name="clerk", system="…", mcp_servers=[files])

Needs the extra ``mcp``.
"""

import agentkit_py.mcp._needed  # noqa: F401  # pyright: ignore[reportUnusedImport] - imported for its check
from agentkit_py.mcp.errors import (
    MCPCallError,
    MCPConnectionError,
    MCPProtocolError,
    MCPResultTooLargeError,
    MCPTimeoutError,
    MCPToolError,
)
from agentkit_py.mcp.server import MCPServer
from agentkit_py.mcp.serving import serve_http, serve_stdio
from agentkit_py.mcp.transports import SSE, Stdio, StreamableHTTP

__all__ = [
    "SSE",
    "MCPCallError",
    "MCPConnectionError",
    "MCPProtocolError",
    "MCPResultTooLargeError",
    "MCPServer",
    "MCPTimeoutError",
    "MCPToolError",
    "Stdio",
    "StreamableHTTP",
    "serve_http",
    "serve_stdio",
]
