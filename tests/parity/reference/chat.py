"""OpenAI's chat format, as TypeScript and as we write and read it."""

# JSON of any shape is read here.
# pyright: reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import copy
import json
import re
from typing import Any

from ..vectors import Json
from .core import UNDEFINED, Switches, engine_failure, our_failure, prose_failure
from .js import stringify
from .schemas import chat_tools
from .turns import Exchange, text_pieces, units, whole

_STOP = {"tool_calls": "tool", "function_call": "tool"}
_O_SERIES = re.compile(r"(?<![a-z0-9])o[134](?![a-z0-9])")
_EMPTY = "Continue."


def encode(
    model: dict[str, Json],
    messages: list[Json],
    tools: list[Json],
    choice: str,
    on: Switches,
) -> dict[str, Json]:
    """The body of a request."""
    options = model["options"]
    grok = model["provider"] == "grok"
    body: dict[str, Json] = {"messages": _messages(messages, grok=grok, on=on)}
    if tools:
        body["tool_choice"] = _choice(choice)
        if _parallel_is_known(options.get("model", ""), on):
            body["parallel_tool_calls"] = False
        body["tools"] = chat_tools(tools, strict=not grok, on=on)
    elif grok and not on("no-empty-tool-list"):
        body["tools"] = []
    defaults = copy.deepcopy(options.get("defaultParameters") or {})
    if not tools and "tool_choice" in defaults and on("defaults-without-tools"):
        del defaults["tool_choice"]
    body |= defaults
    body.setdefault("model", options.get("model"))
    return body


def _choice(choice: str) -> Json:
    names = {"auto": "auto", "any": "required"}
    return names.get(choice) or {"type": "function", "function": {"name": choice}}


def _parallel_is_known(name: str, on: Switches) -> bool:
    theirs = "o1" not in name and "o3" not in name
    ours = _O_SERIES.search(name) is None
    if theirs == ours:
        return ours
    return ours if on("o-series-by-name") else theirs


def _messages(messages: list[Json], *, grok: bool, on: Switches) -> list[Json]:
    messages = [message for message in messages if message["type"] != "reasoning"]
    plain = [_plain(message) for message in messages]
    complete = [found for unit in units(whole(messages)) for found in _unit(unit, grok=grok)]
    complete = complete or [{"role": "user", "content": _EMPTY}]
    if plain == complete:
        return plain
    return complete if on("histories-are-made-valid") else plain


def _plain(message: Json) -> Json:
    match message["type"]:
        case "text":
            return {"role": message["role"], "content": message["content"]}
        case "tool_call":
            calls = [_call(call) for call in message["tools"]]
            return {"role": "assistant", "content": None, "tool_calls": calls}
        case _:
            return _result(message)


def _call(call: Json) -> Json:
    arguments: dict[str, Json] = {}
    if "malformed" in call:
        arguments = {"arguments": stringify({"malformed_arguments": call["malformed"]})}
    elif "input" in call:
        arguments = {"arguments": stringify(call["input"])}
    function = {"name": call["name"], **arguments}
    return {"id": call["id"], "type": "function", "function": function}


def _result(message: Json) -> Json:
    content = message["content"]
    text = content if isinstance(content, str) else stringify(content)
    return {"role": "tool", "tool_call_id": message["tool"]["id"], "content": text}


def _unit(unit: Any, *, grok: bool) -> list[Json]:
    if not isinstance(unit, Exchange):
        if grok and not text_pieces(unit):
            return []
        return [_plain(unit)]
    asked = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{**_call(call), "id": name} for call, name in unit.named()],
    }
    given = [
        {**_result(message), "tool_call_id": name}
        for message, (_, name) in zip(unit.results, unit.named(), strict=True)
    ]
    return [asked, *given]


def decode(body: Json, on: Switches) -> list[Json]:
    """The messages of an answer that is no error.

    Raises:
        Failure: It cannot be read.
    """
    if not isinstance(body, dict) or not body.get("choices"):
        if on("answers-are-checked"):
            raise our_failure("ModelResponseError")
        return []
    found: list[Json] = []
    for choice in body["choices"]:
        found += _choice_messages(choice, on)
    return found


def _choice_messages(choice: dict[str, Json], on: Switches) -> list[Json]:
    message = choice.get("message")
    if message is None:
        return []
    calls = message.get("tool_calls") or []
    role = message.get("role", UNDEFINED)
    if role is UNDEFINED and on("answers-are-checked"):
        role = "assistant"
    base = {"role": role, "stop_reason": _stop(choice, calls, on)}
    found: list[Json] = []
    content = message.get("content")
    if isinstance(content, str) and content.strip():
        found.append({**base, "type": "text", "content": content})
    elif message.get("refusal") and on("refusals-are-text"):
        found.append({**base, "type": "text", "content": message["refusal"]})
    if calls:
        read = [_read_call(call, on) for call in calls]
        found.append({**base, "type": "tool_call", "tools": read})
    return found


def _stop(choice: dict[str, Json], calls: Json, on: Switches) -> str:
    theirs = _STOP.get(choice.get("finish_reason") or "", "stop")
    ours = "tool" if calls else "stop"
    if theirs == ours:
        return ours
    return ours if on("calls-go-on-whatever-the-finish-reason") else theirs


def _read_call(call: dict[str, Json], on: Switches) -> Json:
    function = call.get("function")
    if function is None:
        raise (
            our_failure("ModelResponseError") if on("typed-errors") else engine_failure("TypeError")
        )
    read: dict[str, Json] = {"type": "tool", "id": call.get("id"), "name": function["name"]}
    if not on("no-function-key"):
        read["function"] = function["name"]
    return read | _arguments(function.get("arguments"), on)


def _arguments(text: Json, on: Switches) -> dict[str, Json]:
    theirs = _their_arguments(text or "{}")
    ours = our_arguments(text or "{}")
    if theirs == ours:
        return ours
    if theirs is None:
        if on("malformed-arguments"):
            return ours
        raise prose_failure("bad-arguments")
    return ours if on("arguments-are-read-as-json-first") else theirs


def _their_arguments(text: str) -> dict[str, Json] | None:
    trimmed = re.sub("^[\"']", "", text)
    trimmed = re.sub("[\"']$", "", trimmed)
    try:
        return {"input": _loads(trimmed)}
    except ValueError:
        pass
    try:
        return {"input": _loads(re.sub("`([^`]*)`", lambda m: stringify(m[1]), trimmed))}
    except ValueError:
        return None


def our_arguments(text: str) -> dict[str, Json]:
    """Arguments as we read them: what cannot be read is kept as text."""
    if not text.strip():
        return {"input": {}}
    try:
        value = _loads(text)
    except ValueError:
        repaired = _their_arguments(text)
        if repaired is None:
            return {"input": {}, "malformed": text}
        value = repaired["input"]
    if isinstance(value, str):
        try:
            value = _loads(value)
        except ValueError:
            return {"input": {}, "malformed": text}
    return {"input": {} if value is None else value}


def _loads(text: str) -> Json:
    def refuse(constant: str) -> Json:
        raise ValueError(constant)

    return json.loads(text, parse_constant=refuse)
