"""RunContext: what everything inside one run shares, and how a run begins and ends."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypedDict, TypeVar, cast, get_origin, is_typeddict

import anyio

from agentkit_py._core.json import JsonValue
from agentkit_py._engine.agent_spec import AgentSpec, ModelChoice, NetworkSpec, Turn
from agentkit_py._engine.definition import definition_of, order_free_digest
from agentkit_py._engine.earlier_requests import EarlierRequests
from agentkit_py._engine.given_states import (
    kind_of,
    refuse_unknown,
    refuse_unwrapped,
    warn_of_no_store,
)
from agentkit_py._engine.handoffs import HandedOverInput
from agentkit_py._engine.instrumentation import Instrument, Monitor, StreamingConfig, logger
from agentkit_py._engine.knowledge import KnowledgeFilters, described
from agentkit_py._engine.lifecycle import AgentContext
from agentkit_py._engine.limits import NO_LIMITS, Meter, RunBudget, RunLimits
from agentkit_py._engine.network_run import AgentLike, NetworkRun
from agentkit_py._engine.option_checks import check_options
from agentkit_py._engine.prompt import HistoryMode, assemble
from agentkit_py._engine.shared_prefix import SharedPrefix, shared_prefix
from agentkit_py._engine.state_changes import StateChanges
from agentkit_py._engine.tool import Approver
from agentkit_py._engine.tool_sources import SourceBook
from agentkit_py._engine.transcript import Transcript, users_words
from agentkit_py.errors import ConfigurationError, HistoryError, StateError, ThreadNotFoundError
from agentkit_py.events.types import Observer
from agentkit_py.history.config import HistoryConfig
from agentkit_py.history.leases import OnBusy, ThreadLease
from agentkit_py.history.mail import inbox_of
from agentkit_py.history.stopping import OpenCall, OpenReply
from agentkit_py.history.thread import Thread
from agentkit_py.messages import Message, TextMessage, UserMessage, text_of_parts
from agentkit_py.models.base import Model, copy_model
from agentkit_py.models.fallback import FallbackModel
from agentkit_py.processors.apply import ChosenProcessors, as_processors, is_bounded
from agentkit_py.processors.base import Extent, HistoryProcessor, Level, Processors
from agentkit_py.processors.redaction import Redactor
from agentkit_py.results import USER, AgentResult
from agentkit_py.runtime.containing import contained
from agentkit_py.runtime.current import choose_runtime
from agentkit_py.runtime.port import Runtime
from agentkit_py.state import State, differs, user_of

D = TypeVar("D")


class RunOptions(TypedDict, total=False):
    """Options of every run; all may be left out."""

    state: State[Any] | Mapping[str, Any] | None
    """State to go on with, or a plain ``{data, results, messages, threadId}``."""

    thread_id: str | None
    """The stored thread to go on with."""

    model: ModelChoice
    """Overrides the agents' models: a model, its name, or a function of the context."""

    budget: RunBudget | None
    """The budget that the run uses: ``Budgets(store).of(user="u1")``."""

    max_iter: int | None
    """Another number of inferences than the agent's, or of agent turns than the network's."""

    router: Any
    """Another router than the network's."""

    limits: RunLimits | None
    """Limits of the run's time, inferences, tokens and cost."""

    runtime: Runtime | None
    """Another runtime than the ambient one."""

    ctx: object
    """The context of the Inngest function it runs in; the middleware finds it by itself."""

    require_durable: bool
    """Refuse to run outside of an Inngest function."""

    approver: Approver | None
    """Asks a person in this process where a tool needs approval; else the runtime does."""

    observer: Observer | None
    """Gets each event of the run, in order."""

    streaming: StreamingConfig | None
    """Streams the run to a front end."""

    processors: Processors | None
    """Processors for this run, in addition to those that are configured; they run after these, for
    each agent."""

    knowledge_filters: KnowledgeFilters | None
    """Filters of each search of knowledge in this run, beside the agents' own; runs that are nested
    in it have them, too."""

    on_busy: OnBusy | None
    """Behaviour where another run is at work on the thread; the lease's unless given."""

    tracing: Instrument | None
    """Measures the run, e.g. `agentkit_py.tracing.Tracing`; else whatever measures all runs."""


@dataclass(slots=True)
class RunInput:
    """The user's message with its id and time filled in."""

    message: UserMessage
    said: TextMessage | None = field(init=False)
    """The message as the model sees it and as it stands in a transcript; None if it is empty."""

    _prompt: tuple[Message, ...] = field(default=(), init=False)
    _parts: tuple[str, str] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Make the message that models see."""
        content = self.message.content
        if not isinstance(content, str):
            content = tuple(content)
        self.said = TextMessage("user", content, from_history=False) if content else None

    @classmethod
    def of(cls, given: str | UserMessage, runtime: Runtime, prefix: str) -> RunInput:
        """Return what was passed to ``run`` as a message with id and time.

        Raises:
            ConfigurationError: It is neither text nor a `UserMessage`.
        """
        key = f"{prefix}/user-message"
        if isinstance(given, str):
            now, new_id = runtime.now(key), runtime.new_id(key)
            return cls(UserMessage(given, new_id, client_timestamp=now))
        if not isinstance(given, UserMessage):
            raise ConfigurationError(
                "input must be a str or a UserMessage, or its JSON {content, id?, …}, got "
                f"{given!r:.80}"
            )
        message = copy(given)  # it may be of a class with a constructor of its own
        object.__setattr__(message, "id", given.id or runtime.new_id(key))
        when = given.client_timestamp or runtime.now(key)
        object.__setattr__(message, "client_timestamp", when)
        return cls(message)

    @property
    def text(self) -> str:
        """The message's text."""
        return text_of_parts(self.message.content)

    def user_turn(self, said: TextMessage) -> AgentResult:
        """Return the message as it stands in a transcript."""
        when = self.message.client_timestamp
        assert when is not None, "`of` has filled it in"
        return AgentResult(USER, (said,), (), when, id=self.message.id)

    def prompt(self, system: str, assistant: str) -> tuple[Message, ...]:
        """Return the prompt of a model call; the same messages while its texts are the same."""
        parts = (system, assistant)
        if parts != self._parts:
            addition = self.message.system_prompt
            said = None if self.said is None else users_words(self.said)
            self._prompt = assemble(system, said, assistant, addition=addition)
            self._parts = parts
        return self._prompt


@dataclass(frozen=True, slots=True)
class Nesting:
    """The place of a run among those that it is nested in; see `Agent.as_tool`."""

    depth: int = 0
    context_id: str = "main"
    """The name that runs nested in it know it by."""

    parent_context: str | None = None


@dataclass(slots=True, kw_only=True)
class RunContext:
    """One run of a network, or of an agent by itself."""

    runtime: Runtime
    input: RunInput
    transcript: Transcript
    thread: Thread
    history: HistoryConfig | None
    """The store of the run; forks know it too."""

    monitor: Monitor
    changes: StateChanges
    """Records the state changes of each callback that runs in a step."""

    meter: Meter
    mode: HistoryMode
    prefix: str
    """Unique prefix of this run's step ids."""

    budget: RunBudget | None = None
    approver: Approver | None = None
    network: NetworkRun | None = None
    network_spec: NetworkSpec | None = None
    masks: Sequence[Redactor] = ()
    """The redactors that have masked its input."""

    heard: list[RunInput]
    """Messages of the user that came while the run was at work."""

    judged: set[tuple[int, str | None]]
    """The input guardrails (by their ids in this process) that have judged its messages."""

    problems: Sequence[str] = ()
    """The problems of the answers in the turn that began last; see `OutputError.problems`."""

    nesting: Nesting = Nesting()
    resumes: bool = False
    """True if no state was given, so that the data of the thread's previous run may be restored."""

    memory: dict[str, Any]
    """Values that processors keep until the run ends."""

    sources: SourceBook = field(default_factory=SourceBook)
    """The tools that servers of the agents have."""

    outer_call: OpenCall | None = None
    """The call that this run is, where it is nested in another."""

    open_replies: dict[str, OpenReply]
    """Replies with calls that are not in the transcript yet, by id; forks share them."""

    chain: Sequence[HistoryProcessor] = ()
    """Processors that were given to `run`."""

    inherited: Sequence[tuple[Level, Sequence[HistoryProcessor]]] = ()
    """Processors of the run that this one is nested in, where it inherits them."""

    knowledge_filters: KnowledgeFilters | None = None
    """Filters of each search of knowledge, beside the agents' own."""

    handed: dict[str, HistoryProcessor]
    """The part of a handed-over conversation that agents see, by their names."""

    requests: EarlierRequests = field(default_factory=EarlierRequests)
    """What its model calls so far leave to the next."""

    shared: SharedPrefix | None = None
    """The beginning that the requests of the network's agents share; None: they share none."""

    _first_state: Mapping[str, JsonValue] | None = None
    """The state's data when the run began, where replays are compared."""

    _specs: dict[int, tuple[AgentLike, AgentSpec]]
    _chains: dict[int, list[tuple[Level, Sequence[HistoryProcessor]]]]

    @property
    def state(self) -> State[Any]:
        """The run's state."""
        return self.transcript.state

    @property
    def user_id(self) -> str | None:
        """The user that the state names; chunks carry it."""
        return user_of(self.state)

    def spec_of(self, agent: AgentLike) -> AgentSpec:
        """Return the agent as it was when this run first knew it."""
        known = self._specs.get(id(agent))
        if known is None:
            spec = agent.resolve()
            if self.knowledge_filters is not None:
                spec = spec.confined_to(self.knowledge_filters)
            known = self._specs[id(agent)] = (agent, spec)
        return known[1]

    def context_of(self, agent: AgentSpec) -> AgentContext:
        """Return what functions of the agent's configuration get."""
        return AgentContext(agent=agent.agent, network=self.network, state=self.state)

    def guarded(self, model: Model) -> Model:
        """Return the model, each call of which counts for the run's budget."""
        if self.budget is None:
            return model
        guard = self.budget.guard
        if isinstance(model, FallbackModel):
            return model.map(lambda one: copy_model(one, guards=(*one.guards, guard)))
        return copy_model(model, guards=(*model.guards, guard))

    def turn_of(
        self, agent: AgentSpec, model: Model, path: str, run_id: str, message_id: str
    ) -> Turn:
        """Return an agent's turn, with the prefix that it shares with others, if it does."""
        shared, plan = self.shared, agent.plan_output(model)
        if shared is None or plan is not None or not shared.takes_in(agent, model):
            return Turn(agent, model, path, run_id, message_id, plan)
        return Turn(agent, model, path, run_id, message_id, shares_prefix=True)

    def chains_of(self, agent: AgentSpec) -> list[tuple[Level, Sequence[HistoryProcessor]]]:
        """Return the processors that an agent's history goes through, level by level.

        Those that a function chooses are there after `choose_processors`.
        """
        known = self._chains.get(id(agent))
        if known is None:
            known = self._configured(agent)
            if not any(isinstance(one, ChosenProcessors) for _, chain in known for one in chain):
                self._chains[id(agent)] = known
        handed = self.handed.get(agent.name) if self.handed else None
        if handed is None or (isinstance(handed, HandedOverInput) and not known):
            return known  # without processors the agent sees the call itself
        return [("network", (handed,)), *known]

    def _configured(self, agent: AgentSpec) -> list[tuple[Level, Sequence[HistoryProcessor]]]:
        network = self.network_spec
        shared = () if network is None or network.history is None else network.history.chain
        own = () if agent.history is None else agent.history.chain
        levels: list[tuple[Level, Sequence[HistoryProcessor]]] = [
            # First of all, so that no summary or text that others make holds what is hidden.
            ("network", () if network is None else network.isolation),
            *self.inherited,
            ("history", shared),
            # A store that is wrapped for a user has the chain of the store itself.
            ("history", () if own is shared else own),
            ("network", () if network is None else network.chain),
            ("agent", agent.chain),
            ("run", self.chain),
        ]
        return [(level, chain) for level, chain in levels if chain]

    def has_own_chain(self, agent: AgentSpec) -> bool:
        """Return whether processors above its own level may be others than those of other agents.

        A function may choose others for each, and an agent in a network may have a history.
        """
        network, own = self.network_spec, () if agent.history is None else agent.history.chain
        shared = () if network is None or network.history is None else network.history.chain
        if own and own is not shared and network is not None:
            return True
        chains = self._configured(agent)
        return any(isinstance(one, ChosenProcessors) for _, chain in chains for one in chain)

    def are_known(self, agent: AgentSpec) -> bool:
        """Return whether no function has to be asked for an agent's processors any more."""
        return id(agent) in self._chains or (not self.chains_of(agent) or id(agent) in self._chains)

    async def choose_processors(self, agent: AgentSpec, *, dry: bool = False) -> None:
        """Ask functions for the processors that they choose for an agent, once in the run.

        Those of an agent whose processors `are_known` need not be asked for.

        Args:
            agent: The agent, whose turn begins.
            dry: It is a rehearsal, which decides nothing.

        Raises:
            ConfigurationError: A function gave something else than a list of processors.
        """
        context, chosen = self.context_of(agent), list[tuple[Level, list[HistoryProcessor]]]()
        for level, chain in self._configured(agent):
            found: list[HistoryProcessor] = []
            for one in chain:
                is_choice = isinstance(one, ChosenProcessors)
                found += await one.choose(context) if is_choice else (one,)
            chosen.append((level, found))
        self._chains[id(agent)] = [(level, tuple(chain)) for level, chain in chosen]
        if not dry:
            self.runtime.decide(
                f"{self.prefix}.{agent.name}.processors",
                lambda: [f"{level} {one!r}" for level, chain in chosen for one in chain],
                f"The processors of {agent.name!r} were chosen as",
            )

    async def begin(
        self, agents: Iterable[AgentLike], *, router: object = None, dry: bool = False
    ) -> None:
        """Load the thread, and keep and save what the user said.

        Args:
            agents: Those that may run: if none of them has a processor that bounds the history, all
                of it is loaded.
            router: What says which of them is next.
            dry: Save and create nothing.
        """
        specs = [self.spec_of(agent) for agent in agents]
        self._check_filters(specs)
        if self.network_spec is not None:
            chains = [(spec, self.chains_of(spec)) for spec in specs]
            self.shared = shared_prefix(chains, self.network_spec, self.mode)
        self.runtime.define(
            self.prefix,
            lambda: self._begun_as(
                definition_of(specs, self.network_spec, router, self.thread.config)
            ),
        )
        if self.thread.keeps_state and not dry:
            self.state.dump()
        if self.thread.config is not None:
            self.thread.load_all = not any(is_bounded(self.chains_of(spec)) for spec in specs)
        try:
            await contained(partial(self._begin, dry=dry))
        except CancelledError as error:
            await self._release(error)
            raise
        except Exception as error:
            await self._release(error)
            self.raise_to_caller(error)
            raise

    def _begun_as(self, definition: dict[str, str]) -> dict[str, str]:
        """Return the definition; from here on changes of the state are compared."""
        self._first_state = self._plain_state()
        return definition

    def _plain_state(self) -> dict[str, JsonValue] | None:
        """Return the state as JSON; None: it is none, which a run says where it would have to wait.

        Raises:
            StateError: It is none, and the run is durable.
        """
        try:
            return self.state.dump()
        except StateError:
            if not self.runtime.pauses:
                raise
            return None

    def compare_state(self, path: str) -> None:
        """Compare with a replay what code outside of steps has made of the state.

        What is as the run began is left out: defaults may differ, and the code that makes them.
        """

        def changed() -> JsonValue:
            first, now = self._first_state, self._plain_state()
            if first is None or now is None:
                return None
            found = [
                [key, value]
                for key, value in now.items()
                if key not in first or differs(value, first[key])
            ]
            return order_free_digest(found) if found else _UNCHANGED

        what = f"Before the model call {path!r} the run's state has changes with digest"
        self.runtime.decide(f"{path}.state", changed, what)

    def _check_filters(self, specs: Sequence[AgentSpec]) -> None:
        """Refuse filters that would filter nothing; keep them for a run that pauses."""
        searched = any(spec.tools.knowledge for spec in specs)
        if self.knowledge_filters is not None and not searched and not self.nesting.depth:
            raise ConfigurationError(
                "run(knowledge_filters=…): no agent of this run has knowledge=… to search"
            )
        if searched:
            self.runtime.decide(
                f"{self.prefix}.knowledge_filters",
                lambda: described(self.knowledge_filters),
                "knowledge_filters of run() are",
            )

    async def _release(self, error: Exception | CancelledError) -> None:
        """Give the thread back, as this run ends before it has begun."""
        if not self.runtime.is_final(error):
            return
        try:
            await self.thread.release_lease()
        except Exception:  # noqa: BLE001 - the run's own error is the one to raise
            logger.exception("A run that could not begin did not give its thread back")

    async def _begin(self, *, dry: bool) -> None:
        question, thread = self.input.message.id, self.thread
        self.transcript.begin()
        if self.budget is not None and not dry and not self.nesting.depth:
            step_id = f"{self.prefix}.budget"
            await self.runtime.effect(step_id, self.budget.begin, self.changes)
        if dry:
            await thread.look()
        elif thread.config is not None:
            keeps_state = self.mode != "typescript"
            await thread.open(self.input.message, resume=self.resumes, keeps_state=keeps_state)
        if thread.outcome is not None:
            return
        again = thread.lease is not None and any(e.id == question for e in self.state.transcript)
        said, user = self.input.said, None
        if self.mode == "chronological" and said is not None and not again:
            user = self.input.user_turn(said)
            self.state.append_result(user)
        if thread.config is not None and not dry:
            if said is None:
                await thread.look_for_staff()
            else:
                await thread.save_user_message(self.input.message, user)

    async def take_messages(self, step_id: str) -> list[UserMessage] | None:
        """Take what the user has said since the run began; None: the run is to end for it.

        A run that has given no result yet does not end: the message joins its own.
        """
        if self.nesting.depth or self.mode == "typescript":
            return []
        at_work = any(result.agent_name != USER for result in self.transcript.added)
        return await self.thread.take_messages(step_id, at_work=at_work)

    async def hear(self, message: UserMessage) -> RunInput:
        """Add what the user has said to transcript and thread, after all that came before."""
        given = RunInput(cast("UserMessage", _masked(message, self.masks)))
        await self.thread.save_results()
        self.heard.append(given)
        assert given.said is not None, "a message without content is not left to another run"
        entry = self.transcript.add(given.user_turn(given.said))
        await self.thread.save_user_message(given.message, entry, number=len(self.heard))
        return given

    def earlier_result(self) -> AgentResult:
        """Return the result of an earlier run for the same user message.

        Raises:
            HistoryError: The thread does not hold it any more.
        """
        outcome = self.thread.outcome
        ids = set(outcome.results) if outcome is not None else set[str]()
        found = [result for result in self.state.results if result.id in ids]
        if outcome is None or not found:
            raise HistoryError(
                f"The message {self.input.message.id!r} was answered before, but the answer is not "
                f"in thread {self.state.thread_id!r}."
            )
        self.transcript.added.extend(found)
        return replace(found[-1], stop_reason=outcome.stop_reason)

    def fork(self, monitor: Monitor) -> RunContext:
        """Return the context of an agent that runs in parallel to others.

        It has a state of its own, and saves nothing.
        """
        state = self.state.fork()
        changes = StateChanges(state, self.changes.network)
        thread = Thread(None, state, self.input.text, self.runtime, self.prefix, changes)
        thread.older = self.thread.older
        thread.outer_lease = self.thread.lease or self.thread.outer_lease
        thread.outer_thread = self.thread
        return replace(
            self,
            transcript=self.transcript.fork(state),
            changes=changes,
            thread=thread,
            monitor=monitor,
            meter=replace(self.meter),
            memory=dict(self.memory),
            requests=self.requests.fork(),
            judged=set(self.judged),
            sources=self.sources.copy(),
        )

    def open_reply(self, result: AgentResult) -> OpenReply | None:
        """Note that the calls of a reply are about to be carried out; None: nobody is told."""
        if result.id is None or (self.history is None and self.outer_call is None):
            return None
        opened = self.open_replies[result.id] = OpenReply(result)
        return opened

    def keep(self, result: AgentResult) -> AgentResult:
        """Append a result to the transcript; it is saved later."""
        added = self.transcript.add(result)
        self.thread.track(added)
        if self.thread.config is not None and result.id is not None:
            self.open_replies.pop(result.id, None)
        return added

    async def add(self, result: AgentResult) -> AgentResult:
        """Append a result to the transcript, and to the thread if its store wants it now."""
        added = self.keep(result)
        if self.thread.config is not None:
            await self.thread.result_done()
        return added

    @property
    def not_loaded(self) -> Extent:
        """The size of the part of the thread that is not loaded."""
        older = self.thread.older
        return Extent() if older is None or older.extent is None else older.extent

    async def load_enough(self, is_enough: Callable[[Sequence[Message]], Awaitable[bool]]) -> None:
        """Load older entries of the thread until what is loaded is enough."""
        if not self.state.not_loaded:  # somebody has taken the newer entries out of the state
            self.thread.older, self.transcript.older = None, ()
        while (older := self.thread.older) is not None and (
            older.extent is None or not await is_enough(self.transcript.history())
        ):
            if self.thread.config is not None:
                await self.thread.load_older()
            else:  # a fork, whose state is to hold what it began with, and its own results
                entries, self.thread.older = await older.load()
                past = [entry.on_side(past=True) for entry in entries]
                self.transcript.older = (*past, *self.transcript.older)

    def raise_to_caller(self, error: Exception) -> None:
        """Raise ``error`` as the run's caller must get it, if that is another one."""
        if self.nesting.depth:
            return  # the run it is nested in goes on
        raised = self.runtime.to_caller_error(error)
        if raised is not error:
            raise raised from error

    async def finalize(self, error: Exception | CancelledError) -> None:
        """Save what was completed before ``error``, once nobody will try the run again."""
        if not self.runtime.is_final(error):
            return
        thread_id = self.state.thread_id
        if isinstance(error, ThreadNotFoundError) and error.thread_id == thread_id:
            said = "Thread %r was deleted while a run was at work on it: the run's results are gone"
            logger.warning(said, thread_id)
            return
        if self.thread.config is not None:
            for reply in list(self.open_replies.values()):
                self.keep(reply.so_far())
        if isinstance(error, CancelledError):
            # Who cancels a scope cancels everything in it, also what is awaited from now on.
            with anyio.CancelScope(shield=True):
                await self._save_ended("stopped", lost=True)
            return
        # A step here would be done with the first attempt of the next request, so that an
        # error that is not remembered would be tried again.
        await self._save_ended("failed", lost=not self.runtime.repeats(error))

    async def _save_ended(self, status: str, *, lost: bool) -> None:
        """Save what a failed run has, and give its thread back; see `Thread.save_results`."""
        save = partial(self.thread.save_results, lost=lost)
        for work in (save, partial(self.thread.end, status, lost=lost)):
            try:
                await contained(work)
            except Exception:  # noqa: BLE001 - the run's own error is the one to raise
                logger.exception("The completed results of a failed run could not be saved")


_UNCHANGED = order_free_digest([])


def begin_run(  # noqa: PLR0913 - by name
    name: str,
    input: str | UserMessage,  # noqa: A002 - TypeScript's name
    options: RunOptions,
    *,
    history: HistoryConfig | None,
    mode: HistoryMode,
    default_state: State[Any] | None = None,
    state_type: type[Any] | None = None,
    tokens: bool = False,
    masks: Sequence[Redactor] = (),
    nested_in: RunContext | None = None,
) -> RunContext:
    """Return the context of a run of the agent or network ``name``.

    Raises:
        ConfigurationError: An option is not known, or input or state cannot be used.
    """
    if options:
        check_options(dict(options))
    unknown = sorted(options.keys() - RunOptions.__optional_keys__) if options else []
    if unknown:
        known = ", ".join(sorted(RunOptions.__optional_keys__))
        raise ConfigurationError(f"run() has no option {unknown[0]!r}; it has {known}")
    lease = _lease_of(history, options.get("on_busy"))
    runtime = choose_runtime(
        options.get("runtime"),
        context=options.get("ctx"),
        require_durable=options.get("require_durable", False),
    )
    prefix, given_state = runtime.claim(name), options.get("state")
    given = RunInput.of(_masked(input, masks), runtime, prefix)
    if state_type is None and default_state is not None and isinstance(given_state, Mapping):
        state_type = kind_of(default_state)
    if default_state is None and state_type is not None:
        default_state = new_state(name, state_type, given_state)
    if state_type is not None and isinstance(given_state, Mapping) and mode == "chronological":
        refuse_unwrapped(name, state_type, given_state)
    state = state_of(given_state, default_state, options.get("thread_id"))
    if state_type is not None:
        typed_state(name, state, state_type)
    if history is None and nested_in is None and given_state is None and state.thread_id:
        warn_of_no_store(name, state)
    changes = StateChanges(state)
    monitor = (
        Monitor.of_run(
            runtime,
            options.get("observer"),
            options.get("streaming"),
            options.get("tracing"),
            tokens=tokens,
        )
        if nested_in is None
        else nested_in.monitor.nested()
    )
    return RunContext(
        runtime=runtime,
        input=given,
        transcript=Transcript(state, given.message.id),
        thread=Thread(history, state, given.text, runtime, prefix, changes, lease),
        history=history,
        monitor=monitor,
        changes=changes,
        meter=Meter(
            options.get("limits") or NO_LIMITS,
            runtime.now(f"{prefix}/start"),
            partial(getattr, runtime, "steps_taken"),
        ),
        mode=mode,
        prefix=prefix,
        chain=as_processors(options.get("processors"), "run()"),
        knowledge_filters=_filters(options, nested_in),
        budget=options.get("budget") or (nested_in.budget if nested_in else None),
        approver=options.get("approver"),
        resumes=options.get("state") is None or state.goes_on_with is not None,
        masks=masks,
        heard=[],
        judged=set(),
        memory={},
        open_replies={},
        handed={},
        _specs={},
        _chains={},
    )


def _lease_of(history: HistoryConfig | None, on_busy: OnBusy | None) -> ThreadLease | None:
    """Return how a run shares its thread.

    Raises:
        ConfigurationError: The store cannot do that.
    """
    lease = None if history is None else history.lease
    if on_busy is not None:
        if lease is None:
            raise ConfigurationError(
                f"run(on_busy={on_busy!r:.80}) needs history=… with a lease, such as "
                'SqliteHistory("threads.db", lease=ThreadLease(steering=True))'
            )
        lease = replace(lease, on_busy=on_busy)
    if lease is not None and lease.steering:
        inbox_of(history)
    return lease


def _filters(options: RunOptions, nested_in: RunContext | None) -> KnowledgeFilters | None:
    """Return the knowledge filters of a run; a nested one has those of the run around it."""
    return options.get("knowledge_filters") if nested_in is None else nested_in.knowledge_filters


def _masked(given: str | UserMessage, masks: Sequence[Redactor]) -> str | UserMessage:
    """Return the user's message masked, before it is stored or sent."""
    for redactor in masks:
        if isinstance(given, str):
            given = redactor.text(given)
        elif isinstance(given, UserMessage):
            given = redactor.user_message(given)
    return given


def new_state(name: str, state_type: type[Any], given: object) -> State[Any] | None:
    """Return the state with which runs of an agent or network begin that are given none.

    Raises:
        ConfigurationError: The type cannot be made without arguments, and no state was given.
    """
    if given is not None:
        return None
    try:
        return State(state_type())
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"run() of {name!r} needs state=State({state_type.__name__}(…)), since "
            f"{state_type.__name__}() alone does not work: {error}"
        ) from error


def typed_state(name: str, state: State[Any], state_type: type[Any]) -> None:
    """Make the state's data one of ``state_type``: a dict, as clients send it, is validated.

    Raises:
        ConfigurationError: It is of another type, or does not fit.
    """
    data: object = state.data
    wanted = get_origin(state_type) or state_type
    # A TypedDict has no instances but dicts.
    if is_typeddict(wanted) or isinstance(data, wanted):
        return
    if isinstance(data, dict):
        from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - slow to load

        refuse_unknown(name, wanted, cast("dict[str, Any]", data))
        try:
            state.data = TypeAdapter(wanted).validate_python(data)
        except ValidationError as error:
            raise ConfigurationError(
                f"run() of {name!r}: its state does not fit {wanted.__name__}: {error}"
            ) from error
        return
    raise ConfigurationError(
        f"run() of {name!r}: its state's data must be a {wanted.__name__} (state_type), "
        f"got {data!r:.80}"
    )


def state_of(
    given: State[D] | Mapping[str, Any] | None, default: State[D] | None, thread_id: str | None
) -> State[D]:
    """Return the state of a run: the one given, else a copy of the default, else a new one.

    Raises:
        ConfigurationError: ``given`` is no state, or has another thread than ``thread_id``.
    """
    if given is None:
        state = default.clone() if default is not None else cast("State[D]", State())
    elif isinstance(given, Mapping):
        state = cast("State[D]", State.from_dict(given))
    else:
        state = given
    if not isinstance(state, State):
        raise ConfigurationError(f"state must be a State or a dict, got {given!r:.80}")
    if thread_id is not None:
        if state.thread_id not in (None, thread_id):
            raise ConfigurationError(
                f"thread_id={thread_id!r} was given with a state of thread {state.thread_id!r}"
            )
        state.thread_id = thread_id
    return state
