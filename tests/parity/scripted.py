"""The provider of a scenario: an httpx transport that answers by the script."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import httpx

from .reference.js import stringify
from .vectors import Json

BASE = "http://parity.invalid"
"""Stands for ``{{BASE}}``, the root of the recording's fake server."""

_TRANSPORT_HEADERS = frozenset(
    {
        "host",
        "accept",
        "accept-encoding",
        "connection",
        "user-agent",
        "content-length",
        "transfer-encoding",
    }
)
_OF_INTEREST = (
    "content-type",
    "authorization",
    "api-key",
    "x-api-key",
    "anthropic-version",
    "anthropic-beta",
    "x-goog-api-key",
)


class ScriptedTransport(httpx.AsyncBaseTransport):
    """Answers each run's requests with that run's replies, in order.

    Args:
        replies: For each run, the replies to its requests. A run that asks for more gets an error,
            so one request too many in one run never takes the reply of another.
        note: Gets ``llm:N`` for each request.
    """

    def __init__(self, replies: list[list[Json]], note: Any) -> None:
        self._replies = [list(each) for each in replies]
        self._note = note
        self.run = 0
        self.requests: list[dict[str, Json]] = []
        self.exhausted = 0
        self._is_gateway = False

    @contextmanager
    def gateway(self) -> Generator[None]:
        """Requests in the block are Inngest's, and no business of the recording's."""
        self._is_gateway = True
        yield
        self._is_gateway = False

    @property
    def unused(self) -> int:
        """The number of replies that were never requested."""
        return sum(len(each) for each in self._replies)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Keep the request and answer it."""
        body = json.loads(await request.aread() or b"null")
        if not self._is_gateway:
            self._note(f"llm:{len(self.requests)}")
            self.requests.append(_recorded(self.run, request, body))
        waiting = self._replies[self.run]
        if not waiting:
            self.exhausted += 1
            return httpx.Response(500, json={"error": {"message": "no scripted reply is left"}})
        return _response(waiting.pop(0), request)


def _recorded(run: int, request: httpx.Request, body: Json) -> dict[str, Json]:
    headers = {name.lower(): value for name, value in request.headers.items()}
    return {
        "run": run,
        "method": request.method,
        "path": request.url.path,
        "query": dict(request.url.params),
        "headers": {name: headers[name] for name in _OF_INTEREST if name in headers},
        "headerNames": sorted(headers.keys() - _TRANSPORT_HEADERS),
        "body": body,
    }


def _response(reply: Json, request: httpx.Request) -> httpx.Response:
    if reply.get("disconnect"):
        raise httpx.RemoteProtocolError(
            "the scripted server closed the connection", request=request
        )
    status = reply.get("status", 200)
    kind = reply.get("contentType", "application/json")
    content = reply["text"] if "text" in reply else stringify(reply.get("json"))
    return httpx.Response(status, content=content.encode(), headers={"content-type": kind})
