"""The way from an HTTP request to its answer, Claude's prompt cache included.

Source of the cache: platform.claude.com/docs/en/build-with-claude/prompt-caching (November 2026).
Nothing is forgotten here, since a test has no minutes.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from agentkit_py.errors import AgentKitError
from agentkit_py.messages import ToolResultMessage
from agentkit_py.models.capabilities import GIVEN, capabilities_of
from agentkit_py.models.conversations import read_conversation

from . import anthropic, chat, compaction, gemini, hosts, openai, responses, signing
from .anthropic import cache_marks
from .endpoints import Route, provider_of, route
from .replies import Ids, ReplyContent, TokenCounts
from .rules import (
    Request,
    Rule,
    Unparsed,
    first_rejection,
    items_of,
    object_of,
    rules_for,
    sent_key,
)
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
    Signing,
    SseEvent,
)

StreamKind: TypeAlias = Literal["events", "list", "messages"]
"""Server-sent events, a list of JSON, or the messages of AWS's event stream."""

_JUDGES = (anthropic, chat, gemini, hosts, responses)  # with their import they register rules
_QUOTED = 300
"""Characters of a message that an error quotes."""

_JSON = "application/json"
_EVENTS = "text/event-stream"
_KEY_RULES = frozenset({"missing_key", "wrong_key"})


def error_body(
    provider: ProviderName,
    status: int,
    message: str,
    *,
    param: str | None = None,
    code: str | None = None,
) -> dict[str, Any]:
    """Return the JSON of an error as this provider words it."""
    if provider == "anthropic":
        return anthropic.error_body(status, message)
    if provider == "gemini":
        return gemini.error_body(status, message)
    return openai.error_body(provider, status, message, param, code)


def rendered(
    request: Request,
    received: ReceivedRequest,
    reply: str | Mapping[str, Any],
    ids: Ids,
    cache: ClaudeCache,
) -> dict[str, Any]:
    """Return the JSON with which the asked provider would give that reply."""
    content = ReplyContent.of(reply)
    usage = TokenCounts.of(content, received.body)
    if received.provider == "anthropic":
        if not content.usage:
            usage = cache.counted(request, usage)
        return anthropic.rendered(content, usage, received.model, ids, received.body.get("tools"))
    if received.provider == "gemini":
        return gemini.rendered(content, usage, received.model, ids)
    if received.provider == "openai_responses":
        return responses.rendered(content, usage, received.model, ids, received.body.get("tools"))
    shown = received.provider == "grok" or (
        received.provider == "compatible"
        and {"reasoning_content", GIVEN} & {*hosts.takes(request).reasoning_fields}
    )
    return chat.rendered(content, usage, received.model, ids, shows_reasoning=bool(shown))


def streamed(
    provider: ProviderName, plain: Mapping[str, Any], body: Mapping[str, Any]
) -> Iterator[SseEvent]:
    """Yield the events in which this provider streams the answer that `plain` is."""
    if provider == "anthropic":
        return anthropic.streamed(plain)
    if provider == "gemini":
        return gemini.streamed(plain)
    if provider == "openai_responses":
        return responses.streamed(plain)
    return chat.streamed(provider, plain, body)


def encoded(event: SseEvent) -> bytes:
    """Return an event as bytes for the network."""
    if isinstance(event, bytes):
        return event
    name, data = event if isinstance(event, tuple) else (None, event)
    # As the providers do: no ASCII escapes, so that characters can be cut in two.
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    lines = [f"event: {name}"] if name else []
    lines += [f"data: {line}" for line in text.split("\n")]
    return ("\n".join(lines) + "\n\n").encode()


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer to send; the transport does the waiting and the hanging up.

    Attributes:
        pieces: The body's bytes; several pieces are sent separately.
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


LOOK_BACK = 20
"""Blocks before a mark in which an earlier mark is looked for."""

_CHARACTERS_PER_TOKEN = 4


@dataclass(slots=True)
class ClaudeCache:
    """The beginnings that requests have asked to keep, by account and model."""

    _kept: set[str] = field(default_factory=set[str])

    def counted(self, request: Request, usage: TokenCounts) -> TokenCounts:
        """Return a request's usage with the tokens that were read and written, and keep them."""
        marked = {id(value) for _, value, _ in cache_marks(request)}
        if not marked:
            return usage
        blocks = _blocks(request.body)
        written = [json.dumps(_unmarked(block)) for block in blocks]
        sizes = list(accumulate(map(len, written)))
        digests = list(accumulate(written, _digest, initial=f"{sent_key(request)} {request.model}"))
        least = capabilities_of(request.model).cache_minimum * _CHARACTERS_PER_TOKEN
        places = [n for n, block in enumerate(blocks) if _is_marked(block, marked)]
        if id(request.body) in marked:
            places.append(len(blocks) - 1)
        places = [n for n in places if sizes[n] >= least]
        found = [
            n
            for place in places
            for n in range(max(0, place - LOOK_BACK + 1), place + 1)
            if digests[n + 1] in self._kept
        ]
        self._kept.update(digests[place + 1] for place in places)
        read = sizes[max(found)] if found else 0
        kept = max(sizes[max(places)] - read, 0) if places else 0
        share = usage.prompt / sizes[-1]
        return replace(
            usage,
            prompt=usage.prompt - int(read * share) - int(kept * share),
            cached=int(read * share),
            written=int(kept * share),
        )


def _blocks(body: dict[str, Any]) -> list[Any]:
    """Return all blocks in the order in which Claude reads them."""
    found = [*items_of(body.get("tools")), *_as_blocks(body.get("system"))]
    for message in items_of(body["messages"]):
        content = _as_blocks(message["content"])
        found += [{"role": message["role"], "block": block} for block in content]
    return found


def _as_blocks(content: Any) -> list[Any]:
    """Return a string as a text block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else items_of(content)


def _is_marked(block: Any, marked: set[int]) -> bool:
    given = object_of(block).get("block", block)
    inner = items_of(object_of(given).get("content"))
    return any(id(one) in marked for one in (given, *inner))


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(one) for one in items_of(value)]
    if not isinstance(value, dict):
        return value
    return {k: _unmarked(v) for k, v in object_of(value).items() if k != "cache_control"}


def _digest(before: str, block: str) -> str:
    return hashlib.blake2b(f"{before}\0{block}".encode(), digest_size=16).hexdigest()


def _last_message(body: Any) -> str:
    """Return the last message of a request, quoted, so that the missing reply is known."""
    try:
        last = read_conversation(body)[-1]
    except (AgentKitError, IndexError, TypeError, AttributeError):
        return ""
    if isinstance(last, ToolResultMessage):
        said = f"the result of {last.tool.name}: {json.dumps(last.content, ensure_ascii=False)}"
    else:
        said = getattr(last, "text", "") or str(last)
    return f"The last message that was sent is {said[:_QUOTED]!r}"


@dataclass(slots=True)
class RequestHandler:
    """Applies the rules to requests, records them and plays the script.

    Attributes:
        strict: Whether the providers' rules apply; keys are checked in any case.
        source: A callable that makes replies once `queue` is empty, or `None`.
    """

    strict: bool
    api_keys: Mapping[str, str]
    queue: deque[Reply] = field(default_factory=deque[Reply])
    source: ReplySource | None = None
    extra_rules: tuple[str, ...] = ()
    signing: Signing = field(default_factory=Signing)
    requests: list[ReceivedRequest] = field(default_factory=list[ReceivedRequest])
    exhausted: bool = False
    _ids: Ids = field(default_factory=Ids)
    _cache: ClaudeCache = field(default_factory=ClaudeCache)
    _rules: dict[str, tuple[Rule, ...]] = field(default_factory=dict[str, "tuple[Rule, ...]"])

    def __post_init__(self) -> None:
        """Choose the rules of each provider once."""
        for provider in PROVIDERS:
            found = rules_for(provider, self.extra_rules)
            if not self.strict:
                found = tuple(item for item in found if item.name in _KEY_RULES)
            self._rules[provider] = found

    async def answer(
        self,
        method: str,
        host: str,
        target: str,
        headers: Iterable[tuple[str, str]],
        content: bytes,
    ) -> HttpAnswer:
        """Return the answer to a request, and record the request."""
        parts = urlsplit(target)
        where = route(host, parts.path)
        body = _parse(content)
        named = object_of(body).get("model")
        request = Request(
            provider=where.provider if where else provider_of(host, parts.path),
            path=parts.path,
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            headers={name.lower(): value for name, value in headers},
            body=body,
            model=(where.model if where else "") or (named if isinstance(named, str) else ""),
            host=host.lower(),
            signing=self.signing,
            cloud=where.cloud if where else "",
            sent=body,
        )
        if request.cloud:
            hosts.as_messages(request)
        request.expected_key = self.api_keys.get(request.provider)
        received = ReceivedRequest(
            provider=request.provider,
            method=method,
            path=request.path,
            query=request.query,
            headers=request.headers,
            body=body,
            model=request.model,
            rejection=self._judge(method, where, request),
        )
        if received.rejection is not None:
            self.requests.append(received)
            found = received.rejection
            about = {"param": found.pointer, "code": found.code}
            body = error_body(received.provider, found.status, found.message, **about)
            return _json_answer(found.status, body)
        return await self._reply(request, received, _stream_kind(where, request))

    def _judge(self, method: str, where: Route | None, request: Request) -> Rejection | None:
        owner = request.provider
        if where is None:
            message = f"Invalid URL ({method} {request.path})"
            return Rejection(f"{owner}.not_found", message, status=404)
        if method != "POST":
            message = f"Not allowed to {method} on {request.path}; use POST."
            return Rejection(f"{owner}.method_not_allowed", message, status=405)
        return first_rejection(request, self._rules[owner])

    async def _reply(
        self, request: Request, received: ReceivedRequest, stream: StreamKind | None
    ) -> HttpAnswer:
        reply = await self._next_reply(received)
        if reply is None:
            self.exhausted = True
            self.requests.append(replace(received, exhausted=True))
            message = (
                "FakeProvider's script is exhausted: request "
                f"{len(self.requests)} has no reply left. Give it more replies. "
                f"{_last_message(received.body)}"
            )
            return _json_answer(500, error_body(received.provider, 500, message))
        if isinstance(reply, ErrorReply):
            body = error_body(received.provider, reply.status, reply.message)
            return _json_answer(reply.status, body, reply.headers)
        raw = reply if isinstance(reply, Raw) else Raw(reply=reply)
        kind, pieces = self._body(request, received, raw, stream)
        return _answer(raw, {"content-type": raw.content_type or kind, **raw.headers}, pieces)

    async def _next_reply(self, received: ReceivedRequest) -> Reply | None:
        # Recorded before a callable runs (it may look at the record), after a queue was found
        # empty.
        if self.queue:
            self.requests.append(received)
            return self.queue.popleft()
        if self.source is None:
            return None
        self.requests.append(received)
        made = self.source(received)
        return await made if inspect.isawaitable(made) else made

    def _body(
        self, request: Request, received: ReceivedRequest, raw: Raw, stream: StreamKind | None
    ) -> tuple[str, tuple[bytes, ...]]:
        """Return a reply's media type, and its body in pieces."""
        if raw.sse is not None or raw.chunks is not None:
            return _EVENTS, tuple(raw.chunks or map(encoded, raw.sse or ()))
        if raw.text is not None:
            return _JSON, (raw.text.encode(),)
        if raw.json is not MISSING:
            return _JSON, (json.dumps(raw.json).encode(),)
        plain = rendered(request, received, raw.reply or "", self._ids, self._cache)
        plain = signing.sign(request, compaction.added(request, plain, self._ids))
        if stream is None:
            return _JSON, (json.dumps(plain).encode(),)
        events = streamed(received.provider, plain, received.body)
        if stream == "messages":
            return hosts.EVENT_STREAM, tuple(map(hosts.event_message, events))
        if stream == "list":  # Gemini without alt=sse
            return _JSON, (json.dumps(list(events)).encode(),)
        return _EVENTS, tuple(map(encoded, events))


def _parse(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return Unparsed(content.decode("utf-8", "replace"))


def _stream_kind(where: Route | None, request: Request) -> StreamKind | None:
    if where is not None and where.cloud == "bedrock":
        return "messages" if where.streams else None
    if where is not None and where.streams and not where.cloud:
        return "events" if request.query.get("alt") == "sse" else "list"
    asked = object_of(request.body).get("stream") is True
    return "events" if asked and request.provider != "gemini" else None


def _answer(raw: Raw, headers: Mapping[str, str], pieces: tuple[bytes, ...]) -> HttpAnswer:
    cut = raw.cut_after is not None
    if raw.cut_after is not None:
        pieces = tuple(_first(pieces, raw.cut_after))
    return HttpAnswer(
        raw.status,
        headers,
        b"".join(pieces),
        raw.delay,
        raw.disconnect,
        pieces=pieces if cut or len(pieces) != 1 else None,
        pause=raw.pause,
        cut=cut,
    )


def _first(pieces: tuple[bytes, ...], count: int) -> Iterator[bytes]:
    """Yield the first so many bytes, in the same pieces."""
    for piece in pieces:
        if count > 0:
            yield piece[:count]
        count -= len(piece)


def _json_answer(status: int, body: Any, headers: Mapping[str, str] | None = None) -> HttpAnswer:
    merged = {"content-type": _JSON, **(headers or {})}
    return HttpAnswer(status, merged, json.dumps(body).encode())
