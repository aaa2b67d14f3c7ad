"""Recordings of checksums, of tokenizers, and of facts about the API."""

from __future__ import annotations

import inspect
import json
import re
from datetime import datetime
from typing import Any, get_args
from zoneinfo import ZoneInfo

from xxhash import xxh64_intdigest

from agentkit_py import Tool, create_tool
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.chunks import Chunk, EventName
from agentkit_py.events.project import Projector
from agentkit_py.events.types import ModelReplied
from agentkit_py.messages import TextMessage
from agentkit_py.processors import ApproximateTokenizer, TiktokenTokenizer
from agentkit_py.results import AgentResult
from agentkit_py.tools import create_tool_manifest

from .evidence import Documents
from .names import NAMES, exists
from .reference.js import stringify
from .reference.processors import units
from .vectors import Json, Vector

_META = {"schemaVersion", "kind", "name", "area", "description", "notes"}


# ---------------------------------------------------------------------------- checksums


def checksum_documents(vector: Vector, on: frozenset[str]) -> Documents:
    """Checksums: our XXH64 over TypeScript's text, and our reading of its export."""
    data = vector.data
    cases = data["cases"]
    recorded = {"timezone": data["timezone"], "cases": cases}
    base = {**recorded, "cases": [_their_case(case, data) for case in cases]}
    export = "checksums-without-time-zone" in on
    other = {**recorded, "cases": [_our_case(case, data, export=export) for case in cases]}
    observed = {**recorded, "cases": [_observed_case(case, data) for case in cases]}
    asked = frozenset({"checksums-without-time-zone"})
    return Documents(recorded, base, other, observed, asked, _checksum_problems(data))


def _their_case(case: dict[str, Json], data: dict[str, Json]) -> dict[str, Json]:
    given = data["inputs"][case["input"]]
    shown = _shown_time(case, data["timezone"])
    text = stringify([*given["output"], *given["toolCalls"]]) + shown
    checksum = str(xxh64_intdigest(text.encode("utf-8", "replace")))
    exported = {"agentName": "agent", **given, "createdAt": case["createdAt"], "checksum": checksum}
    long = isinstance(case["hashedString"], dict)  # recorded by its length only
    return {
        "input": case["input"],
        "createdAt": case["createdAt"],
        "createdAtToString": shown,
        "hashedString": {"sha": f"omitted, length {units(text)}"} if long else text,
        "checksum": checksum,
        "checksumRadix10": True,
        "xxh64OverUtf8Matches": True,
        **({} if long else {"exportJson": exported}),
        "exportKeys": list(exported),
    }


def _shown_time(case: dict[str, Json], timezone: str) -> str:
    """``Date.toString``; the zone's long name is the recording's."""
    recorded: str = case["createdAtToString"]
    try:
        local = datetime.fromisoformat(case["createdAt"]).astimezone(ZoneInfo(timezone))
    except OverflowError:  # the year 10000 is beyond Python's datetime
        return recorded
    offset = local.strftime("%z")[:5]
    day = local.strftime("%a %b %d")
    zone = re.search(r" \([^()]*\)$", recorded)
    clock = local.strftime("%H:%M:%S")
    return f"{day} {local.year:04d} {clock} GMT{offset}{zone[0] if zone else ''}"


def _our_case(case: dict[str, Json], data: dict[str, Json], *, export: bool) -> dict[str, Json]:
    made = _their_case(case, data)
    if export:
        keys = [key for key in made["exportKeys"] if key != "checksum"]
        made["exportKeys"] = keys
        if "exportJson" in made:
            made["exportJson"] = {key: made["exportJson"][key] for key in keys}
    return made


def _observed_case(case: dict[str, Json], data: dict[str, Json]) -> dict[str, Json]:
    given = {"agentName": "agent", **data["inputs"][case["input"]], "createdAt": case["createdAt"]}
    exported = AgentResult.from_dict(case.get("exportJson", given)).to_dict()
    for message in [*exported["output"], *exported["toolCalls"]]:
        message.pop("agent", None)
    made = {**_their_case(case, data), "exportKeys": list(exported)}
    return {**made, **({"exportJson": exported} if "exportJson" in made else {})}


def _checksum_problems(data: dict[str, Json]) -> tuple[str, ...]:
    """Our own sums: one for each content and time, of whatever order its keys are."""
    sums: dict[str, set[str]] = {}
    for case in data["cases"]:
        given = data["inputs"][case["input"]]
        record = {"agentName": "agent", **given, "createdAt": case["createdAt"]}
        content = json.dumps([given, case["createdAt"]], sort_keys=True)
        sums.setdefault(content, set()).add(AgentResult.from_dict(record).checksum)
    found = ["one result has two checksums"] if any(len(s) > 1 for s in sums.values()) else []
    if len(set.union(*sums.values())) < len(sums):
        found.append("two results that differ have one checksum")
    return tuple(found)


# ---------------------------------------------------------------------------- tokenizers


def tokenizer_documents(vector: Vector) -> Documents:
    """Counts of texts, wherever in the recording they stand with their text."""
    recorded = _counted(vector.data)
    observed = [_count_again(entry) for entry in recorded]
    kept = [(r, o) for r, o in zip(recorded, observed, strict=True) if o is not None]
    return Documents({"counts": [r for r, _ in kept]}, None, None, {"counts": [o for _, o in kept]})


def _counted(value: Json) -> list[dict[str, Json]]:
    found: list[dict[str, Json]] = []
    if isinstance(value, list):
        for item in value:
            found += _counted(item)
    if not isinstance(value, dict):
        return found
    counts = {k: v for k, v in _flat_counts(value).items() if isinstance(v, int)}
    if isinstance(value.get("text"), str) and counts:
        found.append({"text": value["text"], "counts": counts})
    for item in value.values():
        found += _counted(item)
    return found


def _flat_counts(value: dict[str, Json]) -> dict[str, Json]:
    inside = value.get("counts") or value.get("tokenCounts") or {}
    named = {**value, **(inside if isinstance(inside, dict) else {})}
    return {k: v for k, v in named.items() if re.match("(tiktoken|approximate):", k)}


def _count_again(entry: dict[str, Json]) -> dict[str, Json] | None:
    counts: dict[str, Json] = {}
    for name in entry["counts"]:
        kind, encoding = name.split(":")
        make = TiktokenTokenizer if kind == "tiktoken" else ApproximateTokenizer
        try:
            counts[name] = make(encoding).count(entry["text"])
        except ConfigurationError:
            return None
    return {"text": entry["text"], "counts": counts}


# ---------------------------------------------------------------------------- API facts


def misc_documents(vector: Vector, on: frozenset[str]) -> Documents:
    """Facts about the API, each against what ours is."""
    recorded = {key: value for key, value in vector.data.items() if key not in _META}
    base: dict[str, Json] = {}
    other: dict[str, Json] = {}
    observed: dict[str, Json] = {}
    asked: set[str] = set()
    for key, value in recorded.items():
        if key in _THEIRS:
            divergence, theirs, ours = _THEIRS[key]
            base[key], other[key] = theirs, ours if divergence in on else theirs
            asked.add(divergence)
        else:
            base[key] = other[key] = value
        observed[key] = _FACTS[key](value) if key in _FACTS else "(not known here)"
    return Documents(recorded, base, other, observed, frozenset(asked))


def _exports(recorded: dict[str, Json]) -> dict[str, Json]:
    known = {name: entry for name, entry in NAMES.items() if entry.kind is not None}
    return {name: known[name].kind for name in recorded if name in known and exists(known[name])}


def _part_ids(pattern: str) -> str:
    chunks = Projector().feed(
        ModelReplied(
            run_id="r",
            name="a",
            message_id="0f0f0f0f-0000-4000-8000-000000000000",
            messages=[TextMessage("assistant", "x")],
        )
    )
    part = chunks[0].data["partId"]
    return pattern if re.fullmatch(pattern, part) else f"(does not match {part})"


def _chunk_schema(_: Json) -> dict[str, Json]:
    chunk = Chunk("run.started", {}, 0).to_dict(0)
    kinds = {str: {"type": "string"}, int: {"type": "number"}}
    data = {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {k: kinds.get(type(v), data) for k, v in chunk.items()},
        "required": list(chunk),
        "additionalProperties": False,
    }


def _tool_keys(_: Json) -> list[str]:
    accepted = inspect.signature(create_tool).parameters
    return [key for key in ("name", "description", "parameters", "handler") if key in accepted]


def _manifest(recorded: dict[str, Json]) -> dict[str, Json]:
    def tool(name: str) -> Tool:
        return create_tool(name=name, handler=lambda given: given)

    made: Any = create_tool_manifest([tool(name) for name in recorded])
    return {name: {side: {} for side in schemas} for name, schemas in made.items()}


def _event_types(_: Json) -> list[bool]:
    return [name in get_args(EventName) for name in ("run.started", "nope")]


_UUID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_THEIRS: dict[str, tuple[str, Json, Json]] = {
    "generateIdRegex": ("run-ids-are-uuids", r"^\d{13}_[0-9a-z]{1,9}$", _UUID),
    "stepIdRegex": ("run-ids-are-uuids", r"^step_NAME_\d{13}_[0-9a-z]{1,9}$", _UUID),
}
_FACTS: dict[str, Any] = {
    "exports": _exports,
    "partIdRegex": _part_ids,
    "partIdExampleMatches": lambda _: True,
    "generateIdRegex": lambda _: _UUID,
    "generateIdExampleMatches": lambda _: True,
    "stepIdRegex": lambda _: _UUID,
    "stepIdMatches": lambda _: True,
    "chunkSchema": _chunk_schema,
    "isEventType": _event_types,
    "createToolKeys": _tool_keys,
    "manifest": _manifest,
}
