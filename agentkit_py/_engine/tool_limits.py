"""Limits of tools by name: names that no tool has are refused where all tools are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from agentkit_py._core.untrusted import get_logger
from agentkit_py._core.validation import meant
from agentkit_py._engine.agent_spec import AgentSpec
from agentkit_py._engine.limits import RunLimits
from agentkit_py._engine.nested_runs import runs_agents
from agentkit_py.errors import ConfigurationError
from agentkit_py.lifecycle.network_run import AgentLike

logger = get_logger("agentkit_py")


def check_tool_limits(
    where: str, limits: RunLimits | None, agents: Iterable[AgentLike], *, is_open: bool = False
) -> None:
    """Refuse ``max_tool_calls`` of a tool that none of the agents has.

    A tool that runs agents may have tools of any name in it, and a server is asked for its tools
    only later: with such tools every name passes.

    Args:
        where: What the agents belong to, for the error.
        limits: The limits of a run.
        agents: All agents that are known before the run.
        is_open: Others may join, so that an unknown name is only warned of.

    Raises:
        ConfigurationError: None of the agents has such a tool.
    """
    names = _limited(limits)
    specs = [agent.resolve() for agent in agents] if names else []
    for name in names:
        if any(_may_have(spec, name) for spec in specs):
            continue
        known = sorted({tool for spec in specs for tool in (*spec.tools.own, *spec.handoffs)})
        problem = (
            f"{where} has no tool {name!r}, which RunLimits(max_tool_calls=…) names: "
            f"{meant(name, known)}"
        )
        if not is_open:
            raise ConfigurationError(problem)
        logger.warning("%s (unless its router brings an agent along that has it)", problem)


def limits_for(limits: RunLimits | None, agents: Iterable[AgentLike]) -> RunLimits | None:
    """Return the limits without names of tools that these agents do not have, but others may."""
    names = _limited(limits)
    if limits is None or not names:
        return limits
    specs = [agent.resolve() for agent in agents]
    own = {n: most for n, most in names.items() if any(_may_have(spec, n) for spec in specs)}
    return replace(limits, max_tool_calls=own or None)


def _limited(limits: RunLimits | None) -> Mapping[str, int]:
    given = limits.max_tool_calls if isinstance(limits, RunLimits) else None  # else refused later
    return given if isinstance(given, Mapping) else {}


def _may_have(spec: AgentSpec, name: str) -> bool:
    if spec.tools.may_have(name) or name in spec.handoffs:
        return True
    return any(runs_agents(tool) for tool in spec.tools.own.values())
