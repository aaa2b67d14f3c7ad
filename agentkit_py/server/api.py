"""The endpoints' common ground: reading requests, letting users in, and answering errors."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from agentkit_py._core.json import dumps
from agentkit_py.codec import escape_surrogates
from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.server.auth import Door
from agentkit_py.server.config import Settings
from agentkit_py.server.hub import Hub
from agentkit_py.server.jobs import Backend
from agentkit_py.server.refusals import Refusal, internal, invalid, not_found
from agentkit_py.server.tokens import Tokens
from agentkit_py.stores import HistoryStore
from agentkit_py.stores.scoped import for_user

logger: logging.Logger = logging.getLogger("agentkit_py.server")

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""What every answer carries: it is one user's, and it is what it says it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """What the endpoints share."""

    settings: Settings
    door: Door
    backend: Backend
    hub: Hub
    tokens: Tokens

    def threads_of(self, user_id: str) -> HistoryStore:
        """The store as this user may see it."""
        return for_user(self.settings.store, user_id)

    async def body(self, request: Request) -> object:
        """The request's JSON; an empty body is an empty object.

        Raises:
            Refusal: It is too long or no JSON.
        """
        limit = self.settings.limits.body_bytes
        parts = bytearray()
        async for part in request.stream():
            parts += part
            if len(parts) > limit:
                raise Refusal(413, "too_large", f"A request may have at most {limit} bytes.")
        if not parts:
            return {}
        try:
            return json.loads(parts)
        except RecursionError:
            raise invalid("The body is nested too deeply.") from None
        except ValueError:
            raise invalid("The body is no JSON.") from None


Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
"""An endpoint as Starlette wants it."""

Handler: TypeAlias = Callable[[Api, Request, str], Awaitable[Response]]
"""An endpoint: gets the request and the user's id."""


def answer(
    found: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """JSON for one user."""
    # What a model says may hold half of a surrogate pair, which only JSON can say.
    content = escape_surrogates(dumps(found)).encode()
    named = {**HEADERS, **(headers or {})}
    return Response(content, status, headers=named, media_type="application/json")


def refused(refusal: Refusal) -> Response:
    """The answer that a refusal is."""
    return answer(refusal.body(), refusal.status, refusal.headers)


def endpoint(api: Api, handler: Handler) -> Endpoint:
    """An endpoint that knows its user."""

    async def serve(request: Request) -> Response:
        return await handler(api, request, await api.door.user_of(request))

    return guarded(serve)


def guarded(handler: Endpoint) -> Endpoint:
    """An endpoint whose errors say nothing of the machine."""

    async def serve(request: Request) -> Response:
        try:
            return await handler(request)
        except Refusal as refusal:
            return refused(refusal)
        except ThreadNotFoundError:
            return refused(not_found())
        except ClientDisconnect:
            return Response(status_code=499)  # nobody reads it
        except Exception:
            logger.exception("%s %s failed", request.method, request.url.path)
            return refused(internal())

    return serve


async def http_error(_request: Request, error: Exception) -> Response:
    """Errors of the routing itself, e.g. a path that is none."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    words = {404: "There is nothing here.", 405: "This method is not allowed here."}
    code = {404: "not_found", 405: "method_not_allowed"}.get(status, "error")
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    return refused(Refusal(status, code, words.get(status, "The request failed."), headers))
