"""DirectRuntime: everything happens in this process, and nothing is remembered."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import weakref
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias, TypeVar

import anyio
import httpx

from agentkit_py.errors import (
    AbruptExitError,
    AgentKitError,
    AuthenticationError,
    ConfigurationError,
    ModelError,
    is_control_error,
)
from agentkit_py.events.approvals import ApprovalAnswer
from agentkit_py.models.base import Model, copy_model
from agentkit_py.models.binding import account_tag
from agentkit_py.models.function_model import RequestJson
from agentkit_py.runtime.containing import contained
from agentkit_py.runtime.guards import guarded
from agentkit_py.runtime.journal import JournalRuntime
from agentkit_py.runtime.keys import key_of
from agentkit_py.runtime.model_requests import HttpRequest, Sleep
from agentkit_py.runtime.port import DeltaSink, Runtime, take_watch, uuid_of

T = TypeVar("T")
logger: logging.Logger = logging.getLogger("agentkit_py")
_Clients: TypeAlias = dict[httpx.AsyncBaseTransport | None, httpx.AsyncClient]


MOST_CLIENTS = 32
"""Transports of models' own that are kept for the next request, of those used last."""


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


class DirectRuntime(Runtime):
    """The in-process runtime: model calls over httpx with retries, everything else directly.

    Args:
        transport: An httpx transport for all requests, e.g. ``FakeProvider().transport``.
        environment: Where API keys are looked up; the process environment unless given.
        sleep: How to wait between attempts; tests pass a function that returns at once.
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
        """Store the settings; connections are opened when needed."""
        self._transport = transport
        self._environment = os.environ if environment is None else environment
        self._sleep = sleep
        self._publish = publish
        # Connections belong to the event loop that opened them, so each loop has its client.
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Clients] = (
            weakref.WeakKeyDictionary()
        )

    def recording(
        self,
        journal: Mapping[str, Any] | None,
        answers: Mapping[str, ApprovalAnswer | None],
    ) -> JournalRuntime:
        """Return the runtime of a run that may pause for a person."""
        return JournalRuntime(self, journal, answers)

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
        if watch is not None:
            return await watch.here(partial(self.infer, step_id, model, make_body), on_delta)
        if model.answers is not None:
            body, answers = make_body(), model.answers
            if isinstance(body, RequestJson):
                body = body.shown_to(on_delta)
            answer = partial(_answered, model, partial(answers, body))
            if not model.guards:
                return await answer()
            return await guarded(model, self.account(model), len(str(body)), answer)
        key = await self.current_key(model)
        try:
            return await self._request(model, key).send(make_body, on_delta)
        except AuthenticationError as error:
            refused = error
        # The key may have been rotated or revoked: the function is called for a new key.
        other = await self.current_key(model) if callable(model.api_key) else key
        if other == key:
            raise refused
        logger.warning(
            "%s refused the key of model %r (HTTP %d); asked again with the key that api_key=… "
            "gives now",
            *(model.provider, model.model, refused.status),
        )
        return await self._request(model, other).send(make_body, on_delta)

    def _request(self, model: Model, key: str | None) -> HttpRequest:
        known = copy_model(model, api_key=key) if callable(model.api_key) else model
        return HttpRequest(self._client(model), known, key, self._sleep)

    async def current_key(self, model: Model) -> str | None:
        """Return the current key for ``model``: its function's result, else as `api_key`.

        Raises:
            ConfigurationError: The model needs a key and has none, or the key cannot be sent.
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
            ConfigurationError: The model needs a key and has none, or the key cannot be sent.
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
                "agentkit_py.testing.ScriptedModel plays a model."
            )
        return key or None

    def _client(self, model: Model) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        clients = self._clients.setdefault(loop, {})
        transport = model.transport or self._transport or providers.get()
        client = clients.pop(transport, None)
        if client is None or client.is_closed:
            client = httpx.AsyncClient(transport=transport)
        clients[transport] = client  # the order is that of use
        if len(clients) > MOST_CLIENTS:
            # The transport's owner closes it; the client has no resources of its own.
            del clients[next(one for one in clients if one is not None)]
        return client

    async def aclose(self) -> None:
        """Close this event loop's connections; the next call opens new ones."""
        clients = self._clients.pop(asyncio.get_running_loop(), {})
        for client in clients.values():
            await client.aclose()

    async def publish(self, chunk: dict[str, Any]) -> None:
        """Pass the chunk on, if anybody listens."""
        if self._publish is not None:
            await self._publish(chunk)

    async def try_again(self, seconds: float, error: Exception) -> None:
        """Wait in this process."""
        await self._sleep(seconds)


providers: ContextVar[httpx.AsyncBaseTransport | None] = ContextVar(
    "agentkit_providers", default=None
)
"""The transport of all requests that have none of their own, e.g. a test's."""

_IN_HEADER = re.compile(r"[\x21-\x7e]+")

_shared: list[DirectRuntime] = []


def shared_runtime() -> DirectRuntime:
    """Return the runtime of runs that were given none; it keeps connections open between runs."""
    if not _shared:
        _shared.append(DirectRuntime())
    return _shared[0]
