"""HistoryConfig: how threads are created, loaded and saved, and which processors go with them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from agentkit_py._core.spellings import options_spelled_here, spelled_here
from agentkit_py._core.validation import wrong_bool
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.abilities import Abilities, find_abilities
from agentkit_py.history.leases import ThreadLease
from agentkit_py.history.runs import LeaseClaim
from agentkit_py.messages import UserMessage
from agentkit_py.processors.base import HistoryProcessor, Processors
from agentkit_py.results import AgentResult
from agentkit_py.state import State

if TYPE_CHECKING:
    from agentkit_py.runtime.steps import StepTools

_logger = logging.getLogger("agentkit_py.history")


class RunView(Protocol):
    """The network run as hooks and stores see it."""

    @property
    def name(self) -> str:
        """The network's name."""
        ...

    @property
    def state(self) -> State[Any]:
        """The run's state."""
        ...


@spelled_here
@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryContext:
    """The argument of a history hook."""

    state: State[Any]
    input: str
    """The text of the user's message."""

    thread_id: str | None
    """None only in `create_thread` of a new thread."""

    new_thread_id: str = ""
    """In `create_thread`: an id that a new thread may have. It is the same where the hook is called
    again since its result was lost, so that no second thread is made."""

    network: RunView | None = None
    step: StepTools
    """Steps, for adapters that want their own; the hook itself is durable without them."""

    user_message: UserMessage | None = None
    """In `append_user_message`: the message with its id and time filled in."""

    user_result: AgentResult | None = None
    """In `append_user_message`: the entry of the message in the state."""

    new_results: Sequence[AgentResult] = ()
    """In `append_results`: the results to save, in order."""

    answers: str | None = None
    """In `append_results`, where the run has waited: the id of the message that it answers. Later
    messages may come between that message and the results."""

    claim: LeaseClaim | None = None
    """In the appends of a config that `renews_leases`: the lease to renew with the results."""


CreateThread: TypeAlias = Callable[[HistoryContext], "Awaitable[str | None] | str | None"]
"""Creates the thread if it does not exist, and returns its id (None: keep the id)."""

GetResults: TypeAlias = Callable[
    [HistoryContext], "Sequence[AgentResult] | Awaitable[Sequence[AgentResult]]"
]
"""Loads the thread's results, user turns among them, oldest first."""

Append: TypeAlias = Callable[[HistoryContext], "Awaitable[str | None] | str | None"]
"""Saves the message or the results in the context; ``"taken_over"`` for a message: a person of the
staff answers it, and agents pause."""


@options_spelled_here
@spelled_here
class HistoryConfig:
    """Callbacks to a store; all optional, each sync or async.

    Stores of this library are such configs: ``Network(history=SqliteHistory("support.db"))``.

    Attributes:
        create_thread: Called at the start of each run that has a store.
        get: Called when the client gave a thread id and neither results nor messages.
        append_user_message: Called with the new user message, after `get`.
        append_results: Called with the new results.
        processors: History processors that run before those of networks and agents.
        save_each: Save each result when it is complete, so that a crash loses none; otherwise all
            are saved at the end of the run.
        lease: How runs share a thread; None: they do not know of each other. Only a
            `RunStore` takes a lease.
        lazy: Load only as much of a thread as processors want to see. Only stores can.
    """

    _warned = False
    _abilities: Abilities | None = None

    def __init__(
        self,
        *,
        create_thread: CreateThread | None = None,
        get: GetResults | None = None,
        append_user_message: Append | None = None,
        append_results: Append | None = None,
        processors: Processors = (),
        save_each: bool = False,
        lease: ThreadLease | None = None,
        lazy: bool = False,
    ) -> None:
        where = type(self).__name__
        callbacks = {
            "create_thread": create_thread,
            "get": get,
            "append_user_message": append_user_message,
            "append_results": append_results,
        }
        for name, callback in callbacks.items():
            if callback is not None and not callable(callback):
                raise ConfigurationError(
                    f"{where}: {name} must be a function, not {callback!r:.80}"
                )
        for name, flag in {"save_each": save_each, "lazy": lazy}.items():
            if problem := wrong_bool(flag):
                raise ConfigurationError(f"{where}: {name}: {problem}")
        self.create_thread = create_thread
        self.get = get
        self.append_user_message = append_user_message
        self.append_results = append_results
        self._processors: tuple[Processors, tuple[HistoryProcessor, ...]] | None = None
        self.processors = processors
        self.save_each = save_each
        self.lease = lease
        self.lazy = lazy

    def warn_of_another_thread(self, asked: str, returned: str) -> None:
        """Log, once, that `create_thread` returned another thread than the client named."""
        if not self._warned:
            self._warned = True
            _logger.warning(
                "The client named the thread %r, and create_thread returned %r: that is the run's "
                "thread. If each run gets a new thread, the conversation never continues: return "
                "ctx.thread_id where it is set.",
                *(asked, returned),
            )

    @property
    def processors(self) -> Processors:
        """Its processors; others may be assigned, and count from the next run on."""
        return self._chosen[0]

    @processors.setter
    def processors(self, processors: Processors) -> None:
        chain: tuple[HistoryProcessor, ...] = ()
        if processors is not None and processors not in ((), []):
            from agentkit_py.processors.apply import as_processors  # noqa: PLC0415 - slow to load

            chain = as_processors(processors, type(self).__name__)
        # A function chooses again in each run; later additions to a list do not count.
        self._processors = (processors if callable(processors) else tuple(processors or ()), chain)

    @property
    def chain(self) -> tuple[HistoryProcessor, ...]:
        """The processors, functions among them made processors."""
        return self._chosen[1]

    @property
    def _chosen(self) -> tuple[Processors, tuple[HistoryProcessor, ...]]:
        assert self._processors is not None
        return self._processors

    @property
    def lease(self) -> ThreadLease | None:
        """How runs share a thread; another may be assigned, and counts from the next run on."""
        return self._lease

    @lease.setter
    def lease(self, lease: ThreadLease | None) -> None:
        if lease is not None and not isinstance(lease, ThreadLease):
            raise ConfigurationError(
                f"{type(self).__name__}: lease must be a ThreadLease, e.g. "
                f"lease=ThreadLease(seconds=60), not {lease!r:.80}"
            )
        if lease is not None and self._find_abilities().runs is None:
            raise ConfigurationError(
                f"{type(self).__name__}: it cannot keep leases, so lease=… would do nothing; "
                "a store that can has the methods of agentkit_py.history.runs.RunStore."
            )
        self._lease = lease

    @property
    def abilities(self) -> Abilities:
        """What the store can do in addition to its callbacks; looked at once."""
        known = self._abilities
        if known is None or known.store is not self:  # a copy is a store of its own
            known = self._abilities = self._find_abilities()
        return known

    def _find_abilities(self) -> Abilities:
        return find_abilities(self)

    @property
    def renews_leases(self) -> bool:
        """True if the appends renew `HistoryContext.claim`, or raise `ThreadBusyError`."""
        return False

    @property
    def looks_first(self) -> bool:
        """True if `create_thread` changes nothing where the thread is there already.

        A run that finds its thread when it loads it need not ask for it to be made then.
        """
        return False
