"""Limits and filters of tools by name: names that no tool has are refused or warned of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import cast

from agentkit_py._core.untrusted import get_logger
from agentkit_py._core.validation import meant, nearly
from agentkit_py._engine.agent_spec import AgentSpec
from agentkit_py._engine.limits import RunLimits
from agentkit_py._engine.nested_runs import runs_agents
from agentkit_py.errors import ConfigurationError
from agentkit_py.lifecycle.network_run import AgentLike
from agentkit_py.processors.base import Processors

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


def check_filters(where: str, chains: Iterable[Processors], agents: Iterable[AgentLike]) -> None:
    """Warn once of processors that name a tool which is nearly, but not quite, a tool there.

    A filter that was meant to hide the results of a tool would show them.

    Args:
        where: What the agents belong to, for the warning.
        chains: The processors.
        agents: All agents that are known before the run.
    """
    named = {
        (type(processor).__name__, option, name)
        for chain in chains
        for processor in (() if callable(chain) else chain)
        for option in ("include", "exclude")
        for name in _names(getattr(processor, option, None))
    }
    known: set[str] = set()
    if named:
        known.update(tool for agent in agents for tool in agent.resolve().tools.own)
    for processor, option, name in sorted(named):
        close = None if name in known else nearly(name, sorted(known))
        if close is not None:
            _say_misspelt(where, processor, option, name, close)


def _names(value: object) -> Iterable[str]:
    if isinstance(value, str) or not isinstance(value, Collection):
        return ()
    return [name for name in cast("Collection[object]", value) if isinstance(name, str)]


@lru_cache(maxsize=1000)
def _say_misspelt(where: str, processor: str, option: str, name: str, close: str) -> None:
    logger.warning(
        "%s has no tool %r, which %s(%s=…) names: did you mean %r?",
        *(where, name, processor, option, close),
    )


def _limited(limits: RunLimits | None) -> Mapping[str, int]:
    given = limits.max_tool_calls if isinstance(limits, RunLimits) else None  # else refused later
    return given if isinstance(given, Mapping) else {}


def _may_have(spec: AgentSpec, name: str) -> bool:
    if spec.tools.may_have(name) or name in spec.handoffs:
        return True
    return any(runs_agents(tool) for tool in spec.tools.own.values())
