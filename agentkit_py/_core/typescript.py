"""Exports of the TypeScript package under other names here: imports of them say what to write.

`docs/parity.md` shows the table, together with the exports that differ in spelling alone.
"""

from __future__ import annotations

from agentkit_py._core.spellings import snake_case

EVENTS: dict[str, str] = {
    "DataDeltaEvent": "data.delta",
    "GenericErrorEvent": "error",
    "HitlRequestedEvent": "hitl.requested",
    "HitlResolvedEvent": "hitl.resolved",
    "MetadataUpdatedEvent": "metadata.updated",
    "PartCompletedEvent": "part.completed",
    "PartCreatedEvent": "part.created",
    "PartFailedEvent": "part.failed",
    "ReasoningDeltaEvent": "reasoning.delta",
    "RunCompletedEvent": "run.completed",
    "RunFailedEvent": "run.failed",
    "RunInterruptedEvent": "run.interrupted",
    "RunStartedEvent": "run.started",
    "StepCompletedEvent": "step.completed",
    "StepFailedEvent": "step.failed",
    "StepStartedEvent": "step.started",
    "StreamEndedEvent": "stream.ended",
    "TextDeltaEvent": "text.delta",
    "ToolCallArgumentsDeltaEvent": "tool_call.arguments.delta",
    "ToolCallOutputDeltaEvent": "tool_call.output.delta",
    "UsageUpdatedEvent": "usage.updated",
}
"""Types of chunks, and the event that each one is."""

INTERNAL = "internal"

EXPORTS: dict[str, tuple[str, str]] = {
    **{
        name: ("events.Chunk", f"one class, whose `event` is `{event}`")
        for name, event in EVENTS.items()
    },
    "AgentMessageChunk": ("events.Chunk", ""),
    "AgentMessageChunkSchema": ("events.Chunk", "the same JSON shape"),
    "AgenticModel": ("models.Model", "one class: a value that says where to send what"),
    "AnyZodType": ("", "pydantic models and JSON Schemas take its place"),
    "History": ("history.HistoryContext", "a namespace of types; this is its `Context`"),
    "MCP": ("mcp.MCPServer", "a namespace of types; this is its `Server`"),
    "MaybePromise": ("", "each callback may be sync or async"),
    "SaveThreadToStorageConfig": ("history.thread.Thread", INTERNAL),
    "StateData": ("State", "any dict, dataclass or pydantic model"),
    "StreamingContext": ("events.project.Projector", INTERNAL),
    "StreamingEvent": ("events.Chunk", "one class; `event` says which"),
    "ThreadOperationConfig": ("history.thread.Thread", INTERNAL),
    "ToolMessage": ("messages.ToolCall", "the call inside a `ToolCallMessage`"),
    "ToolResultPayload": ("messages.ToolResultMessage", "its `content`: the same JSON"),
    "createAgenticModelFromAiAdapter": ("", "models need no wrapping"),
    "createServer": (
        "inngest.create_functions",
        "gives the functions; Inngest's Python SDK or `agentkit serve` serves them",
    ),
    "createStepWrapper": ("", "steps of streams are the runtime's business"),
    "generateId": ("", "ids come out of the runtime, so that replays repeat them"),
    "getInngestFnInput": (
        "inngest.inngest_tool",
        "is given the schema: the SDK's functions have none that is public",
    ),
    "getStepTools": ("", "the runtime is chosen once, see `Runtime`"),
    "initializeThread": ("history.thread.Thread.open", INTERNAL),
    "isEventType": ("events.EventName", "a literal type"),
    "isInngestFn": ("inngest.inngest_tool", "functions become tools with `parameters=…`"),
    "loadThreadFromStorage": ("history.thread.Thread.open", INTERNAL),
    "saveThreadToStorage": ("history.thread.Thread.save_results", INTERNAL),
    "stringifyError": ("", "errors are exceptions, `str(error)`"),
}
"""Exports that are not found by their spelling: a path below ``agentkit_py``, empty where there is
none, and a note."""


HOSTS = (
    "openrouter",
    "groq",
    "mistral",
    "deepseek",
    "moonshot",
    "minimax",
    "together",
    "fireworks",
    "cerebras",
    "huggingface",
    "ollama",
    "vllm",
    "litellm",
)
"""Hosts that `compatible` knows; TypeScript has a function for some of them."""


def import_hint(name: str) -> str | None:
    """Return the advice for an import of TypeScript's ``name``, or None."""
    by_spelling = {snake_case(known): entry for known, entry in EXPORTS.items()}
    if entry := EXPORTS.get(name) or by_spelling.get(name):
        path, note = entry
        home, _, ours = f"agentkit_py.{path}".rpartition(".")
        if path and note != INTERNAL:
            also = f" ({note})" if note else ""
            return f"{name} is {ours} here{also}: from {home} import {ours}"
        return f"there is no {name} here: {note if not path else 'the library does it itself'}"
    if name in HOSTS:
        line = f'from agentkit_py.models import compatible; compatible("{name}", "…")'
        return f"{name} is a host of OpenAI's chat completions: {line}"
    return None
