"""Every public name of the TypeScript package, and where it is in Python."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agentkit_py._core.typescript import EXPORTS


@dataclass(frozen=True, slots=True)
class Name:
    """One TypeScript name.

    Attributes:
        python: Dotted path below ``agentkit_py``; empty: Python has no such name.
        note: What is to be known.
        kind: What it is at run time; None: a type, an option or a member.
    """

    python: str
    note: str = ""
    kind: Literal["class", "function", "object"] | None = None


def exports() -> list[str]:
    """Return what the package exports, types included: read off its declarations once."""
    return (Path(__file__).parent / "exports.txt").read_text(encoding="utf-8").split()


def exists(name: Name) -> bool:
    """Return whether the Python name exists, or a note says why it does not."""
    if not name.python:
        return bool(name.note)
    path = f"agentkit_py.{name.python}".split(".")
    for cut in range(len(path), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(path[:cut]))
        except ImportError:
            continue
        for part in path[cut:]:
            found = getattr(found, part, None) or _field(found, part)
        return found is not None
    return False


def _field(owner: Any, name: str) -> Any:
    fields = {**getattr(owner, "__dataclass_fields__", {}), **getattr(owner, "__annotations__", {})}
    return fields.get(name)


def _named(kind: Any, table: dict[str, tuple[str, str] | str]) -> dict[str, Name]:
    pairs = {k: (v, "") if isinstance(v, str) else v for k, v in table.items()}
    return {name: Name(python, note, kind) for name, (python, note) in pairs.items()}


_KINDS: dict[str, Any] = {
    "AgenticModel": "class",
    "StreamingContext": "class",
    "AgentMessageChunkSchema": "object",
}


def _kind(name: str) -> Any:
    return _KINDS.get(name, "function" if name[0].islower() else None)


NAMES: dict[str, Name] = {
    **{
        f"server/{name}" if name == "createServer" else name: Name(
            path, note, None if name == "createServer" else _kind(name)
        )
        for name, (path, note) in EXPORTS.items()
    },
    **_named(
        "class",
        {
            "Agent": "Agent",
            "AgentResult": "AgentResult",
            "Network": "Network",
            "NetworkRun": "NetworkRun",
            "RoutingAgent": "RoutingAgent",
            "State": "State",
        },
    ),
    **_named(
        "function",
        {
            "anthropic": "anthropic",
            "createAgent": "create_agent",
            "createNetwork": "create_network",
            "createRoutingAgent": "create_routing_agent",
            "createState": "create_state",
            "createTool": "create_tool",
            "createToolManifest": (
                "tools.create_tool_manifest",
                "gives JSON Schemas; TypeScript's is a trick of types",
            ),
            "gemini": "gemini",
            "getDefaultRoutingAgent": "routing.get_default_routing_agent",
            "grok": "models.grok",
            "openai": "openai",
        },
    ),
    **_named(
        None,
        {
            "agent.run": "Agent.run",
            "agent.withModel": "Agent.with_model",
            "network.run": "Network.run",
            "network.availableAgents": "NetworkRun.available_agents",
            "network.addAgent": "NetworkRun.add_agent",
            "network.schedule": "NetworkRun.schedule",
            "networkRun.state": "NetworkRun.state",
            "state.data": "State",
            "state.kv": ("State.kv", "a mapping view of `State.data`: `in`, `del`, `dict(…)`"),
            "state.results": "State.results",
            "state.messages": "State.messages",
            "state.appendResult": "State.append_result",
            "state.setResults": "State.set_results",
            "state.getResultsFrom": "State.get_results_from",
            "state.formatHistory": "State.format_history",
            "state.clone": "State.clone",
            "result.export": "AgentResult.to_dict",
            "result.checksum": ("AgentResult.checksum", "another sum, see the divergences"),
            "tool_choice / toolChoice": "Agent.tool_choice",
            "lifecycle.enabled": "Lifecycle.enabled",
            "lifecycle.onStart": "Lifecycle.on_start",
            "lifecycle.onResponse": "Lifecycle.on_response",
            "lifecycle.onFinish": "Lifecycle.on_finish",
            "lifecycle.onRoute": "Lifecycle.on_route",
            "HistoryConfig": "HistoryConfig",
            "history.createThread": ("HistoryConfig", "`create_thread`, returns the id itself"),
            "history.get": ("HistoryConfig", "`get`"),
            "history.appendUserMessage": ("HistoryConfig", "`append_user_message`"),
            "history.appendResults": ("HistoryConfig", "`append_results`"),
            "UserMessage": "UserMessage",
            "TextMessage": "TextMessage",
            "ToolCallMessage": "messages.ToolCallMessage",
            "ToolResultMessage": "messages.ToolResultMessage",
            "defaultRouter / router": ("Network.router", "one name"),
            "maxIter": ("Network.max_iter", "agents have their own, `Agent.max_iter`"),
            "agent.run({network})": (
                "Agent.run",
                "`ctx.user_message`, `state=ctx.state.clone()`, and `model=` where it has none",
            ),
            "streaming.publish": "runs.StreamingConfig.publish",
            "streaming.simulateChunking": "runs.StreamingConfig.simulate_chunking",
            "azureOpenai": "models.azure_openai",
            "applyProcessors (branch)": "processors.apply_processors",
            "HistoryProcessor (branch)": "HistoryProcessor",
            "ToolCallFilter (branch)": "ToolCallFilter",
            "TokenLimiter (branch)": "TokenLimiter",
            "Message": "Message",
            "StreamingConfig": "runs.StreamingConfig",
            "TextContent": "messages.TextContent",
            "Tool": "Tool",
        },
    ),
}
