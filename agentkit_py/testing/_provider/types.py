"""Requests, rejections and scripted replies of a `FakeProvider`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal, TypeAlias, cast

from agentkit_py.errors import ConfigurationError

ProviderName: TypeAlias = Literal[
    "openai", "openai_responses", "azure_openai", "anthropic", "gemini", "grok", "compatible"
]

PROVIDERS: tuple[ProviderName, ...] = (
    "openai",
    "openai_responses",
    "azure_openai",
    "anthropic",
    "gemini",
    "grok",
    "compatible",
)


class _Missing:
    """The type of `MISSING`; `None` is a valid JSON body and cannot mean "no body given"."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()


@dataclass(frozen=True, slots=True)
class Rejection:
    """A refusal of a request, with its reason.

    Attributes:
        rule: The rule's id, such as `openai.unanswered_tool_call`.
        message: The message that the provider would answer with.
        pointer: Where in the body the problem is, such as `messages[3].tool_calls[0].id`.
        status: The HTTP status of the answer.
        code: The machine-readable code, if the provider has codes.
        unknown: Whether the value is only unknown to the fake; the real provider may accept it.
    """

    rule: str
    message: str
    pointer: str = ""
    status: int = 400
    code: str | None = None
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One request as the provider got it.

    Attributes:
        provider: Which provider was asked.
        method: The HTTP method.
        path: The path as sent, without the query.
        query: The query's parameters (the last value of a repeated parameter).
        headers: The headers, names in lower case.
        body: The parsed JSON body, or the raw text if it was not JSON.
        model: The model, taken from the path or the body; empty if there is none.
        rejection: Why it was refused, or `None`.
        exhausted: Whether the request was fine and the script had no reply left for it.
    """

    provider: ProviderName
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)  # holds the API key
    body: Any
    model: str = ""
    rejection: Rejection | None = None
    exhausted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """Settings by which a `FakeProvider` checks reasoning that comes back.

    Attributes:
        account_created: Claude 5.1 and 5.5 refuse thinking over a changed beginning for accounts
            since 31 August 2026, and use it for older ones; Claude 5.2 refuses it for all.
        fail_on_loss: Refuse also the values that the real provider drops silently, so that a test
        sees it:
            GPT-6.2's items over a changed beginning, and reasoning of another model.
        fail_on_unknown: Refuse signatures that no `FakeProvider` made, too.
        accounts: The accounts by their API keys; an unlisted key is an account of its own.
    """

    account_created: date = date(2026, 9, 15)
    fail_on_loss: bool = False
    fail_on_unknown: bool = False
    accounts: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)


SseEvent: TypeAlias = str | bytes | Mapping[str, Any] | tuple[str, str | Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """An exact answer, for provider JSON word for word, for exact streams and for failures.

    Attributes:
        json: The body as a JSON value, also where a stream was asked for.
        text: The body as text, sent as it is; for answers that are not JSON.
        sse: The body as server-sent events: `data` as text or JSON, or `(event, data)`, or bytes
            that are sent as they are (comments, other line ends). Nothing is added at the end.
        chunks: The body as bytes, in exactly these pieces of the network.
        reply: A scripted reply rendered as usual; for `Raw(delay=…, reply="…")`.
        status: The HTTP status.
        headers: More response headers, such as `{"retry-after": "2"}`.
        content_type: The body's media type; `None`: that of events for events, else of JSON.
        disconnect: Close the connection instead of answering.
        delay: Seconds to wait before the answer (or the disconnect).
        pause: Seconds to wait between two pieces of a streamed body.
        cut_after: Break the connection after so many bytes of the body.
    """

    json: Any = MISSING
    text: str | None = None
    sse: Sequence[SseEvent] | None = None
    chunks: Sequence[bytes] | None = None
    reply: str | Mapping[str, Any] | None = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content_type: str | None = None
    disconnect: bool = False
    delay: float = 0.0
    pause: float = 0.0
    cut_after: int | None = None


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """An error in the shape of whichever provider is asked."""

    status: int
    message: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


Reply: TypeAlias = str | Mapping[str, Any] | Raw | ErrorReply
ReplySource: TypeAlias = Callable[[ReceivedRequest], Reply | Awaitable[Reply]]


def text(value: str, *, usage: Mapping[str, int] | None = None) -> dict[str, Any]:
    """Return a reply in which the assistant says `value`."""
    reply: dict[str, Any] = {"text": value}
    if usage is not None:
        reply["usage"] = dict(usage)
    return reply


def tool_call(
    name: str,
    arguments: Mapping[str, Any] | str | None = None,
    *,
    id: str | None = None,  # noqa: A002 - the providers' name
) -> dict[str, Any]:
    """Return a reply that calls a tool; arguments of type `str` are sent unchanged."""
    return {"tool_calls": [_call(name, {} if arguments is None else arguments, id)]}


def tool_calls(
    *calls: tuple[str, Mapping[str, Any] | str] | Mapping[str, Any], text: str | None = None
) -> dict[str, Any]:
    """Return a reply that calls several tools at once.

    Args:
        calls: Each is `(name, arguments)`, or a reply of `tool_call`.
        text: What the assistant says before the calls.

    Raises:
        ConfigurationError: A call is neither.
    """
    reply: dict[str, Any] = {"tool_calls": [one for given in calls for one in _calls_in(given)]}
    if text is not None:
        reply["text"] = text
    return reply


def error(status: int, message: str, *, headers: Mapping[str, str] | None = None) -> ErrorReply:
    """Return an error reply with this status, in the shape of the provider that is asked."""
    return ErrorReply(status, message, dict(headers or {}))


def _calls_in(given: object) -> list[dict[str, Any]]:
    """Return the calls that an argument of `tool_calls` describes.

    Raises:
        ConfigurationError: It describes no calls.
    """
    if isinstance(given, Mapping):
        reply = cast("Mapping[str, Any]", given)
        if list(reply) == ["tool_calls"]:
            return list(reply["tool_calls"])
    if isinstance(given, tuple):
        call = cast("tuple[Any, ...]", given)
        if list(map(type, call[:1])) == [str] and len(call) == 2:  # noqa: PLR2004 - name, arguments
            return [_call(call[0], call[1], None)]
    raise ConfigurationError(
        'tool_calls(…) takes ("name", {"argument": 1}) or tool_call("name", {"argument": 1}) for '
        f"each call, got {given!r:.80}"
    )


def _call(name: str, arguments: Mapping[str, Any] | str, call_id: str | None) -> dict[str, Any]:
    call: dict[str, Any] = {"name": name, "arguments": arguments}
    if call_id is not None:
        call["id"] = call_id
    return call
