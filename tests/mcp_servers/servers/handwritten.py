"""An MCP server of the older protocol in plain Python: it can do what an SDK would never do.

Arguments: what it does (see below). It reads and writes lines of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else "tools"

NODE = {
    "type": "object",
    "properties": {
        "value": {"type": "integer", "minimum": 1, "description": "how much"},
        "kind": {"enum": ["leaf", "fork"]},
        "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
    },
    "required": ["value"],
}
TREE = {"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": NODE}}
LONG = "a_name_that_is_much_longer_than_what_providers_accept_for_the_name_of_a_tool"
PLAIN: dict[str, Any] = {"type": "object", "properties": {}}
TOOLS = [
    {"name": "tree", "description": "A tree", "inputSchema": TREE},
    {"name": "odd name/1", "inputSchema": PLAIN},
    {"name": "odd_name_1", "inputSchema": PLAIN},
    {"name": LONG, "inputSchema": PLAIN},
    {"name": "broken", "inputSchema": {"type": "object", "properties": {"a": {"type": "wrong"}}}},
    {"name": "elsewhere", "inputSchema": {"type": "object", "$ref": "http://127.0.0.1:9/schema"}},
    {"name": "malformed", "inputSchema": PLAIN},
    {"name": "garbage", "inputSchema": PLAIN},
    {"name": "grow", "inputSchema": PLAIN},
]
grown: list[Any] = []


def send(message: dict[str, Any]) -> None:
    """One line."""
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)  # noqa: T201 - what it prints is its protocol


def call(name: str, arguments: Any) -> dict[str, Any]:
    """The result of a call."""
    if name == "malformed":
        return {"content": [{"type": "no such type"}], "isError": "perhaps"}
    if name == "garbage":
        print("this is no JSON", flush=True)  # noqa: T201 - what it prints is its protocol
    if name == "grow":
        grown.append({"name": f"grown{len(grown)}", "inputSchema": PLAIN})
        send({"method": "notifications/tools/list_changed"})
    said = {"name": name, "arguments": arguments, "pid": os.getpid()}
    return {"content": [{"type": "text", "text": json.dumps(said)}]}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None: there is no such method."""
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": MODE != "fixed"}},
                "serverInfo": {"name": "handwritten", "version": "1"},
            }
        case "tools/list":
            if MODE == "no-list":
                return None
            return {"tools": [*TOOLS, *grown]}
        case "tools/call":
            return call(params["name"], params.get("arguments"))
        case _:
            return None


if MODE == "silent":
    for _ in sys.stdin:
        pass
    sys.exit()
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    found = answer(request["method"], request.get("params") or {})
    if found is None:
        send({"id": request["id"], "error": {"code": -32601, "message": "list failed"}})
    else:
        send({"id": request["id"], "result": found})
