"""Tokens with which a browser may listen to one user's channel, and to no other."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from time import time

from agentkit_py._core.json import dumps
from agentkit_py.errors import ConfigurationError

_SHORTEST_SECRET = 16


@dataclass(frozen=True, slots=True)
class Grant:
    """What a token allows."""

    user_id: str
    session: str
    """Names the token, so that a reader that comes back is known."""

    expires: int
    """Seconds since 1970."""


def checked_secret(secret: str | None) -> str | None:
    """The secret, if it is hard to guess; None stands for one that is made up.

    Raises:
        ConfigurationError: It is too short, e.g. that of a variable which is not set.
    """
    if secret is not None and len(secret.strip()) < _SHORTEST_SECRET:
        raise ConfigurationError(
            f"create_app: secret must have at least {_SHORTEST_SECRET} characters, since whoever "
            "guesses it can listen to everybody. `openssl rand -hex 32` prints one"
        )
    return secret


class Tokens:
    """Signs and reads tokens.

    Args:
        secret: The key; a new one unless given, so that tokens end with the process.
        seconds: How long a token may be used to connect.
        clock: Seconds since 1970.
    """

    def __init__(
        self, secret: str | None = None, seconds: int = 600, clock: Callable[[], float] = time
    ) -> None:
        """Keep the key."""
        self._key = secrets.token_bytes(32) if secret is None else secret.encode()
        self._seconds = seconds
        self._clock = clock

    def make(self, user_id: str) -> tuple[str, Grant]:
        """A new token for a user."""
        grant = Grant(user_id, secrets.token_hex(8), int(self._clock()) + self._seconds)
        body = _encode(dumps([grant.user_id, grant.session, grant.expires]).encode())
        return f"{body}.{self._sign(body)}", grant

    def read(self, token: str) -> Grant | None:
        """What a token allows now; None if it is none of ours, or over."""
        body, _, signature = token.rpartition(".")
        # As bytes: compare_digest refuses text that is not ASCII.
        if not hmac.compare_digest(signature.encode(), self._sign(body).encode()):
            return None
        user_id, session, expires = json.loads(_decode(body))
        return Grant(user_id, session, expires) if expires > self._clock() else None

    def _sign(self, body: str) -> str:
        return _encode(hmac.new(self._key, body.encode(), hashlib.sha256).digest())


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
