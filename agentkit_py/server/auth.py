"""Who asks: the user of a request, and whether a browser sent it from a page of somebody else."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection, Request

from agentkit_py._core.awaiting import resolve
from agentkit_py.errors import ConfigurationError
from agentkit_py.server.refusals import Refusal, internal, unauthorized

logger: logging.Logger = logging.getLogger("agentkit_py.server")

Auth: TypeAlias = Callable[[Request], "str | Awaitable[str | None] | None"]
"""Gives the id of the user who sent a request; None, or an error, refuses it."""

LOCAL_USER = "local"
"""Who everybody is with ``auth="local"``."""

_LONGEST_ID = 256
_NEEDED = (
    "create_app needs auth=…, a function that gives the user's id of a request (None refuses it). "
    'For trying things out on this machine, auth="local" makes everybody the same user and answers '
    "only to programs here."
)


def check_auth(auth: object) -> None:
    """Refuse to serve without knowing whom.

    Raises:
        ConfigurationError: ``auth`` is no function and not ``"local"``.
    """
    if auth != "local" and not callable(auth):
        got = "" if auth is None else f" Got {auth!r:.80}."
        raise ConfigurationError(_NEEDED + got)


def checked_origins(origins: Sequence[str]) -> tuple[str, ...]:
    """The origins, each one host's.

    Raises:
        ConfigurationError: One is not an origin, or stands for all.
    """
    for origin in origins:
        parts = urlsplit(origin)
        if not parts.netloc or "*" in origin or origin != f"{parts.scheme}://{parts.netloc}":
            raise ConfigurationError(
                f"origins: {origin!r} is not the origin of a page, such as https://shop.example"
            )
    return tuple(origins)


@dataclass(frozen=True, slots=True)
class Door:
    """Lets requests in.

    Attributes:
        auth: Who the user is; ``"local"``: the one user of this machine.
        origins: Pages on other hosts that may use the API, as ``https://host``.
    """

    auth: Auth | Literal["local"]
    origins: Sequence[str] = ()

    async def user_of(self, request: Request) -> str:
        """The user's id.

        Raises:
            Refusal: The request must not be answered.
        """
        if request.method not in ("GET", "HEAD"):
            self.check_page(request)
        if self.auth == "local":
            _check_local(request)
            return LOCAL_USER
        try:
            found = await resolve(self.auth(request))
        except Exception:
            # Whatever it knows about the user stays in the log.
            logger.warning("auth refused a request with an error", exc_info=True)
            raise unauthorized() from None
        if found is None:
            raise unauthorized()
        return _checked(found)

    def check_page(self, request: Request) -> None:
        """Refuse what a page of somebody else makes a signed-in browser send.

        Browsers say where a request comes from (``Sec-Fetch-Site``, ``Origin``); others send
        neither, and have no cookies that somebody else could use.
        """
        site = request.headers.get("sec-fetch-site")
        origin = request.headers.get("origin")
        if site in ("same-origin", "none") or origin in self.origins:
            return
        if site is None and (origin is None or is_same_host(origin, request)):
            return
        raise Refusal(403, "foreign_origin", "Pages of another host may not do this.")


def is_same_host(origin: str, request: HTTPConnection) -> bool:
    """Whether a page's origin is the host that the request was sent to."""
    host = urlsplit(origin).netloc  # empty for "null"
    return host != "" and host == request.headers.get("host")


def _checked(user_id: object) -> str:
    problem = None
    if not isinstance(user_id, str):
        problem = f"auth must return the user's id as a str, or None; got {type(user_id).__name__}"
    elif not 0 < len(user_id) <= _LONGEST_ID or not user_id.isprintable():
        problem = f"auth must return an id of 1 to {_LONGEST_ID} printable characters"
    if problem is not None:
        logger.error("%s", problem)
        raise internal()
    assert isinstance(user_id, str)
    return user_id


def _check_local(request: HTTPConnection) -> None:
    """Only programs on this machine, under this machine's names.

    The name is looked at since a page may have its host's name point here (DNS rebinding).
    """
    client = request.client.host if request.client is not None else ""
    name = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    if not _is_loopback(client) or not (name == "localhost" or _is_loopback(name)):
        raise Refusal(
            403, "local_only", 'With auth="local" only programs on this machine are answered.'
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
