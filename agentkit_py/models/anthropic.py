"""Anthropic's Messages API.

Source: https://docs.claude.com/en/api/messages,
https://docs.claude.com/en/docs/build-with-claude/streaming, and the messages with which the API
refuses.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from typing_extensions import Unpack

from agentkit_py._core.json import Growing, as_list, as_object, dumps, strict_loads
from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    Delta,
    FileContent,
    FinishReason,
    ImageContent,
    MediaContent,
    Message,
    OpaqueMessage,
    ReasoningMessage,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    Usage,
    content_parts,
)
from agentkit_py.models.base import (
    STREAMED,
    Adapter,
    Compaction,
    Model,
    ModelOptions,
    ModelReply,
    ModelRequest,
    ToolSpec,
    make_model,
)
from agentkit_py.models.binding import (
    Binding,
    Reason,
    ReasoningPlace,
    account_of,
    binding_of,
    bindings_of,
    digest_of,
    has_reasoning,
    hold_chain,
    is_whole,
    linked,
    missing,
    unmarked,
    with_bindings,
)
from agentkit_py.models.blocks import (
    Activity,
    Block,
    adjoined,
    checked_reply,
    finished,
    host_of,
    kept,
    opaque,
    opaque_block,
    own_block,
    sendable,
    turn_mark,
    with_turn_mark,
)
from agentkit_py.models.caching import MARK, WireTurn, mark_for_claude
from agentkit_py.models.capabilities import ANTHROPIC, IMAGE_TYPES, Capabilities, reads_thinking
from agentkit_py.models.claude_results import result_blocks
from agentkit_py.models.compaction import KIND as COMPACTION
from agentkit_py.models.compaction import compacted, has_compaction, with_compactions_bound
from agentkit_py.models.encoding import (
    NO_ANSWER,
    OPENING_TURN,
    PREFILL,
    ToolExchange,
    asks_for_call,
    encodable,
    encoded_parts,
    ends_with_assistant,
    has_media,
    hosted_tools,
    is_link_or,
    is_stored,
    media_type,
    named_choice,
    result_content,
    split_prefill,
    stored_file,
    text_in_file,
    texts,
    tool_changes,
    warn_of_refused,
    with_settings,
)
from agentkit_py.models.http_errors import unexpected
from agentkit_py.models.provider_tools import betas_of, definition, member_call
from agentkit_py.models.replies import (
    BaseAssembler,
    checked_body,
    count,
    joined_text,
    nameless_call,
    objects,
    parse_call,
    text_or_empty,
)
from agentkit_py.models.schema import (
    MOST_OPTIONAL,
    MOST_STRICT_TOOLS,
    MOST_UNIONS,
    anthropic_form,
    anthropic_output_form,
    anthropic_strict_form,
)
from agentkit_py.models.writer import (
    Said,
    TurnWriter,
    exchanges_of,
    written,
)

if TYPE_CHECKING:
    from agentkit_py.models.settings import AnthropicSettings

DEFAULT_MAX_TOKENS = 4096
"""``max_tokens`` by default: Anthropic requires it."""

logger: logging.Logger = get_logger("agentkit_py")

TOOL_CHANGES_BETA = "mid-conversation-tool-changes-2026-07-01"
"""The beta in which system messages inside a conversation add and remove tools.

Source: platform.claude.com/docs/en/build-with-claude/change-tools-or-instructions (October 2026).
"""

FILES_BETA = "files-api-2025-04-14"
"""The beta in which images and documents may be files that Anthropic stores.

Source: platform.claude.com/docs/en/build-with-claude/files
"""

COMPACTION_BETA = "compact-2026-01-12"
"""The beta in which Claude sums up a conversation that has grown too long.

Source: platform.claude.com/docs/en/build-with-claude/compaction-threshold (November 2026).
"""

LEAST_COMPACTION = 50_000
"""The least tokens from which on it does so."""

FORMAT = "anthropic"
"""The name of this format: of its opaque messages, and the key of its data in messages."""


def anthropic(
    model: str,
    *,
    base_url: str | None = None,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    beta_headers: Sequence[str] | None = None,
    settings: AnthropicSettings | None = None,
    **options: Unpack[ModelOptions],
) -> Model:
    """Return a Claude model at Anthropic.

    Args:
        model: The model's name, e.g. ``"claude-sonnet-4-5"``.
        base_url: Root of the API.
        max_tokens: Length of an answer at the most; ``settings`` may say otherwise.
        beta_headers: Betas to take part in, sent as ``anthropic-beta``.
        settings: Settings under Anthropic's names, checked here.
        options: See `ModelOptions`; the key's environment variable is ``ANTHROPIC_API_KEY``.

    Raises:
        ConfigurationError: A value cannot work.
    """
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:
        raise ConfigurationError(f"max_tokens={max_tokens!r}: pass tokens, 1 or more.")
    adapter = AnthropicAdapter(ANTHROPIC, beta_headers=checked_betas(beta_headers))
    made = make_claude(adapter, model, base_url, settings, options)
    return made.with_parameters(**{"max_tokens": max_tokens, **made.default_parameters})


def make_claude(
    adapter: AnthropicAdapter,
    model: str,
    base_url: str | None,
    settings: AnthropicSettings | None,
    options: ModelOptions,
    *,
    key_required: bool = True,
) -> Model:
    """Return a checked Claude model, at whichever host; say which settings it does not take.

    Raises:
        ConfigurationError: A value cannot work.
    """
    options = with_settings("anthropic", settings, options)
    made = make_model(adapter, model, base_url=base_url, key_required=key_required, **options)
    warn_of_refused(made, _taken(made.default_parameters, made.takes))
    return made


def checked_betas(beta_headers: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of betas, which go into a header.

    Raises:
        ConfigurationError: They cannot.
    """
    if beta_headers is None:
        return ()
    if isinstance(beta_headers, str) or not all(
        isinstance(name, str) and name and "," not in name and name.isascii() and name.isprintable()
        for name in beta_headers
    ):
        raise ConfigurationError(f"beta_headers={beta_headers!r}: pass a list of names.")
    return tuple(beta_headers)


@dataclass(frozen=True, slots=True)
class AnthropicAdapter(Adapter):
    """Anthropic's Messages API."""

    refused_parameters: ClassVar[Mapping[str, str]] = STREAMED

    path: str = "/messages"
    beta_headers: tuple[str, ...] = ()

    def headers(self, model: Model, api_key: str | None) -> dict[str, str]:
        """Return the request's headers, the key and the betas among them."""
        betas = {"anthropic-beta": ",".join(self.beta_headers)} if self.beta_headers else {}
        return {**betas, **Adapter.headers(self, model, api_key)}

    def for_request(self, model: Model, request: ModelRequest) -> AnthropicAdapter:
        """Return the adapter with the betas that a request's content needs."""
        messages = request.messages
        needed = {
            TOOL_CHANGES_BETA: any(map(tool_changes, [m for m in messages if m.role == "system"])),
            FILES_BETA: any(map(_names_file, messages)),
            COMPACTION_BETA: (request.compaction is not None and model.takes.compaction)
            or has_compaction(self.sent(model, request)),
        }
        needed |= dict.fromkeys(betas_of(request.tools), True)
        missing = [b for b, is_needed in needed.items() if is_needed and b not in self.beta_headers]
        return replace(self, beta_headers=(*self.beta_headers, *missing)) if missing else self

    def sent(self, model: Model, request: ModelRequest) -> Sequence[Message]:
        """Return the messages without those that Claude's summary replaces."""
        return compacted(model, request, FORMAT).request.messages

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        """Return the body; the model's default parameters overwrite these values."""
        draft = self._draft(model, request)
        body, (messages, asked) = draft.body, draft.turns.finished()
        if "messages" in model.default_parameters:
            messages = []
        else:
            body["messages"] = messages
        if not body.get("tools"):
            body.pop("tool_choice", None)
        if "thinking" in body and _cannot_think(body, messages):
            del body["thinking"]
        mark_for_claude(model, request, body, asked)
        return body

    def output_format(self, model: Model, spec: ToolSpec) -> dict[str, Any] | None:
        """Return ``output_config.format``; None for a schema that it does not take."""
        schema = anthropic_output_form(spec)
        if schema is None:
            return None
        return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}

    def bind(
        self, model: Model, request: ModelRequest, messages: Sequence[Message]
    ) -> tuple[Message, ...]:
        """Return a reply's messages, its thinking bound to all before it."""
        messages = with_compactions_bound(model, request, FORMAT, messages)
        reasons = any(isinstance(message, ReasoningMessage) for message in messages)
        if not reasons and not ends_with_assistant(request):
            return tuple(messages)
        asked, host = self._draft(model, request), host_of(model)
        mark = asked.turns.closed
        sent: dict[int, list[Reason | None]] = {}
        for place in asked.places:  # a message may occur twice
            sent.setdefault(id(place.message), []).append(place.reason)
        made = with_turn_mark(messages, mark, host) if mark else tuple(messages)
        if not reasons:
            return made
        draft = self._draft(model, request, made)
        bindings = bindings_of(draft.places, sent, model, request, draft.head)
        facts: dict[str, Any] = {"model": model.model, "thoughts": draft.turns.last_count}
        unplaced = Binding(account=account_of(model, request), count=-1)
        counted = {
            id(message): replace(bindings.get(id(message), unplaced), **facts)
            for message in made
            if isinstance(message, ReasoningMessage)
        }
        return with_bindings(made, counted, host)

    def left_out(self, model: Model, request: ModelRequest) -> Sequence[tuple[Message, Reason]]:
        """Return the thinking that is not sent, each block with why."""
        if not has_reasoning(request):
            return ()
        draft = self._draft(model, request)
        return missing(draft.request, draft.places, host_of(model))

    def _draft(self, model: Model, request: ModelRequest, reply: Sequence[Message] = ()) -> _Draft:
        """Return a request's body without its messages, and these as turns.

        With the reply to this request they contain the places of its thinking.
        """
        takes = model.takes
        request, reply, _ = compacted(model, request, FORMAT, reply)
        parameters = _taken(model.default_parameters, takes)
        hosted = hosted_tools(model, request, FORMAT)
        conversation, prefill = split_prefill(request)
        offered = _offered({"tools": hosted, **parameters})
        host, has_tools = host_of(model), bool(request.tools or request.hosted)
        every = sendable([*conversation, *reply], FORMAT, host, _activity, offered)
        facts = [model, account_of(model, request), request.refused, has_tools]
        turns = written(request, every, reply, facts, partial(_Turns, model, request))
        turns.prefill = prefill if _takes_prefill(model, request) else ""
        turns.end(request.agent, continues=bool(reply))
        if prefill and not _takes_prefill(model, request):
            turns.system.append(PREFILL.format(text=prefill))
        if not takes.forced_choice and (asked := asks_for_call(request)):
            turns.system.append(asked)
        body: dict[str, Any] = {}
        if turns.system:
            system = "\n\n".join(turns.system)
            body["system"] = [_text(system)] if turns.in_blocks else system
        body["model"] = model.model
        body["max_tokens"] = DEFAULT_MAX_TOKENS
        body["messages"] = []
        if request.tools or hosted:
            strict = takes.structured_output and not turns.prefill
            body["tools"] = [*_tools(model, request, strict=strict), *hosted]
        if request.tools:
            auto = replace(request, tool_choice="auto")
            body["tool_choice"] = _choice(request if takes.forced_choice else auto)
        if request.compaction is not None and takes.compaction:
            body["context_management"] = {"edits": [_compaction(request.compaction)]}
        body.update(parameters)
        body = self.with_output(model, request, body)
        head = [_in_short(body.get("system")), body.get("tools")]
        return _Draft(request, body, turns, *turns.places(head))

    def decode(self, model: Model, body: object) -> ModelReply:
        """Return the reply's messages: a message per block, in their order.

        Blocks of which our own form would lose something are kept in `provider_metadata`, and those
        of other types than ours as `OpaqueMessage`s, since they must be sent back unchanged.
        """
        found = checked_body(model, body)
        content = found.get("content")
        known = found.get("type", "message") == "message" and {"type", "content"} & found.keys()
        if not known or (content is not None and as_list(content) is None):
            raise unexpected(model, body, "the answer is not a message")
        read = _Blocks(model)
        # No Claude takes a block without a type back; TypeScript passes over them, too.
        messages = [read.message(block) for block in objects(content) if block.get("type")]
        word = text_or_empty(found.get("stop_reason"))
        beside = {name: found.get(name) for name in ("stop_sequence", "stop_details")}
        finish = finished(model, messages, _WORDS, word, beside)
        # TypeScript's texts have stopped, also where calls follow.
        stop = "stop" if finish.reason == "tool_calls" else None
        usage = _usage(as_object(found.get("usage")))
        return checked_reply(model, adjoined(model, messages), finish, usage, stop=stop)

    def assembler(self, model: Model) -> AnthropicAssembler:
        """Return the assembler of a reply."""
        return AnthropicAssembler(model)


# The request's body.


class _Draft(NamedTuple):
    """A request's body before its messages are written."""

    request: ModelRequest
    body: dict[str, Any]
    turns: _Turns
    places: list[ReasoningPlace]
    head: str


class _Settled:
    """Digests of finished turns, shared by all requests that begin with them."""

    def __init__(self) -> None:
        self.head = ""
        """A digest of the content above all turns."""

        self.digests: list[str] = []
        """Digests of all up to each turn."""

        self.forms: list[WireTurn | None] = []
        """The turns as they are sent."""


class _Turns(TurnWriter):
    """The messages as they grow."""

    def __init__(self, model: Model, request: ModelRequest) -> None:
        super().__init__(model, request)
        self.prefill = ""
        """The beginning of the answer, with which the request ends."""

        self._asked: int | None = None
        """The index of the last turn of the agent's last request on the thread; None: unknown."""

        self._reader = request.agent
        self._has_tools = bool(request.tools or request.hosted)
        self._checks = model.takes.checks_prefix
        asked = _thinking(model.default_parameters)
        thinks = self._checks or asked not in ("", "disabled")
        self.in_blocks = model.takes.in_blocks or thinks
        self._shares = False
        """True where all agents' requests begin alike, so that any agent's last request counts."""

        self._restricts_tools = model.takes.restricts_tools
        self._media = partial(_media_block, links=model.adapter.host.media_links)
        self._keep_thinking = _thinking(_taken(model.default_parameters, model.takes)) != "disabled"
        self._thinking: list[Block] = []
        self._thoughts: dict[int, ReasoningPlace] = {}
        """Places of thinking by the `id()` of their blocks."""

        self._settled = _Settled()
        self._final = 0
        """The number of turns to which nothing is added, in other requests either."""

    def fork(self, reply: frozenset[int]) -> Self:
        self._final = max(0, len(self.found) - 1)
        return super().fork(reply)

    def _text(self, text: str) -> Block:
        return _text(text)

    def _add(self, role: str, parts: list[Block]) -> None:
        if self._thinking:
            if role == "assistant":
                parts = [*self._thinking, *parts]
            else:  # they are gone, and new objects may get their `id()`
                for block in self._thinking:
                    del self._thoughts[id(block)]
            self._thinking = []
        if role == "user" and self.found and self.found[-1]["role"] == "system":
            # Only an assistant's turn may follow it, and an empty reply has none
            self.found.append({"role": "assistant", "content": [_text(NO_ANSWER)]})
        super()._add(role, parts)

    def places(self, head: list[Any]) -> tuple[list[ReasoningPlace], str]:
        """Return the places of thinking with whether it is sent, and a digest of the head.

        Args:
            head: The system prompt and the tools.
        """
        if not self._thoughts:
            return [], ""
        settled, above = self._settled, digest_of(unmarked(head))
        if settled.head != above:
            settled.head, settled.digests = above, []
        digests = settled.digests[: self._final]
        for index in range(len(digests), len(self.found)):
            digests.append(self._digest(index, digests[-1] if digests else above))
        settled.digests = digests[: self._final]
        found = list(self._placed().values())
        for place in found:
            place.reason = place.standing
        if self._checks:
            hold_chain(found, above)
        self._keep_open_turn_whole()
        return found, above

    def _placed(self) -> dict[int, ReasoningPlace]:
        """Return the places of thinking that is in a turn."""
        if not self._thinking:
            return self._thoughts
        waiting = set(map(id, self._thinking))
        return {key: place for key, place in self._thoughts.items() if key not in waiting}

    def _digest(self, index: int, before: str) -> str:
        """Return a digest of all up to a turn; record the prefix of its thinking."""
        turn, said = self.found[index], list[Block]()
        for block in turn["content"]:
            place = self._thoughts.get(id(block))
            if place is None:
                said.append(unmarked(block))
            else:
                place.prefix = linked(before, [turn["role"], said]) if said else before
                place.turn = index
        is_reply = self.in_blocks and turn["role"] == "assistant"
        return linked(before, [turn["role"], said if is_reply else _in_short(said)])

    def _last_reply(self) -> list[Block]:
        last = next((turn for turn in reversed(self.found) if turn["role"] == "assistant"), None)
        return [] if last is None else last["content"]

    def _last_thoughts(self) -> list[ReasoningPlace]:
        return [self._thoughts[id(b)] for b in self._last_reply() if id(b) in self._thoughts]

    @property
    def last_count(self) -> int:
        """Return the number of thinking blocks in the assistant's last turn, and at its end."""
        return len(self._last_thoughts()) + len(self._thinking)

    def _keep_open_turn_whole(self) -> None:
        """Leave out all thinking of the reply that waits for results, if some of it must go."""
        places = self._last_thoughts()
        waits = any(block["type"] == "tool_use" for block in self._last_reply())
        if waits and (any(place.reason for place in places) or not is_whole(places)):
            for place in places:
                place.reason = place.reason or "turn"

    def finished(self) -> tuple[list[WireTurn], WireTurn | None]:
        """Return the turns as they are sent, and the turn with which the last request ended.

        That is without the thinking that is not sent, and with the beginning of a reply.
        """
        found = self._settled.forms[: self._final]
        found += map(self._form, self.found[len(found) :])
        self._settled.forms = found[: self._final]
        gone = {key: p for key, p in self._placed().items() if p.reason is not None}
        for index in {place.turn for place in gone.values()}:
            turn = self.found[index]
            kept = [block for block in turn["content"] if id(block) not in gone]
            found[index] = self._form({**turn, "content": kept})
        asked = None if self._asked is None else found[self._asked]
        sent = Growing(filter(None, found), self.found.written)
        if self.prefill:
            sent.append({"role": "assistant", "content": self.prefill})
        return sent, asked

    def _form(self, turn: WireTurn) -> WireTurn | None:
        """Return a turn as it is sent; a single text is sent as a string.

        Models that may think always get blocks: when thinking is removed, a cache mark is added, or
        a model with signatures continues, the other blocks must stay the same.
        """
        if self.in_blocks or not turn["content"]:
            return turn if turn["content"] else None
        return {**turn, "content": _in_short(turn["content"])}

    def _note_reply(self, agent: str | None) -> None:
        """Note the turn before a reply, with which its request ended."""
        own = self._shares or agent in (None, self._reader)
        if own and self.found and not self._ends_with_assistant:
            self._asked = len(self.found) - 1

    def _say(self, message: Said) -> None:
        if message.role == "assistant":
            self._open(turn_mark(message.provider_metadata))
            self._note_reply(message.agent)
        if isinstance(message, ReasoningMessage):
            # "The final block in an assistant message cannot be `thinking`": a block is sent with
            # the assistant's next text, or not at all.
            binding = binding_of(message.provider_metadata)
            block = _own_thinking(message, self._host) if self._keep_thinking else None
            if block is not None and binding.count >= 0:
                self._thinking.append(block)
                reason = self._standing.reason(message, message.provider_metadata)
                if reason is None and not reads_thinking(self._model, binding.model):
                    reason = "model"  # left out in silence, which the next reply would not know
                self._thoughts[id(block)] = ReasoningPlace(
                    message, digest_of(block), standing=reason, is_new=id(message) in self.reply
                )
        elif isinstance(message, OpaqueMessage):
            self._add("assistant", [opaque_block(message)])
        elif message.role == "system":
            self._instruct(message)
        elif blocks := self._text_blocks(message):
            self._add(message.role, blocks)
            self._author = message.agent

    def _instruct(self, message: TextMessage) -> None:
        """Add a system message: to the system prompt, or inside where another agent begins.

        There it follows a user's turn: "a 'system' message must follow a 'user' message".
        """
        changes = tool_changes(message)
        if changes is None:
            self.system += texts(message)
            return
        self._shares = True
        if not self.found:
            self._add("user", [_text(OPENING_TURN)])
        elif self._ends_with_assistant:
            self._close()
        blocks = [_text(piece) for piece in texts(message)]
        if self._restricts_tools:
            added, removed = changes
            blocks += [_tool_change("tool_removal", name) for name in removed]
            blocks += [_tool_change("tool_addition", name) for name in added]
        self._add("system", blocks)

    def _add_reply(self, entry: list[Said | ToolExchange]) -> None:
        for one in entry:
            if isinstance(one, ToolExchange):
                self._open(turn_mark(one.call.provider_metadata))
                self._note_reply(one.agent)
                self._add("assistant", [self._call(one)])
                self._waits = True
            else:
                self._say(one)
        if results := [self._result(one) for one in exchanges_of(entry)]:
            self._add("user", results)
        self._waits = False

    def _text_blocks(self, message: TextMessage) -> list[Block]:
        if message.role == "user" and has_media(message):
            return encoded_parts(message, _text, self._media)
        block = own_block(message.provider_metadata, FORMAT, self._host)
        # White space alone is refused, but thinking that came after it was signed over it.
        says = message.text.strip() or id(message) in self.reply
        if block is not None and block.get("text") == message.content and says:
            return [block]
        return [_text(piece) for piece in texts(message)]

    def _call(self, one: ToolExchange) -> Block:
        if not self._has_tools:
            # "Requests which include `tool_use` or `tool_result` blocks must define tools."
            return _text(encodable(f"[Called tool {one.call.name} with {one.arguments}]"))
        block = own_block(one.call.provider_metadata, FORMAT, self._host)
        given = None if block is None else as_object(block.get("input"))
        if block is not None and _toolset(one, self._host):
            return {**block, "id": one.id}
        if block is not None and given is not None and one.is_call(block.get("name"), given):
            return {**block, "id": one.id}
        return {"type": "tool_use", "id": one.id, "input": one.input, "name": one.name}

    def _result(self, one: ToolExchange) -> Block:
        if not self._has_tools:
            return _text(encodable(f"[Result of tool {one.call.name}: {one.output}]"))
        toolset = _toolset(one, self._host)
        in_browser = toolset == "browser" and not one.is_error
        own = result_blocks(one, _text, self._media, in_browser=in_browser) if one.blocks else []
        content = own or result_content(one, _text, self._media)
        failed = {"is_error": True} if one.is_error else {}
        member = {"toolset_name": toolset} if toolset else {}
        answer = {"type": "tool_result", "tool_use_id": one.id, "content": content}
        return {**answer, **failed, **member}


def _toolset(one: ToolExchange, host: str) -> str:
    """Return the toolset of Claude's whose member a call is, as it came; empty: of none."""
    block = own_block(one.call.provider_metadata, FORMAT, host)
    call = None if block is None else member_call(block)
    return one.call.name if call == (one.call.name, one.call.arguments) else ""


def _in_short(content: Any) -> Any:
    """Return a single text instead of its block: digests in stored threads are of this form."""
    blocks = as_list(content) or []
    text = (as_object(blocks[0]) or {}).get("text") if len(blocks) == 1 else None
    return text if isinstance(text, str) and blocks[0] == _text(text) else content


def _compaction(wanted: Compaction) -> Block:
    trigger = {"type": "input_tokens", "value": max(LEAST_COMPACTION, wanted.tokens)}
    own = {} if wanted.instructions is None else {"instructions": wanted.instructions}
    return {"type": "compact_20260112", "trigger": trigger, **own}


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _tool_change(kind: str, name: str) -> Block:
    return {"type": kind, "tool": {"type": "tool_reference", "name": name}}


def _media_block(part: MediaContent, *, links: bool) -> Block | None:
    """Return an image or document block; Anthropic takes four kinds of images, PDF and texts."""
    is_image = isinstance(part, ImageContent)
    kind = "image" if is_image else "document"
    # Without citations the title comes with texts only, as in requests of earlier versions.
    cited = isinstance(part, FileContent) and part.citations
    beside: Block = {"citations": {"enabled": True}} if cited else {}
    titled = {} if isinstance(part, ImageContent) or not part.name else {"title": part.name}
    if cited:
        beside |= titled
    if is_stored(part):
        file_id = stored_file(part, "anthropic") if links else None
        stored = {"type": "file", "file_id": file_id}
        return None if file_id is None else {"type": kind, "source": stored, **beside}
    if part.url is not None:
        source = {"type": "url", "url": part.url}
        return {"type": kind, "source": source, **beside} if links else None
    text = None if is_image else text_in_file(part)
    if text is not None:
        read = {"type": "text", "media_type": "text/plain", "data": text}
        return {"type": kind, "source": read, **titled, **beside}
    if not is_link_or(part, IMAGE_TYPES if is_image else {"application/pdf"}):
        return None
    source = {"type": "base64", "media_type": media_type(part), "data": part.data}
    return {"type": kind, "source": source, **beside}


def _names_file(message: Message) -> bool:
    return any(isinstance(p, MediaContent) and is_stored(p) for p in content_parts(message))


def _own_thinking(message: ReasoningMessage, host: str) -> Block | None:
    block = own_block(message.provider_metadata, FORMAT, host)
    match block:
        case {"type": "thinking", "thinking": str(text), "signature": str()}:
            return block if text == message.content else None
        case {"type": "redacted_thinking", "data": str()}:
            return None if message.content else block
        case _:
            return None  # unsigned thinking is refused


_RUNS_CODE = "20260209"  # since then web tools run code on their results
_WEB_TOOL = re.compile(r"web_(?:search|fetch)_(\d{8})")


def _offered(parameters: Mapping[str, Any]) -> Callable[[OpaqueMessage], bool]:
    """Return whether a request with these parameters may hold the activity of a hosted tool.

    "… blocks, but no `web_search` tool was provided"
    """
    tools = objects(parameters.get("tools"))
    names = {tool.get("name") for tool in tools}
    dated = [_WEB_TOOL.fullmatch(text_or_empty(tool.get("type"))) for tool in tools]
    if any(found is not None and found[1] >= _RUNS_CODE for found in dated):
        names.add("code_execution")
    servers = {server.get("name") for server in objects(parameters.get("mcp_servers"))}

    def is_offered(message: OpaqueMessage) -> bool:
        if message.kind.startswith("mcp_"):
            return bool(servers)
        # Code execution is a single tool for the model and several in its calls:
        # bash_code_execution, …
        return any(isinstance(n, str) and message.tool.endswith(n) for n in names)

    return is_offered


def _takes_prefill(model: Model, request: ModelRequest) -> bool:
    """Return whether the model may be given the beginning of its answer.

    Newer ones refuse it (see `Capabilities.prefill`), as do models that think or must call a tool.
    """
    if request.tools and request.tool_choice != "auto":
        return False
    thinking = _thinking(model.default_parameters)
    return model.takes.prefill and thinking in ("", "disabled")


_SAMPLING = ("temperature", "top_p", "top_k")


def _taken(parameters: Mapping[str, Any], takes: Capabilities) -> dict[str, Any]:
    """Return the parameters without those that the model refuses whatever the conversation."""
    taken = dict(parameters)
    if not takes.sampling:
        for name in _SAMPLING:
            taken.pop(name, None)
    kind = _thinking(taken)
    if kind and kind not in takes.thinking_types:
        taken.pop("thinking")
        if kind == "enabled" and "adaptive" in takes.thinking_types:
            taken["thinking"] = {"type": "adaptive"}  # which has no budget
    choice = as_object(taken.get("tool_choice")) or {}
    if not takes.forced_choice and choice.get("type") in ("any", "tool"):
        taken["tool_choice"] = {**choice, "type": "auto"}
        taken["tool_choice"].pop("name", None)
    return taken


def _thinking(parameters: Mapping[str, Any]) -> str:
    """Return the mode of extended thinking that the parameters ask for; empty: none."""
    thinking = as_object(parameters.get("thinking"))
    return "" if thinking is None else str(thinking.get("type", ""))


def _cannot_think(body: dict[str, Any], turns: list[dict[str, Any]]) -> bool:
    """Return whether this request is refused if it asks for thinking.

    "Thinking may not be enabled when tool_choice forces tool use", and "a final assistant message
    must start with a thinking block" if it calls tools: not so if another model called them.
    """
    choice = as_object(body.get("tool_choice"))
    if choice is not None and choice.get("type") in ("any", "tool"):
        return _thinking(body) != "disabled"
    if _thinking(body) != "enabled":
        return False
    last = next((turn for turn in reversed(turns) if turn["role"] == "assistant"), None)
    if last is None or isinstance(last["content"], str):
        return False
    kinds = [block["type"] for block in last["content"]]
    return "tool_use" in kinds and kinds[0] not in ("thinking", "redacted_thinking")


def _choice(request: ModelRequest) -> dict[str, str]:
    if request.allowed_tools is not None and not request.allowed_tools:
        return {"type": "none"}
    match request.tool_choice:
        case "auto" | "any":
            return {"type": request.tool_choice}
        case _:
            return {"type": "tool", "name": named_choice(request)}


def _tools(model: Model, request: ModelRequest, *, strict: bool) -> list[dict[str, Any]]:
    """Return the tools; strict where that may be, and is asked for or no call can be forced."""
    is_forced = request.tool_choice != "auto" and not model.takes.forced_choice
    found: list[dict[str, Any]] = [
        definition(spec, model, FORMAT) for spec in request.tools if spec.provider is not None
    ]
    tools, optional, unions = MOST_STRICT_TOOLS, MOST_OPTIONAL, MOST_UNIONS
    answer = None if request.output is None else anthropic_strict_form(request.output)
    if answer is not None:
        optional, unions = optional - answer.optional, unions - answer.unions
    for spec in request.tools:
        if spec.provider is not None:
            continue
        described = {"description": spec.description} if spec.description else {}
        wanted = spec.strict or (is_forced and spec.strict is None)
        form = anthropic_strict_form(spec) if wanted and strict else None
        if form is not None and tools and form.optional <= optional and form.unions <= unions:
            tools, optional, unions = tools - 1, optional - form.optional, unions - form.unions
            own = {"input_schema": form.schema, "strict": True}
        else:
            own = {"input_schema": anthropic_form(spec)}
            if spec.strict:
                _warn_of_loose(model.model, spec.name)
        found.append({"name": spec.name, **described, **own})
    return found


@cache
def _warn_of_loose(model: str, tool: str) -> None:
    """Say once that a tool is not strict."""
    logger.warning(
        "The tool %r is offered to %s without strict=True: the model takes no strict tools, the "
        "schema has unsupported parts (recursion, open objects, tuples), or the request has more "
        "than %s of them, %s optional parameters or %s unions.",
        tool,
        model,
        MOST_STRICT_TOOLS,
        MOST_OPTIONAL,
        MOST_UNIONS,
    )


# The reply.

_WORDS: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "pause_turn": "pause",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_window",
    "compaction": "compaction",
}


class _Blocks:
    """Reads the blocks of a reply."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._tools: dict[str, str] = {}
        """Names of hosted tools by the ids of their calls."""

    def message(self, block: Block) -> Message:
        if MARK in block:  # in a conversation from an external source
            block = {name: value for name, value in block.items() if name != MARK}
        match block.get("type"):
            case "text":
                text = text_or_empty(block.get("text"))
                ours = _text(text) if text.strip() else None
                return TextMessage("assistant", text, provider_metadata=self._kept(block, ours))
            case "tool_use":
                return ToolCallMessage([self._call(block)])
            case "thinking" | "redacted_thinking":
                text = text_or_empty(block.get("thinking"))
                return ReasoningMessage(text, provider_metadata=self._kept(block, None))
            case _:
                return self._opaque(block)

    def _kept(self, block: Block, ours: Block | None) -> dict[str, Any] | None:
        return kept(self._model, FORMAT, block, ours)

    def _call(self, block: Block) -> ToolCall:
        name = text_or_empty(block.get("name"))
        if not name:
            return nameless_call(text_or_empty(block.get("id")), block)
        member = member_call(block)
        if member is not None:
            toolset, arguments = member
            call = ToolCall(text_or_empty(block.get("id")), toolset, arguments)
            return replace(call, provider_metadata=self._kept(block, None))
        call = parse_call(text_or_empty(block.get("id")), name, block.get("input"))
        ours = {"type": "tool_use", "id": call.id, "name": name, "input": call.arguments}
        return replace(call, provider_metadata=self._kept(block, ours))

    def _opaque(self, block: Block) -> OpaqueMessage:
        kind, activity = text_or_empty(block.get("type")), _activity(block) or Activity()
        tool = ""
        if activity.part == "call":
            tool = self._tools[activity.call_id] = text_or_empty(block.get("name"))
        elif activity.part == "result":
            tool = self._tools.get(activity.call_id) or kind.removesuffix("_tool_result")
        return opaque(self._model, FORMAT, block, activity, tool=tool)


_TYPED = frozenset({"text", "tool_use", "tool_result", "thinking", "redacted_thinking"})
_GIVEN = frozenset({"image", "document", "search_result", "tool_addition", "tool_removal"})
"""Blocks that a request gives and no reply holds."""


def _activity(block: Block) -> Activity | None:
    """Return a block's role in a hosted tool's activity; None: not a block of a reply."""
    kind = text_or_empty(block.get("type"))
    if not kind or kind in _TYPED or kind in _GIVEN or "role" in block:
        return None
    if kind.endswith("_tool_use"):
        named = text_or_empty(block.get("name")) and as_object(block.get("input")) is not None
        call_id = text_or_empty(block.get("id"))
        return Activity("call", call_id) if named and call_id else None
    if kind.endswith("_tool_result"):
        call_id = text_or_empty(block.get("tool_use_id"))
        return Activity("result", call_id) if call_id else None
    return Activity()


def _usage(usage: dict[str, Any] | None) -> Usage | None:
    if usage is None:
        return None
    # Anthropic counts cached tokens apart from the other input tokens; Usage includes them.
    # A summary's tokens are reported separately, next to the message's own.
    summaries = [one for one in objects(usage.get("iterations")) if one.get("type") == COMPACTION]
    tokens = [usage, *summaries]
    cached = sum(count(one, "cache_read_input_tokens") for one in tokens)
    written = sum(count(one, "cache_creation_input_tokens") for one in tokens)
    asked = sum(count(one, "input_tokens") for one in tokens) + cached + written
    answered = sum(count(one, "output_tokens") for one in tokens)
    return Usage(asked, answered, cached, cache_write_tokens=written)


# The reply as a stream.


@dataclass(slots=True)
class _WrittenBlock:
    """One content block as it is written."""

    start: dict[str, Any]
    pieces: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    citations: list[Any] = field(default_factory=list[Any])

    def add(self, name: str, piece: str) -> str:
        self.pieces.setdefault(name, []).append(piece)
        return piece

    def extend(self, delta: dict[str, Any]) -> None:
        """Apply a delta of another kind: texts are appended, other values replaced."""
        for name, value in delta.items():
            if isinstance(value, str) and name != "type":
                self.add(name, value)
            elif name != "type":
                self.start = {**self.start, name: value}

    def whole(self) -> dict[str, Any]:
        block = dict(self.start)
        for name, pieces in self.pieces.items():
            if name == "partial_json":
                block["input"] = _input(joined_text(pieces), block.get("input"))
            else:
                block[name] = joined_text([text_or_empty(block.get(name)), *pieces])
        if self.citations:
            block["citations"] = [*(as_list(block.get("citations")) or []), *self.citations]
        return block


class AnthropicAssembler(BaseAssembler):
    """Assembles the events of a message."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, _WrittenBlock] = {}

    @property
    def whole(self) -> bool:
        """Return whether ``message_stop`` has come."""
        return self._ended and bool(self._message)

    def finish(self) -> object:
        """Return the message as it is without streaming."""
        content = [block.whole() for _, block in sorted(self._blocks.items())]
        body = {**self._message, "content": content}
        return {**body, "usage": self._usage} if self._usage else body

    def _take(self, found: dict[str, Any]) -> Sequence[Delta]:
        index = found.get("index")
        number = index if isinstance(index, int) else len(self._blocks)
        match found.get("type"):
            case "message_start":
                self._message = dict(as_object(found.get("message")) or {})
                self._count(self._message.get("usage"))
            case "content_block_start":
                return self._start(number, as_object(found.get("content_block")) or {})
            case "content_block_delta":
                return self._delta(number, as_object(found.get("delta")) or {})
            case "content_block_stop":
                return self._stop(number)
            case "message_delta":
                self._message.update(as_object(found.get("delta")) or {})
                self._count(found.get("usage"))
            case "message_stop":
                self._ended = True
            case _:
                pass  # pings, ends of blocks, and event types that are yet to be invented
        return ()

    def _count(self, usage: object) -> None:
        # The last event repeats the first event's counts, omits them, or has null.
        found = as_object(usage) or {}
        self._usage.update(
            {k: v for k, v in found.items() if v is not None or k not in self._usage}
        )

    def _start(self, number: int, start: dict[str, Any]) -> Sequence[Delta]:
        self._blocks[number] = _WrittenBlock(start)
        match start.get("type"):
            case "text":
                return self._deltas.text(number, text_or_empty(start.get("text")))
            case "thinking":
                return self._deltas.reasoning(number, text_or_empty(start.get("thinking")))
            case "tool_use" if "toolset_name" not in start:
                return self._call(number, start, "")
            case _:
                return ()

    def _stop(self, number: int) -> Sequence[Delta]:
        """Return the call of a toolset's member, whole; other blocks have come in pieces."""
        block = self._blocks.get(number)
        member = None if block is None else member_call(block.whole())
        if block is None or member is None:
            return ()
        call_id = text_or_empty(block.start.get("id"))
        return self._deltas.call(number, call_id, member[0], dumps(member[1]))

    def _delta(self, number: int, delta: dict[str, Any]) -> Sequence[Delta]:
        kind = text_or_empty(delta.get("type")).removesuffix("_delta")  # no start has come
        unknown = _WrittenBlock({"type": kind} if kind in ("text", "thinking") else {})
        block = self._blocks.setdefault(number, unknown)
        match delta:
            case {"type": "text_delta", "text": str(piece)}:
                return self._deltas.text(number, block.add("text", piece))
            case {"type": "thinking_delta", "thinking": str(piece)}:
                return self._deltas.reasoning(number, block.add("thinking", piece))
            case {"type": "signature_delta", "signature": str(piece)}:
                block.add("signature", piece)
            case {"type": "citations_delta"}:
                block.citations.append(delta.get("citation"))
            case {"type": "input_json_delta", "partial_json": str(piece)}:
                block.add("partial_json", piece)
                if block.start.get("type") == "tool_use" and "toolset_name" not in block.start:
                    return self._call(number, block.start, piece)
            case _:
                block.extend(delta)
        return ()

    def _call(self, number: int, start: dict[str, Any], piece: str) -> Sequence[Delta]:
        name = text_or_empty(start.get("name"))
        return self._deltas.call(number, text_or_empty(start.get("id")), name, piece)


def _input(text: str, start: object) -> object:
    """Return the arguments; as text where the model was cut short or wrote no JSON."""
    if not text.strip():
        return start if as_object(start) else {}
    try:
        return strict_loads(text)
    except ValueError:
        return text
