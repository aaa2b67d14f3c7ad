"""The worker: a process that serves functions through the Inngest SDK.

Requests go through the SDK's FastAPI integration, its public way in. Events and realtime messages
leave through the client's HTTP client, which no public API can replace: `ClientTransport` is
the only place here that touches something private of the SDK.
"""

from __future__ import annotations

import warnings
from collections.abc import Generator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx
import inngest

from agentkit_py._core.lazy import missing_package
from agentkit_py.errors import ConfigurationError, MissingDependencyError

if _missing := missing_package("fastapi"):
    raise MissingDependencyError(_missing, "inngest", "ReplayExecutor")

# After the check, which names the extra.
import fastapi

with warnings.catch_warnings():
    # The SDK's handler uses something of pydantic's that is deprecated; nothing to do about here.
    warnings.simplefilter("ignore", DeprecationWarning)
    import inngest.fast_api

CRON_EVENT = "inngest/scheduled.timer"
"""The event that the server makes for a function with a schedule, ``{cron}`` in its data."""

_HOST, _PATH = "worker.invalid", "/api/inngest"
_DEFAULT_RETRIES = 4


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """The worker's answer to a request."""

    status: int
    body: bytes
    headers: httpx.Headers

    @property
    def no_retry(self) -> bool:
        """True if the worker says that trying again is of no use."""
        return self.headers.get("x-inngest-no-retry") == "true"

    @property
    def retry_after(self) -> str | None:
        """The time (ISO 8601) before which it must not be tried again."""
        return self.headers.get("retry-after")


@dataclass(frozen=True, slots=True)
class Config:
    """The server's data on a function."""

    id: str
    max_attempts: int
    triggers: tuple[tuple[str, str | None], ...]
    """Event names with their expressions."""

    cancels: tuple[tuple[str, str | None], ...] = ()


def _configs_of(functions: Sequence[inngest.Function[Any]]) -> dict[str, Config]:
    """Return the configurations that functions register with."""
    found: dict[str, Config] = {}
    for function in functions:
        config = function.get_config(f"http://{_HOST}{_PATH}")
        if config.on_failure is not None:
            found[config.on_failure.id] = _config_of(config.on_failure)
        found[config.main.id] = _config_of(config.main)
    return found


def _config_of(config: Any) -> Config:
    retries = config.steps["step"].retries
    return Config(
        config.id,
        (retries.attempts if retries is not None else _DEFAULT_RETRIES) + 1,
        tuple(map(_trigger, config.triggers)),
        tuple((cancel.event, cancel.if_exp) for cancel in config.cancel or ()),
    )


def _trigger(trigger: inngest.TriggerEvent | inngest.TriggerCron) -> tuple[str, str | None]:
    """Return the event and expression of a trigger; time is not played: a test sends the event."""
    if isinstance(trigger, inngest.TriggerEvent):
        return trigger.event, trigger.expression
    return CRON_EVENT, f"event.data.cron == '{trigger.cron}'"


class Worker:
    """One process that serves functions."""

    def __init__(self, client: inngest.Inngest, functions: Sequence[inngest.Function[Any]]) -> None:
        """Serve ``functions``.

        Raises:
            ConfigurationError: The client is in cloud mode, whose requests are signed, or two
                functions have the same name.
        """
        if client.is_production:
            raise ConfigurationError(
                "ReplayExecutor is a development server: make the client with is_production=False"
            )
        names = [function.id for function in functions]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigurationError(f"Two functions are called {twice[0]!r}")
        self.configs: dict[str, Config] = _configs_of(functions)
        self._app = fastapi.FastAPI(openapi_url=None)
        inngest.fast_api.serve(self._app, client, list(functions), serve_path=_PATH)

    async def post(
        self, function_id: str, step_id: str, body: bytes, headers: dict[str, str]
    ) -> WorkerAnswer:
        """Send a request through the SDK's own handler, as an ASGI server does."""
        given = {"host": _HOST, "content-type": "application/json", **headers}
        query = urlencode({"fnId": function_id, "stepId": step_id})
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": _PATH,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        }
        messages: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: MutableMapping[str, Any]) -> None:
            messages.append(message)

        await self._app(scope, receive, send)
        start, *rest = messages
        found = httpx.Headers(start["headers"])
        return WorkerAnswer(start["status"], b"".join(one.get("body", b"") for one in rest), found)


class _Watcher(inngest.Middleware):
    """Sees how many remembered steps a request did not ask for."""

    steps: inngest.StepMemos | None = None

    async def transform_input(
        self,
        ctx: inngest.Context | inngest.ContextSync,
        function: inngest.Function[Any],
        steps: inngest.StepMemos,
    ) -> None:
        """Keep the steps; each is removed once it is requested."""
        self.steps = steps


class _AnyThreadClient(httpx.AsyncClient):
    """A client without sockets, which may be used from any thread."""

    def is_same_thread(self) -> bool:
        """Report support, so that the SDK does not fall back on its sync client."""
        return True


class ClientTransport:
    """Lets a client's events and realtime messages go to a transport, and watches its requests."""

    def __init__(self, client: inngest.Inngest, transport: Any) -> None:
        """Make the clients; nothing goes through them before `use`."""
        self._client = client
        self._http: Any = getattr(client, "_http_client")  # noqa: B009 - pyright: it is private
        self._ours = {
            "_http_client": _AnyThreadClient(transport=transport, trust_env=False),
            "_http_client_sync": httpx.Client(transport=transport, trust_env=False),
        }
        self._watcher: _Watcher | None = None

    @property
    def left_over(self) -> int:
        """Remembered steps that the last request did not ask for."""
        steps = self._watcher.steps if self._watcher is not None else None
        return steps.size if steps is not None else 0

    def _watch(self, client: inngest.Inngest, raw_request: object) -> _Watcher:
        self._watcher = _Watcher(client, raw_request)
        return self._watcher

    @contextmanager
    def use(self) -> Generator[None]:
        """Connect the client inside the block."""
        middleware = self._client.middleware
        before = {name: getattr(self._http, name) for name in self._ours}
        self._client.middleware = [*middleware, self._watch]
        self._put(self._ours)
        try:
            yield
        finally:
            self._client.middleware = middleware
            self._put(before)

    def _put(self, clients: dict[str, Any]) -> None:
        for name, client in clients.items():
            setattr(self._http, name, client)
