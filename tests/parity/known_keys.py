"""The members of recordings that the harness reads; it fails on others, which it would overlook."""

from __future__ import annotations

from collections.abc import Iterator

from .vectors import Json, Vector

_WORDS = {"area", "description", "kind", "name", "notes", "schemaVersion"}
_TOP = {
    "run": _WORDS | {"engineSpecificErrorMessage", "expected", "spec", "unorderedTools"},
    "processors": _WORDS | {"cases", "countedText", "messages", "tokenCounts"},
    "tokenizer": _WORDS | {"cases", "charsPerToken", "info", "names"},
    "checksum": _WORDS | {"cases", "inputs", "timezone"},
    "misc": _WORDS
    | {
        "chunkSchema", "createToolKeys", "exports", "generateIdExampleMatches", "generateIdRegex",
        "isEventType", "manifest", "partIdExampleMatches", "partIdRegex", "stepIdMatches",
        "stepIdRegex",
    },
}  # fmt: skip
_SPEC = {
    "models": {"options", "provider"},
    "tools": {"description", "factory", "handler", "name", "parameters", "strict"},
    "agents": {
        "assistant", "description", "history", "lifecycle", "mcpServers", "model", "name",
        "processors", "system", "toolChoice", "tools", "type", "withModel",
    },
    "networks": {
        "agents", "defaultModel", "defaultRouter", "defaultState", "description", "history",
        "maxIter", "name", "processors", "router",
    },
    "states": {"data", "messages", "results", "threadId"},
    "histories": {"appendResults", "appendUserMessage", "createThread", "get", "processors"},
    "mcpServers": {"name", "transport"},
}  # fmt: skip
_PROCESSOR = {"customTokenizer", "error", "label", "options", "type"}
_LIFECYCLE = {"enabled", "onFinish", "onResponse", "onRoute", "onStart"}
_RUN = {"input", "options", "stepContext", "target"}
_OPTIONS = {"defaultRouter", "maxIter", "model", "network", "router", "state", "streaming"}
_REPLY = {"contentType", "disconnect", "json", "status", "text"}
_EXPECTED = {
    "requests": {"body", "headerNames", "headers", "method", "path", "query", "run"},
    "runs": {
        "agentTools", "error", "inputAfter", "networkOwnState", "networkRun", "result",
        "statesAfter", "target",
    },
    "events": {"chunkKeys", "data", "event", "id", "run", "sequenceNumber", "timestampType"},
    "historyLog": {"adapter", "ctx", "hook", "run"},
    "stepLog": {"body", "id", "modelFormat", "op", "run"},
    "callbackLog": None,
    "order": None,
    "warnings": None,
    "undefinedPaths": None,
    "unusedReplies": None,
    "exhaustedReplies": None,
}  # fmt: skip
_CASES = {
    "processors": {
        "error", "inputUnmodified", "label", "levels", "output", "outputIndices", "processors",
        "sameArray",
    },
    "checksum": {
        "checksum", "checksumRadix10", "createdAt", "createdAtToString", "exportJson", "exportKeys",
        "hashedString", "input", "xxh64OverUtf8Matches",
    },
    "tokenizer": {"approximate", "text", "tiktoken", "utf16Length"},
}  # fmt: skip


def unknown_keys(vector: Vector) -> list[str]:
    """Return the members of a recording that nothing here reads, by their places."""
    found = [*_others("", vector.data, _TOP.get(vector.kind, _WORDS))]
    if vector.kind == "run":
        found += [*_of_spec(vector.spec), *_of_expected(vector.expected)]
    for case in vector.data.get("cases", []):
        if vector.kind in _CASES:
            found += _others("/cases", case, _CASES[vector.kind])
            found += _of_processors("/cases", case)
    return sorted(set(found))


def _others(place: str, value: Json, known: set[str] | None) -> Iterator[str]:
    if known is not None and isinstance(value, dict):
        yield from (f"{place}/{name}" for name in value if name not in known)


def _of_processors(place: str, owner: dict[str, Json]) -> Iterator[str]:
    for each in owner.get("processors") or []:
        yield from _others(f"{place}/processors", each, _PROCESSOR)


def _of_spec(spec: dict[str, Json]) -> Iterator[str]:
    yield from _others("/spec", spec, {*_SPEC, "runs", "llm"})
    for section, known in _SPEC.items():
        for each in spec.get(section, {}).values():
            yield from _others(f"/spec/{section}", each, known)
            if isinstance(each, dict):
                yield from _of_processors(f"/spec/{section}", each)
                yield from _others(f"/spec/{section}/lifecycle", each.get("lifecycle"), _LIFECYCLE)
    for run in spec.get("runs", []):
        options = run.get("options") or {}
        yield from _others("/spec/runs", run, _RUN)
        yield from _others("/spec/runs/options", options, _OPTIONS)
        streaming = options.get("streaming")
        yield from _others("/spec/runs/streaming", streaming, {"publish", "simulateChunking"})
    for reply in spec.get("llm", []):
        yield from _others("/spec/llm", reply, _REPLY)


def _of_expected(expected: dict[str, Json]) -> Iterator[str]:
    yield from _others("/expected", expected, set(_EXPECTED))
    for section, known in _EXPECTED.items():
        entries = expected.get(section)
        for each in entries if isinstance(entries, list) else []:
            yield from _others(f"/expected/{section}", each, known)
