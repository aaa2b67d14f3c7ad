"""Everything that is touched inside the Inngest SDK, in one place.

The SDK has no public door for a request but its web frameworks, and sends events and realtime
messages through an HTTP client that cannot be given a transport. Its own test helper goes past the
handler, past JSON and past retries, which is what a test has to see.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import inngest

from agentkit_py.errors import ConfigurationError

with warnings.catch_warnings():
    # The SDK's handler uses something of pydantic's that is deprecated; nothing to do about here.
    warnings.simplefilter("ignore", DeprecationWarning)
    from inngest._internal import comm_lib, net, server_lib


_logger = logging.getLogger("inngest")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the worker answered."""

    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def no_retry(self) -> bool:
        """Whether the worker says that trying again is of no use."""
        return self.headers.get("x-inngest-no-retry") == "true"

    @property
    def retry_after(self) -> str | None:
        """The time (ISO 8601) before which it must not be tried again."""
        return self.headers.get("retry-after")


@dataclass(frozen=True, slots=True)
class Config:
    """What the server knows of one function."""

    id: str
    max_attempts: int
    triggers: tuple[tuple[str, str | None], ...]
    """Event names with their expressions."""

    cancels: tuple[tuple[str, str | None], ...] = ()
    on_failure: str | None = None
    """Id of the function that is called when this one failed."""


_DEFAULT_RETRIES = 4


def configs_of(functions: Sequence[inngest.Function[Any]]) -> dict[str, Config]:
    """What the functions tell the server when they are registered."""
    found: dict[str, Config] = {}
    for function in functions:
        config = function.get_config("http://worker.invalid/api/inngest")
        failure = config.on_failure.id if config.on_failure is not None else None
        if config.on_failure is not None:
            found[config.on_failure.id] = _config_of(config.on_failure, None)
        found[config.main.id] = _config_of(config.main, failure)
    return found


def _config_of(config: Any, on_failure: str | None) -> Config:
    retries = config.steps["step"].retries
    return Config(
        config.id,
        (retries.attempts if retries is not None else _DEFAULT_RETRIES) + 1,
        tuple(
            (trigger.event, trigger.expression)
            for trigger in config.triggers
            if isinstance(trigger, inngest.TriggerEvent)
        ),
        tuple((cancel.event, cancel.if_exp) for cancel in config.cancel or ()),
        on_failure,
    )


class Worker:
    """One process that serves functions."""

    def __init__(self, client: inngest.Inngest, functions: Sequence[inngest.Function[Any]]) -> None:
        """Serve ``functions``.

        Raises:
            ConfigurationError: The client is in cloud mode, whose requests are signed.
        """
        if client.is_production:
            raise ConfigurationError(
                "ReplayExecutor is a development server: make the client with is_production=False"
            )
        self.configs: dict[str, Config] = configs_of(functions)
        self._handler = comm_lib.CommHandler(
            client=client,
            enable_unauthed_sync=None,
            framework=server_lib.Framework.FAST_API,
            functions=list(functions),
            streaming=None,
        )

    async def post(
        self, function_id: str, step_id: str, body: bytes, headers: dict[str, str]
    ) -> Answer:
        """Send a request through the SDK's own handler."""
        url = f"http://worker.invalid/api/inngest?fnId={function_id}&stepId={step_id}"
        request = comm_lib.CommRequest(
            body=body,
            headers={"content-type": "application/json", **headers},
            public_path=None,
            query_params={"fnId": function_id, "stepId": step_id},
            raw_request=None,
            request_url=url,
            serve_origin=None,
            serve_path=None,
        )
        response = await self._handler.post(request)
        content = response.body_bytes()
        if isinstance(content, Exception):  # as the SDK's own frameworks do
            response = comm_lib.CommResponse.from_error(_logger, content)
            content = response.body_bytes()
        assert isinstance(content, bytes)
        return Answer(
            response.status_code, content, {k.lower(): v for k, v in response.headers.items()}
        )


class Watcher(inngest.Middleware):
    """Sees how many remembered steps a request did not ask for."""

    steps: inngest.StepMemos | None = None

    async def transform_input(
        self,
        ctx: inngest.Context | inngest.ContextSync,  # noqa: ARG002 - the SDK's signature
        function: inngest.Function[Any],  # noqa: ARG002
        steps: inngest.StepMemos,
    ) -> None:
        """Keep the steps, which lose each one that is asked for."""
        self.steps = steps


class Connection:
    """Lets a client's events and realtime messages go to a transport, and watches its requests."""

    def __init__(self, client: inngest.Inngest, transport: Any) -> None:
        """Make the clients; nothing goes through them before `use`."""
        self._client = client
        self._http: Any = getattr(client, "_http_client")  # noqa: B009 - pyright: it is private
        asynchronous = net.ThreadAwareAsyncHTTPClient(transport=transport, trust_env=False)
        self._ours = {
            "_http_client": asynchronous.initialize(),
            "_http_client_sync": httpx.Client(transport=transport, trust_env=False),
        }
        self._watcher: Watcher | None = None

    @property
    def left_over(self) -> int:
        """Remembered steps that the last request did not ask for."""
        steps = self._watcher.steps if self._watcher is not None else None
        return steps.size if steps is not None else 0

    def _watch(self, client: inngest.Inngest, raw_request: object) -> Watcher:
        self._watcher = Watcher(client, raw_request)
        return self._watcher

    @contextmanager
    def use(self) -> Generator[None]:
        """The client is connected inside the block."""
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
