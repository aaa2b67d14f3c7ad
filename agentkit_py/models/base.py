"""What a model is: a value that says where to send what, and a pure adapter that knows the format.

Above: the engine builds a `ModelRequest` and the runtime sends what `Model.encode` makes of it.
Below: one adapter per wire format. Nothing here does I/O; API keys are looked up by the runtime.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

from agentkit_py._core.json import JsonObject
from agentkit_py.messages import Delta, Message, Usage

if TYPE_CHECKING:
    import httpx

ToolChoice: TypeAlias = Literal["auto", "any"] | str
"""``"auto"``: the model decides; ``"any"``: it must call a tool; else the tool's name."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it."""

    name: str
    description: str = ""
    parameters: JsonObject | None = None
    """JSON Schema (draft 2020-12, the input side) of the arguments; None: takes none."""

    strict: bool | None = None
    """Ask for strict arguments; None: where the provider knows it and the schema allows it."""

    forms: dict[str, Any] = field(
        default_factory=dict[str, Any], init=False, repr=False, compare=False
    )
    """What encoders made of this tool, by wire format: one spec per tool converts it once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One inference, in our own words."""

    messages: tuple[Message, ...]
    """Prompt and history, joined in the order the model is to see, calls and results whole."""

    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    agent: str = ""
    """The agent that asks; texts of others are theirs."""

    prefill: int = 0
    """How many messages at the end are the beginning of the answer, put there by the agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """What came back, in our own words."""

    messages: tuple[Message, ...]
    usage: Usage | None = None
    finish_reason: str | None = None
    """As the provider calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and after which time a failed model call is tried again (direct runtime only).

    Rate limits, 5xx, time-outs and broken connections are tried again; other errors never. A
    ``Retry-After`` header is honoured up to `max_wait`.
    """

    attempts: int = 3
    """How many requests are sent at the most; 1: no retry."""

    min_wait: float = 0.5
    """Seconds before the second attempt; doubled for each further one, with jitter."""

    max_wait: float = 60.0
    """Seconds between two attempts at the most. A longer ``Retry-After`` fails the call at once."""


class Adapter(Protocol):
    """Our messages to one provider's JSON and back. Pure: no I/O, clock or randomness."""

    @property
    def provider(self) -> str:
        """The name under which this provider's opaque data is kept in messages."""
        ...

    @property
    def key_variable(self) -> str:
        """The environment variable that holds the API key where none was given."""
        ...

    def url(self, model: Model) -> str:
        """Where the request is sent."""
        ...

    def headers(self, model: Model, api_key: str | None) -> dict[str, str]:
        """The request's headers, the key among them."""
        ...

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        """The request's JSON body, which satisfies the provider's rules for any valid history."""
        ...

    def decode(self, model: Model, body: object) -> ModelReply:
        """The messages of a successful answer.

        Raises:
            ModelResponseError: The answer is not what the API promises.
        """
        ...


class Assembler(Protocol):
    """Puts one streamed reply together from its server-sent events. Pure."""

    @property
    def ended(self) -> bool:
        """Whether the format's end marker has come: nothing that counts follows."""
        ...

    @property
    def whole(self) -> bool:
        """Whether all that counts has come, so that a connection may break now."""
        ...

    def feed(self, event: str | None, data: str) -> Sequence[Delta]:
        """Take one event; returns the pieces of the reply that it brings.

        Raises:
            ModelError: The event is an error of the provider, or not what the API promises.
        """
        ...

    def finish(self) -> object:
        """The answer's JSON as it would have been without streaming; ask once it is `whole`."""
        ...


@runtime_checkable
class StreamingAdapter(Adapter, Protocol):
    """An adapter whose provider can stream replies; adapters need not be one."""

    def stream_url(self, model: Model) -> str:
        """Where a request for a stream is sent."""
        ...

    def stream_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """What `encode` gave, as a request for a stream."""
        ...

    def assembler(self, model: Model) -> Assembler:
        """What puts one reply together."""
        ...


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

    extra_headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    timeout: float = 120.0
    """Seconds to wait for an answer."""

    retry: RetryPolicy = RetryPolicy()
    context_window: int | None = None
    """Tokens that prompt, history and answer may have together; None: not known."""

    key_required: bool = True
    """Whether a missing key is an error here; a server of one's own may need none."""

    transport: httpx.AsyncBaseTransport | None = field(default=None, repr=False)
    """An httpx transport for this model's requests: a proxy, client certificates, or a fake."""

    respond: Callable[[dict[str, Any]], Awaitable[object]] | None = field(default=None, repr=False)
    """Answers requests in this process instead of over HTTP: body in, the provider's JSON out."""

    @property
    def provider(self) -> str:
        """The provider's name, e.g. ``"openai"``."""
        return self.adapter.provider

    def with_parameters(self, **parameters: Any) -> Model:
        """The same model with further default parameters."""
        return replace(self, default_parameters={**self.default_parameters, **parameters})

    def encode(self, request: ModelRequest) -> dict[str, Any]:
        """The JSON body of ``request`` for this model."""
        return self.adapter.encode(self, request)

    def decode(self, body: object) -> ModelReply:
        """The messages of a successful answer."""
        return self.adapter.decode(self, body)
