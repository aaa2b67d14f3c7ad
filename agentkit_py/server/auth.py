"""Authentication: the user of a request, pages of other sites, and tokens for streams."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import time
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection, Request

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import dumps
from agentkit_py._core.untrusted import get_logger
from agentkit_py._core.urls import host_name, is_loopback
from agentkit_py._engine.option_checks import expect_callback, expect_text, expect_texts
from agentkit_py.errors import ConfigurationError
from agentkit_py.server.errors import ApiError, internal, unauthorized

logger: logging.Logger = get_logger("agentkit_py.server")

Auth: TypeAlias = Callable[[Request], "str | Awaitable[str | None] | None"]
"""Returns the id of the user who sent a request; None, or an error, refuses it."""

LOCAL_USER = "local"
"""The id of the only user with ``auth="local"``."""

_LONGEST_ID = 256
_SHORTEST_SECRET = 16
_NEEDED = (
    "create_app needs auth=…, a function that gives the user's id of a request (None refuses it). "
    'For trying things out on this machine, auth="local" makes everybody the same user and answers '
    "only to programs here."
)


class Authenticator:
    """Finds the user of a request, and refuses requests from pages of other sites.

    Args:
        auth: Returns the user's id; ``"local"``: the single user of this machine.
        origins: Pages on other hosts that may use the API, as ``https://host``.

    Raises:
        ConfigurationError: ``auth`` is neither, or an origin is invalid or a wildcard.
    """

    def __init__(self, auth: Auth | Literal["local"] | None, origins: Sequence[str] = ()) -> None:
        if auth is None or (auth != "local" and not callable(auth)):
            got = "" if auth is None else f" Got {auth!r:.80}."
            raise ConfigurationError(_NEEDED + got)
        if auth != "local":
            expect_callback("create_app", "auth", auth, "request")
        expect_texts("create_app", "origins", origins, "a list of pages' origins")
        for origin in origins:
            parts = urlsplit(origin)
            if not parts.netloc or "*" in origin or origin != f"{parts.scheme}://{parts.netloc}":
                raise ConfigurationError(
                    f"origins: {origin!r} is not the origin of a page, such as https://shop.example"
                )
        self._auth = auth
        self.origins: tuple[str, ...] = tuple(origins)

    async def user_of(self, request: Request) -> str:
        """Return the user's id, or refuse the request."""
        if request.method not in ("GET", "HEAD"):
            self.check_page(request)
        if self._auth == "local":
            _check_local(request)
            return LOCAL_USER
        assert callable(self._auth)
        try:
            found = await resolve(self._auth(request))
        except Exception:
            # The error may hold facts about the user, so only the log has them.
            logger.warning("auth refused a request with an error", exc_info=True)
            raise unauthorized() from None
        if found is None:
            raise unauthorized()
        return _checked(found)

    def check_page(self, request: HTTPConnection) -> None:
        """Refuse requests that a page of another site makes a signed-in browser send.

        Browsers send the origin of a request (``Sec-Fetch-Site``, ``Origin``); other clients
        send neither, and have no cookies that another site could use.
        """
        site = request.headers.get("sec-fetch-site")
        origin = request.headers.get("origin")
        if site in ("same-origin", "none") or origin in self.origins:
            return
        if site is None and (origin is None or is_same_host(origin, request)):
            return
        raise ApiError(403, "foreign_origin", "Pages of another host may not do this.")


def _checked(user_id: object) -> str:
    if not isinstance(user_id, str):
        kind = type(user_id).__name__
        logger.error("auth must return the user's id as a str, or None; got %s", kind)
        raise internal()
    if not 0 < len(user_id) <= _LONGEST_ID or not user_id.isprintable():
        logger.error("auth must return an id of 1 to %d printable characters", _LONGEST_ID)
        raise internal()
    return user_id


def _check_local(request: HTTPConnection) -> None:
    """Accept programs on this machine only, under this machine's names.

    The name counts since a page may make its host's name point here (DNS rebinding).
    """
    client = request.client.host if request.client is not None else ""
    if not (is_loopback(client) and is_loopback(host_name(request.headers.get("host", "")))):
        raise ApiError(
            403, "local_only", 'With auth="local" only programs on this machine are answered.'
        )


def is_same_host(origin: str, request: HTTPConnection) -> bool:
    """Return whether a page's origin is the host that the request was sent to."""
    host = urlsplit(origin).netloc  # empty for "null"
    return host != "" and host == request.headers.get("host")


@dataclass(frozen=True, slots=True)
class Grant:
    """The contents of a stream token."""

    user_id: str
    session: str
    """Names the token, so that a reader that comes back is known."""

    expires: int
    """Seconds since 1970."""


class StreamTokens:
    """Signs and reads tokens with which a browser may listen to a user's channel.

    Args:
        secret: The key; a random one unless given, so that tokens end with the process.
        seconds: Time for which a token may be used to connect.
        clock: Seconds since 1970.

    Raises:
        ConfigurationError: The secret is too short, e.g. from a variable that is not set.
    """

    def __init__(
        self, secret: str | None = None, seconds: int = 600, clock: Callable[[], float] = time
    ) -> None:
        expect_text("create_app", "secret", secret)
        if secret is not None and len(secret.strip()) < _SHORTEST_SECRET:
            raise ConfigurationError(
                f"create_app: secret must have at least {_SHORTEST_SECRET} characters, since "
                "a guessed secret opens every channel. `openssl rand -hex 32` prints a secret"
            )
        self._key = secrets.token_bytes(32) if secret is None else secret.encode()
        self._seconds = seconds
        self._clock = clock

    def make(self, user_id: str) -> tuple[str, Grant]:
        """Return a new token for a user."""
        grant = Grant(user_id, secrets.token_hex(8), int(self._clock()) + self._seconds)
        body = _encode(dumps([grant.user_id, grant.session, grant.expires]).encode())
        return f"{body}.{self._sign(body)}", grant

    def read(self, token: str) -> Grant | None:
        """Return a token's grant; None if it is forged or expired."""
        body, _, signature = token.rpartition(".")
        # As bytes: compare_digest refuses text that is not ASCII.
        if not hmac.compare_digest(signature.encode(), self._sign(body).encode()):
            return None
        text = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        user_id, session, expires = json.loads(text)
        return Grant(user_id, session, expires) if expires > self._clock() else None

    def _sign(self, body: str) -> str:
        return _encode(hmac.new(self._key, body.encode(), hashlib.sha256).digest())


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
