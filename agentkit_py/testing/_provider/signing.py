"""Signed reasoning: its content, and the checks when it is sent back.

A signature is a token that names the binding of the reasoning: the host, the account, the model,
a digest of all before it, and the reasoning before it. Nothing is stored between requests, so
a `FakeProvider` reads the signatures of another.

Source: platform.claude.com/docs/en/build-with-claude, pages preserved-thinking, prefix-checks and
thinking-troubleshooting; developers.openai.com, guides preserved-reasoning and
keep-prefix-unchanged; ai.google.dev/gemini-api/docs/thought-signatures; docs.x.ai, reasoning
(read October and November 2026).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from agentkit_py.models.capabilities import capabilities_of, reads_thinking

from .replies import strings_in
from .rules import Problem, Request, items_of, numbered, object_of, rules_of, sent_key, view

_SECRET = b"FakeProvider signs with this"
_DIGEST = 16
DROP_BETA = "thinking-binding-controls-2026-08-01"
"""The header's value with which Claude leaves out thinking that does not hold, and says so."""

_FROM_THEN_ON = date(2026, 8, 31)
_ALL_ACCOUNTS = re.compile(r"claude-(?:fable|mythos)-5-2")
_ACCOUNT_BOUND = re.compile(r"claude-(?:sonnet|haiku)-5-5")


@dataclass(frozen=True, slots=True)
class Token:
    """The facts that a signature holds."""

    format: str
    host: str
    account: str
    model: str
    prefix: str
    before: str
    """The signature of the reasoning before it; empty: there was none."""

    count: int
    """The number of reasoning blocks before it."""

    text: str = ""
    """A digest of the reasoning itself."""

    thoughts: int = 0
    """Claude: the number of blocks in the assistant's turn; 0: not known."""

    def written(self) -> str:
        """Return it as a signature: base64, as Gemini wants it."""
        names = self.__slots__
        said = json.dumps([getattr(self, name) for name in names]).encode()
        return base64.b64encode(_seal(said) + said).decode()


def _seal(said: bytes) -> bytes:
    return hmac.new(_SECRET, said, hashlib.sha256).digest()[:_DIGEST]


def read_token(signature: Any) -> Token | None:
    """Return a signature's content; None: it is not from a `FakeProvider`, or was changed."""
    try:
        given = base64.b64decode(signature, validate=True)
        seal, said = given[:_DIGEST], given[_DIGEST:]
        return Token(*json.loads(said)) if hmac.compare_digest(seal, _seal(said)) else None
    except (ValueError, TypeError):
        return None


def _digest(value: Any) -> str:
    written = json.dumps(value, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace")
    return hashlib.blake2b(written, digest_size=_DIGEST).hexdigest()


def account_of(request: Request) -> str:
    """Return the account that asks."""
    key = sent_key(request)
    return request.signing.accounts.get(key) or _digest(key)


# ------------------------------------------------------------------------------------- Claude

_THINKING = ("thinking", "redacted_thinking")


@dataclass(frozen=True, slots=True)
class SignedPlace:
    """Reasoning in a request, with all before it."""

    where: str
    given: dict[str, Any]
    signature: str
    prefix: str


def _without_marks(block: Any) -> Any:
    return {k: v for k, v in object_of(block).items() if k != "cache_control"}


def _said(content: Any) -> Any:
    """Return a message's content as it is signed: without thinking and cache marks."""
    if not isinstance(content, list):
        return content
    kept = (
        _without_marks(b) for b in items_of(content) if object_of(b).get("type") not in _THINKING
    )
    return list(kept)


def _claude_head(body: Mapping[str, Any]) -> list[Any]:
    system = body.get("system")
    if isinstance(system, list):
        system = [_without_marks(block) for block in items_of(system)]
    tools = [_without_marks(t) for t in items_of(body.get("tools")) if not t.get("defer_loading")]
    return [system, sorted(tools, key=lambda tool: str(tool.get("name")))]


def is_summary(given: Any) -> bool:
    """Return whether a block or an item replaces everything before it."""
    found = object_of(given)
    kept = found.get("content") or found.get("encrypted_content")
    return found.get("type") == "compaction" and bool(kept)


def words_since_summary(request: Request) -> int:
    """Return the number of words from the newest summary on."""
    body = request.body
    said: list[Any] = items_of(body.get("messages"))
    said = [b for m in said for b in (items_of(m.get("content")) or [m.get("content")])]
    said = [*said, *items_of(body.get("input"))]
    start = max((index for index, one in enumerate(said) if is_summary(one)), default=0)
    return sum(len(text.split()) for text in strings_in(said[start:]))


def summary_token(request: Request) -> str:
    """Return the token that identifies a summary's maker."""
    return _token(request, "", [])


def _claude_walk(request: Request, messages: Sequence[Any]) -> Iterator[SignedPlace | None]:
    """Yield the thinking of messages with its prefix; None: a summary, which resets the prefix."""
    head = before = _digest(_claude_head(request.body))
    for where, message in numbered("messages", list(messages)):
        start = 0
        for number, (place, block) in enumerate(numbered(f"{where}.content", message["content"])):
            if is_summary(block):
                before, start = head, number
                yield None
            elif block["type"] in _THINKING:
                prefix = _digest([before, _said(message["content"][start:number])])
                signature = str(block.get("signature") or block.get("data") or "")
                yield SignedPlace(place, block, signature, prefix)
        said = _said(message["content"][start:])
        before = _digest([before, message["role"], said])


def _since_summary(places: Iterable[SignedPlace | None]) -> list[SignedPlace]:
    """Return the places behind the last summary."""
    found: list[SignedPlace] = []
    for place in places:
        found = [] if place is None else [*found, place]
    return found


@view
def _claude_places(request: Request) -> list[SignedPlace]:
    """Return the thinking of a request that counts."""
    return _since_summary(_claude_walk(request, request.body["messages"]))


def sign_claude(request: Request, plain: dict[str, Any]) -> None:
    """Sign the thinking of a reply."""
    messages = request.body["messages"]
    begun: list[Any] = []
    if messages[-1]["role"] == "assistant":  # a prefilled reply
        begun, messages = items_of(messages[-1]["content"]), messages[:-1]
    before = [place.signature for place, fate in _fates(request) if not fate]
    content = plain["content"]
    own = {block.get("signature") or block.get("data") for block in begun}
    thoughts = len([block for block in content if block["type"] in _THINKING])
    thoughts += len(own.intersection(before))
    whole = [*messages, {"role": "assistant", "content": [*begun, *content]}]
    made = {id(place.given): place for place in _claude_walk(request, whole) if place}
    for block in content:
        if is_summary(block):
            before = []
        if block["type"] not in _THINKING:
            continue
        prefix = made[id(block)].prefix
        token = _token(request, prefix, before, block.get("thinking"), thoughts)
        block["signature" if block["type"] == "thinking" else "data"] = token
        before.append(token)


def _token(
    request: Request, prefix: str, before: list[str], text: Any = "", thoughts: int = 0
) -> str:
    return Token(
        request.provider,
        request.host,
        account_of(request),
        request.model,
        prefix,
        _digest(before[-1]) if before else "",
        len(before),
        _digest(text),
        thoughts,
    ).written()


def _checks(request: Request) -> bool:
    return capabilities_of(request.model).checks_prefix


def _refuses(request: Request) -> bool:
    """Return whether Claude answers a changed beginning with 400 here."""
    asked = _asked_behaviour(request)
    if asked is not None:
        return asked == "error"
    return bool(_ALL_ACCOUNTS.search(request.model)) or (
        request.signing.account_created >= _FROM_THEN_ON
    )


def _asked_behaviour(request: Request) -> Any:
    thinking = object_of(request.body.get("thinking"))
    return object_of(thinking.get("block_binding")).get("prefix_mismatch_behavior")


def _claude_fate(request: Request, place: SignedPlace, before: list[str]) -> str:
    """Return why a block does not count, in the words of `input_transformations`; or nothing."""
    token = read_token(place.signature)
    if token is None:
        return ""
    if _ACCOUNT_BOUND.search(token.model) and token.account != account_of(request):
        return "organization_mismatch"
    if not reads_thinking(request.model, token.model):
        return "model_mismatch"
    linked = not before or (_digest(before[-1]) == token.before and len(before) <= token.count)
    if _checks(request) and (token.prefix != place.prefix or not linked):
        return "prefix_binding_mismatch"
    return ""


@view
def _fates(request: Request) -> list[tuple[SignedPlace, str]]:
    before: list[str] = []
    found: list[tuple[SignedPlace, str]] = []
    for place in _claude_places(request):
        found.append((place, _claude_fate(request, place, before)))
        before.append(place.signature)
    return found


_rule = rules_of("anthropic")
_BINDING = "platform.claude.com/docs/en/build-with-claude/preserved-thinking, prefix-checks"


def _at(where: str) -> str:
    return re.sub(r"\[(\d+)\]", r".\1", where)


@_rule("platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting")
def damaged_signature(request: Request) -> Iterator[Problem]:
    """A thinking block has the signature that was made for its text, by this host."""
    for place in _claude_places(request):
        token = read_token(place.signature)
        thinking = place.given["type"] == "thinking"
        if token is None:
            wrong = request.signing.fail_on_unknown
        else:
            foreign = (token.format, token.host) != (request.provider, request.host)
            wrong = foreign or (thinking and token.text != _digest(place.given["thinking"]))
        if wrong:
            words = "Invalid `signature` in `thinking` block"
            yield Problem(f"{_at(place.where)}: {words}", place.where)


@_rule(f"{_BINDING} (Claude 5.1, 5.2 and 5.5)")
def changed_prefix(request: Request) -> Iterator[Problem]:
    """Thinking comes back behind the same system prompt, tools, messages and thinking."""
    if not _refuses(request):
        return
    for place, fate in _fates(request):
        if fate == "prefix_binding_mismatch":
            words = (
                "Invalid `signature` in `thinking` block: the block is bound to a different "
                "conversation than the one it was sent in. Send the conversation unchanged, or set "
                "`thinking.block_binding.prefix_mismatch_behavior` to `drop_block`"
            )
            if not request.has_beta(DROP_BETA):
                words += f" with the header `anthropic-beta: {DROP_BETA}`"
            yield Problem(f"{_at(place.where)}: {words}.", place.where)


@_rule("platform.claude.com/docs/en/build-with-claude/thinking, thinking-troubleshooting")
def changed_open_turn(request: Request) -> Iterator[Problem]:
    """A turn that waits for results comes back with all its thinking, in order, or none."""
    messages: list[Any] = request.body["messages"]
    turn: list[int] = []
    for index, message in enumerate(messages):
        if message["role"] == "assistant":
            turn = [*turn, index] if turn[-1:] == [index - 1] else [index]
    said = [object_of(b) for index in turn for b in items_of(messages[index]["content"])]
    begins = tuple(f"messages[{index}]." for index in turn)
    places = [place for place in _claude_places(request) if place.where.startswith(begins)]
    tokens = [token for place in places if (token := read_token(place.signature))]
    waits = any(block.get("type") == "tool_use" for block in said)
    if not waits or not tokens or not tokens[-1].thoughts:
        return
    last = tokens[-1]
    whole = list(range(last.count - last.thoughts + 1, last.count + 1))
    if [token.count for token in tokens][-len(whole) :] != whole:
        words = (
            "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
        )
        words += "modified. These blocks must remain as they were in the original response."
        yield Problem(f"{_at(places[0].where)}: {words}", places[0].where)


@_rule("platform.claude.com/docs/en/build-with-claude/prefix-checks, block_binding")
def binding_without_beta(request: Request) -> Iterator[Problem]:
    """`thinking.block_binding` goes with its beta header."""
    given = "block_binding" in object_of(request.body.get("thinking"))
    if given and not request.has_beta(DROP_BETA):
        yield Problem("thinking.block_binding: Extra inputs are not permitted", "thinking")


@_rule(f"{_BINDING}; no real answer: the option `fail_on_loss` of `Signing`", "inferred")
def thinking_lost(request: Request) -> Iterator[Problem]:
    """Thinking is not sent where it would be left out in silence, if a test wants to see that."""
    for place, fate in _fates(request) if request.signing.fail_on_loss else ():
        if fate and (fate != "prefix_binding_mismatch" or _asked_behaviour(request)):
            yield Problem(f"{_at(place.where)}: thinking would be dropped: {fate}", place.where)


def _transformations(request: Request) -> list[dict[str, Any]]:
    if not request.has_beta(DROP_BETA):
        return []
    found: list[dict[str, Any]] = []
    for place, fate in _fates(request):
        dropped = fate != "prefix_binding_mismatch" or _asked_behaviour(request) is not None
        kind = "thinking_dropped" if dropped else "thinking_mismatch_allowed"
        if fate:
            found.append({"type": kind, "path": _at(place.where), "reason": fate})
    return found


# ------------------------------------------------------------------------------------- Responses


def _item_head(request: Request) -> str:
    body = request.body
    text, reasoning = object_of(body.get("text")), object_of(body.get("reasoning"))
    return _digest([body.get("tools"), text.get("format"), reasoning.get("effort")])


def _items_of(request: Request) -> list[Any]:
    given = request.body.get("input")
    return items_of(given) if isinstance(given, list) else [{"role": "user", "content": given}]


def _written_item(item: Any) -> Any:
    """Return an item as it is signed: its status and annotations say nothing."""
    given = {k: v for k, v in object_of(item).items() if k != "status"}
    given.setdefault("type", "message")
    if given["type"] == "message" and isinstance(given.get("content"), list):
        parts = map(object_of, items_of(given["content"]))
        given["content"] = [[part.get("type"), part.get("text")] for part in parts]
    if given["type"] in ("message", "function_call"):
        given.pop("id", None)
    return given


def _item_walk(request: Request, items: Sequence[Any]) -> Iterator[SignedPlace | None]:
    """Yield the reasoning of items with its prefix; None: a summary, which resets the prefix."""
    prefix = _item_head(request)
    for index, item in enumerate(items):
        if object_of(item).get("type") == "reasoning":
            yield SignedPlace(
                f"input[{index}]", item, str(item.get("encrypted_content") or ""), prefix
            )
        elif is_summary(item):
            prefix = _item_head(request)
            yield None
        prefix = _digest([prefix, _written_item(item)])  # with the encrypted items between


@view
def _item_places(request: Request) -> list[SignedPlace]:
    places = _since_summary(_item_walk(request, _items_of(request)))
    return [place for place in places if place.signature]


def sign_items(request: Request, plain: dict[str, Any]) -> None:
    """Encrypt the reasoning of a response."""
    made, count = {id(item) for item in plain["output"]}, 0
    for place in _item_walk(request, [*_items_of(request), *plain["output"]]):
        if place is None:
            count = 0
        elif id(place.given) in made:
            place.given["encrypted_content"] = _token(request, place.prefix, [""] * count)
            count += 1
        else:
            count += bool(place.signature)


def _rank(model: str) -> int:
    return 1 if "astra" in model else 0


def _item_fate(request: Request, place: SignedPlace) -> str:
    token = read_token(place.signature)
    if token is None or not _checks(request):
        return ""
    if _rank(request.model) < _rank(token.model):
        return "model_mismatch"
    return "prefix_mismatch" if token.prefix != place.prefix else ""


_items_rule = rules_of("openai_responses")


@_items_rule(
    "github.com/openai/codex/issues/8119; github.com/BerriAI/litellm/issues/27702", "observed"
)
def foreign_encrypted_content(request: Request) -> Iterator[Problem]:
    """Encrypted reasoning goes back to the host and the account that made it."""
    for place in _item_places(request):
        token = read_token(place.signature)
        if token is None:
            wrong = request.signing.fail_on_unknown
        else:
            made = (token.format, token.host, token.account)
            wrong = made != (request.provider, request.host, account_of(request))
        if wrong and request.host.endswith("api.x.ai"):
            words = "Could not decrypt the provided encrypted_content"
            yield Problem(words, place.where, "invalid-argument")
        elif wrong:
            shown = f"{place.signature[:5]}..."
            words = f"The encrypted content {shown} could not be verified."
            yield Problem(words, place.where, "invalid_encrypted_content")


@_items_rule(
    "developers.openai.com guide preserved-reasoning; no real answer: the option `fail_on_loss`",
    "inferred",
)
def reasoning_lost(request: Request) -> Iterator[Problem]:
    """Reasoning is not sent where it would be removed in silence, if a test wants to see that."""
    for place in _item_places(request) if request.signing.fail_on_loss else ():
        if fate := _item_fate(request, place):
            yield Problem(f"{place.where}: reasoning would be removed: {fate}", place.where)


def _removals(request: Request) -> list[dict[str, Any]]:
    return [
        {"type": "reasoning", "id": place.given.get("id"), "action": "removed", "reason": fate}
        for place in _item_places(request)
        if (fate := _item_fate(request, place))
    ]


# ------------------------------------------------------------------------------------- Gemini


def _family(model: str) -> str:
    found = re.search(r"gemini-\d+", model)
    return found[0] if found else model


def sign_parts(request: Request, plain: dict[str, Any]) -> None:
    """Sign the parts of a Gemini reply that have a signature."""
    for candidate in plain["candidates"]:
        for part in items_of(object_of(candidate.get("content")).get("parts")):
            if "thoughtSignature" in part:
                part["thoughtSignature"] = _token(request, "", [])


_gemini_rule = rules_of("gemini")


@_gemini_rule("github.com/google-gemini/gemini-cli/issues/13467", "observed")
def foreign_thought_signature(request: Request) -> Iterator[Problem]:
    """A thought signature goes back to the host, the account and the model family that made it."""
    for where, content in numbered("contents", request.body.get("contents")):
        for place, part in numbered(f"{where}.parts", object_of(content).get("parts")):
            token = read_token(object_of(part).get("thoughtSignature"))
            if token is None:
                continue
            made = (token.format, token.host, token.account, _family(token.model))
            here = (request.provider, request.host, account_of(request), _family(request.model))
            if made != here:
                yield Problem("Corrupted thought signature.", place)


# ------------------------------------------------------------------------------------- replies


def sign(request: Request, plain: dict[str, Any]) -> dict[str, Any]:
    """Sign a rendered reply, and add a report on the request's reasoning."""
    if request.provider == "anthropic":
        sign_claude(request, plain)
        done = _transformations(request)
    elif request.provider == "openai_responses":
        sign_items(request, plain)
        done = _removals(request)
    else:
        if request.provider == "gemini":
            sign_parts(request, plain)
        done = []
    return {**plain, "input_transformations": done} if done else plain
