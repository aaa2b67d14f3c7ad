"""Copies recordings for the project: without a text that TypeScript's authors wrote.

Run:
    python -m tests.parity.sanitise FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .canon import neutral_request, tokenised
from .vectors import COMMITTED, Json, Vector, load_folder


def sanitised(vector: Vector) -> dict[str, Json]:
    """The recording with placeholders for what is not ours to keep."""
    data: dict[str, Json] = json.loads(json.dumps(vector.data))
    if "expected" in data:
        _sanitise_run(data["expected"], vector)
    if vector.kind == "processors":
        _sanitise_counts(data)
    for tool in vector_tools(data):
        for form in tool["parameters"]["jsonSchema"].values():
            if "$error" in form:
                form["$error"]["message"] = "<zod>"
    return data


def _sanitise_run(expected: dict[str, Json], vector: Vector) -> None:
    errors = [run["error"] for run in expected["runs"] if run["error"]]
    words = {error["message"]: _token(error, vector) for error in errors}
    for error in errors:
        error["message"] = words[error["message"]]
    for event in expected["events"]:
        if event["event"] == "run.failed":
            event["data"]["error"] = words.get(event["data"]["error"], event["data"]["error"])
    expected["requests"] = [neutral_request(request) for request in expected["requests"]]
    if "stepLog" in expected:
        expected["stepLog"] = [neutral_request(step) for step in expected["stepLog"]]
    expected["warnings"] = [_warning(each) for each in expected["warnings"]]


def _sanitise_counts(data: dict[str, Json]) -> None:
    for case in data["cases"]:
        if "error" in case:
            case["error"]["message"] = "<tiktoken>"
    for counts in data["tokenCounts"].values():
        if isinstance(counts, dict):
            counts["$error"]["message"] = "<tiktoken>"


def vector_tools(data: dict[str, Json]) -> list[Json]:
    """The tools of a scenario that have parameters."""
    tools = data.get("spec", {}).get("tools", {}).values()
    return [tool for tool in tools if tool.get("parameters")]


def _token(error: dict[str, Json], vector: Vector) -> str:
    """Return the placeholder of an error's message: itself where the scenario contains it."""
    message: str = error["message"]
    if f'"{message}"' in json.dumps(vector.spec, ensure_ascii=False):
        return message
    if error["class"] in ("TypeError", "SyntaxError"):
        return "<engine>"
    token, rest = tokenised(message)
    return f"<ts:{token}>: {rest}" if rest else f"<ts:{token}>"


def _warning(entry: Json) -> Json:
    return ["<ts:warning>", *entry[1:]] if isinstance(entry, list) else entry


def main() -> None:
    """Copy a folder's recordings."""
    COMMITTED.mkdir(exist_ok=True)
    for old in COMMITTED.glob("*.json"):
        old.unlink()
    for vector in load_folder(Path(sys.argv[1])):
        text = json.dumps(sanitised(vector), ensure_ascii=True, separators=(",", ":"))
        (COMMITTED / f"{vector.name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
