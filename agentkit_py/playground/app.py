"""The playground's HTTP side: the page, JSON for it under ``/dev-api``, and who has access."""

from __future__ import annotations

import asyncio
import json
import math
import secrets
import socket
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import uuid4

import uvicorn
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request, cookie_parser
from starlette.responses import (
    FileResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentkit_py._core.urls import host_name, is_loopback
from agentkit_py.errors import AgentKitError, ThreadNotFoundError
from agentkit_py.events.approvals import ApprovalAnswer
from agentkit_py.matrix import ContextMatrix
from agentkit_py.matrix.page import AS_NOW, VIEWER, matrix_json
from agentkit_py.network import explain_thread
from agentkit_py.playground.describe import (
    CALL_FIELDS,
    call_json,
    case_json,
    masked,
    target_json,
    thread_json,
    threads_json,
)
from agentkit_py.playground.edits import Edit, ask_again, rehearse
from agentkit_py.playground.recorder import Recorded
from agentkit_py.playground.runs import BusyError, Playground, RecordedRun
from agentkit_py.playground.stored import STORED, stored_call
from agentkit_py.server.api import read_json
from agentkit_py.server.chat_page import MARKDOWN
from agentkit_py.server.errors import ApiError

COOKIE = "agentkit_playground"
TOKEN = "token"  # noqa: S105 - the parameter's name

_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "object-src 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class Access:
    """The rule for requests.

    Without a token only requests to this machine by its own names are answered, so that no page of
    another site gets here by a name that it makes point at this machine. Requests that change
    something must come from the page itself.
    """

    token: str | None = None
    """The secret of this playground; None: only this machine can reach it."""

    def problem(self, scope: Scope) -> str | None:
        """Return why a request is refused, or None."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self.token is None and not is_loopback(host_name(host)):
            return "Ask for it as localhost, 127.0.0.1 or [::1]."
        origin = headers.get("origin")
        foreign = origin is not None and urlsplit(origin).netloc != host
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            changes = scope["method"] not in ("GET", "HEAD")
            foreign = foreign or changes or scope["path"].startswith("/dev-api")
        return "Another site's page may not ask." if foreign else None

    def is_known(self, scope: Scope) -> bool:
        """Return whether the request brings the cookie."""
        if self.token is None:
            return True
        cookies = cookie_parser(Headers(scope=scope).get("cookie", ""))
        return self.is_token(cookies.get(COOKIE, ""))

    def is_token(self, given: str) -> bool:
        """Compare with the token, in constant time."""
        token = self.token or ""
        return bool(token) and secrets.compare_digest(given.encode(), token.encode())


class AccessMiddleware:
    """ASGI middleware that applies an `Access` rule, and adds strict headers to every response."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_strictly(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await (self._response(scope) or self._app)(scope, receive, send_strictly)

    def _response(self, scope: Scope) -> Response | None:
        """Return the response in place of the app's, if there is a reason for it."""
        problem = self._access.problem(scope)
        if problem is not None:
            return PlainTextResponse(problem, HTTPStatus.FORBIDDEN)
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        given = dict(query).get(TOKEN)
        if given is not None and scope["path"] == "/" and self._access.is_token(given):
            return self._with_cookie(query, given)
        if self._access.is_known(scope):
            return None
        text = "Open the address with ?token=… that agentkit dev printed."
        return PlainTextResponse(text, HTTPStatus.UNAUTHORIZED)

    def _with_cookie(self, query: list[tuple[str, str]], token: str) -> Response:
        """Keep the token in a cookie, and take it out of the address."""
        rest = urlencode([(name, value) for name, value in query if name != TOKEN])
        response = RedirectResponse(f"/?{rest}" if rest else "/", HTTPStatus.SEE_OTHER)
        response.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return response


_STATIC = Path(__file__).parent / "static"
_MAX_BODY = 4_000_000
_RETRY = 500
"""Milliseconds after which the page connects again."""

B = TypeVar("B", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class BrokenTarget:
    """Stands for the playground of a target that could not be loaded."""

    message: str
    """The error on a line."""

    details: str = ""
    """The traceback."""


class _MessageBody(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    text: str = Field(min_length=1, max_length=1_000_000)
    thread: str | None = None


def create_playground(
    playground: Playground | BrokenTarget, *, target: str = "", access: Access | None = None
) -> Starlette:
    """Return the playground as an ASGI application.

    Args:
        playground: The playground, or why there is none.
        target: The target as the command line named it.
        access: The rule for requests; this machine only, unless given.
    """
    api = _Endpoints(playground, target)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        yield
        if isinstance(playground, Playground):
            await playground.close()

    routes = [
        Route("/", _page),
        Route("/dev-api/target", api.target),
        Route("/dev-api/threads", api.threads),
        Route("/dev-api/threads/{thread:path}", api.thread),
        Route("/dev-api/matrix/{thread:path}", api.matrix),
        Route("/dev-api/events", api.events),
        Route("/dev-api/runs", api.start, methods=["POST"]),
        Route("/dev-api/runs/{run}/cancel", api.cancel, methods=["POST"]),
        Route("/dev-api/runs/{run}/calls/{call:int}", api.call),
        Route("/dev-api/runs/{run}/calls/{call:int}/case", api.case),
        Route("/dev-api/runs/{run}/calls/{call:int}/look", api.look, methods=["POST"]),
        Route("/dev-api/runs/{run}/calls/{call:int}/again", api.again, methods=["POST"]),
        Route("/dev-api/approvals/{request}", api.approve, methods=["POST"]),
        Route("/static/js/markdown.js", _markdown),
        Mount("/static", StaticFiles(directory=_STATIC)),
        Mount("/matrix", StaticFiles(directory=VIEWER, html=True)),
    ]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(AccessMiddleware, access=access or Access())],
        exception_handlers={
            AgentKitError: _error_response,
            ApiError: _error_response,
            HTTPException: _error_response,
        },
    )
    app.state.end = api.end
    return app


class Server(uvicorn.Server):
    """Serves a playground; at its end it does not wait for readers of events."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End."""
        cast("Starlette", self.config.app).state.end()
        await super().shutdown(sockets)


async def _page(_: Request) -> Response:
    return FileResponse(_STATIC / "index.html")


async def _markdown(_: Request) -> Response:
    """Send the renderer of the customers' page."""
    return FileResponse(MARKDOWN)


class _Endpoints:
    """The endpoints."""

    def __init__(self, playground: Playground | BrokenTarget, target: str) -> None:
        self._playground = playground
        self._target = target
        self._ended = asyncio.Event()
        self._boot = playground.boot if isinstance(playground, Playground) else uuid4().hex[:12]

    @property
    def playground(self) -> Playground:
        """The playground, if it is on."""
        if isinstance(self._playground, BrokenTarget):
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, self._playground.message)
        return self._playground

    def _masked(self, found: Any, also: Collection[str] = ()) -> Response:
        """Respond with words masked, where the store masks them."""
        return PageResponse(masked(found, self.playground.redactor, also))

    def end(self) -> None:
        """End the streams of events: the server waits for them before it ends."""
        self._ended.set()
        if isinstance(self._playground, Playground):
            self._playground.stop()

    def _run(self, request: Request) -> RecordedRun:
        run = self.playground.runs.get(request.path_params["run"])
        if run is None:
            raise HTTPException(
                HTTPStatus.NOT_FOUND,
                "Details of this run are gone: they are kept until the code changes, and for the "
                "last runs only.",
            )
        return run

    def _call(self, request: Request) -> Recorded:
        call = self._run(request).recorder.calls.get(request.path_params["call"])
        if call is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "The run has no such model call.")
        return call

    async def target(self, _: Request) -> Response:
        """Describe the target."""
        found = self._playground
        about = {"boot": self._boot, "spec": self._target}
        if isinstance(found, BrokenTarget):
            broken = {"message": found.message, "details": found.details}
            return PageResponse({**about, "broken": broken})
        return PageResponse({**about, **target_json(found)})

    async def threads(self, _: Request) -> Response:
        """List the threads, last changed first."""
        return self._masked({"threads": await threads_json(self.playground)})

    async def thread(self, request: Request) -> Response:
        """Return a thread's results and runs, or only the results ``after`` a position."""
        after = request.query_params.get("after", "")
        position = int(after) if after.isdecimal() else None
        thread = request.path_params["thread"]
        return self._masked(await thread_json(self.playground, thread, position))

    async def matrix(self, request: Request) -> Response:
        """Explain each model call of a thread, with the processors as they are now."""
        target, thread = self.playground.target, request.path_params["thread"]
        results = await explain_thread(target, thread)
        made = await asyncio.to_thread(ContextMatrix.of, results)  # seconds, for a long thread
        title = f"{target.name}: thread {thread}"
        return self._masked(matrix_json(made, title, AS_NOW))

    async def events(self, request: Request) -> Response:
        """Stream events of a thread's runs as they happen."""
        boot, _, number = request.headers.get("last-event-id", "").partition(":")
        after = number if boot == self._boot else request.query_params.get("after", "")
        begin = int(after) if after.isdecimal() else 0
        return EventSourceResponse(self._events(request.query_params.get("thread", ""), begin))

    async def _events(self, thread: str, after: int) -> AsyncGenerator[ServerSentEvent]:
        hello = to_text({"boot": self._boot})
        yield ServerSentEvent(hello, event="hello", retry=_RETRY)
        if isinstance(self._playground, BrokenTarget):
            await self._ended.wait()  # until another process answers
            return
        redactor = self._playground.redactor
        async for seq, run, event in self._playground.follow(thread, after):
            if redactor is not None and event["kind"] == "delta":
                continue  # no pattern finds a match of which a piece has only half
            found = {"run": run, "seq": seq, **masked(event, redactor)}
            yield ServerSentEvent(to_text(found), id=f"{self._boot}:{seq}")

    async def start(self, request: Request) -> Response:
        """Begin a run."""
        message = await _body(request, _MessageBody)
        run = await self.playground.start(message.text, message.thread)
        return PageResponse({"run": run.id, "thread": run.thread_id}, HTTPStatus.CREATED)

    async def cancel(self, request: Request) -> Response:
        """Cancel a run."""
        run = self._run(request)
        await self.playground.cancel(run)
        return PageResponse({"status": run.status})

    async def call(self, request: Request) -> Response:
        """Describe a model call of a recorded or a stored run."""
        run, thread = request.path_params["run"], request.query_params.get("thread", "")
        store = self.playground.store
        if not run.startswith(STORED) or store is None:
            return self._masked(call_json(self._call(request)), CALL_FIELDS)
        number = request.path_params["call"]
        found = await stored_call(self.playground.target, store, thread, run, number)
        if found is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "The thread has no such model call.")
        return self._masked(found, CALL_FIELDS)

    async def case(self, request: Request) -> Response:
        """Give a model call as a case of an evaluation."""
        found = case_json(self._call(request))
        if found is None:
            raise ApiError(409, "no_case", "This call has no question, or no answer, to keep.")
        return self._masked(found, CALL_FIELDS)

    async def look(self, request: Request) -> Response:
        """Show the request of an edited call."""
        edit = await _body(request, Edit)
        return self._masked(await rehearse(_traced(self._call(request)), edit), CALL_FIELDS)

    async def again(self, request: Request) -> Response:
        """Make an edited call."""
        edit, prices = await _body(request, Edit), self.playground.prices
        found = await ask_again(_traced(self._call(request)), edit, prices)
        return self._masked(found, CALL_FIELDS)

    async def approve(self, request: Request) -> Response:
        """Answer an approval request."""
        record: Any = await _json(request)
        if not isinstance(record, dict):
            raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, "The answer must be an object.")
        answer = ApprovalAnswer.from_dict(record)  # pyright: ignore[reportUnknownArgumentType] - from_dict checks it
        thread = request.query_params.get("thread") or None
        if not await self.playground.answer(request.path_params["request"], answer, thread):
            raise HTTPException(HTTPStatus.NOT_FOUND, "This question does not wait any more.")
        return PageResponse({"answered": True})


def _traced(call: Recorded) -> Any:
    if call.call is None:
        raise HTTPException(
            HTTPStatus.UNPROCESSABLE_ENTITY, "A processor made this call; edit the agent's own."
        )
    return call.call


async def _json(request: Request) -> Any:
    """Return the request's JSON; its type must be named, which no other site's form can."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/json":
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send application/json.")
    return await read_json(request, _MAX_BODY)


async def _body(request: Request, kind: type[B]) -> B:
    try:
        return kind.model_validate(await _json(request))
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, problems) from error


async def _error_response(_: Request, error: Exception) -> Response:
    """Answer with the error: the reader of the page is its developer."""
    message, status = f"{type(error).__name__}: {error}", int(HTTPStatus.UNPROCESSABLE_ENTITY)
    if isinstance(error, HTTPException):
        message, status = error.detail, error.status_code
    elif isinstance(error, ApiError):
        message, status = error.message, error.status
    elif isinstance(error, ThreadNotFoundError):
        message, status = str(error), HTTPStatus.NOT_FOUND
    elif isinstance(error, BusyError):
        status = HTTPStatus.CONFLICT
    return PageResponse({"error": message}, status)


class PageResponse(JSONResponse):
    """JSON for the page that cannot fail, whatever models, tools and settings hold."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return to_text(content).encode("ascii")


def to_text(value: Any) -> str:
    """Return JSON in ASCII, which can hold halves of surrogate pairs; NaN and infinity are null."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value)
        return {key: _finite(item) for key, item in pairs.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in cast("list[Any]", value)]
    return value
