"""Providers' rules for the order of a history, in the reference model."""

# JSON of any shape is read here.
# pyright: reportUnknownVariableType=false

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias

from ..vectors import Json
from .core import Switches
from .js import stringify

MISSING = {"error": {"name": "MissingToolResult", "message": "<ours>"}}
"""The answer to a call that has none; the words are our own."""

_ANSWER = {
    "type": "tool_result",
    "role": "tool_result",
    "content": MISSING,
    "stop_reason": "tool",
}


@dataclass(slots=True)
class Exchange:
    """Calls that stand together, each with its result."""

    calls: list[Json] = field(default_factory=list[Json])
    results: list[Json] = field(default_factory=list[Json])
    names: list[str] = field(default_factory=list[str])

    def named(self) -> list[tuple[Json, str]]:
        """Each call with the id it has on the wire."""
        return list(zip(self.calls, self.names, strict=True))


Unit: TypeAlias = Exchange | dict[str, Json]


def all_on(on: Switches, causes: list[str]) -> bool:
    """Return whether all these divergences are on; each is asked, so that each is recorded."""
    return sum(on(cause) for cause in causes) == len(causes)


def whole(messages: list[Json]) -> list[Json]:
    """The messages with all calls answered, and without results of no call and empty calls."""
    result: list[Json] = []
    index = 0
    while index < len(messages):
        message = messages[index]
        if message["type"] == "tool_call":
            group, index = _group(messages, index)
            result += group
            continue
        if message["type"] != "tool_result":
            result.append(message)
        index += 1
    return result


def _group(messages: list[Json], index: int) -> tuple[list[Json], int]:
    calls: list[Json] = []
    while index < len(messages) and messages[index]["type"] == "tool_call":
        calls.append(messages[index])
        index += 1
    later = [m for m in messages[index:] if m["type"] == "tool_result"]
    answers: list[Json] = []
    for call in [call for message in calls for call in message["tools"]]:
        found = next((m for m in later if _answers(m, call)), None)
        if found is None:
            found = {**_ANSWER, "tool": call}
        else:
            later = [m for m in later if m is not found]
        answers.append(found)
    while index < len(messages) and any(messages[index] is m for m in answers):
        index += 1
    return [*[m for m in calls if m["tools"]], *answers], index


def _answers(result: Json, call: Json) -> bool:
    tool = result["tool"]
    return tool["id"] == call["id"] and tool["name"] == call["name"]


def units(messages: list[Json]) -> list[Unit]:
    """Texts, and groups of calls with their results; call ids unique."""
    found: list[Unit] = []
    used: set[str] = set()
    for message in messages:
        last = found[-1] if found else None
        if message["type"] in ("text", "reasoning"):
            found.append(message)
        elif message["type"] == "tool_call":
            if not isinstance(last, Exchange) or last.results:
                last = Exchange()
                found.append(last)
            last.calls += message["tools"]
            last.names += [_name(call["id"], used) for call in message["tools"]]
        elif isinstance(last, Exchange):
            last.results.append(message)
    for unit in found:
        if isinstance(unit, Exchange):
            unit.results = _in_order(unit)
    return found


def _in_order(unit: Exchange) -> list[Json]:
    waiting = list(unit.results)
    ordered: list[Json] = []
    for call in unit.calls:
        match = next((m for m in waiting if _answers(m, call)), waiting[0] if waiting else None)
        assert match is not None
        waiting = [m for m in waiting if m is not match]
        ordered.append(match)
    return ordered


def _name(call_id: str, used: set[str]) -> str:
    base = re.sub(r"[^a-zA-Z0-9_-]", "_", call_id or "")[:40] or "call"
    name, number = (base if call_id else ""), 1
    while not name or name in used:
        name = f"{base[: 40 - len(f'_{number}')]}_{number}"
        number += 1
    used.add(name)
    return name


def is_thought(unit: Unit) -> bool:
    """Return whether the unit is a model's reasoning."""
    return not isinstance(unit, Exchange) and unit["type"] == "reasoning"


def text_pieces(message: Json) -> list[str]:
    """The parts of a text that hold more than blanks."""
    content = message["content"]
    parts = [content] if isinstance(content, str) else [part["text"] for part in content]
    return [part for part in parts if part.strip()]


def result_text(message: Json) -> str:
    """A tool's result as text."""
    content = message["content"]
    return content if isinstance(content, str) else stringify(content)


def arguments_object(call: Json) -> Json:
    """A call's arguments where only an object will do."""
    if "malformed" in call:
        return {"malformed_arguments": call["malformed"]}
    given = call.get("input", {})
    return given if isinstance(given, dict) else {"value": given}


def closing(found: list[Unit]) -> Json:
    """The assistant's text that ends the conversation, if one does."""
    for unit in reversed(found):
        if isinstance(unit, Exchange):
            return None
        if is_thought(unit):
            continue
        if unit["role"] != "system" and text_pieces(unit):
            return unit if unit["role"] == "assistant" else None
    return None


def closing_words(message: Json, agent: str) -> str:
    """Return the text of the closing message as a user's turn."""
    text = "".join(text_pieces(message)).strip()
    author = message.get("_by")
    if author is None:
        return f"The assistant said:\n\n{text}"
    if author == agent:
        return f"You said:\n\n{text}"
    return f"Agent {author} said:\n\n{text}"
