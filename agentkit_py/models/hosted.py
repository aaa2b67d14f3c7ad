"""Hosted tools: what providers run themselves, offered beside an agent's own tools.

Some have one name for all providers; everything else is the provider's own JSON.

Source: https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview,
https://developers.openai.com/api/docs/guides/tools and
https://ai.google.dev/gemini-api/docs/tool-combination
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from agentkit_py._core.json import copied
from agentkit_py.errors import ConfigurationError
from agentkit_py.models.base import HostedTool, Model, ModelRequest

Tool: TypeAlias = dict[str, Any]

_NAMED: Mapping[str, Mapping[str, Tool]] = {
    "anthropic": {
        "web_search": {"type": "web_search_20250305", "name": "web_search"},
        "code_execution": {"type": "code_execution_20250825", "name": "code_execution"},
        "tool_search": {
            "type": "tool_search_tool_regex_20251119",
            "name": "tool_search_tool_regex",
        },
    },
    "openai-responses": {
        "web_search": {"type": "web_search"},
        "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
        "image_generation": {"type": "image_generation"},
        "tool_search": {"type": "tool_search"},
    },
    "gemini": {
        "web_search": {"googleSearch": {}},
        "code_execution": {"codeExecution": {}},
    },
}


def hosted_tools(model: Model, request: ModelRequest, key: str) -> list[Tool]:
    """Return the hosted tools of a request as its format writes them.

    Raises:
        ConfigurationError: The format has no such tool, or none at all.
    """
    return [_tool(model, key, one) for one in request.hosted]


def _tool(model: Model, key: str, one: HostedTool) -> Tool:
    known = _NAMED.get(key)
    if known is None:
        raise ConfigurationError(
            f"hosted_tools={one!r:.80}: {model.provider} model {model.model!r} speaks a format "
            "without hosted tools. Use openai_responses, anthropic or gemini."
        )
    if not isinstance(one, str):
        return dict(copied(dict(one)))
    if one not in known:
        raise ConfigurationError(
            f"hosted_tools={one!r}: {model.provider} has no tool of this name that needs no "
            f"settings, only {', '.join(known)}. Pass the provider's own JSON as a dict."
        )
    return dict(copied(known[one]))
