"""Tool arguments as models write them: JSON, more or less."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from agentkit_py._core.json import JsonValue, dumps
from agentkit_py.messages import ToolCall

MALFORMED_KEY = "malformed_arguments"
"""Under this name a model gets back the arguments that were no JSON, where an object is due."""

VALUE_KEY = "value"
"""Under this name arguments that are JSON but no object go back where an object is due."""

_BACKTICKS = re.compile(r"`([^`]*)`")


def parse_call(
    call_id: str, name: str, arguments: object, metadata: dict[str, Any] | None = None
) -> ToolCall:
    """The call with its arguments read; what cannot be read is kept in `ToolCall.malformed`.

    Missing arguments are none at all. Text is JSON, with what TypeScript's AgentKit repairs: a
    stray quote around it, and values in backticks. JSON in a JSON string is read too.
    """
    if arguments is None:
        return ToolCall(call_id, name, {}, provider_metadata=metadata)
    if not isinstance(arguments, str):
        return ToolCall(call_id, name, _as_json(arguments), provider_metadata=metadata)
    if not arguments.strip():
        return ToolCall(call_id, name, {}, provider_metadata=metadata)
    try:
        value = _read(arguments)
    except (ValueError, RecursionError):
        return ToolCall(call_id, name, {}, malformed=arguments, provider_metadata=metadata)
    return ToolCall(call_id, name, {} if value is None else value, provider_metadata=metadata)


def arguments_object(call: ToolCall) -> dict[str, Any]:
    """The call's arguments for a provider that takes nothing but objects."""
    if call.malformed is not None:
        return {MALFORMED_KEY: call.malformed}
    if isinstance(call.input, dict):
        return call.input
    return {VALUE_KEY: call.input}


def arguments_text(call: ToolCall) -> str:
    """The call's arguments as JSON text, always valid JSON."""
    if call.malformed is not None:
        return dumps({MALFORMED_KEY: call.malformed})
    return dumps(call.input)


def _read(text: str) -> JsonValue:
    try:
        value = _loads(text)
    except ValueError:
        value = _repaired(text)
    # A string is never a tool's arguments: some models encode the object twice.
    return _loads(value) if isinstance(value, str) else value


def _repaired(text: str) -> JsonValue:
    unquoted = text.removeprefix('"').removeprefix("'").removesuffix('"').removesuffix("'")
    try:
        return _loads(unquoted)
    except ValueError:
        return _loads(_BACKTICKS.sub(lambda match: dumps(match[1]), unquoted))


def _loads(text: str) -> JsonValue:
    if text[:1] == "{" and text[-1:] == "}":  # no spaces around it to look for
        value, end = _decoder.raw_decode(text)
        if end == len(text):
            return value
    return _decoder.decode(text)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse)
"""`json.loads` would make one for each call."""


def _as_json(value: Any) -> JsonValue:
    return value
