"""Endpoints: authenticated, parsed, answered as JSON, and described in OpenAPI."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar, cast, get_args, get_type_hints

from pydantic import BaseModel, TypeAdapter
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from agentkit_py._core.json import dumps
from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import (
    MessageConflictError,
    MessageNotFoundError,
    ThreadBusyError,
    ThreadNotFoundError,
)
from agentkit_py.server.access import Access
from agentkit_py.server.auth import Authenticator, StreamTokens
from agentkit_py.server.config import ServerSettings
from agentkit_py.server.decisions import Decisions
from agentkit_py.server.errors import (
    ApiError,
    ErrorResponse,
    internal,
    invalid,
    not_found,
    too_many,
)
from agentkit_py.server.following import ListWatch, OpenStreams
from agentkit_py.server.hub import Hub
from agentkit_py.server.notices import Notifier
from agentkit_py.server.people import StaffNews
from agentkit_py.server.runs import Backend
from agentkit_py.server.schemas import StreamQuery, parse
from agentkit_py.stores import HistoryStore
from agentkit_py.stores.wrappers import for_user

logger: logging.Logger = get_logger("agentkit_py.server")

P = TypeVar("P", bound=BaseModel)

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""Headers of every response: it is for a single user, and of the type that it names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """The parts that all endpoints share."""

    settings: ServerSettings
    authenticator: Authenticator
    backend: Backend
    hub: Hub
    tokens: StreamTokens
    streams: OpenStreams
    notifier: Notifier
    news: StaffNews
    queue: ListWatch[Any]
    """The threads that a person is on or wanted in."""

    asked: ListWatch[Any]
    """The open questions."""

    decisions: Decisions = field(default_factory=Decisions)

    def check_streams(self, user_id: str) -> None:
        """Refuse another reader of a user who has reached the limit."""
        if not self.streams.has_room(user_id):
            most = self.streams.most
            raise too_many(f"At most {most} streams can be open at once.", "too_many_streams")

    async def reader_of(self, request: Request) -> str:
        """Return the user who asks a page for another stream, or refuse it."""
        self.authenticator.check_page(request)
        user_id = await self.authenticator.user_of(request)
        self.check_streams(user_id)
        return user_id

    def access_of(self, user_id: str) -> Access:
        """Return this user's access to the data of others."""
        return Access(self.settings, user_id)

    def threads_of(self, user_id: str) -> HistoryStore:
        """Return the store as this user may see it."""
        return for_user(self.settings.store, user_id)


@dataclass(frozen=True, slots=True)
class ApiRequest(Generic[P]):
    """One request of a known user."""

    api: Api
    http: Request
    user_id: str
    params: P
    """The body, or the query with the parameters of the path."""

    @property
    def threads(self) -> HistoryStore:
        """The store as this user may see it."""
        return self.api.threads_of(self.user_id)


EndpointHandler: TypeAlias = Callable[[ApiRequest[P]], Awaitable[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class Endpoint(Generic[P]):
    """One method of a path, with all that its route and its description are made of."""

    method: str
    path: str
    handler: EndpointHandler[P]
    params: type[P]
    response: Any
    """The type of the handler's result."""

    summary: str
    statuses: tuple[int, ...]
    """Errors in addition to those that every endpoint may give."""

    def route(self, api: Api) -> Route:
        """Return the route that serves it."""

        async def serve(request: Request) -> Response:
            user_id = await api.authenticator.user_of(request)
            found: object = {**request.query_params, **request.path_params}
            if self.method == "POST":
                found = await read_json(request, api.settings.limits.body_bytes)
                if request.path_params and isinstance(found, dict):
                    found = {**cast("dict[str, Any]", found), **request.path_params}
            params = parse(self.params, found)
            del found  # the client's data may be long
            return respond(await self.handler(ApiRequest(api, request, user_id, params)))

        return Route(self.path, guarded(serve), methods=[self.method])

    def describe(self) -> dict[str, Any]:
        """Return its description in OpenAPI."""
        described: dict[str, Any] = {
            "summary": self.summary,
            "responses": _responses(_content(self.response), self.statuses),
        }
        parameters = _parameters(self.params, self.path)
        if self.method == "POST":
            parameters = [one for one in parameters if one["in"] == "path"]
            described["requestBody"] = {"required": True, "content": _content(self.params)}
            described["responses"] = _responses(_content(self.response), (413, *self.statuses))
        return {**described, "parameters": parameters} if parameters else described


def endpoint(method: str, path: str, *statuses: int) -> Callable[[EndpointHandler[P]], Endpoint[P]]:
    """Make a handler an `Endpoint`: its types and its docstring describe it.

    Args:
        method: The HTTP method.
        path: The path; names in braces are fields of the params.
        statuses: Errors in addition to those that every endpoint may give.
    """

    def decorate(handler: EndpointHandler[P]) -> Endpoint[P]:
        hints = get_type_hints(handler)
        (params,) = get_args(hints["request"])
        summary = (handler.__doc__ or "").partition("\n")[0].rstrip(".")
        return Endpoint(method, path, handler, params, hints["return"], summary, statuses)

    return decorate


async def read_body(request: Request, most: int) -> bytes:
    """Return the request's body of at most so many bytes."""
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > most:
            raise ApiError(413, "too_large", f"A request may have at most {most} bytes.")
    return bytes(content)


async def read_json(request: Request, most: int) -> object:
    """Return the request's JSON of at most so many bytes; an empty body is an empty object."""
    content = await read_body(request, most)
    try:
        return json.loads(content) if content else {}
    except RecursionError:
        raise invalid("The body is nested too deeply.") from None
    except ValueError:
        raise invalid("The body is not JSON.") from None


def respond(
    found: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON response for a user."""
    # A model's text may hold half of a surrogate pair, which UTF-8 cannot.
    content = dumps(found).encode()
    return Response(
        content, status, headers={**HEADERS, **(headers or {})}, media_type="application/json"
    )


def guarded(
    handler: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Return the handler with errors answered in words that say nothing of the machine."""

    async def serve(request: Request) -> Response:
        try:
            return await handler(request)
        except ApiError as error:
            return _refused(error)
        except ThreadNotFoundError:
            return _refused(not_found())
        except MessageNotFoundError:
            return _refused(not_found("message"))
        except MessageConflictError as error:
            words = f"The id {error.message_id} is that of another message."
            return _refused(ApiError(409, "message_conflict", words))
        except ThreadBusyError:
            return _refused(
                ApiError(409, "thread_busy", "The thread is being answered, or waits for a person.")
            )
        except ClientDisconnect:
            return Response(status_code=499)  # it has no reader
        except Exception:
            logger.exception("%s %s failed", request.method, request.url.path)
            return _refused(internal())

    return serve


def _refused(error: ApiError) -> Response:
    return respond(error.body(), error.status, error.headers)


async def http_error(_request: Request, error: Exception) -> Response:
    """Answer errors of the routing itself, e.g. an unknown path."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    code, words = {
        404: ("not_found", "There is nothing here."),
        405: ("method_not_allowed", "This method is not allowed here."),
    }.get(status, ("error", "The request failed."))
    headers = error.headers if isinstance(error, HTTPException) else None
    return _refused(ApiError(status, code, words, headers))


_REF = "#/components/schemas/{model}"
_STATUSES = {
    400: "The request cannot be understood.",
    401: "No user is signed in.",
    403: "A page of another host sent it, or another user has to decide.",
    404: "It does not exist, or belongs to another user.",
    409: "It was answered already, or cannot be done now.",
    413: "It is too long.",
    429: "A limit of the user's is reached.",
    500: "The server failed; its log says why.",
    501: "With Inngest: replies do not pass through this server.",
    502: "With Inngest: it cannot be reached, or refused.",
    503: "The server is busy or stopping.",
}
_COMMON_STATUSES = frozenset({400, 401, 403, 500})


def openapi_document(endpoints: tuple[Endpoint[Any], ...]) -> dict[str, Any]:
    """Return the API's description in OpenAPI 3.1, made of the types that check and answer."""
    paths: dict[str, dict[str, Any]] = {
        "/api/stream": {"get": _describe_stream()},
        "/api/approvals/stream": {"get": _STREAM_OF_QUESTIONS},
        "/api/takeovers/stream": {"get": _STREAM_OF_TAKEOVERS},
        "/health/live": {"get": _LIVE},
        "/health/ready": {"get": _READY},
        "/api/vercel": {"post": _reply_to("Vercel AI SDK", "a UI message stream")},
        "/api/vercel/{threadId}/stream": {"get": _RESUMED},
        "/api/ag-ui": {"post": _reply_to("AG-UI", "a stream of AG-UI events")},
    }
    types: list[Any] = [ErrorResponse]
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = endpoint.describe()
        types += [endpoint.response] + [endpoint.params] * (endpoint.method == "POST")
    adapters = [(str(number), TypeAdapter(kind)) for number, kind in enumerate(types)]
    _, schemas = TypeAdapter.json_schemas(
        [(name, "validation", adapter) for name, adapter in adapters], ref_template=_REF
    )
    for endpoint in endpoints:
        if endpoint.method == "POST":  # parameters of the path are not in the body
            body = schemas["$defs"][endpoint.params.__name__]
            for name in re.findall(r"{(\w+)}", endpoint.path):
                body["properties"].pop(name, None)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "AgentKit HTTP API",
            "version": "1",
            "description": "The endpoints that @inngest/use-agent calls, and a stream of "
            "server-sent events. The application decides who the user of each request is.",
        },
        "paths": paths,
        "components": {"schemas": schemas["$defs"]},
    }


def _describe_stream() -> dict[str, Any]:
    last = {
        "name": "Last-Event-ID",
        "in": "header",
        "required": False,
        "description": "The id of the last event that arrived.",
        "schema": {"type": "string"},
    }
    return {
        "summary": "Stream the user's chunks as they are published",
        "parameters": [*_parameters(StreamQuery, ""), last],
        "responses": _responses(_EVENT_STREAM, (404, 429, 501)),
        "description": "Events: `ready` first; chunks as messages; `reset` where something was "
        "lost, and the thread has to be read again.",
    }


_EVENT_STREAM = {"text/event-stream": {"schema": {"type": "string"}}}


def _content(kind: Any) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(model=kind.__name__)}}}


def _parameters(model: type[BaseModel], path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    whole = model.model_json_schema()
    for name, schema in whole["properties"].items():
        in_path = f"{{{name}}}" in path
        found.append(
            {
                "name": name,
                "in": "path" if in_path else "query",
                "required": in_path or name in whole.get("required", ()),
                "description": schema.pop("description", ""),
                "schema": schema,
            }
        )
    return found


def _responses(content: dict[str, Any], statuses: tuple[int, ...]) -> dict[str, Any]:
    errors = {
        str(status): {"description": _STATUSES[status], "content": _content(ErrorResponse)}
        for status in sorted(_COMMON_STATUSES.union(statuses))
    }
    return {"200": {"description": "It worked.", "content": content}, **errors}


_STREAM_OF_QUESTIONS = {
    "summary": "Stream the questions that the user may answer, each when it changes",
    "responses": _responses(_EVENT_STREAM, (404, 429)),
    "description": "Events: `ready` first; then `approval`, a question as in `GET /api/approvals`.",
}

_STREAM_OF_TAKEOVERS = {
    "summary": "Stream the threads that a person is on or wanted in, each when it changes",
    "responses": _responses(_EVENT_STREAM, (404, 429)),
    "description": "Events: `ready` first; then `takeover`, a thread as in `GET /api/takeovers`, "
    "and `left` where it is in the queue no more.",
}

_HEALTHY = {
    "description": "It is.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "properties": {"status": {"const": "ok"}},
                "required": ["status"],
            }
        }
    },
}
_LIVE = {
    "summary": "Check that the process answers",
    "responses": {"200": _HEALTHY},
    "description": "Without `auth`, and without a query of the store.",
}
_READY = {
    "summary": "Check that new requests are accepted",
    "responses": {
        "200": _HEALTHY,
        "503": {
            "description": "It is not; the error's code says why.",
            "content": _content(ErrorResponse),
        },
    },
    "description": "Without `auth`. `stopping`: the server is shutting down. `store`: its store "
    "failed, or took too long.",
}


def _reply_to(protocol: str, stream: str) -> dict[str, Any]:
    body = {"application/json": {"schema": {"type": "object"}}}
    return {
        "summary": f"Say something, or answer questions, in the protocol of {protocol}",
        "requestBody": {"required": True, "content": body},
        "responses": _responses(_EVENT_STREAM, (404, 409, 413, 429, 501, 503)),
        "description": f"The answer is the reply, {stream}. A message that is being answered, or "
        "was answered, is not answered again: its reply comes from its beginning.",
    }


_THREAD = {"name": "threadId", "in": "path", "required": True, "schema": {"type": "string"}}
_RESUMED = {
    "summary": "Stream the reply that is under way, from its beginning",
    "parameters": [{**_THREAD, "description": "The thread."}],
    "responses": {
        **_responses(_EVENT_STREAM, (404, 429, 501)),
        "204": {"description": "No reply is under way."},
    },
}
