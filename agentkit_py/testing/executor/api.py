"""The server's HTTP API as the SDK's client uses it, without a socket."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import httpx


@dataclass(frozen=True, slots=True)
class Published:
    """One message that was published to a realtime channel."""

    channel: str
    topic: str
    data: Any


class Server(Protocol):
    """What stands behind the API."""

    published: list[Published]

    def receive(self, event: dict[str, Any]) -> str:
        """Take an event; gives its id."""
        ...

    def stored(self, run_id: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """A run's events and remembered steps."""
        ...


class ServerTransport(httpx.AsyncBaseTransport, httpx.BaseTransport):
    """Takes the client's requests."""

    def __init__(self, server: Server) -> None:
        """Answer for ``server``."""
        self._server = server

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
            (r"/v0/runs/([^/]+)/batch", lambda _r, _c, run: self._server.stored(run)[0]),
            (r"/v0/runs/([^/]+)/actions", lambda _r, _c, run: self._server.stored(run)[1]),
        ]
        for pattern, route in routes:
            found = re.fullmatch(pattern, request.url.path)
            if found is not None:
                return httpx.Response(200, json=route(request, content, found[1]), request=request)
        return httpx.Response(404, json={"error": f"no {request.url.path}"}, request=request)

    def _events(self, _request: httpx.Request, content: bytes, _run: str) -> Any:
        return {"ids": [self._server.receive(event) for event in json.loads(content)]}

    def _publish(self, request: httpx.Request, content: bytes, _run: str) -> Any:
        where = request.url.params
        self._server.published.append(
            Published(where["channel"], where["topic"], json.loads(content))
        )
        return {}
