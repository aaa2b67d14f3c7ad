"""MCP: the tools of other servers for our agents, and our agents for other clients.

::

    files = MCPServer("files", Stdio("npx", ["-y", "@modelcontextprotocol/server-filesystem", "."]))
    agent = Agent(name="clerk", system="…", mcp_servers=[files])

Needs the extra ``mcp``.
"""

from typing import TYPE_CHECKING

from agentkit_py._core.lazy import missing_package
from agentkit_py.errors import MissingDependencyError

if _missing := missing_package("mcp", "jsonschema"):
    raise MissingDependencyError(_missing, "mcp", "agentkit_py.mcp")

# After the check, which names the extra: these import the packages.
from agentkit_py.mcp.connection import SSE, Stdio, StreamableHTTP
from agentkit_py.mcp.server import (
    MCPCallError,
    MCPConnectionError,
    MCPProtocolError,
    MCPResultTooLargeError,
    MCPServer,
    MCPTimeoutError,
    MCPToolError,
)
from agentkit_py.mcp.serving import serve_http, serve_stdio

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

if not TYPE_CHECKING:  # else every misspelled name would be an Any
    from agentkit_py._core.lazy import lazily as _lazily

    __getattr__ = _lazily(__name__, {})
