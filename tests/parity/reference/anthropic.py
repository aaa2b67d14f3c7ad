"""Anthropic's Messages format, as TypeScript and as we write and read it."""

# JSON of any shape is read here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import copy
import json
import re
from typing import Any

from ..vectors import Json
from .chat import our_arguments
from .core import UNDEFINED, Switches, engine_failure, our_failure
from .js import stringify
from .schemas import anthropic_tools
from .turns import (
    Exchange,
    all_on,
    arguments_object,
    closing,
    closing_words,
    is_thought,
    result_text,
    text_pieces,
    units,
    whole,
)


def encode(
    model: dict[str, Json],
    messages: list[Json],
    tools: list[Json],
    choice: str,
    on: Switches,
    *,
    agent: str,
    prefill: int,
) -> dict[str, Json]:
    """The body of a request."""
    options = model["options"]
    defaults = copy.deepcopy(options.get("defaultParameters"))
    if defaults is None:
        if not on("anthropic-needs-no-parameters"):
            raise engine_failure("TypeError")
        defaults = {"max_tokens": 4096}
    theirs: dict[str, Json] = {
        "system": _their_system(messages),
        "messages": _their_messages(messages),
    }
    continues = _continues(options, choice if tools else "auto")
    ours = _ours(messages, agent=agent, prefill=prefill, tools=bool(tools), continues=continues)
    body: dict[str, Json] = theirs
    if theirs != ours and all_on(on, _causes(messages, prefill)):
        body = ours
    body |= {"model": options["model"], "max_tokens": defaults.get("max_tokens", 4096)}
    if tools:
        body["tools"] = anthropic_tools(tools, on)
        named = choice not in ("auto", "any")
        body["tool_choice"] = {"type": "tool", "name": choice} if named else {"type": choice}
    elif "tool_choice" in defaults and on("defaults-without-tools"):
        del defaults["tool_choice"]
    return body | defaults


def _causes(messages: list[Json], prefill: int) -> list[str]:
    """Why the two bodies differ: one divergence for each thing that TypeScript does otherwise."""
    rest = messages[: len(messages) - prefill]
    found: list[str] = []
    if any(m["type"] == "text" and isinstance(m["content"], list) for m in messages):
        found.append("anthropic-array-text")
    if prefill:
        found.append("anthropic-prefill")
    if closing(units(whole(rest))) is not None:
        found.append("anthropic-closing-text")
    if sum(m["role"] == "system" for m in messages) > 1:
        found.append("anthropic-all-system-messages")
    return found or ["anthropic-turns-alternate"]


def _their_system(messages: list[Json]) -> str:
    first = next((m for m in messages if m["type"] == "text" and m["role"] == "system"), None)
    content = first["content"] if first is not None else ""
    return content if isinstance(content, str) else ""


def _their_messages(messages: list[Json]) -> list[Json]:
    said = [m for m in messages if m["role"] != "system" and m["type"] != "reasoning"]
    found = [_their_message(m) for m in said]
    if found and found[-1]["role"] == "assistant":
        found[-1]["role"] = "user"
    return found


def _their_message(message: Json) -> Json:
    match message["type"]:
        case "text":
            content = message["content"]
            if isinstance(content, list):
                content = [{"type": "text", "text": part} for part in content]
            return {"role": message["role"], "content": content}
        case "tool_call":
            blocks = [_use(call, call["id"], call.get("input")) for call in message["tools"]]
            return {"role": message["role"], "content": blocks}
        case _:
            block = _result(message["tool"]["id"], message)
            return {"role": "user", "content": [block]}


def _use(call: Json, name: str, given: Json) -> Json:
    return {"type": "tool_use", "id": name, "input": given, "name": call["name"]}


def _result(name: str, message: Json) -> Json:
    return {"type": "tool_result", "tool_use_id": name, "content": result_text(message)}


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?")


def _continues(options: dict[str, Json], choice: str) -> bool:
    """Return whether the model accepts a prefill: until 4.5, if it does not think."""
    version = _VERSION.search(options["model"])
    if version is None or (int(version[1]), int(version[2] or 0)) >= (4, 6) or choice != "auto":
        return False
    thinking = (options.get("defaultParameters") or {}).get("thinking") or {}
    return thinking.get("type", "disabled") == "disabled"


def _ours(
    messages: list[Json], *, agent: str, prefill: int, tools: bool, continues: bool
) -> dict[str, Json]:
    ending = messages[len(messages) - prefill :]
    conversation = units(whole(messages[: len(messages) - prefill]))
    last = closing(conversation)
    turns: list[tuple[str, list[Json]]] = []
    thoughts: list[Json] = []
    for unit in conversation:
        if is_thought(unit):
            thoughts += _own_thought(unit)
            continue
        for role, blocks in _blocks(unit, last, agent, tools=tools):
            _add(turns, role, [*thoughts, *blocks] if role == "assistant" and blocks else blocks)
            thoughts = [] if blocks else thoughts
    if turns and turns[0][0] == "assistant":
        turns.insert(0, ("user", [_text("(The conversation so far:)")]))
    beginning = "".join(p for m in ending for p in text_pieces(m)).rstrip()
    _finish(turns, beginning, continues=continues)
    system = [p for m in conversation if _is_system(m) for p in text_pieces(m)]
    body: dict[str, Json] = {"system": "\n\n".join(system)} if system else {}
    return {**body, "messages": [{"role": r, "content": _content(b)} for r, b in turns]}


def _is_system(unit: Any) -> bool:
    return not isinstance(unit, Exchange) and unit["role"] == "system"


def _add(turns: list[tuple[str, list[Json]]], role: str, blocks: list[Json]) -> None:
    if blocks and turns and turns[-1][0] == role:
        turns[-1][1].extend(blocks)
    elif blocks:
        turns.append((role, list(blocks)))


def _blocks(unit: Any, last: Json, agent: str, *, tools: bool) -> list[tuple[str, list[Json]]]:
    if isinstance(unit, Exchange):
        return _exchange(unit) if tools else _told(unit)
    if _is_system(unit):
        return []
    if unit is last:
        return [("user", [_text(closing_words(unit, agent))])]
    return [(unit["role"], [_text(piece) for piece in text_pieces(unit)])]


def _exchange(unit: Exchange) -> list[tuple[str, list[Json]]]:
    named = unit.named()
    return [
        ("assistant", [_use(call, name, arguments_object(call)) for call, name in named]),
        ("user", [_result(n, m) for m, (_, n) in zip(unit.results, named, strict=True)]),
    ]


def _told(unit: Exchange) -> list[tuple[str, list[Json]]]:
    calls = [
        f"[Called tool {call['name']} with {stringify(arguments_object(call))}]"
        for call in unit.calls
    ]
    results = [
        f"[Result of tool {c['name']}: {result_text(m)}]"
        for c, m in zip(unit.calls, unit.results, strict=True)
    ]
    return [("assistant", [_text(t) for t in calls]), ("user", [_text(t) for t in results])]


def _finish(turns: list[tuple[str, list[Json]]], prefill: str, *, continues: bool) -> None:
    if prefill and not continues:
        words = "Begin your reply with exactly this text, and continue from there:\n\n"
        _add(turns, "user", [_text(words + prefill)])
    if not turns:
        _add(turns, "user", [_text("Continue.")])
    if prefill and continues:
        _add(turns, "assistant", [_text(prefill)])


def _own_thought(message: Json) -> list[Json]:
    block = message.get("_block", {})
    signed = "signature" in block if block.get("type") == "thinking" else "data" in block
    return [block] if signed else []


def _content(blocks: list[Json]) -> Json:
    only = blocks[0] if len(blocks) == 1 else {}
    return only["text"] if only.get("type") == "text" else blocks


def decode(body: Json, on: Switches) -> list[Json]:
    """The messages of an answer that is no error.

    Raises:
        Failure: It cannot be read.
    """
    if not isinstance(body, dict) or not {"type", "content"} & body.keys():
        if on("answers-are-checked"):
            raise our_failure("ModelResponseError")
        return []
    found: list[Json] = []
    blocks = body.get("content") or []
    for block in blocks:
        if block["type"] in ("text", "tool_use"):
            found.append(_block(block, body, on))
        elif not on("thinking-blocks"):
            raise engine_failure("TypeError")
        elif "thinking" in block["type"]:
            thought = {"type": "reasoning", "role": "assistant", "_block": block}
            found.append({**thought, "content": block.get("thinking", "")})
    calls = [m for m in found if m["type"] == "tool_call"]
    rest = [m for m in found if m["type"] != "tool_call"]
    return [*rest, *calls] if found != [*rest, *calls] and on("calls-last") else found


def _block(block: Json, body: Json, on: Switches) -> Json:
    if block["type"] == "text":
        return {
            "type": "text",
            "role": body.get("role", "assistant"),
            "content": block["text"],
            "stop_reason": "stop",
        }
    call = {"type": "tool", "id": block["id"], "name": block["name"], **_input(block, on)}
    return {
        "type": "tool_call",
        "role": body.get("role", "assistant"),
        "stop_reason": "tool",
        "tools": [call],
    }


def _input(block: Json, on: Switches) -> dict[str, Json]:
    given = block.get("input", UNDEFINED)
    if not isinstance(given, str):
        missing = given is UNDEFINED or given is None
        return {"input": {} if missing and on("missing-arguments") else given}
    ours = our_arguments(given)
    try:
        theirs = {"input": json.loads(given)}
    except ValueError:
        theirs = {"input": given}
    return ours if theirs != ours and on("malformed-arguments") else theirs
