"""create_app: the ASGI app that the useAgent hook talks to."""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast
from weakref import WeakKeyDictionary

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from agentkit_py._core.untrusted import get_logger
from agentkit_py._engine.option_checks import expect_method, wrong
from agentkit_py.agent import Agent
from agentkit_py.errors import ConfigurationError
from agentkit_py.network import Network, Target
from agentkit_py.routing import is_open
from agentkit_py.runtime.current import close_shared_runtime
from agentkit_py.server import chat, desk, facts, frontends, staff, streams, threads
from agentkit_py.server.api import Api, Endpoint, guarded, http_error, openapi_document, respond
from agentkit_py.server.approvals import (
    answer_approval,
    approvals_stream,
    approve_tool,
    list_approvals,
    read_asked,
)
from agentkit_py.server.auth import Auth, Authenticator, StreamTokens
from agentkit_py.server.chat_page import ChatPage
from agentkit_py.server.config import OWNER, ServerOptions, ServerSettings, agents_in
from agentkit_py.server.errors import ApiError, invalid
from agentkit_py.server.following import ListWatch, OpenStreams
from agentkit_py.server.formats import AG_UI, VERCEL, FormatName, FrontEnd, format_of
from agentkit_py.server.frontends import respond_to
from agentkit_py.server.hub import Hub
from agentkit_py.server.local import LocalRuns
from agentkit_py.server.notices import Notifier
from agentkit_py.server.people import StaffNews
from agentkit_py.server.runs import APPROVALS, TAKEOVERS, Backend
from agentkit_py.stores import HistoryStore, MemoryHistory, ThreadLease
from agentkit_py.stores.base import thread_store

if TYPE_CHECKING:
    from agentkit_py.inngest.sending import Client

REALTIME_PATH = "/v1/realtime/connect"
"""The path that Inngest's realtime client connects to, at the root of the host."""

ENDPOINTS: tuple[Endpoint[Any], ...] = (
    chat.list_agents,
    chat.chat,
    chat.cancel,
    chat.realtime_token,
    approve_tool,
    list_approvals,
    answer_approval,
    staff.list_takeovers,
    staff.staff_thread,
    staff.explain_thread,
    staff.join_thread,
    staff.say_in_thread,
    staff.hand_back_thread,
    desk.note_in_thread,
    desk.matrix_of_thread,
    desk.list_staff_threads,
    threads.list_threads,
    threads.search_threads,
    threads.create_thread,
    threads.fork_thread,
    threads.list_forks,
    threads.rewind_thread,
    threads.get_thread,
    threads.delete_thread,
    facts.list_facts,
    facts.correct_fact,
    facts.forget_fact,
    facts.forget_facts,
    frontends.vercel_thread,
    frontends.ag_ui_thread,
)
"""The JSON endpoints; streams, health and the realtime WebSocket are routes of `_app`."""


def create_app(
    *,
    networks: Sequence[Network[Any, Any]] = (),
    agents: Sequence[Agent[Any, Any]] = (),
    history: HistoryStore | None = None,
    client: Client | None = None,
    auth: Auth | Literal["local"] | None = None,
    page: ChatPage | None = None,
    **options: Unpack[ServerOptions],
) -> Starlette:
    """Return an ASGI app with the endpoints that the npm package ``@inngest/use-agent`` calls.

    Without ``client``, runs are tasks of this process; with it, they are the functions that
    `agentkit_py.inngest.create_functions` makes of the same networks and agents.

    Args:
        networks: Networks that answer. The first of all is the default; a client may name another
            with ``network`` or ``agent`` in its body.
        agents: Agents that answer by themselves.
        history: The store of all threads, in place of the networks' own.
        client: The Inngest client, for runs as Inngest functions.
        auth: Returns the user's id of a request, None refuses it; sync or async. ``"local"``: a
            single user, and only programs on this machine are answered.
        page: The chat page for customers to serve; None: none.
        options: See `ServerOptions`.

    Raises:
        ConfigurationError: It could not work, or would answer everybody.
    """
    if auth == "local" and options.get("may_answer") is None:
        options.setdefault("approvers", (OWNER,))  # no other users exist
    if auth == "local" and options.get("may_take_over") is None:
        options.setdefault("staff", (OWNER,))
    given: object = page
    if given is not None and not isinstance(given, ChatPage):
        raise wrong("create_app", "page", "ChatPage(…)", given)
    api = api_of(_targets(networks, agents), auth, options, history, client)
    if page is not None:
        _check_page(page, api)
    return _app(api, page)


def _check_page(page: ChatPage, api: Api) -> None:
    """Refuse a page that would show no replies, or hide the texts of an agent that is not there."""
    if not api.backend.streams:
        raise ConfigurationError(
            "create_app: page=… shows the server's streams, and replies of Inngest functions are "
            'in them with realtime="store" only: pass it here and to create_functions(…).'
        )
    targets = api.settings.targets.values()
    known = {agent.name for target in targets for agent in agents_in(target)}
    if any(is_open(getattr(target, "router", None)) for target in targets):
        return  # a router may bring other agents along
    for name in page.inner_agents:
        if name not in known:
            raise ConfigurationError(
                f"ChatPage: inner_agents: there is no agent {name!r}; there are "
                f"{', '.join(map(repr, sorted(known)))}"
            )


def api_of(
    targets: Mapping[tuple[str, str], Target],
    auth: Auth | Literal["local"] | None,
    options: ServerOptions,
    history: HistoryStore | None = None,
    client: Client | None = None,
) -> Api:
    """Return the parts that endpoints share; see `create_app`."""
    unknown = sorted(options.keys() - ServerOptions.__optional_keys__)
    if unknown:
        raise ConfigurationError(f"create_app has no option {unknown[0]!r}")
    if client is not None:
        expect_method("create_app", "client", client, "send", "an inngest.Inngest(…)")
    authenticator = Authenticator(auth, options.get("origins", ()))
    store = _store(history, targets)
    settings = ServerSettings(targets=targets, store=store, **options)
    if client is None and settings.leases and store.lease is None:
        store.lease = ThreadLease()
    hub = Hub(settings.hub_limits)
    tokens = StreamTokens(settings.secret, settings.limits.token_seconds)
    open_streams = OpenStreams(settings.limits.streams_per_user)
    notifier = Notifier(settings.notify, settings.thread_url, open_streams)
    return Api(
        settings=settings,
        authenticator=authenticator,
        backend=_backend(settings, hub, tokens, notifier, client),
        hub=hub,
        tokens=tokens,
        streams=open_streams,
        notifier=notifier,
        news=StaffNews(settings.store, hub),
        queue=ListWatch(hub, TAKEOVERS, partial(staff.read_queue, settings)),
        asked=ListWatch(hub, APPROVALS, partial(read_asked, settings)),
    )


def _targets(
    networks: Sequence[Network[Any, Any]], agents: Sequence[Agent[Any, Any]]
) -> dict[tuple[str, str], Target]:
    """Index networks and agents by kind and name, and refuse duplicate names."""
    for option, given, kind in (("networks", networks, Network), ("agents", agents, Agent)):
        value: object = given
        if isinstance(value, Network | Agent | str) or not isinstance(value, Sequence):
            found: object = getattr(value, "name", value)
            hint = (
                f"write {option}=[…]" if isinstance(value, kind) else f"it takes {kind.__name__}s"
            )
            raise ConfigurationError(f"create_app: {option} is a list, got {found!r:.80}; {hint}")
        for item in cast("Sequence[object]", value):
            if not isinstance(item, kind):
                other = "agents" if option == "networks" else "networks"
                hint = f"; an item of {other}=[…]?" if isinstance(item, Network | Agent) else ""
                raise ConfigurationError(
                    f"create_app: {option} takes {kind.__name__}s, got {item!r:.80}{hint}"
                )
    named: list[tuple[tuple[str, str], Target]] = [(("network", n.name), n) for n in networks]
    named += [(("agent", a.name), a) for a in agents]
    found = dict(named)
    if not found:
        raise ConfigurationError("create_app needs networks=[…] or agents=[…]; it got none.")
    if len(found) < len(named):
        names = [key for key, _ in named]
        twice = next(key for key in names if names.count(key) > 1)
        raise ConfigurationError(f"create_app: there are two {twice[0]}s called {twice[1]!r}")
    return found


def _store(history: HistoryStore | None, targets: Mapping[tuple[str, str], Target]) -> HistoryStore:
    """Return the store of all threads: the given store, the targets' own, or a store in memory."""
    own = {id(item.history): item.history for item in targets.values() if item.history is not None}
    found = [history] if history is not None else list(own.values())
    if not found:
        logger.warning(
            "create_app: no network or agent has a history, so threads are kept in this process's "
            'memory and are lost when it ends. Pass history=…, e.g. SqliteHistory("threads.db"); '
            "history=MemoryHistory() says that this is meant."
        )
        return MemoryHistory()
    if len(found) > 1:
        raise ConfigurationError(
            "create_app: networks and agents have several histories; pass history=… for all of them"
        )
    store = thread_store(found[0])
    if store is None:
        raise ConfigurationError(
            f"create_app: history must be a HistoryStore, so that threads can be listed for each "
            f"user; got {found[0]!r:.80}"
        )
    return store


def _backend(
    settings: ServerSettings,
    hub: Hub,
    tokens: StreamTokens,
    notifier: Notifier,
    client: Client | None,
) -> Backend:
    if client is None:
        return LocalRuns(settings, hub, tokens, notifier)
    from agentkit_py.server.durable import InngestRuns  # noqa: PLC0415 - needs the Inngest SDK

    return InngestRuns(settings, client, hub, tokens)


def _app(api: Api, page: ChatPage | None = None) -> Starlette:
    async def openapi(_request: Request) -> Response:
        return respond(openapi_document(ENDPOINTS))

    settings = api.settings
    ready = Readiness(api.backend, settings.store, settings.limits.health_seconds)

    app = Starlette(
        routes=[
            Route(
                "/api/takeovers/stream",
                guarded(partial(staff.takeovers_stream, api)),
                methods=["GET"],
            ),
            *(endpoint.route(api) for endpoint in ENDPOINTS),
            staff.page(),
            *([] if page is None else [page.route()]),
            Route(
                "/api/approvals/stream",
                guarded(partial(approvals_stream, api)),
                methods=["GET"],
            ),
            Route("/api/stream", guarded(partial(streams.events, api)), methods=["GET"]),
            *_front_ends(api),
            Route("/openapi.json", openapi, methods=["GET"]),
            Route("/health/live", live, methods=["GET"]),
            Route("/health/ready", guarded(ready), methods=["GET"]),
            WebSocketRoute(REALTIME_PATH, partial(streams.realtime, api)),
        ],
        middleware=_middleware(api.authenticator.origins),
        exception_handlers={HTTPException: http_error},
        lifespan=_lifespan,
    )
    app.state.api = api
    return app


def _front_ends(api: Api) -> list[Route]:
    """Return the routes whose answers are replies in the protocol of a front end."""
    say, resume = frontends.post_reply, frontends.resume_reply
    found = [
        ("POST", "/api/vercel", partial(say, VERCEL, api)),
        ("GET", "/api/vercel/{threadId}/stream", partial(resume, VERCEL, api)),
        ("POST", "/api/ag-ui", partial(say, AG_UI, api)),
    ]
    return [Route(path, guarded(serve), methods=[method]) for method, path, serve in found]


def _middleware(origins: Sequence[str]) -> list[Middleware]:
    found = [Middleware(OneLength)]
    if origins:
        found.append(
            Middleware(
                CORSMiddleware,
                allow_origins=list(origins),
                allow_methods=["GET", "POST", "DELETE"],
                allow_headers=["Authorization", "Content-Type", "Last-Event-ID"],
                allow_credentials=True,
            )
        )
    return found


class OneLength:
    """Refuses requests with two lengths, and closes their connection (RFC 9112, 6.1).

    Servers use either length. A proxy before them may use the other, and then forward an attacker's
    text as the next request, of another user.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Wrap an application."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        names = {name.lower() for name, _ in scope.get("headers", ())}
        if {b"content-length", b"transfer-encoding"} <= names:
            refused = invalid("A request has a length or is chunked, not both.")
            answer = respond(refused.body(), refused.status, {"Connection": "close"})
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)


def realtime_app(app: Starlette) -> ASGIApp:
    """Return the WebSocket alone, for an API that is mounted under a prefix.

    Realtime clients connect to the root of the host: ``main.mount("/v1/realtime",
    realtime_app(api))``.
    """
    connect = partial(streams.realtime, app.state.api)
    return Starlette(routes=[WebSocketRoute("/connect", connect)])


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncGenerator[None]:
    """Open the app's parts before the first request, and close them after the last.

    An app that is served by itself does it; an app that is mounted in another needs it in that
    app's lifespan: ``async with lifespan(api): yield``.
    """
    api: Api = app.state.api
    async with AsyncExitStack() as stack:
        if api.backend.runs_here:  # else nothing here that needs its MCP servers
            for target in api.settings.targets.values():
                await stack.enter_async_context(target)
        await api.settings.store.setup()
        stack.push_async_callback(api.settings.store.close)
        await api.backend.join()
        stack.push_async_callback(api.backend.leave)
        api.backend.open()
        if api.backend.streams:
            api.news.open()
        stack.push_async_callback(close_shared_runtime)
        stack.push_async_callback(api.backend.close)
        stack.push_async_callback(api.decisions.idle)
        stack.push_async_callback(api.notifier.idle)
        stack.push_async_callback(api.news.close)
        stack.callback(_StopSignals(api.backend).restore)
        yield


class _StopSignals:
    """Lets SIGTERM end the runs before the server that serves the app handles the signal.

    uvicorn closes its port at once: for the time that runs get to end, a new message would be
    refused a connection, instead of a response to try again in some seconds.
    """

    def __init__(self, backend: Backend) -> None:
        """Intercept the signals before the server's handlers, if it has any."""
        self._backend = backend
        self._loop = asyncio.get_running_loop()
        self._ending: asyncio.Task[None] | None = None
        self._handlers: dict[int, Any] = {}
        in_main = threading.current_thread() is threading.main_thread()
        # A handler that is not a server's method belongs to an event loop, which gets signals
        # elsewhere.
        if in_main and inspect.ismethod(signal.getsignal(signal.SIGTERM)):
            for number in (signal.SIGINT, signal.SIGTERM):
                self._handlers[number] = signal.signal(number, self.heard)

    @property
    def should_exit(self) -> bool:
        """True once the server stops, as streams ask who takes the signal (sse-starlette)."""
        return getattr(self._handlers[signal.SIGTERM].__self__, "should_exit", False)

    def restore(self) -> None:
        """Leave signals to the server."""
        for number, handler in self._handlers.items():
            if signal.getsignal(number) == self.heard:
                signal.signal(number, handler)

    def heard(self, number: int, _frame: FrameType | None) -> None:
        """Take a signal; a second signal goes to the server."""
        self.restore()
        if number == signal.SIGTERM:
            self._loop.call_soon_threadsafe(self._begin)
        else:
            signal.raise_signal(number)

    def _begin(self) -> None:
        self._ending = asyncio.create_task(self._end())

    async def _end(self) -> None:
        await self._backend.close()
        signal.raise_signal(signal.SIGTERM)


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncGenerator[None]:
    async with lifespan(app):
        yield


logger: logging.Logger = get_logger("agentkit_py.server")

_NO_THREAD = "00000000-0000-0000-0000-000000000000"
"""An id that no thread has; a UUID, since TypeScript's tables take nothing else."""

_RETRY = {"Retry-After": "5"}


async def live(_request: Request) -> Response:
    """`GET /health/live`: answer; who gets no answer may restart the process."""
    return respond({"status": "ok"})


class Readiness:
    """`GET /health/ready`: new requests are welcome here, and the store answers.

    Every client may ask, so the store gets a single query at a time, for any number of requests.
    """

    def __init__(self, backend: Backend, store: HistoryStore, seconds: float) -> None:
        """Set the backend and the store to check, and the seconds that the store may take."""
        self._backend = backend
        self._store = store
        self._seconds = seconds
        self._asking: asyncio.Task[bool] | None = None

    async def __call__(self, _request: Request) -> Response:
        """Answer 200, or 503 with the reason."""
        if not self._backend.accepts_runs():
            raise ApiError(503, "stopping", "The server is stopping.", _RETRY)
        if not await self._store_answers():
            raise ApiError(503, "store", "The store of threads does not answer.", _RETRY)
        return respond({"status": "ok"})

    async def _store_answers(self) -> bool:
        """Return whether the store answered in time; a question without an answer stays open."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        asked = self._asking
        await asyncio.wait([asked], timeout=self._seconds)
        return asked.done() and not asked.cancelled() and asked.result()

    async def _ask(self) -> bool:
        try:
            await self._store.thread_exists(_NO_THREAD)
        except Exception:
            logger.exception("The server is not ready: its store does not answer")
            return False
        return True


async def stream_response(
    target: Target,
    request: Request,
    format: FormatName = "agentkit",  # noqa: A002 - its name
    *,
    user_id: str | None = None,
    **options: Unpack[ServerOptions],
) -> Response:
    """Answer a POST with the reply of a network or agent, as it comes.

    For your own routes, in FastAPI or Starlette. It works like `create_app` for the same request:
    the run continues if the client disconnects, and a repeated request gets
    the reply from its beginning; questions end the answer, and their answers resume the run.

    Args:
        target: The network or agent that answers, made once: data shared by its runs lasts as long
            as the process. Its threads are in its ``history``, else in memory.
        request: The request, its body not read.
        format: The protocol of the client: ``"vercel"`` (``useChat`` of the AI SDK), ``"ag-ui"``,
            or ``"agentkit"``, our own chunks between ``reply.started`` and ``reply.ended``, for a
            body ``{userMessage: {content, id?}, threadId?, answers?}``.
        user_id: The owner of the threads. None: the single user of this machine, and only
            programs on it are answered.
        options: As for `create_app`; the same in each call for a target.

    Returns:
        The response: server-sent events, or why the request is refused.

    Raises:
        ConfigurationError: The format is not known, or the options could not work or have changed.

    Example:
        ::

            @app.post("/ask")
            async def ask(request: Request) -> Response:
                return await stream_response(network, request, "vercel", user_id=user_of(request))
    """
    serve = guarded(partial(_serve, format_of(format), _api(target, options, user_id), user_id))
    return await serve(request)


async def _serve(front_end: FrontEnd, api: Api, user_id: str | None, request: Request) -> Response:
    if user_id is None:
        user_id = await api.authenticator.user_of(request)
    else:
        api.authenticator.check_page(request)
    return await respond_to(front_end, api, request, user_id)


_Apis = dict[tuple[int, bool], tuple[Api, ServerOptions]]
_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Apis] = WeakKeyDictionary()
"""The parts of a server for each target, by its id, and whether users are named."""


def _api(target: Target, options: ServerOptions, user_id: str | None) -> Api:
    made = _of_loop.setdefault(asyncio.get_running_loop(), _Apis())
    key = id(target), user_id is not None
    known = made.get(key)
    if known is None:
        given = options.copy()
        if user_id is None and options.get("may_answer") is None:
            options.setdefault("approvers", (OWNER,))  # no other users exist
        kind = "network" if isinstance(target, Network) else "agent"
        api = api_of({(kind, target.name): target}, "local", options)
        api.backend.open()
        known = made[key] = api, given
    elif known[1] != options:
        names = {*options, *known[1]}
        changed = sorted(name for name in names if options.get(name) != known[1].get(name))
        raise ConfigurationError(
            f"stream_response: {changed[0]} differs from the first call for "
            f"{target.name!r}: runs and readers share it, so make it once, outside of the route"
        )
    return known[0]
