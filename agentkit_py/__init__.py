"""Agents, networks of agents, and exact control over what each of them sees.

Start with `Agent`, `Network`, `tool` and a model (`openai`, `anthropic`, `gemini`, …). Errors are
in `agentkit_py.errors`, events in `agentkit_py.events`, processors also in
`agentkit_py.processors`, stores in `agentkit_py.stores`, fakes for tests in `agentkit_py.testing`,
durable functions in `agentkit_py.inngest`.
"""

from typing import TYPE_CHECKING

from agentkit_py._core.lazy import Finder as _Finder
from agentkit_py._core.lazy import lazily as _lazily
from agentkit_py.engine.agent import Agent, RoutingAgent
from agentkit_py.engine.create import (
    create_agent,
    create_network,
    create_routing_agent,
)
from agentkit_py.engine.emitter import StreamingConfig
from agentkit_py.engine.lifecycle import (
    AgentContext,
    Lifecycle,
    ResultContext,
    Start,
    StartContext,
)
from agentkit_py.engine.limits import RunLimits
from agentkit_py.engine.network import Network
from agentkit_py.engine.network_run import NetworkRun
from agentkit_py.engine.router import RouterContext, together
from agentkit_py.engine.stream import RunStream
from agentkit_py.engine.tool import Tool, ToolContext, create_tool, tool
from agentkit_py.errors import (
    AgentKitError,
    ConfigurationError,
    ModelError,
    NonRetriableError,
    RetryAfterError,
)
from agentkit_py.events import ApprovalAnswer, ApprovalRequest, Decision
from agentkit_py.history.config import HistoryConfig, HistoryContext
from agentkit_py.history.result import AgentResult
from agentkit_py.history.state import State, create_state
from agentkit_py.messages import (
    FileContent,
    ImageContent,
    Message,
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from agentkit_py.models import (
    answering,
    anthropic,
    azure_openai,
    gemini,
    grok,
    openai,
    openai_responses,
)
from agentkit_py.models.base import Model, RetryPolicy

if TYPE_CHECKING:
    from agentkit_py.engine.default_router import get_default_routing_agent
    from agentkit_py.engine.explain import explain
    from agentkit_py.engine.manifest import create_tool_manifest
    from agentkit_py.engine.mentions import mention_router
    from agentkit_py.engine.todos import todo_write
    from agentkit_py.inngest import create_functions
    from agentkit_py.processors import (
        ApproximateTokenizer,
        Budget,
        ByAuthor,
        Chain,
        ClearToolResults,
        CompressToolResults,
        ContextReport,
        Deduplicate,
        DropUnanswered,
        HandoffView,
        HistoryProcessor,
        KeepImages,
        MessageWindow,
        Pin,
        PolicyParts,
        ProcessorContext,
        Recall,
        RecentToolCalls,
        Redact,
        RedactingFilter,
        Redactor,
        StripImages,
        Summarize,
        Summary,
        Threshold,
        TiktokenTokenizer,
        TokenLimiter,
        ToolCallFilter,
        TruncateToolResults,
        apply_processors,
        processor_from_settings,
        processors_from_env,
    )
    from agentkit_py.runtime.embeddings import OpenAIEmbedder
    from agentkit_py.stores import MemoryHistory, PostgresHistory, SqliteHistory

__all__ = [
    "Agent",
    "AgentContext",
    "AgentKitError",
    "AgentResult",
    "ApprovalAnswer",
    "ApprovalRequest",
    "ApproximateTokenizer",
    "Budget",
    "ByAuthor",
    "Chain",
    "ClearToolResults",
    "CompressToolResults",
    "ConfigurationError",
    "ContextReport",
    "Decision",
    "Deduplicate",
    "DropUnanswered",
    "FileContent",
    "HandoffView",
    "HistoryConfig",
    "HistoryContext",
    "HistoryProcessor",
    "ImageContent",
    "KeepImages",
    "Lifecycle",
    "MemoryHistory",
    "Message",
    "MessageWindow",
    "Model",
    "ModelError",
    "Network",
    "NetworkRun",
    "NonRetriableError",
    "OpenAIEmbedder",
    "Pin",
    "PolicyParts",
    "PostgresHistory",
    "ProcessorContext",
    "ReasoningMessage",
    "Recall",
    "RecentToolCalls",
    "Redact",
    "RedactingFilter",
    "Redactor",
    "ResultContext",
    "RetryAfterError",
    "RetryPolicy",
    "RouterContext",
    "RoutingAgent",
    "RunLimits",
    "RunStream",
    "SqliteHistory",
    "Start",
    "StartContext",
    "State",
    "StreamingConfig",
    "StripImages",
    "Summarize",
    "Summary",
    "TextContent",
    "TextMessage",
    "Threshold",
    "TiktokenTokenizer",
    "TokenLimiter",
    "Tool",
    "ToolCall",
    "ToolCallFilter",
    "ToolCallMessage",
    "ToolContext",
    "ToolResultMessage",
    "TruncateToolResults",
    "Usage",
    "UserMessage",
    "answering",
    "anthropic",
    "apply_processors",
    "azure_openai",
    "create_agent",
    "create_functions",
    "create_network",
    "create_routing_agent",
    "create_state",
    "create_tool",
    "create_tool_manifest",
    "explain",
    "gemini",
    "get_default_routing_agent",
    "grok",
    "mention_router",
    "openai",
    "openai_responses",
    "processor_from_settings",
    "processors_from_env",
    "todo_write",
    "together",
    "tool",
]


__getattr__: _Finder = _lazily(
    __name__,
    {
        "agentkit_py.engine.default_router": "get_default_routing_agent",
        "agentkit_py.engine.explain": "explain",
        "agentkit_py.engine.manifest": "create_tool_manifest",
        "agentkit_py.engine.mentions": "mention_router",
        "agentkit_py.engine.todos": "todo_write",
        "agentkit_py.processors": (
            "ApproximateTokenizer Budget ByAuthor Chain ClearToolResults "
            "CompressToolResults ContextReport Deduplicate DropUnanswered HandoffView "
            "HistoryProcessor KeepImages MessageWindow Pin PolicyParts ProcessorContext Recall "
            "RecentToolCalls Redact RedactingFilter Redactor StripImages Summarize "
            "Summary Threshold TiktokenTokenizer TokenLimiter ToolCallFilter "
            "TruncateToolResults apply_processors processor_from_settings "
            "processors_from_env"
        ),
        "agentkit_py.runtime.embeddings": "OpenAIEmbedder",
        "agentkit_py.stores": "MemoryHistory PostgresHistory SqliteHistory",
        "agentkit_py.inngest": "create_functions",
    },
)
