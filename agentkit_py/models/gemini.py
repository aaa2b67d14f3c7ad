"""Google's Gemini API: generateContent.

Source: https://ai.google.dev/api/generate-content and
https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from typing_extensions import Unpack

from agentkit_py._core.json import JsonObject, as_list, as_object, dumps
from agentkit_py.errors import ConfigurationError, ModelResponseError
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
from agentkit_py.models.capabilities import GEMINI, capabilities_of
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
from agentkit_py.models.schema import gemini_form

PLACEHOLDER_SIGNATURE = "skip_thought_signature_validator"
"""Google's word for "this call was made by another model": Gemini 3 refuses calls without one."""

_IN_URL = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")
_MALFORMED = "MALFORMED_FUNCTION_CALL"
_NO_FAULT = frozenset({"", "STOP", "MAX_TOKENS", "FINISH_REASON_UNSPECIFIED"})

Part = dict[str, Any]


def gemini(model: str, *, base_url: str | None = None, **options: Unpack[ModelOptions]) -> Model:
    """Return a Gemini model at Google.

    Args:
        model: The model's name, e.g. ``"gemini-2.5-flash"``.
        base_url: Root of the API.
        options: See `ModelOptions`; the key's environment variable is ``GEMINI_API_KEY``, and
            ``default_parameters`` are further members of the body, e.g. ``generationConfig``.

    Raises:
        ConfigurationError: A value cannot work.
    """
    if not isinstance(model, str) or _IN_URL.fullmatch(model) is None:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"model={model!r}: pass a name that can stand in a URL.")
    return make_model(GeminiAdapter(GEMINI), model, base_url=base_url, **options)


@dataclass(frozen=True, slots=True)
class GeminiAdapter(Adapter):
    """generateContent."""

    def url(self, model: Model) -> str:
        """Return the request's URL."""
        return f"{_root(model)}:generateContent"

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        """Return the body.

        The model's default parameters fill in what is not put here, as in TypeScript: they cannot
        replace the conversation or the tools.
        """
        conversation, prefill = split_prefill(request)
        turns = _Turns(request.agent, signed_calls=capabilities_of(model.model).signed_calls)
        turns.read(entries(conversation))
        if prefill:
            # Gemini takes a closing model turn for the end of the conversation, not a beginning.
            turns.add("user", [{"text": PREFILL_TURN.format(text=prefill)}])
        if not turns.found:
            turns.add("user", [{"text": EMPTY_TURN}])
        body: dict[str, Any] = {}
        if turns.system:
            body["systemInstruction"] = {"parts": [{"text": "\n\n".join(turns.system)}]}
        body["contents"] = turns.found
        if request.tools:
            body["tools"] = [{"functionDeclarations": [_tool(spec) for spec in request.tools]}]
            body["toolConfig"] = {"functionCallingConfig": _choice(request)}
        for name, value in model.default_parameters.items():
            body.setdefault(name, value)
        return body

    def decode(self, model: Model, body: object) -> ModelReply:
        """Return the reply's messages: one per part, tool calls last, unknown parts left out.

        Raises:
            ModelResponseError: The request was blocked, the answer was stopped before it said
                anything, or the model wrote a call that is none.
        """
        found = checked_body(model, body)
        candidates = [as_object(item) or {} for item in as_list(found.get("candidates")) or []]
        if not candidates:
            raise _no_candidates(model, found)
        messages = calls_last(_read_parts(found, candidates))
        reason = text_or_empty(candidates[0].get("finishReason"))
        if reason == _MALFORMED or (not messages and reason not in _NO_FAULT):
            said = text_or_empty(candidates[0].get("finishMessage"))
            raise unexpected(model, body, f"the model stopped with {reason}. {said}".strip())
        usage = _usage(as_object(found.get("usageMetadata")))
        return ModelReply(messages=_stopped(messages), usage=usage, finish_reason=reason or None)

    def stream_url(self, model: Model) -> str:
        """Return the URL of a request for a stream; without ``alt=sse`` it gives a JSON list."""
        return f"{_root(model)}:streamGenerateContent?alt=sse"

    def stream_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body itself: Gemini is asked for a stream by URL."""
        return body

    def assembler(self, model: Model) -> GeminiAssembler:
        """Return the assembler of one reply."""
        return GeminiAssembler(model)


def _root(model: Model) -> str:
    path = model.model if "/" in model.model else f"models/{model.model}"
    return f"{model.base_url}/{path}"


# The request's body.


class _Turns:
    """Turns that alternate: what comes from one side in a row is one turn."""

    def __init__(self, reader: str, *, signed_calls: bool) -> None:
        self.found: list[dict[str, Any]] = []
        self.system: list[str] = []
        """All system messages, wherever they stand: Gemini has one place for them."""

        self._reader = reader
        self._signed_calls = signed_calls

    def read(self, conversation: list[Entry]) -> None:
        closing, closing_words = closing_turn(conversation, self._reader)
        for entry in conversation:
            if isinstance(entry, list):
                self._add_exchanges(entry)
            elif isinstance(entry, ReasoningMessage):
                self.add("model", _thought(entry))
            elif entry is closing:
                self.add("user", [{"text": closing_words}])
            elif entry.role == "system":
                self.system += texts(entry)
            else:
                self.add("user" if entry.role == "user" else "model", _text_parts(entry))
        if self.found and self.found[-1]["role"] == "model":
            self.found.pop()  # nothing but thoughts: the last word is the user's

    def add(self, role: str, parts: list[Part]) -> None:
        """Add parts to the last turn if it is of the same side, else begin a turn."""
        if not parts:
            return
        if not self.found and role == "model":
            self.found.append({"role": "user", "parts": [{"text": OPENING_TURN}]})
        if self.found and self.found[-1]["role"] == role:
            self.found[-1]["parts"] += parts
        else:
            self.found.append({"role": role, "parts": parts})

    def _add_exchanges(self, exchanges: list[ToolExchange]) -> None:
        """Add the calls, and one response for each in their order, in TypeScript's envelope."""
        calls: list[Part] = []
        results: list[Part] = []
        for one in exchanges:
            call = {"functionCall": {"name": one.name, "args": one.input}}
            calls.append(call | _signature(one.call.provider_metadata))
            response = {"name": one.name, "content": one.output}
            results.append({"functionResponse": {"name": one.name, "response": response}})
        if self._signed_calls and "thoughtSignature" not in calls[0]:
            # Of parallel calls only the first is signed.
            calls[0]["thoughtSignature"] = PLACEHOLDER_SIGNATURE
        self.add("model", calls)
        self.add("user", results)


def _text_parts(message: TextMessage) -> list[Part]:
    if message.role == "user" and has_media(message):
        return encoded_parts(message, lambda text: {"text": text}, _media_part)
    pieces = texts(message)
    if not pieces:
        return []
    return [{"text": "".join(pieces), **_signature(message.provider_metadata)}]


_MEDIA = re.compile(r"(?:image/(?!svg)|audio/|video/|text/)[\w.+-]+|application/(?:pdf|json)")


def _media_part(part: MediaContent) -> Part | None:
    """Return an inlineData or fileData part; "Unsupported MIME type" is what else Gemini says.

    Source: https://ai.google.dev/api/caching#Part and
    https://ai.google.dev/gemini-api/docs/file-input-methods
    """
    if part.data is not None:
        kind = media_type(part)
        fits = _MEDIA.fullmatch(kind)
        return {"inlineData": {"mimeType": kind, "data": part.data}} if fits else None
    # A link needs a type; where nobody said it, the usual one.
    usual = "image/jpeg" if isinstance(part, ImageContent) else "application/pdf"
    return {"fileData": {"mimeType": part.media_type or usual, "fileUri": part.url}}


def _thought(message: ReasoningMessage) -> list[Part]:
    """Return a thought of Gemini's own that is signed; unsigned ones carry nothing over."""
    signature = _signature(message.provider_metadata)
    if not signature or not message.content.strip():
        return []
    return [{"text": clean(message.content), "thought": True, **signature}]


def _signature(metadata: JsonObject | None) -> Part:
    own = as_object((metadata or {}).get("gemini")) or {}
    signature = text_or_empty(own.get("thoughtSignature"))
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


def _no_candidates(model: Model, body: dict[str, Any]) -> ModelResponseError:
    feedback = as_object(body.get("promptFeedback")) or {}
    blocked = text_or_empty(feedback.get("blockReason"))
    if blocked:
        return unexpected(model, body, f"the prompt was blocked: {blocked}")
    return unexpected(model, body, "the answer has no candidates")


def _read_parts(body: dict[str, Any], candidates: list[dict[str, Any]]) -> list[Message]:
    ids = _CallIds(text_or_empty(body.get("responseId")))
    result: list[Message] = []
    for candidate in candidates:
        content = as_object(candidate.get("content")) or {}
        read = [_read_part(part, ids) for part in objects(content.get("parts"))]
        result += [message for message in read if message is not None]
    return result


def _read_part(part: dict[str, Any], ids: _CallIds) -> Message | None:
    signature = text_or_empty(part.get("thoughtSignature"))
    metadata = {"gemini": {"thoughtSignature": signature}} if signature else None
    call = as_object(part.get("functionCall"))
    if call is not None:
        name = text_or_empty(call.get("name"))
        if not name:
            return None
        call_id = text_or_empty(call.get("id")) or ids.take(name)
        return ToolCallMessage([parse_call(call_id, name, call.get("args"), metadata)])
    text = part.get("text")
    if not isinstance(text, str):
        return None
    if part.get("thought") is True:
        return ReasoningMessage(text, provider_metadata=metadata)
    return TextMessage("assistant", text, provider_metadata=metadata)


def _stopped(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return texts with a stop reason, which TypeScript leaves out: agents would never stop."""
    calls = any(isinstance(message, ToolCallMessage) for message in messages)
    return tuple(
        replace(message, stop_reason="tool" if calls else "stop")
        if isinstance(message, TextMessage)
        else message
        for message in messages
    )


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
        self._response_id = response_id
        self._count = 0
        self._names: dict[str, int] = {}

    def take(self, name: str) -> str:
        """Return the id of the next call, which is of the tool ``name``."""
        self._count += 1
        number = self._names[name] = self._names.get(name, 0) + 1
        if self._response_id:
            return f"{self._response_id}_{self._count}"
        return name if number == 1 else f"{name}_{number}"


# The reply as a stream.


@dataclass(slots=True)
class _Part:
    """One part as it is written: a text may come in many pieces."""

    first: dict[str, Any]
    pieces: list[str] = field(default_factory=list[str])

    def takes(self, part: dict[str, Any]) -> bool:
        """Return whether ``part`` goes on with this one: texts do, until one of them is signed."""
        return (
            isinstance(self.first.get("text"), str)
            and isinstance(part.get("text"), str)
            and (self.first.get("thought") is True) == (part.get("thought") is True)
            and not self.first.get("thoughtSignature")
        )

    def whole(self) -> dict[str, Any]:
        return {**self.first, "text": join(self.pieces)} if self.pieces else self.first


@dataclass(slots=True)
class _Candidate:
    """One candidate as it is written."""

    rest: dict[str, Any] = field(default_factory=dict[str, Any])
    content: dict[str, Any] | None = None
    parts: list[_Part] = field(default_factory=list[_Part])

    def add(self, part: dict[str, Any]) -> None:
        """Go on with the last part, or begin another one."""
        text = part.get("text")
        if self.parts and self.parts[-1].takes(part):
            self.parts[-1].first = {**self.parts[-1].first, **part}
        else:
            self.parts.append(_Part(part))
        if isinstance(text, str):
            self.parts[-1].pieces.append(text)

    def whole(self) -> dict[str, Any]:
        if self.content is None:
            return self.rest
        parts = {"parts": [part.whole() for part in self.parts]} if self.parts else {}
        return {"content": {**self.content, **parts}, **self.rest}


class GeminiAssembler(BaseAssembler):
    """Puts the responses of one stream together."""

    def __init__(self, model: Model) -> None:
        """Begin a reply of ``model``."""
        super().__init__(model)
        self._head: dict[str, Any] = {}
        self._candidates: dict[int, _Candidate] = {}
        self._ids: _CallIds | None = None

    @property
    def whole(self) -> bool:
        """Return whether each candidate has a reason for its end, or the prompt was blocked.

        There is no end marker; the reason comes with the last parts.
        """
        if not self._candidates:
            feedback = as_object(self._head.get("promptFeedback")) or {}
            return bool(feedback.get("blockReason"))
        return all(c.rest.get("finishReason") for c in self._candidates.values())

    def finish(self) -> object:
        """Return the response as it is without streaming."""
        found = [candidate.whole() for _, candidate in sorted(self._candidates.items())]
        return {"candidates": found, **self._head} if found else self._head

    def _take(self, found: dict[str, Any]) -> Sequence[Delta]:
        deltas: list[Delta] = []
        for name, value in found.items():
            if name != "candidates":
                before, now = as_object(self._head.get(name)), as_object(value)
                # The usage grows from event to event, and some leave parts of it out.
                self._head[name] = {**before, **now} if before and now else value
        for candidate in objects(found.get("candidates")):
            deltas += self._candidate(candidate)
        return deltas

    def _candidate(self, found: dict[str, Any]) -> list[Delta]:
        index = found.get("index")
        number = index if isinstance(index, int) else 0
        candidate = self._candidates.setdefault(number, _Candidate())
        candidate.rest.update({name: value for name, value in found.items() if name != "content"})
        content = as_object(found.get("content"))
        if content is None:
            return []
        said = {name: value for name, value in content.items() if name != "parts"}
        candidate.content = {**(candidate.content or {}), **said}
        deltas: list[Delta] = []
        for part in objects(content.get("parts")):
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
