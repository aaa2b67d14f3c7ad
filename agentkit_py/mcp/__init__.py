"""MCP: the tools of other servers for our agents, and our agents for other clients.

::

    files = MCPServer("files", Stdio("npx", ["-y", "@modelcontextprotocol/server-filesystem", "."]))
    agent = Agent(name="clerk", system="…", mcp_servers=[files])

Needs the extra ``mcp``.
"""

from importlib.util import find_spec

from agentkit_py.errors import MissingDependencyError

for _package in ("mcp", "jsonschema"):
    if find_spec(_package) is None:
        raise MissingDependencyError(_package, "mcp", "agentkit_py.mcp")

# After the check, which names the extra: these import the packages.
from agentkit_py.mcp.connection import SSE, Stdio, StreamableHTTP  # noqa: E402
from agentkit_py.mcp.results import (  # noqa: E402
    MCPCallError,
    MCPConnectionError,
    MCPProtocolError,
    MCPResultTooLargeError,
    MCPTimeoutError,
    MCPToolError,
)
from agentkit_py.mcp.server import MCPServer  # noqa: E402
from agentkit_py.mcp.serving import serve_http, serve_stdio  # noqa: E402

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
