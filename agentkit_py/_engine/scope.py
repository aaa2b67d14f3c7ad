"""What everything inside one run shares."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agentkit_py._engine.approvals import Approver
from agentkit_py._engine.changes import RunChanges
from agentkit_py._engine.emitter import Emitter, logger
from agentkit_py._engine.inputs import RunInput
from agentkit_py._engine.limits import Meter
from agentkit_py._engine.present import Present
from agentkit_py._engine.prompt import HistoryMode
from agentkit_py._engine.spans import RunSpans
from agentkit_py._engine.tool_source import SourceBook
from agentkit_py.errors import HistoryError
from agentkit_py.events.types import Event
from agentkit_py.history.config import HistoryConfig
from agentkit_py.history.thread import Thread
from agentkit_py.messages import Message
from agentkit_py.models.base import Model, ModelRequest
from agentkit_py.processors.apply import is_bounded
from agentkit_py.processors.base import Extent, HistoryProcessor, Level
from agentkit_py.results import AgentResult
from agentkit_py.runtime.port import Runtime
from agentkit_py.runtime.watch import watched
from agentkit_py.state import State, fields_of

if TYPE_CHECKING:
    from agentkit_py.agent import Agent
    from agentkit_py.network import NetworkRun


@dataclass(slots=True, kw_only=True)
class RunScope:
    """One run of a network, or of an agent by itself."""

    runtime: Runtime
    state: State[Any]
    thread: Thread
    input: RunInput
    meter: Meter
    mode: HistoryMode
    prefix: str
    """Unique prefix of this run's step ids."""

    emitter: Emitter
    changes: RunChanges
    """What is recorded with each callback that runs in a step."""

    approver: Approver | None = None
    network: NetworkRun | None = None
    spans: RunSpans | None = None
    """Measures the run; None: nobody does."""

    depth: int = 0
    """How many runs it stands in; see `Agent.as_tool`."""

    context_id: str = "main"
    """What this run is called by those that stand in it."""

    parent_context: str | None = None
    history: HistoryConfig | None = None
    """The store of the run; forks know it too."""

    memory: dict[str, Any] = field(default_factory=dict[str, Any])
    """What processors remember until the run ends."""

    sources: SourceBook = field(default_factory=SourceBook)
    """What the servers of its agents have."""

    past: Sequence[Message] = ()
    """The messages from before this run, put together once."""

    older: tuple[AgentResult, ...] = ()
    """In a fork: results of the thread that processors wanted to see; not in its state."""

    resumes: bool = False
    """Whether no state was given, so that the data of the run before may go on."""

    valid: tuple[Message, ...] = ()
    """What a model was shown last: calls and results in it are whole."""

    _present: Present = field(default_factory=Present)
    _seen: int = 0
    _last: AgentResult | None = None
    _added: list[AgentResult] = field(default_factory=list[AgentResult])

    @property
    def user_id(self) -> str | None:
        """Who the state says the user is; chunks carry it."""
        fields = fields_of(self.state.data)
        found = fields.get("user_id") or fields.get("userId")
        return found if isinstance(found, str) else None

    @property
    def is_heard(self) -> bool:
        """Whether anybody is to be told what happens; if not, nobody need make an event."""
        return self.spans is not None or self.emitter.is_heard

    async def tell(self, event: Event) -> None:
        """Tell of what whoever measures the run must know, too, and at once."""
        if self.spans is not None:
            self.spans.told(event)
        await self.emitter.emit(event)

    def measured(self, run_id: str) -> AbstractContextManager[None]:
        """What happens in the block is part of the run ``run_id``."""
        return _UNMEASURED if self.spans is None else self.spans.inside(run_id)

    def watching(
        self, step_id: str, model: Model, request: ModelRequest, run_id: str
    ) -> AbstractContextManager[None]:
        """The block asks a model."""
        if self.spans is None:
            return _UNMEASURED
        return watched(self.spans.model_call(step_id, model, request, run_id))

    async def open(self, agents: Iterable[Agent], *, dry: bool = False) -> None:
        """Load the thread, remember what is past, and keep and save what the user said.

        Args:
            agents: Those that may run: if none of them has a processor that bounds the history, all
                of it is loaded.
            dry: Save and create nothing.
        """
        if self.thread.config is not None:
            self.thread.whole = not any(is_bounded(self.chains_of(agent)) for agent in agents)
        try:
            await self._open(dry=dry)
        except CancelledError as error:
            await self._let_go(error)
            raise
        except Exception as error:
            await self._let_go(error)
            self.raise_outward(error)
            raise

    async def _let_go(self, error: Exception | CancelledError) -> None:
        """Let others have the thread, as this run ends before it has begun."""
        if not self.runtime.is_final(error):
            return
        try:
            await self.thread.let_go()
        except Exception:  # noqa: BLE001 - the run's own error is the one to raise
            logger.exception("A run that could not begin did not give its thread back")

    def chains_of(self, agent: Agent) -> list[tuple[Level, Sequence[HistoryProcessor]]]:
        """The processors that an agent's history goes through, level by level."""
        network = None if self.network is None else self.network.network
        shared = () if network is None or network.history is None else network.history.chain
        own = () if agent.history is None else agent.history.chain
        chains: list[tuple[Level, Sequence[HistoryProcessor]]] = []
        if shared:
            chains.append(("history", shared))
        if own and own is not shared:
            chains.append(("history", own))
        if network is not None and network.chain:
            chains.append(("network", network.chain))
        if agent.chain:
            chains.append(("agent", agent.chain))
        return chains

    async def _open(self, *, dry: bool) -> None:
        question, thread = self.input.message.id, self.thread
        if dry:
            await thread.look()
        elif thread.config is not None:
            await thread.open(question, resume=self.resumes)
        again = False
        if self.state.is_seeded:
            results = self.state.results
            again = thread.turn is not None and any(r.id == question for r in results)
            past = [r for r in results if r.id != question] if again else results
            self.past = self._past_of(past)
        if thread.outcome is not None:
            return
        said, user = self.input.said, None
        if self.mode == "chronological" and said is not None and not again:
            user = self.input.as_result(said)
            self.state.append_result(user)
        self._remember()
        if said is not None and thread.config is not None and not dry:
            await thread.save_user_message(self.input.message, user)

    def earlier_result(self) -> AgentResult:
        """What the run for the same user message gave that came before this one.

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
        return replace(found[-1], stop_reason=outcome.stop_reason)

    def fork(self, emitter: Emitter) -> RunScope:
        """A scope for an agent that runs beside others: own state, and nothing is saved by it."""
        state = self.state.fork()
        runs = RunChanges(state, self.changes.network)
        thread = Thread(None, state, self.input.text, self.runtime, self.prefix, runs)
        thread.older = self.thread.older
        thread.lent = self.thread.turn or self.thread.lent
        own: dict[str, Any] = {"_present": self._present.copy(), "_added": list(self._added)}
        own["memory"] = dict(self.memory)
        own["sources"] = self.sources.copy()
        meter = replace(self.meter)
        return replace(
            self, state=state, changes=runs, thread=thread, emitter=emitter, meter=meter, **own
        )

    def keep(self, result: AgentResult) -> None:
        """Append a completed result to the state."""
        self.state.append_result(result)
        self.thread.track(result)
        self._added.append(result)

    async def add(self, result: AgentResult) -> None:
        """Append a completed result to the state, and to the thread if its store wants it now."""
        self.keep(result)
        if self.thread.config is not None:
            await self.thread.result_done()

    def present(self) -> Sequence[Message]:
        """The messages of this run so far, without what the user said; each is made only once."""
        present = self.noted()
        return present.first(len(present))

    def noted(self) -> Present:
        """The same, not yet made; it grows, so its length says what belongs to this moment."""
        state = self.state
        if state.last_of(self._seen) is not self._last:
            own = self._begin_again()  # with another Present, to which they are added
            self._present.add(own)
        elif state.result_count > self._seen:
            self._present.add(state.get_results_from(self._seen))
        else:
            return self._present
        self._remember()
        return self._present

    def _remember(self) -> None:
        self._seen = self.state.result_count
        self._last = self.state.last_of(self._seen)

    def _begin_again(self) -> Sequence[AgentResult]:
        """Sort what a tool or hook put in place of what was looked at.

        What this run did not make is past; this run's own results are given.
        """
        own = set(map(id, self._added))
        self._forget_older()
        results = self.state.results
        question = self.input.message.id
        past = [r for r in results if id(r) not in own and r.id != question]
        self.past = self._past_of(past)
        self._present = Present()
        return [result for result in results if id(result) in own]

    @property
    def before(self) -> Extent:
        """How much of the thread is not loaded."""
        older = self.thread.older
        return Extent() if older is None or older.extent is None else older.extent

    def _forget_older(self) -> None:
        """Let go of older results that somebody has taken out of the state."""
        if not self.state.not_loaded:
            self.thread.older = None
            self.older = ()

    async def widen(self, enough: Callable[[Sequence[Message]], Awaitable[bool]]) -> None:
        """Load older results of the thread until what is loaded is enough."""
        while (older := self.thread.older) is not None and (
            older.extent is None or not await enough((*self.past, *self._made()))
        ):
            if self.thread.config is None:
                # A fork: the results in its state are to be those it began with, and its own.
                results, self.thread.older = await older.load()
                self.older = (*results, *self.older)
            else:
                results = await self.thread.load_older()
                self._seen += len(results)
                if self.network is not None:
                    self.network.shift(len(results))
            self.past = (*_as_past([m for r in results for m in r.messages]), *self.past)

    def _made(self) -> Sequence[Message]:
        return self._present.first(len(self._present))

    def _past_of(self, results: Iterable[AgentResult]) -> tuple[Message, ...]:
        """The messages of results from before this run, after those that were loaded later."""
        found: list[Message] = self.state.messages
        for result in (*self.older, *results):
            found += result.output
            found += result.tool_calls
        return tuple(_as_past(found))

    def raise_outward(self, error: Exception) -> None:
        """Raise ``error`` as whoever called the run must get it, if that is another one."""
        if self.depth:
            return  # the run it stands in goes on
        outward = self.runtime.outward(error)
        if outward is not error:
            raise outward from error

    async def settle(self, error: Exception | CancelledError) -> None:
        """Save what was completed before ``error``, once nobody will try the run again."""
        if not self.runtime.is_final(error):
            return
        try:
            # A step here would be done with the first attempt of the next request, so that an
            # error that is not remembered would be tried again.
            failure = None if isinstance(error, CancelledError) else error
            lost = failure is None or not self.runtime.repeats(failure)
            await self.thread.save_results(lost=lost)
            await self.thread.end(failed=True, lost=lost)
        except Exception:  # noqa: BLE001 - the run's own error is the one to raise
            logger.exception("The completed results of a failed run could not be saved")


_UNMEASURED = nullcontext()


def _as_past(messages: Sequence[Message]) -> Sequence[Message]:
    """Messages from before a run; what another run marked as its own is past now."""
    if not [m for m in messages if m.from_history is False]:
        return messages
    return [replace(m, from_history=True) if m.from_history is False else m for m in messages]
