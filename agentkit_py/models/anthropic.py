"""Anthropic's Messages API.

Source: https://docs.claude.com/en/api/messages,
https://docs.claude.com/en/docs/build-with-claude/streaming, and the messages with which the API
refuses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import Unpack

from agentkit_py._core.json import as_list, as_object, copied
from agentkit_py.errors import ConfigurationError
from agentkit_py.messages import (
    Delta,
    ImageContent,
    MediaContent,
    Message,
    ReasoningMessage,
    TextMessage,
    ToolCallMessage,
    Usage,
)
from agentkit_py.models.base import (
    Adapter,
    Model,
    ModelOptions,
    ModelReply,
    ModelRequest,
    ToolSpec,
    make_model,
)
from agentkit_py.models.capabilities import ANTHROPIC, IMAGE_TYPES, capabilities_of
from agentkit_py.models.encoding import (
    EMPTY_TURN,
    OPENING_TURN,
    PREFILL_TURN,
    Entry,
    ToolExchange,
    clean,
    closing_turn,
    encoded_parts,
    entries,
    has_media,
    is_link_or,
    media_type,
    named_choice,
    split_prefill,
    texts,
)
from agentkit_py.models.replies import (
    BaseAssembler,
    calls_last,
    checked_body,
    count,
    join,
    objects,
    parse_call,
    text_or_empty,
    unexpected,
)
from agentkit_py.models.schema import anthropic_form

DEFAULT_MAX_TOKENS = 4096
"""``max_tokens`` where nobody said otherwise: Anthropic requires one."""

Block = dict[str, Any]


def anthropic(
    model: str,
    *,
    base_url: str | None = None,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    beta_headers: Sequence[str] | None = None,
    **options: Unpack[ModelOptions],
) -> Model:
    """Return a Claude model at Anthropic.

    Args:
        model: The model's name, e.g. ``"claude-sonnet-4-5"``.
        base_url: Root of the API.
        max_tokens: Length of an answer at the most; ``default_parameters`` may say otherwise.
        beta_headers: Betas to take part in, sent as ``anthropic-beta``.
        options: See `ModelOptions`; the key's environment variable is ``ANTHROPIC_API_KEY``.

    Raises:
        ConfigurationError: A value cannot work.
    """
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"max_tokens={max_tokens!r}: pass tokens, 1 or more.")
    adapter = AnthropicAdapter(ANTHROPIC, beta_headers=_checked_betas(beta_headers))
    made = make_model(adapter, model, base_url=base_url, **options)
    return made.with_parameters(**{"max_tokens": max_tokens, **made.default_parameters})


def _checked_betas(beta_headers: Sequence[str] | None) -> tuple[str, ...]:
    if beta_headers is None:
        return ()
    if isinstance(beta_headers, str) or not all(
        isinstance(name, str) and name and "," not in name and name.isascii() and name.isprintable()  # pyright: ignore[reportUnnecessaryIsInstance]
        for name in beta_headers
    ):
        raise ConfigurationError(f"beta_headers={beta_headers!r}: pass a list of names.")
    return tuple(beta_headers)


@dataclass(frozen=True, slots=True)
class AnthropicAdapter(Adapter):
    """The Messages API."""

    path: str = "/messages"
    beta_headers: tuple[str, ...] = ()

    def headers(self, model: Model, api_key: str | None) -> dict[str, str]:
        """Return the request's headers, the key and the betas among them."""
        betas = {"anthropic-beta": ",".join(self.beta_headers)} if self.beta_headers else {}
        return {**betas, **Adapter.headers(self, model, api_key)}

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        """Return the body; the model's default parameters overwrite what is put here."""
        parameters = model.default_parameters
        conversation, prefill = split_prefill(request)
        turns = _Turns(request, keep_thinking=_thinking(parameters) != "disabled")
        turns.read(entries(conversation))
        messages = turns.finished(prefill, takes_prefill=_takes_prefill(model, request))
        body: dict[str, Any] = {}
        if turns.system:
            body["system"] = "\n\n".join(turns.system)
        body["model"] = model.model
        body["max_tokens"] = DEFAULT_MAX_TOKENS
        body["messages"] = messages
        if request.tools:
            body["tools"] = [_tool(spec) for spec in request.tools]
            body["tool_choice"] = _choice(request)
        body.update(parameters)
        if not body.get("tools"):
            body.pop("tool_choice", None)
        if "thinking" in body and _cannot_think(body, messages):
            del body["thinking"]
        return body

    def decode(self, model: Model, body: object) -> ModelReply:
        """Return the reply's messages: one per block, tool calls last, unknown blocks left out.

        Thinking blocks are kept whole in `ReasoningMessage.provider_metadata`, since they are
        signed and must go back as they came.

        Raises:
            ModelResponseError: The answer is no message.
        """
        found = checked_body(model, body)
        if found.get("type", "message") != "message" or not {"type", "content"} & found.keys():
            raise unexpected(model, body, "the answer is no message")
        read = [_read_block(model, body, block) for block in objects(found.get("content"))]
        return ModelReply(
            messages=calls_last(message for message in read if message is not None),
            usage=_usage(as_object(found.get("usage"))),
            finish_reason=text_or_empty(found.get("stop_reason")) or None,
        )

    def assembler(self, model: Model) -> AnthropicAssembler:
        """Return the assembler of one reply."""
        return AnthropicAssembler(model)


# The request's body.


class _Turns:
    """Turns that alternate: what comes from one side in a row is one turn."""

    def __init__(self, request: ModelRequest, *, keep_thinking: bool) -> None:
        self.found: list[dict[str, Any]] = []
        """Turns, their content in blocks."""

        self.system: list[str] = []
        """All system messages, wherever they stand: Anthropic has one place for them."""

        self._request = request
        self._keep_thinking = keep_thinking
        self._thinking: list[Block] = []

    def read(self, conversation: list[Entry]) -> None:
        closing, closing_words = closing_turn(conversation, self._request.agent)
        for entry in conversation:
            if isinstance(entry, list):
                self._add_exchanges(entry)
            elif isinstance(entry, ReasoningMessage):
                # "The final block in an assistant message cannot be `thinking`": a block is sent
                # with what the assistant says next, else not at all.
                if self._keep_thinking and (block := _own_thinking(entry)) is not None:
                    self._thinking.append(block)
            elif entry is closing:
                self.add("user", [_text(closing_words)])
            elif entry.role == "system":
                self.system += texts(entry)
            elif blocks := _text_blocks(entry):
                self.add(entry.role, blocks)

    def add(self, role: str, blocks: list[Block]) -> None:
        """Add what one side says."""
        if self._thinking:
            blocks = [*self._thinking, *blocks] if role == "assistant" else blocks
            self._thinking = []
        if self.found and self.found[-1]["role"] == role:
            self.found[-1]["content"] += blocks
        else:
            self.found.append({"role": role, "content": blocks})

    def finished(self, prefill: str, *, takes_prefill: bool) -> list[dict[str, Any]]:
        """Return the turns, the first of them the user's, with the beginning of the answer."""
        if self.found and self.found[0]["role"] == "assistant":
            self.found.insert(0, {"role": "user", "content": [_text(OPENING_TURN)]})
        if prefill and not takes_prefill:
            self.add("user", [_text(PREFILL_TURN.format(text=prefill))])
        if not self.found:
            self.add("user", [_text(EMPTY_TURN)])
        if prefill and takes_prefill:
            self.add("assistant", [_text(prefill)])
        for turn in self.found:
            turn["content"] = _content(turn["content"])
        return self.found

    def _add_exchanges(self, exchanges: list[ToolExchange]) -> None:
        calls: list[Block] = []
        results: list[Block] = []
        for one in exchanges:
            if self._request.tools:
                calls.append(
                    {"type": "tool_use", "id": one.id, "input": one.input, "name": one.name}
                )
                results.append(
                    {"type": "tool_result", "tool_use_id": one.id, "content": one.output}
                )
            else:  # "Requests which include `tool_use` or `tool_result` blocks must define tools."
                name = one.call.name
                calls.append(_text(clean(f"[Called tool {name} with {one.arguments}]")))
                results.append(_text(clean(f"[Result of tool {name}: {one.output}]")))
        self.add("assistant", calls)
        self.add("user", results)


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _content(blocks: list[Block]) -> str | list[Block]:
    """Return a turn's content; one text is sent as it is."""
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0]["type"] == "text" else blocks


def _text_blocks(message: TextMessage) -> list[Block]:
    if message.role == "user" and has_media(message):
        return encoded_parts(message, _text, _media_block)
    return [_text(piece) for piece in texts(message)]


def _media_block(part: MediaContent) -> Block | None:
    """Return an image or document block; Anthropic takes four kinds of images, and PDF."""
    is_image = isinstance(part, ImageContent)
    kind = "image" if is_image else "document"
    if part.url is not None:
        return {"type": kind, "source": {"type": "url", "url": part.url}}
    if not is_link_or(part, IMAGE_TYPES if is_image else {"application/pdf"}):
        return None
    source = {"type": "base64", "media_type": media_type(part), "data": part.data}
    return {"type": kind, "source": source}


def _own_thinking(message: ReasoningMessage) -> Block | None:
    block = as_object((message.provider_metadata or {}).get("anthropic"))
    match block:
        case {"type": "thinking", "thinking": str(), "signature": str()}:
            return copied(block)
        case {"type": "redacted_thinking", "data": str()}:
            return copied(block)
        case _:
            return None  # unsigned thinking is refused


def _takes_prefill(model: Model, request: ModelRequest) -> bool:
    """Return whether the model may be given the beginning of its answer.

    Newer ones refuse it (see `Capabilities.prefill`), as do models that think or must call a tool.
    """
    if request.tools and request.tool_choice != "auto":
        return False
    thinking = _thinking(model.default_parameters)
    return capabilities_of(model.model).prefill and thinking in ("", "disabled")


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
    match request.tool_choice:
        case "auto" | "any":
            return {"type": request.tool_choice}
        case _:
            return {"type": "tool", "name": named_choice(request)}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    described = {"description": spec.description} if spec.description else {}
    return {"name": spec.name, **described, "input_schema": anthropic_form(spec)}


# The reply.


def _read_block(model: Model, body: object, block: dict[str, Any]) -> Message | None:
    match block.get("type"):
        case "text":
            return TextMessage("assistant", text_or_empty(block.get("text")), stop_reason="stop")
        case "tool_use":
            name = text_or_empty(block.get("name"))
            if not name:
                raise unexpected(model, body, "a tool_use block names no tool")
            call_id = text_or_empty(block.get("id"))
            return ToolCallMessage([parse_call(call_id, name, block.get("input"))])
        case "thinking" | "redacted_thinking":
            text = text_or_empty(block.get("thinking"))
            return ReasoningMessage(text, provider_metadata={"anthropic": block})
        case _:
            return None


def _usage(usage: dict[str, Any] | None) -> Usage | None:
    if usage is None:
        return None
    # Anthropic counts cached tokens apart from the other input tokens; Usage includes them.
    cached = count(usage, "cache_read_input_tokens")
    written = count(usage, "cache_creation_input_tokens")
    asked = count(usage, "input_tokens") + cached + written
    return Usage(asked, count(usage, "output_tokens"), cached)


# The reply as a stream.


@dataclass(slots=True)
class _Block:
    """One content block as it is written."""

    start: dict[str, Any]
    pieces: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    citations: list[Any] = field(default_factory=list[Any])

    def add(self, name: str, piece: str) -> str:
        self.pieces.setdefault(name, []).append(piece)
        return piece

    def whole(self) -> dict[str, Any]:
        block = dict(self.start)
        for name, pieces in self.pieces.items():
            if name == "partial_json":
                block["input"] = _input(join(pieces), block.get("input"))
            else:
                block[name] = join([text_or_empty(block.get(name)), *pieces])
        if self.citations:
            block["citations"] = [*(as_list(block.get("citations")) or []), *self.citations]
        return block


class AnthropicAssembler(BaseAssembler):
    """Puts the events of one message together."""

    def __init__(self, model: Model) -> None:
        """Begin a reply of ``model``."""
        super().__init__(model)
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, _Block] = {}

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
            case "message_delta":
                self._message.update(as_object(found.get("delta")) or {})
                self._count(found.get("usage"))
            case "message_stop":
                self._ended = True
            case _:
                pass  # pings, ends of blocks, and event types that are yet to be invented
        return ()

    def _count(self, usage: object) -> None:
        # The last event repeats what the first one said, or leaves it out, or says null.
        found = as_object(usage) or {}
        self._usage.update(
            {k: v for k, v in found.items() if v is not None or k not in self._usage}
        )

    def _start(self, number: int, start: dict[str, Any]) -> Sequence[Delta]:
        self._blocks[number] = _Block(start)
        match start.get("type"):
            case "text":
                return self._deltas.text(number, text_or_empty(start.get("text")))
            case "thinking":
                return self._deltas.reasoning(number, text_or_empty(start.get("thinking")))
            case "tool_use":
                return self._call(number, start, "")
            case _:
                return ()

    def _delta(self, number: int, delta: dict[str, Any]) -> Sequence[Delta]:
        block = self._blocks.setdefault(number, _Block({}))
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
                if block.start.get("type") == "tool_use":
                    return self._call(number, block.start, piece)
            case _:
                pass
        return ()

    def _call(self, number: int, start: dict[str, Any], piece: str) -> Sequence[Delta]:
        name = text_or_empty(start.get("name"))
        return self._deltas.call(number, text_or_empty(start.get("id")), name, piece)


def _input(text: str, start: object) -> object:
    """Return the arguments; as text where the model was cut short or wrote no JSON."""
    if not text.strip():
        return start if as_object(start) else {}
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
