"""How the API says no: one shape, which the useAgent hook shows to the user."""

from __future__ import annotations

from typing import Any


class Refusal(Exception):  # noqa: N818 - it is an answer, not a failure
    """Ends a request with an error answer ``{"error": {"message", "code"}}``.

    Attributes:
        status: The HTTP status.
        code: A word for programs.
        message: A sentence for people; it holds no facts that the caller may not know.
        headers: What goes with it.
    """

    def __init__(
        self, status: int, code: str, message: str, headers: dict[str, str] | None = None
    ) -> None:
        """Keep the answer."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers: dict[str, str] = headers or {}

    def body(self) -> dict[str, Any]:
        """The answer's JSON. The hook reads ``error.message``."""
        return {"error": {"message": self.message, "code": self.code}}


def unauthorized() -> Refusal:
    """Nobody is signed in."""
    return Refusal(401, "unauthorized", "Please sign in.")


def not_found(what: str = "thread") -> Refusal:
    """It is not there, or somebody else's: nobody learns which."""
    return Refusal(404, f"{what}_not_found", f"There is no such {what}.")


def invalid(message: str) -> Refusal:
    """The request cannot be understood."""
    return Refusal(400, "invalid_request", message)


def too_many(message: str, code: str = "too_many_runs") -> Refusal:
    """A limit per user is reached."""
    return Refusal(429, code, message, {"Retry-After": "5"})


def internal() -> Refusal:
    """Something failed; the log says what."""
    return Refusal(500, "internal_error", "Something went wrong on the server.")
