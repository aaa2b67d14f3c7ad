"""The recordings with MCP servers, against a server like theirs, seen from closer.

`test_vectors` compares all of each recording with what the reference model makes of it. Here the
rules of the manifest (``mcp-…``) are checked against the servers' own listings, without the model:

- *MCP works in a plain install.* TypeScript's (``mcp.*``) fails at the first inference, for each
  scenario with a tool; ours does what ``mcp_shim.*`` does.
- *Schemas are undamaged.* Ours are the server's, and not strict.
- *isError is an error.* TypeScript takes it for a result.
- *A server that does not list its tools fails the run*, unless it is not required.
- *The routing prompt has no settings of servers*; TypeScript's has their environment.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from .canon import neutral_request
from .play import Played, play
from .vectors import COMMITTED, Json, Vector, load

FOLDER = COMMITTED

SHIMMED = sorted(path.stem for path in FOLDER.glob("mcp_shim.*.json"))
UNLISTED = {"mcp.list_fails": "list failed", "mcp_shim.spawn_fails": "/nonexistent/mcp-binary"}
"""Recordings with a server that does not list its tools, and what our error names."""

LISTED = [name for name in SHIMMED if name not in UNLISTED]
PLAIN = sorted(path.stem for path in FOLDER.glob("mcp.*.json"))
WORKING = [name for name in PLAIN if name not in UNLISTED]


def recording(name: str) -> Vector:
    """A recording by name."""
    return load(FOLDER / f"{name}.json")


def replies(vector: Vector) -> list[list[Json]]:
    """Each run's replies: bound as they were in the recording that works, or in order."""
    twin = FOLDER / f"{vector.name.replace('mcp.', 'mcp_shim.')}.json"
    found: list[list[Json]] = [[] for _ in vector.spec["runs"]]
    requests: list[Json] = load(twin).expected["requests"] if twin.exists() else []
    for number, reply in enumerate(vector.spec["llm"]):
        last = min(number, len(found) - 1)
        found[requests[number]["run"] if number < len(requests) else last].append(reply)
    return found


def listed(vector: Vector) -> dict[str, Json]:
    """The servers' tools, by their names in requests."""
    runs = vector.expected["runs"]
    tools = [tool for run in runs for tool in run.get("agentTools", []) if "mcpTool" in tool]
    return {tool["name"]: tool["mcpTool"] for tool in tools}


def offered_tools(body: dict[str, Json]) -> list[tuple[str, str, Json, bool]]:
    """Name, description, schema and strictness of a request's tools, whoever the provider is."""
    found: list[tuple[str, str, Json, bool]] = []
    for each in body.get("tools", []):
        for tool in each.get("functionDeclarations", [each.get("function", each)]):
            key = next((k for k in ("parameters", "input_schema") if k in tool), None)
            plain: dict[str, Json] = {} if key is None else dict(tool[key])
            plain.pop("$schema", None)
            description = tool.get("description") or ""
            found.append((tool["name"], description, plain, tool.get("strict", False)))
    return found


def without_tools(body: dict[str, Json]) -> Json:
    """Return a request without tools and messages; tool results are compared on their own."""
    return {k: v for k, v in body.items() if k not in ("tools", "messages", "contents")}


@pytest.mark.parametrize("name", WORKING)
def test_every_scenario_runs_though_a_plain_install_of_typescripts_does_not(name: str) -> None:
    """The tools reach the model under the recorded names, with the servers' own schemas."""
    vector = recording(name)
    played = play(vector.spec, replies(vector))
    assert [run["error"] for run in vector.expected["runs"]] != []
    assert all(run["error"]["name"] == "TypeError" for run in vector.expected["runs"])
    assert [run["error"] for run in played.observed["runs"]] == [None] * len(vector.spec["runs"])
    check_tools(vector, played)


@pytest.mark.parametrize("name", LISTED)
def test_calls_have_the_effect_that_typescript_intends(name: str) -> None:
    """Requests but for schemas, results but for failures."""
    vector = recording(name)
    played = play(vector.spec, replies(vector))
    check_tools(vector, played)
    requests = [neutral_request(each) for each in played.observed["requests"]]
    assert len(requests) == len(vector.expected["requests"])
    for ours, theirs in zip(requests, vector.expected["requests"], strict=True):
        assert (ours["run"], ours["path"]) == (theirs["run"], theirs["path"])
        assert [t[:2] for t in offered_tools(ours["body"])] == [
            t[:2] for t in offered_tools(theirs["body"])
        ]
        assert without_tools(ours["body"]) == without_tools(theirs["body"])
    assert tool_results(played.observed["runs"]) == [
        expected_result(each) for each in tool_results(vector.expected["runs"])
    ]


def check_tools(vector: Vector, played: Played) -> None:
    """Assert that models get the servers' tools with their descriptions and schemas."""
    servers = listed(vector)
    seen: set[str] = set()
    for request in played.observed["requests"]:
        for name, description, schema, strict in offered_tools(request["body"]):
            if name not in servers:
                continue
            seen.add(name)
            assert strict is False
            assert description == servers[name].get("description", "")
            if "functionDeclarations" not in json.dumps(request["body"]["tools"]):
                assert schema == {"properties": {}, **servers[name]["inputSchema"]}
    assert seen == servers.keys()


def tool_results(runs: list[Json]) -> list[Json]:
    """The calls and the contents of their results."""
    found: list[Json] = []
    for run in runs:
        state = run.get("networkRun", {}).get("state", {})
        results = [run["result"]] if "result" in run else state.get("results", [])
        for result in results:
            found += [
                [m["tool"]["id"], m["tool"]["name"], m["content"]] for m in result["toolCalls"]
            ]
    return found


def expected_result(theirs: Json) -> Json:
    """TypeScript's result under our rules for what fails."""
    call, name, content = theirs
    if name == "oracle-fails":
        return [
            call,
            name,
            {"error": {"name": "MCPToolError", "message": content["data"][0]["text"]}},
        ]
    if "error" in content:
        said = content["error"]["message"].removeprefix("MCP error ")
        error = {"name": "MCPProtocolError", "message": f"MCP error {said}"}
        return [call, name, {"error": error}]
    return theirs


@pytest.mark.parametrize("name", UNLISTED)
def test_a_server_that_does_not_list_its_tools_is_no_silent_loss(name: str) -> None:
    """Without ``required`` it is a warning, like every such server in TypeScript."""
    vector = recording(name)
    played = play(vector.spec, replies(vector))
    error = played.observed["runs"][0]["error"]
    assert error["class"] == "ToolSourceError"
    assert UNLISTED[name] in error["message"]
    assert played.observed["requests"] == []
    spec: dict[str, Any] = json.loads(json.dumps(vector.spec))
    spec["mcpServers"]["s"]["required"] = False
    run = play(spec, replies(vector)).observed["runs"][0]
    output = [{k: v for k, v in m.items() if k != "agent"} for m in run["result"]["output"]]
    assert output == vector.expected["runs"][0]["result"]["output"]


@pytest.mark.parametrize("name", ["mcp.network", "mcp_shim.network"])
def test_no_settings_of_a_server_reach_a_model(name: str) -> None:
    """TypeScript's routing prompt has them, environment included."""
    vector = recording(name)
    secret = vector.spec["mcpServers"]["s"]["transport"]["env"]["FAKE_SECRET"]
    requests = json.dumps(play(vector.spec, replies(vector)).observed["requests"])
    assert secret not in requests
    assert "oracle-add" in requests
