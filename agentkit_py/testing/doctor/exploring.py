"""Exploring a network: a model that calls each tool and makes each handoff, in several runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias, cast
from urllib.parse import quote, unquote

from agentkit_py._core.json import JsonObject, as_list, as_object, dumps
from agentkit_py._engine.agent_spec import ModelChoice
from agentkit_py.agent import Agent
from agentkit_py.models import model_named
from agentkit_py.models.base import Model
from agentkit_py.network import Network
from agentkit_py.testing.doctor.samples import sample, value_of
from agentkit_py.testing.fakes import ScriptedModel
from agentkit_py.testing.provider import ReceivedRequest, Reply, tool_calls

GivenArguments: TypeAlias = Mapping[str, Mapping[str, Any] | Sequence[Mapping[str, Any]]]
"""Arguments by the name of a tool; of a list, each is a call of its own."""

_HEADER = "x-agentkit-doctor"
"""The header of a model request that says which agent it is of."""

_SELECT = "select_agent"


def all_agents(network: Network[Any, Any]) -> list[Agent[Any, Any]]:
    """Return the agents of a network, with those that join it by handoffs."""
    found = {agent.name: agent for agent in network.agents}
    waiting = list(found.values())
    while waiting:
        for handoff in waiting.pop(0).resolve().handoffs.values():
            target = handoff[0].agent
            if isinstance(target, Agent) and target.name not in found:
                found[target.name] = cast("Agent[Any, Any]", target)
                waiting.append(found[target.name])
    return list(found.values())


def marked(choice: ModelChoice, agent: str) -> ModelChoice:
    """Return a model whose requests name their agent, where the model is known beforehand."""
    model = model_named(choice) if isinstance(choice, str) else choice
    if isinstance(model, ScriptedModel):  # its requests are built like those of its provider
        model = Model(**{item.name: getattr(model, item.name) for item in fields(Model)})
    if not isinstance(model, Model) or type(model) is not Model:
        return choice  # a function chooses it, or it is several
    return replace(model, headers={**model.headers, _HEADER: quote(agent)})


@dataclass
class Exploration:
    """The tools and handoffs of a network, and those that were called so far.

    An unknown agent, such as an agent used as a tool, has the name "".
    """

    agents: Sequence[str]
    handoffs: Mapping[str, Mapping[str, str]]
    """Targets by the name of the tool, by agent."""

    labels: Mapping[tuple[str, str], str]
    """The name of a tool in the report, by agent and name: those that are the same share it."""

    outputs: Mapping[str, Mapping[str, JsonObject]] = field(default_factory=dict[str, Any])
    """Schemas of the types of an agent's output by their names, by agent."""

    schemas: Mapping[tuple[str, str], JsonObject] = field(default_factory=dict[Any, Any])
    """Schemas of tools by agent and name: requests leave out what their provider does not take."""

    arguments: GivenArguments = field(default_factory=dict[str, Any])
    called: set[str] = field(default_factory=set[str])
    """Tools that were called, by their names in the report."""

    again: set[str] = field(default_factory=set[str])
    """Tools that were called once more, after a run that failed with their first call."""

    edges: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Handoffs that were called, by agent and tool."""

    seen: set[str] = field(default_factory=set[str])
    """Agents that had a turn."""

    offered: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    @classmethod
    def of(cls, network: Network[Any, Any], arguments: GivenArguments) -> Exploration:
        """Return the tools and handoffs of a network."""
        agents = all_agents(network)
        return cls(
            agents=[agent.name for agent in agents],
            handoffs={
                agent.name: {
                    name: found[0].target for name, found in agent.resolve().handoffs.items()
                }
                for agent in agents
            },
            labels=labels_of(agents),
            outputs={agent.name: _outputs_of(agent) for agent in agents},
            schemas={
                (agent.name, name): dict(tool.parameters)
                for agent in agents
                for name, tool in agent.tool_map.items()
                if tool.parameters is not None
            },
            arguments=arguments,
        )

    def copy(self) -> Exploration:
        """Return it for another run, which begins with the same knowledge."""
        sets = {name: set(getattr(self, name)) for name in ("called", "edges", "seen", "offered")}
        return replace(self, **sets)

    @property
    def progress(self) -> int:
        """A number that grows with each tool, handoff and agent that is new."""
        return len(self.called) + len(self.edges) + len(self.seen) + len(self.again)

    def label(self, agent: str, tool: str) -> str:
        """Return the name of a tool in the report."""
        return self.labels.get((agent, tool), tool)

    def has_more(self) -> bool:
        """Return whether another run may reach a tool or handoff that was not called yet."""
        return any(self.is_worth(agent) for agent in self.seen)

    def is_worth(self, agent: str) -> bool:
        """Return whether an agent, or an agent that it can hand over to, has something left."""
        waiting, reached = [agent], {agent}
        while waiting:
            name = waiting.pop()
            offered = [tool for owner, tool in self.offered if owner == name]
            if name not in self.seen or any(self._is_new(name, tool) for tool in offered):
                return True
            targets = {self.handoffs.get(name, {}).get(tool, name) for tool in offered}
            waiting += targets - reached
            reached |= targets
        return False

    def _is_new(self, agent: str, tool: str) -> bool:
        if tool in self.handoffs.get(agent, {}):
            return (agent, tool) not in self.edges
        return self.label(agent, tool) not in self.called

    def try_again(self, ran: Mapping[str, int]) -> None:
        """Forget the calls that a run which failed did not carry out, once."""
        lost = {one for one in self.called if not ran.get(one)} - self.again
        self.called -= lost & set(self.labels.values())
        self.again |= lost & set(self.labels.values())


def _outputs_of(agent: Agent[Any, Any]) -> dict[str, JsonObject]:
    output = agent.resolve().output
    members = () if output is None else output.members
    return {member.tool.name: dict(member.tool.parameters or {}) for member in members}


def labels_of(agents: Sequence[Agent[Any, Any]]) -> dict[tuple[str, str], str]:
    """Return the names of tools in the report; of two that share a name, with their agents."""
    owners: dict[str, list[tuple[Any, str]]] = {}
    found: dict[tuple[str, str], str] = {}
    for agent in agents:
        for name, tool in agent.tool_map.items():
            known = owners.setdefault(name, [])
            same = next((label for other, label in known if other == tool.handler), None)
            label = same or (f"{name} of {agent.name}" if known else name)
            known.append((tool.handler, label))
            found[agent.name, name] = label
    return found


class Explorer:
    """Replies for `FakeProvider`: the tools of an agent, a handoff, then a text."""

    def __init__(self, exploration: Exploration | None = None) -> None:
        """Explore the remaining tools and handoffs."""
        self._known = exploration or Exploration((), {}, {})
        self._forced: set[str] = set()
        self._used: set[tuple[str, str]] = set()
        """Handoffs of this run: once each, so that no run goes in circles."""

    def __call__(self, request: ReceivedRequest) -> Reply:
        """Call the remaining tools; if a tool call is required, a single call per reply."""
        known, tools = self._known, dict(_tools_of(request.body))
        agent = self._agent(request, tools)
        known.seen.add(agent)
        known.offered.update((agent, name) for name in tools)
        outputs = known.outputs.get(agent, {})
        ways = [name for name in tools if name in outputs]
        names = self._next(agent, [name for name in tools if name not in ways]) or ways[:1]
        if _is_forced(request.body) and tools:
            names = names[:1] or list(tools)[-1:]
        self._note(agent, names)
        calls = [
            (name, given) for name in names for given in self._arguments(agent, name, tools[name])
        ]
        return tool_calls(*calls) if calls else self._last_word(agent, request.body)

    def _last_word(self, agent: str, body: Any) -> Reply:
        """Return an answer of the type that is asked for, in the request or in the prompt."""
        schema, outputs = _answer_schema(body), self._known.outputs.get(agent, {})
        for name, own in outputs.items():
            if name in self._known.arguments:
                return dumps(self._arguments(agent, name, own)[0])
            schema = own if len(outputs) == 1 else schema or own
        return "That is all." if schema is None else dumps(value_of(schema))

    def _agent(self, request: ReceivedRequest, tools: Mapping[str, Any]) -> str:
        """Return the agent of a request; "" if it is unknown, e.g. an agent used as a tool."""
        agent = unquote(request.headers.get(_HEADER, ""))
        own = {name for owner, name in self._known.labels if owner == agent}
        own.update(self._known.handoffs.get(agent, ()))
        return agent if not tools or not own or own & tools.keys() else ""

    def _next(self, agent: str, tools: Sequence[str]) -> list[str]:
        known, handoffs = self._known, self._known.handoffs.get(agent, {})
        plain = [name for name in tools if name not in handoffs]
        new = [name for name in plain if known.label(agent, name) not in known.called]
        if _SELECT in plain and _SELECT not in new and self._unseen:
            new.insert(0, _SELECT)
        return new + self._handoff(agent, [name for name in tools if name in handoffs])

    def _handoff(self, agent: str, tools: Sequence[str]) -> list[str]:
        """Return the next handoff: an unexplored handoff, or a handoff on the way to it."""
        known = self._known
        left = [name for name in tools if (agent, name) not in self._used]
        new = [name for name in left if (agent, name) not in known.edges]
        way = [name for name in left if known.is_worth(known.handoffs[agent][name])]
        return [*new, *way][:1]

    def _note(self, agent: str, names: Sequence[str]) -> None:
        known = self._known
        for name in names:
            if name in known.handoffs.get(agent, {}):
                known.edges.add((agent, name))
                self._used.add((agent, name))
            else:
                known.called.add(known.label(agent, name))

    @property
    def _unseen(self) -> list[str]:
        return [name for name in self._known.agents if name not in self._known.seen]

    def _arguments(self, agent: str, tool: str, schema: Mapping[str, Any]) -> list[dict[str, Any]]:
        given = self._known.arguments.get(
            self._known.label(agent, tool), self._known.arguments.get(tool)
        )
        if given is not None:
            return [dict(one) for one in ([given] if isinstance(given, Mapping) else given)]
        known = self._known.outputs.get(agent, {}).get(tool)
        found = sample(known or self._known.schemas.get((agent, tool), schema))
        if tool == _SELECT and self._known.agents:
            found["name"] = (self._unseen or list(self._known.agents))[0]
        return [found]


class Recited:
    """Replies for `FakeProvider`: those of a script, and after that a last word."""

    def __init__(self, lines: Sequence[Reply]) -> None:
        """Begin with the first reply."""
        self._lines = iter(lines)

    def __call__(self, request: ReceivedRequest) -> Reply:
        """Return the next reply."""
        line = next(self._lines, None)
        return _last_word(request.body) if line is None else line


def _last_word(body: Any) -> Reply:
    """Return an answer of the type that is asked for."""
    schema = _answer_schema(body)
    return "That is all." if schema is None else dumps(value_of(schema))


def _tools_of(body: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield names and schemas, whichever provider's request it is."""
    for given in as_list((as_object(body) or {}).get("tools")) or []:
        entry = as_object(given) or {}
        for tool in as_list(entry.get("functionDeclarations")) or [entry.get("function", entry)]:
            found: dict[str, Any] = {}
            for key in ("parameters", "input_schema", "parametersJsonSchema"):
                found = tool.get(key) or found
            yield tool["name"], found


_ANSWER_SCHEMAS = (
    ("response_format", "json_schema", "schema"),
    ("text", "format", "schema"),
    ("output_config", "format", "schema"),
    ("generationConfig", "responseSchema"),
)
"""Places of an answer's schema in requests."""


def _answer_schema(body: Any) -> dict[str, Any] | None:
    for path in _ANSWER_SCHEMAS:
        found: Any = body
        for key in path:
            found = (as_object(found) or {}).get(key)
        if found is not None:
            return as_object(found)
    return None


def _is_forced(body: Any) -> bool:
    text = str((as_object(body) or {}).get("tool_choice") or body.get("toolConfig") or "auto")
    return not any(word in text.lower() for word in ("auto", "none"))
