"""create_app: the ASGI app that the useAgent hook talks to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from agentkit_py.agent import Agent
from agentkit_py.errors import ConfigurationError
from agentkit_py.network import Network
from agentkit_py.runs import RunLimits
from agentkit_py.runtime.current import close_shared_runtime
from agentkit_py.server import chat, openapi, streams, threads
from agentkit_py.server.api import Api, Handler, answer, endpoint, guarded, http_error
from agentkit_py.server.auth import Auth, Door, check_auth, checked_origins
from agentkit_py.server.config import ClientRules, ServerLimits, Settings, store_of, targets_of
from agentkit_py.server.hub import Hub, HubLimits
from agentkit_py.server.jobs import Backend
from agentkit_py.server.local import LocalRuns
from agentkit_py.server.streams import Readers
from agentkit_py.server.tokens import Tokens, checked_secret
from agentkit_py.stores import HistoryStore

if TYPE_CHECKING:
    import inngest

REALTIME_PATH = "/v1/realtime/connect"
"""Where Inngest's realtime client connects, at the root of the host."""


class ServerOptions(TypedDict, total=False):
    """Options of `create_app`; all may be left out."""

    client_state: Collection[str]
    """Keys of the state that clients may set; none unless given."""

    client_history: bool
    """Go on from the texts that the client shows, in place of the stored thread."""

    user_key: str
    """Where in the state the user's id is put, for tools; ``user_id`` unless given."""

    origins: Sequence[str]
    """Pages on other hosts that may use the API, as ``https://host``."""

    limits: ServerLimits
    """What users may ask for."""

    hub_limits: HubLimits
    """How much is kept for readers."""

    run_limits: RunLimits
    """Limits of each run in this process."""

    extended: bool
    """Also stream ``usage.updated`` and ``metadata.updated``: tokens and processors."""

    secret: str
    """Signs realtime tokens, the same in all processes; made up unless given."""

    realtime_url: str
    """Where browsers reach the realtime server, if not where we think."""


def create_app(
    *,
    networks: Sequence[Network] = (),
    agents: Sequence[Agent] = (),
    history: HistoryStore | None = None,
    client: inngest.Inngest | None = None,
    auth: Auth | Literal["local"] | None = None,
    **options: Unpack[ServerOptions],
) -> Starlette:
    """An ASGI app with the endpoints that the npm package ``@inngest/use-agent`` calls.

    Without ``client``, runs are tasks of this process; with one, they are the functions that
    `agentkit_py.inngest.create_functions` makes of the same networks and agents.

    Args:
        networks: Networks that answer. The first of all is the default; a client may name another
            with ``network`` or ``agent`` in its body.
        agents: Agents that answer by themselves.
        history: The store of all threads, in place of the networks' own.
        client: The Inngest client, for runs as Inngest functions.
        auth: Gives the user's id of a request, None refuses it; sync or async. ``"local"``: one
            user, and only programs on this machine are answered.
        options: See `ServerOptions`.

    Raises:
        ConfigurationError: It could not work, or would answer everybody.
    """
    unknown = sorted(options.keys() - ServerOptions.__optional_keys__)
    if unknown:
        raise ConfigurationError(f"create_app has no option {unknown[0]!r}")
    check_auth(auth)
    assert auth is not None
    targets = targets_of(networks, agents)
    settings = Settings(
        targets=targets,
        store=store_of(history, targets),
        limits=options.get("limits", ServerLimits()),
        rules=ClientRules(
            state_keys=frozenset(options.get("client_state", ())),
            history=options.get("client_history", False),
            user_key=options.get("user_key", "user_id"),
        ),
        run_limits=options.get("run_limits"),
        realtime_url=options.get("realtime_url"),
        extended=options.get("extended", False),
    )
    hub = Hub(options.get("hub_limits"))
    tokens = Tokens(checked_secret(options.get("secret")), settings.limits.token_seconds)
    origins = checked_origins(options.get("origins", ()))
    api = Api(
        settings=settings,
        door=Door(auth, origins),
        backend=_backend(settings, hub, tokens, client),
        hub=hub,
        tokens=tokens,
    )
    return _app(api, origins)


def _backend(
    settings: Settings,
    hub: Hub,
    tokens: Tokens,
    client: inngest.Inngest | None,
) -> Backend:
    if client is None:
        return LocalRuns(settings, hub, tokens)
    # Here, as it needs the SDK.
    from agentkit_py.server.durable import InngestRuns  # noqa: PLC0415 - loaded only where it is used

    return InngestRuns(settings, client)


def _app(api: Api, origins: Sequence[str]) -> Starlette:
    readers = Readers(api.settings.limits.streams_per_user)
    app = Starlette(
        routes=_routes(api, readers),
        middleware=_middleware(origins),
        exception_handlers={HTTPException: http_error},
        lifespan=_lifespan,
    )
    app.state.api = api
    app.state.readers = readers
    return app


def _routes(api: Api, readers: Readers) -> list[BaseRoute]:
    def route(path: str, **handlers: Handler) -> list[BaseRoute]:
        return [Route(path, endpoint(api, one), methods=[m]) for m, one in handlers.items()]

    return [
        *route("/api/chat", POST=chat.chat),
        *route("/api/chat/cancel", POST=chat.cancel),
        *route("/api/approve-tool", POST=chat.approve_tool),
        *route("/api/realtime/token", POST=chat.realtime_token),
        *route("/api/threads", GET=threads.list_threads, POST=threads.create_thread),
        *route("/api/threads/{thread_id}", GET=threads.get_thread, DELETE=threads.delete_thread),
        Route("/api/stream", guarded(partial(streams.events, api, readers)), methods=["GET"]),
        Route("/openapi.json", _openapi, methods=["GET"]),
        WebSocketRoute(REALTIME_PATH, partial(streams.realtime, api, readers)),
    ]


async def _openapi(_request: Request) -> Response:
    return answer(openapi.document())


def _middleware(origins: Sequence[str]) -> list[Middleware]:
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Last-Event-ID"],
            allow_credentials=True,
        )
    ]


def realtime_app(app: Starlette) -> ASGIApp:
    """The WebSocket alone, for an API that is mounted under a prefix.

    Realtime clients connect to the root of the host: ``main.mount("/v1/realtime",
    realtime_app(api))``.
    """
    connect: Callable[[WebSocket], Any] = partial(
        streams.realtime, app.state.api, app.state.readers
    )
    return Starlette(routes=[WebSocketRoute("/connect", connect)])


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncGenerator[None]:
    """What must happen before the first request and after the last.

    An app that is served by itself does it; one that is mounted in another app needs it in that
    app's lifespan: ``async with lifespan(api): yield``.
    """
    api: Api = app.state.api
    async with AsyncExitStack() as stack:
        if api.backend.streams:  # else nothing runs here, and nothing needs its servers
            for target in api.settings.targets.values():
                await stack.enter_async_context(target)
        await api.settings.store.setup()
        api.backend.open()
        stack.push_async_callback(api.settings.store.close)
        stack.push_async_callback(close_shared_runtime)
        stack.push_async_callback(api.backend.close)
        yield


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncGenerator[None]:
    async with lifespan(app):
        yield
