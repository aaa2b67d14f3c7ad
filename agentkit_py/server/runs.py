"""A message to answer, the state its run begins with, and the two ways to run it."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from starlette.requests import HTTPConnection

from agentkit_py._core.awaiting import resolve
from agentkit_py._engine.run_context import typed_state
from agentkit_py.errors import ConfigurationError, StateError
from agentkit_py.events.replies import WORKING, ReplyStatus
from agentkit_py.history.leases import OnBusy
from agentkit_py.history.questions import Question
from agentkit_py.history.runs import Known, RunRecord
from agentkit_py.messages import TextMessage, UserMessage
from agentkit_py.network import Network, Target
from agentkit_py.server.config import ServerSettings
from agentkit_py.server.responses import TokenResponse
from agentkit_py.state import TENANT_KEYS, State, field_names, fields_of
from agentkit_py.stores import HistoryStore

TOPIC = "agent_stream"
"""The topic on which the useAgent hook listens."""


APPROVALS = "approvals"
"""The hub's channel that says that questions have changed."""


DIED = "The answer was interrupted. Please send the message again."
"""The words for a run whose process has died."""


TAKEOVERS = "takeovers"
"""The hub's channel that says that staff have joined, written or left."""


def channel_of(user_id: str) -> str:
    """Return the name of a user's channel."""
    return f"user:{user_id}"


def user_of(channel: str) -> str:
    """Return the id of the user whose channel this is."""
    return channel.removeprefix(channel_of(""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A user's message, and the network or agent that answers it."""

    user_id: str
    thread_id: str
    target: Target
    message: UserMessage
    client_state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The client's state, reduced to the fields that it may set."""

    client_history: list[TextMessage] | None = None
    """Used instead of the stored thread; None: the thread is loaded."""

    on_busy: OnBusy | None = None
    """Behaviour while another run works on the thread; the lease's by default."""


class Backend(Protocol):
    """Runs jobs: as tasks of this process (`LocalRuns`), or as Inngest functions (`InngestRuns`).

    Its methods raise `ApiError` to refuse a request.
    """

    streams = False
    """True if chunks pass through this process, so that it can stream them."""

    runs_here = False
    """True if runs are tasks of this process."""

    async def join(self) -> None:
        """Share streams with other processes of the server.

        Raises:
            ConfigurationError: There are some, and nothing that could carry streams between them.
        """

    async def leave(self) -> None:
        """Stop sharing; all that was published is sent."""

    def open(self) -> None:
        """Accept messages, also after a `close`."""

    def check_room(self, user_id: str) -> None:
        """Refuse a run that could not begin."""

    async def check_questions(self, user_id: str) -> None:
        """Refuse a run of a user for whom too many questions are open."""

    @abstractmethod
    async def start(self, job: Job) -> None:
        """Begin a run, and return at once."""

    @abstractmethod
    async def cancel(self, user_id: str, thread_id: str) -> int:
        """Stop the user's runs in a thread; return their number."""

    @abstractmethod
    async def go_on(self, question: Question) -> None:
        """Resume the run of a question, which is answered."""

    def check_answerable(self, question: Question) -> None:
        """Refuse an answer that could not be passed on from here."""

    async def send_answers(self) -> None:
        """Pass those answers on again that runs do not have yet."""

    async def is_lost(self, question: Question) -> bool:
        """Return whether the run that asked died before it was stored, and is not resumed."""
        del question
        return False

    async def settle(self, user_id: str, thread_id: str, message_id: str) -> RunRecord | None:
        """Return the record of a message's run, once a run without a living owner is seen to.

        It is ended, or resumed here if its question is answered and no process has taken it.
        """
        del user_id, thread_id, message_id
        return None

    async def status_of(self, user_id: str, thread_id: str, message_id: str) -> ReplyStatus | None:
        """Return why the stream of a message's reply may stay open; None: it has to end.

        A run without a living owner is seen to before.
        """
        return WORKING if message_id in self.awaited(user_id, thread_id) else None

    @abstractmethod
    async def token(self, request: HTTPConnection, user_id: str) -> TokenResponse:
        """Return the hook's credentials for the user's channel."""

    def accepts_runs(self) -> bool:
        """Return False from the moment the server stops."""
        return True

    def replayed(self, user_id: str, thread_id: str) -> list[str]:
        """Return ids of the messages whose replies a new reader of the stream gets from the start.

        What they have stored so far must not be shown twice.
        """
        return []

    def awaited(self, user_id: str, thread_id: str) -> list[str]:
        """Return ids of messages whose replies have begun elsewhere, or will, in order."""
        return []

    def working(self, user_id: str, thread_id: str) -> dict[str, asyncio.Task[None]]:
        """Return the tasks of this process that answer a thread's messages, by their ids."""
        return {}

    def drain(self) -> None:
        """Begin no more runs, since the server stops; those that work get some time to end."""

    def works_for(self, user_id: str) -> bool:
        """Return whether a run of the user works in this process."""
        return False

    async def close(self) -> None:
        """Wait for runs to end, or stop them."""


async def state_of(
    job: Job, settings: ServerSettings, store: HistoryStore, read: Known | None = None
) -> State[Any]:
    """Return the state that a run begins with, its user's tenant included.

    Args:
        job: The message.
        settings: Says whose the run is.
        store: The store as the user may see it.
        read: What was read of it already.

    Raises:
        StateError: The client's values do not fit a typed state.
    """
    previous = await previous_data(store, job.thread_id, read)
    first: State[Any] | None = None
    if settings.new_state is not None:
        made: Any = await resolve(settings.new_state(job.user_id))
        first = cast("State[Any]", made) if isinstance(made, State) else State(made)
    state = begin_state(job, settings, previous, first)
    if settings.tenant_of is None:
        return state
    tenant = (await settings.tenant(job.user_id) if job.user_id else None) or ""
    known = fields_of(state.data)
    others = {key: tenant for key in ("tenant_id", "tenantId") if key in known}
    given = {"tenant": tenant, **others}  # an empty tenant, too, replaces the old value
    _set(state, given, job.target.state_type)
    return state


def given_by_client(job: Job, settings: ServerSettings, state: State[Any]) -> dict[str, Any]:
    """Return the values of a run's state that do not come from its thread."""
    names = {*job.client_state, settings.user_key}
    if settings.tenant_of is not None:
        names.update(TENANT_KEYS)
    return {name: value for name, value in state.dump().items() if name in names}


def begin_state(
    job: Job,
    settings: ServerSettings,
    previous: Mapping[str, Any] | None,
    first: State[Any] | None = None,
) -> State[Any]:
    """Return the state of a run: default, thread, client and user, each over the previous.

    Args:
        job: The message; its network's default state comes first.
        settings: Names the key of the user's id, which overrides everything.
        previous: The data that the thread's last run ended with.
        first: The state that the application makes for its user, in place of the default.

    Raises:
        StateError: The client's values do not fit a typed state.
    """
    default = job.target.default_state if isinstance(job.target, Network) else None
    default = first or default
    state: State[Any] = State() if default is None else default.clone()
    if previous is not None:
        state.load(dict(previous))
    given = {**job.client_state, settings.user_key: job.user_id}
    _set(state, given, job.target.state_type)
    return state


def check_client_state(job: Job, settings: ServerSettings) -> None:
    """Refuse values of a client's that the run's state does not take.

    Raises:
        StateError: A value does not fit.
    """
    state, kind = begin_state(job, settings, None), job.target.state_type
    if kind is None or settings.new_state is not None:
        return
    try:
        typed_state(job.target.name, state, kind)
    except ConfigurationError as error:
        raise StateError(str(error)) from error


def _set(state: State[Any], given: Mapping[str, Any], kind: type[Any] | None) -> None:
    """Set values; those that a typed state has no field for are left out.

    Args:
        state: The state; a plain state becomes a ``kind`` when the run begins.
        given: The values.
        kind: The type of the run's state data; None: any.
    """
    data: object = state.data
    if isinstance(data, dict):
        names = None if kind is None else field_names(kind)
        values = {**cast("dict[str, Any]", data), **given}
        kept = {key: value for key, value in values.items() if names is None or key in names}
        state.data = kept
        return
    known = fields_of(data)
    changes = {key: value for key, value in given.items() if key in known}
    if changes:
        state.load({**state.dump(), **changes})


async def previous_data(
    store: HistoryStore, thread_id: str, known: Known | None = None
) -> Mapping[str, Any] | None:
    """Return the data of the thread's last run, if the store keeps it for the next run."""
    runs = store.abilities.runs
    if runs is None:
        return None
    run = await runs.load_run(thread_id) if known is None else known.previous
    return None if run is None else run.state
