"""The table of the providers' rules: how a rule is written down, registered and applied."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar, cast

from .types import PROVIDERS, ProviderName, Rejection, Signing

T = TypeVar("T")

Confidence: TypeAlias = Literal["documented", "sdk", "observed", "inferred"]
"""Official documentation, types of the official SDK, seen in answers and threads, or our guess."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A breach of a rule: the provider's words, and the place.

    Attributes:
        unknown: Whether the value is only unknown to the fake: see `not_known`.
    """

    message: str
    pointer: str = ""
    code: str | None = None
    status: int = 400
    unknown: bool = False


def not_known(what: str, where: str) -> Problem:
    """Return the problem of a value that this fake does not know, in its own words.

    Providers' lists of kinds and parameters grow: the real provider may accept it.
    """
    words = (
        f"FakeProvider does not know {what} ({where}), so it cannot decide whether the real "
        "provider takes it. Check the spelling; FakeProvider(strict=False) lets it through."
    )
    return Problem(words, where, "unknown_to_fake_provider", unknown=True)


class Unparsed(str):
    """A request body that is not JSON."""

    __slots__ = ()


@dataclass(slots=True)
class Request:
    """A request as rules see it.

    Attributes:
        host: The host that was asked, with its port.
        expected_key: The only accepted API key, or `None` to accept any.
        signing: How signed reasoning is checked.
        views: Views of the body that several rules share, by the function that makes them.
        cloud: The cloud that is asked for Claude, ``"bedrock"`` or ``"vertex"``; empty: none.
        sent: The original body; a cloud's request is checked in the form of Anthropic's own API.
    """

    provider: ProviderName
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    model: str = ""
    host: str = ""
    expected_key: str | None = None
    signing: Signing = field(default_factory=Signing)
    views: dict[Any, Any] = field(default_factory=dict[Any, Any])
    cloud: str = ""
    sent: Any = None

    def has_beta(self, name: str) -> bool:
        """Return whether the request uses a Claude beta of this name or prefix."""
        return name in self.headers.get("anthropic-beta", "")


RuleCheck: TypeAlias = Callable[[Request], Iterator[Problem]]
"""Yields the problems; the first becomes the response."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table.

    Attributes:
        name: Its name, the second half of its ids.
        providers: Where it holds.
        check: What finds the breach; its docstring says the rule.
        source: Where the rule is published or was seen.
        confidence: How well the source is known.
        models: Which of the providers' models have it; `None`: all.
        optional: Off unless asked for by id (rules that only some deployments have).
    """

    name: str
    providers: tuple[ProviderName, ...]
    check: RuleCheck
    source: str
    confidence: Confidence = "documented"
    models: Callable[[str], bool] | None = None
    optional: bool = False

    @property
    def ids(self) -> tuple[str, ...]:
        """One id per provider, such as `grok.unanswered_tool_call`."""
        return tuple(f"{provider}.{self.name}" for provider in self.providers)

    @property
    def says(self) -> str:
        """The rule in words."""
        return self.check.__doc__ or ""


_TABLE: list[Rule] = []


def rules_of(*providers: ProviderName) -> Callable[..., Callable[[RuleCheck], RuleCheck]]:
    """Return the decorator that adds checks to the table as rules of these providers.

    It takes a rule's source, then its confidence, `models` and `optional`; see `Rule`. The name is
    the function's own, its docstring says the rule:

        @_rule("platform.claude.com/docs/en/…", "documented", models=_since_4_5)
        def temperature_and_top_p(request: Request) -> Iterator[Problem]:
            '''From Claude 4.5 on, `temperature` and `top_p` exclude each other.'''
    """

    def rule(
        source: str,
        confidence: Confidence = "documented",
        *,
        models: Callable[[str], bool] | None = None,
        optional: bool = False,
    ) -> Callable[[RuleCheck], RuleCheck]:
        def register(check: RuleCheck) -> RuleCheck:
            found = Rule(check.__name__, providers, check, source, confidence, models, optional)
            _TABLE.append(found)
            return check

        return register

    return rule


def provider_rules() -> tuple[Rule, ...]:
    """Return every rule that a `FakeProvider` knows, in the order in which they are applied."""
    return tuple(_TABLE)


def rules_for(provider: ProviderName, extra: Iterable[str] = ()) -> tuple[Rule, ...]:
    """Return the rules of a provider, with the optional rules named in `extra`."""
    wanted = frozenset(extra)
    return tuple(
        found
        for found in _TABLE
        if provider in found.providers
        and (not found.optional or f"{provider}.{found.name}" in wanted)
    )


def first_rejection(request: Request, rules: Iterable[Rule]) -> Rejection | None:
    """Apply rules in order; the first that objects decides, as in the real services.

    Later rules may therefore rely on the shapes that earlier ones have established.
    """
    for found in rules:
        if found.models is not None and not found.models(request.model):
            continue
        problem = next(found.check(request), None)
        if problem is not None:
            return Rejection(
                f"{request.provider}.{found.name}",
                problem.message,
                problem.pointer,
                problem.status,
                problem.code,
                problem.unknown,
            )
    return None


# What checks are made of.


def view(make: Callable[[Request], T]) -> Callable[[Request], T]:
    """Make a view of a request once, however many rules look at it."""

    def seen(request: Request) -> T:
        if make not in request.views:
            request.views[make] = make(request)
        return cast("T", request.views[make])

    return seen


@dataclass(slots=True)
class ToolRound:
    """The calls of a turn and the results after them, each as (pointer, id).

    Attributes:
        caller: Number of the message that calls; `answerer`: of the message with the results.
    """

    calls: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    results: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    caller: int = 0
    answerer: int = 0

    def unanswered(self) -> list[tuple[str, Any]]:
        """Return the calls without a result."""
        answered = {one for _, one in self.results}
        return [call for call in self.calls if call[1] not in answered]

    def unknown(self) -> list[tuple[str, Any]]:
        """Return the results that answer none of the calls."""
        called = {one for _, one in self.calls}
        return [result for result in self.results if result[1] not in called]


def repeated(found: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yield the pairs of (pointer, value) whose value occurred before."""
    seen: set[str] = set()
    for where, value in found:
        name = repr(value)  # some are not texts, and no request may break the fake
        if name in seen:
            yield where, value
        seen.add(name)


def names(text: str) -> frozenset[str]:
    """Return the set of the names in a text, which is easier to compare with a reference."""
    return frozenset(text.split())


def object_of(value: Any) -> dict[str, Any]:
    """Return a JSON object, or an empty object for any other value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def items_of(value: Any) -> list[Any]:
    """Return a JSON list, or an empty list for any other value."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def numbered(path: str, values: Any) -> Iterator[tuple[str, Any]]:
    """Yield the items of a list with their pointers, such as `messages[3]`."""
    for index, value in enumerate(items_of(values)):
        yield f"{path}[{index}]", value


def is_name_list(value: Any) -> bool:
    """Return whether a JSON value is a list of strings."""
    return isinstance(value, list) and all(isinstance(one, str) for one in items_of(value))


def is_int(value: Any) -> bool:
    """Return whether a JSON value is an integer; `true` is not, unlike in Python."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Return whether a JSON value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def types_of(schema: dict[str, Any]) -> list[Any]:
    """Return the types that a JSON schema names, `[None]` where it names none."""
    kind = schema.get("type")
    return items_of(kind) if isinstance(kind, list) else [kind]


def referred(root: dict[str, Any], reference: str) -> Any:
    """Return the target of a reference in a JSON schema, or None."""
    found: Any = root
    for name in reference.removeprefix("#").strip("/").split("/") if reference != "#" else ():
        found = object_of(found).get(name)
    return found


# Media, as all formats carry it.

DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,[A-Za-z0-9+/]+={0,2}")
URL = re.compile(r"https?://\S+")
BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def matches(value: Any, *patterns: re.Pattern[str]) -> bool:
    """Return whether a JSON value is a string that matches any of the patterns."""
    return isinstance(value, str) and any(pattern.fullmatch(value) for pattern in patterns)


def data_type(url: Any) -> str:
    """Return the media type of a data URL; empty for an address."""
    return url[5 : url.index(";")] if matches(url, DATA_URL) else ""


# Rules that every provider applies before it reads the content: keys, versions, JSON. They are
# here, where every format imports them, so that they run first.

_rule = rules_of(*PROVIDERS)
_anthropic_rule = rules_of("anthropic")
_azure_rule = rules_of("azure_openai")


def sent_key(request: Request) -> str:
    """Return the API key of a request, wherever its provider takes it from.

    In clouds that is the token or the signature.
    """
    if request.provider == "anthropic" and not request.cloud:
        return request.headers.get("x-api-key", "")
    if request.cloud:
        return request.headers.get("authorization", "").removeprefix("Bearer ")
    if request.provider == "gemini":
        on_vertex = "aiplatform." in request.host
        given = request.headers.get("x-goog-api-key", "") or request.query.get("key", "")
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        return given or (bearer if on_vertex else "")
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    bearer = value.strip() if scheme.lower() == "bearer" else ""
    if request.provider in ("azure_openai", "openai_responses"):
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

    The real Gemini answers 403 here; a common status keeps tests simple.
    """
    if not sent_key(request):
        yield Problem(_NO_KEY.get(request.provider, _NO_OPENAI_KEY), status=401)


@_rule(_KEYS)
def wrong_key(request: Request) -> Iterator[Problem]:
    """The key is the test's key, if the test has set it.

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
    """The body is a JSON object."""
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
