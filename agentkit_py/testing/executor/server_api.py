"""The server's HTTP APIs, without a socket: the client's API and the AI gateway to providers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import httpx


def read_json(text: str | bytes) -> Any:
    """Return JSON as the server has it, which keeps numbers as doubles.

    An integer beyond 2^53 is rounded, ``1.0`` becomes ``1``, and keys are sorted.

    Raises:
        ValueError: It is no JSON; Go knows no NaN and no infinity.
    """
    return json.loads(
        text,
        parse_int=_double,
        parse_float=_double,
        parse_constant=_no_constant,
        object_pairs_hook=lambda pairs: dict(sorted(pairs)),
    )


def _double(digits: str) -> int | float:
    number = float(digits)
    return int(number) if number.is_integer() and abs(number) < _EXPONENTIAL else number


_EXPONENTIAL = 1e21
"""The number from which on Go writes an exponent."""


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


@dataclass(frozen=True, slots=True)
class Published:
    """One message that was published to a realtime channel."""

    channel: str
    topic: str
    data: Any


class ServerTransport(httpx.AsyncBaseTransport, httpx.BaseTransport):
    """Takes the SDK client's requests: events, realtime messages, and questions about a run."""

    def __init__(
        self,
        receive: Callable[[dict[str, Any]], str],
        stored: Callable[[str], tuple[list[dict[str, Any]], dict[str, Any]]],
        published: list[Published],
    ) -> None:
        self._receive = receive
        self._stored = stored
        self._published = published

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer an async client."""
        return self._answer(request, await request.aread())

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a sync client."""
        return self._answer(request, request.read())

    def _answer(self, request: httpx.Request, content: bytes) -> httpx.Response:
        routes: list[tuple[str, Callable[[httpx.Request, bytes, str], Any]]] = [
            (r"/e/.*()", self._events),
            (r"/v1/realtime/publish()", self._publish),
            (r"/v1/realtime/token()", lambda _r, content, _run: {"jwt": content.decode()}),
            (r"/v0/runs/([^/]+)/batch", lambda _r, _c, run: self._stored(run)[0]),
            (r"/v0/runs/([^/]+)/actions", lambda _r, _c, run: self._stored(run)[1]),
        ]
        for pattern, route in routes:
            found = re.fullmatch(pattern, request.url.path)
            if found is not None:
                return httpx.Response(200, json=route(request, content, found[1]), request=request)
        return httpx.Response(404, json={"error": f"no {request.url.path}"}, request=request)

    def _events(self, _request: httpx.Request, content: bytes, _run: str) -> Any:
        return {"ids": [self._receive(event) for event in json.loads(content)]}

    def _publish(self, request: httpx.Request, content: bytes, _run: str) -> Any:
        where = request.url.params
        data = json.loads(content)
        self._published.append(Published(where["channel"], where["topic"], data))
        return {}


async def ask_provider(
    transport: httpx.AsyncBaseTransport | None, opts: dict[str, Any]
) -> dict[str, Any]:
    """Send a model's request as ``step.ai.infer`` described it.

    Returns:
        ``{"data": …}`` or ``{"error": …}``, as the server keeps it.
    """
    key, url = opts["auth_key"], httpx.URL(opts["url"])
    headers = [("content-type", "application/json")]
    match opts["format"]:
        case "gemini":
            url = url.copy_add_param("key", key)
        case "anthropic":
            headers.append(("x-api-key", key))
        case _:
            headers.append(("authorization", f"Bearer {key}"))
    headers += opts["headers"].items()  # added, even where a header is there already
    if transport is None:
        return _error("no transport was given to ReplayExecutor", b"")
    async with httpx.AsyncClient(transport=_Unclosed(transport), trust_env=False) as client:
        try:
            content = json.dumps(opts["body"]).encode()
            response = await client.post(url, content=content, headers=headers, timeout=7200)
        except httpx.TransportError as error:
            return _error(f"Unable to reach SDK URL: {error}", b"")
    if not response.is_success:
        return _error(f"unsuccessful status code: {response.status_code}", response.content)
    try:
        return {"data": read_json(response.content)}
    except ValueError as error:
        return _error(f"error wrapping ai result in map: {error}", response.content)


def _error(reason: str, body: bytes) -> dict[str, Any]:
    text = body.decode("utf-8", "replace") or '{"error":"Error making AI request"}'
    message = f"Error making AI request: {reason}"
    return {"error": {"name": "AIGatewayError", "message": message, "stack": text}}


class _Unclosed(httpx.AsyncBaseTransport):
    """The test's own transport, which closing a client must not close."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._transport.handle_async_request(request)
