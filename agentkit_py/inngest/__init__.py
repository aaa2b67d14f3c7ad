"""Agents and networks as durable Inngest functions.

`create_functions` makes functions to serve; `AgentKitMiddleware` lets ``network.run(…)`` inside
your own functions find the steps by itself.
"""

from agentkit_py.inngest.functions import FunctionOptions, create_functions, inngest_tool
from agentkit_py.inngest.realtime import publisher, subscription_token
from agentkit_py.inngest.runtime import AgentKitMiddleware, InngestRuntime, runtime_of
from agentkit_py.inngest.sending import CANCEL_EVENT

__all__ = [
    "CANCEL_EVENT",
    "AgentKitMiddleware",
    "FunctionOptions",
    "InngestRuntime",
    "create_functions",
    "inngest_tool",
    "publisher",
    "runtime_of",
    "subscription_token",
]
