"""Providers' rules for the order of a history, in the reference model."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from ..vectors import Json
from .core import UNDEFINED, Switches
from .js import stringify, written

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
    said: list[tuple[int, Json]] = field(default_factory=list[tuple[int, Json]])
    """What the model said else, with the number of calls before it."""

    author: Json = None

    def named(self) -> list[tuple[Json, str]]:
        """Each call with the id it has on the wire."""
        return list(zip(self.calls, self.names, strict=True))


Unit: TypeAlias = Exchange | dict[str, Json]


def causes(messages: list[Json], prefill: int, form: str) -> list[str]:
    """Why two bodies differ: one divergence for each thing that TypeScript does otherwise."""
    rest = messages[: len(messages) - prefill]
    found = ["images-in-results"] if any(map(images_in, messages)) else []
    found += [f"{form}-prefill"] if prefill else []
    closes = closing(units(whole(rest))) is not None or is_kept(messages)
    return [*found, f"{form}-closing-text"] if closes else found


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
    end = _end_of_reply(messages, index)
    calls = messages[index:end]
    index = end
    later = [m for m in messages[index:] if m["type"] == "tool_result"]
    answers: list[Json] = []
    for call in [call for message in calls for call in message.get("tools", [])]:
        found = next((m for m in later if _answers(m, call)), None)
        if found is None:
            found = {**_ANSWER, "tool": call}
        else:
            later = [m for m in later if m is not found]
        answers.append(found)
    while index < len(messages) and any(messages[index] is m for m in answers):
        index += 1
    return [*[m for m in calls if m["type"] != "tool_call" or m["tools"]], *answers], index


def _end_of_reply(messages: list[Json], index: int) -> int:
    """The index after the calls from ``index`` on, and the texts before a result of theirs."""
    end = index
    calls: list[Json] = []
    while index < len(messages):
        message = messages[index]
        index += 1
        if message["type"] == "tool_call":
            calls += message["tools"]
            end = index
        elif message["type"] not in ("text", "opaque") or message["role"] != "assistant":
            break
        elif any(m["type"] == "tool_result" and _is_of(m, calls) for m in messages[index:]):
            end = index
        else:
            break
    return end


def _is_of(result: Json, calls: list[Json]) -> bool:
    return any(_answers(result, call) for call in calls)


def _answers(result: Json, call: Json) -> bool:
    tool = result["tool"]
    return tool["id"] == call["id"] and tool["name"] == call["name"]


def units(messages: list[Json]) -> list[Unit]:
    """Texts, and groups of calls with their results; call ids unique."""
    found: list[Unit] = []
    used: set[str] = set()
    for message in messages:
        last = found[-1] if found else None
        is_said = message["type"] in ("text", "opaque") and message["role"] == "assistant"
        if is_said and isinstance(last, Exchange) and not last.results:
            last.said.append((len(last.calls), message))
        elif message["type"] in ("text", "reasoning", "opaque"):
            found.append(message)
        elif message["type"] == "tool_call":
            if not isinstance(last, Exchange) or last.results:
                last = Exchange(author=message.get("_by"))
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


def _name(call_id: Json, used: set[str]) -> str:
    call_id = call_id if isinstance(call_id, str) else ""
    base = re.sub(r"[^a-zA-Z0-9_-]", "_", call_id)[:40] or "call"
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
    if message["type"] == "opaque":
        return []
    content = message["content"]
    parts = [content] if isinstance(content, str) else [part["text"] for part in content or []]
    return [part for part in parts if part.strip()]


def opaque(block: Json, form: str, **hosted: str) -> Json:
    """A part of a reply for which there is no type, as it came."""
    kept = {name: value for name, value in block.items() if value is not None}
    facts = {name: value for name, value in hosted.items() if value}
    shape = {"type": "opaque", "role": "assistant", "content": kept, "format": form}
    return {**shape, "host": "parity.invalid", **facts}


def text_of(message: Json) -> str:
    """A text's words, whatever parts they came in."""
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def result_text(message: Json, *, words: bool = False) -> str:
    """A tool's result as text; images in words, or as part of the JSON."""
    content = message["content"]
    said = in_words(content) if words else None
    if said is not None:
        return said
    return content if isinstance(content, str) else message.get("_json") or stringify(content)


def with_json(messages: list[Json], on: Switches) -> list[Json]:
    """The messages, each result with its JSON: numbers look as each side writes them."""
    return [
        {**m, "_json": written(m["content"], on)}
        if m["type"] == "tool_result" and not isinstance(m["content"], str)
        else m
        for m in messages
    ]


def with_names(messages: list[Json], on: Switches) -> list[Json]:
    """The messages; a name that providers refuse, which history may hold, is one that they take."""

    def named(call: Json) -> Json:
        name = re.sub("[^a-zA-Z0-9_-]", "_", str(call["name"] or ""))[:64]
        name = name if re.match("[a-zA-Z_]", name) else f"_{name}"[:64]
        if name == call["name"] or not on("names-are-checked"):
            return call
        return {k: v for k, v in call.items() if k != "_written"} | {"name": name}

    return [
        m
        | ({"tools": list(map(named, m["tools"]))} if "tools" in m else {})
        | ({"tool": named(m["tool"])} if "tool" in m else {})
        for m in messages
    ]


def in_words(content: Json) -> str | None:
    """A result that is a list with images, as a text with words for them; None: it is none."""
    items = content.get("data") if isinstance(content, dict) and len(content) == 1 else None
    if not isinstance(items, list) or not any(map(is_image, items)):
        return None
    return "\n".join(map(words_of, items))


def images_in(message: Json) -> bool:
    """Return whether a message is a result with images."""
    return message["type"] == "tool_result" and in_words(message["content"]) is not None


def is_image(item: Json) -> bool:
    """Return whether an item of a result is an image."""
    return isinstance(item, dict) and item.get("type") == "image" and "mimeType" in item


def words_of(item: Json) -> str:
    """An item of a result in words."""
    if is_image(item):
        return "[image]"
    is_text = isinstance(item, dict) and item.keys() == {"type", "text"}
    return item["text"] if is_text else item if isinstance(item, str) else stringify(item)


def arguments_object(call: Json) -> Json:
    """A call's arguments where only an object will do."""
    if "malformed" in call:
        return {"malformed_arguments": call["malformed"]}
    given = call.get("input", {})
    return given if isinstance(given, dict) else {"value": given}


def closing(found: list[Unit]) -> Json:
    """What an assistant said at the end of the conversation, if one did."""
    for unit in reversed(found):
        if isinstance(unit, Exchange):
            return None
        if is_thought(unit):
            continue
        if "_paused" in unit:
            return None
        if unit["type"] == "opaque":
            return unit
        if _is_heard(unit):
            return unit if unit["role"] == "assistant" else None
    return None


def _is_heard(text: Json) -> bool:
    """Return whether a text of somebody is sent: blanks alone are, as Gemini wrote them."""
    whole = text.get("_part", {}).get("text") == text["content"]
    return text["role"] != "system" and bool(whole or text_pieces(text))


OPENING = "(The conversation begins here.)"


@dataclass(slots=True)
class Kept:
    """The user's turns that were sent after closing texts: each stays before its reply."""

    author: Json = None
    """Who wrote the last text."""

    opened: str = ""

    def before(self, item: Json, *, closed: bool) -> str:
        """Return the user's turn before a message or call; empty: none stands there.

        Args:
            item: What is sent next.
            closed: Whether what was sent last is the assistant's.
        """
        mark = item.get("_turn", "")
        stands = closed and mark not in ("", self.opened)
        self.opened = mark or self.opened
        return closing_words(self.author) if stands else ""

    def hear(self, item: Json) -> None:
        """Note who wrote a text."""
        if item.get("type") == "text" and _is_heard(item):
            self.author = item.get("_by")


def is_kept(messages: list[Json]) -> bool:
    """Return whether a user's turn was sent before one of the messages."""
    return any("_turn" in message for message in messages)


def marked(reply: list[Json], mark: str, made_by: Json) -> None:
    """Note who made the messages of a reply, and the user's turn that was sent before it."""
    for message in [] if reply is UNDEFINED else reply:
        calls = message.get("tools", [])
        for each in (message, *calls):
            each["_made"] = made_by
        for each in (message, *calls[:1]) if mark else ():
            each["_turn"] = mark


def closing_words(author: Json) -> str:
    """Return the user's turn after a closing text."""
    return (
        "Continue." if author is None else f"(The last message is from agent {author}.) Continue."
    )


Turns: TypeAlias = list[tuple[str, list[Json]]]


@dataclass(slots=True)
class Sides:
    """A conversation in which the user begins and the sides take turns."""

    text: Callable[[str], Json]
    """A text's block in the format."""

    turns: Turns = field(default_factory=Turns)
    system: list[str] = field(default_factory=list[str])
    mark: dict[str, Json] = field(default_factory=dict[str, Json])
    beginning: str = ""
    """The agent's prefill."""

    asked: list[Json] = field(default_factory=list[Json])
    """The turn with which the agent's last request ended, if one can be seen."""

    def add(self, role: str, blocks: list[Json]) -> None:
        """Add to the last turn, or begin one."""
        if blocks and self.turns and self.turns[-1][0] == role:
            self.turns[-1][1].extend(blocks)
        elif blocks:
            self.turns.append((role, list(blocks)))

    def read(
        self,
        messages: list[Json],
        prefill: int,
        written: Callable[[Unit], Turns],
        opened: Callable[[], None] = lambda: None,
        reader: str = "",
    ) -> Sides:
        """Read a history; ``opened`` is called where a user's turn of ours comes between."""
        end = len(messages) - prefill
        conversation, kept = units(whole(messages[:end])), Kept()
        for unit in conversation:
            for item in _items_of(unit):
                closed = bool(self.turns) and self.turns[-1][0] == "assistant"
                words = kept.before(item, closed=closed)
                if words:
                    self.add("user", [self.text(words)])
                    opened()
                kept.hear(item)
            if not isinstance(unit, Exchange) and unit["role"] == "system":
                self.system += text_pieces(unit)
                continue
            said = isinstance(unit, Exchange) or unit["role"] == "assistant"
            author = unit.author if isinstance(unit, Exchange) else unit.get("_by")
            if said and author in (None, reader) and self.turns and self.turns[-1][0] == "user":
                self.asked = self.turns[-1][1]
            for role, blocks in written(unit):
                self.add(role, blocks)
        if not self.turns or self.turns[0][0] == "assistant":
            self.turns.insert(0, ("user", [self.text(OPENING)]))
        if self.turns[-1][0] == "assistant" and closing(conversation) is not None:
            self.mark = {"_turn": stringify([len(self.turns), self.turns[-1][1]])}
            self.add("user", [self.text(closing_words(kept.author))])
        self.beginning = "".join(p for m in messages[end:] for p in text_pieces(m)).rstrip()
        return self

    def instructions(self, *, prefill_in_words: bool) -> str:
        """The system prompt, which may have to ask for the prefill."""
        asked = self.beginning and prefill_in_words
        return "\n\n".join([*self.system, *([_prefill_words(self.beginning)] if asked else [])])


def _items_of(unit: Unit) -> list[Json]:
    """The messages and calls of a unit in the order in which they were said."""
    if not isinstance(unit, Exchange):
        return [unit]
    found: list[Json] = list(unit.calls)
    for place, message in reversed(unit.said):
        found.insert(place, message)
    return found


def _prefill_words(text: str) -> str:
    """Return the end of the system prompt in place of a prefill."""
    return f"Begin each of your replies with exactly this text, and continue from there:\n\n{text}"
