"""Gemini's format, as TypeScript and as we write and read it."""

# JSON of any shape is read here.
# pyright: reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import copy
import itertools
from typing import Any

from ..vectors import Json
from .chat import our_arguments
from .core import UNDEFINED, Switches, our_failure, prose_failure
from .schemas import gemini_tools
from .turns import (
    Exchange,
    all_on,
    arguments_object,
    closing,
    closing_words,
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
    """The body of a request.

    Raises:
        Failure: In TypeScript, a message with calls but none in it.
    """
    messages = [message for message in messages if message["type"] != "reasoning"]
    defaults = copy.deepcopy(model["options"].get("defaultParameters") or {})
    ours = _ours(messages, agent, prefill)
    differs = all_on(on, _causes(messages, prefill))
    body: dict[str, Json] = ours if differs else {"contents": _theirs(messages)}
    if tools:
        body["tools"] = [{"functionDeclarations": gemini_tools(tools, on)}]
        mode = {"functionCallingConfig": _choice(choice)}
        body["toolConfig" if on("gemini-tool-config") else "tool_config"] = mode
    return defaults | body


def _causes(messages: list[Json], prefill: int) -> list[str]:
    """Why the two bodies differ: one divergence for each thing that TypeScript does otherwise."""
    rest = messages[: len(messages) - prefill]
    found = ["gemini-system-instruction"]
    if prefill:
        found.append("gemini-prefill")
    if any(m["type"] == "tool_call" and len(m["tools"]) != 1 for m in messages):
        found.append("gemini-all-calls-of-a-message")
    if closing(units(whole(rest))) is not None:
        found.append("gemini-closing-text")
    roles = [m["role"] for m in rest if m["role"] != "system"]
    if any(a == b for a, b in itertools.pairwise(roles)):
        found.append("gemini-turns-alternate")
    return found


def _choice(choice: str) -> dict[str, Json]:
    if choice in ("auto", "any"):
        return {"mode": choice.upper()}
    return {"mode": "ANY", "allowedFunctionNames": [choice]}


def _theirs(messages: list[Json]) -> list[Json]:
    return [_their_content(message) for message in messages]


def _their_content(message: Json) -> Json:
    if message["type"] == "text":
        content = message["content"]
        text = content if isinstance(content, str) else "".join(part["text"] for part in content)
        role = "model" if message["role"] == "assistant" else "user"
        return {"role": role, "parts": [{"text": text}]}
    if message["type"] == "tool_call":
        if not message["tools"]:
            raise prose_failure("no-calls")
        call = message["tools"][0]
        asked = {"name": call["name"], "args": call.get("input", UNDEFINED)}
        return {"role": "model", "parts": [{"functionCall": asked}]}
    return {"role": "user", "parts": [_response(message["tool"], message)]}


def _response(call: Json, message: Json) -> Json:
    name = call["name"]
    response = {"name": name, "content": result_text(message)}
    return {"functionResponse": {"name": name, "response": response}}


def _ours(messages: list[Json], agent: str, prefill: int) -> dict[str, Json]:
    ending = messages[len(messages) - prefill :]
    conversation = units(whole(messages[: len(messages) - prefill]))
    last = closing(conversation)
    contents: list[Json] = []
    for unit in conversation:
        for role, parts in _turns(unit, last, agent):
            _add(contents, role, parts)
    beginning = "".join(p for m in ending for p in text_pieces(m)).rstrip()
    if beginning:
        words = "Begin your reply with exactly this text, and continue from there:\n\n"
        _add(contents, "user", [{"text": words + beginning}])
    if not contents:
        _add(contents, "user", [{"text": "Continue."}])
    said = [
        piece
        for unit in conversation
        if not isinstance(unit, Exchange) and unit["role"] == "system"
        for piece in text_pieces(unit)
    ]
    system = {"systemInstruction": {"parts": [{"text": "\n\n".join(said)}]}} if said else {}
    return {**system, "contents": contents}


def _add(contents: list[Json], role: str, parts: list[Json]) -> None:
    if not parts:
        return
    if not contents and role == "model":
        contents.append({"role": "user", "parts": [{"text": "(The conversation so far:)"}]})
    if contents and contents[-1]["role"] == role:
        contents[-1]["parts"].extend(parts)
    else:
        contents.append({"role": role, "parts": list(parts)})


def _turns(unit: Any, last: Json, agent: str) -> list[tuple[str, list[Json]]]:
    if isinstance(unit, Exchange):
        asked = [
            {"functionCall": {"name": c["name"], "args": arguments_object(c)}} for c in unit.calls
        ]
        given = [_response(c, m) for c, m in zip(unit.calls, unit.results, strict=True)]
        return [("model", asked), ("user", given)]
    if unit["role"] == "system":
        return []
    if unit is last:
        return [("user", [{"text": closing_words(unit, agent)}])]
    pieces = text_pieces(unit)
    role = "user" if unit["role"] == "user" else "model"
    return [(role, [{"text": "".join(pieces)}])] if pieces else []


def decode(body: Json, on: Switches) -> list[Json]:
    """The messages of an answer that is no error.

    Raises:
        Failure: It cannot be read.
    """
    candidates = body.get("candidates") or [] if isinstance(body, dict) else []
    if not candidates and on("answers-are-checked"):
        raise our_failure("ModelResponseError")
    found: list[Json] = []
    for candidate in candidates:
        content = candidate.get("content") or {}
        for part in content.get("parts") or []:
            found += _part(part, content, on)
    found = _with_ids(found, body, on)
    reason = candidates[0].get("finishReason", "") if candidates else ""
    fine = reason in ("", "STOP", "MAX_TOKENS") or (found and reason != "MALFORMED_FUNCTION_CALL")
    if not fine and on("answers-are-checked"):
        raise our_failure("ModelResponseError")
    return _stopped(found, on)


def _part(part: Json, content: Json, on: Switches) -> list[Json]:
    known = "text" in part or "functionCall" in part
    if (not known or content.get("role") != "model") and not on("unknown-parts"):
        raise prose_failure("unknown-content")
    if "functionCall" in part:
        asked = part["functionCall"]
        given = asked.get("args", UNDEFINED)
        if given is UNDEFINED and on("missing-arguments"):
            given = {}
        read: dict[str, Json] = {"input": given}
        if isinstance(given, str) and on("arguments-are-read-as-json-first"):
            read = our_arguments(given)
        call = {"name": asked["name"], **read, "type": "tool", "id": asked["name"]}
        shape = {"role": "assistant", "type": "tool_call", "stop_reason": "tool"}
        return [{**shape, "tools": [call]}]
    if "text" not in part:
        return []
    return [{"role": "assistant", "type": "text", "content": part["text"]}]


def _with_ids(found: list[Json], body: Json, on: Switches) -> list[Json]:
    counts: dict[str, int] = {}
    number = 0
    for message in found:
        for call in message.get("tools", []):
            number += 1
            counts[call["name"]] = counts.get(call["name"], 0) + 1
            own = (
                f"{call['name']}_{counts[call['name']]}"
                if counts[call["name"]] > 1
                else call["name"]
            )
            if body.get("responseId"):
                own = f"{body['responseId']}_{number}"
            if own != call["id"] and on("gemini-call-ids"):
                call["id"] = own
    return found


def _stopped(found: list[Json], on: Switches) -> list[Json]:
    texts = [m for m in found if m["type"] == "text"]
    if not texts or not on("gemini-texts-stop"):
        return found
    calls = any(m["type"] == "tool_call" for m in found)
    for message in texts:
        message["stop_reason"] = "tool" if calls else "stop"
    rest = [m for m in found if m["type"] != "tool_call"]
    return [*rest, *(m for m in found if m["type"] == "tool_call")]
