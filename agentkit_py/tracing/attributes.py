"""Attributes of spans, under the names of the GenAI conventions. Pure functions."""

from __future__ import annotations

import logging
import traceback
from asyncio import CancelledError
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

from agentkit_py._core.json import JsonValue, as_object, dumps
from agentkit_py._core.secrets import without_secrets
from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import EmptyReplyError, ModelHTTPError
from agentkit_py.events.types import GuardrailChecked
from agentkit_py.messages import (
    Finish,
    Message,
    OpaqueMessage,
    ReasoningMessage,
    TextContent,
    TextMessage,
    ToolCallMessage,
    Usage,
    without_ciphers,
)
from agentkit_py.models.base import Model, ModelReply, ModelRequest
from agentkit_py.models.blocks import end_of
from agentkit_py.processors.redaction import Redactor

T = TypeVar("T")
logger: logging.Logger = get_logger("agentkit_py.tracing")

Attributes: TypeAlias = dict[str, str | bool | int | float | Sequence[str]]

OPERATION = "gen_ai.operation.name"
ERROR = "error.type"
PROVIDERS: Mapping[str, str] = {
    "azure-openai": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "grok": "x_ai",
    "openai-responses": "openai",
    "vertex": "gcp.vertex_ai",
}
"""The conventions' names of providers, where ours differ."""

_PARAMETERS: Mapping[str, tuple[str, type]] = {
    "temperature": ("gen_ai.request.temperature", float),
    "top_p": ("gen_ai.request.top_p", float),
    "top_k": ("gen_ai.request.top_k", float),
    "seed": ("gen_ai.request.seed", int),
    "frequency_penalty": ("gen_ai.request.frequency_penalty", float),
    "presence_penalty": ("gen_ai.request.presence_penalty", float),
    "max_tokens": ("gen_ai.request.max_tokens", int),
    "max_completion_tokens": ("gen_ai.request.max_tokens", int),
    "max_output_tokens": ("gen_ai.request.max_tokens", int),
    "maxOutputTokens": ("gen_ai.request.max_tokens", int),
    "topP": ("gen_ai.request.top_p", float),
    "topK": ("gen_ai.request.top_k", float),
}
"""Providers' names of parameters."""


def of_model(model: Model) -> Attributes:
    """Return the model, its address and its parameters."""
    found: Attributes = {
        "gen_ai.provider.name": PROVIDERS.get(model.provider, model.provider),
        "gen_ai.request.model": model.model,
    }
    try:
        parts = urlsplit(model.base_url)
        address, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:  # an invalid base_url: the call fails
        address = port = None
    if address:
        found["server.address"] = address
        if port is not None:
            found["server.port"] = port
    parameters = dict(model.default_parameters)
    nested = as_object(parameters.get("generationConfig")) or {}  # Gemini's place for them
    for name, value in {**nested, **parameters}.items():
        known = _PARAMETERS.get(name)
        if known is not None and isinstance(value, int | float) and not isinstance(value, bool):
            found[known[0]] = known[1](value)
    return found


_PORTS = {"https": 443, "http": 80}


def of_reply(body: object, reply: ModelReply) -> Attributes:
    """Return the model that answered, its finish reason and its tokens."""
    found: Attributes = {}
    fields = as_object(body) or {}
    for attribute, names in _REPLY_FIELDS.items():
        value = next((fields[name] for name in names if isinstance(fields.get(name), str)), None)
        if value:
            found[attribute] = value
    if reply.finish is not None:
        found |= _of_end(reply.finish)
    if reply.usage is not None:
        found.update(of_usage(reply.usage))
    return found


def _of_end(finish: Finish) -> Attributes:
    return {
        "gen_ai.response.finish_reasons": (finish.word or finish.reason,),
        "agentkit.finish_reason": finish.reason,
    }


_REPLY_FIELDS = {
    "gen_ai.response.id": ("id", "responseId"),
    "gen_ai.response.model": ("model", "modelVersion"),
}


def of_usage(usage: Usage) -> Attributes:
    """Return the tokens."""
    found: Attributes = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
    if usage.cached_tokens:
        found["gen_ai.usage.cache_read.input_tokens"] = usage.cached_tokens
    if usage.cache_write_tokens:
        found["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write_tokens
    if usage.reasoning_tokens:
        found["gen_ai.usage.reasoning.output_tokens"] = usage.reasoning_tokens
    return found


def of_error(error: BaseException) -> Attributes:
    """Return the class of an error, without its text, which may quote content."""
    cancelled = isinstance(error, CancelledError)
    found: Attributes = {ERROR: "cancelled" if cancelled else type(error).__name__}
    if isinstance(error, ModelHTTPError):
        found["http.response.status_code"] = error.status
    if isinstance(error, EmptyReplyError):
        found |= _of_end(end_of(error))
        if error.usage is not None:
            found |= of_usage(error.usage)
    return found


def of_guardrail(event: GuardrailChecked) -> Attributes:
    """Return the kind of a stop, without the reason, which may quote content."""
    found: Attributes = {
        "agentkit.guardrail.name": event.guardrail,
        "agentkit.guardrail.stage": event.stage,
    }
    if event.tool is not None:
        found["gen_ai.tool.name"] = event.tool
    if event.model_call is not None:
        found["agentkit.guardrail.model_call"] = event.model_call
    return found


_LEFT_OUT = "(left out)"


def _json(value: Any) -> str:
    """Return JSON that exporters can write: replies may hold half of a surrogate pair."""
    return dumps(value)


def exception_attributes(error: Exception, words: Words | None) -> Attributes:
    """Return an exception as OpenTelemetry has it: its text, which may quote content, with words.

    The stack alone holds files and lines of code, and no values.
    """
    found: Attributes = {"exception.type": type(error).__name__}
    if words is None:
        found["exception.stacktrace"] = "".join(traceback.format_tb(error.__traceback__))
        return found
    found["exception.message"] = words.text(without_secrets(str(error)))
    stack = "".join(traceback.format_exception(error))
    found["exception.stacktrace"] = words.text(without_secrets(stack))
    return found


class Words:
    """Content as attributes; masked if there is a redactor.

    Content that cannot be masked or written is left out: tracing must not end a run.
    """

    def __init__(self, redactor: Redactor | None) -> None:
        """Write with a redactor, or unmasked."""
        self._redactor = redactor
        self._warned = False

    def text(self, text: str) -> str:
        """Return a text, masked."""

        def masked() -> str:
            found = text if self._redactor is None else self._redactor.text(text)
            return found.encode("utf-8", "replace").decode()

        return self._safe(masked, _LEFT_OUT)

    def value(self, value: JsonValue) -> str:
        """Return JSON as text, masked."""
        return self._safe(lambda: self._value(value), _LEFT_OUT)

    def request(self, request: ModelRequest) -> Attributes:
        """Return system prompt, messages and tools of a request."""
        return self._safe(lambda: self._request(request), {})

    def reply(self, reply: ModelReply) -> Attributes:
        """Return the messages of a reply."""
        return self._safe(lambda: self._reply(reply), {})

    def _safe(self, make: Callable[[], T], otherwise: T) -> T:
        try:
            return make()
        except Exception as error:  # noqa: BLE001 - whatever a redactor raises
            if not self._warned:  # without the error's text, which may quote content
                name = type(error).__name__
                logger.error("Content is left out of spans: masking or writing it: %s", name)  # noqa: TRY400 - the traceback might show content
            self._warned = True
            return otherwise

    def _value(self, value: JsonValue) -> str:
        return _json(value if self._redactor is None else self._redactor.value(value))

    def _request(self, request: ModelRequest) -> Attributes:
        system, rest = _split(request.messages)
        shown = [{"role": _role(m), "parts": self._parts(m)} for m in rest]
        found: Attributes = {"gen_ai.input.messages": _json(shown)}
        if system:
            parts = [part for message in system for part in self._parts(message)]
            found["gen_ai.system_instructions"] = _json(parts)
        if request.tools:
            tools = [
                {"type": "function", "name": t.name, "description": t.description}
                | ({"parameters": t.parameters} if t.parameters is not None else {})
                for t in request.tools
            ]
            found["gen_ai.tool.definitions"] = self._value(tools)
        return found

    def _reply(self, reply: ModelReply) -> Attributes:
        parts = [part for message in reply.messages for part in self._parts(message)]
        message = {"role": "assistant", "parts": parts, "finish_reason": reply.finish_reason or ""}
        return {"gen_ai.output.messages": _json([message])}

    def _parts(self, message: Message) -> list[dict[str, Any]]:
        if self._redactor is not None:
            message = self._redactor.message(message)
        if isinstance(message, ToolCallMessage):
            return [
                {"type": "tool_call", "id": c.id, "name": c.name, "arguments": c.arguments}
                for c in message.tools
            ]
        if isinstance(message, TextMessage | ReasoningMessage):
            kind = "text" if isinstance(message, TextMessage) else "reasoning"
            content = message.content
            if isinstance(content, str):
                return [{"type": kind, "content": content}]
            return [
                {"type": kind, "content": part.text}
                if isinstance(part, TextContent)
                else {"type": part.type}  # an image or file is not copied into a trace
                for part in content
            ]
        if isinstance(message, OpaqueMessage):
            return [_hosted(message)]
        call, result = message.tool, message.content
        return [{"type": "tool_call_response", "id": call.id, "response": result}]


def _hosted(message: OpaqueMessage) -> dict[str, Any]:
    """Return a hosted tool's activity, or another block without a type, as OpenTelemetry has it."""
    content = without_ciphers(message.content)
    if not message.tool:
        return {"type": message.kind, "content": content}
    about = {"id": message.call_id, "name": message.tool}
    if message.part == "result":
        return {"type": "server_tool_call_response", **about, "response": content}
    return {"type": "server_tool_call", **about, "arguments": content}


def _role(message: Message) -> str:
    return "tool" if message.type == "tool_result" else getattr(message, "role", "assistant")


def _split(messages: Sequence[Message]) -> tuple[Sequence[Message], Sequence[Message]]:
    """Return the leading system messages, and the rest."""
    count = 0
    while count < len(messages) and getattr(messages[count], "role", "") == "system":
        count += 1
    return messages[:count], messages[count:]
