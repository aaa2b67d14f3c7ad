"""Who may ask the playground: this machine's own pages, or whoever has the token."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
_READS = frozenset({"GET", "HEAD"})
_OWN_SITES = frozenset({"same-origin", "none"})


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine only."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Access:
    """The rule.

    Without a token only requests to this machine by its own names are answered, so that no page of
    another site gets here by a name that it makes point at this machine. Requests that change
    something must come from the page itself.
    """

    token: str | None = None
    """What must be given; None: nothing, since only this machine can reach it."""

    def refusal(self, scope: Scope) -> str | None:
        """Why a request is refused; None: it is not."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self.token is None and not is_loopback(_name_of(host)):
            return "Ask for it as localhost, 127.0.0.1 or [::1]."
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return "Another site's page may not ask."
        site = headers.get("sec-fetch-site", "none")
        changes = scope["method"] not in _READS
        if site not in _OWN_SITES and (changes or scope["path"].startswith("/dev-api")):
            return "Another site's page may not ask."
        return None

    def is_known(self, scope: Scope) -> bool:
        """Whether the request brings the cookie."""
        if self.token is None:
            return True
        cookies = cookie_parser(Headers(scope=scope).get("cookie", ""))
        return self.is_token(cookies.get(COOKIE, ""))

    def is_token(self, given: str) -> bool:
        """Whether ``given`` is the token; takes as long for a nearly right one as for any other."""
        token = self.token or ""
        return bool(token) and secrets.compare_digest(given.encode(), token.encode())


def _name_of(host: str) -> str:
    """The name in a ``Host`` header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


class Guard:
    """ASGI middleware that applies a rule, and sends strict headers with every answer."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        """Guard ``app``."""
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_strictly(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        answer = self._answer(scope) or self._app
        await answer(scope, receive, send_strictly)

    def _answer(self, scope: Scope) -> Response | None:
        """What is answered in place of the app."""
        refusal = self._access.refusal(scope)
        if refusal is not None:
            return PlainTextResponse(refusal, HTTPStatus.FORBIDDEN)
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        given = dict(query).get(TOKEN)
        if given is not None and scope["path"] == "/" and self._access.is_token(given):
            return self._welcome(query, given)
        if self._access.is_known(scope):
            return None
        text = "Open the address with ?token=… that agentkit dev printed."
        return PlainTextResponse(text, HTTPStatus.UNAUTHORIZED)

    def _welcome(self, query: list[tuple[str, str]], token: str) -> Response:
        """Keep the token in a cookie, and take it out of the address."""
        rest = urlencode([(name, value) for name, value in query if name != TOKEN])
        answer = RedirectResponse(f"/?{rest}" if rest else "/", HTTPStatus.SEE_OTHER)
        answer.set_cookie(COOKIE, token, httponly=True, samesite="strict")
        return answer
