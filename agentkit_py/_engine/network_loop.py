"""Network loop: router → stack → agents → router, until the router returns nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar, cast, overload

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.spellings import spelled_here
from agentkit_py._core.validation import meant
from agentkit_py._engine.agent_loop import run_agent
from agentkit_py._engine.agent_spec import TurnOptions
from agentkit_py._engine.answers import with_earlier_output
from agentkit_py._engine.concurrency import run_in_parallel
from agentkit_py._engine.driver import RunBody
from agentkit_py._engine.handoffs import (
    LOOP,
    HandedOverInput,
    HandedOverView,
    Handoff,
    earlier_handoffs,
    handed_over,
)
from agentkit_py._engine.instrumentation import Monitor, logger
from agentkit_py._engine.limits import LIMITS, MAX_ITER
from agentkit_py._engine.run_context import RunContext
from agentkit_py._engine.transcript import GUARDRAIL, INTERRUPTED
from agentkit_py.errors import MissingModelError, OutputError, RoutingError
from agentkit_py.events.types import AgentsRouted
from agentkit_py.history.questions import Question
from agentkit_py.history.runs import RunRecord
from agentkit_py.history.staff import TAKEN_OVER
from agentkit_py.lifecycle.hooks import ResultContext
from agentkit_py.lifecycle.network_run import (
    DONE,
    AgentLike,
    NetworkRun,
    Scheduled,
    end_run,
    give_output,
    note_routing,
    note_turns,
    reach_limit,
    stop_at,
)
from agentkit_py.messages import UserMessage
from agentkit_py.output.types import is_of, read_dict, wrong_output
from agentkit_py.results import NO_VALUE, AgentResult
from agentkit_py.state import State, StateT
from agentkit_py.tools.definition import Tool

T = TypeVar("T")

_ENDS = (GUARDRAIL, INTERRUPTED, TAKEN_OVER)
"""Stop reasons of a turn that are those of the run."""


@spelled_here
@dataclass(frozen=True, slots=True, kw_only=True)
class RouterContext(Generic[StateT]):
    """The argument of a router function: the run so far, and the scheduled agents."""

    input: str
    """The text of the user's message."""

    user_message: UserMessage
    network: NetworkRun[StateT]
    state: State[StateT]
    """The run's state."""

    stack: Sequence[Scheduled]
    """Names of the agents that are already scheduled."""

    call_count: int
    """The number of agent turns in this run so far."""

    last_result: AgentResult | None
    """The last agent's last result; before the first turn of this run, that of an earlier run."""

    @overload
    def output_of(self, agent: AgentLike[None]) -> str | None: ...
    @overload
    def output_of(self, agent: AgentLike[T]) -> T | None: ...
    def output_of(self, agent: AgentLike[Any]) -> Any:
        """Return an agent's last output in this run; None: it has given none."""
        return self.network.output_of(agent)


@dataclass(frozen=True, slots=True)
class Together:
    """Agents that run at the same time; see `together`."""

    agents: tuple[AgentLike | str, ...]


Routed: TypeAlias = AgentLike | str | Together | Sequence[AgentLike | str | Together] | None
"""Agents, or their names; None or empty: the run is done. A routing agent is asked."""

RouterFunction: TypeAlias = Callable[[RouterContext[StateT]], Routed | Awaitable[Routed]]


class NetworkLoop(RunBody[NetworkRun]):
    """Drives a run of a network."""

    kind = "network"

    def __init__(self, context: RunContext, router: Any) -> None:
        """Add the agents that are named as targets of handoffs.

        Args:
            context: The run's context, with the network's run.
            router: A function or a routing agent.
        """
        super().__init__(context)
        assert context.network is not None
        assert context.choices.network is not None
        self.network_run: NetworkRun = context.network
        self.router = router
        self._spec = context.choices.network
        self._routings = 0
        self._decisions = 0
        self._from_models: set[str] = set()
        """Names that routing agents gave, and that no agent has."""

        self._is_handed = False
        self._turns: Counter[str] = Counter()
        self._handoffs: dict[str, Mapping[str, tuple[Handoff[Any], Tool]]] = {}
        """The handoffs of the agents that have any."""

        self._add_targets()

    @property
    def agents(self) -> Collection[AgentLike]:
        """The agents of the run."""
        return self.network_run.agents.values()

    @property
    def facts(self) -> Mapping[str, Any]:
        """The fields that events of the run have."""
        run = self.network_run
        return {
            "run_id": run.run_id,
            "name": run.name,
            "scope": "network",
            "message_id": run.run_id,
        }

    @property
    def last(self) -> AgentResult | None:
        """The last result of the run."""
        return self.network_run.last_result

    def _add_targets(self) -> None:
        """Add the agents that are named as targets of handoffs.

        Raises:
            RoutingError: A named agent is not in the network.
        """
        waiting = list(self.network_run.agents.values())
        while waiting:
            spec = self.context.choices.spec_of(waiting.pop())
            if spec.handoffs:
                self._handoffs[spec.name] = spec.handoffs
            for handoff, _ in spec.handoffs.values():
                if handoff.target in self.network_run.agents:
                    continue
                if isinstance(handoff.agent, str):
                    hint = meant(handoff.target, list(self.network_run.agents))
                    problem = f"unknown agent {handoff.target!r} to hand over to: {hint}"
                    raise RoutingError(problem, network=self.network_run.name)
                self.network_run.add_agent(handoff.agent)
                waiting.append(handoff.agent)

    def _recall_handoffs(self) -> None:
        """Give agents the inputs of earlier runs' handoffs, as far back as the thread is loaded."""
        context = self.context
        found = earlier_handoffs(context.transcript.history(), self._handoffs)
        for target, handed in found.items():
            context.choices.handed_over[target] = HandedOverInput(handed, from_history=True)

    def end(self, outcome: str) -> str:
        """End the run."""
        end_run(self.network_run, outcome)
        return outcome

    def end_without_work(self, stop_reason: str, pending: Sequence[Question] = ()) -> None:
        """End the run without a turn of an agent."""
        end_run(self.network_run, stop_reason, pending=pending)

    def repeat(self, outcome: RunRecord) -> None:
        """Take over the outcome of an earlier run for the same user message."""
        stop_reason = outcome.stop_reason or DONE
        if not outcome.results:
            end_run(self.network_run, stop_reason)
            return
        earlier = self.context.earlier_result()
        if stop_reason == DONE:
            earlier = replace(earlier, stop_reason=None)  # the run's, and not the turn's
        agent = self.network_run.agents.get(earlier.agent_name)
        spec = None if agent is None else self.context.choices.spec_of(agent).output
        end_run(self.network_run, stop_reason, last=with_earlier_output(spec, earlier))

    def result(self) -> NetworkRun:
        """Return the run."""
        return self.network_run

    def answer(self) -> tuple[str, str | None]:
        """Return the text of the last result, and the limit that ended the run."""
        run = self.network_run
        return run.text, None if run.stop_reason == DONE else run.stop_reason

    async def work(self) -> str:
        """Run agents until the router is done; return why the run ends.

        Raises:
            RoutingError: No agent is enabled, or the router's result is not an agent.
        """
        run = self.network_run
        if self._handoffs:
            self._recall_handoffs()
        if not await run.available_agents():
            raise RoutingError("no agent is enabled", network=run.name)
        await self._ask_router()
        while run.stack:
            before = len(self.context.transcript.added)
            stop = await self._run_next(run.stack.pop(0))
            stop = await self._follow(before) or stop
            if stop is not None:
                return stop
            if not run.stack or not self._is_handed:
                await self._ask_router()
        if run.limit_reached is None:
            await self._give_output()
        cut = None if run.last_result is None else run.last_result.cut
        return run.limit_reached or (DONE if cut is None else cut.reason)

    async def _follow(self, before: int) -> str | None:
        """Schedule who was handed the conversation; return why the run ends, if it does.

        Args:
            before: The number of this run's results before the last turns.
        """
        context, run = self.context, self.network_run
        found: list[str] = []
        for result in context.transcript.added[before:]:
            agent = run.agents.get(result.agent_name)
            spec = None if agent is None else context.choices.spec_of(agent)
            taken = handed_over(result, dict(spec.handoffs)) if spec and spec.handoffs else None
            if taken is None:
                continue
            handoff, handed = taken
            run.handoffs.append(handed)
            same = [
                h for h in run.handoffs if (h.source, h.target) == (handed.source, handed.target)
            ]
            if len(same) > handoff.max_repeats:
                stop_at(run, handed.target)
                logger.warning(
                    "Network %r was stopped: %r handed over to %r for the %dth time",
                    *(run.name, handed.source, handed.target, len(same)),
                )
                return LOOP
            context.choices.handed_over.pop(handed.target, None)
            if handed.history != "whole":
                context.choices.handed_over[handed.target] = HandedOverView(handed)
            elif handed.input is not None:
                context.choices.handed_over[handed.target] = HandedOverInput(handed)
            found.append(handed.target)
        self._is_handed = bool(found)
        run.stack[:0] = found
        if found and context.monitor.is_active:
            event = AgentsRouted(run_id=run.run_id, name=run.name, agents=tuple(found))
            await context.monitor.emit(event)
        return None

    async def _give_output(self) -> None:
        """Have the network's own output given, or check that of the last agent.

        Raises:
            OutputError: There is none of the network's ``output_type``.
        """
        run, own, wanted = self.network_run, self._spec.output, self._spec.output_type
        if isinstance(own, AgentLike):
            name = run.add_agent(cast("Any", own))
            spec = self.context.choices.spec_of(run.agents[name])
            note_turns(run, 1, await run_agent(self.context, spec, self._options(name)))
        elif own is not None:
            with self.context.runtime.within(f"{self.context.prefix}.output"):
                give_output(run, await resolve(own(self._router_context())))
        if wanted is None:
            return
        author = run.last_result.agent_name if run.last_result is not None else None
        problems: Sequence[str] = ()
        if run.own_output is not NO_VALUE:
            author = None
            output, problems = read_dict(wanted, run.own_output)
            give_output(run, output)
        if problems or not is_of(wanted, run.output):
            problems = problems or [wrong_output(wanted, run.output, author)]
            raise OutputError(run.name, "type", result=run.last_result, problems=problems)

    async def _run_next(self, scheduled: Scheduled) -> str | None:
        """Run who is scheduled; return why the run ends, if it does."""
        run = self.network_run
        names = (scheduled,) if isinstance(scheduled, str) else scheduled
        for name in names:
            agent = run.agents.get(name)
            if agent is None:
                self._check_known(name, "a tool or hook scheduled")
            if agent is None or not await self.context.choices.is_enabled(agent, run):
                stop_at(run, name)
                return "unknown_agent" if agent is None else "disabled_agent"
        if len(names) == 1:
            spec = self.context.choices.spec_of(run.agents[names[0]])
            last = await run_agent(self.context, spec, self._options(names[0]))
        else:
            last = await self._run_together(names)
        note_turns(run, len(names), last)
        return last.stop_reason if last.stop_reason in _ENDS else self._limit_reached()

    def _options(self, name: str) -> TurnOptions:
        """Return the options of an agent's next turn, numbered among its own turns."""
        turn = self._turns[name]
        self._turns[name] += 1
        return TurnOptions(
            f"{self.context.prefix}.{name}.{turn}",
            model=self._spec.model,
            default_model=self._spec.default_model,
            parent_run_id=self.network_run.run_id,
        )

    async def _run_together(self, names: Sequence[str]) -> AgentResult:
        """Run agents in parallel, each on its own fork; join their results in the order given."""
        context, run = self.context, self.network_run
        # A fork's monitor is that of its branch, which is known when it runs.
        forks = [context.fork(context.monitor) for _ in names]
        options = [self._options(name) for name in names]
        known = {name for entry in run.state.transcript for name in _names_of(entry)}
        releases = self._releases([one.path for one in options])

        async def turn(index: int, monitor: Monitor) -> AgentResult:
            fork = forks[index].with_monitor(monitor)
            spec = fork.choices.spec_of(run.agents[names[index]])
            call = partial(run_agent, fork, spec, options[index])
            return await (fork.thread.run_branch(options[index].path, call) if releases else call())

        turns = [partial(turn, index) for index in range(len(names))]
        outcomes = await run_in_parallel(context.runtime, context.monitor, run, run.stack, turns)
        if releases:
            await context.thread.join_branches(
                f"{options[0].path}.together", [one.path for one in options]
            )
        context.spending.meter.add_forks([fork.spending.meter for fork in forks])
        errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        transcripts = [fork.state.transcript for fork in forks]
        for result in [e for entries in transcripts for e in entries if not known & _names_of(e)]:
            if errors:  # results of the agents that succeeded are kept; nothing is saved now
                context.keep(result)
            else:
                await context.add(result)
        if errors:
            raise errors[0]
        context.messages.join(fork.messages for fork in forks)
        run.state.merge([(n, fork.state) for n, fork in zip(names, forks, strict=True)])
        stopped = [one for one in outcomes if one.stop_reason == GUARDRAIL]
        return (stopped or outcomes)[-1]

    def _releases(self, paths: Sequence[str]) -> bool:
        """Return whether an agent that has waited and ended lets others have the thread.

        Runs that were recorded by an earlier version, without it, continue without it.
        """
        runtime, thread = self.context.runtime, self.context.thread
        if thread.lease is None and thread.outer_lease is None:
            return False
        key = f"{paths[0]}.releases"
        if runtime.recorded(key) is None and any(runtime.remembers(f"{one}.") for one in paths):
            return False
        runtime.decide(key, lambda: True, "Agents that have waited release the thread at their end")
        return True

    def _limit_reached(self) -> str | None:
        context, run = self.context, self.network_run
        key = f"{context.prefix}.{run.call_count}/limit"
        reached = context.spending.meter.reached(lambda: context.runtime.now(key))
        if reached is not None:
            return reached
        if self._spec.max_iter and run.call_count >= self._spec.max_iter:
            logger.warning(
                "Network %r was stopped after %d agent turns (max_iter); %d scheduled. Its router "
                "was not asked again: TypeScript asks it once more. Work for after the last "
                "turn belongs behind run(…), or allow another turn: max_iter=%d",
                run.name,
                run.call_count,
                len(run.stack),
                run.call_count + 1,
            )
            return MAX_ITER
        return None

    async def _ask_router(self) -> None:
        run, monitor = self.network_run, self.context.monitor
        scheduled = await self._route()
        self.context.runtime.decide(
            f"{self.context.prefix}.routed.{self._decisions}",
            lambda: [name if isinstance(name, str) else list(name) for name in scheduled],
            f"The router of {self._spec.name!r} chose",
        )
        self._decisions += 1
        run.stack.extend(scheduled)
        if monitor.is_active:
            names = [n for item in scheduled for n in ((item,) if isinstance(item, str) else item)]
            event = AgentsRouted(run_id=run.run_id, name=run.name, agents=tuple(names))
            await monitor.emit(event)

    async def _route(self) -> list[Scheduled]:
        """Return the names of the agents that are next; agents that are new join the network."""
        chosen: Any = self.router
        if not isinstance(chosen, AgentLike):
            chosen = await resolve(chosen(self._router_context()))
        if chosen is None:
            return []
        is_asked = isinstance(chosen, AgentLike) and chosen.is_routing
        if is_asked:
            chosen = await self._ask_routing_agent(cast("AgentLike", chosen))
        scheduled = [self._schedule(item) for item in self._as_list(cast("object", chosen))]
        for item in scheduled:
            names = (item,) if isinstance(item, str) else item
            unknown = [name for name in names if name not in self.network_run.agents]
            if is_asked:
                self._from_models.update(unknown)
            elif self.context.choices.mode != "typescript":
                for name in unknown:
                    self._check_known(name, "its router returned")
        return scheduled

    def _check_known(self, name: str, origin: str) -> None:
        """Refuse the name of an agent that is none of the run; log it where a model chose it.

        Raises:
            RoutingError: A router, a tool or a hook named it.
        """
        run = self.network_run
        hint = meant(name, list(run.agents))
        if self.context.choices.mode != "typescript" and name not in self._from_models:
            problem = f"{origin} {name!r}, which is not an agent of the network: {hint}"
            raise RoutingError(problem, network=run.name)
        what = "Network %r ends, since agent %r is unknown: %s"
        logger.warning(what, run.name, name, hint)

    def _router_context(self) -> RouterContext:
        run, given = self.network_run, self.context.messages.input
        last = run.last_result
        if last is None:
            last = next(reversed(run.state.results), None)
        return RouterContext(
            input=given.text,
            user_message=given.message,
            network=run,
            state=run.state,
            stack=tuple(run.stack),
            call_count=run.call_count,
            last_result=last,
        )

    async def _ask_routing_agent(self, agent: AgentLike) -> Sequence[str]:
        context, run = self.context, self.network_run
        spec = context.choices.spec_of(agent)
        options = TurnOptions(
            f"{context.prefix}.route.{self._routings}",
            model=self._spec.model,
            default_model=self._spec.default_model,
            parent_run_id=run.run_id,
            keep=False,
        )
        self._routings += 1
        if options.model is None and options.default_model is None and spec.model is None:
            raise MissingModelError(
                agent.name,
                f"Network {run.name!r} asks {agent.name!r} who is next, but has no model for "
                "it. Pass router=once(agent), handoffs(agent) or another of agentkit_py.routing; "
                "or default_model=… to the network, or model=… to run().",
            )
        result = await run_agent(context, spec, options)
        if result.stop_reason == GUARDRAIL:
            reach_limit(run, GUARDRAIL, result)
            return ()
        note_routing(run, result)
        if result.stop_reason in LIMITS and not result.output:
            reach_limit(
                run, result.stop_reason
            )  # the router was not asked, so it has not ended the run
            return ()
        hook = spec.lifecycle.on_route
        assert hook is not None
        seen = ResultContext(agent=agent, network=run, state=run.state, result=result)
        chosen = await resolve(hook(seen)) or ()
        if not chosen and result.cut is not None:
            reach_limit(run, result.cut.reason)  # nor has it here: its reply is not whole
        return chosen

    def _as_list(self, chosen: object) -> list[object]:
        if isinstance(chosen, str | Together | AgentLike):
            return [chosen]
        if isinstance(chosen, Sequence):
            return list(cast("Sequence[object]", chosen))
        raise RoutingError(
            f"its router returned {chosen!r:.80}; expected agents, names, a routing agent or None",
            network=self.network_run.name,
        )

    def _schedule(self, item: object) -> Scheduled:
        if isinstance(item, Together):
            return tuple(self._name_of(agent) for agent in item.agents)
        return self._name_of(item)

    def _name_of(self, item: Any) -> str:
        if isinstance(item, str):
            return item
        if not isinstance(item, AgentLike):
            problem = f"its router returned {item!r:.80} in a list"
            raise RoutingError(problem, network=self.network_run.name)
        if item.is_routing:
            raise RoutingError(
                f"its router returned the routing agent {item.name!r} in a list; return it alone",
                network=self.network_run.name,
            )
        return self.network_run.add_agent(cast("Any", item))


def _names_of(entry: AgentResult) -> set[int | str]:
    """Return the identity of an entry, also of a copy that is marked as past."""
    return {id(entry)} if entry.id is None else {id(entry), entry.id}
