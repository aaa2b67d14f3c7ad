"""Google's Gemini API: generateContent.

Source: https://ai.google.dev/api/generate-content and
https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import Unpack

from agentkit_py._core.json import JsonObject, as_list, as_object, copied, dumps
from agentkit_py.errors import ConfigurationError, ModelResponseError
from agentkit_py.messages import (
    EMPTY,
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
from agentkit_py.models.base import (
    Adapter,
    Model,
    ModelOptions,
    ModelReply,
    ModelRequest,
    ToolSpec,
    make_model,
    refuse_options,
)
from agentkit_py.models.binding import (
    Binding,
    Reason,
    account_of,
    binding_of,
    bound,
    has_reasoning,
    opaque_data,
)
from agentkit_py.models.blocks import (
    Activity,
    adjoined,
    checked_reply,
    citing,
    empty_reply,
    finished,
    host_of,
    kept,
    opaque,
    opaque_block,
    origin_of_block,
    own_block,
    says,
    sendable,
    turn_mark,
    with_origin,
    with_turn_mark,
    without_nulls,
)
from agentkit_py.models.capabilities import GEMINI
from agentkit_py.models.encoding import (
    CLOSING_TURN,
    PREFILL,
    ToolExchange,
    encodable,
    encoded_parts,
    ends_with_assistant,
    has_media,
    hosted_tools,
    is_stored,
    may_be_sent,
    media_type,
    named_choice,
    split_prefill,
    stored_file,
    texts,
    warn_of_words,
    with_settings,
)
from agentkit_py.models.http_errors import excerpt_of, unexpected
from agentkit_py.models.provider_tools import definition
from agentkit_py.models.replies import (
    BaseAssembler,
    checked_body,
    count,
    joined_text,
    objects,
    parse_call,
    text_or_empty,
)
from agentkit_py.models.schema import gemini_form
from agentkit_py.models.writer import (
    Said,
    TurnWriter,
    written,
)

if TYPE_CHECKING:
    from agentkit_py.models.settings import GeminiSettings

PLACEHOLDER_SIGNATURE = "skip_thought_signature_validator"
"""Google's word for "this call was made by another model": Gemini 3 refuses unsigned calls."""

_IN_URL = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")
_MALFORMED = "MALFORMED_FUNCTION_CALL"
_UNEXPECTED_CALL = "UNEXPECTED_TOOL_CALL"
_NO_FAULT = frozenset({"", "STOP", "MAX_TOKENS", "CONTINUATION", "FINISH_REASON_UNSPECIFIED"})

FORMAT = "gemini"
"""The name of this format: of its opaque messages, and the key of its data in messages."""

Part = dict[str, Any]


def gemini(
    model: str,
    *,
    base_url: str | None = None,
    settings: GeminiSettings | None = None,
    **options: Unpack[ModelOptions],
) -> Model:
    """Return a Gemini model at Google.

    Args:
        model: The model's name, e.g. ``"gemini-2.5-flash"``.
        base_url: Root of the API.
        settings: Members of the body under Google's names, checked here:
            ``{"generationConfig": {"temperature": 0}}``.
        options: See `ModelOptions`; the key's environment variable is ``GEMINI_API_KEY``, and
            ``default_parameters`` are further members of the body, e.g. ``generationConfig``.

    Raises:
        ConfigurationError: A value cannot work.
    """
    refuse_options(model)
    if not isinstance(model, str) or _IN_URL.fullmatch(model) is None:
        raise ConfigurationError(f"model={model!r}: pass a name that is valid in a URL.")
    options = with_settings("gemini", settings, options)
    return make_model(GeminiAdapter(GEMINI), model, base_url=base_url, **options)


@dataclass(frozen=True, slots=True)
class GeminiAdapter(Adapter):
    """Gemini's API, whose methods are ``generateContent`` and ``streamGenerateContent``."""

    def url(self, model: Model) -> str:
        """Return the request's URL."""
        return f"{_root(model)}:generateContent"

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        """Return the body.

        The model's default parameters fill in values that are not set here, as in TypeScript: they
        cannot replace the conversation or the tools.
        """
        turns = self._turns(model, request)
        body: dict[str, Any] = {}
        if turns.system:
            body["systemInstruction"] = {"parts": [{"text": "\n\n".join(turns.system)}]}
        body["contents"] = turns.found
        if request.tools:
            declared = [
                definition(spec, model, FORMAT) if spec.provider is not None else _tool(spec)
                for spec in request.tools
            ]
            body["tools"] = [{"functionDeclarations": declared}]
            choice: dict[str, Any] = {"functionCallingConfig": _choice(request)}
            body["toolConfig"] = choice
        if hosted := hosted_tools(model, request, FORMAT):
            if request.tools:  # "toolCall"/"toolResponse" parts come back, and go back in place
                body["toolConfig"]["includeServerSideToolInvocations"] = True
            body["tools"] = [*body.get("tools", []), *hosted]
        if token := _split_paused(split_prefill(request)[0], request.agent, host_of(model))[1]:
            body["continuationToken"] = token
        for name, value in model.default_parameters.items():
            body.setdefault(name, value)
        return self.with_output(model, request, body)

    def output_format(self, model: Model, spec: ToolSpec) -> dict[str, Any] | None:
        """Return the part of ``generationConfig``; None for an object without properties."""
        schema = gemini_form(spec)
        if schema is None:
            return None
        form = {"responseMimeType": "application/json", "responseSchema": schema}
        return {"generationConfig": form}

    def bind(
        self, model: Model, request: ModelRequest, messages: Sequence[Message]
    ) -> tuple[Message, ...]:
        """Return a reply's messages, their signed content bound to host, account and model."""
        host = host_of(model)
        made = Binding(account=account_of(model, request), model=model.model)

        def signed(metadata: JsonObject | None) -> JsonObject | None:
            return bound(metadata, host, made) if _signature(_own(metadata, host)) else metadata

        mark = self._turns(model, request).closed if ends_with_assistant(request) else ""
        found: list[Message] = []
        for message in messages:
            kept = replace(message, provider_metadata=signed(message.provider_metadata))
            if isinstance(kept, ToolCallMessage):
                calls = [
                    replace(c, provider_metadata=signed(c.provider_metadata)) for c in kept.tools
                ]
                kept = replace(kept, tools=calls)
            found.append(kept)
        return with_turn_mark(found, mark, host) if mark else tuple(found)

    def left_out(self, model: Model, request: ModelRequest) -> Sequence[tuple[Message, Reason]]:
        """Return signed messages sent without signature, with reasons, and others' reasoning."""
        if not has_reasoning(request) and not any(opaque_data(request.messages)):
            return ()
        unsigned = self._turns(model, request).unsigned

        def reasons(message: Message) -> list[Reason]:
            calls = message.tools if isinstance(message, ToolCallMessage) else ()
            return [unsigned[id(one)] for one in (message, *calls) if id(one) in unsigned]

        return [(message, why) for message in request.messages for why in reasons(message)]

    def _turns(self, model: Model, request: ModelRequest) -> _Turns:
        """Return a request's turns."""
        conversation, prefill = split_prefill(request)
        conversation, _ = _split_paused(conversation, request.agent, host_of(model))
        conversation = sendable(conversation, FORMAT, host_of(model), _activity)
        facts = [model, self.host, account_of(model, request), request.refused]
        turns = written(request, conversation, (), facts, partial(_Turns, model, request))
        turns.end(request.agent)
        if prefill:
            # Gemini takes a closing model turn for the end of the conversation, not a beginning.
            turns.system.append(PREFILL.format(text=prefill))
        return turns

    def decode(self, model: Model, body: object) -> ModelReply:
        """Return the reply's messages: a message per part, in their order.

        Parts of which our own form would lose something are kept in `provider_metadata`, and those
        without a type of ours as `OpaqueMessage`s.
        """
        found = checked_body(model, body)
        candidates = [as_object(item) or {} for item in as_list(found.get("candidates")) or []]
        if not candidates:
            raise _no_candidates(model, found)
        messages = _read_parts(model, found, candidates)
        cut = (one for one in candidates if _word(one) not in ("", "STOP"))
        first = next(cut, candidates[0])
        word = _word(first)
        said = text_or_empty(first.get("finishMessage"))
        if word in (_MALFORMED, _UNEXPECTED_CALL):
            messages.append(_malformed_call(said or word, text_or_empty(found.get("responseId"))))
        beside = {"finishMessage": said}
        if word not in _NO_FAULT:
            beside |= {"safetyRatings": first.get("safetyRatings")}
            beside |= {"promptFeedback": found.get("promptFeedback")}
        finish = finished(model, messages, _WORDS, word, beside)
        usage = _usage(as_object(found.get("usageMetadata")))
        messages = adjoined(model, messages)
        if finish.reason == "stop" and not any(map(says, messages)):
            # Now and then, mostly after a tool's result; the engine asks for the rest.
            # Source: github.com/google-gemini/gemini-cli, issues 13592 and 28351.
            finish = replace(finish, reason="pause", details={EMPTY: True})
        elif finish.reason == "pause":
            token = text_or_empty(first.get("continuationToken"))
            finish = finish if token else replace(finish, reason="length")
            messages = _paused(model, messages, token) if token else messages
        return checked_reply(model, messages, finish, usage)

    def stream_url(self, model: Model) -> str:
        """Return the URL of a request for a stream; without ``alt=sse`` it gives a JSON list."""
        return f"{_root(model)}:streamGenerateContent?alt=sse"

    def stream_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body itself: Gemini is asked for a stream by URL."""
        return body

    def assembler(self, model: Model) -> GeminiAssembler:
        """Return the assembler of a reply."""
        return GeminiAssembler(model)


def _root(model: Model) -> str:
    path = model.model if "/" in model.model else f"models/{model.model}"
    return f"{model.base_url}/{path}"


# The request's body.


class _Turns(TurnWriter):
    """The contents as they grow."""

    _assistant = "model"
    _parts = "parts"

    def __init__(self, model: Model, request: ModelRequest) -> None:
        super().__init__(model, request)
        self.unsigned: dict[int, Reason] = {}
        """Why signatures are not sent, by the `id()` of their messages and calls."""

        self._signed_calls = model.takes.signed_calls

    def _text(self, text: str) -> Part:
        return {"text": text}

    def end(self, reader: str, *, continues: bool = False) -> None:
        """Write the required end of a request."""
        if self._ends_with_assistant and all(p.get("thought") for p in self.found[-1]["parts"]):
            self.found.pop()  # nothing but thoughts: the last word is the user's
        super().end(reader, continues=continues)

    def _own(self, of: Message | ToolCall) -> Part:
        """Return the part that something was read from, signed if the signature still counts."""
        metadata = of.provider_metadata
        part = _own(metadata, self._host)
        if not _signature(part):
            return part
        why = self._standing.reason(of, metadata)
        made_by = binding_of(metadata).model
        if why is None and made_by and _family(made_by) != _family(self._model):
            why = "model"
        if why is None:
            return part
        self.unsigned[id(of)] = why
        return {name: value for name, value in part.items() if name != "thoughtSignature"}

    def _say(self, message: Said) -> None:
        if nothing := origin_of_block(message.provider_metadata).get(EMPTY):
            # A model's turn of thoughts alone is dropped, so a user's turn replaces it.
            self._add("user", [self._text(CLOSING_TURN)] if nothing == "end" else [])
            return
        if message.role == "assistant":
            self._open(turn_mark(message.provider_metadata))
        if isinstance(message, ReasoningMessage):
            self._add("model", _thought(message, self._own(message)))
        elif isinstance(message, OpaqueMessage):
            self._add("model", [_signed(opaque_block(message))])
        elif message.role == "system":
            self.system += texts(message)
        else:
            role = "user" if message.role == "user" else "model"
            if parts := _text_parts(message, self._own(message)):
                self._add(role, parts)
                self._author = message.agent

    def _add(self, role: str, parts: list[Part]) -> None:
        if parts:
            super()._add(role, parts)

    def _add_reply(self, entry: list[Said | ToolExchange]) -> None:
        """Add the reply, and a response for each call in their order, in TypeScript's envelope."""
        results: list[Part] = []
        for one in entry:
            if not isinstance(one, ToolExchange):
                self._say(one)
                continue
            self._open(turn_mark(one.call.provider_metadata))
            part = self._call(one)
            if self._signed_calls and not results and "thoughtSignature" not in part:
                # Of parallel calls only the first is signed.
                part["thoughtSignature"] = PLACEHOLDER_SIGNATURE
            self._add("model", [part])
            self._waits = True
            # "Each functionResponse must repeat the id": where the call's id is sent back.
            named = {k: v for k, v in part["functionCall"].items() if k == "id"} | {
                "name": _function_name(one)
            }
            shown = self._shown(one)
            words = one.words_beside if shown else one.output
            response = {"name": _function_name(one), "content": words}
            results.append({"functionResponse": {**named, "response": response, **shown}})
        self._add("user", results)
        self._waits = False

    def _shown(self, one: ToolExchange) -> Part:
        """Return the images and files of a result, which Gemini 3 takes along with its text."""
        if not one.parts:
            return {}
        if not self._signed_calls:
            warn_of_words("Gemini 2")
            return {}
        media = [p for p in one.parts if isinstance(p, MediaContent)]
        parts = [_media_part(p) for p in media if may_be_sent(p)]
        return {"parts": parts} if len(parts) == len(media) and all(parts) else {}

    def _call(self, one: ToolExchange) -> Part:
        part = self._own(one.call)
        call = as_object(part.get("functionCall"))
        is_whole = (
            call is not None
            and as_object(call.get("args", {})) is not None
            and isinstance(call.get("id", ""), str)
        )
        if call is not None and is_whole and one.is_call(call.get("name"), call.get("args")):
            return part
        # A signature alone is how older threads keep it.
        old = {} if call is not None else _signature(part)
        return {"functionCall": {"name": _function_name(one), "args": one.input}, **old}


_FAMILY = re.compile(r"gemini-[\d.]+(?:-[a-z]+)?")


def _family(model: str) -> str:
    """Return the models that read each other's signatures, e.g. ``"gemini-3-pro"``."""
    found = _FAMILY.search(model.lower())
    return model if found is None else found[0]


def _own(metadata: JsonObject | None, host: str) -> Part:
    return _signed(own_block(metadata, FORMAT, host) or {})


_SIGNATURE = re.compile(
    r"(?:[A-Za-z0-9+/_-]{4})+(?:[A-Za-z0-9+/_-]{2,3}={0,2})?|[A-Za-z0-9+/_-]{2,3}={0,2}"
)


def _signed(part: Part) -> Part:
    """Return a part without a signature that is none: "Base64 decoding failed"."""
    if "thoughtSignature" not in part or _SIGNATURE.fullmatch(
        text_or_empty(part["thoughtSignature"])
    ):
        return part
    return {name: value for name, value in part.items() if name != "thoughtSignature"}


def _function_name(one: ToolExchange) -> str:
    """Return the tool's name, which begins with a letter or an underscore at Gemini."""
    begins = one.name[0].isalpha() or one.name[0] == "_"
    return one.name if begins else f"_{one.name}"[:64]


def _text_parts(message: TextMessage, part: Part) -> list[Part]:
    if message.role == "user" and has_media(message):
        return encoded_parts(message, lambda text: {"text": text}, _media_part)
    if part.get("text") == message.content:
        return [part]
    if not message.content and part.keys() == {"thoughtSignature"}:
        return [dict(copied(part))]
    pieces = texts(message)
    if not pieces:
        return []
    return [{"text": "".join(pieces), **({} if "text" in part else _signature(part))}]


_MEDIA = re.compile(r"(?:image/(?!svg)|audio/|video/|text/)[\w.+-]+|application/(?:pdf|json)")


def _media_part(part: MediaContent) -> Part | None:
    """Return an inlineData or fileData part; otherwise Gemini says "Unsupported MIME type".

    Source: https://ai.google.dev/api/caching#Part and
    https://ai.google.dev/gemini-api/docs/file-input-methods
    """
    if part.data is not None:
        kind = media_type(part)
        fits = _MEDIA.fullmatch(kind)
        return {"inlineData": {"mimeType": kind, "data": part.data}} if fits else None
    # A link needs a type; the usual type unless given.
    usual = "image/jpeg" if isinstance(part, ImageContent) else "application/pdf"
    address = part.url
    if is_stored(part):
        file_id = stored_file(part, "gemini")
        if file_id is None:
            return None
        address = f"{GEMINI.base_url}/files/{file_id.removeprefix('files/')}"
    return {"fileData": {"mimeType": part.media_type or usual, "fileUri": address}}


def _thought(message: ReasoningMessage, part: Part) -> list[Part]:
    """Return a thought of Gemini's own that is signed; unsigned ones carry nothing over."""
    signature = _signature(part)
    if not signature or part.get("text", message.content) != message.content:
        return []
    if not message.content.strip():
        # A signature without words goes back as it came, with or without a text.
        return [dict(copied(part))] if part.keys() <= _OF_THOUGHTS | {"text"} else []
    return [{"text": encodable(message.content), "thought": True, **signature}]


def _signature(part: Part) -> Part:
    signature = text_or_empty(part.get("thoughtSignature"))
    return {"thoughtSignature": signature} if signature else {}


def _choice(request: ModelRequest) -> dict[str, Any]:
    match request.tool_choice:
        case "auto" | "any":
            return {"mode": request.tool_choice.upper()}
        case _:
            return {"mode": "ANY", "allowedFunctionNames": [named_choice(request)]}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    declaration: dict[str, Any] = {"name": spec.name}
    if spec.description:
        declaration["description"] = spec.description
    parameters = gemini_form(spec)
    if parameters is not None:
        declaration["parameters"] = parameters
    return declaration


# The reply.


_FILTERS = (
    *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
)
_ERRORS = (
    *(_MALFORMED, _UNEXPECTED_CALL, "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE"),
    *("MALFORMED_RESPONSE", "OTHER", "NO_IMAGE", "IMAGE_OTHER"),
)
_WORDS: dict[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "pause",  # the limit of a request; the token continues the answer
    **dict.fromkeys(_FILTERS, "content_filter"),
    **dict.fromkeys(_ERRORS, "error"),
}
_CALLED = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)\s*\(")


def _malformed_call(said: str, response_id: str) -> ToolCallMessage:
    """Return a call of which Gemini only says that it is none, so that the model can mend it."""
    names = [name for name in _CALLED.findall(said) if name not in ("print", "default_api")]
    name = names[0] if names else _MALFORMED.lower()
    call_id = f"{response_id}_malformed" if response_id else f"{name}_malformed"
    return ToolCallMessage([ToolCall(call_id, name, {}, malformed=said)])


_CONTINUATION = "continuation"
"""The key in the origin of a paused reply's messages: the token that continues the reply."""


def _paused(model: Model, messages: Sequence[Message], token: str) -> list[Message]:
    """Return the messages of a paused reply, each with the token that continues it.

    Source: ``continuationToken`` of Google's Gen AI SDK 3.6 (request and candidate).
    """
    held = messages or [ReasoningMessage("")]  # thoughts that are not shown take the limit, too
    marked: list[Message] = []
    for message in held:
        own = with_origin(message.provider_metadata, host_of(model), **{_CONTINUATION: token})
        marked.append(replace(message, provider_metadata=own))
    return marked


def _split_paused(
    messages: Sequence[Message], reader: str, host: str
) -> tuple[Sequence[Message], str]:
    """Return a conversation without the paused reply of the reader at its end, and its token.

    The request that continues a reply is the request that began it, with the token: Google keeps
    the part that was written.
    """
    end, last_token = len(messages), ""
    for message in reversed(messages):
        origin = origin_of_block(message.provider_metadata)
        token = text_or_empty(origin.get(_CONTINUATION))
        if not token or origin.get("host") != host or message.agent not in (None, reader):
            break
        last_token = last_token or token
        end -= 1
    return messages[:end], last_token


def _word(candidate: dict[str, Any]) -> str:
    return text_or_empty(candidate.get("finishReason"))


def _no_candidates(model: Model, body: dict[str, Any]) -> ModelResponseError:
    feedback = as_object(body.get("promptFeedback")) or {}
    blocked = text_or_empty(feedback.get("blockReason"))
    if blocked:
        finish = Finish("content_filter", f"the prompt was blocked: {blocked}", feedback)
        usage = _usage(as_object(body.get("usageMetadata")))
        return empty_reply(model, finish, usage)
    return unexpected(model, body, "the answer has no candidates")


def _read_parts(
    model: Model, body: dict[str, Any], candidates: list[dict[str, Any]]
) -> list[Message]:
    ids = _CallIds(text_or_empty(body.get("responseId")))
    result: list[Message] = []
    for candidate in candidates:
        content = as_object(candidate.get("content")) or {}
        read = [_read_part(model, part, ids) for part in objects(content.get("parts"))]
        result += citing([message for message in read if message is not None], _sources(candidate))
    return result


_SOURCES = (("groundingMetadata", "groundingChunks"), ("citationMetadata", "citationSources"))


def _sources(candidate: dict[str, Any]) -> list[JsonObject]:
    """Return an answer's grounding and citations."""
    found: list[JsonObject] = []
    for name, inner in _SOURCES:
        found += objects((as_object(candidate.get(name)) or {}).get(inner))
    return found


def _read_part(model: Model, part: Part, ids: _CallIds) -> Message | None:
    call = as_object(part.get("functionCall"))
    if call is not None:
        name = text_or_empty(call.get("name"))
        if not call:
            return None
        if not name:
            return _malformed_call(
                f"a function call without a name: {excerpt_of(call)}", ids.response_id
            )
        call_id = text_or_empty(call.get("id")) or ids.take(name)
        read = parse_call(call_id, name, call.get("args"))
        ours = {"functionCall": {"name": name, "args": read.arguments}}
        metadata = kept(model, FORMAT, part, ours)
        return ToolCallMessage([replace(read, provider_metadata=metadata)])
    is_thought = part.get("thought") is True
    is_bare = bool(part) and not part.keys() - _OF_THOUGHTS
    text = part.get("text", "" if is_bare else None)
    if not isinstance(text, str):
        # The result of a function is the user's to give, not a model's.
        return None if "functionResponse" in part else _read_opaque(model, part)
    if is_thought:
        metadata = kept(model, FORMAT, part, {"text": text, "thought": True})
        return ReasoningMessage(text, provider_metadata=metadata)
    metadata = kept(model, FORMAT, part, {"text": text} if text.strip() else {"text": ""})
    return TextMessage("assistant", text, provider_metadata=metadata)


_OF_THOUGHTS = frozenset({"thought", "thoughtSignature"})
"""All that a thought has whose words are not shown."""

_HOSTED: dict[str, Literal["call", "result"]] = {
    "executableCode": "call",
    "codeExecutionResult": "result",
    "toolCall": "call",
    "toolResponse": "result",
}


_TYPED = frozenset({"text", "functionCall", "functionResponse"})
_BESIDE_DATA = frozenset(
    {
        "thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution",
        "mediaProcessing", "audioTranscription", "speechMetadata",
    }
)  # fmt: skip


def _data(part: Part) -> tuple[str, Part] | None:
    """Return the single object of a part without a type of ours; None: it is not a part."""
    held = [name for name in part if name not in _BESIDE_DATA]
    found = as_object(part[held[0]]) if len(held) == 1 and held[0] not in _TYPED else None
    return None if found is None else (held[0], found)


def _activity(part: Part) -> Activity | None:
    data = _data(part)
    if data is None:
        return None
    which = _HOSTED.get(data[0])
    return Activity() if which is None else Activity(which, text_or_empty(data[1].get("id")))


def _read_opaque(model: Model, part: Part) -> OpaqueMessage:
    kind, found = _data(without_nulls(part)) or ("", {})
    hosted = text_or_empty(found.get("toolType")).lower() or "code_execution"
    tool = hosted if kind in _HOSTED else ""
    return opaque(model, FORMAT, part, _activity(without_nulls(part)), tool=tool)


def _usage(usage: dict[str, Any] | None) -> Usage | None:
    if usage is None:
        return None
    reasoning = count(usage, "thoughtsTokenCount")
    asked = count(usage, "promptTokenCount") + count(usage, "toolUsePromptTokenCount")
    answered = count(usage, "candidatesTokenCount") + reasoning
    return Usage(asked, answered, count(usage, "cachedContentTokenCount"), reasoning)


class _CallIds:
    """Ids for calls that have none: computed, so that a replay gives the same.

    With the id of the response they are unique in a conversation. Without, the first call of a
    tool is called like the tool, as in TypeScript, and only further ones are numbered.
    """

    def __init__(self, response_id: str) -> None:
        self.response_id = response_id
        self._count = 0
        self._names: dict[str, int] = {}

    def take(self, name: str) -> str:
        """Return the id of the next call, which is of the tool ``name``."""
        self._count += 1
        number = self._names[name] = self._names.get(name, 0) + 1
        if self.response_id:
            return f"{self.response_id}_{self._count}"
        return name if number == 1 else f"{name}_{number}"


# The reply as a stream.


@dataclass(slots=True)
class _WrittenPart:
    """One part as it is written: a text may come in many pieces."""

    first: dict[str, Any]
    pieces: list[str] = field(default_factory=list[str])

    def takes(self, part: dict[str, Any]) -> bool:
        """Return whether ``part`` continues this part: texts do, until a text is signed."""
        return (
            isinstance(self.first.get("text"), str)
            and isinstance(part.get("text"), str)
            and (self.first.get("thought") is True) == (part.get("thought") is True)
            and not self.first.get("thoughtSignature")
            and not (self.pieces and part.get("thoughtSignature"))
        )

    def whole(self) -> dict[str, Any]:
        return {**self.first, "text": joined_text(self.pieces)} if self.pieces else self.first


@dataclass(slots=True)
class _Candidate:
    """One candidate as it is written."""

    rest: dict[str, Any] = field(default_factory=dict[str, Any])
    content: dict[str, Any] | None = None
    parts: list[_WrittenPart] = field(default_factory=list[_WrittenPart])
    goes_on: bool = False
    """Whether parts came after the reason for the end: each run of code may end with a reason."""

    @property
    def is_whole(self) -> bool:
        """Return whether it has ended: it has a reason, and code that was run has its result."""
        runs_code = bool(self.parts) and "executableCode" in self.parts[-1].first
        return bool(self.rest.get("finishReason")) and not self.goes_on and not runs_code

    def add(self, part: dict[str, Any]) -> None:
        """Continue the last part, or begin another."""
        text = part.get("text")
        if self.parts and self.parts[-1].takes(part):
            self.parts[-1].first = {**self.parts[-1].first, **part}
        else:
            self.parts.append(_WrittenPart(part))
        if isinstance(text, str):
            self.parts[-1].pieces.append(text)

    def whole(self) -> dict[str, Any]:
        if self.content is None:
            return self.rest
        parts = {"parts": [part.whole() for part in self.parts]} if self.parts else {}
        return {"content": {**self.content, **parts}, **self.rest}


def _grown(before: object, now: object) -> object:
    """Return a value of a stream: usage and sources grow, and some events leave parts out."""
    old, new = as_object(before), as_object(now)
    return {**old, **new} if old and new else now


class GeminiAssembler(BaseAssembler):
    """Assembles the responses of a stream."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._head: dict[str, Any] = {}
        self._candidates: dict[int, _Candidate] = {}
        self._ids: _CallIds | None = None

    @property
    def whole(self) -> bool:
        """Return whether each candidate has a reason for its end, or the prompt was blocked.

        The format has no end marker; the reason comes with the last parts.
        """
        if not self._candidates:
            feedback = as_object(self._head.get("promptFeedback")) or {}
            return bool(feedback.get("blockReason"))
        return all(candidate.is_whole for candidate in self._candidates.values())

    def finish(self) -> object:
        """Return the response as it is without streaming."""
        found = [candidate.whole() for _, candidate in sorted(self._candidates.items())]
        return {"candidates": found, **self._head} if found else self._head

    def _take(self, found: dict[str, Any]) -> Sequence[Delta]:
        deltas: list[Delta] = []
        for name, value in found.items():
            if name != "candidates":
                self._head[name] = _grown(self._head.get(name), value)
        for candidate in objects(found.get("candidates")):
            deltas += self._candidate(candidate)
        return deltas

    def _candidate(self, found: dict[str, Any]) -> list[Delta]:
        index = found.get("index")
        number = index if isinstance(index, int) else 0
        candidate = self._candidates.setdefault(number, _Candidate())
        ended_before = bool(candidate.rest.get("finishReason"))
        for name, value in found.items():
            if name != "content":
                candidate.rest[name] = _grown(candidate.rest.get(name), value)
        content = as_object(found.get("content"))
        if content is None:
            return []
        said = {name: value for name, value in content.items() if name != "parts"}
        candidate.content = {**(candidate.content or {}), **said}
        deltas: list[Delta] = []
        parts = objects(content.get("parts"))
        candidate.goes_on = ended_before and bool(parts) and not found.get("finishReason")
        for part in parts:
            candidate.add(part)
            deltas += self._part((number, len(candidate.parts)), part)
        return deltas

    def _part(self, key: tuple[int, int], part: dict[str, Any]) -> list[Delta]:
        call = as_object(part.get("functionCall"))
        if call is None:
            text = text_or_empty(part.get("text"))
            thought = part.get("thought") is True
            return self._deltas.reasoning(key, text) if thought else self._deltas.text(key, text)
        name = text_or_empty(call.get("name"))
        if not name:
            return []
        if self._ids is None:
            self._ids = _CallIds(text_or_empty(self._head.get("responseId")))
        call_id = text_or_empty(call.get("id")) or self._ids.take(name)
        arguments = call.get("args")
        # Arguments come whole; none at all are an empty object, as without streaming.
        return self._deltas.call(key, call_id, name, dumps({} if arguments is None else arguments))
