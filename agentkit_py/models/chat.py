"""OpenAI's chat completions format, which Azure and Grok speak too.

Source: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import re
from typing import Any

from agentkit_py._core.json import as_list, as_object
from agentkit_py.messages import (
    Message,
    ReasoningMessage,
    StopReason,
    TextMessage,
    ToolCall,
    ToolCallMessage,
)
from agentkit_py.models.arguments import parse_call
from agentkit_py.models.base import Model, ModelReply, ModelRequest, ToolSpec, Usage
from agentkit_py.models.media import (
    MediaEncoder,
    encoded_parts,
    has_media,
    openai_part,
    text_pieces,
)
from agentkit_py.models.reply import (
    checked_body,
    count,
    text_or_empty,
    unexpected,
    whole_number,
)
from agentkit_py.models.schema import openai_form
from agentkit_py.models.units import Exchange, WireIds, units
from agentkit_py.models.wire import EMPTY_TURN, clean, named_choice, texts

# The o-series answers "Unsupported parameter: 'parallel_tool_calls'". The family's name must stand
# alone in the model's: o3, o4-mini, openai/o1, my-o3-finetune; not gpt-4o or a name like "foo1".
_O_SERIES = re.compile(r"(?<![a-z0-9])o[134](?![a-z0-9])", re.IGNORECASE)

EMPTY_RESULT = "(empty)"
"""A tool's empty result, for servers that refuse messages without text."""


def encode_chat(
    model: Model,
    request: ModelRequest,
    *,
    strict: bool = True,
    refuses_empty: bool = False,
    max_description: int | None = None,
    media: MediaEncoder = openai_part,
) -> dict[str, Any]:
    """The body of one chat completion.

    Args:
        model: The model; its default parameters overwrite what is put here, as in TypeScript.
        request: The inference.
        strict: Whether the server knows strict schemas.
        refuses_empty: Whether the server refuses messages without text (xAI does).
        max_description: How long a tool's description may be (Azure); longer ones are cut.
        media: Which images and files the server takes, and in which form.
    """
    messages = _messages(request, media, refuses_empty=refuses_empty)
    body: dict[str, Any] = {"messages": messages or [_text("user", EMPTY_TURN)]}
    if request.tools:
        body["tool_choice"] = _choice(request)
        if _O_SERIES.search(model.model) is None:
            body["parallel_tool_calls"] = False
        body["tools"] = [_tool(spec, max_description, strict=strict) for spec in request.tools]
    body.update(model.default_parameters)
    if not body.get("tools"):
        # Only allowed beside tools; defaults are also used by agents that have none.
        body.pop("tool_choice", None)
        body.pop("parallel_tool_calls", None)
    body.setdefault("model", model.model)
    return body


def _messages(
    request: ModelRequest, media: MediaEncoder, *, refuses_empty: bool
) -> list[dict[str, Any]]:
    rows_of = WireIds().rows
    result: list[dict[str, Any]] = []
    for unit in units(request.messages):
        if isinstance(unit, TextMessage):
            if not refuses_empty or texts(unit):
                content = unit.content
                if not isinstance(content, str) or not content.isascii():
                    content = _content(unit, media)
                result.append({"role": unit.role, "content": content})
        elif isinstance(unit, Exchange):
            calls: list[dict[str, Any]] = []
            result.append({"role": "assistant", "content": None, "tool_calls": calls})
            for wire_id, name, arguments, output in rows_of(unit):
                function = {"name": name, "arguments": arguments}
                calls.append({"id": wire_id, "type": "function", "function": function})
                said = output or (EMPTY_RESULT if refuses_empty else "")
                result.append({"role": "tool", "tool_call_id": wire_id, "content": said})
        # Chat completions take no reasoning back.
    return result


def _text(role: str, content: object) -> dict[str, Any]:
    return {"role": role, "content": content}


def _content(message: TextMessage, media: MediaEncoder) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return clean(message.content)
    if message.role == "user" and has_media(message):
        return encoded_parts(message, _text_part, media)
    return [_text_part(piece) for piece in text_pieces(message.content) if piece] or ""


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": clean(text)}


def _choice(request: ModelRequest) -> object:
    match request.tool_choice:
        case "auto":
            return "auto"
        case "any":
            return "required"
        case _:
            return {"type": "function", "function": {"name": named_choice(request)}}


def _tool(spec: ToolSpec, max_description: int | None, *, strict: bool) -> dict[str, Any]:
    parameters, is_strict = openai_form(spec, strict=strict)
    function: dict[str, Any] = {"name": spec.name}
    if spec.description:
        function["description"] = spec.description[:max_description]
    if parameters is not None:
        function["parameters"] = parameters
    function["strict"] = is_strict
    return {"type": "function", "function": function}


def decode_chat(model: Model, body: object) -> ModelReply:
    """The messages of a chat completion.

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
        messages += _choice_messages(model, body, choice)
        finish_reason = finish_reason or text_or_empty(choice.get("finish_reason")) or None
    return ModelReply(
        messages=tuple(messages), usage=_usage(found.get("usage")), finish_reason=finish_reason
    )


def _choice_messages(model: Model, body: object, choice: dict[str, Any]) -> list[Message]:
    message = as_object(choice.get("message")) or {}
    asked = as_list(message.get("tool_calls"))
    calls = [_read_call(model, body, call) for call in asked] if asked else []
    result: list[Message] = []
    reasoning = message.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning.strip():
        result.append(ReasoningMessage(reasoning))
    content = message.get("content")
    text = content if isinstance(content, str) else _read_parts(content)
    text = text or text_or_empty(message.get("refusal"))
    if text.strip():
        stop: StopReason = "tool" if calls else "stop"
        result.append(TextMessage("assistant", text, stop_reason=stop))
    if calls:
        result.append(ToolCallMessage(calls))
    return result


def _read_parts(content: object) -> str:
    parts = [as_object(part) or {} for part in as_list(content) or []]
    return "".join(text_or_empty(part.get("text")) for part in parts)


def _read_call(model: Model, body: object, call: object) -> ToolCall:
    found = as_object(call) or {}
    function = as_object(found.get("function"))
    name = text_or_empty(function.get("name")) if function is not None else ""
    if function is None or not name:
        raise unexpected(model, body, "a tool call names no function")
    return parse_call(text_or_empty(found.get("id")), name, function.get("arguments"))


def _usage(usage: object) -> Usage | None:
    found = as_object(usage)
    if found is None:
        return None
    asked = whole_number(found.get("prompt_tokens"))
    answered = whole_number(found.get("completion_tokens"))
    details = found.get("completion_tokens_details")
    prompt_details = found.get("prompt_tokens_details")
    reasoning = count(details, "reasoning_tokens") if details else 0
    # xAI counts reasoning beside the completion, OpenAI as a part of it; the total tells.
    if reasoning and count(usage, "total_tokens") == asked + answered + reasoning:
        answered += reasoning
    cached = count(prompt_details, "cached_tokens") if prompt_details else 0
    return Usage(asked, answered, cached, reasoning)
