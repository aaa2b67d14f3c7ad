"""OpenAI's Responses API: tools together with reasoning, which chat completions refuse.

Source: https://platform.openai.com/docs/api-reference/responses/create,
https://platform.openai.com/docs/guides/reasoning#keeping-reasoning-items-in-context,
https://platform.openai.com/docs/api-reference/responses-streaming, and the messages with which the
API refuses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentkit_py._core.json import JsonObject, as_list, as_object, copied
from agentkit_py.messages import (
    Delta,
    ImageContent,
    MediaContent,
    Message,
    ReasoningMessage,
    StopReason,
    TextMessage,
    ToolCallMessage,
    Usage,
)
from agentkit_py.models.base import Adapter, Model, ModelReply, ModelRequest, ToolSpec
from agentkit_py.models.capabilities import IMAGE_TYPES, capabilities_of
from agentkit_py.models.encoding import (
    EMPTY_TURN,
    Encoded,
    ToolExchange,
    data_url,
    encoded_parts,
    entries,
    has_media,
    is_link_or,
    media_type,
    named_choice,
    texts,
)
from agentkit_py.models.replies import (
    BaseAssembler,
    calls_last,
    checked_body,
    count,
    objects,
    parse_call,
    text_or_empty,
    unexpected,
)
from agentkit_py.models.schema import openai_form

METADATA = "openai-responses"
"""The key of this format's opaque data in `provider_metadata`."""

_ENCRYPTED = "reasoning.encrypted_content"
_SUMMARY_GAP = "\n\n"
_ANSWERS = frozenset({"completed", "incomplete", ""})


@dataclass(frozen=True, slots=True)
class ResponsesAdapter(Adapter):
    """The Responses API of one host."""

    path: str = "/responses"
    keep_reasoning: bool | None = None
    """Reasoning is kept and sent back; None: if the model's name says that it reasons."""

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        """Return the body; the model's default parameters overwrite what is put here.

        Nothing is stored at OpenAI: the reasoning comes encrypted and goes back with the history.
        """
        takes = capabilities_of(model.model)
        reasons = takes.reasoning_items if self.keep_reasoning is None else self.keep_reasoning
        items = _Items(keep_reasoning=reasons)
        items.add(request)
        body: dict[str, Any] = {"model": model.model, "input": items.found, "store": False}
        if reasons:
            body["include"] = [_ENCRYPTED]
        if request.tools:
            body["tools"] = [_tool(spec) for spec in request.tools]
            body["tool_choice"] = _choice(request)
            if takes.parallel_tool_calls:
                body["parallel_tool_calls"] = False
        body.update(model.default_parameters)
        if not body.get("tools"):
            body.pop("tool_choice", None)
            body.pop("parallel_tool_calls", None)
        return body

    def decode(self, model: Model, body: object) -> ModelReply:
        """Return the reply's messages: one per item, tool calls last, unknown items left out.

        Reasoning items are kept whole in `ReasoningMessage.provider_metadata`, and what they led
        to names them, since the one is refused without the other.

        Raises:
            ModelResponseError: The response failed, or was stopped before it said anything.
        """
        found = checked_body(model, body)
        items = as_list(found.get("output"))
        status = text_or_empty(found.get("status"))
        if items is None or status not in _ANSWERS:
            raise unexpected(model, body, f"the answer is no finished response: {status or '-'}")
        details = as_object(found.get("incomplete_details")) or {}
        reason = text_or_empty(details.get("reason"))
        messages = calls_last(_read_items(model, body, items))
        if status == "incomplete" and all(message.type == "reasoning" for message in messages):
            raise unexpected(model, body, f"the model was stopped before it answered: {reason}")
        usage = _usage(as_object(found.get("usage")))
        return ModelReply(messages=messages, usage=usage, finish_reason=reason or status or None)

    def assembler(self, model: Model) -> ResponsesAssembler:
        """Return the assembler of one reply."""
        return ResponsesAssembler(model)


# The request's body.


class _Items:
    """The input as it grows.

    A reasoning item is refused "without its required following item", so it waits until the item
    comes that names it, and goes nowhere if that was filtered out.
    """

    def __init__(self, *, keep_reasoning: bool) -> None:
        self.found: list[Encoded] = []
        self._keep_reasoning = keep_reasoning
        self._waiting: dict[str, Encoded] = {}

    def add(self, request: ModelRequest) -> None:
        for entry in entries(request.messages):
            if isinstance(entry, TextMessage):
                self._add_text(entry)
            elif isinstance(entry, list):
                self._add_exchanges(entry)
            elif self._keep_reasoning and (item := _own_reasoning(entry)) is not None:
                self._waiting[item["id"]] = item
        if not self.found:
            content = [_text("user", EMPTY_TURN)]
            self.found.append({"type": "message", "role": "user", "content": content})

    def _add_text(self, message: TextMessage) -> None:
        parts = _parts(message)
        if not parts:
            return
        if message.role != "assistant":
            self._waiting.clear()
        item: Encoded = {"type": "message", "role": message.role, "content": parts}
        named = self._add_reasoning(message.provider_metadata)
        if named:
            item |= {**named, "status": "completed"}
        phase = _own(message.provider_metadata).get("phase")
        if isinstance(phase, str):
            item["phase"] = phase
        self.found.append(item)

    def _add_exchanges(self, exchanges: list[ToolExchange]) -> None:
        for one in exchanges:
            item = {
                "type": "function_call",
                "call_id": one.id,
                "name": one.name,
                "arguments": one.arguments,
            }
            named = self._add_reasoning(one.call.provider_metadata)
            self.found.append(item | named)
        for one in exchanges:
            output = {"type": "function_call_output", "call_id": one.id, "output": one.output}
            self.found.append(output)
        self._waiting.clear()

    def _add_reasoning(self, metadata: JsonObject | None) -> dict[str, str]:
        """Add the reasoning that led to the next item, all of it or none.

        Returns the id that the item then has to have: with it, the one is refused without the
        other, either way round.
        """
        own = _own(metadata)
        names = [name for name in as_list(own.get("reasoning")) or [] if isinstance(name, str)]
        if not names or not all(name in self._waiting for name in names):
            return {}
        self.found += [self._waiting.pop(name) for name in dict.fromkeys(names)]
        return {"id": own["id"]} if isinstance(own.get("id"), str) else {}


def _own(metadata: JsonObject | None) -> dict[str, Any]:
    return as_object((metadata or {}).get(METADATA)) or {}


def _own_reasoning(message: ReasoningMessage) -> Encoded | None:
    """Return the reasoning item that the message came from, if it can go back.

    Without its encrypted content it is only a name for something that OpenAI has not stored.
    """
    item = _own(message.provider_metadata)
    match item:
        case {"type": "reasoning", "id": str(), "summary": list(), "encrypted_content": str(text)}:
            kept = ("type", "id", "summary", "encrypted_content")
            return {name: copied(item[name]) for name in kept} if text else None
        case _:
            return None


def _text(role: str, text: str) -> Encoded:
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}


def _parts(message: TextMessage) -> list[Encoded]:
    """Return texts that hold more than white space, and what a user shows."""
    if message.role == "user" and has_media(message):
        return encoded_parts(message, lambda text: _text("user", text), _media_part)
    return [_text(message.role, piece) for piece in texts(message)]


_FILES = re.compile(
    r"text/[\w.+-]+|application/(?:pdf|json|xml|rtf|msword|csv|javascript|typescript"
    r"|vnd\.(?:openxmlformats-officedocument|ms-|oasis\.opendocument)[\w.+-]+)"
)


def _media_part(part: MediaContent) -> Encoded | None:
    """Return an image, or a file, which may be a link, a text or an office document, too.

    Source: https://platform.openai.com/docs/guides/images-vision and
    https://platform.openai.com/docs/guides/file-inputs
    """
    if isinstance(part, ImageContent):
        if not is_link_or(part, IMAGE_TYPES):
            return None
        detail = part.detail or "auto"
        return {"type": "input_image", "image_url": data_url(part), "detail": detail}
    if part.url is not None:
        return {"type": "input_file", "file_url": part.url}
    if _FILES.fullmatch(media_type(part)) is None:
        return None
    return {"type": "input_file", "filename": part.name or "file", "file_data": data_url(part)}


def _choice(request: ModelRequest) -> object:
    match request.tool_choice:
        case "auto":
            return "auto"
        case "any":
            return "required"
        case _:
            return {"type": "function", "name": named_choice(request)}


_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    parameters, strict = openai_form(spec)
    tool: dict[str, Any] = {"type": "function", "name": spec.name}
    if spec.description:
        tool["description"] = spec.description
    tool["parameters"] = _NO_PARAMETERS if parameters is None else parameters
    # Said in any case: this API takes a tool for strict that does not say.
    tool["strict"] = strict
    return tool


# The reply.


def _read_items(model: Model, body: object, items: list[Any]) -> list[Message]:
    found = list(objects(items))
    calls = any(item.get("type") == "function_call" for item in found)
    result: list[Message] = []
    before: list[str] = []
    for item in found:
        match item.get("type"):
            case "reasoning":
                result.append(_read_reasoning(item))
                before.append(text_or_empty(item.get("id")))
                continue
            case "message":
                result += _read_text(item, before, "tool" if calls else "stop")
            case "function_call":
                result.append(_read_call(model, body, item, before))
            case _:
                pass  # what the server's own tools did; reasoning that led to it cannot go back
        before = []
    return result


def _read_reasoning(item: dict[str, Any]) -> ReasoningMessage:
    # Models whose reasoning is open say it in `content`, the others sum it up.
    parts = as_list(item.get("summary")) or as_list(item.get("content")) or []
    pieces = [text_or_empty((as_object(part) or {}).get("text")) for part in parts]
    return ReasoningMessage(_SUMMARY_GAP.join(pieces), provider_metadata={METADATA: item})


def _read_text(item: dict[str, Any], before: list[str], stop: StopReason) -> list[Message]:
    text = "".join(
        text_or_empty(part.get("text")) or text_or_empty(part.get("refusal"))
        for part in objects(item.get("content"))
    )
    if not text.strip():
        return []
    phase = {"phase": item["phase"]} if isinstance(item.get("phase"), str) else {}
    metadata = _metadata(item, before, phase)
    return [TextMessage("assistant", text, stop_reason=stop, provider_metadata=metadata)]


def _read_call(
    model: Model, body: object, item: dict[str, Any], before: list[str]
) -> ToolCallMessage:
    name = text_or_empty(item.get("name"))
    if not name:
        raise unexpected(model, body, "a function call names no function")
    call_id = text_or_empty(item.get("call_id"))
    metadata = _metadata(item, before, {})
    return ToolCallMessage([parse_call(call_id, name, item.get("arguments"), metadata)])


def _metadata(
    item: dict[str, Any], before: list[str], more: dict[str, Any]
) -> dict[str, Any] | None:
    own = {**more, "id": item.get("id"), "reasoning": before} if before else more
    return {METADATA: own} if own else None


def _usage(usage: dict[str, Any] | None) -> Usage | None:
    if usage is None:
        return None
    return Usage(
        count(usage, "input_tokens"),
        count(usage, "output_tokens"),
        count(usage, "input_tokens_details", "cached_tokens"),
        count(usage, "output_tokens_details", "reasoning_tokens"),
    )


# The reply as a stream.

_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_ITEMS = frozenset({"response.output_item.added", "response.output_item.done"})
_TEXTS = frozenset({"response.output_text.delta", "response.refusal.delta"})
_REASONINGS = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})


class ResponsesAssembler(BaseAssembler):
    """Gives the pieces of one response, and keeps its last event, which holds all of it."""

    def __init__(self, model: Model) -> None:
        """Begin a reply of ``model``."""
        super().__init__(model)
        self._response: dict[str, Any] | None = None
        self._items: dict[int, dict[str, Any]] = {}
        self._summaries: dict[int, tuple[str, object]] = {}

    @property
    def whole(self) -> bool:
        """Return whether the response has ended, well or badly."""
        return self._response is not None

    def finish(self) -> object:
        """Return the response as it is without streaming."""
        response = self._response or {}
        if not response.get("output") and self._items:
            # Some servers leave out at the end what they have sent before.
            return {**response, "output": [item for _, item in sorted(self._items.items())]}
        return response

    def _error_of(self, found: dict[str, Any]) -> dict[str, Any]:
        if found.get("type") == "error":
            return found if as_object(found.get("error")) else {"error": found}
        if found.get("type") == "response.failed":
            return as_object(found.get("response")) or found
        return found

    def _take(self, found: dict[str, Any]) -> Sequence[Delta]:
        kind = text_or_empty(found.get("type"))
        place = found.get("output_index")
        index = place if isinstance(place, int) else 0
        piece = text_or_empty(found.get("delta"))
        if kind in _ENDS:
            self._response = as_object(found.get("response")) or {}
            self._ended = True
        elif kind in _ITEMS:
            self._items[index] = item = as_object(found.get("item")) or {}
            return self._call(index, "") if item.get("type") == "function_call" else ()
        elif kind in _TEXTS:
            return self._deltas.text(index, piece)
        elif kind in _REASONINGS:
            return self._reasoning(index, kind, found, piece)
        elif kind == "response.function_call_arguments.delta":
            return self._call(index, piece)
        return ()  # beginnings and ends of parts, and events that are yet to be invented

    def _call(self, index: int, piece: str) -> Sequence[Delta]:
        item = self._items.get(index, {})
        call_id, name = text_or_empty(item.get("call_id")), text_or_empty(item.get("name"))
        return self._deltas.call(index, call_id, name, piece)

    def _reasoning(
        self, index: int, kind: str, found: dict[str, Any], piece: str
    ) -> Sequence[Delta]:
        part = (kind, found.get("summary_index", found.get("content_index")))
        before = self._summaries.setdefault(index, part)
        if before[0] != part[0]:
            return ()  # both the summary and the whole: the summary is what counts
        self._summaries[index] = part
        gap = _SUMMARY_GAP if before != part else ""
        return self._deltas.reasoning(index, gap + piece)
