"""History processors: they decide which part of a conversation a model sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentkit_py.processors.apply import apply_processors
    from agentkit_py.processors.base import (
        HistoryProcessor,
        Processor,
        ProcessorContext,
        ProcessorFunction,
        Processors,
        Summary,
        SummaryStore,
        Tokenizer,
    )
    from agentkit_py.processors.budget import Budget
    from agentkit_py.processors.compose import (
        Chain,
        ContextPolicy,
        Threshold,
        processor_from_settings,
        processors_from_env,
    )
    from agentkit_py.processors.recall import Recall
    from agentkit_py.processors.redaction import Redact, RedactingFilter, Redactor
    from agentkit_py.processors.report import ContextReport, ReportEntry
    from agentkit_py.processors.settings import ProcessorParts
    from agentkit_py.processors.summarize import Summarize
    from agentkit_py.processors.tables import TableResults
    from agentkit_py.processors.tokenizers import (
        ApproximateTokenizer,
        TiktokenTokenizer,
        TokenizerInfo,
        default_tokenizer,
    )
    from agentkit_py.processors.tool_results import (
        ClearToolResults,
        CompressToolResults,
        Deduplicate,
        ToolCallFilter,
        TruncateToolResults,
    )
    from agentkit_py.processors.validity import ensure_valid
    from agentkit_py.processors.views import ByAuthor, HandoffView, KeepImages, StripImages
    from agentkit_py.processors.windowing import (
        DropUnanswered,
        MessageWindow,
        Pin,
        ProviderCompaction,
        RecentToolCalls,
        RecentTurns,
        TokenLimiter,
    )
    from agentkit_py.search.vectors import Embedder, MemoryIndex, VectorIndex

__all__ = [
    "ApproximateTokenizer",
    "Budget",
    "ByAuthor",
    "Chain",
    "ClearToolResults",
    "CompressToolResults",
    "ContextPolicy",
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
    "Processor",
    "ProcessorContext",
    "ProcessorFunction",
    "ProcessorParts",
    "Processors",
    "ProviderCompaction",
    "Recall",
    "RecentToolCalls",
    "RecentTurns",
    "Redact",
    "RedactingFilter",
    "Redactor",
    "ReportEntry",
    "StripImages",
    "Summarize",
    "Summary",
    "SummaryStore",
    "TableResults",
    "Threshold",
    "TiktokenTokenizer",
    "TokenLimiter",
    "Tokenizer",
    "TokenizerInfo",
    "ToolCallFilter",
    "TruncateToolResults",
    "VectorIndex",
    "apply_processors",
    "default_tokenizer",
    "ensure_valid",
    "processor_from_settings",
    "processors_from_env",
]

if not TYPE_CHECKING:  # else every misspelled name would be an Any
    from agentkit_py._core.lazy import lazily as _lazily

    __getattr__ = _lazily(
        __name__,
        {
            "agentkit_py.processors.apply": "apply_processors",
            "agentkit_py.processors.base": "HistoryProcessor Processor ProcessorContext "
            "ProcessorFunction Processors Summary SummaryStore "
            "Tokenizer",
            "agentkit_py.processors.budget": "Budget",
            "agentkit_py.processors.compose": "Chain ContextPolicy Threshold "
            "processor_from_settings processors_from_env",
            "agentkit_py.processors.recall": "Recall",
            "agentkit_py.processors.redaction": "Redact RedactingFilter Redactor",
            "agentkit_py.processors.report": "ContextReport ReportEntry",
            "agentkit_py.processors.settings": "ProcessorParts",
            "agentkit_py.processors.summarize": "Summarize",
            "agentkit_py.processors.tables": "TableResults",
            "agentkit_py.processors.tokenizers": "ApproximateTokenizer TiktokenTokenizer "
            "TokenizerInfo default_tokenizer",
            "agentkit_py.processors.tool_results": "ClearToolResults CompressToolResults "
            "Deduplicate ToolCallFilter TruncateToolResults",
            "agentkit_py.processors.validity": "ensure_valid",
            "agentkit_py.search.vectors": "Embedder MemoryIndex VectorIndex",
            "agentkit_py.processors.views": "ByAuthor HandoffView KeepImages StripImages",
            "agentkit_py.processors.windowing": "DropUnanswered MessageWindow Pin "
            "ProviderCompaction RecentToolCalls RecentTurns TokenLimiter",
        },
    )


def __dir__() -> list[str]:
    return __all__
