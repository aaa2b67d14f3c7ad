"""From an HTTP request to an answer, whichever way it came in."""

from __future__ import annotations

import inspect
import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, cast
from urllib.parse import parse_qsl, urlsplit

from . import catalogue
from .errors import error_body, rejection_body
from .neutral import Ids
from .render import render
from .routing import Route, provider_of, route
from .rules import Inbound, Rule, Unparsed, first_rejection
from .stream import encoded, streamed
from .types import (
    MISSING,
    PROVIDERS,
    ErrorReply,
    ProviderName,
    Raw,
    ReceivedRequest,
    Rejection,
    Reply,
    ReplySource,
)

StreamKind: TypeAlias = Literal["events", "list"]

_JSON = "application/json"
_EVENTS = "text/event-stream"
_ACCESS_RULES = frozenset({"missing_key", "wrong_key"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What to send back; the transport does the waiting and the hanging up.

    Attributes:
        pieces: The body as it goes over the network; more than one are sent one by one.
        cut: Whether the connection breaks after the last piece.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    delay: float = 0.0
    disconnect: bool = False
    pieces: tuple[bytes, ...] | None = None
    pause: float = 0.0
    cut: bool = False


@dataclass(slots=True)
class Handler:
    """Judges requests, keeps the record, plays the script.

    Attributes:
        strict: Whether the providers' rules apply; keys are checked in any case.
        source: A callable that makes replies once `queue` is empty, or `None`.
    """

    strict: bool
    api_keys: Mapping[str, str]
    queue: deque[Reply] = field(default_factory=deque[Reply])
    source: ReplySource | None = None
    extra_rules: tuple[str, ...] = ()
    requests: list[ReceivedRequest] = field(default_factory=list[ReceivedRequest])
    exhausted: bool = False
    _ids: Ids = field(default_factory=Ids)
    _rules: dict[str, tuple[Rule, ...]] = field(default_factory=dict[str, "tuple[Rule, ...]"])

    def __post_init__(self) -> None:
        """Choose the rules of each provider once."""
        for provider in PROVIDERS:
            found = catalogue.rules_for(provider, self.extra_rules)
            if not self.strict:
                found = tuple(item for item in found if item.name in _ACCESS_RULES)
            self._rules[provider] = found

    async def answer(
        self,
        method: str,
        host: str,
        target: str,
        headers: Iterable[tuple[str, str]],
        content: bytes,
    ) -> Answer:
        """Return the answer to one request, and record the request."""
        parts = urlsplit(target)
        lowered = {name.lower(): value for name, value in headers}
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        where = route(host, parts.path)
        owner = where.provider if where else provider_of(host, parts.path)
        inbound = Inbound(owner, parts.path, query, lowered, _parse(content))
        inbound.expected_key = self.api_keys.get(owner)
        inbound.model = _model(where, inbound.body)
        rejection = self._judge(method, where, inbound)
        seen = _received(method, inbound, rejection)
        if rejection is not None:
            self.requests.append(seen)
            return _json_answer(rejection.status, rejection_body(owner, rejection))
        return await self._reply(seen, _stream_kind(where, inbound))

    def _judge(self, method: str, where: Route | None, inbound: Inbound) -> Rejection | None:
        owner = inbound.provider
        if where is None:
            message = f"Invalid URL ({method} {inbound.path})"
            return Rejection(f"{owner}.not_found", message, status=404)
        if method != "POST":
            message = f"Not allowed to {method} on {inbound.path}; use POST."
            return Rejection(f"{owner}.method_not_allowed", message, status=405)
        return first_rejection(inbound, self._rules[owner])

    async def _reply(self, seen: ReceivedRequest, stream: StreamKind | None) -> Answer:
        reply = await self._next_reply(seen)
        if reply is None:
            self.exhausted = True
            self.requests.append(replace(seen, exhausted=True))
            message = (
                "FakeProvider's script is exhausted: request "
                f"{len(self.requests)} has no reply left. Give it more replies."
            )
            return _json_answer(500, error_body(seen.provider, 500, message))
        return self._render(seen, reply, stream)

    async def _next_reply(self, seen: ReceivedRequest) -> Reply | None:
        # Recorded before a callable runs (it may look at the record), after a queue was found
        # empty.
        if self.queue:
            self.requests.append(seen)
            return self.queue.popleft()
        if self.source is None:
            return None
        self.requests.append(seen)
        made = self.source(seen)
        return await made if inspect.isawaitable(made) else made

    def _render(self, seen: ReceivedRequest, reply: Reply, stream: StreamKind | None) -> Answer:
        if isinstance(reply, ErrorReply):
            body = error_body(seen.provider, reply.status, reply.message)
            return _json_answer(reply.status, body, reply.headers)
        raw = reply if isinstance(reply, Raw) else Raw(reply=reply)
        kind = _JSON
        pieces: tuple[bytes, ...] | None = None
        if raw.sse is not None or raw.chunks is not None:
            kind = _EVENTS
            pieces = tuple(raw.chunks or map(encoded, raw.sse or ()))
        elif raw.text is not None:
            pieces = (raw.text.encode(),)
        elif raw.json is not MISSING:
            pieces = (json.dumps(raw.json).encode(),)
        elif stream is not None:
            kind = _EVENTS if stream == "events" else _JSON
            pieces = self._streamed(seen, "" if raw.reply is None else raw.reply, stream)
        else:
            pieces = (
                json.dumps(self._rendered(seen, "" if raw.reply is None else raw.reply)).encode(),
            )
        headers = {"content-type": raw.content_type or kind, **raw.headers}
        return _answer(raw, headers, pieces)

    def _streamed(
        self, seen: ReceivedRequest, reply: str | Mapping[str, Any], stream: StreamKind
    ) -> tuple[bytes, ...]:
        events = list(streamed(seen.provider, self._rendered(seen, reply), seen.body))
        if stream == "list":  # Gemini without alt=sse
            return (json.dumps(events).encode(),)
        return tuple(map(encoded, events))

    def _rendered(self, seen: ReceivedRequest, reply: str | Mapping[str, Any]) -> dict[str, Any]:
        return render(seen.provider, reply, model=seen.model, body=seen.body, ids=self._ids)


def _parse(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return Unparsed(content.decode("utf-8", "replace"))


def _model(where: Route | None, body: Any) -> str:
    if where is not None and where.model:
        return where.model
    value: Any = cast("dict[str, Any]", body).get("model") if isinstance(body, dict) else None
    return value if isinstance(value, str) else ""


def _stream_kind(where: Route | None, inbound: Inbound) -> StreamKind | None:
    body: Any = inbound.body
    if where is not None and where.streams:
        return "events" if inbound.query.get("alt") == "sse" else "list"
    asked = isinstance(body, dict) and cast("dict[str, Any]", body).get("stream") is True
    return "events" if asked and inbound.provider != "gemini" else None


def _answer(raw: Raw, headers: Mapping[str, str], pieces: tuple[bytes, ...]) -> Answer:
    cut = raw.cut_after is not None
    if raw.cut_after is not None:
        pieces = _first(pieces, raw.cut_after)
    one_by_one = pieces if cut or len(pieces) != 1 else None
    return Answer(
        raw.status,
        headers,
        b"".join(pieces),
        raw.delay,
        raw.disconnect,
        pieces=one_by_one,
        pause=raw.pause,
        cut=cut,
    )


def _first(pieces: tuple[bytes, ...], count: int) -> tuple[bytes, ...]:
    """Return the first so many bytes, in the same pieces."""
    found: list[bytes] = []
    for piece in pieces:
        if count <= 0:
            break
        found.append(piece[:count])
        count -= len(piece)
    return tuple(found)


def _received(method: str, inbound: Inbound, rejection: Rejection | None) -> ReceivedRequest:
    owner: ProviderName = inbound.provider
    return ReceivedRequest(
        owner,
        method,
        inbound.path,
        inbound.query,
        inbound.headers,
        inbound.body,
        inbound.model,
        rejection,
    )


def _json_answer(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
    merged = {"content-type": "application/json", **(headers or {})}
    return Answer(status, merged, json.dumps(body).encode())
