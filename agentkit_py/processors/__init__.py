"""History processors: what a model gets to see of a conversation."""

from __future__ import annotations

from agentkit_py.processors.apply import apply_processors
from agentkit_py.processors.base import (
    HistoryProcessor,
    Processor,
    ProcessorContext,
    ProcessorFunction,
    Tokenizer,
)
from agentkit_py.processors.report import ContextReport, ReportEntry
from agentkit_py.processors.token_limiter import TokenLimiter
from agentkit_py.processors.tokenizers import (
    ApproximateTokenizer,
    TiktokenTokenizer,
    default_tokenizer,
)
from agentkit_py.processors.tool_call_filter import ToolCallFilter
from agentkit_py.processors.validity import ensure_valid

__all__ = [
    "ApproximateTokenizer",
    "ContextReport",
    "HistoryProcessor",
    "Processor",
    "ProcessorContext",
    "ProcessorFunction",
    "ReportEntry",
    "TiktokenTokenizer",
    "TokenLimiter",
    "Tokenizer",
    "ToolCallFilter",
    "apply_processors",
    "default_tokenizer",
    "ensure_valid",
]
