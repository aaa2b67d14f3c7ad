"""Chat completions, OpenAI's first format, which Azure, Grok and many other hosts speak.

Source: https://platform.openai.com/docs/api-reference/chat/create and
https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from agentkit_py._core.json import as_list, as_object
from agentkit_py.messages import (
    Delta,
    ImageContent,
    MediaContent,
    Message,
    ReasoningMessage,
    StopReason,
    TextMessage,
    ToolCall,
    ToolCallMessage,
    Usage,
)
from agentkit_py.models.base import Adapter, Model, ModelReply, ModelRequest, ToolSpec
from agentkit_py.models.capabilities import Host, capabilities_of
from agentkit_py.models.encoding import (
    EMPTY_TURN,
    Encoded,
    clean,
    data_url,
    encoded_parts,
    entries,
    has_media,
    is_link_or,
    named_choice,
    texts,
    words_for,
)
from agentkit_py.models.replies import (
    BaseAssembler,
    checked_body,
    count,
    join,
    objects,
    parse_call,
    text_in,
    text_or_empty,
    unexpected,
)
from agentkit_py.models.schema import openai_form

EMPTY_RESULT = "(empty)"
"""A tool's empty result, for servers that refuse messages without text."""


@dataclass(frozen=True, slots=True)
class ChatAdapter(Adapter):
    """Chat completions of one host."""

    path: str = "/chat/completions"
    stream_usage: bool = True
    """Streams are asked for their usage by ``stream_options``, which the server must know."""

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        """Return the body; the model's default parameters overwrite what is put here."""
        body: dict[str, Any] = {"messages": _messages(request, self.host)}
        if request.tools:
            body["tool_choice"] = _choice(request)
            if capabilities_of(model.model).parallel_tool_calls:
                body["parallel_tool_calls"] = False
            body["tools"] = [_tool(spec, self.host) for spec in request.tools]
        body.update(model.default_parameters)
        if not body.get("tools"):
            # Only allowed with tools; defaults are also used by agents that have none.
            body.pop("tool_choice", None)
            body.pop("parallel_tool_calls", None)
        body.setdefault("model", model.model)
        return body

    def decode(self, model: Model, body: object) -> ModelReply:
        """Return the messages of a chat completion.

        A refusal is text: the user has a right to it. Tool calls are one message with all of them.

        Raises:
            ModelResponseError: There is no choice, or a tool call without function.
        """
        found = checked_body(model, body)
        choices = as_list(found.get("choices"))
        if not choices:
            raise unexpected(model, body, "the answer has no choices")
        messages: list[Message] = []
        finish_reason: str | None = None
        for choice in map(as_object, choices):
            if choice is None:
                raise unexpected(model, body, "a choice is no object")
            messages += _read_choice(model, body, choice)
            finish_reason = finish_reason or text_or_empty(choice.get("finish_reason")) or None
        usage = _usage(as_object(found.get("usage")))
        return ModelReply(messages=tuple(messages), usage=usage, finish_reason=finish_reason)

    def stream_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body as a request for a stream."""
        options = {"stream_options": {"include_usage": True}} if self.stream_usage else {}
        return {**options, **body, "stream": True}

    def assembler(self, model: Model) -> ChatAssembler:
        """Return the assembler of one reply."""
        return ChatAssembler(model)


# The request's body.


def _messages(request: ModelRequest, host: Host) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for entry in entries(request.messages):
        if isinstance(entry, TextMessage):
            if host.empty_messages or texts(entry):
                found.append({"role": entry.role, "content": _content(entry, host)})
        elif isinstance(entry, ReasoningMessage):
            pass  # chat completions take no reasoning back
        else:
            calls: list[dict[str, Any]] = []
            found.append({"role": "assistant", "content": None, "tool_calls": calls})
            for one in entry:
                function = {"name": one.name, "arguments": one.arguments}
                calls.append({"id": one.id, "type": "function", "function": function})
                output = one.output or ("" if host.empty_messages else EMPTY_RESULT)
                found.append({"role": "tool", "tool_call_id": one.id, "content": output})
    return found or [{"role": "user", "content": EMPTY_TURN}]


def _content(message: TextMessage, host: Host) -> str | list[Encoded]:
    content = message.content
    if isinstance(content, str):
        return clean(content)
    if message.role == "user" and has_media(message):
        return encoded_parts(message, _text_part, partial(_media_part, host=host))
    pieces = [words_for(p) if isinstance(p, MediaContent) else p.text for p in content]
    return [_text_part(clean(piece)) for piece in pieces if piece] or ""


def _text_part(text: str) -> Encoded:
    return {"type": "text", "text": text}


def _media_part(part: MediaContent, host: Host) -> Encoded | None:
    # "Chat Completions accepts only PDF files": https://platform.openai.com/docs/guides/file-inputs
    if isinstance(part, ImageContent):
        detail = {"detail": part.detail} if part.detail else {}
        image = {"type": "image_url", "image_url": {"url": data_url(part), **detail}}
        return image if is_link_or(part, host.image_types) else None
    if not host.pdf_files or part.data is None or not is_link_or(part, {"application/pdf"}):
        return None
    return {"type": "file", "file": {"filename": part.name or "file", "file_data": data_url(part)}}


def _choice(request: ModelRequest) -> object:
    match request.tool_choice:
        case "auto":
            return "auto"
        case "any":
            return "required"
        case _:
            return {"type": "function", "function": {"name": named_choice(request)}}


def _tool(spec: ToolSpec, host: Host) -> dict[str, Any]:
    parameters, strict = openai_form(spec, strict=host.strict_schemas)
    function: dict[str, Any] = {"name": spec.name}
    if spec.description:
        function["description"] = spec.description[: host.tool_description]
    if parameters is not None:
        function["parameters"] = parameters
    function["strict"] = strict
    return {"type": "function", "function": function}


# The reply.


def _read_choice(model: Model, body: object, choice: dict[str, Any]) -> list[Message]:
    message = as_object(choice.get("message")) or {}
    calls = [_read_call(model, body, call) for call in as_list(message.get("tool_calls")) or ()]
    result: list[Message] = []
    reasoning = message.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning.strip():
        result.append(ReasoningMessage(reasoning))
    text = text_in(message.get("content")) or text_or_empty(message.get("refusal"))
    if text.strip():
        stop: StopReason = "tool" if calls else "stop"
        result.append(TextMessage("assistant", text, stop_reason=stop))
    if calls:
        result.append(ToolCallMessage(calls))
    return result


def _read_call(model: Model, body: object, call: object) -> ToolCall:
    found = as_object(call) or {}
    function = as_object(found.get("function")) or {}
    name = text_or_empty(function.get("name"))
    if not name:
        raise unexpected(model, body, "a tool call names no function")
    return parse_call(text_or_empty(found.get("id")), name, function.get("arguments"))


def _usage(usage: dict[str, Any] | None) -> Usage | None:
    if usage is None:
        return None
    asked = count(usage, "prompt_tokens")
    answered = count(usage, "completion_tokens")
    cached = count(usage, "prompt_tokens_details", "cached_tokens")
    reasoning = count(usage, "completion_tokens_details", "reasoning_tokens")
    # xAI counts reasoning apart from the completion, OpenAI as a part; the total shows which.
    if reasoning and count(usage, "total_tokens") == asked + answered + reasoning:
        answered += reasoning
    return Usage(asked, answered, cached, reasoning)


# The reply as a stream.

_NOT_KEPT = frozenset({"choices", "usage", "object", "obfuscation", "error"})
_NO_INDEX = 1 << 30


@dataclass(slots=True)
class _Call:
    """One tool call as it is written."""

    index: int
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])
    shown: int = 0
    """The number of pieces that were given as deltas: none before the name is known."""

    def whole(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": join(self.pieces)}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(slots=True)
class _Choice:
    """One choice as it is written."""

    number: int
    role: str = "assistant"
    texts: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    calls: list[_Call] = field(default_factory=list[_Call])
    logprobs: dict[str, list[Any]] | None = None
    rest: dict[str, Any] = field(default_factory=dict[str, Any])

    def call_for(self, found: dict[str, Any]) -> _Call:
        """Return the call that a piece belongs to, by its index.

        Some servers leave that out, some give all calls of a reply the same one; a new id tells
        new calls apart there.
        """
        call_id = text_or_empty(found.get("id"))
        index = found.get("index")
        same = [call for call in self.calls if index is None or call.index == index]
        if index is None and call_id:
            same = [call for call in same if call.id == call_id]
        last = same[-1] if same else None
        if last is None or (call_id and last.id and call_id != last.id):
            last = _Call(index if isinstance(index, int) else _NO_INDEX)
            self.calls.append(last)
        last.id = last.id or call_id
        return last

    def whole(self) -> dict[str, Any]:
        content = {name: join(pieces) for name, pieces in self.texts.items()}
        message: dict[str, Any] = {"role": self.role, "content": None, "refusal": None, **content}
        calls = sorted(self.calls, key=lambda call: call.index)
        if calls:
            message["tool_calls"] = [call.whole() for call in calls]
        filled = {"index": self.number, "message": message, "logprobs": self.logprobs}
        return {**filled, "finish_reason": None, **self.rest}


class ChatAssembler(BaseAssembler):
    """Puts the chunks of one chat completion together."""

    def __init__(self, model: Model) -> None:
        """Begin a reply of ``model``."""
        super().__init__(model)
        self._head: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}
        self._usage: dict[str, Any] | None = None

    @property
    def whole(self) -> bool:
        """Return whether all has come: the end marker, or all that is expected before it."""
        if self._ended:
            return True
        choices = self._choices.values()
        finished = all(choice.rest.get("finish_reason") for choice in choices)
        return bool(choices) and self._usage is not None and finished

    def finish(self) -> object:
        """Return the completion as it is without streaming."""
        choices = [choice.whole() for _, choice in sorted(self._choices.items())]
        body = {**self._head, "object": "chat.completion", "choices": choices}
        return body if self._usage is None else {**body, "usage": self._usage}

    def _take(self, found: dict[str, Any]) -> Sequence[Delta]:
        for name, value in found.items():
            # Azure's first chunk, about its filters, has an empty id and model.
            if name not in _NOT_KEPT and (value or name not in self._head):
                self._head[name] = value
        # The usage comes once, after the last choice, or grows with each chunk (xAI).
        self._usage = as_object(found.get("usage")) or self._usage
        return [delta for choice in objects(found.get("choices")) for delta in self._choice(choice)]

    def _choice(self, found: dict[str, Any]) -> list[Delta]:
        index = found.get("index")
        number = index if isinstance(index, int) else 0
        choice = self._choices.setdefault(number, _Choice(number))
        for name, value in found.items():
            if name not in ("index", "delta", "logprobs") and (value or name not in choice.rest):
                choice.rest[name] = value
        for name, values in (as_object(found.get("logprobs")) or {}).items():
            choice.logprobs = choice.logprobs or {}
            choice.logprobs.setdefault(name, []).extend(as_list(values) or [])
        delta = as_object(found.get("delta")) or {}
        choice.role = text_or_empty(delta.get("role")) or choice.role
        deltas = self._texts(choice, delta)
        for call in objects(delta.get("tool_calls")):
            deltas += self._call(choice, call)
        return deltas

    def _texts(self, choice: _Choice, delta: dict[str, Any]) -> list[Delta]:
        deltas: list[Delta] = []
        for name in ("reasoning_content", "content", "refusal"):
            if delta.get(name) is None:
                continue
            piece = text_in(delta[name])
            choice.texts.setdefault(name, []).append(piece)
            key = (choice.number, name)
            if name == "reasoning_content":
                deltas += self._deltas.reasoning(key, piece)
            elif name == "content" or not self._deltas.begun((choice.number, "content")):
                deltas += self._deltas.text(key, piece)
        return deltas

    def _call(self, choice: _Choice, found: dict[str, Any]) -> list[Delta]:
        call = choice.call_for(found)
        function = as_object(found.get("function")) or {}
        # The first name counts: some servers repeat it in each piece.
        call.name = call.name or text_or_empty(function.get("name"))
        call.pieces.append(text_or_empty(function.get("arguments")))
        if not call.name:
            return []
        piece = "".join(call.pieces[call.shown :])
        call.shown = len(call.pieces)
        key = (choice.number, "call", choice.calls.index(call))
        return self._deltas.call(key, call.id, call.name, piece)
