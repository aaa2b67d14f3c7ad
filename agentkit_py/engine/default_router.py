"""The routing agent that networks without a router use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from pydantic import BaseModel, Field

from agentkit_py._core.json import dumps
from agentkit_py.engine.agent import RoutingAgent
from agentkit_py.engine.lifecycle import AgentContext, Lifecycle, ResultContext
from agentkit_py.engine.tool import ToolContext, create_tool
from agentkit_py.errors import ConfigurationError, RoutingError
from agentkit_py.models.base import ToolSpec

SELECT, DONE = "select_agent", "done"


class _Select(BaseModel):
    name: str = Field(description="Name of the agent that is to act next")
    reason: str | None = Field(default=None, description="Why this agent, in one sentence")


class _Done(BaseModel):
    summary: str | None = Field(default=None, description="What was achieved, in one sentence")


@cache
def get_default_routing_agent() -> RoutingAgent:
    """The routing agent that asks a model which agent is next, or whether all is done.

    It tells the model each enabled agent's name, description and tools (name, description and
    JSON Schema of the arguments; nothing of a server's settings), and offers two tools:
    ``select_agent`` and ``done``. An answer without a tool call ends the run.
    """
    return RoutingAgent(
        name="Default routing agent",
        description="Chooses which agent is next",
        system=_system,
        tools=[
            create_tool(
                name=SELECT,
                description="Choose the agent that acts next",
                parameters=_Select,
                handler=_select,
            ),
            create_tool(
                name=DONE,
                description="Say that the user's request is fulfilled and nobody need act",
                parameters=_Done,
                handler=_done,
            ),
        ],
        tool_choice="any",
        lifecycle=Lifecycle(on_route=_on_route),
    )


async def _select(chosen: _Select, context: ToolContext) -> str:
    network = context.network
    if network is None or chosen.name not in network.agents:
        names = ", ".join(network.agents) if network is not None else ""
        raise LookupError(f"There is no agent {chosen.name!r}. Agents: {names}")
    return chosen.name


async def _done(finished: _Done) -> str:
    return finished.summary or ""


def _on_route(context: ResultContext) -> list[str] | None:
    for result in context.result.tool_calls:
        if result.tool.name == DONE:
            return None
        if result.tool.name == SELECT and isinstance(result.tool.input, dict):
            # Also a name that is unknown: the run ends and says so.
            return [str(result.tool.input.get("name", ""))]
    return None


async def _system(context: AgentContext) -> str:
    network = context.network
    if network is None:
        raise ConfigurationError("The default routing agent can only run in a network")
    agents = await network.available_agents()
    if not agents:
        raise RoutingError("no agent is enabled", network=network.name)
    described = "\n".join(
        f"<agent>\n<name>{agent.name}</name>\n<description>{agent.description}</description>\n"
        f"<tools>{_tools(network.specs_of(agent))}</tools>\n</agent>"
        for agent in agents
    )
    return _PROMPT.format(agents=described)


def _tools(specs: Sequence[ToolSpec]) -> str:
    return dumps(
        [{"name": s.name, "description": s.description, "parameters": s.parameters} for s in specs]
    )


_PROMPT = """\
You direct a team of agents. You never answer the user yourself: you decide who acts next.

These agents are on the team:
<agents>
{agents}
</agents>

Read the conversation so far. If the user's latest request is answered, or waits for the user, \
call `done`. Otherwise call `select_agent` with the name of the one agent that is best able to \
take the next step. Do not send a task to an agent that has just finished it."""
