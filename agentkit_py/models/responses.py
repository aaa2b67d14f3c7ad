"""OpenAI's Responses API: tools together with reasoning, which chat completions refuse.

Source: https://platform.openai.com/docs/api-reference/responses/create,
https://platform.openai.com/docs/guides/reasoning#keeping-reasoning-items-in-context,
https://platform.openai.com/docs/api-reference/responses-streaming, and the messages with which the
API refuses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from agentkit_py._core.json import JsonObject, as_list, as_object, copied, dumps
from agentkit_py.messages import (
    ORIGIN,
    Delta,
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
from agentkit_py.models.binding import (
    Binding,
    Reason,
    ReasoningPlace,
    account_of,
    change,
    digest_of,
    has_reasoning,
    linked,
    missing,
    with_bindings,
)
from agentkit_py.models.blocks import (
    Activity,
    Block,
    checked_reply,
    finished,
    host_of,
    opaque,
    opaque_block,
    own_block,
    sendable,
    without_nulls,
)
from agentkit_py.models.capabilities import IMAGE_TYPES, Capabilities
from agentkit_py.models.compaction import KIND as COMPACTION
from agentkit_py.models.compaction import compacted, with_compactions_bound
from agentkit_py.models.encoding import (
    OPENING_TURN,
    PREFILL,
    Encoded,
    ToolExchange,
    cache_key,
    data_url,
    encoded_parts,
    has_media,
    hosted_tools,
    is_link_or,
    is_stored,
    media_type,
    openai_choice,
    result_content,
    split_prefill,
    stored_file,
    texts,
    without_sampling,
)
from agentkit_py.models.http_errors import unexpected
from agentkit_py.models.provider_tools import (
    ProgramCall,
    answered_by_provider,
    definition,
    is_program_call,
    program_call,
    program_item,
    program_output,
)
from agentkit_py.models.replies import (
    BaseAssembler,
    checked_body,
    count,
    nameless_call,
    objects,
    parse_call,
    text_or_empty,
    written_arguments,
)
from agentkit_py.models.schema import openai_output_form, openai_tool
from agentkit_py.models.writer import (
    Said,
    Writer,
    written,
)

METADATA = "openai-responses"
"""The key of this format's opaque data in `provider_metadata`."""

LEAST_COMPACTION = 1000
"""The least tokens from which on the server sums up a conversation.

Source: github.com/openai/openai-openapi at f85dbe2 (August 2026), ContextManagementParam: integer
with ``minimum: 1000``, or null. The guide and the SDK name no minimum.
"""

_ENCRYPTED = "reasoning.encrypted_content"
_SUMMARY_GAP = "\n\n"
_ANSWERS = frozenset({"completed", "incomplete", ""})


_OWN_HISTORY = (
    "each request holds the whole conversation, which would count twice. Use history=… and a "
    "thread_id; threads import reads what you have."
)


@dataclass(frozen=True, slots=True)
class ResponsesAdapter(Adapter):
    """The Responses API of a host."""

    refused_parameters: ClassVar[Mapping[str, str]] = {
        **STREAMED,
        "background": "a run waits for its answer. Use a durable run (agentkit_py.inngest), which "
        "outlives its process, with a longer timeout=….",
        "previous_response_id": _OWN_HISTORY,
        "conversation": _OWN_HISTORY,
    }

    path: str = "/responses"
    keep_reasoning: bool | None = None
    """Reasoning is kept and sent back; None: if the model's name says that it reasons."""

    deployment: str | None = None
    """Azure's name of the model; None: the model's own."""

    def encode(self, model: Model, request: ModelRequest) -> dict[str, Any]:
        """Return the body; the model's default parameters overwrite these values.

        Nothing is stored at OpenAI: the reasoning comes encrypted and goes back with the history.
        """
        body, _, items = self._draft(model, request)
        body.setdefault("input", items.found)
        return body

    def output_format(self, model: Model, spec: ToolSpec) -> dict[str, Any] | None:
        """Return ``text.format``; None for a schema that cannot be strict."""
        schema = openai_output_form(spec, self.host)
        if schema is None:
            return None
        form = {"type": "json_schema", "name": spec.name, "schema": schema, "strict": True}
        return {"text": {"format": form}}

    def bind(
        self, model: Model, request: ModelRequest, messages: Sequence[Message]
    ) -> tuple[Message, ...]:
        """Return a reply's messages, its reasoning bound to all before it."""
        messages = with_compactions_bound(model, request, METADATA, messages)
        if not any(isinstance(message, ReasoningMessage) for message in messages):
            return messages
        items = self._draft(model, request, messages)[2]
        account = account_of(model, request)
        found = {
            id(place.message): Binding(
                account=account, model=model.model, head=items.head, prefix=place.prefix
            )
            for place in items.places
            if place.is_new
        }
        return with_bindings(messages, found, host_of(model))

    def left_out(self, model: Model, request: ModelRequest) -> Sequence[tuple[Message, Reason]]:
        """Return the reasoning that is not sent, each item with why."""
        if not has_reasoning(request):
            return ()
        _, request, items = self._draft(model, request)
        return missing(request, items.places, host_of(model))

    def sent(self, model: Model, request: ModelRequest) -> Sequence[Message]:
        """Return the messages without those that the model's summary replaces."""
        return compacted(model, request, METADATA).request.messages

    def _draft(
        self, model: Model, request: ModelRequest, reply: Sequence[Message] = ()
    ) -> tuple[dict[str, Any], ModelRequest, _Items]:
        """Return a request's body without its input, the request as it is compacted, and its input.

        With the reply to this request the input contains the places of its reasoning.
        """
        takes = model.takes
        request, reply, _ = compacted(model, request, METADATA, reply)
        reasons = takes.reasoning_items if self.keep_reasoning is None else self.keep_reasoning
        body: dict[str, Any] = {"model": self.deployment or model.model, "store": False}
        if reasons:
            body["include"] = [_ENCRYPTED]
        if request.tools:
            body["tools"] = [_tool(model, spec) for spec in request.tools]
            body["tool_choice"] = openai_choice(request, takes, _typed)
            if takes.parallel_tool_calls:
                body["parallel_tool_calls"] = False
        if hosted := hosted_tools(model, request, METADATA):
            body["tools"] = [*body.get("tools", []), *hosted]
        effort = _effort(model.default_parameters)
        if key := cache_key(model, request):
            body["prompt_cache_key"] = key
        if request.compaction is not None and takes.compaction:
            limit = max(LEAST_COMPACTION, request.compaction.tokens)
            body["context_management"] = [{"type": COMPACTION, "compact_threshold": limit}]
        body.update(taken_parameters(model.default_parameters, takes))
        if not body.get("tools"):
            body.pop("tool_choice", None)
            body.pop("parallel_tool_calls", None)
        body = self.with_output(model, request, body)
        form = (as_object(body.get("text")) or {}).get("format")
        keep = reasons or (self.keep_reasoning is None and _takes_back(model))
        head = [body.get("tools"), form, effort]
        messages: Sequence[Message] = request.messages
        own = [*messages[len(messages) - request.prefill :], *reply]
        if takes.checks_prefix:
            # A prefill at the end would go with the next request, and all reasoning with it.
            conversation, prefill = split_prefill(request)
            words = [TextMessage("system", PREFILL.format(text=prefill))] if prefill else []
            messages, own = [*words, *conversation], list(reply)
        conversation = sendable([*messages, *reply], METADATA, host_of(model), _activity)
        facts = [model, self.host, account_of(model, request), request.refused, head, keep]
        items = written(
            request,
            conversation,
            own,
            facts,
            lambda: _Items(model, request, head, keep_reasoning=keep),
        )
        items.end()
        return body, request, items

    def decode(self, model: Model, body: object) -> ModelReply:
        """Return the reply's messages: a message per item, in their order.

        Items of which our own form would lose something are kept in `provider_metadata`, and those
        without a type of ours as `OpaqueMessage`s. Items after reasoning name it, since the API
        refuses either without the other.
        """
        found = checked_body(model, body)
        items = as_list(found.get("output"))
        status = text_or_empty(found.get("status"))
        if items is None or status not in _ANSWERS:
            raise unexpected(model, body, f"the answer is not a finished response: {status or '-'}")
        details = as_object(found.get("incomplete_details")) or {}
        reason = text_or_empty(details.get("reason"))
        messages = _ItemsReader(model).messages(items)
        refusal = _refusal_in(items)
        word = reason or status
        beside = {"incomplete_details": details if reason else None, "refusal": refusal}
        finish = finished(model, messages, _WORDS, word, beside)
        if refusal and finish.reason == "stop":
            finish = replace(finish, reason="refusal")
        return checked_reply(model, messages, finish, _usage(as_object(found.get("usage"))))

    def assembler(self, model: Model) -> ResponsesAssembler:
        """Return the assembler of a reply."""
        return ResponsesAssembler(model)


# The request's body.


class _Items(Writer):
    """The input as it grows.

    A reasoning item is refused "without its required following item", so it waits until the item
    comes that names it, and goes nowhere if that was filtered out.
    """

    def __init__(
        self, model: Model, request: ModelRequest, head: list[Any], *, keep_reasoning: bool
    ) -> None:
        super().__init__(model, request)
        self.head: str = digest_of(head) if keep_reasoning else ""
        """A digest of the content before all items; empty where no reasoning is kept."""

        self._digest = self.head
        """A digest of all so far."""

        self.places: list[ReasoningPlace] = []
        """The places of reasoning, and whether it is sent."""

        self._host = host_of(model)
        self._model = model.model
        self._checks = model.takes.checks_prefix
        self._stored = model.default_parameters.get("store") is True
        self._keep_reasoning = keep_reasoning
        self._waiting: dict[str, tuple[Encoded, ReasoningPlace]] = {}
        self._is_begun = False

    def end(self) -> None:
        """Add the opening of an empty conversation."""
        if not self._is_begun:
            self._begin()

    def _begin(self) -> None:
        """Add the user's turn before an assistant's first message, or in an empty conversation."""
        self._is_begun = True
        opening = [_text("user", OPENING_TURN)]
        self._put({"type": "message", "role": "user", "content": opening})

    def _put(self, item: Encoded) -> None:
        role = item.get("role")
        if not self._is_begun and role not in ("system", "developer"):
            if role != "user" and item.get("type") != COMPACTION:
                self._begin()
            self._is_begun = True
        self.found.append(item)
        if self._keep_reasoning:
            self._digest = linked(self._digest, item)

    def _say(self, message: Said) -> None:
        if isinstance(message, TextMessage):
            self._add_text(message)
        elif isinstance(message, OpaqueMessage):
            self._add_opaque(message)
        elif self._keep_reasoning and (item := self._reasoning(message)) is not None:
            name = _name_of(item)
            place = ReasoningPlace(message, name, is_new=id(message) in self.reply)
            place.reason = self._standing.reason(message, message.provider_metadata)
            self._waiting[name] = item, place

    def _reasoning(self, message: ReasoningMessage) -> Encoded | None:
        return _own_reasoning(message, self._host, stored=self._stored)

    def _add_reply(self, entry: list[Said | ToolExchange]) -> None:
        answers: list[Encoded] = []
        for one in entry:
            if isinstance(one, ToolExchange):
                answers += self._add_call(one)
            else:
                self._say(one)
        for answer in answers:
            self._put(answer)
        self._waiting.clear()

    def _add_text(self, message: TextMessage) -> None:
        own = self._own(message.provider_metadata)
        said = as_object(own.get("item"))
        if said is not None and _text_in(said) == message.content:
            item = said
        elif parts := _parts(message):
            item = {"type": "message", "role": message.role, "content": parts}
        else:
            return
        if message.role != "assistant":
            self._waiting.clear()
        named = self._id("msg", own) if self._add_reasoning(own) else {}
        if named:
            item |= {**named, "status": "completed"}
        phase = own.get("phase")
        if isinstance(phase, str):
            item["phase"] = phase
        self._put(item)

    def _add_call(self, one: ToolExchange) -> list[Encoded]:
        """Add a call; return the items of its result."""
        own = self._own(one.call.provider_metadata)
        item = as_object(own.get("item"))
        if item is not None and is_program_call(item, one):
            return self._add_program_call(own, item, one)
        if item is None or not one.is_call(item.get("name"), item.get("arguments")):
            item = {"type": "function_call", "name": one.name, "arguments": one.arguments}
        named = self._id("fc", own) if self._add_reasoning(own) else {}
        self._put({**item, "call_id": one.id, **named})
        output = result_content(one, lambda text: _text("user", text), _media_part)
        return [{"type": "function_call_output", "call_id": one.id, "output": output}]

    def _add_program_call(
        self, own: dict[str, Any], item: Encoded, one: ToolExchange
    ) -> list[Encoded]:
        """Add the call of a tool that OpenAI defines; return the items of its result."""
        is_request = item.get("type") == "mcp_approval_request"
        if _names(own) and not self._add_reasoning(own) and not is_request:
            item.pop("id", None)  # it would be refused without the reasoning that led to it
        self._put(item if is_request else {**item, "call_id": one.id})
        return program_output(item, one, lambda text: _text("user", text), _media_part)

    def _add_opaque(self, message: OpaqueMessage) -> None:
        """Add an item that the host's own tools made, unless reasoning that led to it is gone."""
        own = self._own(message.provider_metadata)
        if not _names(own) or self._add_reasoning(own):
            self._put(opaque_block(message))

    def _id(self, beginning: str, own: dict[str, Any]) -> dict[str, str]:
        """Return an item's id if it follows reasoning: the API refuses either without the other.

        "Expected an ID that begins with 'msg'": an item may as well have none.
        """
        given = text_or_empty(own.get("id"))
        fits = given and (_is_open(self._host) or given.startswith(beginning))
        return {"id": given} if fits else {}

    def _add_reasoning(self, own: dict[str, Any]) -> bool:
        """Add the reasoning that led to the next item, all of it or none; return whether it did."""
        names = list(dict.fromkeys(_names(own)))
        if not names or not all(name in self._waiting for name in names):
            return False
        group = [self._waiting.pop(name) for name in names]
        if not self._is_begun:
            self._begin()
        digest = self._digest
        for item, place in group:
            place.prefix = digest
            place.reason = place.reason or (None if place.is_new else self._change(place))
            digest = linked(digest, item)
        self.places += [place for _, place in group]
        reason = next((place.reason for _, place in group if place.reason), None)
        if reason is not None:
            for _, place in group:
                place.reason = place.reason or "turn"
            return False
        for item, _ in group:
            self._put(item)
        return True

    def _change(self, place: ReasoningPlace) -> Reason | None:
        """Return why a model that checks the beginning would remove the item."""
        if not self._checks:
            return None
        if place.binding.prefix and place.binding.model != self._model:
            return "model"
        return change(place, self.head)

    def _own(self, metadata: JsonObject | None) -> dict[str, Any]:
        return own_block(metadata, METADATA, self._host) or {}


def _names(own: dict[str, Any]) -> list[str]:
    return [name for name in as_list(own.get("reasoning")) or [] if isinstance(name, str)]


_ENCRYPTING = (".openai.com", ".azure.com", ".x.ai")


def _is_open(host: str) -> bool:
    """Return whether a host may give its reasoning as it is, and take it back (DeepSeek, vLLM)."""
    return not f".{host.partition(':')[0]}".endswith(_ENCRYPTING)


def _takes_back(model: Model) -> bool:
    """Return whether reasoning goes back whose host does not encrypt it.

    xAI takes grok-3-mini's summaries by their ids where it stores replies: six recorded exchanges.
    """
    host = host_of(model)
    is_stored = model.default_parameters.get("store") is True
    return _is_open(host) or (is_stored and f".{host}".endswith(".x.ai"))


def _own_reasoning(message: ReasoningMessage, host: str, *, stored: bool) -> Encoded | None:
    """Return the reasoning item that the message came from, if it can go back.

    Without its encrypted content it is only a name for something that OpenAI has not stored, unless
    the user lets it store replies (``store``); other hosts say it in ``content``.
    """
    item = own_block(message.provider_metadata, METADATA, host) or {}
    if _reasoning_in(item) != message.content:
        return None
    match item:
        case {"type": "reasoning", "summary": list(), "encrypted_content": str(text)} if text:
            kept = ("type", "id", "summary", "encrypted_content")
            kept += ("content",) if _is_open(host) and item.get("content") else ()
        case {"type": "reasoning", "summary": list(), "content": [_, *_]} if _is_open(host):
            kept = ("type", "id", "summary", "content")
        case {"type": "reasoning", "summary": list(), "id": str(name)} if name and stored:
            kept = ("type", "id", "summary")
        case _:
            return None
    return {name: copied(item[name]) for name in kept if name != "id" or item.get("id")}


def _name_of(reasoning: Block) -> str:
    """Return the name by which later items refer to a reasoning item: its id, if any.

    Some hosts give no id, and with encrypted content none is needed.
    """
    given = text_or_empty(reasoning.get("id"))
    said = [reasoning.get("encrypted_content"), reasoning.get("content"), reasoning.get("summary")]
    return given or f"unnamed-{digest_of(said)}"


def _text(role: str, text: str) -> Encoded:
    if role == "assistant":
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "input_text", "text": text}


def _parts(message: TextMessage) -> list[Encoded]:
    """Return texts that are not blank, and a user's media."""
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
    if is_stored(part):
        return _stored_part(part)
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


def _stored_part(part: MediaContent) -> Encoded | None:
    file_id = stored_file(part, "openai")
    if file_id is None:
        return None
    if isinstance(part, ImageContent):
        return {"type": "input_image", "file_id": file_id, "detail": part.detail or "auto"}
    return {"type": "input_file", "file_id": file_id}


def _tool(model: Model, spec: ToolSpec) -> Encoded:
    if spec.provider is not None:
        return definition(spec, model, METADATA)
    return _typed("function", openai_tool(spec, model.adapter.host, _NO_PARAMETERS))


def _typed(kind: str, members: Encoded) -> Encoded:
    return {"type": kind, **members}


def _effort(parameters: Mapping[str, Any]) -> Any:
    return (as_object(parameters.get("reasoning")) or {}).get("effort")


def taken_parameters(parameters: Mapping[str, Any], takes: Capabilities) -> dict[str, Any]:
    """Return the parameters as models that reason take them."""
    return without_sampling(dict(parameters), takes, _effort(parameters))


_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


# The reply.

_WORDS: dict[str, FinishReason] = {
    "completed": "stop",
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}


def _refusal_in(items: list[Any]) -> str:
    parts = (part for item in objects(items) for part in objects(item.get("content")))
    return "".join(text_or_empty(part.get("refusal")) for part in parts)


class _ItemsReader:
    """Reads the items of a reply; each names the reasoning that led to it."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._before: list[str] = []
        self._answered: frozenset[str] = frozenset()
        """The ids of calls of which the reply has the results."""

    def messages(self, items: list[Any]) -> list[Message]:
        found: list[Message] = []
        self._answered = answered_by_provider(objects(items))
        for item in objects(items):
            if item.get("type") == "reasoning":
                made_by = {METADATA: item, ORIGIN: {"host": host_of(self._model)}}
                found.append(ReasoningMessage(_reasoning_in(item), provider_metadata=made_by))
                self._before.append(_name_of(item))
                continue
            message = self._message(item)
            found += [] if message is None else [message]
            self._before = []
        return found

    def _message(self, item: Block) -> Message | None:
        match item.get("type"):
            case "message":
                text = _text_in(item)
                if not text:
                    return None
                ours = {"content": [_text("assistant", text)], "role": "assistant"}
                phase = {"phase": item["phase"]} if isinstance(item.get("phase"), str) else {}
                metadata = self._metadata(item, {"type": "message", **ours}, phase)
                return TextMessage("assistant", text, provider_metadata=metadata)
            case "function_call":
                return ToolCallMessage([self._call(item)])
            case _:
                call = program_call(item)
                if call is None or not call.name or call.id in self._answered:
                    return self._opaque(item)
                return ToolCallMessage([self._program_call(call, item)])

    def _program_call(self, call: ProgramCall, item: Block) -> ToolCall:
        own: Block = {"item": program_item(item)}
        if self._before:
            own |= {"id": item.get("id"), "reasoning": self._before}
        metadata: Block = {METADATA: own, ORIGIN: {"host": host_of(self._model)}}
        return ToolCall(call.id, call.name, call.arguments, provider_metadata=metadata)

    def _call(self, item: Block) -> ToolCall:
        name = text_or_empty(item.get("name"))
        if not name:
            return nameless_call(text_or_empty(item.get("call_id")), item)
        call = parse_call(text_or_empty(item.get("call_id")), name, item.get("arguments"))
        ours = {"type": "function_call", "name": name, "arguments": dumps(call.arguments)}
        said = {**item, "arguments": written_arguments(call, item.get("arguments"))}
        metadata = self._metadata(said, {**ours, "call_id": call.id}, {})
        return replace(call, provider_metadata=metadata)

    def _opaque(self, item: Block) -> OpaqueMessage:
        tool = _hosted_tool(text_or_empty(item.get("type")), item)
        metadata = self._metadata(item, None, {})
        return opaque(self._model, METADATA, item, _activity(item), tool=tool, metadata=metadata)

    def _metadata(self, item: Block, ours: object, more: Block) -> Block | None:
        """Return the stored form of an item; its id matters only with reasoning."""
        own: Block = dict(more)
        if self._before:
            own |= {"id": item.get("id"), "reasoning": self._before}
        said = _as_input(item)
        if ours is not None and said != ours:
            own["item"] = said
        return {METADATA: own, ORIGIN: {"host": host_of(self._model)}} if own else None


_NOT_INPUT = frozenset({"id", "status", "phase"})


def _as_input(item: Block) -> Block:
    """Return a message or a call as it is sent back: without its id and empty fields."""
    found = without_nulls({k: v for k, v in item.items() if k not in _NOT_INPUT})
    if isinstance(found.get("content"), list):
        found["content"] = [_content_as_input(part) for part in found["content"]]
    return found


def _content_as_input(part: Any) -> Any:
    found = as_object(part)
    if found is None:
        return part
    said = {k: v for k, v in without_nulls(found).items() if k != "logprobs"}
    return {**said, "annotations": []} if said.keys() == {"type", "text"} else said


def _hosted_tool(kind: str, item: Block) -> str:
    """Return the name of the hosted tool whose activity an item is; empty: of none."""
    if kind.startswith("mcp_"):
        return text_or_empty(item.get("name")) or text_or_empty(item.get("server_label")) or "mcp"
    for end in ("_call_output", "_output", "_call"):
        if kind.endswith(end):
            return text_or_empty(item.get("name")) or kind.removesuffix(end)
    return ""


_TYPED = frozenset({"message", "function_call", "function_call_output", "reasoning"})
_GIVEN = frozenset(
    {
        "item_reference", "mcp_approval_response", "computer_call_output", "additional_tools",
        "local_shell_call_output", "custom_tool_call_output", "compaction_trigger",
        "configuration_update",
    }
)  # fmt: skip
"""Items of requests only, never of replies: rights, tools, results of programs."""


def _activity(item: Block) -> Activity | None:
    """Return an item's role in a hosted tool's activity; None: not an item of a reply.

    An item of a kind that is newer than this library has an id, as all have, and no role.
    """
    kind = text_or_empty(item.get("type"))
    if not kind or kind in _TYPED or kind in _GIVEN or "role" in item:
        return None
    if _hosted_tool(kind, item):
        return Activity(_part_of(kind), text_or_empty(item.get("call_id")))
    return Activity() if text_or_empty(item.get("id")) else None


def _part_of(kind: str) -> Literal["call", "result", "whole"]:
    # These come with an output of their own; all others are a single item.
    if kind in ("tool_search_call", "shell_call"):
        return "call"
    return "result" if kind.endswith("_output") else "whole"


def _reasoning_in(item: Block) -> str:
    # Models whose reasoning is open say it in `content`, the others sum it up.
    parts = as_list(item.get("summary")) or as_list(item.get("content")) or []
    pieces = [text_or_empty((as_object(part) or {}).get("text")) for part in parts]
    return _SUMMARY_GAP.join(pieces)


def _text_in(item: Block) -> str:
    return "".join(
        text_or_empty(part.get("text")) or text_or_empty(part.get("refusal"))
        for part in objects(item.get("content"))
    )


def _usage(usage: dict[str, Any] | None) -> Usage | None:
    if usage is None:
        return None
    return Usage(
        count(usage, "input_tokens"),
        count(usage, "output_tokens"),
        count(usage, "input_tokens_details", "cached_tokens"),
        count(usage, "output_tokens_details", "reasoning_tokens"),
        count(usage, "input_tokens_details", "cache_write_tokens"),
    )


# The reply as a stream.

_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
_ITEMS = frozenset({"response.output_item.added", "response.output_item.done"})
_TEXTS = frozenset({"response.output_text.delta", "response.refusal.delta"})
_REASONINGS = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})


class ResponsesAssembler(BaseAssembler):
    """Yields the pieces of a response, and keeps its last event, which holds all of it."""

    def __init__(self, model: Model) -> None:
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
            # Some servers omit in the last event the content that they have streamed.
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
            if kind == "response.output_item.done":
                return self._program_call(index, item)
            return self._call(index, "") if item.get("type") == "function_call" else ()
        elif kind in _TEXTS:
            return self._deltas.text(index, piece)
        elif kind in _REASONINGS:
            return self._reasoning(index, kind, found, piece)
        elif kind == "response.function_call_arguments.delta":
            return self._call(index, piece)
        return ()  # beginnings and ends of parts, and events that are yet to be invented

    def _program_call(self, index: int, item: Block) -> Sequence[Delta]:
        """Return the call of a tool that OpenAI defines, whole; other items have come in pieces."""
        if item.get("type") == "function_call":
            return self._call(index, "")
        call = program_call(item)
        if call is None or self._deltas.begun(index):
            return ()
        return self._deltas.call(index, call.id, call.name, dumps(call.arguments))

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
            return ()  # both the summary and the whole: the summary counts
        self._summaries[index] = part
        gap = _SUMMARY_GAP if before != part else ""
        return self._deltas.reasoning(index, gap + piece)
