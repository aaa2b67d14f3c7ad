"""NetworkRun: a run of a network for routers, tools, hooks and callers."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeAlias, cast, overload

from typing_extensions import TypeVar

from agentkit_py._core.json import dumps
from agentkit_py._core.spellings import spelled_here
from agentkit_py.errors import OutputError
from agentkit_py.history.questions import Question
from agentkit_py.messages import Usage
from agentkit_py.models.base import ToolSpec
from agentkit_py.processors.base import HistoryProcessor
from agentkit_py.processors.report import ContextReport
from agentkit_py.results import NO_VALUE, AgentResult, is_unmeant
from agentkit_py.state import State, StateT

DONE = "done"


def output_json(
    state: State[Any], text: str, stop_reason: str | None, results: Sequence[AgentResult]
) -> dict[str, Any]:
    """Return the end of a run as JSON."""
    return {
        "threadId": state.thread_id,
        "text": text,
        "stopReason": stop_reason,
        "state": state.dump(),
        "results": [result.to_dict() for result in results],
    }


AnswerT = TypeVar("AnswerT", default=Any)
"""The type of an agent's output, None for plain text."""

RunOutputT = TypeVar("RunOutputT", default=Any)
"""The type of a network's output."""

T = TypeVar("T")

Scheduled: TypeAlias = str | tuple[str, ...]
"""The name of an agent that is next, or of several that run at the same time."""

branch_schedule: ContextVar[tuple[object, list[Any]] | None] = ContextVar(
    "agentkit_branch", default=None
)
"""The network run of a parallel call, and the agents that the call has scheduled there."""


def scheduled_in(run: object, stack: list[T]) -> list[T]:
    """Return the list that new entries of a run's schedule go to: its stack, or a branch's own."""
    branch = branch_schedule.get()
    return cast("list[T]", branch[1]) if branch is not None and branch[0] is run else stack


class AgentLike(Generic[AnswerT]):
    """The base of agents: the interface for the engine, hooks, tools and routers."""

    is_routing: ClassVar[bool] = False
    """True for routing agents, whose answers name the next agents."""

    name: str
    description: str
    output_type: Any

    def resolve(self) -> Any:
        """Return the agent as it is now, ready to run."""
        raise NotImplementedError


HandoffHistory: TypeAlias = Literal["whole", "summary", "brief"] | HistoryProcessor
"""The part of the earlier conversation that the next agent sees: all of it, a summary of the texts,
or only the input of the handoff; or the result of a processor."""


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A handoff that happened."""

    source: str
    """The agent who handed over."""

    target: str
    """The agent who continued."""

    input: Any
    """The model's input as JSON; None if the handoff takes none."""

    tool_name: str
    history: HandoffHistory
    """The history that went along."""


class NetworkLike(Protocol):
    """A network's configuration as hooks, tools and routers see it."""

    name: str
    description: str
    agents: Any


class RunEntries(Protocol):
    """The entries of a run, as its transcript holds them."""

    @property
    def state(self) -> State:
        """The run's state."""
        ...

    def of_this_run(self) -> Sequence[AgentResult]:
        """Return the entries of this run, in order."""
        ...

    def results(self) -> list[AgentResult]:
        """Return the results of this run that are in the state, in order."""
        ...


class RunUsage(Protocol):
    """The use of models by a run, as its meter counts it."""

    @property
    def usage(self) -> Usage:
        """Tokens of all model calls."""
        ...


class RunServices(Protocol):
    """The part of a run's choices that readers of a network's run may use."""

    async def is_enabled(self, agent: Any, run: NetworkRun, /) -> bool:
        """Return whether the agent's lifecycle lets it run now."""
        ...

    def known_tools(self, agent: Any, /) -> Sequence[ToolSpec]:
        """Return an agent's tools as far as they are known without asking its servers."""
        ...


@dataclass(frozen=True, slots=True)
class RunReader:
    """The parts of a run that its `NetworkRun` reads."""

    transcript: RunEntries
    meter: RunUsage
    services: RunServices


@spelled_here
class NetworkRun(Generic[StateT, RunOutputT]):
    """A run of a network.

    Attributes:
        network: The network's configuration.
        run_id: The id that events and traces call the run by.
        state: The run's state.
        agents: The agents of this run by name: the network's, and those a router brought in.
        stack: Names of the scheduled agents, the next first; a tuple of names for agents that run
            in parallel.
        call_count: How many agent turns there were.
        stop_reason: Why the run ended: ``"done"`` (the router named no agent), ``"pending"`` (it
            waits for a person), ``"taken_over"`` (a member of staff answers), ``"interrupted"`` (a
            message of the user ended it), ``"steered"`` (another run has the message, and waits for
            a person or a time), ``"max_iter"``, ``"unknown_agent"``,
            ``"disabled_agent"``, the name of a limit, or why the last reply was cut (``"length"``,
            ``"refusal"``, …); None while it runs.
        pending: The questions that it waits for; `Network.resume` takes the answers.
        limit_reached: The limit that kept a routing agent from being asked, or why its reply was
            cut off.
        stopped_at: The agent name that was unknown or disabled.
        last_result: The last agent's last result.
        routing_results: Results of routing agents; they are not part of the state.
        handoffs: The handoffs of this run, in order.
        own_output: The result of the network's own ``output``; `NO_VALUE` if it has none.
    """

    state: State[StateT]

    def __init__(self, network: NetworkLike, run_id: str, reader: RunReader) -> None:
        """Begin with the network's agents and an empty stack."""
        self.network: Any = network
        self.run_id = run_id
        self.state = cast("State[StateT]", reader.transcript.state)
        self.agents: dict[str, Any] = {agent.name: agent for agent in network.agents}
        self.stack: list[Scheduled] = []
        self.call_count: int = 0
        self.stop_reason: str | None = None
        self.pending: list[Question] = []
        self.limit_reached: str | None = None
        self.stopped_at: str | None = None
        self.last_result: AgentResult | None = None
        self.routing_results: list[AgentResult] = []
        self.own_output: Any = NO_VALUE
        self.handoffs: list[HandedOver] = []
        self._reader = reader

    def __str__(self) -> str:
        """The entries of this run with their authors, open questions, and why it ended."""
        entries = self._reader.transcript.of_this_run()
        lines = [str(replace(entry, failed_calls=())) for entry in entries]  # their calls say it
        for question in self.pending:
            calls = "; ".join(f"{one.name}({dumps(one.arguments)})" for one in question.calls)
            asks = ": ".join(filter(None, (question.message, calls)))
            lines.append(f"{question.agent} waits for an answer to {question.id}: {asks}")
        return "\n".join([*lines, f"({self.name}: {self.stop_reason or 'running'})"])

    def to_dict(self) -> dict[str, Any]:
        """Return the run as JSON, ``{threadId, text, stopReason, state, results}``.

        Functions of `agentkit_py.inngest.create_functions` return this, and your own functions may;
        `agentkit_py.inngest.RunOutput` reads it.

        Raises:
            StateError: The state's data are not JSON; the message names the key.
        """
        return output_json(self.state, self.text, self.stop_reason, self.results)

    @property
    def name(self) -> str:
        """The network's name."""
        return self.network.name

    @property
    def thread_id(self) -> str | None:
        """The thread that the run belongs to."""
        return self.state.thread_id

    @property
    def results(self) -> list[AgentResult]:
        """The results of this run, in order."""
        return self._reader.transcript.results()

    @property
    def text(self) -> str:
        """The text of the last result."""
        return self.last_result.text if self.last_result is not None else ""

    @property
    def output(self) -> RunOutputT:
        """The network's own output, else that of the agent whose turn was the last.

        Of an agent without ``output_type`` that is its text.

        Raises:
            OutputError: There is none: the run ended by a limit, or within a turn.
        """
        value = self.own_output
        if value is NO_VALUE and self.last_result is not None:
            value = self._value_of(self.last_result)
        if value is NO_VALUE:
            reason = self.stop_reason or "running"
            raise OutputError(self.name, reason, result=self.last_result)
        return cast("RunOutputT", value)

    @overload
    def output_of(self, agent: AgentLike[None]) -> str | None: ...
    @overload
    def output_of(self, agent: AgentLike[T]) -> T | None: ...
    def output_of(self, agent: AgentLike[Any]) -> Any:
        """Return an agent's last output in this run; None: it has given none."""
        own = [r for r in self._reader.transcript.results() if r.agent_name == agent.name]
        values = (self._value_of(result) for result in reversed(own))
        return next((value for value in values if value is not NO_VALUE), None)

    def _value_of(self, result: AgentResult) -> Any:
        """Return the output of a turn that ended with this result; `NO_VALUE`: it has none."""
        agent = self.agents.get(result.agent_name)
        is_open = result.stop_reason is not None or bool(result.tool_calls)
        if result.value is not NO_VALUE or is_open or agent is None:
            return result.value
        return result.text if agent.output_type is None else NO_VALUE

    @property
    def errors(self) -> list[Exception]:
        """The exceptions that tools raised in this run and that were not meant for the model.

        Each has its traceback. Of a durable run those of the calls that this process made.
        """
        calls = [call for result in self.results for call in result.tool_calls if is_unmeant(call)]
        return [call.error for call in calls if call.error is not None]

    @property
    def usage(self) -> Usage:
        """Tokens of all model calls of this run, those of routing agents included."""
        return self._reader.meter.usage

    @property
    def context(self) -> list[ContextReport]:
        """The context report of each inference of this run, in order."""
        return [result.context for result in self.results if result.context is not None]

    def schedule(self, agent: Any) -> None:
        """Put an agent, or its name, at the end of the stack; tools and hooks hand over with it."""
        name = agent if isinstance(agent, str) else self.add_agent(agent)
        scheduled_in(self, self.stack).append(name)

    def add_agent(self, agent: AgentLike) -> str:
        """Add an agent to this run, unless its name is taken; return the name."""
        self.agents.setdefault(agent.name, agent)
        return agent.name

    async def available_agents(self) -> list[Any]:
        """Return the agents that are enabled now."""
        return [a for a in self.agents.values() if await self._reader.services.is_enabled(a, self)]

    def specs_of(self, agent: AgentLike) -> Sequence[ToolSpec]:
        """Return an agent's tools as far as they are known: servers are asked when it runs."""
        return self._reader.services.known_tools(agent)

    def frozen(self, transcript: RunEntries) -> Self:
        """Return a copy of the run on another state: changes affect only the copy."""
        found = copy.copy(self)
        found.state = cast("State[StateT]", transcript.state)
        found._reader = replace(self._reader, transcript=transcript)  # noqa: SLF001 - own class
        found.agents, found.stack = dict(self.agents), list(self.stack)
        return found


# What the engine writes into a run; routers, hooks and tools read it.


def note_turns(run: NetworkRun, count: int, last: AgentResult) -> None:
    """Count turns of agents that have ended, with the result of the last of them."""
    run.call_count += count
    run.last_result = last


def note_routing(run: NetworkRun, result: AgentResult) -> None:
    """Keep the reply of a routing agent."""
    run.routing_results.append(result)


def reach_limit(run: NetworkRun, reason: str, result: AgentResult | None = None) -> None:
    """Note why a routing agent did not choose, and the result that ends the run, if any."""
    run.limit_reached = reason
    if result is not None:
        run.last_result = result


def stop_at(run: NetworkRun, agent: str) -> None:
    """Note the name of the agent at which the run stops."""
    run.stopped_at = agent


def give_output(run: NetworkRun, output: object) -> None:
    """Give the network's own output."""
    run.own_output = output


def end_run(
    run: NetworkRun,
    stop_reason: str,
    *,
    last: AgentResult | None = None,
    pending: Sequence[Question] = (),
) -> None:
    """Note why the run ended.

    Args:
        run: The run.
        stop_reason: Why.
        last: The result of an earlier run that ended for the same message.
        pending: The questions that it waits for.
    """
    run.stop_reason, run.pending = stop_reason, list(pending)
    if last is not None:
        run.last_result = last
