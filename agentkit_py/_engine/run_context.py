"""RunContext: the shared data of a run, and how a run begins and ends."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import anyio

from agentkit_py._core.json import JsonValue
from agentkit_py._engine.agent_spec import AgentSpec, ModelChoice, NetworkSpec, Turn
from agentkit_py._engine.definition import definition_of, order_free_digest
from agentkit_py._engine.given_states import kind_of, refuse_unwrapped, warn_of_no_store
from agentkit_py._engine.instrumentation import Chains, Monitor, logger
from agentkit_py._engine.knowledge import described
from agentkit_py._engine.limits import NO_LIMITS, Meter, Spending
from agentkit_py._engine.prompt import HistoryMode
from agentkit_py._engine.run_choices import RunChoices
from agentkit_py._engine.run_memory import RunMemory
from agentkit_py._engine.run_messages import RunInput, RunMessages, masked
from agentkit_py._engine.run_options import (
    RunOptions,
    as_state,
    check_options,
    enter_thread,
    new_state,
    typed_state,
)
from agentkit_py._engine.state_changes import StateChanges
from agentkit_py._engine.transcript import Transcript
from agentkit_py.errors import ConfigurationError, HistoryError, StateError, ThreadNotFoundError
from agentkit_py.history.abilities import inbox_of
from agentkit_py.history.config import HistoryConfig
from agentkit_py.history.leases import OnBusy, ThreadLease
from agentkit_py.history.stopping import OpenCall, OpenReply
from agentkit_py.history.thread import Thread
from agentkit_py.lifecycle.hooks import AgentContext
from agentkit_py.lifecycle.network_run import AgentLike, NetworkLike, NetworkRun, RunReader
from agentkit_py.messages import Message, UserMessage
from agentkit_py.models.base import Model
from agentkit_py.processors.apply import as_processors
from agentkit_py.processors.base import Extent
from agentkit_py.processors.redaction import Redactor
from agentkit_py.results import USER, AgentResult
from agentkit_py.runtime.containing import contained
from agentkit_py.runtime.current import choose_runtime
from agentkit_py.runtime.port import Runtime
from agentkit_py.state import State, differs, user_of
from agentkit_py.tools.definition import Approver


@dataclass(frozen=True, slots=True)
class Nesting:
    """The place of a run among those that it is nested in; see `Agent.as_tool`."""

    depth: int = 0
    context_id: str = "main"
    """The name that runs nested in it know it by."""

    parent_context: str | None = None
    outer_call: OpenCall | None = None
    """The call that this run is, where it is nested in another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSetup:
    """The settings of an agent or network with which its runs begin."""

    name: str
    history: HistoryConfig | None = None
    mode: HistoryMode = "chronological"
    masks: Sequence[Redactor] = ()
    """The redactors that mask its input before it is stored or sent."""

    default_state: State[Any] | None = None
    state_type: type[Any] | None = None
    network: tuple[NetworkLike, NetworkSpec] | None = None
    """The network, and the same as it is in this run; None: an agent by itself."""

    def state(self, options: RunOptions) -> State[Any]:
        """Return the state of a run.

        Raises:
            ConfigurationError: The state that was given cannot be used.
        """
        given, thread_id = options.get("state"), options.get("thread_id")
        state_type = self.state_type
        if isinstance(given, Mapping):
            if state_type is None and self.default_state is not None:
                state_type = kind_of(self.default_state)
            if state_type is not None and self.mode == "chronological":
                refuse_unwrapped(self.name, state_type, given)
        state = self._new_state() if given is None else as_state(given)
        if thread_id is not None:
            enter_thread(state, thread_id)
        if state_type is not None:
            typed_state(self.name, state, state_type)
        if self.history is None and given is None and state.thread_id:
            warn_of_no_store(self.name, state)
        return state

    def with_options(self, model: ModelChoice, max_iter: int | None) -> RunSetup:
        """Return the settings of a network's run that is given a model, or a limit of turns."""
        assert self.network is not None
        network, spec = self.network
        most = spec.max_iter if max_iter is None else max_iter
        return replace(self, network=(network, replace(spec, model=model, max_iter=most)))

    def _new_state(self) -> State[Any]:
        if self.default_state is not None:
            return self.default_state.clone()
        return State() if self.state_type is None else new_state(self.name, self.state_type)


@dataclass(slots=True, kw_only=True)
class RunContext:
    """One run of a network, or of an agent by itself."""

    runtime: Runtime
    prefix: str
    """Unique prefix of this run's step ids."""

    messages: RunMessages
    transcript: Transcript
    thread: Thread
    history: HistoryConfig | None
    """The store of the run; forks know it too."""

    monitor: Monitor
    changes: StateChanges
    """Records the state changes of each callback that runs in a step."""

    choices: RunChoices
    spending: Spending
    memory: RunMemory
    network: NetworkRun | None
    approver: Approver | None
    nesting: Nesting
    resumes: bool
    """True if no state was given, so that the data of the thread's previous run may be restored."""

    @property
    def state(self) -> State[Any]:
        """The run's state."""
        return self.transcript.state

    @property
    def user_id(self) -> str | None:
        """The user that the state names; chunks carry it."""
        return user_of(self.state)

    def context_of(self, agent: AgentSpec) -> AgentContext:
        """Return the argument of the functions in the agent's configuration."""
        return AgentContext(agent=agent.agent, network=self.network, state=self.transcript.state)

    def turn_of(
        self, agent: AgentSpec, model: Model, path: str, run_id: str, message_id: str
    ) -> Turn:
        """Return an agent's turn, with the prefix that it shares with others, if it does."""
        shared, plan = self.choices.shared, agent.plan_output(model)
        if shared is None or plan is not None or not shared.takes_in(agent, model):
            return Turn(agent, model, path, run_id, message_id, plan)
        return Turn(agent, model, path, run_id, message_id, shares_prefix=True)

    async def choose_processors(self, agent: AgentSpec, *, dry: bool = False) -> None:
        """Ask functions for an agent's processors, and compare a replay; see `RunChoices.choose`.

        Args:
            agent: The agent, whose turn begins.
            dry: It is a rehearsal, which decides nothing.
        """
        chosen = await self.choices.choose(agent, self.context_of(agent))
        if not dry:
            self.runtime.decide(
                f"{self.prefix}.{agent.name}.processors",
                lambda: [f"{level} {one!r}" for level, chain in chosen for one in chain],
                f"The processors of {agent.name!r} were chosen as",
            )

    async def begin(
        self, agents: Iterable[AgentLike], *, router: object = None, dry: bool = False
    ) -> None:
        """Load the thread, and add and save the user's message.

        Args:
            agents: Those that may run: if none of them has a processor that bounds the history, all
                of it is loaded.
            router: The router; the definition of the run names it.
            dry: Save and create nothing.
        """
        choices, history = self.choices, self.thread.config
        specs = [choices.spec_of(agent) for agent in agents]
        self._check_filters(specs)
        choices.share_prefix(specs)
        self.runtime.define(
            self.prefix,
            lambda: self._begun_as(definition_of(specs, choices.network, router, history)),
        )
        if self.thread.keeps_state and not dry:
            self.state.dump()
        load_all = history is None or not choices.are_bounded(specs)
        try:
            await contained(partial(self._begin, load_all=load_all, dry=dry))
        except CancelledError as error:
            await self._release(error)
            raise
        except Exception as error:
            await self._release(error)
            self.raise_to_caller(error)
            raise

    def _begun_as(self, definition: dict[str, str]) -> dict[str, str]:
        """Return the definition; from here on changes of the state are compared."""
        self.memory.remember_state(self._plain_state())
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
        """Compare the state changes of code outside of steps with a replay.

        Values that the run began with are left out, since defaults and their code may differ.
        """

        def changed() -> JsonValue:
            first, now = self.memory.first_state, self._plain_state()
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
        filters, searched = self.choices.knowledge_filters, any(s.tools.knowledge for s in specs)
        if filters is not None and not searched and not self.nesting.depth:
            raise ConfigurationError(
                "run(knowledge_filters=…): no agent of this run has knowledge=… to search"
            )
        if searched:
            self.runtime.decide(
                f"{self.prefix}.knowledge_filters",
                lambda: described(filters),
                "knowledge_filters of run() are",
            )

    async def _release(self, error: Exception | CancelledError) -> None:
        """Give the thread back, as this run ends before it has begun."""
        if not self.runtime.is_final(error):
            return
        try:
            await self.thread.release_lease()
        except Exception:  # noqa: BLE001 - the run's own error is the one to raise
            logger.exception("Could not release the thread lease of a run that failed to start")

    async def _begin(self, *, load_all: bool, dry: bool) -> None:
        given, thread, budget = self.messages.input, self.thread, self.spending.budget
        state = self.transcript.state
        self.transcript.begin()
        if budget is not None and not dry and not self.nesting.depth:
            await self.runtime.effect(f"{self.prefix}.budget", budget.begin, self.changes)
        if dry:
            await thread.look(load_all=load_all)
        elif thread.config is not None:
            keeps_state = self.choices.mode != "typescript"
            await thread.open(
                given.message, resume=self.resumes, keeps_state=keeps_state, load_all=load_all
            )
        if thread.outcome is not None:
            return
        question = given.message.id
        again = thread.lease is not None and any(e.id == question for e in state.transcript)
        said, user = given.said, None
        if self.choices.mode == "chronological" and said is not None and not again:
            user = given.user_turn(said)
            state.append_result(user)
        if thread.config is not None and not dry:
            if said is None:
                await thread.look_for_staff()
            else:
                await thread.save_user_message(given.message, user)

    async def take_messages(self, step_id: str) -> list[UserMessage] | None:
        """Drain the inbox; None if a message interrupts the run.

        A run that has given no result yet does not end: the message joins its own.
        """
        if self.nesting.depth or self.choices.mode == "typescript":
            return []
        at_work = any(result.agent_name != USER for result in self.transcript.added)
        return await self.thread.take_messages(step_id, at_work=at_work)

    async def add_late(self, message: UserMessage) -> RunInput:
        """Add the user's new messages to transcript and thread, after all earlier entries."""
        await self.thread.save_results()
        given = self.messages.add_late(message)
        assert given.said is not None, "a message without content is not left to another run"
        entry = self.transcript.add(given.user_turn(given.said))
        number = len(self.messages.late)
        await self.thread.save_user_message(given.message, entry, number=number)
        return given

    def earlier_result(self) -> AgentResult:
        """Return the result of an earlier run for the same user message.

        Raises:
            HistoryError: The thread does not hold it any more.
        """
        outcome, message_id = self.thread.outcome, self.messages.input.message.id
        ids = set(outcome.results) if outcome is not None else set[str]()
        found = [result for result in self.state.results if result.id in ids]
        if outcome is None or not found:
            raise HistoryError(
                f"The message {message_id!r} was answered before, but the answer is not in thread "
                f"{self.state.thread_id!r}."
            )
        self.transcript.added.extend(found)
        return replace(found[-1], stop_reason=outcome.stop_reason)

    def nested(
        self,
        setup: RunSetup,
        task: str | UserMessage,
        state: State[Any],
        *,
        context_id: str | None = None,
        outer_call: OpenCall | None = None,
        inherited: Chains = (),
    ) -> RunContext:
        """Return the context of a nested run.

        Limits, budget, approver, and the thread that keeps questions are those of this run.

        Args:
            setup: The agent or network that runs.
            task: Its task.
            state: Its state, which has no thread.
            context_id: The name for runs nested in it; a new name by default.
            outer_call: The call that it is.
            inherited: Processors of this run that apply in it, too.
        """
        runtime, nesting = self.runtime, self.nesting
        prefix = runtime.claim(setup.name)
        given = RunInput.of(masked(task, setup.masks), runtime, prefix)
        if context_id is None:
            identity = runtime.new_id(f"{prefix}/context").replace("-", "")
            context_id = f"subagent-{identity[:16]}"
        return _context_of(
            setup,
            runtime,
            prefix,
            RunMessages(given, setup.masks),
            state,
            choices=RunChoices(
                mode=setup.mode,
                network=setup.network and setup.network[1],
                inherited=inherited,
                knowledge_filters=self.choices.knowledge_filters,
            ),
            monitor=self.monitor.nested(),
            spending=self.spending,
            approver=self.approver,
            lease=_lease_of(setup.history, None),
            nesting=Nesting(nesting.depth + 1, context_id, nesting.context_id, outer_call),
            outer=self.thread,
            resumes=state.goes_on_with is not None,
        )

    def fork(self, monitor: Monitor) -> RunContext:
        """Return the context of an agent that runs in parallel to others.

        It has a state of its own, and saves nothing.
        """
        state = self.state.fork()
        changes = StateChanges(state, self.changes.network)
        return replace(
            self,
            messages=self.messages.fork(),
            transcript=self.transcript.fork(state),
            thread=self.thread.fork(state, changes),
            monitor=monitor,
            changes=changes,
            choices=self.choices.fork(),
            spending=self.spending.fork(),
            memory=self.memory.fork(),
        )

    def with_monitor(self, monitor: Monitor) -> RunContext:
        """Return the same run, watched by another monitor."""
        return replace(self, monitor=monitor)

    def open_reply(self, result: AgentResult) -> OpenReply | None:
        """Note that the calls of a reply are about to run; None if the run has no store."""
        if result.id is None or (self.history is None and self.nesting.outer_call is None):
            return None
        opened = OpenReply(result)
        self.memory.open_replies[result.id] = opened
        return opened

    def keep(self, result: AgentResult) -> AgentResult:
        """Append a result to the transcript; it is saved later."""
        added = self.transcript.add(result)
        if self.thread.config is not None:
            self.thread.saves.track(added)
            self.memory.open_replies.pop(result.id or "", None)
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
        older = self.thread.pages.older
        return Extent() if older is None or older.extent is None else older.extent

    async def load_enough(self, is_enough: Callable[[Sequence[Message]], Awaitable[bool]]) -> None:
        """Load older entries of the thread until they are enough."""
        pages, transcript = self.thread.pages, self.transcript
        if not self.state.not_loaded:  # the newer entries were removed from the state
            pages.forget_older()
            transcript.forget_older()
        while (older := pages.older) is not None and (
            older.extent is None or not await is_enough(transcript.history())
        ):
            entries = await pages.load_older()
            if self.thread.config is None:  # a fork's state has its initial entries
                transcript.add_older(entries)

    def raise_to_caller(self, error: Exception) -> None:
        """Raise ``error`` as the run's caller must get it, if that is another error."""
        if self.nesting.depth:
            return  # the outer run continues
        raised = self.runtime.to_caller_error(error)
        if raised is not error:
            raise raised from error

    async def finalize(self, error: Exception | CancelledError) -> None:
        """Save the results completed before ``error``, once the run is not retried."""
        if not self.runtime.is_final(error):
            return
        thread_id = self.state.thread_id
        if isinstance(error, ThreadNotFoundError) and error.thread_id == thread_id:
            said = "Thread %r was deleted during a run: the run's results are lost"
            logger.warning(said, thread_id)
            return
        if self.thread.config is not None:
            for reply in list(self.memory.open_replies.values()):
                so_far = reply.so_far()
                if so_far is not None:
                    self.keep(so_far)
        if isinstance(error, CancelledError):
            # Cancelling a scope cancels everything in it, later awaits included.
            with anyio.CancelScope(shield=True):
                await self._save_ended("stopped", lost=True)
            return
        # A step here would be done with the first attempt of the next request, so that an
        # error that is not remembered would be tried again.
        await self._save_ended("failed", lost=not self.runtime.repeats(error))

    async def _save_ended(self, status: str, *, lost: bool) -> None:
        """Save the results of a failed run, and release its thread; see `Thread.save_results`."""
        save = partial(self.thread.save_results, lost=lost)
        for work in (save, partial(self.thread.end, status, lost=lost)):
            try:
                await contained(work)
            except Exception:  # noqa: BLE001 - the run's own error is the one to raise
                logger.exception("The completed results of a failed run could not be saved")


_UNCHANGED = order_free_digest([])


def begin_run(
    setup: RunSetup,
    input: str | UserMessage,  # noqa: A002 - TypeScript's name
    options: RunOptions,
    *,
    tokens: bool = False,
) -> RunContext:
    """Return the context of a run of an agent or network.

    Raises:
        ConfigurationError: An option is not known, or input or state cannot be used.
    """
    if options:
        check_options(options)
    lease = _lease_of(setup.history, options.get("on_busy"))
    runtime = choose_runtime(
        options.get("runtime"),
        context=options.get("ctx"),
        require_durable=options.get("require_durable", False),
    )
    prefix = runtime.claim(setup.name)
    given = RunInput.of(masked(input, setup.masks), runtime, prefix)
    state = setup.state(options)
    meter = Meter(
        options.get("limits") or NO_LIMITS,
        runtime.now(f"{prefix}/start"),
        partial(getattr, runtime, "steps_taken"),
    )
    processors = options.get("processors")
    return _context_of(
        setup,
        runtime,
        prefix,
        RunMessages(given, setup.masks),
        state,
        choices=RunChoices(
            mode=setup.mode,
            network=setup.network and setup.network[1],
            chain=() if processors is None else as_processors(processors, "run()"),
            knowledge_filters=options.get("knowledge_filters"),
        ),
        monitor=Monitor.of_run(
            runtime,
            options.get("observer"),
            options.get("streaming"),
            options.get("tracing"),
            tokens=tokens,
        ),
        spending=Spending(meter, options.get("budget")),
        approver=options.get("approver"),
        lease=lease,
        resumes=options.get("state") is None or state.goes_on_with is not None,
    )


def _context_of(  # noqa: PLR0913 - by name
    setup: RunSetup,
    runtime: Runtime,
    prefix: str,
    messages: RunMessages,
    state: State[Any],
    *,
    choices: RunChoices,
    monitor: Monitor,
    spending: Spending,
    approver: Approver | None,
    lease: ThreadLease | None,
    resumes: bool,
    nesting: Nesting = Nesting(),
    outer: Thread | None = None,
) -> RunContext:
    """Return a run's context, the network's run in it, if it is of a network."""
    transcript, network = Transcript(state, messages.input.message.id), None
    if setup.network is not None:
        run_id = runtime.new_id(f"{prefix}/run")
        reader = RunReader(transcript, spending.meter, choices)
        network = NetworkRun(setup.network[0], run_id, reader)
    changes = StateChanges(state, network)
    thread = Thread(
        setup.history,
        state,
        messages.input.text,
        runtime,
        prefix,
        changes,
        settings=lease,
        network=network,
        outer=outer,
    )
    return RunContext(
        runtime=runtime,
        prefix=prefix,
        messages=messages,
        transcript=transcript,
        thread=thread,
        history=setup.history,
        monitor=monitor,
        changes=changes,
        choices=choices,
        spending=spending,
        memory=RunMemory(),
        network=network,
        approver=approver,
        nesting=nesting,
        resumes=resumes,
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
