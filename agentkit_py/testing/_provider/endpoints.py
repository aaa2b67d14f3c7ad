"""The providers' URLs and keys: whom a request is for, and whether it may come in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .rules import Problem, Request, Unparsed, rules_of
from .types import PROVIDERS, ProviderName

_rule = rules_of(*PROVIDERS)
_anthropic_rule = rules_of("anthropic")
_azure_rule = rules_of("azure_openai")

# The prefixes let one server speak for all, as openai and grok share /v1/chat/completions.
PREFIXES: dict[ProviderName, str] = {
    "openai": "/openai/v1",
    "openai_responses": "/openai/v1",
    "azure_openai": "/azure",
    "anthropic": "/anthropic/v1",
    "gemini": "/gemini/v1beta",
    "grok": "/grok/v1",
}

_CHAT = re.compile(r"(?:/openai)?/v1/chat/completions")
_ROUTES: tuple[tuple[ProviderName, re.Pattern[str]], ...] = (
    ("openai_responses", re.compile(r"(?:/openai)?/v1/responses")),
    (
        "azure_openai",
        re.compile(r"(?:/azure)?/openai/deployments/(?P<model>[^/]+)/chat/completions"),
    ),
    ("azure_openai", re.compile(r"/azure/openai/v1/chat/completions")),
    ("grok", re.compile(r"/grok/v1/chat/completions")),
    ("openai", _CHAT),
    ("anthropic", re.compile(r"(?:/anthropic)?/v1/messages")),
    (
        "gemini",
        re.compile(
            r"(?:/gemini)?/v1(?:beta|alpha)?/models/(?P<model>[^/:]+)"
            r":(?P<verb>generateContent|streamGenerateContent)"
        ),
    ),
)
_HOSTS: dict[str, ProviderName] = {
    "api.x.ai": "grok",
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gemini",
}


@dataclass(frozen=True, slots=True)
class Route:
    """The destination of a request.

    Attributes:
        model: The model or deployment in the path, or empty.
        streams: Whether the path itself asks for a stream (Gemini has a verb for it).
    """

    provider: ProviderName
    model: str = ""
    streams: bool = False


def route(host: str, path: str) -> Route | None:
    """Return the destination of this host and path, or `None` if there is none.

    A real provider's host decides alone: `api.x.ai/v1/chat/completions` is Grok, and
    `api.openai.com/v1/messages` is nothing.
    """
    clean = re.sub(r"/{2,}", "/", path).rstrip("/") or "/"
    owner = _owner(host)
    if owner in ("grok", "azure_openai") and _CHAT.fullmatch(clean):
        return Route(owner)
    for provider, pattern in _ROUTES:
        found = pattern.fullmatch(clean)
        if found is not None and owner in _owners_of(provider):
            groups = found.groupdict()
            verb = groups.get("verb") or ""
            return Route(provider, groups.get("model") or "", verb.startswith("stream"))
    return None


def _owners_of(provider: ProviderName) -> tuple[ProviderName | None, ...]:
    if provider == "openai_responses":  # an API beside the first one, at the same hosts
        return (None, "openai", "azure_openai")
    return (None, provider)


def provider_of(host: str, path: str) -> ProviderName:
    """Return whose error shape an unknown path should get; OpenAI's if nothing hints at one."""
    owner = _owner(host)
    if owner is not None:
        return owner
    for provider, prefix in PREFIXES.items():
        if path.startswith(prefix.rsplit("/v1", 1)[0] + "/"):
            return provider
    return "gemini" if path.startswith("/v1beta") else "openai"


def _owner(host: str) -> ProviderName | None:
    name = host.split(":", 1)[0].lower()
    if name.endswith((".openai.azure.com", ".cognitiveservices.azure.com")):
        return "azure_openai"
    return _HOSTS.get(name)


def sent_key(request: Request) -> str:
    """Return the API key of a request, wherever its provider takes it from."""
    if request.provider == "anthropic":
        return request.headers.get("x-api-key", "")
    if request.provider == "gemini":
        return request.headers.get("x-goog-api-key", "") or request.query.get("key", "")
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    bearer = value.strip() if scheme.lower() == "bearer" else ""
    if request.provider == "azure_openai":
        return request.headers.get("api-key", "") or bearer
    return bearer


_NO_KEY = {
    "azure_openai": "Access denied due to missing subscription key. Make sure to include "
    "subscription key when making requests to an API.",
    "anthropic": "x-api-key header is required",
    "gemini": "Method doesn't allow unregistered callers (callers without established identity). "
    "Please use API Key or other form of API consumer identity to call this API.",
    "grok": "No API key provided. Use an Authorization header with a Bearer token.",
}
_NO_OPENAI_KEY = (
    "You didn't provide an API key. You need to provide your API key in an Authorization header "
    "using Bearer auth (i.e. Authorization: Bearer YOUR_KEY)."
)
_BAD_KEY = {
    "azure_openai": "Access denied due to invalid subscription key or wrong API endpoint.",
    "anthropic": "invalid x-api-key",
    "gemini": "API key not valid. Please pass a valid API key.",
    "grok": "Incorrect API key provided. You can obtain an API key from https://console.x.ai.",
}
_BAD_OPENAI_KEY = (
    "Incorrect API key provided. You can find your API key at "
    "https://platform.openai.com/account/api-keys."
)
_KEYS = (
    "authentication sections of platform.openai.com/docs/api-reference, learn.microsoft.com/azure/"
    "ai-services/openai/reference, platform.claude.com/docs/en/api/overview, ai.google.dev/api, "
    "docs.x.ai"
)


@_rule(_KEYS)
def missing_key(request: Request) -> Iterator[Problem]:
    """Every request carries an API key.

    The real Gemini answers 403 here; one status keeps tests simple.
    """
    if not sent_key(request):
        yield Problem(_NO_KEY.get(request.provider, _NO_OPENAI_KEY), status=401)


@_rule(_KEYS)
def wrong_key(request: Request) -> Iterator[Problem]:
    """The key is the right one, where the test says which one that is.

    The real Gemini and xAI answer 400; `Raw(status=400, …)` gives the real thing.
    """
    if request.expected_key is not None and sent_key(request) != request.expected_key:
        yield Problem(_BAD_KEY.get(request.provider, _BAD_OPENAI_KEY), status=401)


@_anthropic_rule("platform.claude.com/docs/en/api/versioning")
def missing_version(request: Request) -> Iterator[Problem]:
    """The `anthropic-version` header is required."""
    if not request.headers.get("anthropic-version"):
        yield Problem("anthropic-version: header is required")


@_azure_rule(
    "learn.microsoft.com/azure/ai-services/openai/reference, URI parameters "
    "(api-version: query, required)"
)
def missing_api_version(request: Request) -> Iterator[Problem]:
    """Deployment paths need `?api-version=`; without it Azure finds no such resource."""
    if not request.query.get("api-version") and "/deployments/" in request.path:
        yield Problem("Resource not found", code="404", status=404)


@_rule("errors pages of each provider; all of them answer 400")
def invalid_json(request: Request) -> Iterator[Problem]:
    """The body is one JSON object."""
    if isinstance(request.body, dict):
        return
    if request.provider == "gemini":
        yield Problem("Invalid JSON payload received. Unable to parse.")
    elif request.provider != "anthropic":
        words = "We could not parse the JSON body of your request."
        yield Problem(f"{words} The API expects a JSON payload.")
    elif isinstance(request.body, Unparsed):
        yield Problem("The request body is not valid JSON")
    else:
        yield Problem("Input should be a valid dictionary")
