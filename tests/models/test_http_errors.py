"""Error answers as typed errors."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py.errors import (
    AuthenticationError,
    BadRequestError,
    ContextOverflowError,
    ModelHTTPError,
    ProviderUnavailableError,
    QuotaExceededError,
    RateLimitError,
)
from agentkit_py.models import anthropic, gemini, openai
from agentkit_py.models.http_errors import error_from_response, error_in_body

MODEL = openai("gpt-4.1", api_key="my-very-own-key")
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


def error(status: int, body: Any = "", headers: dict[str, str] | None = None) -> ModelHTTPError:
    """The error of an answer."""
    text = body if isinstance(body, str) else json.dumps(body)
    return error_from_response(MODEL, status, headers or {}, text, now=NOW)


@pytest.mark.parametrize(
    ("status", "kind", "retriable"),
    [
        (400, BadRequestError, False),
        (401, AuthenticationError, False),
        (403, AuthenticationError, False),
        (404, BadRequestError, False),
        (413, BadRequestError, False),
        (422, BadRequestError, False),
        (429, RateLimitError, True),
        (500, ProviderUnavailableError, True),
        (529, ProviderUnavailableError, True),
        (302, BadRequestError, False),
    ],
)
def test_the_status_decides_the_type_of_the_error(
    status: int, kind: type[ModelHTTPError], retriable: bool
) -> None:
    """The error's type says whether a retry makes sense."""
    found = error(status, {"error": {"message": "no"}})
    assert type(found) is kind
    assert (found.status, found.retriable, found.detail) == (status, retriable, "no")
    assert (found.provider, found.model) == ("openai", "gpt-4.1")


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"error": {"message": "m", "type": "t", "code": "c"}}, "m"),
        ({"type": "error", "error": {"type": "t", "message": "m"}}, "m"),
        ([{"error": {"code": 400, "message": "m", "status": "INVALID_ARGUMENT"}}], "m"),
        ({"code": "Client specified an invalid argument", "error": "m"}, "m"),
        ({"message": "m"}, "m"),
        ({"detail": "m"}, "m"),
        (
            {"error": {"type": "server_error", "code": "boom"}},
            '{"type":"server_error","code":"boom"}',
        ),
        ({"error": 3}, '{"error":3}'),
        ("<html><h1>Bad  gateway</h1></html>", "Bad gateway"),
        ("plain", "plain"),
        ("", "no detail"),
        ([], "[]"),
    ],
)
def test_the_providers_words_are_found_in_any_shape(body: Any, detail: str) -> None:
    """Five providers and their gateways."""
    assert error(400, body).detail == detail


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "too long", "code": "context_length_exceeded"}},
        {"error": {"message": "This model's maximum context length is 8192 tokens."}},
        {
            "type": "error",
            "error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"},
        },
        {
            "error": {
                "message": "The input token count (1100000) exceeds the maximum number of tokens"
            }
        },
        {"error": "This model's maximum prompt length is 131072 but it has 140000 tokens."},
        {"error": {"message": "input length and `max_tokens` exceed context window"}},
    ],
)
def test_a_request_that_is_too_long_has_its_own_error(body: Any) -> None:
    """Callers can shorten the request and try again."""
    assert type(error(400, body)) is ContextOverflowError


def test_geminis_wrong_key_is_an_authentication_error() -> None:
    """It comes as 400."""
    details = [{"@type": "x", "reason": "API_KEY_INVALID"}]
    body = {"error": {"code": 400, "message": "API key not valid.", "details": details}}
    assert type(error(400, body)) is AuthenticationError


@pytest.mark.parametrize(
    ("said", "retriable"), [("false", False), (" False", False), ("true", True), ("soon", True)]
)
def test_a_provider_may_say_that_another_try_is_useless(said: str, retriable: bool) -> None:
    """The header comes before the status."""
    assert error(503, "", {"X-Should-Retry": said}).retriable is retriable


def test_a_provider_cannot_make_a_refused_request_worth_another_try() -> None:
    """The same request would be refused again."""
    assert not error(400, "", {"x-should-retry": "true"}).retriable


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Fri, 20 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Fri, 20 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Fri, 31 Feb 2026 11:00:00 GMT"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(
    headers: dict[str, str], seconds: float | None
) -> None:
    """Dates count from the time that is passed in."""
    assert error(429, "", headers).retry_after == seconds


def test_without_the_time_a_date_says_nothing() -> None:
    """The function has no clock."""
    headers = {"retry-after": "Fri, 20 Nov 2026 12:00:30 GMT"}
    assert error_from_response(MODEL, 429, headers, "").retry_after is None


@pytest.mark.parametrize("name", ["x-request-id", "Request-Id", "apim-request-id"])
def test_the_request_id_is_kept(name: str) -> None:
    """Support asks for it."""
    assert error(500, "", {name: "req_1"}).request_id == "req_1"


@pytest.mark.parametrize(
    "said",
    [
        "Incorrect API key provided: sk-abc***wxyz.",
        "Incorrect API key provided: my-very-own-key.",
        "You sent 'Bearer abcdefgh'.",
        "AIzaSyA1234567890abcdef is not valid",
        "key xai-abcdefgh12345",
        "sent: key-of-the-environment",
    ],
)
def test_no_key_is_in_a_message(said: str) -> None:
    """Providers echo keys, masked or whole."""
    found = error_from_response(
        MODEL, 401, {}, json.dumps({"error": {"message": said}}), api_key="key-of-the-environment"
    )
    shown = str(found) + repr(found)
    for secret in ("abc", "my-very", "AIza", "of-the-environment"):
        assert secret not in shown
    assert "[key]" in shown


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("key", "keys: a [key] of none"),
        ("none", "keys: a key of [key]"),
        ("a", "keys: [key] key of none"),
    ],
)
def test_a_short_key_is_hidden_as_a_word_and_nowhere_else(key: str, shown: str) -> None:
    """Local servers take any key: ``none`` must not spoil other words."""
    said = json.dumps({"error": {"message": "keys: a key of none"}})

    found = error_from_response(MODEL, 400, {}, said, api_key=key)

    assert shown in str(found)


def test_long_details_are_cut() -> None:
    """A page of HTML is no message."""
    assert len(error(500, "x" * 9000).detail) == 2000


@pytest.mark.parametrize(
    "body", [{}, {"error": None}, {"error": ""}, [], None, "x", {"choices": []}]
)
def test_bodies_without_error_are_none(body: Any) -> None:
    """Some APIs say ``"error": null`` in every answer."""
    assert error_in_body(MODEL, body) is None


def test_an_error_in_a_successful_body_is_found() -> None:
    """Its words and its beginning are kept, without keys."""
    found = error_in_body(MODEL, {"error": {"message": "bad key my-very-own-key"}})
    assert found is not None
    assert str(found) == "openai model 'gpt-4.1': the answer is an error: bad key [key]"
    assert "very" not in found.excerpt


@given(
    status=st.integers(300, 599),
    body=st.text() | st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(
            st.sampled_from(["error", "message", "detail", "code", "type", "details"]), inner
        ),
    ).map(json.dumps),
    retry=st.text(),
)  # fmt: skip
def test_any_answer_gives_an_error_of_the_tree(status: int, body: str, retry: str) -> None:
    """No answer of a server may break the reading of errors."""
    for model in (MODEL, anthropic("m"), gemini("m")):
        found = error_from_response(model, status, {"retry-after": retry}, body, now=NOW)
        assert found.status == status
        assert found.detail


@pytest.mark.parametrize(
    ("status", "code"), [(429, "insufficient_quota"), (402, "payment_required")]
)
def test_an_account_without_credit_is_not_asked_again(status: int, code: str) -> None:
    """OpenAI says so by a 429 like that of a rate limit, DeepSeek by a 402."""
    failure = error(status, {"error": {"message": "No credit left.", "code": code}})
    assert type(failure) is QuotaExceededError
    assert not failure.retriable
