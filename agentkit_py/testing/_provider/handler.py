"""From an HTTP request to an answer, whichever way it came in."""

from __future__ import annotations

import inspect
import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

from . import catalogue
from .errors import error_body, rejection_body
from .render import Ids, render
from .routing import Route, provider_of, route
from .rules import Inbound, Rule, Unparsed, first_rejection
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

_ACCESS_RULES = frozenset({"missing_key", "wrong_key"})


@dataclass(frozen=True, slots=True)
class Answer:
    """What to send back; the transport does the waiting and the hanging up."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    delay: float = 0.0
    disconnect: bool = False


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
        return await self._reply(seen)

    def _judge(self, method: str, where: Route | None, inbound: Inbound) -> Rejection | None:
        owner = inbound.provider
        if where is None:
            message = f"Invalid URL ({method} {inbound.path})"
            return Rejection(f"{owner}.not_found", message, status=404)
        if method != "POST":
            message = f"Not allowed to {method} on {inbound.path}; use POST."
            return Rejection(f"{owner}.method_not_allowed", message, status=405)
        rejection = first_rejection(inbound, self._rules[owner])
        if rejection is None and (where.streams or _asks_for_stream(inbound)):
            message = "FakeProvider cannot stream yet; send the request without stream."
            return Rejection(f"{owner}.stream_unsupported", message, "stream", 501)
        return rejection

    async def _reply(self, seen: ReceivedRequest) -> Answer:
        reply = await self._next_reply(seen)
        if reply is None:
            self.exhausted = True
            self.requests.append(replace(seen, exhausted=True))
            message = (
                "FakeProvider's script is exhausted: request "
                f"{len(self.requests)} has no reply left. Give it more replies."
            )
            return _json_answer(500, error_body(seen.provider, 500, message))
        return self._render(seen, reply)

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

    def _render(self, seen: ReceivedRequest, reply: Reply) -> Answer:
        if isinstance(reply, ErrorReply):
            body = error_body(seen.provider, reply.status, reply.message)
            return _json_answer(reply.status, body, reply.headers)
        if not isinstance(reply, Raw):
            return _json_answer(200, self._rendered(seen, reply))
        if reply.text is not None:
            content = reply.text.encode()
        elif reply.json is not MISSING:
            content = json.dumps(reply.json).encode()
        else:
            given = "" if reply.reply is None else reply.reply
            content = json.dumps(self._rendered(seen, given)).encode()
        headers = {"content-type": reply.content_type, **reply.headers}
        return Answer(reply.status, headers, content, reply.delay, reply.disconnect)

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


def _asks_for_stream(inbound: Inbound) -> bool:
    body: Any = inbound.body
    return isinstance(body, dict) and cast("dict[str, Any]", body).get("stream") is True


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
