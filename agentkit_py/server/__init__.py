"""The HTTP API that the useAgent React hook talks to; needs the extra ``api``.

`create_app` makes an ASGI app of networks and agents; `stream_response` answers a request to a
route of your own.
"""

from agentkit_py._core.lazy import missing_package
from agentkit_py.errors import MissingDependencyError

if _missing := missing_package("starlette", "sse_starlette"):
    raise MissingDependencyError(_missing, "api", "agentkit_py.server")

# After the check, which names the extra.
from agentkit_py.server.app import create_app, lifespan, realtime_app, stream_response
from agentkit_py.server.auth import LOCAL_USER, Auth
from agentkit_py.server.chat_page import ChatPage
from agentkit_py.server.config import ServerLimits, ServerOptions
from agentkit_py.server.formats import FormatName
from agentkit_py.server.hub import Batch, Entry, Hub, HubLimits, Subscription
from agentkit_py.server.notices import Notice

__all__ = [
    "LOCAL_USER",
    "Auth",
    "Batch",
    "ChatPage",
    "Entry",
    "FormatName",
    "Hub",
    "HubLimits",
    "Notice",
    "ServerLimits",
    "ServerOptions",
    "Subscription",
    "create_app",
    "lifespan",
    "realtime_app",
    "stream_response",
]
