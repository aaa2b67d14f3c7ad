"""Recordings of the TypeScript package, read from a folder of JSON files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = Any
"""JSON as it was recorded; nobody knows its shape but the code that looks at it."""

COMMITTED = Path(__file__).parent / "vectors"
"""The recordings that are kept with the project."""


@dataclass(frozen=True, slots=True)
class Vector:
    """One recording."""

    name: str
    kind: str
    data: dict[str, Json]

    @property
    def spec(self) -> dict[str, Json]:
        """The scenario, in a form that no language owns."""
        return self.data.get("spec", {})

    @property
    def expected(self) -> dict[str, Json]:
        """TypeScript's run."""
        return self.data.get("expected", {})

    @property
    def shimmed(self) -> bool:
        """True if recorded with the package that TypeScript needs for MCP and does not install."""
        return self.data["area"] == "mcp-shimmed"

    @property
    def durable(self) -> bool:
        """True if it was recorded inside an Inngest function."""
        return any(run.get("stepContext") for run in self.spec.get("runs", []))

    @property
    def old_branch(self) -> bool:
        """True if it was recorded with the branch that has processors, but no user messages yet."""
        return self.data["area"] == "processors-run"

    def not_applicable(self) -> str | None:
        """Why this scenario cannot be had in Python; None: it can."""
        if self.kind == "processors":
            kinds = {message["type"] for message in self.data["messages"]}
            if kinds - {"text", "tool_call", "tool_result", "reasoning"}:
                return "it holds messages of a type that nobody has declared"
        if '"stop_reason": "odd"' in json.dumps(self.spec):
            return "it holds messages that stopped for a reason that nobody has declared"
        if self.durable and _HALF.search(json.dumps(self.data, ensure_ascii=False)):
            return "it holds halves of characters, and Inngest's server keeps none"
        tools = self.spec.get("tools", {}).values()
        forms = [tool["parameters"]["jsonSchema"] for tool in tools if tool.get("parameters")]
        if any(not has_schema(each) for each in forms):
            return "its tool takes what has no JSON Schema (BigInt, Date, Map, …)"
        times = [_time_of(run["input"]) for run in self.spec.get("runs", [])]
        if not all(map(_is_time, times)):
            return "its clientTimestamp is no time, and a datetime always is one"
        return None


_HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair."""


def has_schema(forms: dict[str, Json]) -> bool:
    """Return whether a recorded form of a tool's parameters is a schema."""
    return any("$error" not in form for form in forms.values())


def _time_of(given: Json) -> Json:
    return None if isinstance(given, str) else given.get("clientTimestamp")


def _is_time(text: str | None) -> bool:
    try:
        return text is None or bool(datetime.fromisoformat(text))
    except ValueError:
        return False


def load(path: Path) -> Vector:
    """The recording in one file."""
    data = json.loads(path.read_text(encoding="utf-8"), object_hook=_with_its_tokenizer)
    return Vector(data["name"], data.get("kind", "run"), data)


def _with_its_tokenizer(members: dict[str, Json]) -> dict[str, Json]:
    """A limiter's own tokenizer under one name, wherever it stands."""
    if members.get("type") != "TokenLimiter":
        return members
    options = members.get("options")
    options = dict(options) if isinstance(options, dict) else options
    own = members.pop("tokenizer", None)
    if own is None and isinstance(options, dict):
        own = options.pop("tokenizer", None)
    named = {} if own is None else {"customTokenizer": own}
    return {**members, **({"options": options} if "options" in members else {}), **named}


def load_folder(folder: Path) -> list[Vector]:
    """All recordings of a folder, by name; files that hold something else are left out."""
    found = [load(path) for path in sorted(folder.glob("*.json")) if is_recording(path)]
    return sorted(found, key=lambda vector: vector.name)


def is_recording(path: Path) -> bool:
    """Return whether a JSON file is a recording, by its name."""
    return not path.name.endswith("schema.json")


def walk(
    value: Json, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], Json]]:
    """Every leaf of a JSON document with its path; empty objects and lists are leaves, too."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from walk(item, (*path, key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from walk(item, (*path, index))
    else:
        yield path, value
