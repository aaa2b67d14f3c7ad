"""A server like the one that the recordings with MCP servers were made with, over stdio.

Its tools are those that the recording ``mcp_shim.many_tools`` lists; what they answer was read off
the recordings' results. Usage: mcp_oracle.py two | many | none | error-list.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else "two"
RECORDING = Path(__file__).parent / "vectors" / "mcp_shim.many_tools.json"


def tools(mode: str) -> list[Any]:
    """Return the tools that the server lists."""
    run = json.loads(RECORDING.read_text(encoding="utf-8"))["expected"]["runs"][0]
    found = [each["mcpTool"] for each in run["agentTools"]]
    return found[: {"two": 2, "none": 0}.get(mode)]


def is_oracle(transport: dict[str, Any]) -> bool:
    """Return whether a scenario's server is this one."""
    return any("mcp-server" in each for each in transport["args"])


def text(said: str) -> dict[str, str]:
    """A block of text."""
    return {"type": "text", "text": said}


def result(name: str, given: Any) -> dict[str, Any] | None:
    """Return a tool's answer; None: JSON-RPC's own error."""
    match name:
        case "add":
            return {"content": [text(f"{given['a'] + given['b']:g}")]}
        case "greet":
            return {"content": [text(f"{'Dear' if given.get('polite') else 'Hi'} {given['name']}")]}
        case "noargs":
            return {"content": [text(json.dumps({"got": given or {}}, separators=(",", ":")))]}
        case "fails":
            return {"content": [text("it failed")], "isError": True}
        case "multi":
            image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
            resource = {"type": "resource", "resource": {"uri": "file:///x", "text": "r"}}
            return {"content": [text("one"), image, resource]}
        case "nested":
            return {"content": []}
        case "structured":
            return {"content": [text("{}")], "structuredContent": {}}
        case _:
            return None


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The response to a request."""
    match method:
        case "initialize":
            return {
                "result": {
                    "protocolVersion": params["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "oracle", "version": "1"},
                }
            }
        case "tools/list" if MODE == "error-list":
            return {"error": {"code": -32603, "message": "list failed"}}
        case "tools/list":
            return {"result": {"tools": tools(MODE)}}
        case "tools/call":
            found = result(params["name"], params.get("arguments"))
            if found is not None:
                return {"result": found}
            return {"error": {"code": -32603, "message": "rpc failure"}}
        case _:
            return {"error": {"code": -32601, "message": "no such method"}}


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            reply = answer(request["method"], request.get("params") or {})
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **reply}), flush=True)  # noqa: T201 - what it prints is its protocol
