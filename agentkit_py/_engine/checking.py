"""Wrong kinds of values, found where they are given and named as they were given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentkit_py._engine.emitter import StreamingConfig
from agentkit_py._engine.lifecycle import Lifecycle
from agentkit_py._engine.limits import RunLimits
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.config import HistoryConfig
from agentkit_py.models.base import Model
from agentkit_py.state import State

if TYPE_CHECKING:
    from agentkit_py.agent import Agent
    from agentkit_py.network import Network

_MODEL = 'a model, e.g. openai("gpt-4o")'
_HISTORY = 'a store or HistoryConfig, e.g. SqliteHistory("support.db")'


def expect(
    where: str, name: str, value: object, kinds: type | tuple[type, ...], wanted: str
) -> None:
    """Refuse a value of another kind; None is always allowed.

    Raises:
        ConfigurationError: It is of another kind.
    """
    if value is not None and not isinstance(value, kinds):
        raise ConfigurationError(f"{where}: {name} must be {wanted}, got {value!r:.80}")


def expect_list(where: str, name: str, value: object) -> None:
    """Refuse what is no list of things: one thing that was not put into a list, mostly.

    Raises:
        ConfigurationError: It is no list.
    """
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigurationError(
            f"{where}: {name} must be a list, got {value!r:.80}; put it into [ ]"
        )


def check_agent(agent: Agent) -> None:
    """Refuse an agent that cannot run for the kinds of values it was given.

    Raises:
        ConfigurationError: A value is of the wrong kind.
    """
    where = f"Agent {agent.name!r}"
    if not isinstance(agent.system, str) and not callable(agent.system):
        raise ConfigurationError(
            f"{where}: system must be a text or a function that gives one, got {agent.system!r:.80}"
        )
    if not isinstance(agent.model, Model) and not callable(agent.model):
        expect(where, "model", agent.model, Model, _MODEL)
    expect(where, "history", agent.history, HistoryConfig, _HISTORY)
    expect(where, "lifecycle", agent.lifecycle, Lifecycle, "a Lifecycle(…)")
    expect_list(where, "tools", agent.tools)
    expect_list(where, "processors", agent.processors)
    expect_count(where, "max_iter", agent.max_iter)


def check_network(network: Network, agent_kind: type) -> None:
    """Refuse a network that cannot run for the kinds of values it was given.

    Raises:
        ConfigurationError: A value is of the wrong kind.
    """
    where = f"Network {network.name!r}"
    expect_list(where, "agents", network.agents)
    for agent in network.agents:
        expect(where, "each of agents", agent, agent_kind, "an Agent")
    expect(where, "default_model", network.default_model, Model, _MODEL)
    expect(where, "default_state", network.default_state, State, "a State(…)")
    expect(where, "history", network.history, HistoryConfig, _HISTORY)
    expect_list(where, "processors", network.processors)
    expect_count(where, "max_iter", network.max_iter)


def expect_count(where: str, name: str, value: object) -> None:
    """Refuse what is no whole number, 0 or more.

    Raises:
        ConfigurationError: It is none.
    """
    expect(where, name, value, int, "a whole number")
    if isinstance(value, int) and value < 0:
        raise ConfigurationError(f"{where}: {name} must be 0 or more, got {value}")


_OPTIONS: dict[str, tuple[type, str]] = {
    "thread_id": (str, "a text"),
    "model": (Model, _MODEL),
    "limits": (RunLimits, "RunLimits(…)"),
    "streaming": (StreamingConfig, "StreamingConfig(…)"),
    "max_iter": (int, "a whole number"),
}
_FUNCTIONS = ("observer", "approver")


def check_options(options: dict[str, Any]) -> None:
    """Refuse options of ``run`` of the wrong kind.

    Raises:
        ConfigurationError: A value is of the wrong kind.
    """
    for name, value in options.items():
        if name in _OPTIONS:
            expect("run()", name, value, *_OPTIONS[name])
        elif name in _FUNCTIONS and value is not None and not callable(value):
            raise ConfigurationError(f"run(): {name} must be a function, got {value!r:.80}")
