"""Errors of the API: an `ApiError` ends a request with a status, a message and a code."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import TypedDict


class ApiError(Exception):
    """Ends a request with ``{"error": {"message", "code"}}``; the useAgent hook shows the message.

    Attributes:
        status: The HTTP status.
        code: A word for programs.
        message: A sentence for people; it holds no facts that the caller may not know.
        headers: Headers of the response.
    """

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers: dict[str, str] = dict(headers or {})

    def body(self) -> ErrorResponse:
        """Return the response's JSON."""
        return {"error": {"message": self.message, "code": self.code}}


def unauthorized() -> ApiError:
    """Return the error for a request without a known user."""
    return ApiError(401, "unauthorized", "Please sign in.")


def not_found(what: str = "thread") -> ApiError:
    """Return the error for something that is missing or of another user, without saying which."""
    return ApiError(404, f"{what}_not_found", f"There is no such {what}.")


def no_streams() -> ApiError:
    """Return the error for a stream of runs whose chunks do not pass through this server."""
    words = (
        "The agents run as Inngest functions, whose replies do not pass through this server: "
        "send with /api/chat, and listen with the token of /api/realtime/token, or let them pass "
        'through the store (realtime="store").'
    )
    return ApiError(501, "no_streams", words)


def invalid(message: str) -> ApiError:
    """Return the error for a request that cannot be understood."""
    return ApiError(400, "invalid_request", message)


def too_many(message: str, code: str = "too_many_runs") -> ApiError:
    """Return the error for a limit per user."""
    return ApiError(429, code, message, {"Retry-After": "5"})


def internal() -> ApiError:
    """Return the error for a failure that only the log explains."""
    return ApiError(500, "internal_error", "Something went wrong on the server.")


class ErrorFacts(TypedDict):
    """The reason why a request was refused."""

    message: str
    """A sentence for people."""

    code: str
    """A word for programs."""


class ErrorResponse(TypedDict):
    """A request that was refused."""

    error: ErrorFacts
