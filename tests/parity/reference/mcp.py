"""Tools of MCP servers in the reference model, with `mcp_oracle` as the recordings' server."""

from __future__ import annotations

from typing import Any

from .. import mcp_oracle
from ..vectors import Json
from .core import Switches, our_failure

_UUID = (
    "^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}"
    "|00000000-0000-0000-0000-000000000000|ffffffff-ffff-ffff-ffff-ffffffffffff)$"
)
_DRAFTS = {
    "draft-7": "http://json-schema.org/draft-07/schema#",
    "draft-2020-12": "https://json-schema.org/draft/2020-12/schema",
}


class ListingFailed(Exception):  # noqa: N818 - a signal
    """TypeScript: the server does not list its tools, and the run goes on without."""

    def __init__(self, message: str, *before: Json) -> None:
        error = {"name": "McpError", "message": message}
        self.warnings: list[Json] = [*before, ["<ts:warning>", {"$error": error}]]


def server_tools(server: dict[str, Json], on: Switches, *, shimmed: bool) -> list[Json]:
    """Return the tools of a server that an agent is offered.

    Args:
        server: The scenario's settings.
        on: Our differences.
        shimmed: Whether the recording was made with a package that TypeScript's needs for MCP, and
            does not install.

    Raises:
        Failure: Ours fails as the server does not list its tools.
        ListingFailed: TypeScript's goes on.
    """
    command = server["transport"]["command"]
    mode = next(reversed(server["transport"]["args"]), "")
    starts = mcp_oracle.is_oracle(server["transport"])
    if not starts or mode == "error-list":
        if on("mcp-servers-that-fail"):
            raise our_failure("ToolSourceError")
        if starts:
            raise ListingFailed("MCP error -32603: list failed")
        # agent.ts `mcpClient` warns of the connection, and `listMCPTools` of what follows.
        failed = {"$error": {"name": "Error", "message": f"spawn {command} ENOENT"}}
        raise ListingFailed("MCP error -32000: Connection closed", ["<ts:warning>", server, failed])
    works = shimmed or on("mcp-works")
    return [_tool(server["name"], listed, works=works) for listed in mcp_oracle.tools(mode)]


def _tool(server: str, listed: Json, *, works: bool) -> Json:
    plain = zod(listed["inputSchema"])
    forms: dict[str, Json] = {name: {"$schema": url, **plain} for name, url in _DRAFTS.items()}
    forms["openapi-3.0(io=input)"] = openapi(plain)
    return {
        "name": f"{server}-{listed['name']}",
        "description": listed.get("description"),
        "factory": "mcp",
        "parameters": {"jsonSchema": forms},
        "ours": {"properties": {}, **listed["inputSchema"]},
        "strict": False,
        "mcp": "works" if works else "broken",
        "listed": listed,
        "handler": {"op": "mcp", "tool": listed["name"]},
    }


def zod(schema: Json) -> dict[str, Json]:
    """Return a server's schema after TypeScript has converted it to zod and back."""
    if "anyOf" in schema:
        return {"type": [option["type"] for option in schema["anyOf"]]}
    kind = schema["type"]
    if kind == "object":
        properties = schema.get("properties", {})
        made: dict[str, Json] = {"type": "object"}
        made["properties"] = {name: zod(each) for name, each in properties.items()}
        required = {"required": schema["required"]} if schema.get("required") else {}
        return {**made, **required, "additionalProperties": False}
    if kind == "array":
        least = {"minItems": schema["minItems"]} if "minItems" in schema else {}
        return {**least, "type": "array", "items": zod(schema["items"])}
    if schema.get("format") == "uuid":
        return {"type": "string", "format": "uuid", "pattern": _UUID}
    return {"type": "number" if kind == "integer" else kind}


def openapi(schema: Json) -> Json:
    """The same in OpenAPI 3.0, which knows one type at a time."""
    made: dict[str, Json] = dict(schema)
    if isinstance(made.get("type"), list):
        kinds = [kind for kind in made.pop("type") if kind != "null"]
        one = {"type": kinds[0]} if len(kinds) == 1 else {"anyOf": [{"type": k} for k in kinds]}
        made = {**made, **one, **({"nullable": True} if "null" in schema["type"] else {})}
    if "properties" in made:
        made["properties"] = {name: openapi(each) for name, each in made["properties"].items()}
    if "items" in made:
        made["items"] = openapi(made["items"])
    return made


def kept(tools: list[Json]) -> list[Json]:
    """The tools that TypeScript's agent has after a run."""
    found: list[Json] = []
    for tool in tools:
        facts = {"name": tool["name"], "hasParameters": tool.get("parameters") is not None}
        if tool.get("description"):
            facts["description"] = tool["description"]
        found.append({**facts, "mcpTool": tool["listed"]} if "mcp" in tool else facts)
    return found


def outcome(tool: Json, given: Json, on: Switches) -> Json:
    """The content of a call's result."""
    found: Any = mcp_oracle.result(tool["handler"]["tool"], given)
    if found is None:
        said = "MCP error -32603: rpc failure"
        if on("mcp-errors-are-errors"):
            return {"error": {"name": "MCPProtocolError", "message": said}}
        facts = {"stack": "<stack>", "code": -32603, "__serialized": True}
        return {"error": {"name": "Error", "message": said, **facts}}
    if found.get("isError") and on("mcp-errors-are-errors"):
        words = "\n".join(block["text"] for block in found["content"])
        return {"error": {"name": "MCPToolError", "message": words}}
    return {"data": found["content"]}
