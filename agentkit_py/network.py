"""Networks: agents that share a state, and a router that says who is next."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Generic, Literal, TypeAlias, Unpack, get_args

from agentkit_py._core.spellings import options_spelled_here, spelled_here
from agentkit_py._core.untrusted import get_logger
from agentkit_py._engine.agent_loop import builder_without_turn
from agentkit_py._engine.agent_spec import ModelChoice, NetworkSpec, PrefixMode, TurnOptions
from agentkit_py._engine.driver import RunPlan
from agentkit_py._engine.model_input import ModelInputBuilder
from agentkit_py._engine.nested_runs import AsToolOptions, Nested, NestedCall, names_of
from agentkit_py._engine.network_loop import NetworkLoop, RouterContext
from agentkit_py._engine.option_checks import (
    expect,
    expect_callback,
    expect_count,
    expect_history,
    expect_list,
    expect_model,
    expect_one_of,
    expect_text,
    expect_type,
    wrong,
)
from agentkit_py._engine.prompt import HistoryMode
from agentkit_py._engine.run_context import RunSetup
from agentkit_py._engine.run_options import RunOptions, typed_state
from agentkit_py._engine.tool_limits import check_filters, check_tool_limits
from agentkit_py._engine.tool_sources import ToolSource
from agentkit_py.agent import Agent, takes_arguments_of
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.approvals import Decision
from agentkit_py.history.config import HistoryConfig
from agentkit_py.history.questions import Question
from agentkit_py.lifecycle.guardrails import (
    Guardrail,
    GuardrailSpec,
    InputGuardrail,
    OutputGuardrail,
    input_masks,
)
from agentkit_py.lifecycle.network_run import NetworkRun, RunOutputT
from agentkit_py.messages import UserMessage
from agentkit_py.output.types import is_of, is_type, type_name
from agentkit_py.processors.apply import as_processors, steps_of
from agentkit_py.processors.base import HistoryProcessor, Processors
from agentkit_py.processors.redaction import Redactor
from agentkit_py.processors.report import ContextReport
from agentkit_py.processors.tool_results import ToolCallFilter
from agentkit_py.results import USER, AgentResult
from agentkit_py.routing import (
    Router,
    agents_with,
    check_names,
    check_router,
    get_default_routing_agent,
    is_open,
    known_agents,
)
from agentkit_py.runs import Runnable, Settings, begin, is_same
from agentkit_py.state import State, StateT
from agentkit_py.tools.definition import Tool, ToolGuardrail
from agentkit_py.tools.values import InvalidArguments

__all__ = [
    "DEFAULT_MAX_ITER",
    "Network",
    "NetworkRun",
    "create_network",
    "explain",
    "explain_thread",
    "index_thread",
]

DEFAULT_MAX_ITER = 50
"""The default maximum of agent turns per run; a run that is stopped by it is logged."""


logger: logging.Logger = get_logger("agentkit_py")


@lru_cache(maxsize=1000)
def _say_unused_store(network: str, agent: str) -> None:
    """Log once that an agent's store has no effect in a network."""
    logger.warning(
        "Agent %r has history=…, but in network %r its store is not used, only its processors are: "
        "threads are kept by the network's own history=…",
        *(agent, network),
    )


@options_spelled_here
@spelled_here
@dataclass(eq=False, kw_only=True)
class Network(Runnable[NetworkRun[StateT, RunOutputT]], Generic[StateT, RunOutputT]):
    """Agents that share a state, and a router that says who is next.

    A network is configuration: each `run` works on agents, state and stack of its own. What is
    assigned or appended to it counts from the next run on.
    """

    name: str
    agents: Sequence[Agent[StateT, Any]]
    description: str = ""
    default_model: ModelChoice = None
    """The model of agents that have none, and of the default routing agent."""

    router: Router[StateT] | None = None
    """A function, a routing agent, or None: the default routing agent."""

    max_iter: int | None = DEFAULT_MAX_ITER
    """The maximum number of agent turns in a run; 0 or None: no limit."""

    default_state: State[StateT] | None = None
    """Copied for each run that is given no state."""

    state_type: type[StateT] | None = None
    """The type of the state's data; a run that is given no state begins with ``state_type()``."""

    output: (
        Agent[StateT, RunOutputT]
        | Callable[[RouterContext[StateT]], RunOutputT | Awaitable[RunOutputT]]
        | None
    ) = None
    """The output of a run once the router is done: an agent that takes the last turn and gives its
    output, or a function of the context that routers get (``context.state``, ``context.network`` is
    the run); None: the output of the agent that was the last."""

    history: HistoryConfig | None = None
    """Where threads are kept, e.g. ``SqliteHistory("support.db")``."""

    processors: Processors = ()
    """Processors of the history sent to any agent's model, or a function of the run's context that
    gives them; they run before the agents' own."""

    isolation: Literal["own_tools"] | None = None
    """``"own_tools"``: each agent sees the words of all and calls of its own tools only, as with
    ``ToolCallFilter(include="own")`` before all other processors of the network."""

    history_mode: HistoryMode = "chronological"
    """The order of prompt and history; ``"typescript"``: as in the TypeScript package."""

    output_type: type[RunOutputT] | Sequence[type[RunOutputT]] | None = None
    """The type of that output. The last agent's answer is checked against it; a dict from the
    function is validated as it. A list allows several types:
    ``Network[Desk, Closed | str](…, output_type=[Closed, str])`` is a support network whose agents
    talk until an agent closes the case."""

    input_guardrails: Sequence[InputGuardrail[StateT] | Guardrail[Any] | Redactor] = ()
    """Checks of the user's message, once in a run, before any model is asked (or in parallel to
    the first call: `Guardrail`). A `Redactor` masks the message before it is stored or sent."""

    output_guardrails: Sequence[OutputGuardrail[StateT] | Guardrail[Any] | Redactor] = ()
    """Checks of each agent's output, and of each text of agents without ``output_type``, before
    it is shown; replies are then not streamed piece by piece."""

    tool_input_guardrails: Sequence[ToolGuardrail[StateT] | Guardrail[Any]] = ()
    """Checks of the calls of all tools, before a person is asked and anything is done."""

    tool_output_guardrails: Sequence[ToolGuardrail[StateT] | Guardrail[Any] | Redactor] = ()
    """Checks of the results of all tools, before they are shown."""

    prefix: PrefixMode = "auto"
    """``"shared"``: the requests of all agents begin alike, with the tools of all and each agent's
    instructions where its turn begins, so that providers' caches and signed reasoning hold from
    agent to agent. Agents that processors hide something from, or whose prompt or tools are not
    fixed, keep a beginning of their own, as all do with ``"own"``. ``"auto"``: shared where all
    agents have the same model, which signs its reasoning, and nothing is hidden from any."""

    _opened: list[AsyncExitStack] = field(init=False, repr=False)
    _planned: tuple[list[object], RunSetup] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Validate the options."""
        self._opened, self._planned = [], None
        self._resolve(self.router)
        check_router(self.name, self.router)
        for agent in self.agents:
            store = agent.history
            if store not in (None, self.history) and (store.get or store.append_results):
                _say_unused_store(self.name, agent.name)

    @property
    def chain(self) -> tuple[HistoryProcessor, ...]:
        """Its processors, that of its isolation first, functions among them made processors."""
        given: object = self.processors
        if given == ():
            return self._isolating
        return (*self._isolating, *as_processors(self.processors, f"Network {self.name!r}"))

    @property
    def _isolating(self) -> tuple[HistoryProcessor, ...]:
        return () if self.isolation is None else (ToolCallFilter(include="own"),)

    def _resolve(self, router: object) -> NetworkSpec:
        """Return the network as it is now, ready to run with a router.

        Raises:
            ConfigurationError: It cannot run like this.
        """
        where = f"Network {self.name!r}"
        _SETTINGS.check_names(self, where)
        expect_text("A network", "name", self.name, empty=False)
        expect_text(where, "description", self.description)
        expect_type(where, "state_type", self.state_type)
        expect_list(where, "agents", self.agents)
        for agent in self.agents:
            expect(where, "each of agents", agent, Agent, "an Agent")
        expect_model(where, "default_model", self.default_model)
        expect(where, "default_state", self.default_state, State, "a State(…)")
        if self.default_state is not None and self.state_type is not None:
            typed_state(self.name, self.default_state.clone(), self.state_type)
        expect_history(where, self.history)
        if self.isolation not in (None, "own_tools"):
            raise ConfigurationError(
                f'{where}: isolation must be None or "own_tools", got {self.isolation!r:.80}'
            )
        expect_count(where, "max_iter", self.max_iter)
        self._check_prefix(where)
        names = [agent.name for agent in self.agents]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigurationError(f"{where} has two agents called {twice[0]!r}")
        if self.agents and self.history_mode != "typescript":  # without any, they are added later
            check_names(self.name, self.agents, router)
        output: object = self.output
        if output is not None and not isinstance(output, Agent):
            expect_callback(where, "output", output, "ctx")
        self._check_output_type(where, router)
        return NetworkSpec(
            name=self.name,
            model=None,
            default_model=self.default_model,
            max_iter=self.max_iter,
            history=self.history,
            isolation=self._isolating,
            chain=self.chain[len(self._isolating) :],
            output=self.output,
            output_type=self.output_type,
            prefix=self.prefix,
            guardrails=self._guardrails(),
        )

    def _check_output_type(self, where: str, router: object) -> None:
        """Refuse an output type that no agent of the network could give."""
        wanted: Any = self.output_type
        if not is_type(wanted):
            raise wrong(where, "output_type", "a type, or a list of types", wanted)
        if wanted is None or self.output is not None or is_open(router) or not self.agents:
            return
        known = known_agents(self.agents, router).values()
        if is_of(wanted, "text") or any(agent.output_type is not None for agent in known):
            return
        raise ConfigurationError(
            f"{where}: output_type is {type_name(wanted)}, and no agent has an output_type: all of "
            "them give texts. Give an agent output_type=…, or the network output=…"
        )

    def _guardrails(self) -> GuardrailSpec:
        return GuardrailSpec.of(
            f"Network {self.name!r}",
            {
                "input": self.input_guardrails,
                "output": self.output_guardrails,
                "tool_input": self.tool_input_guardrails,
                "tool_output": self.tool_output_guardrails,
            },
        )

    @property
    def input_masks(self) -> Sequence[Redactor]:
        """The redactors of its own and its agents' input guardrails, each once."""
        agents = [agent.resolve().guardrails for agent in self.agents]
        return input_masks([self._guardrails(), *agents])

    def _check_prefix(self, where: str) -> None:
        expect_one_of(where, "history_mode", self.history_mode, get_args(HistoryMode))
        expect_one_of(where, "prefix", self.prefix, get_args(PrefixMode))
        if self.prefix == "shared" and self.history_mode == "typescript":
            raise ConfigurationError(
                f"{where}: prefix='shared' needs requests that grow at the end, which "
                "history_mode='typescript' puts elsewhere; omit either of them"
            )

    def as_tool(self, **options: Unpack[AsToolOptions]) -> Tool:
        """Return this network as a tool of agents: each call is a run of its own.

        See `Agent.as_tool`.

        Raises:
            ConfigurationError: An option is not known, or a tool that is allowed is not there.
        """
        rights, names = options.get("allowed_tools"), None
        if rights != "own":
            tools = [name for agent in self.agents for name in agent.resolve().tools.own]
            names = names_of(self.name, rights, tools, list(self._servers()))

        def plan(call: NestedCall, history: HistoryConfig | None) -> RunPlan[NetworkRun]:
            agents = list(self.agents)
            if names is not None:
                agents = [
                    replace(a, allowed_tools={n for n in names if a.may_have(n)}) for a in agents
                ]
            network = replace(
                self,
                agents=agents,
                max_iter=call.max_iter,
                default_model=self.default_model or call.default_model,
                history=history,
            )
            return network.plan_run({"model": call.model})

        return Nested(
            name=self.name, description=self.description, plan=plan, history=self.history
        ).tool(options)

    def _servers(self) -> Iterable[ToolSource]:
        return {id(s): s for agent in self.agents for s in agent.mcp_servers}.values()

    def _agents(self) -> Iterable[Agent[Any, Any]]:
        return self.agents

    def plan_run(self, options: RunOptions) -> RunPlan[NetworkRun[StateT, RunOutputT]]:
        """Return how a run with these options begins, and its work.

        Raises:
            ConfigurationError: The router that was given is none.
        """
        given, limits = options.get("router"), options.get("limits")
        if given is not None:
            check_router(self.name, given)
        router = given or self.router or get_default_routing_agent()
        if router is get_default_routing_agent():
            router = _default_router(self)
        if limits is not None and self.agents and self.history_mode != "typescript":
            where, agents = f"Network {self.name!r}", agents_with(self.agents, router)
            check_tool_limits(where, limits, agents, is_open=is_open(router))
        model, max_iter = options.get("model"), options.get("max_iter")
        setup = self._setup(given or self.router)
        if model is not None or max_iter is not None:
            setup = setup.with_options(model, max_iter)
        return RunPlan(setup, partial(NetworkLoop, router=router))

    def _setup(self, router: object) -> RunSetup:
        """Return the settings of its runs with a router: the same until any of them changes.

        Raises:
            ConfigurationError: It cannot run like this.
        """
        agents = known_agents(self.agents, router).values()
        settings = [*_SETTINGS.of(self), router, *[agent.resolve() for agent in agents]]
        if self._planned is not None and is_same(self._planned[0], settings):
            return self._planned[1]
        chains = [self.processors, *(agent.processors for agent in agents)]
        check_filters(f"Network {self.name!r}", chains, agents)
        setup = RunSetup(
            name=self.name,
            history=self.history,
            mode=self.history_mode,
            masks=self.input_masks,
            default_state=self.default_state,
            state_type=self.state_type,
            network=(self, self._resolve(router)),
        )
        self._planned = settings, setup
        return setup


_SETTINGS = Settings(
    Network,
    *("agents", "processors", "output_type", "input_guardrails", "output_guardrails"),
    *("tool_input_guardrails", "tool_output_guardrails"),
)


Target: TypeAlias = Network[Any, Any] | Agent[Any, Any]
"""A network or an agent: whatever is served, tried, measured or explained."""


def on_history(target: Target, history: HistoryConfig) -> Target:
    """Return a copy of an agent or network on another history, with nothing else changed."""
    made = copy(target)
    made.history = history
    return made


def _default_router(network: Network[Any, Any]) -> Agent[Any, Any]:
    """Return the default routing agent; it sees no calls where any agent's view is filtered."""
    agent = get_default_routing_agent()
    steps = steps_of([("agent", one.chain) for one in network.agents])
    if not any(processor.hides for _, processor in steps):
        return agent
    return replace(agent, processors=[ToolCallFilter(include="own")])


async def explain(
    target: Target,
    agent: str | None = None,
    *,
    thread_id: str | None = None,
    input: str | UserMessage = "",  # noqa: A002 - as in run()
    state: State[Any] | Mapping[str, Any] | None = None,
    model: ModelChoice = None,
) -> ContextReport:
    """Return an agent's model input as of now, level by level.

    The thread is loaded, and nothing saved. Processors, `on_start` and functions (system prompts,
    models, rights) run as they would; processors that would call a model or an embedder only say
    so in the report.

    Args:
        target: The agent, or the network it is in.
        agent: Which agent of the network.
        thread_id: The stored thread.
        input: What the user would say.
        state: The state to continue with; it is not changed.
        model: Overrides the agent's.

    Raises:
        ConfigurationError: The agent does not exist.
        MissingModelError: The agent has no model, whose name and window matter here.
        ThreadNotFoundError: The thread does not exist.
    """
    own = state.clone() if isinstance(state, State) else state
    options: RunOptions = {"state": own, "thread_id": thread_id, "model": model}
    builder = await _input_builder(target, _chosen(target, agent), input, options)
    return (await builder.build()).report


async def explain_thread(
    target: Target,
    thread_id: str,
    *,
    model: ModelChoice = None,
    limit: int | None = None,
    before: int | None = None,
) -> list[AgentResult]:
    """Return a stored thread's results, each with a report of its call's input as of now.

    For each result the thread is taken as it was before it. Processors and functions are those of
    today and see a state with the thread's messages and default data, and no model is called: runs
    of this process have the requests really sent in their own results. A `ContextMatrix` shows
    both.

    Args:
        target: The agent or network that the thread is with.
        thread_id: The stored thread.
        model: Overrides the agents'.
        limit: The most results to explain, of the newest; None: all.
        before: Leaves out entries at this position of the thread and after it; None: none.

    Returns:
        The thread's entries. ``context`` is None on user turns, on messages of staff, on results
        that ``limit`` leaves out, and on results of agents that the target does not have, which are
        logged.

    Raises:
        ConfigurationError: The target has no history, or ``limit`` or ``before`` is not a count.
        MissingModelError: An agent has no model, whose name and window matter here.
        ThreadNotFoundError: The thread does not exist.
    """
    if target.history is None:
        raise ConfigurationError(
            f"{target.name!r} has no history, so it has no thread {thread_id!r}; pass history=…"
        )
    for name, number in (("limit", limit), ("before", before)):
        if number is not None:
            expect_count("explain_thread", name, number)
    entries = (await _stored(target, thread_id))[:before]
    agents = {a.name: a for a in (target.agents if isinstance(target, Network) else [target])}
    unknown = {e.agent_name for e in entries if e.staff is None} - {USER, *agents}
    if unknown:
        logger.warning(
            "Thread %r has results of %s, which %r does not have: they are not explained",
            *(thread_id, ", ".join(map(repr, sorted(unknown))), target.name),
        )
    explained = list(entries)
    calls = [n for n, e in enumerate(entries) if e.by_agent and e.agent_name in agents]
    for place in calls if limit is None else calls[max(0, len(calls) - limit) :]:
        agent = agents[entries[place].agent_name]
        report = await _report_at(target, agent, entries[:place], (thread_id, model))
        explained[place] = replace(entries[place], context=report)
    return explained


async def _stored(target: Target, thread_id: str) -> Sequence[AgentResult]:
    """Return all entries of a thread."""
    body = begin(target, "", {"thread_id": thread_id})
    await body.context.begin(body.agents, dry=True)
    pages = body.context.thread.pages
    while pages.older is not None:
        await pages.load_older()
    return list(body.context.state.transcript)


async def _report_at(
    target: Target,
    agent: Agent[Any, Any],
    before: Sequence[AgentResult],
    options: tuple[str, ModelChoice],
) -> ContextReport:
    """Return an agent's model input after ``before``, which ends with its run's results."""
    thread_id, model = options
    questions = (i for i in reversed(range(len(before))) if before[i].agent_name == USER)
    place = next(questions, None)
    said: str | UserMessage = ""
    past = before
    if place is not None:
        asked, past = before[place], before[:place]
        content = [m.content for m in asked.output if m.type == "text"]
        text = content[0] if content else ""
        said = UserMessage(text, asked.id, client_timestamp=asked.created_at)
    # An empty state would be filled with the whole thread.
    state = State[Any](results=past, thread_id=thread_id if past else None)
    builder = await _input_builder(target, agent, said, {"state": state, "model": model})
    for entry in before[len(past) + 1 :] if place is not None else ():
        builder.run.transcript.add(entry)
    return (await builder.build()).report


async def index_thread(target: Target, thread_id: str) -> None:
    """Create the thread data of all processors of an agent, or of a network's agents.

    `Recall` embeds older turns and `Summarize` summarises them during a run, a part at a time. This
    does it at once, for threads that were imported or that a processor is new to. No message is
    added and no answer is asked for.

    Args:
        target: The agent or network that the thread is with.
        thread_id: The stored thread.

    Raises:
        MissingModelError: An agent has no model, whose name and window matter here.
        ProcessorError: A model, an embedder or the store failed; what was made before is kept.
        ThreadNotFoundError: The thread does not exist.
    """
    for agent in target.agents if isinstance(target, Network) else [target]:
        builder = await _input_builder(target, agent, "", {"thread_id": thread_id})
        await replace(builder, path="index", dry=False, catching_up=True).build()


async def _input_builder(
    target: Target,
    chosen: Agent[Any, Any],
    said: str | UserMessage,
    options: RunOptions,
) -> ModelInputBuilder:
    """Return the builder of an agent's next input, with its thread loaded and nothing saved."""
    body = begin(target, said, options)
    context = body.context
    await context.begin(body.agents, dry=True)
    default = target.default_model if isinstance(target, Network) else None
    turn = TurnOptions("explain", options.get("model"), default)
    return await builder_without_turn(context, context.choices.spec_of(chosen), turn)


def _chosen(target: Target, name: str | None) -> Agent[Any, Any]:
    if isinstance(target, Agent):
        if name not in (None, target.name):
            raise ConfigurationError(f"The agent is {target.name!r}, not {name!r}")
        return target
    agents = {agent.name: agent for agent in target.agents}
    names = ", ".join(agents)
    if name is None and len(agents) != 1:
        raise ConfigurationError(f"Which agent? Network {target.name!r} has {names}")
    found = next(iter(agents.values())) if name is None else agents.get(name)
    if found is None:
        raise ConfigurationError(f"Network {target.name!r} has no agent {name!r}, but {names}")
    return found


def problem_with_arguments(
    targets: Iterable[Target], question: Question, decisions: Mapping[int, Decision]
) -> str | None:
    """Return why a tool would refuse the arguments that a person set for a call.

    Tools that only a run knows, e.g. those of MCP servers, judge it themselves.
    """
    agents = [one for t in targets for one in (t.agents if isinstance(t, Network) else [t])]
    for index, decision in decisions.items():
        if not decision.approved or decision.arguments is None:
            continue
        call = replace(question.calls[index], arguments=decision.arguments, malformed=None)
        problems: list[str] = []
        for tool in [a.tool_map.get(call.name) for a in agents if a.name == question.agent]:
            try:
                if tool is not None:
                    tool.validate(call)
            except InvalidArguments as error:
                problems.append(str(error))
            else:
                problems.clear()
                break
        if problems:
            return f"{index}.arguments: {problems[0]:.500}"
    return None


@takes_arguments_of(Network)
def create_network(*args: Any, **options: Any) -> Network:
    """Make a network as TypeScript's ``createNetwork`` does: ``prefix`` is "own" unless given."""
    options.setdefault("prefix", "own")
    return Network(*args, **options)
