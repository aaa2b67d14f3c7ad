"""Binding: the origin of a model's reasoning, and whether it is still valid in a request.

Providers encrypt or sign reasoning. It can be read by the host, and often by the account and the
model, that made it; the newest models also sign it over everything before it, and Claude over the
reasoning before it. So each reply's reasoning is kept with these facts, under `ORIGIN` in
`provider_metadata`, and an encoder sends it back only where they hold.

Source: platform.claude.com/docs/en/build-with-claude/preserved-thinking and prefix-checks;
developers.openai.com, guide preserved-reasoning (read October and November 2026).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, TypeAlias

from agentkit_py._core.json import JsonObject, as_list, as_object
from agentkit_py.messages import Message, OpaqueMessage, ReasoningMessage, ToolCallMessage
from agentkit_py.models.base import Model, ModelRequest
from agentkit_py.models.blocks import ORIGIN, host_of, origin_of_block, with_origin

VERSION = 1

Reason: TypeAlias = Literal[
    "host", "account", "model", "head", "messages", "gap", "unknown", "refused", "turn", "alone"
]
"""Why reasoning is not sent back; see `WORDS`."""

WORDS: Mapping[str, str] = {
    "host": "another host made it",
    "account": "another account made it",
    "model": "another model made it",
    "head": "the system prompt or the tools differ from those it was made with",
    "messages": "the messages before it differ from those it was made with",
    "gap": "reasoning before it was left out, or was put back",
    "unknown": "its origin is not known",
    "refused": "the provider has refused it",
    "turn": "other reasoning of the same reply cannot be sent",
    "alone": "the rest of its reply is missing",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The model, account and conversation that reasoning belongs to."""

    account: str = ""
    """A tag of the account; empty: not known."""

    model: str = ""
    """The model's name as it was asked; empty: not known."""

    head: str = ""
    """A digest of the system prompt and the tools."""

    prefix: str = ""
    """A digest of everything before it on the wire; empty: not known."""

    before: str = ""
    """A digest of the reasoning before it that was sent; empty: none was."""

    count: int = 0
    """The number of reasoning blocks sent before it; -1: nothing of its reply follows it."""

    thoughts: int = 0
    """Claude: the number of thinking blocks in the assistant's turn with it; 0: not known."""


def binding_of(metadata: JsonObject | None) -> Binding:
    """Return the stored origin of reasoning; empty for old rows and other libraries' rows."""
    kept = origin_of_block(metadata)
    if kept.get("v") != VERSION:
        return Binding()
    texts = {
        name: value
        for name in ("account", "model", "head", "prefix", "before")
        if isinstance(value := kept.get(name), str)
    }
    count, thoughts = (
        value if isinstance(value := kept.get(name), int) else 0 for name in ("count", "thoughts")
    )
    return Binding(**texts, count=count, thoughts=thoughts)


def bound(metadata: JsonObject | None, host: str, binding: Binding) -> dict[str, Any]:
    """Return a message's metadata with its binding."""
    facts = {
        name: value
        for name in Binding.__slots__
        if (value := getattr(binding, name)) not in ("", 0)
    }
    return with_origin(metadata, host, v=VERSION, **facts)


def account_tag(model: Model, key: str | None) -> str:
    """Return an opaque fingerprint of the account; empty: not known.

    It is short and differs by host, so that a key cannot be looked up by it.
    """
    if model.account is None and not key:
        return ""
    said = f"label\0{model.account}" if model.account is not None else f"key\0{key}"
    return _hex(said.encode(), person=host_of(model).encode())


def account_of(model: Model, request: ModelRequest) -> str:
    """Return the tag of the account that a request is sent for."""
    key = None if callable(model.api_key) else model.api_key
    return request.account or account_tag(model, key)


def digest_of(value: object) -> str:
    """Return a digest of a JSON value; the order of an object's members does not count."""
    return _hex(_written(value))


def _written(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _hex(data: bytes, person: bytes = b"") -> str:
    seed = hashlib.blake2b(person, digest_size=16).digest() if person else b""
    return hashlib.blake2b(data, digest_size=8, key=seed).hexdigest()


def unmarked(value: Any) -> Any:
    """Return JSON of a request without its cache marks, which no signature covers."""
    members, items = as_object(value), as_list(value)
    if members is not None:
        return {k: unmarked(v) for k, v in members.items() if k != "cache_control"}
    return value if items is None else [unmarked(item) for item in items]


def linked(digest: str, message: object) -> str:
    """Return the digest of all before a place in a request, a chain, after a further message."""
    return _hex(digest.encode() + _written(message))


class Standing:
    """Checks of reasoning that do not depend on its place in the request."""

    def __init__(self, model: Model, request: ModelRequest) -> None:
        """Search the reply to a refusal."""
        self.host: str = host_of(model)
        self._account = account_of(model, request)
        self._refused = request.refused
        start = _start_after_refusal(request.messages, self.host)
        self._barred: dict[int, object] = {}
        """Messages and calls by their `id()`; as long as they are here, it is theirs."""

        for message in request.messages[:start]:
            calls = message.tools if isinstance(message, ToolCallMessage) else ()
            self._barred |= {id(one): one for one in (message, *calls)}

    def may_continue(self, messages: Sequence[Message]) -> bool:
        """Return whether the checks hold if these messages follow: no refusal is marked there."""
        return not any(m.provider_metadata and _mark_of(m) for m in messages)

    def reason(self, message: object, metadata: JsonObject | None) -> Reason | None:
        """Return why the message's opaque data cannot be sent; None: nothing speaks against it."""
        if id(message) in self._barred:
            return "refused"
        if self._refused and own_digest(metadata) in self._refused:
            return "refused"
        made_by = binding_of(metadata).account
        return "account" if made_by and self._account and made_by != self._account else None


@dataclass(slots=True)
class ReasoningPlace:
    """A place of reasoning in a request, whether it is sent or not."""

    message: Message
    own: str
    """A digest of the reasoning itself."""

    prefix: str = ""
    """The digest of everything before it, as it is now."""

    standing: Reason | None = None
    """Why it is sent nowhere in this request; None: nothing speaks against it."""

    reason: Reason | None = None
    """Why it is not sent; None: it is."""

    is_new: bool = False
    """It is of the reply that was just made."""

    turn: int = 0
    """The index of its turn."""

    binding: Binding = field(init=False)
    """The model, account and conversation that it belongs to."""

    def __post_init__(self) -> None:
        self.binding = binding_of(self.message.provider_metadata)


def hold_chain(places: Sequence[ReasoningPlace], head: str) -> None:
    """Decide for each place whether it is sent to a model that checks the beginning and the chain.

    The longest chain of reasoning is sent in which each was made right after its predecessor and
    over the same beginning. If the newest valid reasoning itself names its predecessors, that
    decides, so that reasoning that was left out is not added again.
    """
    if _is_unbroken(places):
        return
    fitting: list[ReasoningPlace] = []
    for place in places:
        if place.reason is None and not place.is_new:
            place.reason = change(place, head)
        if place.reason is None:
            fitting.append(place)
    old = [place for place in fitting if not place.is_new]
    kept = _chain(old)
    for place in old:
        if id(place) not in kept:
            place.reason = "gap"


def change(place: ReasoningPlace, head: str) -> Reason | None:
    """Return the changed part of the beginning that the reasoning was made over, or None."""
    binding = place.binding
    if not binding.prefix:
        return "unknown"
    if binding.prefix == place.prefix:
        return None
    return "messages" if binding.head == head else "head"


def _is_unbroken(places: Sequence[ReasoningPlace]) -> bool:
    """Return whether all of it is sent: each was made right after its predecessor."""
    before, count = "", 0
    for place in places:
        if place.is_new:
            continue
        made = place.binding
        if place.reason or made.count != count or made.before != before:
            return False
        if not made.prefix or made.prefix != place.prefix:
            return False
        before, count = place.own, count + 1
    return True


def _chain(places: Sequence[ReasoningPlace]) -> set[int]:
    """Return the `id()` of the places of the run that is sent."""
    lengths: dict[str, int] = {}
    by_digest: dict[str, ReasoningPlace] = {}
    for place in places:
        earlier = lengths.get(place.binding.before, 0)
        lengths[place.own] = 1 + min(place.binding.count, earlier)
        by_digest[place.own] = place
    if not places:
        return set()
    last = places[-1]
    if lengths[last.own] - 1 < last.binding.count:  # it does not say all by itself
        last = max(reversed(places), key=lambda place: lengths[place.own])
    kept: set[int] = set()
    for _ in range(lengths[last.own]):
        kept.add(id(last))
        last = by_digest.get(last.binding.before, last)
    return kept


def is_whole(places: Sequence[ReasoningPlace]) -> bool:
    """Return whether the reasoning of an assistant's turn is all that was made, in its order.

    So is that of which it is not known how much there was, and that of a reply just made.
    """
    bindings = [place.binding for place in places]
    last = bindings[-1] if bindings else Binding()
    if not last.thoughts or any(place.is_new for place in places):
        return True
    numbers = [binding.count for binding in bindings]
    return len(numbers) == last.thoughts and all(b == a + 1 for a, b in pairwise(numbers))


def with_bindings(
    messages: Sequence[Message], bindings: Mapping[int, Binding], host: str
) -> tuple[Message, ...]:
    """Return a reply's messages with their bindings, which are given by `id()`."""
    return tuple(
        replace(
            message, provider_metadata=bound(message.provider_metadata, host, bindings[id(message)])
        )
        if id(message) in bindings
        else message
        for message in messages
    )


def has_reasoning(request: ModelRequest) -> bool:
    """Return whether a request holds messages of reasoning."""
    return ReasoningMessage in {*map(type, request.messages)}


def missing(
    request: ModelRequest, places: Iterable[ReasoningPlace], host: str
) -> list[tuple[Message, Reason]]:
    """Return the reasoning of a request that has no place in it, or is not sent there, with why."""
    reasons: dict[int, Reason | None] = {id(p.message): p.reason for p in places}
    found: list[tuple[Message, Reason]] = []
    for message in [m for m in request.messages if type(m) is ReasoningMessage]:
        if id(message) in reasons:
            why = reasons[id(message)]
        else:
            is_ours = origin_of_block(message.provider_metadata).get("host") == host
            why = "alone" if is_ours else "host"
        if why is not None:
            found.append((message, why))
    return found


def bindings_of(
    places: Sequence[ReasoningPlace],
    asked: Mapping[int, list[Reason | None]],
    model: Model,
    request: ModelRequest,
    head: str,
) -> dict[int, Binding]:
    """Return the bindings of the reasoning that was just made, by the `id()` of its message.

    Args:
        places: The reasoning of the conversation with the reply.
        asked: Why the reasoning of the conversation was not sent, by the `id()` of its messages.
        model: The model that replied.
        request: Its request.
        head: The digest of the content before all messages.
    """
    account = account_of(model, request)
    found: dict[int, Binding] = {}
    before, count = "", 0
    for place in places:
        key, reason = id(place.message), None
        if place.is_new:
            found[key] = Binding(
                account=account,
                model=model.model,
                head=head,
                prefix=place.prefix,
                before=before,
                count=count,
            )
        else:
            reason = earlier.pop(0) if (earlier := asked.get(key)) else "gap"
        if reason is None:
            before, count = place.own, count + 1
    return found


# What a provider refused.


def own_digest(metadata: JsonObject | None) -> str:
    """Return a digest of a message's opaque data, without its origin."""
    return digest_of({k: v for k, v in (metadata or {}).items() if k != ORIGIN})


def digests_of(messages: Sequence[Message]) -> frozenset[str]:
    """Return the digests of all opaque data in the messages."""
    return frozenset(map(own_digest, opaque_data(messages)))


def opaque_data(messages: Iterable[Message]) -> Iterator[JsonObject]:
    """Yield the opaque data of messages and their calls, where they have any."""
    for message in messages:
        if message.provider_metadata and message.role != "system":
            yield message.provider_metadata
        if isinstance(message, OpaqueMessage) and message.kind == "compaction":
            yield message.content
        if isinstance(message, ToolCallMessage):
            yield from [c.provider_metadata for c in message.tools if c.provider_metadata]


_REFUSALS = (
    # Claude: bound to another conversation; another vendor's, or damaged
    ("invalid `signature` in `thinking` block",),
    ("blocks in the latest assistant message cannot be modified",),
    # OpenAI, Azure, xAI
    ("encrypted content", "could not be verified"),
    ("could not decrypt the provided encrypted_content",),
    ("could not decode the compaction blob",),
    ("reasoning input items can only be provided to a reasoning",),
    ("encrypted content is not supported with this model",),
    ("of type 'reasoning' was provided without its required following item",),
    ("provided without its required 'reasoning' item",),
    ("items are not persisted when",),
    # Gemini
    ("corrupted thought signature",),
    ("thought signature is not valid",),
)


def refuses_reasoning(detail: str) -> bool:
    """Return whether a provider's refusal is about reasoning that was sent back."""
    said = detail.lower()
    return any(all(part in said for part in fragments) for fragments in _REFUSALS)


def _start_after_refusal(messages: Sequence[Message], host: str) -> int:
    """Return the index of the message from which on this host's reasoning may be sent again.

    A reply that was requested again without reasoning has a mark; earlier reasoning is left out.
    """
    start, last = 0, None
    for index, message in enumerate(messages):
        mark = _mark_of(message) if message.provider_metadata else None
        if mark is not None and mark.get("host") == host and mark != last:
            start, last = index, mark
    return start


def _mark_of(message: Message) -> dict[str, Any] | None:
    return as_object(origin_of_block(message.provider_metadata).get("refused"))


def mark_refused(
    messages: Sequence[Message], host: str, refused: frozenset[str]
) -> tuple[Message, ...]:
    """Return a reply's messages with the mark that reasoning before them was refused."""
    mark = {"host": host, "of": digest_of(sorted(refused))}
    return tuple(
        replace(m, provider_metadata=with_origin(m.provider_metadata, host, refused=mark))
        for m in messages
    )
