"""Rules that every provider has before it looks at the content: keys, JSON, versions."""

from __future__ import annotations

from .rules import Inbound, Problem, Unparsed, rule


def _bearer(request: Inbound) -> str:
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""


def sent_key(request: Inbound) -> str:
    """Return the API key of a request, wherever its provider takes it from."""
    if request.provider == "anthropic":
        return request.headers.get("x-api-key", "")
    if request.provider == "gemini":
        return request.headers.get("x-goog-api-key", "") or request.query.get("key", "")
    if request.provider == "azure_openai":
        return request.headers.get("api-key", "") or _bearer(request)
    return _bearer(request)


_NO_KEY = {
    "openai_responses": "You didn't provide an API key. You need to provide your API key in an "
    "Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
    "openai": "You didn't provide an API key. You need to provide your API key in an Authorization "
    "header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
    "azure_openai": "Access denied due to missing subscription key. Make sure to include "
    "subscription key when making requests to an API.",
    "anthropic": "x-api-key header is required",
    "gemini": "Method doesn't allow unregistered callers (callers without established identity). "
    "Please use API Key or other form of API consumer identity to call this API.",
    "grok": "No API key provided. Use an Authorization header with a Bearer token.",
}
_BAD_KEY = {
    "openai_responses": "Incorrect API key provided. You can find your API key at "
    "https://platform.openai.com/account/api-keys.",
    "openai": "Incorrect API key provided. You can find your API key at "
    "https://platform.openai.com/account/api-keys.",
    "azure_openai": "Access denied due to invalid subscription key or wrong API endpoint.",
    "anthropic": "invalid x-api-key",
    "gemini": "API key not valid. Please pass a valid API key.",
    "grok": "Incorrect API key provided. You can obtain an API key from https://console.x.ai.",
}


@rule()
def missing_key(request: Inbound) -> Problem | None:
    """Every request carries an API key.

    Sources: the authentication sections of platform.openai.com/docs/api-reference,
    learn.microsoft.com/azure/ai-services/openai/reference,
    platform.claude.com/docs/en/api/overview, ai.google.dev/api and docs.x.ai. (The real Gemini
    answers 403 here; one status keeps tests simple.)
    """
    if sent_key(request):
        return None
    return Problem(_NO_KEY[request.provider], status=401)


@rule()
def wrong_key(request: Inbound) -> Problem | None:
    """The key is the right one, where the test says which one that is.

    Sources as for `missing_key`. (The real Gemini and xAI answer 400 to a wrong key; one status
    keeps tests simple, and `Raw(status=400, …)` gives the real thing.)
    """
    if request.expected_key is None or sent_key(request) == request.expected_key:
        return None
    return Problem(_BAD_KEY[request.provider], status=401)


@rule("anthropic")
def missing_version(request: Inbound) -> Problem | None:
    """The `anthropic-version` header is required.

    Source: platform.claude.com/docs/en/api/versioning.
    """
    if request.headers.get("anthropic-version"):
        return None
    return Problem("anthropic-version: header is required")


@rule("azure_openai")
def missing_api_version(request: Inbound) -> Problem | None:
    """Deployment paths need `?api-version=`; without it Azure finds no such resource.

    Source: learn.microsoft.com/azure/ai-services/openai/reference, "URI parameters"
    (api-version: query, required).
    """
    if request.query.get("api-version") or "/deployments/" not in request.path:
        return None
    return Problem("Resource not found", code="404", status=404)


_BAD_JSON = {
    "anthropic": "The request body is not valid JSON",
    "gemini": "Invalid JSON payload received. Unable to parse.",
}


@rule()
def invalid_json(request: Inbound) -> Problem | None:
    """The body is one JSON object.

    Sources: the errors pages of each provider (see `errors.py`); all of them answer 400.
    """
    if isinstance(request.body, dict):
        return None
    default = "We could not parse the JSON body of your request. The API expects a JSON payload."
    message = _BAD_JSON.get(request.provider, default)
    if not isinstance(request.body, Unparsed) and request.provider == "anthropic":
        message = "Input should be a valid dictionary"
    return Problem(message)
