"""Chat completions, OpenAI's first format, which Azure, Grok and many other hosts speak.

Source: https://platform.openai.com/docs/api-reference/chat/create and
https://platform.openai.com/docs/api-reference/chat-streaming
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self

from agentkit_py._core.json import as_list, as_object, dumps, tamed
from agentkit_py.messages import (
    Delta,
    Finish,
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
)
from agentkit_py.models.base import STREAMED, Adapter, Model, ModelReply, ModelRequest, ToolSpec
from agentkit_py.models.binding import Reason, account_of, has_reasoning
from agentkit_py.models.blocks import (
    Activity,
    Block,
    checked_reply,
    citing,
    finished,
    host_of,
    kept,
    opaque,
    opaque_block,
    own_block,
    sendable,
)
from agentkit_py.models.capabilities import Capabilities, Host
from agentkit_py.models.chat_reasoning import (
    DETAILS,
    TEXT_FIELDS,
    ReasoningFields,
    bind_reasoning,
    join_details,
    read_reasoning,
    reasoning_in_text,
)
from agentkit_py.models.encoding import (
    EMPTY_TURN,
    NO_ANSWER,
    PREFILL,
    Encoded,
    ToolExchange,
    cache_key,
    closing_turn,
    data_url,
    encodable,
    encoded_parts,
    has_media,
    hosted_tools,
    is_link_or,
    is_stored,
    media_type,
    openai_choice,
    split_prefill,
    stored_file,
    texts,
    warn_of_stored,
    warn_of_text_alone,
    warn_of_words,
    without_sampling,
    words_for,
)
from agentkit_py.models.http_errors import unexpected
from agentkit_py.models.provider_tools import definition
from agentkit_py.models.replies import (
    BaseAssembler,
    checked_body,
    count,
    joined_text,
    nameless_call,
    objects,
    parse_call,
    text_in,
    text_or_empty,
    written_arguments,
)
from agentkit_py.models.schema import openai_output_form, openai_tool
from agentkit_py.models.think_tags import Piece, ThinkTags, ThinkTagSplitter, split_thinking
from agentkit_py.models.writer import (
    Said,
    Writer,
    exchanges_of,
    written,
)

FORMAT = "chat"
"""The name of this format: of its opaque messages, and the key of its data in messages."""

AUDIO, PICTURE = "chat-audio", "chat-image"
"""The formats of opaque messages that are shown, and that no request takes back."""

EMPTY_RESULT = "(empty)"
"""A tool's empty result, for servers that refuse messages without text."""


@dataclass(frozen=True, slots=True)
class ChatAdapter(Adapter):
    """The chat completions API of a host."""

    refused_parameters: ClassVar[Mapping[str, str]] = STREAMED

    path: str = "/chat/completions"
    stream_usage: bool = True
    """Streams are asked for their usage by ``stream_options``, which the server must know."""

    cache_keys: bool = True
    """Models that take a ``prompt_cache_key`` get it; Azure's dated versions are too old for it."""

    think_tags: ThinkTags | None = None
    """Tags around the reasoning at the beginning of a text; None: a text is text."""

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        """Return the body; the model's default parameters take precedence."""
        if request.hosted:
            hosted_tools(model, request, FORMAT)  # refuses: this format has none
        turns = written(request, *self._to_write(model, request))
        turns.end()
        body: dict[str, Any] = {"messages": turns.found}
        if request.tools:
            body["tool_choice"] = openai_choice(request, model.takes, _typed)
            if model.takes.parallel_tool_calls:
                body["parallel_tool_calls"] = False
            body["tools"] = [_tool(model, spec) for spec in request.tools]
        if self.cache_keys and (key := cache_key(model, request)):
            body["prompt_cache_key"] = key
        body.update(taken_parameters(model.default_parameters, model.takes))
        if not body.get("tools"):
            # Only allowed with tools; defaults are also used by agents that have none.
            body.pop("tool_choice", None)
            body.pop("parallel_tool_calls", None)
        body.setdefault("model", model.model)
        return self.with_output(model, request, body)

    def output_format(self, model: Model, spec: ToolSpec) -> dict[str, Any] | None:
        """Return ``response_format``; None for a schema that cannot be strict."""
        schema = openai_output_form(spec, self.host)
        if schema is None:
            return None
        form = {"name": spec.name, "schema": schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": form}}

    def bind(
        self, model: Model, request: ModelRequest, messages: Sequence[Message]
    ) -> tuple[Message, ...]:
        """Return a reply's messages, its reasoning bound to host, account and model."""
        return bind_reasoning(model, request, messages)

    def left_out(self, model: Model, request: ModelRequest) -> Sequence[tuple[Message, Reason]]:
        """Return the reasoning that is not sent, each with why."""
        if not has_reasoning(request):
            return ()
        turns = written(request, *self._to_write(model, request))
        turns.end()
        reasons = turns.reasoning.reasons
        return [(m, reasons[id(m)]) for m in request.messages if id(m) in reasons]

    def _to_write(
        self, model: Model, request: ModelRequest
    ) -> tuple[Sequence[Message], Sequence[Message], Sequence[object], Callable[[], _Turns]]:
        """Return a request's messages and the other arguments of `written`."""
        messages: Sequence[Message] = request.messages
        own: Sequence[Message] = ()
        if request.prefill and model.takes.strict_turns:
            messages, prefill = split_prefill(request)
            messages = [TextMessage("system", PREFILL.format(text=prefill)), *messages]
        elif request.prefill:
            own = messages[-request.prefill :]
        messages = sendable(messages, FORMAT, host_of(model), _activity)
        facts = [model, self.host, account_of(model, request), request.refused]
        return messages, own, facts, partial(_Turns, model, self.host, request)

    def decode(self, model: Model, body: object) -> ModelReply:
        """Return the messages of a chat completion.

        A refusal is text: the user has a right to it. All tool calls are a single message. A
        content list gives a message per chunk.
        """
        found = checked_body(model, body)
        choices = as_list(found.get("choices"))
        if not choices:
            raise unexpected(model, body, "the answer has no choices")
        messages: list[Message] = []
        ends: list[dict[str, Any]] = []
        for choice in map(as_object, choices):
            if choice is None:
                raise unexpected(model, body, "a choice is not an object")
            messages += _read_choice(model, choice, self.think_tags)
            ends.append(choice)
        usage = _usage(as_object(found.get("usage")))
        return checked_reply(model, messages, _finish(model, messages, ends), usage)

    def stream_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body as a request for a stream."""
        options = {"stream_options": {"include_usage": True}} if self.stream_usage else {}
        return {**options, **body, "stream": True}

    def assembler(self, model: Model) -> ChatAssembler:
        """Return the assembler of a reply."""
        return ChatAssembler(model, self.think_tags)


# The request's body.

_NOT_WITH_REASONING = ("stop", "presence_penalty", "frequency_penalty")


def taken_parameters(parameters: Mapping[str, Any], takes: Capabilities) -> dict[str, Any]:
    """Return the parameters as models that reason take them."""
    taken = dict(parameters)
    if takes.sampling:
        return taken
    if "max_tokens" in taken:  # "Use 'max_completion_tokens' instead."
        taken.setdefault("max_completion_tokens", taken.pop("max_tokens"))
    for name in _NOT_WITH_REASONING:
        taken.pop(name, None)
    return without_sampling(taken, takes, taken.get("reasoning_effort"))


class _Turns(Writer):
    """The messages of the request; each reply is a single message."""

    def __init__(self, model: Model, host: Host, request: ModelRequest) -> None:
        takes = model.takes
        super().__init__(model, request)
        self.reasoning = ReasoningFields(takes, self._standing)
        self._model = model.model
        self._host = host
        self._address = self._standing.host
        self._is_strict = takes.strict_turns
        self._reply: list[Said | ToolExchange] = []
        """The pieces of a reply that is not whole yet."""

        self._author: str | None = None
        """The agent of the last reply."""

    def fork(self, reply: frozenset[int]) -> Self:
        made = super().fork(reply)
        made.reasoning = copy(self.reasoning)
        return made

    def _add_reply(self, entry: list[Said | ToolExchange]) -> None:
        self._begin(entry[0])
        self._reply += entry
        self._end()

    def _say(self, message: Said) -> None:
        if message.role == "assistant":
            self._begin(message)
            self._reply.append(message)
        else:
            assert isinstance(message, TextMessage)
            self._end()
            if self._host.empty_messages or texts(message):
                content = _content(message, self._host, self._model)
                self._put({"role": message.role, "content": content})

    def end(self) -> None:
        """Write the end that a request needs."""
        self._end()
        if self._is_strict and self.found and self.found[-1]["role"] not in ("user", "tool"):
            self._put({"role": "user", "content": closing_turn(self._author)})
        if not self.found:
            self.found.append({"role": "user", "content": EMPTY_TURN})

    def _put(self, turn: dict[str, Any]) -> None:
        """Add a turn; where the host needs alternating sides, after a turn of the other side."""
        last = self.found[-1]["role"] if self._is_strict and self.found else ""
        if (last, turn["role"]) == ("assistant", "assistant"):
            self.found.append({"role": "user", "content": closing_turn(self._author)})
        elif last == "tool" and turn["role"] != "assistant":
            self.found.append({"role": "assistant", "content": NO_ANSWER})
        self.found.append(turn)

    def _begin(self, piece: Said | ToolExchange) -> None:
        """End the reply before, unless this is more of it: see `_continues`."""
        if self._reply and not _continues(self._reply[-1], piece):
            self._end()

    def _end(self) -> None:
        """Add the reply: its content, and its calls with their results."""
        if not self._reply:
            return
        reply, self._reply = self._reply, []
        exchanges = exchanges_of(reply)
        said = [one for one in reply if not isinstance(one, ToolExchange)]
        turn = self._turn(said)
        if exchanges:
            turn = turn or {"role": "assistant", "content": None}
            turn["tool_calls"] = [self._call(one) for one in exchanges]
        if turn is None:
            return
        self.reasoning.add(turn, said)
        self._put(turn)
        self._author = reply[0].agent
        for one in exchanges:
            if one.parts:
                warn_of_words("chat completions")
            output = one.output or ("" if self._host.empty_messages else EMPTY_RESULT)
            self.found.append({"role": "tool", "tool_call_id": one.id, "content": output})

    def _turn(self, said: list[Said]) -> dict[str, Any] | None:
        """Return an assistant's message without its calls; None if it has nothing else."""
        chunks = [self._chunk(one) for one in said]
        if any(chunk is not None and chunk.get("type") != "text" for chunk in chunks):
            content = [chunk for chunk in chunks if chunk and chunk.get("text") != ""]
            return {"role": "assistant", "content": content}
        words = [one for one in said if isinstance(one, TextMessage)]
        if not words or not (self._host.empty_messages or any(map(texts, words))):
            return None
        if len(words) == 1:
            return {"role": "assistant", "content": _content(words[0], self._host, self._model)}
        return {"role": "assistant", "content": "".join(encodable(one.text) for one in words)}

    def _chunk(self, message: Said) -> Block | None:
        """Return a chunk of a content list that goes back as it came."""
        if isinstance(message, OpaqueMessage):
            return opaque_block(message)
        block = own_block(message.provider_metadata, FORMAT, self._address)
        if block is not None and _text_of_chunk(block) == message.content:
            return block
        return None if isinstance(message, ReasoningMessage) else _text_part(message.text)

    def _call(self, one: ToolExchange) -> Block:
        block = own_block(one.call.provider_metadata, FORMAT, self._address) or {}
        custom = as_object(block.get("custom")) or {}
        said = (custom.get("name"), {"input": custom.get("input")})
        if said == (one.call.name, one.call.arguments):
            return {**block, "id": one.id}
        function = as_object(block.get("function")) or {}
        if function and one.is_call(function.get("name"), function.get("arguments")):
            return {**block, "id": one.id}
        function = {"name": one.name, "arguments": one.arguments}
        return {"id": one.id, "type": "function", "function": function}


def _continues(last: Said | ToolExchange, piece: Said | ToolExchange) -> bool:
    """Return whether a piece is of the same reply as the previous piece.

    Reasoning continues with its result, and text with the calls that ended the model's reply.
    """
    if isinstance(last, ToolExchange):
        return False
    if not isinstance(piece, ToolExchange) and piece.agent != last.agent:
        return False
    if isinstance(last, ReasoningMessage):
        return True
    in_list = isinstance(last, OpaqueMessage) or FORMAT in (last.provider_metadata or {})
    if isinstance(piece, ToolExchange):
        return in_list or last.stop_reason not in (None, "stop")
    return in_list and (
        isinstance(piece, OpaqueMessage) or FORMAT in (piece.provider_metadata or {})
    )


def _content(message: TextMessage, host: Host, model: str) -> str | list[Encoded]:
    content = message.content
    if isinstance(content, str):
        return encodable(content)
    if message.role == "user" and has_media(message):
        return encoded_parts(message, _text_part, partial(_media_part, host=host, model=model))
    pieces = [words_for(p) if isinstance(p, MediaContent) else p.text for p in content]
    return [_text_part(encodable(piece)) for piece in pieces if piece] or ""


def _text_part(text: str) -> Encoded:
    return {"type": "text", "text": text}


# "Content blocks are expected to be either text or image_url type", say OpenAI's other models.
_DEAF = re.compile(r"(?:^|/)(?:gpt-|chatgpt|o[1-9]|grok)(?!.*(?:audio|realtime))")
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def _media_part(part: MediaContent, host: Host, model: str) -> Encoded | None:
    if host.text_alone:
        warn_of_text_alone(host.provider)
        return None
    sound = _SOUNDS.get(media_type(part))
    if sound is not None and part.data is not None and not _DEAF.search(model):
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": sound}}
    if is_stored(part):
        return _stored_part(part, host)
    # "Chat Completions accepts only PDF files": https://platform.openai.com/docs/guides/file-inputs
    if isinstance(part, ImageContent):
        detail = {"detail": part.detail} if part.detail else {}
        image = {"type": "image_url", "image_url": {"url": data_url(part), **detail}}
        return image if is_link_or(part, host.image_types) else None
    if not host.pdf_files or part.data is None or not is_link_or(part, {"application/pdf"}):
        return None
    return {"type": "file", "file": {"filename": part.name or "file", "file_data": data_url(part)}}


def _stored_part(part: MediaContent, host: Host) -> Encoded | None:
    """Return a file of OpenAI's by its id; chat completions take no image so."""
    provider = host.provider.removeprefix("azure-")
    file_id = stored_file(part, provider)
    if file_id is not None and isinstance(part, ImageContent):
        warn_of_stored(provider, "an image of chat completions")
        return None
    if file_id is None:
        return None
    return {"type": "file", "file": {"file_id": file_id}}


def _typed(kind: str, members: Encoded) -> Encoded:
    return {"type": kind, kind: members}


def _tool(model: Model, spec: ToolSpec) -> Encoded:
    if spec.provider is not None:
        return definition(spec, model, FORMAT)
    return _typed("function", openai_tool(spec, model.adapter.host))


# The reply.


_WORDS: dict[str, FinishReason] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "model_length": "length",  # Mistral
    "content_filter": "content_filter",
    "error": "error",  # Mistral, OpenRouter
    "insufficient_system_resource": "error",  # DeepSeek
    # Servers and gateways that pass their own words on: text-generation-inference and Together
    # (eos, stop_sequence), vLLM and SGLang (abort), Claude behind a gateway (end_turn, tool_use),
    # Z.ai (sensitive, network_error; https://docs.z.ai/api-reference/llm/chat-completion).
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "complete": "stop",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "abort": "error",
    "network_error": "error",
    "sensitive": "content_filter",
    "safety": "content_filter",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_window",
}
_BESIDE = ("native_finish_reason", "content_filter_results", "stop_reason")


def _finish(model: Model, messages: Sequence[Message], choices: list[dict[str, Any]]) -> Finish:
    """Return why the first choice that is cut off ended, else the first stated reason.

    A refusal counts as such whatever its reason.
    """
    return min(map(partial(_end, model, messages), choices), key=_weight)


def _weight(end: Finish) -> int:
    if end.is_cut:
        return 0
    return 1 if end.reason == "other" else 2 if end.word else 3


def _end(model: Model, messages: Sequence[Message], choice: dict[str, Any]) -> Finish:
    word = text_or_empty(choice.get("finish_reason"))
    refusal = text_or_empty((as_object(choice.get("message")) or {}).get("refusal"))
    beside = {name: choice.get(name) for name in _BESIDE} | {"refusal": refusal}
    finish = finished(model, messages, _WORDS, word, beside)
    return replace(finish, reason="refusal") if refusal and finish.reason == "stop" else finish


def _read_choice(model: Model, choice: dict[str, Any], tags: ThinkTags | None) -> list[Message]:
    message = as_object(choice.get("message")) or {}
    calls = [_read_call(model, call) for call in _calls_in(message)]
    result: list[Message] = []
    reasoning = read_reasoning(model, message)
    if reasoning is not None:
        result.append(reasoning)
    chunks = objects(message.get("content"))
    if any(chunk.get("type", "text") != "text" for chunk in chunks):
        result += [_read_chunk(model, chunk) for chunk in chunks]
    else:
        text = _text_of(message)
        thought, text = split_thinking(text, tags) if tags is not None else ("", text)
        if thought:
            result.append(reasoning_in_text(model, thought))
        if text.strip() or (text and calls):
            result.append(TextMessage("assistant", text))
    result += _media_in(model, message)
    if calls:
        result.append(ToolCallMessage(calls))
    return citing(result, objects(message.get("annotations")))


def _calls_in(message: dict[str, Any]) -> list[Any]:
    """Return the tool calls of a message, or its single call in the older form of functions."""
    old = as_object(message.get("function_call"))
    return as_list(message.get("tool_calls")) or ([{"function": old}] if old else [])


def _media_in(model: Model, message: dict[str, Any]) -> list[OpaqueMessage]:
    """Return the audio of a message, and its pictures (OpenRouter), which are not sent back.

    The transcript of an audio is a text of its own; a picture is named at its place.
    """
    audio = as_object(message.get("audio"))
    found = [opaque(model, AUDIO, {"type": "audio", "audio": audio})] if audio else []
    return found + [opaque(model, PICTURE, one) for one in objects(message.get("images"))]


def _text_of(message: dict[str, Any]) -> str:
    """Return the text of an assistant's message; a refusal and the words of an audio are text.

    Some hosts give an answer in JSON as an object (Cloudflare's Workers AI).
    """
    content = message.get("content")
    said = dumps(tamed(content)) if as_object(content) else text_in(content)
    audio = as_object(message.get("audio")) or {}
    return said or text_or_empty(message.get("refusal")) or text_or_empty(audio.get("transcript"))


def _read_chunk(model: Model, chunk: Block) -> Message:
    """Return an item of a content list as a message."""
    metadata = kept(model, FORMAT, chunk)
    match chunk.get("type"):
        case "text":
            return TextMessage("assistant", _text_of_chunk(chunk), provider_metadata=metadata)
        case "thinking":
            return ReasoningMessage(_text_of_chunk(chunk), provider_metadata=metadata)
        case _:
            return opaque(model, FORMAT, chunk)


def _activity(chunk: Block) -> Activity | None:
    """Return an activity without a hosted tool for an unknown chunk; None for known types.

    A chunk's data is named after its type: `image_url`, or `reference_ids` of a `reference`.
    """
    kind = text_or_empty(chunk.get("type"))
    if kind in ("", "text", "thinking"):
        return None
    return Activity() if any(name.startswith(kind) for name in chunk if name != "type") else None


def _text_of_chunk(chunk: Block) -> str:
    """Return the text of a chunk: its own, or that of the list in a thought (Mistral)."""
    return text_in(chunk.get("thinking")) or text_in(chunk.get("text"))


def _read_call(model: Model, call: object) -> ToolCall:
    found = as_object(call) or {}
    custom = as_object(found.get("custom"))
    if custom is not None and text_or_empty(custom.get("name")):
        said = {"input": text_or_empty(custom.get("input"))}
        call_id, metadata = text_or_empty(found.get("id")), kept(model, FORMAT, found)
        return ToolCall(call_id, custom["name"], said, provider_metadata=metadata)
    function = as_object(found.get("function")) or {}
    name = text_or_empty(function.get("name"))
    if not name:
        return nameless_call(text_or_empty(found.get("id")), found)
    given = function.get("arguments")
    read = parse_call(text_or_empty(found.get("id")), name, given)
    written = dumps(read.arguments)
    ours = {"name": name, "arguments": written}
    is_ours = given == written  # nearly always, and then nothing need be read again
    is_plain = found.keys() == _CALL and found["id"] == read.id
    if is_ours and is_plain and function.keys() == ours.keys():
        return read
    said = {**function, "arguments": written if is_ours else written_arguments(read, given)}
    whole = {**found, "type": "function", "function": said}
    whole.pop("index", None)
    metadata = kept(model, FORMAT, whole, {"id": read.id, "type": "function", "function": ours})
    return replace(read, provider_metadata=metadata)


_CALL = {"id", "type", "function"}


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
    written = count(usage, "prompt_tokens_details", "cache_write_tokens")
    return Usage(asked, answered, cached, reasoning, written)


# The reply as a stream.

_NOT_KEPT = frozenset({"choices", "usage", "object", "obfuscation", "error"})
_NO_INDEX = 1 << 30


@dataclass(slots=True)
class _WrittenCall:
    """One tool call as it is written."""

    index: int
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])
    is_custom: bool = False
    """Its input is a text of OpenAI's custom tools."""

    shown: int = 0
    """The number of pieces that were given as deltas: none before the name is known."""

    def whole(self) -> dict[str, Any]:
        if self.is_custom:
            custom = {"name": self.name, "input": joined_text(self.pieces)}
            return {"id": self.id, "type": "custom", "custom": custom}
        function = {"name": self.name, "arguments": joined_text(self.pieces)}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(slots=True)
class _WrittenThought:
    """One thinking chunk of Mistral as it is written."""

    chunk: dict[str, Any] = field(default_factory=dict[str, Any])
    pieces: list[str] = field(default_factory=list[str])

    def whole(self) -> dict[str, Any]:
        text = joined_text(self.pieces)
        return {**self.chunk, "thinking": [{"type": "text", "text": text}]}


@dataclass(slots=True)
class _Choice:
    """One choice as it is written."""

    number: int
    role: str = "assistant"
    texts: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    details: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    annotations: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    splitter: ThinkTagSplitter | None = None
    chunks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Items of content lists that are not texts, which Mistral sends, too."""

    images: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    audio: dict[str, Any] = field(default_factory=dict[str, Any])
    thoughts: list[_WrittenThought] = field(default_factory=list[_WrittenThought])
    calls: list[_WrittenCall] = field(default_factory=list[_WrittenCall])
    logprobs: dict[str, list[Any]] | None = None
    rest: dict[str, Any] = field(default_factory=dict[str, Any])

    def call_for(self, found: dict[str, Any]) -> _WrittenCall:
        """Return the call that a piece belongs to, by its index.

        Some servers omit the index, some give all calls of a reply the same index; a new id then
        marks a new call.
        """
        call_id = text_or_empty(found.get("id"))
        index = found.get("index")
        same = [call for call in self.calls if index is None or call.index == index]
        if index is None and call_id:
            same = [call for call in same if call.id == call_id]
        last = same[-1] if same else None
        if last is None or (call_id and last.id and call_id != last.id):
            last = _WrittenCall(index if isinstance(index, int) else _NO_INDEX)
            self.calls.append(last)
        last.id = last.id or call_id
        return last

    def whole(self) -> dict[str, Any]:
        content = {name: joined_text(pieces) for name, pieces in self.texts.items()}
        message: dict[str, Any] = {"role": self.role, "content": None, "refusal": None, **content}
        if self.details:
            message[DETAILS] = self.details
        if self.annotations:
            message["annotations"] = self.annotations
        if self.audio:
            message["audio"] = self.audio
        if self.images:
            message["images"] = self.images
        if self.thoughts or self.chunks:
            text = content.get("content")
            said = [{"type": "text", "text": text}] if text else []
            message["content"] = [*(t.whole() for t in self.thoughts), *said, *self.chunks]
        calls = sorted(self.calls, key=lambda call: call.index)
        if calls:
            message["tool_calls"] = [call.whole() for call in calls]
        filled = {"index": self.number, "finish_reason": None, **self.rest}
        # Some servers send the whole message, too, or null in its place: the pieces count.
        lists = (calls, self.details, self.thoughts, self.chunks, self.audio, self.images)
        said = any(lists) or any(content.values())
        message = message if said else as_object(self.rest.get("message")) or message
        return {**filled, "message": message, "logprobs": self.logprobs}


def _says_more(delta: Mapping[str, Any]) -> bool:
    """Return whether a piece adds to a reply, so that a finish reason before it did not end it.

    Together sends a finish reason after each of several calls. Without ``[DONE]``, a connection
    that breaks right after such a reason looks like the reply's end.
    """
    return bool(delta.get("content") or delta.get("tool_calls"))


class ChatAssembler(BaseAssembler):
    """Assembles the chunks of a chat completion."""

    def __init__(self, model: Model, think_tags: ThinkTags | None = None) -> None:
        super().__init__(model)
        self._think_tags = think_tags
        self._head: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}
        self._usage: dict[str, Any] | None = None

    @property
    def whole(self) -> bool:
        """Return whether the reply is complete: the end marker, or an end of each choice."""
        if self._ended:
            return True
        choices = self._choices.values()
        finished = all(choice.rest.get("finish_reason") for choice in choices)
        return bool(choices) and finished

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
        choice = self._choices.get(number) or self._begin(number)
        for name, value in found.items():
            if name not in ("index", "delta", "logprobs") and (value or name not in choice.rest):
                choice.rest[name] = value
        for name, values in (as_object(found.get("logprobs")) or {}).items():
            choice.logprobs = choice.logprobs or {}
            choice.logprobs.setdefault(name, []).extend(as_list(values) or [])
        delta = as_object(found.get("delta")) or {}
        if not found.get("finish_reason") and _says_more(delta):
            choice.rest.pop("finish_reason", None)  # it was the end of a call
        choice.role = text_or_empty(delta.get("role")) or choice.role
        deltas = self._texts(choice, delta)
        choice.images += objects(delta.get("images"))
        if audio := as_object(delta.get("audio")):
            deltas += self._audio(choice, audio)
        for call in objects(_calls_in(delta)):
            deltas += self._call(choice, call)
        if choice.splitter is not None and found.get("finish_reason"):
            deltas += self._split(choice, choice.splitter.end())
        return deltas

    def _begin(self, number: int) -> _Choice:
        tags = self._think_tags
        splitter = None if tags is None else ThinkTagSplitter(tags)
        choice = self._choices[number] = _Choice(number, splitter=splitter)
        return choice

    def _split(self, choice: _Choice, pieces: Iterable[Piece]) -> list[Delta]:
        deltas: list[Delta] = []
        for piece in pieces:
            if piece.kind == "reasoning":
                deltas += self._deltas.reasoning((choice.number, "thinking in text"), piece.text)
            else:
                deltas += self._deltas.text((choice.number, "content"), piece.text)
        return deltas

    def _texts(self, choice: _Choice, delta: dict[str, Any]) -> list[Delta]:
        deltas: list[Delta] = []
        join_details(choice.details, delta.get(DETAILS))
        choice.annotations += objects(delta.get("annotations"))
        for chunk in objects(delta.get("content")):
            if chunk.get("type") == "thinking":
                deltas += self._thought(choice, chunk)
            elif chunk.get("type") != "text":
                choice.chunks.append(chunk)
        for name in (*TEXT_FIELDS, "content", "refusal"):
            if delta.get(name) is None:
                continue
            piece = text_in(delta[name])
            choice.texts.setdefault(name, []).append(piece)
            key = (choice.number, name)
            if name in TEXT_FIELDS:
                # Some hosts send the same under both names.
                if next(one for one in choice.texts if one in TEXT_FIELDS) == name:
                    deltas += self._deltas.reasoning(key, piece)
            elif name == "content" and choice.splitter is not None:
                deltas += self._split(choice, choice.splitter.feed(piece))
            elif name == "content" or not self._deltas.begun((choice.number, "content")):
                deltas += self._deltas.text(key, piece)
        return deltas

    def _thought(self, choice: _Choice, chunk: dict[str, Any]) -> list[Delta]:
        """Add a piece of Mistral's thinking: a list of texts.

        The last piece closes it, and in some streams each piece does; text of the answer ends it.
        """
        last = choice.thoughts[-1] if choice.thoughts else None
        if last is None:
            last = _WrittenThought()
            choice.thoughts.append(last)
        piece = _text_of_chunk(chunk)
        last.chunk |= chunk
        last.pieces.append(piece)
        return self._deltas.reasoning((choice.number, "thought", len(choice.thoughts)), piece)

    def _audio(self, choice: _Choice, found: dict[str, Any]) -> list[Delta]:
        """Add a piece of an audio: its words are the text, its bytes come in whole pieces."""
        for name, value in found.items():
            grows = name in ("data", "transcript") and isinstance(value, str)
            choice.audio[name] = choice.audio.get(name, "") + value if grows else value
        words = text_or_empty(found.get("transcript"))
        return self._deltas.text((choice.number, "transcript"), words)

    def _call(self, choice: _Choice, found: dict[str, Any]) -> list[Delta]:
        call = choice.call_for(found)
        if custom := as_object(found.get("custom")):
            call.is_custom, call.name = True, call.name or text_or_empty(custom.get("name"))
            call.pieces.append(text_or_empty(custom.get("input")))
            return []
        function = as_object(found.get("function")) or {}
        # The first name counts: some servers repeat it in each piece.
        call.name = call.name or text_or_empty(function.get("name"))
        arguments = function.get("arguments")
        # Ollama and several proxies send an object instead of a text.
        whole = as_object(arguments) is not None
        call.pieces.append(dumps(arguments) if whole else text_or_empty(arguments))
        if not call.name:
            return []
        piece = "".join(call.pieces[call.shown :])
        call.shown = len(call.pieces)
        key = (choice.number, "call", choice.calls.index(call))
        return self._deltas.call(key, call.id, call.name, piece)
