"""DirectRuntime: runs here and now, with httpx, and remembers nothing."""

from __future__ import annotations

import asyncio
import os
import re
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeAlias, TypeVar

import anyio
import httpx

from agentkit_py._core.json import dumps
from agentkit_py.errors import (
    ConfigurationError,
    ModelError,
    ModelResponseError,
)
from agentkit_py.events.approvals import ApprovalAnswer, ApprovalRequest
from agentkit_py.models.base import Model
from agentkit_py.models.http_errors import error_from_response, error_in_body, redact
from agentkit_py.runtime.port import Codec, DeltaSink, Recordable
from agentkit_py.runtime.reading import Told, error_of_transport, is_stream, read_reply
from agentkit_py.runtime.retrying import Sleep, with_retries
from agentkit_py.runtime.watch import take_watch

T = TypeVar("T")
_Clients: TypeAlias = dict[httpx.AsyncBaseTransport | None, httpx.AsyncClient]


class DirectSteps:
    """Steps without durability: everything simply happens."""

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
        """Events need Inngest.

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
        """Inngest functions need Inngest.

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
        """Steps that simply happen."""
        return self._steps

    def within(self, step_id: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Nothing: ids of steps that nobody remembers need not be unique."""
        return _NOTHING

    def claim(self, name: str) -> str:
        """The name itself: ids of steps that nobody remembers need not be unique."""
        return name

    def new_id(self, key: str) -> str:  # noqa: ARG002
        """A random UUID."""
        return _random_uuid()

    def remembers(self, step_id: str) -> bool:  # noqa: ARG002 - the interface's argument
        """Never."""
        return False

    def now(self, key: str) -> datetime:  # noqa: ARG002
        """The clock."""
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
        key = self.api_key(model)
        headers = _headers(model, key)
        if on_delta is not None and model.adapter.assembler(model) is not None:
            streamed = dumps(model.adapter.stream_body(make_body())).encode()
            told = Told(on_delta)
            return await with_retries(
                lambda: self._stream(model, key, headers, streamed, told), model.retry, self._sleep
            )
        content = dumps(make_body()).encode()
        return await with_retries(
            lambda: self._send(model, key, headers, content), model.retry, self._sleep
        )

    async def _send(
        self, model: Model, key: str | None, headers: dict[str, str], content: bytes
    ) -> object:
        try:
            response = await self._client(model).post(
                model.adapter.url(model), content=content, headers=headers, timeout=model.timeout
            )
        except (httpx.RequestError, httpx.InvalidURL) as error:
            raise error_of_transport(model, error) from error
        _check_status(model, key, response)
        return _json_of(model, key, response)

    async def _stream(
        self, model: Model, key: str | None, headers: dict[str, str], content: bytes, told: Told
    ) -> object:
        adapter = model.adapter
        assembler = adapter.assembler(copy_model(model, api_key=key))
        assert assembler is not None
        request = self._client(model).stream(
            "POST",
            adapter.stream_url(model),
            content=content,
            headers={**headers, "accept": "text/event-stream"},
            timeout=model.timeout,  # between two pieces, too
        )
        try:
            async with request as response:
                if response.is_success and is_stream(response):
                    return await read_reply(model, response, assembler, told)
                await response.aread()
        except (httpx.RequestError, httpx.InvalidURL) as error:
            raise error_of_transport(model, error) from error
        except ModelError as error:
            failure = told.failure(model, error)
            if failure is error:
                raise
            raise failure from error
        _check_status(model, key, response)
        return _json_of(model, key, response)

    def api_key(self, model: Model) -> str | None:
        """The key for ``model``: its own, else the environment's.

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
        """Call ``handler``; what it changed stays changed."""
        return await handler()

    def recall(
        self,
        step_id: str,  # noqa: ARG002 - the port's argument
        changes: Recordable,  # noqa: ARG002 - the port's argument
    ) -> Any:
        """Nothing."""
        return None

    async def parallel(self, calls: Sequence[Callable[[], Awaitable[T]]]) -> list[T | Exception]:
        """Run all at the same time."""

        async def settle(call: Callable[[], Awaitable[T]]) -> T | Exception:
            try:
                return await call()
            except Exception as error:  # noqa: BLE001 - errors are values here
                return error

        return list(await asyncio.gather(*(settle(call) for call in calls)))

    async def publish(self, chunk: dict[str, Any]) -> None:
        """Hand the chunk on, if anybody listens."""
        if self._publish is not None:
            await self._publish(chunk)

    async def ask(self, step_id: str, request: ApprovalRequest) -> ApprovalAnswer | None:
        """Nobody can be reached from here unless the run was given an ``approver``.

        Raises:
            ConfigurationError: Always.
        """
        names = ", ".join(call.name for call in request.calls) or request.message
        raise ConfigurationError(
            f"Agent {request.agent!r} must ask a person ({names}, step {step_id!r}). Pass "
            "approver=… to run(), or run inside an Inngest function."
        )

    def is_final(self, error: BaseException) -> bool:  # noqa: ARG002 - the interface's argument
        """Always: nobody runs a direct run again."""
        return True

    def repeats(self, error: Exception) -> bool:  # noqa: ARG002
        """Never: nothing is remembered."""
        return False

    def outward(self, error: Exception) -> Exception:
        """The error itself."""
        return error


_NOTHING = nullcontext()
"""Holds nothing, so that one serves all."""


def _random_uuid() -> str:
    """What ``str(uuid.uuid4())`` gives, without the object: version 4 of RFC 9562."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


_IN_HEADER = re.compile(r"[\x21-\x7e]+")
_HEADER_VALUE = re.compile(r"(?:[\x21-\x7e]+(?:[ \t]+[\x21-\x7e]+)*)?")


def _headers(model: Model, key: str | None) -> dict[str, str]:
    """The request's headers, checked here since what the HTTP library says would show them."""
    headers = {"content-type": "application/json", **model.adapter.headers(model, key)}
    for name, value in headers.items():
        if not _HEADER_VALUE.fullmatch(value):
            raise ConfigurationError(
                f"The header {name!r} of {model.provider} model {model.model!r} holds characters "
                "that HTTP cannot carry (its value is not shown here)."
            )
    return headers


def _check_status(model: Model, key: str | None, response: httpx.Response) -> None:
    if not response.is_success:
        raise error_from_response(
            model,
            response.status_code,
            response.headers,
            response.text,
            now=datetime.now(UTC),
            api_key=key,
        )


def _json_of(model: Model, key: str | None, response: httpx.Response) -> object:
    try:
        body: object = response.json()
    except (ValueError, RecursionError) as error:
        kind = response.headers.get("content-type", "no content type")
        raise ModelResponseError(
            redact(f"answered with something that is no JSON ({kind})", model, key),
            provider=model.provider,
            model=model.model,
            excerpt=redact(response.text, model, key),
        ) from error
    failure = error_in_body(copy_model(model, api_key=key), body)
    if failure is not None:
        raise failure
    return body


def copy_model(model: Model, **changes: Any) -> Model:
    """Return the model with other settings, as a plain `Model` whatever its class is."""
    known: dict[str, Any] = {field.name: getattr(model, field.name) for field in fields(Model)}
    return Model(**{**known, **changes})


_shared: list[DirectRuntime] = []


def shared_runtime() -> DirectRuntime:
    """The runtime of runs that were given none; it keeps connections open between runs."""
    if not _shared:
        _shared.append(DirectRuntime())
    return _shared[0]
