"""OpenAI's chat format, as TypeScript and as we write and read it."""

from __future__ import annotations

import copy
import json
import math
import re
from typing import Any

from ..vectors import Json
from .core import UNDEFINED, Switches, engine_failure, our_failure, prose_failure
from .js import parsed, stringify, written
from .replies import CUT, cut
from .schemas import chat_tools
from .turns import Exchange, in_words, opaque, text_of, text_pieces, units, whole, with_names

_STOP = {"tool_calls": "tool", "function_call": "tool"}
_O_SERIES = re.compile(r"(?<![a-z0-9])o[134](?![a-z0-9])")
_REASONS = re.compile(r"(?<![a-z0-9])(o[134]|gpt-[5-9](?!.*-chat))(?![a-z0-9])")
_SAMPLING = {"temperature", "top_p", "logprobs", "top_logprobs"}
_NEVER = {"stop", "presence_penalty", "frequency_penalty"}
"""What models that reason refuse without any effort, too."""

_EMPTY = "Continue."
_EMPTY_RESULT = "(empty)"


def encode(
    model: dict[str, Json],
    messages: list[Json],
    tools: list[Json],
    choice: str,
    on: Switches,
) -> dict[str, Json]:
    """The body of a request."""
    options = model["options"]
    grok, deepseek = (model["provider"] == name for name in ("grok", "deepseek"))
    body: dict[str, Json] = {"messages": _messages(messages, grok=grok, on=on)}
    if deepseek:
        _put_reasoning(body["messages"], on)
    for message in body["messages"]:
        message.pop("_thought", None)
    if tools:
        body["tool_choice"] = _choice(choice)
        if _parallel_is_known(options.get("model", ""), on):
            body["parallel_tool_calls"] = False
        body["tools"] = chat_tools(tools, strict=not (grok or deepseek), theirs=not grok, on=on)
    elif grok and not on("no-empty-tool-list"):
        body["tools"] = []
    defaults = copy.deepcopy(options.get("defaultParameters") or {})
    without_choice(body, defaults, tools, on)
    if _REASONS.search(options.get("model", "").lower()):
        effort = defaults.get("reasoning_effort")
        for name in (_NEVER if effort == "none" else _NEVER | _SAMPLING) & defaults.keys():
            if on("sampling-where-it-is-taken"):
                del defaults[name]
        if "max_tokens" in defaults and on("sampling-where-it-is-taken"):
            most = defaults.pop("max_tokens")
            defaults.setdefault("max_completion_tokens", most)
    body |= defaults
    body.setdefault("model", options.get("model"))
    return body


def _put_reasoning(messages: list[Json], on: Switches) -> None:
    """Give DeepSeek its reasoning back, which it wants with every call."""
    for message in messages:
        thought = message.get("_thought", "")
        if (thought or "tool_calls" in message) and on("hosts-get-their-reasoning"):
            message["reasoning_content"] = thought


def _with_thoughts(messages: list[Json]) -> list[Json]:
    """The messages, the reasoning of a host on what it said after it."""
    found: list[Json] = []
    thoughts = ""
    for message in messages:
        if message["type"] == "reasoning":
            thoughts += message["content"] if message.get("_host") == "deepseek" else ""
            continue
        facts: dict[str, Json] = {}
        if thoughts and message["type"] == "tool_call" and message["tools"]:
            first, *rest = message["tools"]
            facts = {"tools": [first | {"_thought": thoughts}, *rest]}
        elif thoughts and message["role"] == "assistant":
            facts = {"_thought": thoughts}
        found.append(message | facts)
        thoughts = ""
    return found


def _thought(*said: Json) -> dict[str, Json]:
    """The reasoning of messages and calls, if there is any."""
    text = "".join(one.get("_thought", "") for one in said)
    return {"_thought": text} if text else {}


def _is_sent(message: Json) -> bool:
    """Return whether a message is for a host of this format; of parts without a type, its own."""
    if message["type"] != "opaque":
        return message["type"] != "reasoning"
    part = message["content"]
    return message["format"] == "chat" and any(
        name.startswith(part["type"]) for name in part if name != "type"
    )


def without_choice(body: Json, defaults: Json, tools: list[Json], on: Switches) -> None:
    """Leave out a choice of tools where none are sent."""
    for place in () if defaults.get("tools", tools) else (body, defaults):
        for name in {"tool_choice", "parallel_tool_calls"} & place.keys():
            if on("defaults-without-tools"):
                del place[name]


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
    messages = [m for m in _with_thoughts(messages) if _is_sent(m)]
    messages = with_names(messages, on)
    plain = [_plain(message, on) for message in messages]
    parts = units(whole(messages))
    complete = [found for unit in parts for found in _unit(unit, on, grok=grok)]
    complete = complete or [{"role": "user", "content": _EMPTY}]
    if plain != complete and not on("histories-are-made-valid"):
        return plain
    joined = _joined(units(whole(messages)), on, grok=grok)
    return joined if joined and joined != complete and on("chat-replies-are-whole") else complete


def _joined(found: list[Any], on: Switches, *, grok: bool) -> list[Json]:
    """The messages, with a text and the calls for which the model stopped after it in one."""
    joined: list[Json] = []
    before: list[Json] = []
    sent = 0
    for unit in found:
        made = _unit(unit, on, grok=grok)
        goes_on = isinstance(unit, Exchange) or (before and _is_part(before[-1]) and _is_part(unit))
        if before and goes_on:
            joined = joined[: len(joined) - sent]
            made = _with_words(before, unit, made, on, grok=grok)
        joined += made
        before = [*(before if goes_on else []), unit] if _goes_on(unit) else []
        sent = len(made)
    return joined


def _is_part(unit: Any) -> bool:
    """Return whether a unit is part of a list that a reply's content was."""
    return not isinstance(unit, Exchange) and (unit["type"] == "opaque" or "_chunk" in unit)


def _goes_on(unit: Any) -> bool:
    """Return whether more of the same reply may follow a unit."""
    if isinstance(unit, Exchange):
        return False
    return _is_part(unit) or unit.get("stop_reason") in ("tool", *CUT.values())


def _with_words(
    before: list[Json], unit: Any, made: list[Json], on: Switches, *, grok: bool
) -> list[Json]:
    """A unit with what the same reply said before it."""
    after = [m for _, m in unit.said] if isinstance(unit, Exchange) else [unit]
    content = _turn([*before, *after], on)
    if grok and isinstance(content, str) and not content.strip():
        content = None
    first = made[0] if made else {"role": "assistant"}
    facts = _thought(*before, *([first] if made else []))
    return [{**first, "content": content, **facts}, *made[1:]]


def _turn(said: list[Json], on: Switches) -> Json:
    """What a reply said: a list where it has parts that are no text."""
    chunks = [chunk for chunk in map(_chunk, said) if chunk.get("text") != ""]
    if any(chunk["type"] != "text" for chunk in chunks):
        return chunks
    if len(said) == 1:
        return _content(said[0]["content"], on)
    return "".join(map(text_of, said))


def _chunk(message: Json) -> Json:
    if message["type"] == "opaque":
        return message["content"]
    chunk = message.get("_chunk", {})
    whole = chunk.get("text") == message["content"]
    return chunk if whole else {"type": "text", "text": text_of(message)}


def _plain(message: Json, on: Switches) -> Json:
    match message["type"]:
        case "text":
            said = {"role": message["role"], "content": _content(message["content"], on)}
            return said | _thought(message)
        case "opaque":
            return {"role": "assistant", "content": [message["content"]]}
        case "tool_call":
            calls = [_call(call, on) for call in message["tools"]]
            asked = {"role": "assistant", "content": None, "tool_calls": calls}
            return asked | _thought(*message["tools"])
        case _:
            return _result(message, on)


def _content(content: Json, on: Switches) -> Json:
    ours = content
    if isinstance(content, list):
        ours = [part for part in content if part["text"]] or ""
    return ours if ours == content or on("empty-parts-are-left-out") else content


def _call(call: Json, on: Switches) -> Json:
    if "_custom" in call:
        return {"id": call["id"], **call["_custom"]}
    function = {"name": call["name"], **sent_arguments(call, on)}
    return {"id": call["id"], "type": "function", "function": function}


def sent_arguments(call: Json, on: Switches) -> dict[str, Json]:
    """A call's arguments as they go back, if it has any."""
    if "malformed" in call:
        return {"arguments": stringify({"malformed_arguments": call["malformed"]})}
    return {"arguments": _written(call, on)} if "input" in call else {}


def _written(call: Json, on: Switches) -> str:
    """The arguments as text: as the model wrote them, if they were not changed since."""
    theirs = written(call["input"], on)
    ours = call.get("_written", theirs)
    if ours == theirs or _loads(ours) != call["input"]:
        return theirs
    return ours if on("arguments-as-written") else theirs


def _result(message: Json, on: Switches) -> Json:
    content = message["content"]
    text = content if isinstance(content, str) else written(content, on)
    words = in_words(content)
    if words is not None and on("images-in-results"):
        text = words
    return {"role": "tool", "tool_call_id": message["tool"]["id"], "content": text}


def _unit(unit: Any, on: Switches, *, grok: bool) -> list[Json]:
    if not isinstance(unit, Exchange):
        if grok and not text_pieces(unit):
            return []
        return [_plain(unit, on)]
    said = [message for _, message in unit.said]
    words = _turn(said, on) if said else None
    asked = {
        "role": "assistant",
        "content": words if said and (not grok or any(map(text_pieces, said))) else None,
        "tool_calls": [{**_call(call, on), "id": name} for call, name in unit.named()],
        **_thought(*said, *unit.calls),
    }
    given = [
        {**_result(message, on), "tool_call_id": name}
        for message, (_, name) in zip(unit.results, unit.named(), strict=True)
    ]
    if grok:
        given = [{**one, "content": one["content"] or _EMPTY_RESULT} for one in given]
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
    asks = any(_calls(choice.get("message") or {}, on) for choice in body["choices"])
    for choice in body["choices"]:
        found += _choice_messages(choice, on, asks=asks)
    calls = any(message["type"] == "tool_call" for message in found)
    return cut(found, [_ending(choice, calls=calls) for choice in body["choices"]], on)


def _ending(choice: Json, *, calls: bool) -> Json:
    word = choice.get("finish_reason")
    refused = (choice.get("message") or {}).get("refusal") and not calls
    return "refusal" if refused and word not in CUT else word


def _calls(message: Json, on: Switches) -> list[Json]:
    """The calls of a message, or its single call in the older form of functions."""
    calls: list[Json] = message.get("tool_calls") or []
    older = message.get("function_call")
    return [{"function": older}] if older and not calls and on("older-calls-are-calls") else calls


def _choice_messages(choice: dict[str, Json], on: Switches, *, asks: bool) -> list[Json]:
    message = choice.get("message")
    if message is None:
        return []
    calls = _calls(message, on)
    role = message.get("role", UNDEFINED)
    if role is UNDEFINED and on("answers-are-checked"):
        role = "assistant"
    base = {"role": role, "stop_reason": _stop(choice, on, asks=asks)}
    content = message.get("content")
    if isinstance(content, list) and not on("text-in-parts"):
        raise engine_failure("TypeError")  # openai.ts: `message.content.trim()`
    found: list[Json] = []
    thought = message.get("reasoning_content")
    if thought and thought.strip() and on("thoughts-are-reasoning"):
        found.append({"type": "reasoning", "role": "assistant", "content": thought})
    found += _texts(message, base, on, calls=bool(calls))
    audio = message.get("audio")
    if audio and on("unknown-parts"):
        found.append(base | opaque({"type": "audio", "audio": audio}, "chat-audio"))
    if calls:
        found.append({**base, "type": "tool_call", "tools": [_read_call(c, on) for c in calls]})
    return found


def _texts(message: Json, base: Json, on: Switches, *, calls: bool) -> list[Json]:
    """What a choice says: a text, or the parts of a list of which some are no text."""
    content = message.get("content")
    if isinstance(content, list):
        if any(part.get("type", "text") != "text" for part in content):
            return [_part(part, base) for part in content]
        content = "".join(part["text"] for part in content)
    audio = message.get("audio") if on("unknown-parts") else None
    refused = message.get("refusal") or (audio or {}).get("transcript")
    if content and (content.strip() or (calls and on("blanks-before-calls-stay"))):
        return [{**base, "type": "text", "content": content}]
    if refused and not content and on("refusals-are-text"):
        return [{**base, "type": "text", "content": refused}]
    return []


def _part(part: Json, base: Json) -> Json:
    """A part of a list, of which some are no text."""
    if part["type"] == "text":
        return {**base, "type": "text", "content": part["text"], "_chunk": part}
    return base | opaque(part, "chat")


def _stop(choice: dict[str, Json], on: Switches, *, asks: bool) -> str:
    theirs = _STOP.get(choice.get("finish_reason") or "", "stop")
    ours = "tool" if asks else "stop"
    if theirs == ours:
        return ours
    return ours if on("calls-go-on-whatever-the-finish-reason") else theirs


def _read_call(call: dict[str, Json], on: Switches) -> Json:
    custom = call.get("custom") or {}
    if custom.get("name") and on("custom-calls-are-calls"):  # a tool that OpenAI defines
        said = {"input": custom.get("input") or ""}
        read = {"type": "tool", "id": call.get("id") or "", "name": custom["name"], "input": said}
        whole = isinstance(custom.get("input"), str)
        return read | ({"_custom": {"type": "custom", "custom": custom}} if whole else {})
    if not (call.get("function") or {}).get("name") and on("malformed-arguments"):
        return nameless_call(call)
    function = call["function"]
    read: dict[str, Json] = {
        "type": "tool",
        "id": call.get("id", UNDEFINED),
        "name": function.get("name", UNDEFINED),
    }
    if not isinstance(read["id"], str) and on("answers-are-checked"):
        read["id"] = ""
    if not on("no-function-key"):
        read["function"] = read["name"]
    return read | as_written(function.get("arguments")) | _arguments(function.get("arguments"), on)


UNNAMED = "malformed_function_call"


def nameless_call(call: dict[str, Json]) -> dict[str, Json]:
    """A call that names no tool, which its model can mend."""
    said = f"a call without a name: {stringify(call, python=True)}"
    shape = {"type": "tool", "id": call.get("id") or UNNAMED, "name": UNNAMED, "input": {}}
    return {**shape, "malformed": said}


def as_written(text: Json) -> dict[str, Json]:
    """What is kept of arguments that are an object: their text."""
    try:
        known = isinstance(text, str) and isinstance(_loads(text), dict)
    except ValueError:
        known = False
    return {"_written": text} if known else {}


def _arguments(text: Json, on: Switches) -> dict[str, Json]:
    if text and not isinstance(text, str):  # openai.ts: `str.replace`
        if on("arguments-are-read-as-json-first"):
            return {"input": text}
        raise engine_failure("TypeError")
    theirs = _their_arguments(text or "{}")
    ours = our_arguments(text or "{}")
    if theirs == ours:
        return ours
    if theirs is None:
        if on("malformed-arguments"):
            return ours
        raise prose_failure("bad-arguments")
    which = "arguments-are-read-as-json-first"
    if "malformed" in ours or ours == _their_arguments(text or "{}", javascript=False):
        which = "numbers-keep-their-digits"
    return ours if on(which) else theirs


def _their_arguments(text: str, *, javascript: bool = True) -> dict[str, Json] | None:
    def read(said: str) -> Json:
        value = _loads(said)
        return parsed(value) if javascript else value

    trimmed = re.sub("^[\"']", "", text)
    trimmed = re.sub("[\"']$", "", trimmed)
    try:
        return {"input": read(trimmed)}
    except ValueError:
        pass
    try:
        return {"input": read(re.sub("`([^`]*)`", lambda m: stringify(m[1]), trimmed))}
    except ValueError:
        return None


def our_arguments(text: str) -> dict[str, Json]:
    """Arguments as we read them: what cannot be read is kept as text."""
    if not text.strip():
        return {"input": {}}
    try:
        value = _loads(text)
    except ValueError:
        repaired = _their_arguments(text, javascript=False)
        if repaired is None:
            return {"input": {}, "malformed": text}
        value = repaired["input"]
    if _has_infinity(value):
        return {"input": {}, "malformed": text}
    if isinstance(value, str):
        try:
            value = _loads(value)
        except ValueError:
            return {"input": {}, "malformed": text}
    return {"input": {} if value is None else value}


def _has_infinity(value: Json) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_infinity, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and math.isinf(value)


def _loads(text: str) -> Json:
    def refuse(constant: str) -> Json:
        raise ValueError(constant)

    return json.loads(text, parse_constant=refuse)
