"""The API's description in OpenAPI 3.1, made of the models that check and the types that answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from agentkit_py.server import answers, bodies

_REF = "#/components/schemas/{model}"
_BODIES = (
    bodies.ChatRequest,
    bodies.CancelRequest,
    bodies.NewThread,
    bodies.ApprovalRequestBody,
    bodies.TokenRequest,
)
_ANSWERS: tuple[Any, ...] = (
    answers.ErrorAnswer,
    answers.ChatAnswer,
    answers.Done,
    answers.Cancelled,
    answers.ThreadPage,
    answers.NewThreadAnswer,
    answers.ThreadAnswer,
    answers.TokenAnswer,
)


def document() -> dict[str, Any]:
    """The document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "AgentKit HTTP API",
            "version": "1",
            "description": "The endpoints that @inngest/use-agent calls, and a stream of "
            "server-sent events. Who the user is, the application decides for each request.",
        },
        "paths": _paths(),
        "components": {"schemas": _schemas()},
    }


def _schemas() -> dict[str, Any]:
    mode: JsonSchemaMode = "validation"
    _, found = models_json_schema([(model, mode) for model in _BODIES], ref_template=_REF)
    inputs: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = [
        (f"answer{number}", mode, TypeAdapter(kind)) for number, kind in enumerate(_ANSWERS)
    ]
    _, others = TypeAdapter.json_schemas(inputs, ref_template=_REF)
    return {**found.get("$defs", {}), **others.get("$defs", {})}


def _paths() -> dict[str, Any]:
    thread = [_parameter("threadId", "path", "The thread.", required=True)]
    return {
        "/api/chat": {
            "post": _post("Send a message", "ChatRequest", "ChatAnswer", 404, 429, 502, 503)
        },
        "/api/chat/cancel": {
            "post": _post("Stop what answers in a thread", "CancelRequest", "Cancelled", 404, 502)
        },
        "/api/threads": {
            "get": _get("List one's threads", "ThreadPage", _paging()),
            "post": _post("Create a thread", "NewThread", "NewThreadAnswer", 404),
        },
        "/api/threads/{threadId}": {
            "get": _get("Read a thread", "ThreadAnswer", [*thread, *_parts()], 404),
            "delete": _get("Delete a thread", "Done", thread, 404, 502),
        },
        "/api/realtime/token": {
            "post": _post(
                "The right to listen to one's channel", "TokenRequest", "TokenAnswer", 502
            )
        },
        "/api/approve-tool": {
            "post": _post("Answer a question", "ApprovalRequestBody", "Done", 404, 409, 502)
        },
        "/api/stream": {"get": _stream()},
    }


def _paging() -> list[dict[str, Any]]:
    return [
        _parameter("limit", "query", "How many, 1 to 100; 20 unless given.", "integer"),
        _parameter("offset", "query", "How many to pass over.", "integer"),
        _parameter("cursorTimestamp", "query", "nextCursorTimestamp of the page before."),
        _parameter("cursorId", "query", "nextCursorId of the page before."),
    ]


def _parts() -> list[dict[str, Any]]:
    return [
        _parameter(
            "limit", "query", "How many, the last ones, 1 to 1000; 200 unless given.", "integer"
        ),
        _parameter(
            "before",
            "query",
            "Only messages before this position: that of the first one of the page that has more.",
            "integer",
        ),
    ]


def _stream() -> dict[str, Any]:
    parameters = [
        _parameter("threadId", "query", "Only the chunks of this thread."),
        _parameter("token", "query", "A key of /api/realtime/token, in place of other proof."),
        _parameter("lastEventId", "query", "As the header Last-Event-ID, for a first connection."),
        _parameter("Last-Event-ID", "header", "The id of the last event that arrived."),
    ]
    ok = {
        "description": "Events: `ready` first; chunks as messages; `reset` where something was "
        "lost, and the thread has to be read again.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
    return {
        "summary": "One's chunks as they are published",
        "parameters": parameters,
        "responses": {"200": ok, **_errors((404, 429))},
    }


def _parameter(
    name: str, where: str, description: str, kind: str = "string", *, required: bool = False
) -> dict[str, Any]:
    return {
        "name": name,
        "in": where,
        "required": required,
        "description": description,
        "schema": {"type": kind},
    }


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(model=name)}}}


def _post(summary: str, body: str, found: str, *statuses: int) -> dict[str, Any]:
    operation = _get(summary, found, (), 413, *statuses)
    return {**operation, "requestBody": {"required": True, "content": _json(body)}}


def _get(
    summary: str, found: str, parameters: Sequence[dict[str, Any]], *statuses: int
) -> dict[str, Any]:
    ok = {"description": "It worked.", "content": _json(found)}
    return {
        "summary": summary,
        **({"parameters": list(parameters)} if parameters else {}),
        "responses": {"200": ok, **_errors(statuses)},
    }


_WHY = {
    400: "The request cannot be understood.",
    401: "Nobody is signed in.",
    403: "A page of another host sent it.",
    404: "There is no such thing, or it is somebody else's.",
    409: "It was answered already.",
    413: "It is too long.",
    429: "A limit of the user's is reached.",
    500: "Something failed here; the log says what.",
    502: "With Inngest: it cannot be reached, or refused.",
    503: "Too much is under way, or the server stops.",
}


def _errors(statuses: Sequence[int]) -> dict[str, Any]:
    known = sorted({400, 401, 403, 500, *statuses})
    return {
        str(status): {"description": _WHY[status], "content": _json("ErrorAnswer")}
        for status in known
    }
