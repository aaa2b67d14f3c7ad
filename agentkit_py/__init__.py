"""Agents, networks of agents, and exact control over the messages that each of them sees.

Start with `Agent`, `Network`, `tool` and a model (`openai`, `anthropic`, `gemini`). Everything else
has a single home: `agentkit_py.processors`, `agentkit_py.models`, `agentkit_py.stores`,
`agentkit_py.messages`, `agentkit_py.events`, `agentkit_py.errors`, `agentkit_py.lifecycle`,
`agentkit_py.routing`, `agentkit_py.tools`, `agentkit_py.runs`; durable functions are in
`agentkit_py.inngest`, fakes for tests in `agentkit_py.testing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentkit_py._core.extension_points import provided_by as _provided_by

if TYPE_CHECKING:
    from agentkit_py.agent import Agent, RoutingAgent, create_agent, create_routing_agent
    from agentkit_py.errors import AgentKitError
    from agentkit_py.history.config import HistoryConfig
    from agentkit_py.lifecycle import Lifecycle
    from agentkit_py.messages import Message, TextMessage, UserMessage
    from agentkit_py.models import anthropic, gemini, openai
    from agentkit_py.network import Network, NetworkRun, create_network, explain
    from agentkit_py.processors import TokenLimiter, ToolCallFilter
    from agentkit_py.processors.base import HistoryProcessor
    from agentkit_py.results import AgentResult
    from agentkit_py.routing import RouterContext
    from agentkit_py.runs import RunLimits
    from agentkit_py.state import State, create_state
    from agentkit_py.stores import MemoryHistory, PostgresHistory, SqliteHistory
    from agentkit_py.tools import Tool, ToolContext, create_tool, tool

__all__ = [
    "Agent",
    "AgentKitError",
    "AgentResult",
    "HistoryConfig",
    "HistoryProcessor",
    "Lifecycle",
    "MemoryHistory",
    "Message",
    "Network",
    "NetworkRun",
    "PostgresHistory",
    "RouterContext",
    "RoutingAgent",
    "RunLimits",
    "SqliteHistory",
    "State",
    "TextMessage",
    "TokenLimiter",
    "Tool",
    "ToolCallFilter",
    "ToolContext",
    "UserMessage",
    "anthropic",
    "create_agent",
    "create_network",
    "create_routing_agent",
    "create_state",
    "create_tool",
    "explain",
    "gemini",
    "openai",
    "tool",
]

# Lower layers call these functions and know no module above them.
_provided_by(
    {
        "agentkit_py.codec": "messages.user_message",
        "agentkit_py.runtime.asking": "model.respond",
        "agentkit_py.inngest.runtime": "inngest.runtime_of inngest.refuse_undurable",
        "agentkit_py.inngest.functions": "inngest.tool",
    }
)

if not TYPE_CHECKING:  # else every misspelled name would be an Any
    from agentkit_py._core.lazy import lazily as _lazily

    __getattr__ = _lazily(
        __name__,
        {
            "agentkit_py.agent": "Agent RoutingAgent create_agent create_routing_agent",
            "agentkit_py.errors": "AgentKitError",
            "agentkit_py.history.config": "HistoryConfig",
            "agentkit_py.lifecycle": "Lifecycle",
            "agentkit_py.messages": "Message TextMessage UserMessage",
            "agentkit_py.models": "anthropic gemini openai",
            "agentkit_py.network": "Network NetworkRun create_network explain",
            "agentkit_py.processors": "TokenLimiter ToolCallFilter",
            "agentkit_py.processors.base": "HistoryProcessor",
            "agentkit_py.results": "AgentResult",
            "agentkit_py.routing": "RouterContext",
            "agentkit_py.runs": "RunLimits",
            "agentkit_py.state": "State create_state",
            "agentkit_py.stores": "MemoryHistory PostgresHistory SqliteHistory",
            "agentkit_py.tools": "Tool ToolContext create_tool tool",
        },
    )


def __dir__() -> list[str]:
    return __all__
