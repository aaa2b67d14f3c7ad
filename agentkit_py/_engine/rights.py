"""Which of its tools an agent may use now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from agentkit_py._core.awaiting import resolve
from agentkit_py._engine.lifecycle import AgentContext
from agentkit_py._engine.tool import Tool
from agentkit_py._engine.tool_source import ToolSource, may_have
from agentkit_py.errors import ConfigurationError

if TYPE_CHECKING:
    from agentkit_py.agent import Agent

AllowedTools: TypeAlias = (
    Collection[str]
    | Callable[[AgentContext], "Collection[str] | Awaitable[Collection[str] | None] | None"]
)
"""Names of tools, or a function of the context that gives them; None: all."""


def check_allowed(
    agent: str, allowed: object, tools: Mapping[str, Tool], sources: Sequence[ToolSource] = ()
) -> None:
    """Refuse what can give no rights.

    Raises:
        ConfigurationError: It is neither names nor a function, or names a tool there is not.
    """
    if allowed is None or callable(allowed):
        return
    missing = sorted(_names(agent, allowed) - tools.keys())
    unknown = [name for name in missing if not may_have(sources, name)]
    if unknown:
        raise ConfigurationError(
            f"Agent {agent!r}: allowed_tools has {unknown[0]!r}, which is no tool of it "
            f"({', '.join(sorted(tools)) or 'it has none'})"
        )


async def allowed_now(
    agent: Agent, tools: Mapping[str, Tool], context: AgentContext
) -> Mapping[str, Tool]:
    """Those of ``tools`` that are offered to the model now, and may be called.

    Names that are no tools of the agent are left out: a state may know of more.

    Raises:
        ConfigurationError: The function gave something that is no list of names.
    """
    allowed: Any = agent.allowed_tools
    if callable(allowed):
        allowed = await resolve(allowed(context))
    if allowed is None:
        return tools
    names = _names(agent.name, allowed)
    return {name: tool for name, tool in tools.items() if name in names}


def _names(agent: str, given: Any) -> set[str]:
    if isinstance(given, Collection) and not isinstance(given, str | bytes | Mapping):
        found: set[Any] = set(given)  # pyright: ignore[reportUnknownArgumentType]
        if all(isinstance(name, str) for name in found):
            return found
    raise ConfigurationError(
        f"Agent {agent!r}: allowed_tools must be a list of names, or a function that gives one, "
        f"not {given!r:.80}"
    )
