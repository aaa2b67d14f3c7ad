"""Error bodies in each provider's own shape."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from .types import ProviderName, Rejection

# https://platform.claude.com/docs/en/api/errors
_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}

# https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
_GEMINI_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}

# https://platform.openai.com/docs/guides/error-codes/api-errors
_OPENAI_TYPES = {429: "rate_limit_exceeded", 500: "server_error", 503: "server_error"}
_OPENAI_CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}

# github.com/livekit/agents/issues/3114 shows 400; the others follow the same gRPC wording.
_GROK_CODES = {
    400: "Client specified an invalid argument",
    401: "Unauthenticated",
    403: "The caller does not have permission to execute the specified operation",
    404: "Some requested entity was not found",
    429: "Some resource has been exhausted",
}


def error_body(
    provider: ProviderName,
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
) -> dict[str, Any]:
    """Return the JSON of an error as this provider words it."""
    failed = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if provider == "anthropic":
        kind = _ANTHROPIC_TYPES.get(status, "api_error" if failed else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}}
    if provider == "gemini":
        name = _GEMINI_STATUSES.get(status, "INTERNAL" if failed else "INVALID_ARGUMENT")
        return {"error": {"code": status, "message": message, "status": name}}
    if provider == "grok":
        # xAI takes OpenAI's requests but has errors of its own, flat and with a text for a code:
        # github.com/livekit/agents/issues/3114.
        prefix = "Invalid request content: " if status == HTTPStatus.BAD_REQUEST else ""
        return {"code": _GROK_CODES.get(status, "Internal error"), "error": prefix + message}
    kind = _OPENAI_TYPES.get(status, "server_error" if failed else "invalid_request_error")
    return {
        "error": {
            "message": message,
            "type": kind,
            "param": param or None,
            "code": code or _OPENAI_CODES.get(status),
        }
    }


def rejection_body(provider: ProviderName, rejection: Rejection) -> dict[str, Any]:
    """Return the JSON with which this provider refuses a request."""
    return error_body(
        provider,
        rejection.status,
        rejection.message,
        param=rejection.pointer,
        code=rejection.code,
    )
