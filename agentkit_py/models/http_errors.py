"""Typed errors of providers' error answers. Pure: time is an argument, keys are cut out."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agentkit_py._core.json import as_list, as_object, dumps
from agentkit_py.errors import (
    AuthenticationError,
    BadRequestError,
    ContextOverflowError,
    ModelError,
    ModelHTTPError,
    ModelResponseError,
    ProviderUnavailableError,
    QuotaExceededError,
    RateLimitError,
)
from agentkit_py.models.base import Model

_MAX_DETAIL = 2000
_HIDDEN = "[key]"
_SHORTEST_SECRET = 6
"""Characters; a shorter header is a switch."""

_PAYMENT_REQUIRED = 402
_NO_CREDIT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
"""Codes for an account without credit: https://platform.openai.com/docs/guides/error-codes"""

_TOO_MANY_REQUESTS = 429
_FORBIDDEN = frozenset({401, 403})
_SERVER_ERROR = 500
_UNFINISHED = frozenset({408, 424})
"""A timeout, or a failed upstream request: Bedrock's status for a failed model."""

# OpenAI echoes a masked key ("sk-abc***xyz"), proxies whole ones. Shapes of the five providers.
_KEY_SHAPES = re.compile(
    r"\b(?:sk|xai|gsk|pk|bedrock-api-key)-[A-Za-z0-9_*.\-]{6,}|\bAIza[A-Za-z0-9_\-*]{10,}"
    r"|\bABSK[A-Za-z0-9+/=]{20,}|(?<=Bearer )[^\s\"',;]+"
)
_OVERFLOW = re.compile(
    r"context_length_exceeded|maximum context length|context window|prompt is too long"
    r"|input token count[^.]{0,80}exceeds|exceeds? the (?:maximum|model'?s)[^.]{0,60}tokens"
    r"|maximum prompt length|too many (?:input )?tokens|input is too long",
    re.IGNORECASE,
)
_REQUEST_IDS = (
    "x-request-id",
    "request-id",
    "apim-request-id",
    "x-goog-request-id",
    "x-amzn-requestid",
)

# What providers call an error in an event, where the status has been sent already.
_STATUS = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "INVALID_ARGUMENT": 400,
    "authentication_error": 401,
    "UNAUTHENTICATED": 401,
    "permission_error": 403,
    "PERMISSION_DENIED": 403,
    "not_found_error": 404,
    "NOT_FOUND": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "RESOURCE_EXHAUSTED": 429,
    "api_error": 500,
    "server_error": 500,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "timeout_error": 504,
    "DEADLINE_EXCEEDED": 504,
    "overloaded_error": 529,
    # Bedrock; a model that took too long or broke off may be asked again.
    "validationException": 400,
    "throttlingException": 429,
    "internalServerException": 500,
    "modelStreamErrorException": 500,
    "modelTimeoutException": 504,
    "serviceUnavailableException": 503,
}
_ERROR_STATUS = range(400, 600)
_THREE_DIGITS = re.compile(r"[0-9]{3}")


def error_from_response(
    model: Model,
    status: int,
    headers: Mapping[str, str],
    body_text: str,
    *,
    now: datetime | None = None,
    api_key: str | None = None,
) -> ModelHTTPError:
    """Return the error of an answer with an error status.

    Args:
        model: The model that was called.
        status: The HTTP status.
        headers: The answer's headers, names in any case.
        body_text: The body, JSON or not.
        now: The time (UTC) against which a ``Retry-After`` date is read; without it dates give
            no `retry_after`.
        api_key: The key that was sent, if it is not the model's own; cut out of the detail.
    """
    lower = {name.lower(): value for name, value in headers.items()}
    body = _json_or_none(body_text)
    detail = hide_keys(_message(body) or _excerpt(body_text) or "no detail", model, api_key)
    code = _code(body)
    error = _class(status, code, detail)(
        detail[:_MAX_DETAIL],
        provider=model.provider,
        model=model.model,
        status=status,
        retry_after=_retry_after(lower, now),
        request_id=next((lower[name] for name in _REQUEST_IDS if name in lower), None),
    )
    if error.retriable and lower.get("x-should-retry", "").strip().lower() == "false":
        error.retriable = False  # OpenAI and Anthropic say so where waiting does not help
    return error


def error_in_body(
    model: Model, body: object, api_key: str | None = None
) -> ModelResponseError | None:
    """Return the error in a body with a status of success, or None; ``api_key`` is hidden in it."""
    found = as_object(_first(body))
    if found is None or not found.get("error"):
        return None
    detail = hide_keys(_message(found) or "unknown error", model, api_key)[:_MAX_DETAIL]
    return unexpected(model, body, f"the answer is an error: {detail}", api_key)


def unexpected(
    model: Model, body: object, what: str, api_key: str | None = None
) -> ModelResponseError:
    """Return the error for an answer that violates the API's contract."""
    return ModelResponseError(
        what,
        provider=model.provider,
        model=model.model,
        excerpt=hide_keys(excerpt_of(body), model, api_key),
    )


def error_in_event(model: Model, found: dict[str, Any]) -> ModelError | None:
    """Return the error in an event of a stream, typed as it is without streaming; else None."""
    if not found.get("error"):
        return None
    status = _status_of(as_object(found["error"]) or {})
    if status is None:
        return error_in_body(model, found)
    return error_from_response(model, status, {}, dumps(found))


def _status_of(error: dict[str, Any]) -> int | None:
    for name in ("code", "status", "type"):
        value = error.get(name)
        if isinstance(value, str):
            value = int(value) if _THREE_DIGITS.fullmatch(value) else _STATUS.get(value)
        if isinstance(value, int) and value in _ERROR_STATUS:
            return value
    return None


def hide_keys(text: str, model: Model, api_key: str | None) -> str:
    """Return ``text`` without the key, the sent headers, and text that looks like a key.

    A short key, e.g. ``none`` for a server that asks for none, is hidden where it is a whole word.
    """
    own = None if callable(model.api_key) else model.api_key
    keys = {key for key in (api_key, own) if key}
    long = {key for key in (*keys, *model.headers.values()) if len(key) >= _SHORTEST_SECRET}
    patterns = [re.escape(key) for key in sorted(long, key=len, reverse=True)]
    patterns += [rf"(?<!\w){re.escape(key)}(?!\w)" for key in sorted(keys - long)]
    if patterns:
        text = re.sub("|".join(patterns), _HIDDEN, text)
    return _KEY_SHAPES.sub(_HIDDEN, text)


def excerpt_of(body: object) -> str:
    """Return the beginning of an answer, for error messages."""
    try:
        return dumps(body)[:500]
    except (TypeError, ValueError, RecursionError):
        return f"<{type(body).__name__}>"


def _class(status: int, code: str, detail: str) -> type[ModelHTTPError]:
    if status in _FORBIDDEN:
        return AuthenticationError
    if status == _PAYMENT_REQUIRED or not _NO_CREDIT.isdisjoint(code.split()):
        return QuotaExceededError
    if status == _TOO_MANY_REQUESTS:
        return RateLimitError
    if status >= _SERVER_ERROR or status in _UNFINISHED:
        return ProviderUnavailableError
    if _OVERFLOW.search(code) or _OVERFLOW.search(detail):
        return ContextOverflowError
    if "api key not valid" in detail.lower() or code == "API_KEY_INVALID":
        return AuthenticationError  # Gemini answers a wrong key with 400
    return BadRequestError


def _json_or_none(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _first(body: object) -> object:
    """Return the body, or its first element: Gemini sends errors of a stream in a list."""
    items = as_list(body)
    return items[0] if items else body


def _message(body: object) -> str:
    """Return the provider's words, in any of the shapes in use.

    OpenAI, Azure, Gemini, Anthropic: ``{"error": {"message"}}``; xAI: ``{"code", "error": "…"}``;
    gateways: ``{"message"}`` or ``{"detail"}``.
    """
    found = as_object(_first(body))
    if found is None:
        return ""
    inner: Any = found.get("error", found)
    if isinstance(inner, str):
        return inner
    details = as_object(inner)
    if details is None:
        return excerpt_of(found)
    for name in ("message", "detail", "error"):
        value = details.get(name)
        if isinstance(value, str) and value:
            return value
    return excerpt_of(details)


def _code(body: object) -> str:
    found = as_object(_first(body)) or {}
    inner = as_object(found.get("error")) or found
    codes = [inner.get("code"), inner.get("type")]
    reasons = [
        detail.get("reason")
        for detail in map(as_object, as_list(inner.get("details")) or [])
        if detail is not None
    ]
    if "API_KEY_INVALID" in reasons:
        return "API_KEY_INVALID"
    return " ".join(code for code in codes if isinstance(code, str))


def _excerpt(text: str) -> str:
    """Return the beginning of a body that is no JSON, without the tags of an HTML page."""
    return " ".join(re.sub(r"<[^>]*>", " ", text[:_MAX_DETAIL]).split())


def _retry_after(headers: Mapping[str, str], now: datetime | None) -> float | None:
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if value is None:
        return None
    seconds = _seconds(value)
    if seconds is not None or now is None:
        return seconds
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - slow, and few answers need it

    try:
        return max(0.0, (parsedate_to_datetime(value) - now).total_seconds())
    except (TypeError, ValueError):
        return None  # not a date, or without time zone


def _seconds(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 <= seconds < float("inf") else None
