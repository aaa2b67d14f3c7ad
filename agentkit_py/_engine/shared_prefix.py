"""Shared prefix: the requests of all agents of a network begin alike.

All agents have the same system prompt and the tools of the whole network. Where an agent's turn
begins, a system message gives its role and its own tools. So requests only grow at their end, in
each agent's turn: providers cache them, and signed reasoning stays valid. The positions of these
messages follow from the authors in the transcript, so they are not stored.

An agent from which something is hidden, or whose prompt or tools are not known before its turn,
keeps a beginning of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agentkit_py._engine.agent_spec import AgentSpec, NetworkSpec
from agentkit_py._engine.instrumentation import Chains
from agentkit_py._engine.tool_sources import allowed_names
from agentkit_py.lifecycle.network_run import AgentLike
from agentkit_py.messages import Message, ToolCallMessage, ToolResultMessage
from agentkit_py.models.base import Model, ModelRequest, ToolSpec
from agentkit_py.models.encoding import role_message
from agentkit_py.models.fallback import FallbackModel
from agentkit_py.processors.windowing import ProviderCompaction

SYSTEM = (
    "Several agents take turns in this conversation. System messages say which of them you are "
    "from there on. Follow the instructions of that agent and call its tools only; those of other "
    "agents are for their turns."
)
"""The system prompt of all agents."""

ROLE = "From here on you are the agent {agent}."
AGAIN = "From here on you are the agent {agent} again, as described above."
MOST_TOOLS = 128
"""The most tools that agents share: OpenAI takes no more functions in a request."""


@dataclass(frozen=True, slots=True)
class Role:
    """An agent that shares the prefix."""

    agent: AgentLike
    text: str
    """Its announcement where it speaks for the first time."""

    tools: frozenset[str]

    @classmethod
    def of(cls, agent: AgentSpec, system: str) -> Role:
        """Return the role of an agent with this system prompt."""
        own = _tools_of(agent)
        listed = f"Your tools: {', '.join(own)}." if own else "You have no tools."
        texts = (ROLE.format(agent=agent.name), system, listed)
        return cls(agent.agent, "\n\n".join(text for text in texts if text), frozenset(own))


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """The roles of the agents that share a beginning, by name, and the tools of all of them."""

    roles: Mapping[str, Role]
    tools: tuple[ToolSpec, ...]
    apart: Mapping[str, str]
    """Agents with a beginning of their own, and why."""

    def takes_in(self, agent: AgentSpec, model: Model) -> bool:
        """Return whether the agent's requests to the model begin as those of the others."""
        role = self.roles.get(agent.name)
        is_same = role is not None and role.agent is agent.agent
        return is_same and model.takes.system_inside and not isinstance(model, FallbackModel)

    def why_apart(self, agent: AgentSpec, model: Model) -> str:
        """Return why an agent has a beginning of its own."""
        if isinstance(model, FallbackModel):
            return "other models may replace its own"
        if not model.takes.system_inside:
            return f"{model.model} takes no system messages inside a conversation"
        return self.apart.get(agent.name, "it has joined the network")

    def with_system(self, agent: AgentSpec, system: str) -> SharedPrefix:
        """Return it with another system prompt of an agent."""
        return replace(self, roles={**self.roles, agent.name: Role.of(agent, system)})

    def owner_of(self, tool: str) -> str | None:
        """Return the name of an agent that has the tool."""
        return next((name for name, role in self.roles.items() if tool in role.tools), None)

    def announced(self, messages: Sequence[Message], reader: str) -> list[Message]:
        """Return a conversation with a system message wherever another agent begins to speak.

        The last message is for ``reader``, who speaks next. None comes between a call and its
        result.
        """
        announced: list[Message] = []
        introduced: set[str] = set()
        offered = frozenset(spec.name for spec in self.tools)
        acting, waiting = "", 0
        for author, message in (*_authors(messages), (reader, None)):
            if author and author != acting and not waiting:
                acting, role = author, self.roles.get(author)
                if role is not None:
                    text = AGAIN.format(agent=author) if author in introduced else role.text
                    announced.append(role_message(text, role.tools - offered, offered - role.tools))
                    offered = role.tools
                    introduced.add(author)
            if message is not None:
                announced.append(message)
                waiting = _waiting(waiting, message)
        return announced

    def share(self, request: ModelRequest) -> ModelRequest:
        """Return a request of an agent's with the common beginning, and its role at the end."""
        own = frozenset(spec.name for spec in request.tools)
        return replace(
            request,
            messages=tuple(self.announced(request.messages, request.agent)),
            tools=self.tools,
            allowed_tools=own,
        )


def shared_prefix(
    agents: Sequence[tuple[AgentSpec, Chains]], network: NetworkSpec
) -> SharedPrefix | None:
    """Return the prefix that a network's agents share; None: each has a prefix of its own.

    Args:
        agents: The agents, with the processors that the history goes through for each.
        network: Their network.
    """
    specs: dict[str, ToolSpec] = {}
    roles: dict[str, Role] = {}
    apart: dict[str, str] = {}
    for agent, chains in agents:
        own = _tools_of(agent)
        reason = _why_apart(agent, chains) or _conflict(own, specs)
        if reason:
            apart[agent.name] = reason
        else:
            assert isinstance(agent.system, str)
            specs |= own
            roles[agent.name] = Role.of(agent, agent.system)
    if network.prefix == "auto" and (apart or not _all_sign(agents, network)):
        return None
    return SharedPrefix(roles, tuple(specs.values()), apart)


def _why_apart(agent: AgentSpec, chains: Chains) -> str:
    """Return why an agent cannot share the prefix; empty: it can."""
    hiding = next((p.name for _, chain in chains for p in chain if not p.same_for_all), "")
    sums_up = any(isinstance(p, ProviderCompaction) for _, chain in chains for p in chain)
    facts = {
        "the model sums up its conversation for itself": sums_up,
        f"{hiding} may hide something from it": bool(hiding),
        "its system prompt is a function": not isinstance(agent.system, str),
        "its on_start may change its messages": agent.lifecycle.on_start is not None,
        "its knowledge is described in its system prompt": agent.tools.knowledge is not None,
        "its servers say which tools it has": bool(agent.tools.servers),
        "its rights are a function": callable(agent.tools.allowed),
        "its hosted tools could be called in other agents' turns": bool(agent.tools.hosted),
        "it begins its answers itself": bool(agent.assistant),
        "its tool_choice is part of its system prompt": agent.tools.choice != "auto",
        "its handoffs are offered in its turns only": bool(agent.handoffs),
        "its output has a form of its own": agent.output is not None,
    }
    return next((reason for reason, holds in facts.items() if holds), "")


def _conflict(own: Mapping[str, ToolSpec], others: Mapping[str, ToolSpec]) -> str:
    for name, spec in own.items():
        if others.get(name, spec) != spec:
            return f"another agent has another tool {name!r}"
    if len(own.keys() | others.keys()) > MOST_TOOLS:
        return f"the agents would have more than {MOST_TOOLS} tools"
    return ""


def _all_sign(agents: Sequence[tuple[AgentSpec, Chains]], network: NetworkSpec) -> bool:
    """Return whether all agents have the same model, which signs, and processors hide nothing."""
    models = [network.model or agent.model or network.default_model for agent, _ in agents]
    first = models[0]
    return (
        isinstance(first, Model)
        and not isinstance(first, FallbackModel)
        and first.takes.checks_prefix
        and first.takes.system_inside
        and all(model == first for model in models)
        and not any(chains for _, chains in agents)
    )


def _tools_of(agent: AgentSpec) -> dict[str, ToolSpec]:
    """Return the definitions of the tools that an agent has at any time."""
    rights = agent.tools.allowed
    names = None if rights is None or callable(rights) else allowed_names(agent.name, rights)
    return {n: t.spec for n, t in agent.tools.own.items() if names is None or n in names}


def _authors(messages: Sequence[Message]) -> Iterator[tuple[str, Message]]:
    """Yield messages with the agents that wrote them; empty: no agent did."""
    for message in messages:
        yield (message.agent or "") if message.role == "assistant" else "", message


def _waiting(before: int, message: Message) -> int:
    """Return how many calls wait for their results after a message."""
    if isinstance(message, ToolCallMessage):
        return before + len(message.tools)
    if isinstance(message, ToolResultMessage):
        return max(0, before - 1)
    return before
