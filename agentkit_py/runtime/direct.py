"""DirectRuntime: everything happens in this process, and nothing is remembered."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeAlias, TypeVar

import anyio
import httpx

from agentkit_py._core.json import JsonValue
from agentkit_py.errors import (
    AbruptExitError,
    AgentKitError,
    AuthenticationError,
    ConfigurationError,
    ModelError,
    is_control_error,
)
from agentkit_py.events.approvals import ApprovalAnswer, ApprovalRequest
from agentkit_py.models.base import Model, copy_model
from agentkit_py.models.binding import account_tag
from agentkit_py.runtime.containing import contained
from agentkit_py.runtime.guards import guarded
from agentkit_py.runtime.journal import JournalRuntime, ended_by
from agentkit_py.runtime.keys import key_of
from agentkit_py.runtime.model_requests import HttpRequest, Sleep
from agentkit_py.runtime.port import Codec, DeltaSink, Recordable, take_watch, uuid_of

T = TypeVar("T")
logger: logging.Logger = logging.getLogger("agentkit_py")
_Clients: TypeAlias = dict[httpx.AsyncBaseTransport | None, httpx.AsyncClient]


MOST_CLIENTS = 32
"""Transports of models' own that are kept for the next request, of those used last."""


class DirectSteps:
    """Steps without durability."""

    async def run(self, step_id: str, handler: Callable[[], Awaitable[T]], /) -> T:
        """Call ``handler``."""
        return await contained(handler)

    async def sleep(self, step_id: str, duration: int | timedelta) -> None:
        """Wait in this process."""
        seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration / 1000
        await anyio.sleep(seconds)

    async def wait_for_event(
        self,
        step_id: str,
        *,
        event: str,
        if_exp: str | None = None,
        timeout: int | timedelta,
    ) -> Any:
        """Refuse: events need Inngest.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            f"Step {step_id!r} waits for the event {event!r}, which only an Inngest function can. "
            "Run the network inside one."
        )

    async def invoke_by_id(
        self,
        step_id: str,
        *,
        function_id: str,
        app_id: str | None = None,
        data: dict[str, Any] | None = None,
        timeout: int | timedelta | None = None,
    ) -> Any:
        """Refuse: Inngest functions need Inngest.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            f"Step {step_id!r} invokes the function {function_id!r}, which only an Inngest "
            "function can. Run the network inside one."
        )

    async def sleep_until(self, step_id: str, until: datetime) -> None:
        """Wait in this process."""
        await anyio.sleep(max(0.0, (until - datetime.now(UTC)).total_seconds()))

    async def send_event(self, step_id: str, events: Any) -> list[str]:
        """Refuse: events need Inngest.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            f"Step {step_id!r} sends events, which only an Inngest function can. Run the network "
            "inside one, or send them with the client: await client.send(…)."
        )


async def _answered(model: Model, answers: Callable[[], Awaitable[object]]) -> object:
    """Return the reply of a model that is a function of this process.

    Raises:
        ModelError: The function raised an error of its own, which is the cause; another try may
            help. Errors of this library pass unchanged.
    """
    try:
        return await contained(answers)
    except Exception as error:
        own = not isinstance(error, AgentKitError) or isinstance(error, AbruptExitError)
        if not own or is_control_error(error):
            raise
        where = {"provider": model.provider, "model": model.model}
        failure = ModelError(f"its function raised {type(error).__name__}: {error}", **where)
        failure.retriable = True
        raise failure from error


class DirectRuntime:
    """The in-process runtime: model calls over httpx with retries, everything else directly.

    Args:
        transport: An httpx transport for all requests, e.g. ``FakeProvider().transport``.
        environment: Where API keys are looked up; the process environment unless given.
        sleep: How to wait between attempts; tests pass one that returns at once.
        publish: Receives streaming chunks.
    """

    def __init__(
        self,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        environment: Mapping[str, str] | None = None,
        sleep: Sleep = anyio.sleep,
        publish: Callable[[dict[str, Any]], Awaitable[None]] | None = None,
    ) -> None:
        """Keep what was given; connections are opened when needed."""
        self._transport = transport
        self._environment = os.environ if environment is None else environment
        self._sleep = sleep
        self._publish = publish
        self._steps = DirectSteps()
        # Connections belong to the event loop that opened them, so each loop has its client.
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Clients] = (
            weakref.WeakKeyDictionary()
        )

    durable = False
    replaying = False
    pauses = False
    steps_taken: int = 0

    execution: str | None = None
    """Direct runs are stopped as tasks are."""

    def recording(
        self,
        journal: Mapping[str, Any] | None,
        answers: Mapping[str, ApprovalAnswer | None],
    ) -> JournalRuntime:
        """Return the runtime of one run that may pause for a person."""
        return JournalRuntime(self, journal, answers)

    @property
    def step(self) -> DirectSteps:
        """The steps that users' tools and hooks may use."""
        return self._steps

    def within(self, step_id: str) -> AbstractContextManager[None]:
        """Do nothing: ids of steps that nobody remembers need not be unique."""
        return _NOTHING

    def claim(self, name: str) -> str:
        """Return the name: ids of steps that nobody remembers need not be unique."""
        return name

    def define(self, prefix: str, parts: Callable[[], dict[str, str]]) -> None:
        """Do nothing: the code does not change while it runs."""

    def decide(self, key: str, value: Callable[[], JsonValue], what: str) -> None:
        """Do nothing: everything is decided once."""

    def recorded(self, key: str) -> JsonValue:
        """Return None: nothing is decided twice."""
        return None

    def remembers(self, step_id: str) -> bool:
        """Return False: no step is done before it is asked for."""
        return False

    def may_remember(self, step_id: str) -> bool:
        """Return False: no step is done before it is asked for."""
        return False

    def each_time(self) -> AbstractContextManager[None]:
        """Do nothing: a run goes on to its end."""
        return nullcontext()

    def new_id(self, key: str) -> str:
        """Return a random UUID."""
        return uuid_of(os.urandom(16).hex(), 4)

    def now(self, key: str) -> datetime:
        """Return the current time."""
        return datetime.now(UTC)

    async def infer(
        self,
        step_id: str,
        model: Model,
        make_body: Callable[[], dict[str, Any]],
        on_delta: DeltaSink | None = None,
    ) -> object:
        """Send the request, again where the model's retry policy allows it.

        With ``on_delta`` the reply is streamed where the adapter can (see `Adapter.assembler`).

        Raises:
            ModelError: The last attempt failed.
            ConfigurationError: No API key was given and none is in the environment.
        """
        watch = take_watch()
        if watch is None:
            return await self._infer(model, make_body, on_delta)
        return await watch.here(partial(self._infer, model, make_body), on_delta)

    async def _infer(
        self,
        model: Model,
        make_body: Callable[[], dict[str, Any]],
        on_delta: DeltaSink | None,
    ) -> object:
        if model.answers is not None:
            body, answers = make_body(), model.answers
            answer = partial(_answered, model, partial(answers, body))
            if not model.guards:
                return await answer()
            return await guarded(model, self.account(model), len(str(body)), answer)
        key = await self.current_key(model)
        try:
            return await self._request(model, key).send(make_body, on_delta)
        except AuthenticationError as error:
            refused = error
        # A key that was rotated or revoked meanwhile: whoever gives keys is asked for another.
        other = await self.current_key(model) if callable(model.api_key) else key
        if other == key:
            raise refused
        logger.warning(
            "%s refused the key of model %r (HTTP %d); asked again with the one that api_key=… "
            "gives now",
            *(model.provider, model.model, refused.status),
        )
        return await self._request(model, other).send(make_body, on_delta)

    def _request(self, model: Model, key: str | None) -> HttpRequest:
        known = copy_model(model, api_key=key) if callable(model.api_key) else model
        return HttpRequest(self._client(model), known, key, self._sleep)

    async def current_key(self, model: Model) -> str | None:
        """Return the key for ``model`` now: what its function gives, else as `api_key`.

        Raises:
            ConfigurationError: There is none and the model needs one, or it cannot be sent.
        """
        if not callable(model.api_key):
            return self.api_key(model)
        return self.api_key(copy_model(model, api_key=await key_of(model) or None))

    def account(self, model: Model) -> str:
        """Return a tag of the account of the key that `api_key` finds; empty: it is not known."""
        if callable(model.api_key) or model.answers is not None:
            return account_tag(model, None)
        key = model.api_key or self._environment.get(model.adapter.key_variable, "").strip()
        return account_tag(model, key)

    def api_key(self, model: Model) -> str | None:
        """Return the key for ``model``: its own, else the environment's.

        Raises:
            ConfigurationError: There is none and the model needs one, or it cannot be sent.
        """
        variable = model.adapter.key_variable
        given = model.api_key
        assert not callable(given), "`current_key` asks functions"
        # Files and shells leave white space around keys.
        key = given or self._environment.get(variable, "").strip()
        if key and not _IN_HEADER.fullmatch(key):
            raise ConfigurationError(
                f"The API key {'from api_key=…' if given else f'in {variable}'} holds white space "
                "or characters that no HTTP header can carry (it is not shown here)."
            )
        if not key and model.key_required:
            raise ConfigurationError(
                f"No API key for {model.provider} model {model.model!r}: set {variable} or pass "
                "api_key=… to the function that makes the model. Without a key, "
                "agentkit_py.testing.ScriptedModel plays one."
            )
        return key or None

    def _client(self, model: Model) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        clients = self._clients.setdefault(loop, {})
        transport = model.transport or self._transport or providers.get()
        client = clients.pop(transport, None)
        if client is None or client.is_closed:
            client = httpx.AsyncClient(transport=transport)
        clients[transport] = client  # the last one used is last
        if len(clients) > MOST_CLIENTS:
            # Whoever gave the transport closes it; the client has nothing of its own.
            del clients[next(one for one in clients if one is not None)]
        return client

    async def aclose(self) -> None:
        """Close this event loop's connections; the next call opens new ones."""
        clients = self._clients.pop(asyncio.get_running_loop(), {})
        for client in clients.values():
            await client.aclose()

    async def effect(
        self,
        step_id: str,
        handler: Callable[[], Awaitable[T]],
        changes: Recordable,
        codec: Codec[T] | None = None,
    ) -> T:
        """Call ``handler``; its changes stay."""
        return await contained(handler)

    async def parallel(self, calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T | Exception]:
        """Run all at the same time."""

        async def result_or_error(call: Callable[[], Awaitable[T]]) -> T | Exception:
            try:
                return await contained(call)
            except Exception as error:  # noqa: BLE001 - errors are values here
                return error

        return list(await asyncio.gather(*(result_or_error(call) for call in calls)))

    async def with_checks(
        self, call: Callable[[], Awaitable[T]], checks: Sequence[Callable[[], Awaitable[Any]]]
    ) -> list[Any]:
        """Run all at the same time; a check that finds something cancels the call."""
        return await ended_by(self.parallel, call, checks)

    async def publish(self, chunk: dict[str, Any]) -> None:
        """Pass the chunk on, if anybody listens."""
        if self._publish is not None:
            await self._publish(chunk)

    def published_by_next_step(self, follows: bool, /) -> AbstractContextManager[None]:  # noqa: FBT001 - the port's argument
        """Do nothing: what is published here is published at once."""
        return _NOTHING

    async def ask(
        self,
        step_id: str,
        request: ApprovalRequest,
        opening: Callable[[], Awaitable[None]] | None = None,
    ) -> ApprovalAnswer | None:
        """Refuse: nobody can be reached from here unless the run was given an ``approver``.

        Raises:
            ConfigurationError: Always.
        """
        names = ", ".join(call.name for call in request.calls) or request.message
        raise ConfigurationError(
            f"Agent {request.agent!r} must ask a person ({names}, step {step_id!r}). Pass "
            "approver=… to run(), give it a history such as SqliteHistory, so that the run can "
            "wait for the answer, or run it inside an Inngest function."
        )

    attempt = 0

    async def try_again(self, seconds: float, error: Exception) -> None:
        """Wait in this process."""
        await self._sleep(seconds)

    async def wait_for_signal(
        self,
        step_id: str,
        key: str,
        enter: Callable[[], Awaitable[bool]],
        seconds: float,
    ) -> bool | None:
        """Wait; other processes cannot signal this one, so ``enter`` is tried now and then."""
        waiter = _Waiter(asyncio.get_running_loop(), asyncio.Event())
        _waiters.setdefault(key, []).append(waiter)
        wait, left = _FIRST_WAIT, seconds
        try:
            while not await enter():
                if left <= 0:
                    return None
                with anyio.move_on_after(min(wait, left)):
                    await waiter.event.wait()
                waiter.event.clear()
                wait, left = min(2 * wait, _LONGEST_WAIT), left - wait
            return True
        finally:
            _waiters[key].remove(waiter)
            if not _waiters[key]:
                del _waiters[key]

    async def signal(self, key: str) -> None:
        """Wake runs in this process."""
        for waiter in list(_waiters.get(key, ())):
            with suppress(RuntimeError):  # its event loop is closed
                waiter.loop.call_soon_threadsafe(waiter.event.set)

    def is_final(self, error: BaseException) -> bool:
        """Return True: nobody runs a direct run again."""
        return True

    def repeats(self, error: Exception) -> bool:
        """Return False: nothing is remembered."""
        return False

    def to_caller_error(self, error: Exception) -> Exception:
        """Return the error."""
        return error


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    """A run that waits for a signal, in whichever thread its event loop runs."""

    loop: asyncio.AbstractEventLoop
    event: asyncio.Event


_waiters: dict[str, list[_Waiter]] = {}
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 0.5
"""Seconds between two looks at what other processes do."""

providers: ContextVar[httpx.AsyncBaseTransport | None] = ContextVar(
    "agentkit_providers", default=None
)
"""The transport of all requests that have none of their own, e.g. a test's."""

_NOTHING = nullcontext()
_IN_HEADER = re.compile(r"[\x21-\x7e]+")

_shared: list[DirectRuntime] = []


def shared_runtime() -> DirectRuntime:
    """Return the runtime of runs that were given none; it keeps connections open between runs."""
    if not _shared:
        _shared.append(DirectRuntime())
    return _shared[0]
