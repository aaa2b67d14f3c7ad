"""DirectRuntime: everything happens in this process, and nothing is remembered."""

from __future__ import annotations

import asyncio
import os
import re
import uuid
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeAlias, TypeVar

import anyio
import httpx

from agentkit_py.errors import ConfigurationError
from agentkit_py.events.approvals import ApprovalAnswer, ApprovalRequest
from agentkit_py.models.base import Model
from agentkit_py.runtime.model_requests import ModelRequest, Sleep
from agentkit_py.runtime.port import Codec, DeltaSink, Recordable
from agentkit_py.runtime.watch import take_watch

T = TypeVar("T")
_Clients: TypeAlias = dict[httpx.AsyncBaseTransport | None, httpx.AsyncClient]


class DirectSteps:
    """Steps without durability."""

    async def run(self, step_id: str, handler: Callable[[], Awaitable[T]], /) -> T:  # noqa: ARG002
        """Call ``handler``."""
        return await handler()

    async def sleep(self, step_id: str, duration: int | timedelta) -> None:  # noqa: ARG002
        """Wait in this process."""
        seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration / 1000
        await anyio.sleep(seconds)

    async def wait_for_event(
        self,
        step_id: str,
        *,
        event: str,
        if_exp: str | None = None,  # noqa: ARG002
        timeout: int | timedelta,  # noqa: ARG002 - the SDK's signature
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
        app_id: str | None = None,  # noqa: ARG002
        data: dict[str, Any] | None = None,  # noqa: ARG002
        timeout: int | timedelta | None = None,  # noqa: ARG002 - the SDK's signature
    ) -> Any:
        """Refuse: Inngest functions need Inngest.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            f"Step {step_id!r} invokes the function {function_id!r}, which only an Inngest "
            "function can. Run the network inside one."
        )


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

    @property
    def step(self) -> DirectSteps:
        """The steps that users' tools and hooks may use."""
        return self._steps

    def within(self, step_id: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Do nothing: ids of steps that nobody remembers need not be unique."""
        return _NOTHING

    def claim(self, name: str) -> str:
        """Return the name: ids of steps that nobody remembers need not be unique."""
        return name

    def new_id(self, key: str) -> str:  # noqa: ARG002
        """Return a random UUID."""
        return str(uuid.uuid4())

    def now(self, key: str) -> datetime:  # noqa: ARG002
        """Return the current time."""
        return datetime.now(UTC)

    async def infer(
        self,
        step_id: str,  # noqa: ARG002
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
        if model.respond is not None:
            return await model.respond(make_body())
        request = ModelRequest(self._client(model), model, self.api_key(model), self._sleep)
        return await request.send(make_body, on_delta)

    def api_key(self, model: Model) -> str | None:
        """Return the key for ``model``: its own, else the environment's.

        Raises:
            ConfigurationError: There is none and the model needs one, or it cannot be sent.
        """
        variable = model.adapter.key_variable
        # Files and shells leave white space around keys.
        key = model.api_key or self._environment.get(variable, "").strip()
        if key and not _IN_HEADER.fullmatch(key):
            raise ConfigurationError(
                f"The API key in {variable} holds white space or characters that no HTTP header "
                "can carry (it is not shown here)."
            )
        if not key and model.key_required:
            raise ConfigurationError(
                f"No API key for {model.provider} model {model.model!r}: "
                f"set {variable} or pass api_key=…"
            )
        return key or None

    def _client(self, model: Model) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        clients = self._clients.setdefault(loop, {})
        transport = model.transport or self._transport
        client = clients.get(transport)
        if client is None or client.is_closed:
            client = clients[transport] = httpx.AsyncClient(transport=transport)
        return client

    async def aclose(self) -> None:
        """Close this event loop's connections; the next call opens new ones."""
        clients = self._clients.pop(asyncio.get_running_loop(), {})
        for client in clients.values():
            await client.aclose()

    async def effect(
        self,
        step_id: str,  # noqa: ARG002
        handler: Callable[[], Awaitable[T]],
        changes: Recordable,  # noqa: ARG002
        codec: Codec[T] | None = None,  # noqa: ARG002
    ) -> T:
        """Call ``handler``; its changes stay."""
        return await handler()

    async def parallel(self, calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T | Exception]:
        """Run all at the same time."""

        async def result_or_error(call: Callable[[], Awaitable[T]]) -> T | Exception:
            try:
                return await call()
            except Exception as error:  # noqa: BLE001 - errors are values here
                return error

        return list(await asyncio.gather(*(result_or_error(call) for call in calls)))

    async def publish(self, chunk: dict[str, Any]) -> None:
        """Pass the chunk on, if anybody listens."""
        if self._publish is not None:
            await self._publish(chunk)

    async def ask(self, step_id: str, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Refuse: nobody can be reached from here unless the run was given an ``approver``.

        Raises:
            ConfigurationError: Always.
        """
        names = ", ".join(call.name for call in request.calls) or request.message
        raise ConfigurationError(
            f"Agent {request.agent!r} must ask a person ({names}, step {step_id!r}). Pass "
            "approver=… to run(), or run inside an Inngest function."
        )

    def is_final(self, error: BaseException) -> bool:  # noqa: ARG002 - the interface's argument
        """Return True: nobody runs a direct run again."""
        return True

    def repeats(self, error: Exception) -> bool:  # noqa: ARG002
        """Return False: nothing is remembered."""
        return False

    def to_caller_error(self, error: Exception) -> Exception:
        """Return the error."""
        return error


_NOTHING = nullcontext()
_IN_HEADER = re.compile(r"[\x21-\x7e]+")

_shared: list[DirectRuntime] = []


def shared_runtime() -> DirectRuntime:
    """Return the runtime of runs that were given none; it keeps connections open between runs."""
    if not _shared:
        _shared.append(DirectRuntime())
    return _shared[0]
