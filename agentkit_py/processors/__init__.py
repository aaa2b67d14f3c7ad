"""History processors: what a model gets to see of a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentkit_py._core.lazy import Finder as _Finder
from agentkit_py._core.lazy import lazily as _lazily
from agentkit_py.processors.apply import apply_processors
from agentkit_py.processors.base import (
    HistoryProcessor,
    Processor,
    ProcessorContext,
    ProcessorFunction,
    Tokenizer,
)
from agentkit_py.processors.report import ContextReport, ReportEntry
from agentkit_py.processors.tokenizers import (
    ApproximateTokenizer,
    TiktokenTokenizer,
    default_tokenizer,
)
from agentkit_py.processors.validity import ensure_valid

if TYPE_CHECKING:
    from agentkit_py.processors.budget import Budget
    from agentkit_py.processors.by_author import ByAuthor
    from agentkit_py.processors.clear_tool_results import ClearToolResults
    from agentkit_py.processors.compose import (
        Chain,
        PolicyParts,
        Threshold,
        processor_from_settings,
        processors_from_env,
    )
    from agentkit_py.processors.compress_tool_results import CompressToolResults
    from agentkit_py.processors.deduplicate import Deduplicate
    from agentkit_py.processors.drop_unanswered import DropUnanswered
    from agentkit_py.processors.handoff_view import HandoffView
    from agentkit_py.processors.images import KeepImages, StripImages
    from agentkit_py.processors.message_window import MessageWindow
    from agentkit_py.processors.pin import Pin
    from agentkit_py.processors.recall import Recall
    from agentkit_py.processors.recent_tool_calls import RecentToolCalls
    from agentkit_py.processors.redact import Redact
    from agentkit_py.processors.redact_logs import RedactingFilter
    from agentkit_py.processors.redactor import Redactor
    from agentkit_py.processors.summaries import Summary, SummaryStore
    from agentkit_py.processors.summarize import Summarize
    from agentkit_py.processors.token_limiter import TokenLimiter
    from agentkit_py.processors.tool_call_filter import ToolCallFilter
    from agentkit_py.processors.truncate_tool_results import TruncateToolResults
    from agentkit_py.processors.vectors import Embedder, MemoryIndex, VectorIndex

__all__ = [
    "ApproximateTokenizer",
    "Budget",
    "ByAuthor",
    "Chain",
    "ClearToolResults",
    "CompressToolResults",
    "ContextReport",
    "Deduplicate",
    "DropUnanswered",
    "Embedder",
    "HandoffView",
    "HistoryProcessor",
    "KeepImages",
    "MemoryIndex",
    "MessageWindow",
    "Pin",
    "PolicyParts",
    "Processor",
    "ProcessorContext",
    "ProcessorFunction",
    "Recall",
    "RecentToolCalls",
    "Redact",
    "RedactingFilter",
    "Redactor",
    "ReportEntry",
    "StripImages",
    "Summarize",
    "Summary",
    "SummaryStore",
    "Threshold",
    "TiktokenTokenizer",
    "TokenLimiter",
    "Tokenizer",
    "ToolCallFilter",
    "TruncateToolResults",
    "VectorIndex",
    "apply_processors",
    "default_tokenizer",
    "ensure_valid",
    "processor_from_settings",
    "processors_from_env",
]

__getattr__: _Finder = _lazily(
    __name__,
    {
        "agentkit_py.processors.budget": "Budget",
        "agentkit_py.processors.by_author": "ByAuthor",
        "agentkit_py.processors.clear_tool_results": "ClearToolResults",
        "agentkit_py.processors.compose": "Chain PolicyParts Threshold "
        "processor_from_settings processors_from_env",
        "agentkit_py.processors.compress_tool_results": "CompressToolResults",
        "agentkit_py.processors.deduplicate": "Deduplicate",
        "agentkit_py.processors.drop_unanswered": "DropUnanswered",
        "agentkit_py.processors.handoff_view": "HandoffView",
        "agentkit_py.processors.images": "KeepImages StripImages",
        "agentkit_py.processors.message_window": "MessageWindow",
        "agentkit_py.processors.pin": "Pin",
        "agentkit_py.processors.recall": "Recall",
        "agentkit_py.processors.recent_tool_calls": "RecentToolCalls",
        "agentkit_py.processors.redact": "Redact",
        "agentkit_py.processors.redact_logs": "RedactingFilter",
        "agentkit_py.processors.redactor": "Redactor",
        "agentkit_py.processors.summaries": "Summary SummaryStore",
        "agentkit_py.processors.summarize": "Summarize",
        "agentkit_py.processors.token_limiter": "TokenLimiter",
        "agentkit_py.processors.tool_call_filter": "ToolCallFilter",
        "agentkit_py.processors.truncate_tool_results": "TruncateToolResults",
        "agentkit_py.processors.vectors": "Embedder MemoryIndex VectorIndex",
    },
)
