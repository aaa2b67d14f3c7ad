"""What may become of one call; in a run the model reads it as an error result.

::

    AgentKitError
    └── MCPCallError
        ├── MCPToolError            the tool itself says that it failed (``isError``)
        ├── MCPProtocolError        the server refused the call, or its answer is no MCP result
        ├── MCPConnectionError      the connection ended during the call, which may be done
        ├── MCPTimeoutError         no answer and no progress in time; the server was told to stop
        └── MCPResultTooLargeError  it was carried out, and its result is too large to keep
"""

from __future__ import annotations

from agentkit_py.errors import AgentKitError


class MCPCallError(AgentKitError):
    """A call of a tool gave no result.

    Attributes:
        server: The server's name.
        tool: The tool's name on the server.
    """

    def __init__(self, message: str, *, server: str, tool: str) -> None:
        super().__init__(message)
        self.server = server
        self.tool = tool


class MCPToolError(MCPCallError):
    """The tool itself says that it failed."""


class MCPProtocolError(MCPCallError):
    """The server refused the call, or what it answered is no result."""


class MCPConnectionError(MCPCallError):
    """The connection ended during the call, which may have been carried out all the same."""


class MCPTimeoutError(MCPCallError):
    """There was no answer, and no progress, in time; the server was told to stop."""


class MCPResultTooLargeError(MCPCallError):
    """The call was carried out, and its result is too large to keep."""
