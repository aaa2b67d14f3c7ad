"""The playground's HTTP side: the page, and JSON for it under ``/dev-api``."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar, cast
from uuid import uuid4

import uvicorn
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from agentkit_py.errors import AgentKitError, ThreadNotFoundError
from agentkit_py.events.approvals import ApprovalAnswer
from agentkit_py.playground.answers import Answer, told
from agentkit_py.playground.describe import call_json, target_json, thread_json, threads_json
from agentkit_py.playground.edits import Edit, ask_again, rehearse
from agentkit_py.playground.masking import CALL, masked
from agentkit_py.playground.recorder import Recorded
from agentkit_py.playground.runs import BusyError, Playground, Run
from agentkit_py.playground.security import Access, Guard

_STATIC = Path(__file__).parent / "static"
_MAX_BODY = 4_000_000
_RETRY = 500
"""Milliseconds after which the page connects again."""

B = TypeVar("B", bound=BaseModel)
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class BrokenTarget:
    """What there is in place of a playground where the target could not be loaded."""

    message: str
    """One line."""

    details: str = ""
    """The traceback."""


class _Message(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    text: str = Field(min_length=1, max_length=1_000_000)
    thread: str | None = None


def create_playground(
    playground: Playground | BrokenTarget, *, target: str = "", access: Access | None = None
) -> Starlette:
    """The playground as an ASGI application.

    Args:
        playground: What to play with, or why that cannot be.
        target: How the command line named it.
        access: Who may ask; this machine only, unless given.
    """
    api = _Api(playground, target)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        yield
        if isinstance(playground, Playground):
            await playground.close()

    routes = [
        Route("/", api.page),
        Route("/dev-api/target", api.target),
        Route("/dev-api/threads", api.threads),
        Route("/dev-api/threads/{thread:path}", api.thread),
        Route("/dev-api/events", api.events),
        Route("/dev-api/runs", api.start, methods=["POST"]),
        Route("/dev-api/runs/{run}/cancel", api.cancel, methods=["POST"]),
        Route("/dev-api/runs/{run}/calls/{call:int}", api.call),
        Route("/dev-api/runs/{run}/calls/{call:int}/look", api.look, methods=["POST"]),
        Route("/dev-api/runs/{run}/calls/{call:int}/again", api.again, methods=["POST"]),
        Route("/dev-api/approvals/{request}", api.approve, methods=["POST"]),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(Guard, access=access or Access())],
        exception_handlers={
            AgentKitError: _told,
            ThreadNotFoundError: _not_found,
            HTTPException: _refused,
        },
    )
    app.state.end = api.end
    return app


class Server(uvicorn.Server):
    """Serves a playground; when it is to end, it does not wait for those who only listen."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End."""
        cast("Starlette", self.config.app).state.end()
        await super().shutdown(sockets)


class _Api:
    """The endpoints."""

    def __init__(self, playground: Playground | BrokenTarget, target: str) -> None:
        self._playground = playground
        self._target = target
        self._ended = asyncio.Event()
        self._boot = playground.boot if isinstance(playground, Playground) else uuid4().hex[:12]

    @property
    def playground(self) -> Playground:
        """The playground, if there is one."""
        if isinstance(self._playground, BrokenTarget):
            raise HTTPException(HTTPStatus.SERVICE_UNAVAILABLE, self._playground.message)
        return self._playground

    def _told(self, found: Any, also: Collection[str] = ()) -> Response:
        """An answer with its words masked, where the store masks them."""
        return Answer(masked(found, self.playground.redactor, also))

    def end(self) -> None:
        """End the streams of events: the server waits for them before it ends."""
        self._ended.set()
        if isinstance(self._playground, Playground):
            self._playground.stop()

    def _run(self, request: Request) -> Run:
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

    async def page(self, request: Request) -> Response:
        """The page."""
        del request
        return FileResponse(_STATIC / "index.html")

    async def target(self, request: Request) -> Response:
        """What there is to play with."""
        del request
        found = self._playground
        about = {"boot": self._boot, "spec": self._target}
        if isinstance(found, BrokenTarget):
            broken = {"message": found.message, "details": found.details}
            return Answer({**about, "broken": broken})
        return Answer({**about, **target_json(found)})

    async def threads(self, request: Request) -> Response:
        """The threads, those changed last first."""
        del request
        return self._told({"threads": await threads_json(self.playground)})

    async def thread(self, request: Request) -> Response:
        """A thread: what is stored, and the runs that are kept; or what came ``after``."""
        after = request.query_params.get("after", "")
        place = int(after) if after.isdecimal() else None
        thread = request.path_params["thread"]
        return self._told(await thread_json(self.playground, thread, place))

    async def events(self, request: Request) -> Response:
        """Events of a thread's runs, as they happen."""
        boot, _, number = request.headers.get("last-event-id", "").partition(":")
        after = number if boot == self._boot else request.query_params.get("after", "")
        begin = int(after) if after.isdecimal() else 0
        return EventSourceResponse(self._events(request.query_params.get("thread", ""), begin))

    async def _events(self, thread: str, after: int) -> AsyncGenerator[ServerSentEvent]:
        yield told({"boot": self._boot}, event="hello", retry=_RETRY)
        if isinstance(self._playground, BrokenTarget):
            await self._ended.wait()  # until another process answers
            return
        redactor = self._playground.redactor
        async for seq, run, event in self._playground.follow(thread, after):
            if redactor is None:
                found = event
            elif event["kind"] == "delta":
                continue  # no pattern finds what a piece holds half of
            else:
                found = masked(event, redactor)
            yield told({"run": run, "seq": seq, **found}, id=f"{self._boot}:{seq}")

    async def start(self, request: Request) -> Response:
        """Begin a run."""
        message = await _body(request, _Message)
        run = await self.playground.start(message.text, message.thread)
        return Answer({"run": run.id, "thread": run.thread_id}, HTTPStatus.CREATED)

    async def cancel(self, request: Request) -> Response:
        """Cancel a run."""
        run = self._run(request)
        await self.playground.cancel(run)
        return Answer({"status": run.status})

    async def call(self, request: Request) -> Response:
        """All about one model call."""
        return self._told(call_json(self._call(request)), CALL)

    async def look(self, request: Request) -> Response:
        """What an edited call would send."""
        edit = await _body(request, Edit)
        return self._told(await rehearse(_traced(self._call(request)), edit), CALL)

    async def again(self, request: Request) -> Response:
        """Make an edited call."""
        edit, prices = await _body(request, Edit), self.playground.prices
        return self._told(await ask_again(_traced(self._call(request)), edit, prices), CALL)

    async def approve(self, request: Request) -> Response:
        """Answer a question."""
        record: Any = await _json(request)
        if not isinstance(record, dict):
            raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, "The answer must be an object.")
        answer = ApprovalAnswer.from_dict(record)  # pyright: ignore[reportUnknownArgumentType] - from_dict checks it
        if not self.playground.answer(request.path_params["request"], answer):
            raise HTTPException(HTTPStatus.NOT_FOUND, "Nobody waits for this answer any more.")
        return Answer({"answered": True})


def _traced(call: Recorded) -> Any:
    if call.call is None:
        raise HTTPException(
            HTTPStatus.UNPROCESSABLE_ENTITY, "A processor made this call; edit the agent's own."
        )
    return call.call


async def _json(request: Request) -> Any:
    """The request's JSON; the type must say so, which no other site's form can."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/json":
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send application/json.")
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > _MAX_BODY:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "This is too long.")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise HTTPException(HTTPStatus.BAD_REQUEST, f"This is no JSON: {error}") from error


async def _body(request: Request, kind: type[B]) -> B:
    try:
        return kind.model_validate(await _json(request))
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise HTTPException(HTTPStatus.UNPROCESSABLE_ENTITY, problems) from error


def _problem(message: str, status: int) -> Response:
    return Answer({"error": message}, status)


async def _told(request: Request, error: Exception) -> Response:
    """The library's errors are for the developer, who is looking at the page."""
    del request
    busy = isinstance(error, BusyError)
    status = HTTPStatus.CONFLICT if busy else HTTPStatus.UNPROCESSABLE_ENTITY
    return _problem(f"{type(error).__name__}: {error}", status)


async def _not_found(request: Request, error: Exception) -> Response:
    del request
    return _problem(str(error), HTTPStatus.NOT_FOUND)


async def _refused(request: Request, error: Exception) -> Response:
    del request
    assert isinstance(error, HTTPException)
    return _problem(error.detail, error.status_code)
