"""The providers' URLs: whom a request is for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from agentkit_py.models.capabilities import COMPATIBLE, host_of_url

from .types import ProviderName

# The prefixes let a single server serve all, since openai and grok share /v1/chat/completions.
PREFIXES: dict[ProviderName, str] = {
    "openai": "/openai/v1",
    "openai_responses": "/openai/v1",
    "azure_openai": "/azure",
    "anthropic": "/anthropic/v1",
    "gemini": "/gemini/v1beta",
    "grok": "/grok/v1",
    "compatible": "/compatible/v1",
}

_CHAT = re.compile(r"(?:/openai)?/v1/chat/completions")
_ROUTES: tuple[tuple[ProviderName, re.Pattern[str]], ...] = (
    ("openai_responses", re.compile(r"(?:/openai|/grok)?/v1/responses")),
    (
        "azure_openai",
        re.compile(r"(?:/azure)?/openai/deployments/(?P<model>[^/]+)/chat/completions"),
    ),
    ("azure_openai", re.compile(r"/azure/openai/v1/chat/completions")),
    ("grok", re.compile(r"/grok/v1/chat/completions")),
    ("compatible", re.compile(r"/compatible/v1/chat/completions")),
    ("openai", _CHAT),
    ("anthropic", re.compile(r"(?:/anthropic)?/v1/messages")),
    (
        "anthropic",
        re.compile(
            r"/v1/projects/[^/]+/locations/[^/]+/publishers/anthropic/models/(?P<model>[^/:]+)"
            r":(?P<vertex>rawPredict|streamRawPredict)"
        ),
    ),
    (
        "anthropic",
        re.compile(r"/model/(?P<model>[^/]+)/(?P<bedrock>invoke(?:-with-response-stream)?)"),
    ),
    (
        "gemini",
        re.compile(
            r"(?:/gemini)?/v1(?:beta1?|alpha)?"
            r"(?:/projects/[^/]+/locations/[^/]+/publishers/google)?/models/(?P<model>[^/:]+)"
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
# Hosts with their own dialect of chat completions, each with its extra fields.
_COMPATIBLE = re.compile(
    r"(?:.+\.)?(?:crusoecloud\.com|heroku\.com|minimaxi\.com|moonshot\.cn|novita\.ai|ollama\.com"
    r"|snowflakecomputing\.com|together\.ai|z\.ai)"
)
_VERTEX = re.compile(r"(?:.+-)?aiplatform\.(?:[a-z]+\.rep\.)?googleapis\.com")
_CLOUDS = ("vertex", "bedrock")
_NAMED = frozenset(host_of_url(host.base_url) for host in COMPATIBLE.values())
_COMPATIBLE_CHAT = re.compile(r"/(?:.+/)?chat/completions")


@dataclass(frozen=True, slots=True)
class Route:
    """The destination of a request.

    Attributes:
        model: The model or deployment in the path, or empty.
        streams: Whether the path itself asks for a stream (Gemini has a verb for it).
        cloud: The cloud that has the model, where that has a form of its own of the API.
    """

    provider: ProviderName
    model: str = ""
    streams: bool = False
    cloud: str = ""


def route(host: str, path: str) -> Route | None:
    """Return the destination of this host and path, or `None` if there is none.

    A real provider's host decides alone: `api.x.ai/v1/chat/completions` is Grok, and
    `api.openai.com/v1/messages` is nothing.
    """
    clean = re.sub(r"/{2,}", "/", path).rstrip("/") or "/"
    owner = _owner(host)
    if owner in ("grok", "azure_openai") and _CHAT.fullmatch(clean):
        return Route(owner)
    if owner == "compatible" and _COMPATIBLE_CHAT.fullmatch(clean):
        return Route(owner)
    for provider, pattern in _ROUTES:
        found = pattern.fullmatch(clean)
        if found is not None and owner in _owners_of(provider, found):
            return _named(provider, found.groupdict())
    return None


def _named(provider: ProviderName, groups: dict[str, str | None]) -> Route:
    """Return the route of a path with these parts."""
    cloud = next((name for name in _CLOUDS if groups.get(name)), "")
    verb = groups.get(cloud or "verb") or ""
    return Route(provider, unquote(groups.get("model") or ""), "stream" in verb, cloud)


def _owners_of(
    provider: ProviderName, found: re.Match[str]
) -> tuple[ProviderName | str | None, ...]:
    if "vertex" in found.groupdict():
        return (None, "gemini")
    if provider == "openai_responses":  # a second API at the same hosts
        return (None, "openai", "azure_openai", "grok")
    return (None, provider)


def provider_of(host: str, path: str) -> ProviderName:
    """Return the provider whose error shape an unknown path gets; OpenAI by default."""
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
    if _VERTEX.fullmatch(name):
        return "gemini"
    if host.lower() in _NAMED or name in _NAMED:
        return "compatible"
    return "compatible" if _COMPATIBLE.fullmatch(name) else _HOSTS.get(name)
