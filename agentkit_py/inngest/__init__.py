"""Agents and networks as durable Inngest functions.

`create_functions` makes functions to serve; `AgentKitMiddleware` lets ``network.run(…)`` inside
your own functions find the steps by itself.
"""

from typing import TYPE_CHECKING

from agentkit_py.inngest.flow import FunctionOptions, per_customer, per_thread
from agentkit_py.inngest.functions import create_functions, inngest_tool
from agentkit_py.inngest.middleware import AgentKitMiddleware
from agentkit_py.inngest.outputs import RunOutput
from agentkit_py.inngest.realtime import publisher, subscription_token
from agentkit_py.inngest.runtime import InngestRuntime, patched, runtime_of
from agentkit_py.inngest.sending import (
    CANCEL_EVENT,
    answer_question,
    mailbox_function,
    send_answers,
    stop_function,
)

__all__ = [
    "CANCEL_EVENT",
    "AgentKitMiddleware",
    "FunctionOptions",
    "InngestRuntime",
    "RunOutput",
    "answer_question",
    "create_functions",
    "inngest_tool",
    "mailbox_function",
    "patched",
    "per_customer",
    "per_thread",
    "publisher",
    "runtime_of",
    "send_answers",
    "stop_function",
    "subscription_token",
]

if not TYPE_CHECKING:  # else every misspelled name would be an Any
    from agentkit_py._core.lazy import lazily as _lazily

    __getattr__ = _lazily(__name__, {})
