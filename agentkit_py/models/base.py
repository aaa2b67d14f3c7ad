"""Models: where requests go, and the pure adapter that knows the wire format.

The engine builds a `ModelRequest`, `Model.encode` makes the JSON body of it, the runtime sends
that, and `Model.decode` reads the answer. Nothing here does I/O; API keys are looked up by the
runtime.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, TypedDict, cast

from agentkit_py._core.extension_points import ExtensionPoint
from agentkit_py._core.json import JsonObject, copied, find_non_json
from agentkit_py._core.spellings import option_hint, snake_case
from agentkit_py._core.validation import wrong_number
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import Delta, Finish, FinishReason, Message, TextMessage, Usage
from agentkit_py.models.capabilities import Capabilities, Host, capabilities_of

ToolChoice: TypeAlias = Literal["auto", "any"] | str
"""``"auto"``: the model decides; ``"any"``: it must call a tool; else the tool's name."""


PromptCache: TypeAlias = Literal["auto", "1h", False]
"""``"auto"``: requests are sent so that the provider caches their beginning, with its own lifetime;
``"1h"``: Claude keeps it for an hour instead of five minutes; False: nothing is done for it."""


HostedTool: TypeAlias = str | Mapping[str, Any]
"""A tool that the provider runs: ``"web_search"``, ``"code_execution"``, ``"image_generation"``,
``"tool_search"``, or the provider's own JSON for it."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as it is offered to a model."""

    name: str
    description: str = ""
    parameters: JsonObject | None = None
    """JSON Schema (draft 2020-12, the input side) of the arguments; None: takes none."""

    strict: bool | None = None
    """Ask for strict arguments; None: where the schema allows it at OpenAI, and at Anthropic where
    a call is wanted that the model cannot be made to make."""

    provider: JsonObject | None = None
    """The provider's own definition of a tool that the program runs; see `provider_tool`."""

    memo: dict[str, Any] = field(
        default_factory=dict[str, Any], init=False, repr=False, compare=False
    )
    """Made once of the schema: its form in each wire format, its tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """A request that the provider summarises a conversation that has grown too long."""

    tokens: int
    """The length of a request from which on it does so."""

    instructions: str | None = None
    """Instructions for the summary, in place of the provider's own; Claude only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One inference, in our own message types."""

    messages: tuple[Message, ...]
    """Prompt and history in the order the model sees, each call with its result."""

    tools: tuple[ToolSpec, ...] = ()
    hosted: tuple[HostedTool, ...] = ()
    """Tools that the provider runs, offered along with the others."""

    tool_choice: ToolChoice = "auto"
    allowed_tools: frozenset[str] | None = None
    """Names of the tools that may be called now; None: all."""

    agent: str = ""
    """The agent that asks; texts of others are shown as theirs."""

    prefill: int = 0
    """The number of messages at the end with which the agent begins the answer."""

    account: str = ""
    """A tag of the account that asks; empty: the tag of the model's own key, if it has a key."""

    output: ToolSpec | None = None
    """The name and schema of the answer, for models that write JSON of a given schema."""

    refused: frozenset[str] = frozenset()
    """Digests of reasoning that the provider has refused; see `agentkit_py.models.binding`."""

    cache_key: str | None = None
    """A digest of the thread, under which providers cache its requests; empty: no thread;
    None: no later request has this beginning."""

    compaction: Compaction | None = None
    """A request that the provider summarises the conversation, if it can; or None."""

    call_id: str = field(default="", compare=False)
    """The id of an agent's call of a `function_model`, the same in each attempt of a durable run;
    empty for other calls."""

    show: Callable[[str], Awaitable[None]] | None = field(default=None, repr=False, compare=False)
    """Streams a piece of a `function_model`'s reply; None: the reply is not streamed."""

    writers: dict[str, Any] | None = field(default=None, repr=False, compare=False)
    """The run's conversations as they were last written, by agent, to extend: see
    `agentkit_py.models.writer.written`; None: each request is written from its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """One answer, in our own message types."""

    messages: tuple[Message, ...]
    usage: Usage | None = None
    finish: Finish | None = None
    """Why the reply ended; None: that is not known."""

    @property
    def text(self) -> str:
        """The texts of the reply, joined."""
        return "".join(m.text for m in self.messages if isinstance(m, TextMessage))

    @property
    def finish_reason(self) -> FinishReason | None:
        """The reason in our vocabulary."""
        return None if self.finish is None else self.finish.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Retries of failed model calls: their number and the pauses.

    In a durable run the server tries the step again instead, unless `durable` says otherwise.

    Rate limits, 5xx, time-outs and broken connections are tried again; other errors never, nor
    what the provider says not to try (``x-should-retry: false``). A ``Retry-After`` header is
    honoured up to `max_wait`.
    """

    attempts: int = 3
    """Requests that are sent at the most; 1: no retry."""

    min_wait: float = 0.5
    """Seconds before the second attempt; doubled for each further attempt, with jitter."""

    max_wait: float = 60.0
    """Seconds between two attempts at the most. A longer ``Retry-After`` fails the call at once."""

    durable: bool = True
    """Inngest tries the step of a failed call again, as often as the function's ``retries`` say;
    False: the call is tried inside its step by this policy, and then its failure is remembered."""


ApiKey: TypeAlias = "str | Callable[..., str | Awaitable[str]] | None"
"""A key, or a function that gives it, with the run's context if it takes an argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedCall:
    """A request that is about to be sent, as guards get it."""

    model: Model
    account: str
    """A tag of the account that is asked; empty: not known."""

    tokens: int
    """An estimate of the request's tokens."""


class CallGuard(Protocol):
    """Decides whether and when a request is sent, and receives its outcome."""

    async def enter(self, call: GuardedCall, /) -> Any:
        """Wait until the request may be sent; the returned value is passed to `leave`.

        Raises:
            AgentKitError: It may not be sent.
        """
        ...

    async def leave(
        self, call: GuardedCall, ticket: Any, usage: Usage | None, error: BaseException | None, /
    ) -> None:
        """Take note of the request's end."""
        ...


class Signer(Protocol):
    """Makes the headers that prove to a host who asks."""

    async def headers(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes, /
    ) -> Mapping[str, str]:
        """Return all headers of the request."""
        ...


class Decoder(Protocol):
    """Cuts the bytes of a stream into its events. Pure."""

    def feed(self, piece: bytes) -> Iterator[str]:
        """Take bytes as they arrive; yields the data of the events that are complete.

        Raises:
            ModelError: The bytes are not such a stream.
        """
        ...


class Assembler(Protocol):
    """Assembles a streamed reply from its events. Pure."""

    @property
    def ended(self) -> bool:
        """Return whether the format's end marker has come: nothing that counts follows."""
        ...

    @property
    def whole(self) -> bool:
        """Return whether all that counts has come, so that a connection may break now."""
        ...

    def feed(self, event: str | None, data: str) -> Sequence[Delta]:
        """Add an event; returns its pieces of the reply.

        Raises:
            ModelError: The event is an error of the provider, or violates the API's contract.
        """
        ...

    def finish(self) -> object:
        """Return the JSON that the provider answers without streaming, once `whole`."""
        ...


@dataclass(frozen=True, slots=True)
class Adapter(ABC):
    """Translates our messages to a host's JSON and back. Pure: no I/O, clock or randomness."""

    host: Host
    path: str = ""
    """The end of the URL, behind the model's `base_url`."""

    stream_type: ClassVar[str] = "text/event-stream"
    """The media type of streamed replies."""

    refused_parameters: ClassVar[Mapping[str, str]] = {}
    """Parameters that change the form of a reply or the content of a request, with the way out."""

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
        """Return the request's JSON body, which satisfies the provider's rules for any history.

        The next request of a run extends the conversation in this body: nothing
        in it may be changed in place. `Model.encode` returns a copy.
        """

    @abstractmethod
    def decode(self, model: Model, body: object) -> ModelReply:
        """Return the messages of a successful answer.

        Raises:
            ModelResponseError: The answer violates the API's contract.
            EmptyReplyError: It says nothing, and not because the model was done.
        """

    def bind(
        self,
        model: Model,
        request: ModelRequest,
        messages: Sequence[Message],
    ) -> tuple[Message, ...]:
        """Return a reply's messages, its reasoning with the facts on which it may be sent back."""
        return tuple(messages)

    def left_out(
        self,
        model: Model,
        request: ModelRequest,
    ) -> Sequence[tuple[Message, str]]:
        """Return the reasoning of earlier replies that `encode` does not send, each with why."""
        return ()

    def output_format(
        self,
        model: Model,
        spec: ToolSpec,
    ) -> dict[str, Any] | None:
        """Return the members of a body that ask for an answer of this schema; None: it cannot.

        Raises:
            ToolDefinitionError: This host can take the schema in no form, not even as a tool's.
        """
        return None

    def with_output(
        self, model: Model, request: ModelRequest, body: dict[str, Any]
    ) -> dict[str, Any]:
        """Return a body that asks for the answer's schema, merged with the parameters' values."""
        asked = None if request.output is None else self.output_format(model, request.output)
        for name, value in (asked or {}).items():
            own: Any = body.get(name)
            body[name] = {**own, **value} if isinstance(own, dict) else value
        return body

    def for_request(self, model: Model, request: ModelRequest) -> Adapter:
        """Return the adapter with the headers that a request's content needs."""
        return self

    def sent(self, model: Model, request: ModelRequest) -> Sequence[Message]:
        """Return the request's messages without those that the provider's summary replaces."""
        return request.messages

    def assembler(self, model: Model) -> Assembler | None:
        """Return the assembler of a streamed reply; None: replies are not streamed."""
        return None

    def decoder(self, model: Model) -> Decoder | None:
        """Return the decoder of a stream of `stream_type`; None: server-sent events."""
        return None

    def stream_url(self, model: Model) -> str:
        """Return the URL of a request for a stream."""
        return self.url(model)

    def stream_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body that `encode` gave as a request for a stream."""
        return {**body, "stream": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model at a provider. Made with `openai`, `anthropic`, `gemini`, … ."""

    model: str
    """The provider's name of the model."""

    adapter: Adapter = field(repr=False)
    base_url: str
    api_key: ApiKey = field(default=None, repr=False)
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
    """A missing key is an error here; self-hosted servers may need none."""

    capabilities: Capabilities | None = None
    """The model's capabilities; None: those in the tables for its name and host."""

    account: str | None = None
    """A name for the account of the key; None: derived from the key."""

    prompt_cache: PromptCache = "auto"
    """The use of the provider's prompt cache."""

    transport: Any = field(default=None, repr=False)
    """An `httpx.AsyncBaseTransport` for this model's requests: a proxy, certificates, a fake."""

    answers: Callable[[dict[str, Any]], Awaitable[object]] | None = field(default=None, repr=False)
    """Answers requests in this process instead of over HTTP: body in, the provider's JSON out."""

    guards: Sequence[CallGuard] = field(default=(), repr=False)
    """Called before and after each request; see `agentkit_py.runtime.guards`."""

    signer: Signer | None = field(default=None, repr=False)
    """Signs each request, where a host wants more than a key; see `agentkit_py.runtime.cloud`."""

    @property
    def provider(self) -> str:
        """The provider's name, e.g. ``"openai"``."""
        return self.adapter.provider

    @property
    def takes(self) -> Capabilities:
        """The capabilities that requests go by: its own, else those in the tables."""
        return self.capabilities or capabilities_of(self.model, self.base_url)

    def with_parameters(self, **parameters: Any) -> Model:
        """Return a copy of the model with further default parameters."""
        _check_refused(self.adapter, parameters)
        return replace(self, default_parameters={**self.default_parameters, **parameters})

    def for_request(self, request: ModelRequest) -> Model:
        """Return the model with the headers that a request needs, for sending it."""
        adapter = self.adapter.for_request(self, request)
        return self if adapter is self.adapter else copy_model(self, adapter=adapter)

    def encode(self, request: ModelRequest) -> dict[str, Any]:
        """Return the JSON body of ``request`` for this model, which its owner may change."""
        body = self.adapter.encode(self, request)
        return body if request.writers is None or type(body) is not dict else copied(body)

    def decode(self, body: object) -> ModelReply:
        """Return the messages of a successful answer."""
        return self.adapter.decode(self, body)

    def bind(self, request: ModelRequest, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return a reply's messages, its reasoning bound to the request that it answers."""
        return self.adapter.bind(self, request, messages)

    async def respond(
        self,
        messages: str | Sequence[Message],
        *,
        system: str = "",
        tools: Sequence[ToolSpec] = (),
        tool_choice: ToolChoice = "auto",
        step_id: str = "respond",
    ) -> ModelReply:
        """Ask the model without an agent; inside an Inngest function that is a step.

        Args:
            messages: The conversation, or the text of a user message.
            system: The system prompt.
            tools: Tools that it may ask for; they are not executed.
            tool_choice: Whether it must call a tool.
            step_id: The name of the step; a repeated name is numbered.

        Raises:
            ModelError: The call failed for good.
        """
        said = [TextMessage("user", messages)] if isinstance(messages, str) else messages
        head = [TextMessage("system", system)] if system else []
        request = ModelRequest(messages=(*head, *said), tools=tuple(tools), tool_choice=tool_choice)
        return await responder.get()(self, request, step_id)


responder: ExtensionPoint[Callable[[Model, ModelRequest, str], Awaitable[ModelReply]]] = (
    ExtensionPoint("model.respond")
)
"""Asks a model without an agent, in a step of a name; the runtime's, since models do no I/O."""


class ModelOptions(TypedDict, total=False):
    """Options that the models of all providers take."""

    api_key: ApiKey
    """The key, or a function that gives it for each request, of the run's context if it takes an
    argument; None: read from the provider's environment variable when the call is made."""

    default_parameters: Mapping[str, Any] | None
    """Merged into each request under the provider's own names, over the library's values.

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

    capabilities: Capabilities | None
    """The capabilities where the tables are wrong: ``replace(capabilities_of(name), …)``."""

    guards: Sequence[CallGuard]
    """Limits of requests and the like; see `agentkit_py.runtime.guards`."""

    account: str | None
    """A name for the account that the key belongs to. Signed reasoning is sent back to the account
    that made it only; with a name it outlives a change of the key."""

    prompt_cache: PromptCache
    """``False`` leaves the provider's prompt cache to ``default_parameters``; ``"1h"`` asks Claude
    for an hour instead of five minutes; ``"auto"`` where not given."""


_NAMED_BY_MAKERS = ("base_url", "api_version", "deployment", "endpoint", "beta_headers")


def make_model(  # noqa: PLR0913 - ModelOptions, by name
    adapter: Adapter,
    model: str,
    *,
    base_url: str | None,
    key_required: bool = True,
    api_key: ApiKey = None,
    default_parameters: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = 120.0,
    retry: RetryPolicy = RetryPolicy(),
    context_window: int | None = None,
    capabilities: Capabilities | None = None,
    account: str | None = None,
    prompt_cache: PromptCache = "auto",
    guards: Sequence[CallGuard] = (),
    **unknown: object,
) -> Model:
    """Return a checked `Model`; its options are those of `ModelOptions`.

    Raises:
        ConfigurationError: An option is not known or a value cannot work; the message names it, but
            never a key.
    """
    if unknown:
        known = ", ".join(sorted(ModelOptions.__optional_keys__))
        hint = option_hint(min(unknown), {*ModelOptions.__optional_keys__, *_NAMED_BY_MAKERS})
        raise ConfigurationError(
            f"A model of {adapter.provider} has no option {min(unknown)!r}"
            f"{f': {hint}' if hint else ''}; it has {known}. What "
            "the provider takes itself goes into settings=… or default_parameters={…}"
        )
    _check_refused(adapter, default_parameters)
    _check_key(adapter.provider, api_key)
    _check_numbers(timeout, retry, context_window)
    _check_facts(capabilities, account, prompt_cache)
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
        capabilities=capabilities,
        account=account,
        prompt_cache=prompt_cache,
        guards=_checked_guards(guards),
    )


def copy_model(model: Model, **changes: Any) -> Model:
    """Return the model with other settings, as a plain `Model` whatever its class is."""
    known: dict[str, Any] = {item.name: getattr(model, item.name) for item in fields(Model)}
    return Model(**{**known, **changes})


STREAMED = {"stream": "runs ask for streams themselves. Use agent.stream(…)."}
"""The parameter of streams, for `Adapter.refused_parameters`."""

_URL = re.compile(r"https?://[^\s/?#]+[^\s?#]*")
# Nothing but a host (RFC 3986: a name, an IPv4 address, or a literal in brackets) and a port before
# the path.
_ADDRESS = re.compile(r"https?://(\[[^\]\s@]+\]|[^\s/@:\[\]]+)(:\d{1,5})?(/|$)")
_UNSAFE_IN_HEADER = re.compile(r"[^\x21-\x7e]")


def checked_url(argument: str, value: object) -> str:
    """Return ``value`` without trailing slashes if it is an HTTP URL without query and password.

    Raises:
        ConfigurationError: It is not a URL; parts that may be secret are not shown.
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
            f"{argument}: this URL (it is not shown here) has a user, a password or an invalid "
            "port before its path. Addresses appear in logs and errors: pass a key as api_key=…, "
            "and a password as headers={'Authorization': 'Basic …'}."
        )
    return value.rstrip("/")


def refuse_options(model: object) -> None:
    """Refuse an object of options in place of a model's name, as TypeScript has it.

    Raises:
        ConfigurationError: It is one. Its values are not shown: a key may be among them.
    """
    if isinstance(model, Mapping):
        named = cast("Mapping[Any, object]", model)
        options = "".join(f", {snake_case(str(key))}=…" for key in named if key != "model")
        name = named.get("model", "…")
        shown = f'"{name}"' if isinstance(name, str) else "…"
        raise ConfigurationError(f"options of a model go by name: ({shown}{options})")


def _checked_name(value: object) -> str:
    refuse_options(value)
    if not isinstance(value, str) or not value or value != value.strip():
        raise ConfigurationError(f"model={value!r}: pass the name as a non-empty string.")
    return value


def _check_key(provider: str, api_key: object) -> None:
    if api_key is None or callable(api_key):
        return
    if not isinstance(api_key, str) or not api_key or _UNSAFE_IN_HEADER.search(api_key):
        raise ConfigurationError(
            f"api_key of the {provider} model is empty or holds whitespace or characters that "
            "no HTTP header can carry (it is not shown here). Pass None to read it from the "
            "environment when the call is made."
        )


def _check_numbers(timeout: object, retry: object, context_window: object) -> None:
    if not isinstance(retry, RetryPolicy):
        raise ConfigurationError(f"retry={retry!r}: pass a RetryPolicy.")
    found: dict[str, tuple[object, str | None]] = {
        "timeout": (timeout, wrong_number(timeout, above=True)),
        "retry.attempts": (retry.attempts, wrong_number(retry.attempts, whole=True, least=1)),
        "retry.min_wait": (retry.min_wait, wrong_number(retry.min_wait)),
        "retry.max_wait": (retry.max_wait, wrong_number(retry.max_wait)),
    }
    if context_window is not None:
        wrong = wrong_number(context_window, whole=True, least=1)
        found["context_window"] = (context_window, wrong)
    for name, (value, wrong) in found.items():
        if wrong:
            raise ConfigurationError(f"{name}={value!r}: {wrong}.")


def _check_facts(capabilities: object, account: object, prompt_cache: object) -> None:
    if capabilities is not None and not isinstance(capabilities, Capabilities):
        raise ConfigurationError(f"capabilities={capabilities!r}: pass a Capabilities.")
    if account is not None and (not isinstance(account, str) or not account.strip()):
        raise ConfigurationError(f"account={account!r}: pass a name as a non-empty string.")
    if prompt_cache is not False and prompt_cache not in ("auto", "1h"):
        raise ConfigurationError(f"prompt_cache={prompt_cache!r}: pass 'auto', '1h' or False.")


def _check_refused(adapter: Adapter, parameters: Mapping[str, Any] | None) -> None:
    given: Mapping[str, Any] = parameters if isinstance(parameters, Mapping) else {}
    for name, instead in adapter.refused_parameters.items():
        if given.get(name):
            raise ConfigurationError(f"default_parameters[{name!r}]={given[name]!r:.80}: {instead}")


def _checked_parameters(parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    if parameters is None:
        return {}
    if not isinstance(parameters, Mapping):
        raise ConfigurationError(f"default_parameters={parameters!r}: pass a mapping.")
    copied = dict(parameters)
    where = find_non_json(copied, "default_parameters")
    if where is not None:
        raise ConfigurationError(f"{where}: JSON cannot carry this value.")
    return copied


def _checked_guards(guards: Sequence[CallGuard]) -> tuple[CallGuard, ...]:
    found = tuple(guards)
    if not all(callable(getattr(one, name, None)) for one in found for name in ("enter", "leave")):
        raise ConfigurationError(f"guards={list(found)!r:.200}: pass guards, e.g. RateLimits(…).")
    return found


def _checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    # Values may be secrets, so only the name is shown.
    for name, value in (headers or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise ConfigurationError(f"headers[{name!r}]: names and values are strings.")
        if "\n" in value or "\r" in value or not name or _UNSAFE_IN_HEADER.search(name):
            raise ConfigurationError(f"headers[{name!r}]: HTTP cannot carry this header.")
    return dict(headers or {})
