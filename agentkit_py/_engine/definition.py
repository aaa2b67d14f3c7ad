"""The definition of a run, in parts with a digest each, to recognise changes by a deploy.

A durable run keeps it, to name the changes. It covers the parts of an agent, a tool
and a router, with their functions' code; not the functions that these call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable
from types import FunctionType
from typing import Any, cast

from agentkit_py._core.digests import code_of, short_digest
from agentkit_py._core.json import dumps
from agentkit_py._engine.agent_spec import AgentSpec, NetworkSpec
from agentkit_py.codec import message_to_dict
from agentkit_py.history.config import HistoryConfig
from agentkit_py.lifecycle.guardrails import NO_GUARDRAILS, GuardrailSpec
from agentkit_py.lifecycle.network_run import AgentLike
from agentkit_py.messages import Message
from agentkit_py.models.base import Model
from agentkit_py.processors.base import HistoryProcessor
from agentkit_py.tools.definition import Tool

_HOOKS = ("enabled", "on_start", "on_response", "on_finish", "on_route")


def order_free_digest(value: Any) -> str:
    """Return a short digest of JSON; the order of lists, which may be of sets, does not count."""
    return short_digest(_ordered(value))


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return [[key, _ordered(one)] for key, one in sorted(items)]
    if isinstance(value, list | tuple):
        return sorted((_ordered(one) for one in cast("Iterable[Any]", value)), key=dumps)
    return value


def digest_of_messages(*parts: Iterable[Message], **facts: Any) -> str:
    """Return a short digest of messages."""
    return short_digest([[*map(message_to_dict, messages)] for messages in parts] + [facts])


def definition_of(
    agents: Iterable[AgentSpec],
    network: NetworkSpec | None,
    router: object,
    history: HistoryConfig | None,
) -> dict[str, str]:
    """Return the parts of a run's definition: agents, their tools, the network, the store."""
    found: dict[str, str] = {}
    specs = list(agents)
    for agent in specs:
        found[f"agent {agent.name}"] = short_digest(_agent(agent))
        for name, tool in agent.tools.own.items():
            found[f"tool {name} of {agent.name}"] = _tool(tool)
    if network is not None:
        names = [agent.name for agent in specs]
        options = (router, network.model, network.default_model, network.output)
        chain = _chain([*network.isolation, *network.chain])
        parts = [names, network.max_iter, *map(_named, options), chain]
        found[f"network {network.name}"] = short_digest([*parts, *_guardrails(network.guardrails)])
    if history is not None:
        lease = history.lease
        kept = [history.save_each, None if lease is None else lease.steering]
        found["history"] = short_digest([type(history).__qualname__, *kept, _chain(history.chain)])
    return found


def _agent(agent: AgentSpec) -> list[Any]:
    handoffs = sorted(agent.handoffs)
    found = [*_with_output(agent), handoffs] if handoffs else _with_output(agent)
    return [*found, *_guardrails(agent.guardrails)]


def _guardrails(given: GuardrailSpec) -> list[Any]:
    """Return the guardrails' names and functions; nothing where there are none."""
    if given is NO_GUARDRAILS:
        return []
    stages = (given.input, given.output, given.tool_input, given.tool_output)
    functions = [[_named(one.check) for one in stage.guardrails] for stage in stages]
    return [given.names, functions]


def _with_output(agent: AgentSpec) -> list[Any]:
    output = agent.output
    if output is None:
        return _without_output(agent)
    parts = [[m.spec.name, m.spec.parameters, _named(m.function)] for m in output.members]
    facts = [output.way, output.text is not None, output.retries, output.end_strategy]
    return [*_without_output(agent), parts, facts, [_named(one) for one in output.validators]]


def _without_output(agent: AgentSpec) -> list[Any]:
    options = (agent.system, agent.model, agent.tools.allowed, agent.tools.choice)
    return [
        agent.assistant,
        agent.max_iter,
        agent.tools.in_parallel,
        [_named(option) for option in options],
        [_named(getattr(agent.lifecycle, name)) for name in _HOOKS],
        _chain(agent.chain),
        *[one if isinstance(one, str) else dict(one) for one in agent.tools.hosted],
    ]


def _chain(chain: Iterable[HistoryProcessor]) -> list[Any]:
    """Return processors by name, with their settings."""
    return [[one.name, one.fingerprint] for one in chain]


@functools.lru_cache(maxsize=512)
def _tool(tool: Tool) -> str:
    seconds = tool.approval_timeout.total_seconds()
    options = (tool.handler, tool.needs_approval, tool.check)
    schema = tool.parameters
    parts = [schema, tool.steps, seconds, [_named(option) for option in options]]
    return short_digest([*parts, *_guardrails(tool.guardrails)])


def _named(value: object) -> Any:
    """Return an option as JSON: functions by their code."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Model):
        return [value.provider, value.model]
    if isinstance(value, AgentLike):
        return value.name
    if isinstance(value, functools.partial):
        return ["partial", _named(cast("Any", value).func)]
    if isinstance(value, list | tuple | set | frozenset):
        return sorted(map(str, cast("Iterable[object]", value)))
    value = inspect.unwrap(cast("Any", value)) if callable(value) else value
    function: Any = value if hasattr(value, "__code__") else vars(type(value)).get("__call__")
    code = getattr(function, "__code__", None)
    return [*code_of(code), *_held(function)] if code else type(value).__qualname__


def _held(function: Any) -> list[Any]:
    """Return a function's values without its code: agents, texts and functions of its scope.

    Numbers and mutable values are left out: they may be the function's memory.
    """
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    found: list[Any] = []
    for name, cell in cells.items():
        try:
            value: object = cell.cell_contents
        except ValueError:  # it is not known yet
            continue
        if isinstance(value, str | AgentLike):
            found.append([name, _named(value)])
        elif isinstance(value, tuple):
            named = [
                one.name for one in cast("tuple[object, ...]", value) if isinstance(one, AgentLike)
            ]
            found.append([name, named])
        elif isinstance(value, FunctionType):
            found.append([name, code_of(value.__code__)])
    return found
