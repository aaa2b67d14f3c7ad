"""Access to the playground: this machine's own pages, or whoever has the token."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agentkit_py.server.auth import host_name, is_loopback

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
        """Tell whether the request brings the cookie."""
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
        """Return the response in place of the app's, if there is one."""
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
