"""Models: where requests go, and the pure adapter that knows the wire format.

The engine builds a `ModelRequest`, `Model.encode` makes the JSON body of it, the runtime sends
that, and `Model.decode` reads the answer. Nothing here does I/O; API keys are looked up by the
runtime.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

from agentkit_py._core.json import JsonObject, find_non_json
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Delta, Message, Usage
from agentkit_py.models.capabilities import Host

ToolChoice: TypeAlias = Literal["auto", "any"] | str
"""``"auto"``: the model decides; ``"any"``: it must call a tool; else the tool's name."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as it is offered to a model."""

    name: str
    description: str = ""
    parameters: JsonObject | None = None
    """JSON Schema (draft 2020-12, the input side) of the arguments; None: takes none."""

    strict: bool | None = None
    """Ask for strict arguments; None: where the provider knows it and the schema allows it."""

    forms: dict[str, Any] = field(
        default_factory=dict[str, Any], init=False, repr=False, compare=False
    )
    """The schema as each wire format takes it, converted once; see `agentkit_py.models.schema`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One inference, in our own message types."""

    messages: tuple[Message, ...]
    """Prompt and history in the order the model sees, each call with its result."""

    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    agent: str = ""
    """The agent that asks; texts of others are shown as theirs."""

    prefill: int = 0
    """The number of messages at the end with which the agent begins the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """One answer, in our own message types."""

    messages: tuple[Message, ...]
    usage: Usage | None = None
    finish_reason: str | None = None
    """The provider's own word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Retries of failed model calls: their number and the pauses (direct runtime only).

    Rate limits, 5xx, time-outs and broken connections are tried again; other errors never. A
    ``Retry-After`` header is honoured up to `max_wait`.
    """

    attempts: int = 3
    """Requests that are sent at the most; 1: no retry."""

    min_wait: float = 0.5
    """Seconds before the second attempt; doubled for each further one, with jitter."""

    max_wait: float = 60.0
    """Seconds between two attempts at the most. A longer ``Retry-After`` fails the call at once."""


class Assembler(Protocol):
    """Puts one streamed reply together from its server-sent events. Pure."""

    @property
    def ended(self) -> bool:
        """Return whether the format's end marker has come: nothing that counts follows."""
        ...

    @property
    def whole(self) -> bool:
        """Return whether all that counts has come, so that a connection may break now."""
        ...

    def feed(self, event: str | None, data: str) -> Sequence[Delta]:
        """Take one event; returns the pieces of the reply that it brings.

        Raises:
            ModelError: The event is an error of the provider, or not what the API promises.
        """
        ...

    def finish(self) -> object:
        """Return the JSON that the provider answers without streaming, once `whole`."""
        ...


@dataclass(frozen=True, slots=True)
class Adapter(ABC):
    """Our messages to one host's JSON and back. Pure: no I/O, clock or randomness."""

    host: Host
    path: str = ""
    """The end of the URL, behind the model's `base_url`."""

    @property
    def provider(self) -> str:
        """The name under which this host's opaque data is kept in messages."""
        return self.host.provider

    @property
    def key_variable(self) -> str:
        """The environment variable that holds the API key where none was given."""
        return self.host.key_variable

    def url(self, model: Model) -> str:
        """Return the request's URL."""
        return f"{model.base_url}{self.path}"

    def headers(self, model: Model, api_key: str | None) -> dict[str, str]:
        """Return the request's headers, the key among them; the model's own ones win."""
        headers = {"content-type": "application/json", **self.host.headers}
        if api_key:
            bearer = self.host.key_header == "authorization"
            headers[self.host.key_header] = f"Bearer {api_key}" if bearer else api_key
        return {**headers, **model.headers}

    @abstractmethod
    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        """Return the request's JSON body, which satisfies the provider's rules for any history."""

    @abstractmethod
    def decode(self, model: Model, body: object) -> ModelReply:
        """Return the messages of a successful answer.

        Raises:
            ModelResponseError: The answer is not what the API promises.
        """

    def assembler(self, model: Model) -> Assembler | None:  # noqa: ARG002 - for those who override
        """Return the assembler of one streamed reply; None: replies are not streamed."""
        return None

    def stream_url(self, model: Model) -> str:
        """Return the URL of a request for a stream."""
        return self.url(model)

    def stream_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body that `encode` gave as a request for a stream."""
        return {**body, "stream": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model at a provider. Make one with `openai`, `anthropic`, `gemini`, … ."""

    model: str
    """The provider's name of the model."""

    adapter: Adapter = field(repr=False)
    base_url: str
    api_key: str | None = field(default=None, repr=False)
    """None: read from the adapter's environment variable when the call is made."""

    default_parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Merged into each request body; the provider's own parameter names."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    timeout: float = 120.0
    """Seconds to wait for an answer."""

    retry: RetryPolicy = RetryPolicy()
    context_window: int | None = None
    """Tokens that prompt, history and answer may have together; None: not known."""

    key_required: bool = True
    """A missing key is an error here; a server of one's own may need none."""

    transport: Any = field(default=None, repr=False)
    """An `httpx.AsyncBaseTransport` for this model's requests: a proxy, certificates, a fake."""

    respond: Callable[[dict[str, Any]], Awaitable[object]] | None = field(default=None, repr=False)
    """Answers requests in this process instead of over HTTP: body in, the provider's JSON out."""

    @property
    def provider(self) -> str:
        """The provider's name, e.g. ``"openai"``."""
        return self.adapter.provider

    def with_parameters(self, **parameters: Any) -> Model:
        """Return a copy of the model with further default parameters."""
        return replace(self, default_parameters={**self.default_parameters, **parameters})

    def encode(self, request: ModelRequest) -> dict[str, Any]:
        """Return the JSON body of ``request`` for this model."""
        return self.adapter.encode(self, request)

    def decode(self, body: object) -> ModelReply:
        """Return the messages of a successful answer."""
        return self.adapter.decode(self, body)


class ModelOptions(TypedDict, total=False):
    """Options that the models of all providers take."""

    api_key: str | None
    """The key; None: read from the provider's environment variable when the call is made."""

    default_parameters: Mapping[str, Any] | None
    """Merged into each request under the provider's own names, over what the library puts there.

    Gemini's are further members of the body, e.g. ``generationConfig``, and replace nothing.
    """

    headers: Mapping[str, str] | None
    """Sent with each request."""

    timeout: float
    """Seconds to wait for an answer; 120 where not given."""

    retry: RetryPolicy
    """The retries of failed calls."""

    context_window: int | None
    """Tokens that prompt, history and answer may have together."""


def make_model(  # noqa: PLR0913 - ModelOptions, by name
    adapter: Adapter,
    model: str,
    *,
    base_url: str | None,
    key_required: bool = True,
    api_key: str | None = None,
    default_parameters: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 120.0,
    retry: RetryPolicy = RetryPolicy(),
    context_window: int | None = None,
) -> Model:
    """Return a checked `Model`; its options are those of `ModelOptions`.

    Raises:
        ConfigurationError: A value cannot work; the message names it, but never a key.
    """
    _check_key(adapter.provider, api_key)
    _check_numbers(timeout, retry, context_window)
    return Model(
        model=_checked_name(model),
        adapter=adapter,
        base_url=checked_url("base_url", adapter.host.base_url if base_url is None else base_url),
        api_key=api_key,
        default_parameters=_checked_parameters(default_parameters),
        headers=_checked_headers(headers),
        timeout=timeout,
        retry=retry,
        context_window=context_window,
        key_required=key_required,
    )


_URL = re.compile(r"https?://[^\s/?#]+[^\s?#]*")
# Nothing but a host (RFC 3986: a name, an IPv4 address, or what is in brackets) and a port before
# the path.
_ADDRESS = re.compile(r"https?://(\[[^\]\s@]+\]|[^\s/@:\[\]]+)(:\d{1,5})?(/|$)")
_UNSAFE_IN_HEADER = re.compile(r"[^\x21-\x7e]")


def checked_url(argument: str, value: object) -> str:
    """Return ``value`` without trailing slashes if it is an HTTP URL without query and password.

    Raises:
        ConfigurationError: It is not; what may be a secret in it is not shown.
    """
    if not isinstance(value, str) or _URL.fullmatch(value) is None:
        shown = re.split("[?#]", value)[0] if isinstance(value, str) else value
        hidden = isinstance(shown, str) and "@" in shown
        raise ConfigurationError(
            f"{argument}={'(not shown here)' if hidden else repr(shown)}: pass an http:// or "
            "https:// URL without query and fragment."
        )
    if _ADDRESS.match(value) is None:
        raise ConfigurationError(
            f"{argument}: this URL (it is not shown here) has a user, a password or a port that is "
            "no number before its path. Addresses stand in logs and errors: pass a key as "
            "api_key=…, and a password as headers={'Authorization': 'Basic …'}."
        )
    return value.rstrip("/")


def _checked_name(value: object) -> str:
    if not isinstance(value, str) or not value or value != value.strip():
        raise ConfigurationError(f"model={value!r}: pass the name as a non-empty string.")
    return value


def _check_key(provider: str, api_key: object) -> None:
    if api_key is None:
        return
    if not isinstance(api_key, str) or not api_key or _UNSAFE_IN_HEADER.search(api_key):
        raise ConfigurationError(
            f"api_key of the {provider} model is empty or holds whitespace or characters that "
            "no HTTP header can carry (it is not shown here). Pass None to read it from the "
            "environment when the call is made."
        )


def _check_numbers(timeout: object, retry: object, context_window: object) -> None:
    if not isinstance(timeout, int | float) or not 0 < timeout < float("inf"):
        raise ConfigurationError(f"timeout={timeout!r}: pass seconds, more than 0.")
    if not isinstance(retry, RetryPolicy):
        raise ConfigurationError(f"retry={retry!r}: pass a RetryPolicy.")
    if retry.attempts < 1:
        raise ConfigurationError(f"retry.attempts={retry.attempts!r}: 1 means no retry.")
    if context_window is None:
        return
    if not isinstance(context_window, int) or context_window < 1:
        raise ConfigurationError(f"context_window={context_window!r}: pass tokens, 1 or more.")


def _checked_parameters(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    if parameters is None:
        return {}
    if not isinstance(parameters, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"default_parameters={parameters!r}: pass a mapping.")
    copied = dict(parameters)
    where = find_non_json(copied, "default_parameters")
    if where is not None:
        raise ConfigurationError(f"{where}: JSON cannot carry this value.")
    return copied


def _checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    # Values may be secrets, so only the name is shown.
    for name, value in (headers or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"headers[{name!r}]: names and values are strings.")
        if "\n" in value or "\r" in value or not name or _UNSAFE_IN_HEADER.search(name):
            raise ConfigurationError(f"headers[{name!r}]: HTTP cannot carry this header.")
    return dict(headers or {})
