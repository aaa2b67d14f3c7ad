"""What an agent would be sent now, found out without asking a model or saving anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentkit_py.engine.agent import Agent
from agentkit_py.engine.agent_run import AgentRun, choose_model
from agentkit_py.engine.network import Network
from agentkit_py.engine.network_run import NetworkRun
from agentkit_py.engine.options import new_scope
from agentkit_py.engine.scope import RunScope
from agentkit_py.engine.view import View
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.state import State
from agentkit_py.messages import UserMessage
from agentkit_py.models.base import Model
from agentkit_py.processors.report import ContextReport


async def explain(
    target: Agent | Network,
    agent: str | None = None,
    *,
    thread_id: str | None = None,
    input: str | UserMessage = "",  # noqa: A002 - as in run()
    state: State[Any] | Mapping[str, Any] | None = None,
    model: Model | None = None,
) -> ContextReport:
    """What an agent would be sent now, level by level.

    The thread is loaded, and nothing saved. Processors, `on_start` and functions (system prompts,
    models, rights) run as they would; processors that would call a model or an embedder only say
    so in the report.

    Args:
        target: The agent, or the network it is in.
        agent: Which agent of the network.
        thread_id: The stored thread.
        input: What the user would say.
        state: State to go on with.
        model: Overrides the agent's.

    Raises:
        ConfigurationError: There is no such agent.
        MissingModelError: The agent has no model, whose name and window matter here.
        ThreadNotFoundError: There is no such thread.
    """
    scope = new_scope(
        target.name,
        input,
        {"state": state, "thread_id": thread_id},
        history=target.history,
        mode=target.history_mode,
        default_state=target.default_state if isinstance(target, Network) else None,
    )
    chosen, how = _chosen(target, agent, scope, model)
    agents = [target] if isinstance(target, Agent) else target.agents
    await scope.open(agents, dry=True)
    view = View(
        scope=scope,
        agent=chosen,
        model=await choose_model(scope, chosen, how),
        tools=await chosen.tools_now(scope),
        make_host=None,
    )
    return (await view.look()).report


def _chosen(
    target: Agent | Network, name: str | None, scope: RunScope, model: Model | None
) -> tuple[Agent, AgentRun]:
    if isinstance(target, Agent):
        if name not in (None, target.name):
            raise ConfigurationError(f"The agent is {target.name!r}, not {name!r}")
        return target, AgentRun("explain", model=model)
    run = NetworkRun(target, scope, router=target.router, model=model)
    names = ", ".join(run.agents)
    if name is None and len(run.agents) != 1:
        raise ConfigurationError(f"Which agent? Network {target.name!r} has {names}")
    found = next(iter(run.agents.values())) if name is None else run.agents.get(name)
    if found is None:
        raise ConfigurationError(f"Network {target.name!r} has no agent {name!r}, but {names}")
    return found, AgentRun("explain", model=model, default_model=target.default_model)
