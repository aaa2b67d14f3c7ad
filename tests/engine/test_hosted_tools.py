"""Hosted tools beside an agent's own: what they gave goes back in its place, and is accepted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentkit_py import Agent, tool
from agentkit_py.models import Model, anthropic, azure_openai, gemini, grok, openai_responses
from agentkit_py.testing import FakeProvider, Raw

from .runner import Runner

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}}
FOUND: dict[str, Any] = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [],
}
ASKED: dict[str, Any] = {
    "type": "mcp_tool_use",
    "id": "mcptoolu_1",
    "name": "look",
    "server_name": "wiki",
    "input": {},
}
TOLD: dict[str, Any] = {
    "type": "mcp_tool_result",
    "tool_use_id": "mcptoolu_1",
    "is_error": False,
    "content": [],
}
WEB = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
FILES: dict[str, Any] = {
    "type": "file_search_call",
    "id": "fs_1",
    "status": "completed",
    "queries": ["x"],
}
LISTED: dict[str, Any] = {
    "type": "mcp_list_tools",
    "id": "mcpl_1",
    "server_label": "wiki",
    "tools": [],
}
MCP = {
    "type": "mcp_call",
    "id": "mcp_1",
    "server_label": "wiki",
    "name": "look",
    "arguments": "{}",
    "output": "found",
}
CODE = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
RAN = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}

CLAUDE = anthropic("claude-sonnet-4-5", api_key="k")
GEMINI = gemini("gemini-3-pro", api_key="k")
OPENAI = openai_responses("gpt-4.1", api_key="k")
AZURE = azure_openai("gpt-4.1", endpoint="https://r.openai.azure.com", api_key="k", api="responses")
GROK = grok("grok-4", api_key="k", api="responses")
RESPONSES = (OPENAI, AZURE, GROK)
STORE = {"type": "file_search", "vector_store_ids": ["vs_1"]}
WIKI = {"type": "mcp", "server_label": "wiki", "server_url": "https://wiki.example/mcp"}
TOOLSET = {"type": "mcp_toolset", "mcp_server_name": "wiki"}

SERVER = {"type": "url", "name": "wiki", "url": "https://wiki.example/mcp"}
CONNECTED = anthropic(
    "claude-sonnet-4-5",
    api_key="k",
    headers={"anthropic-beta": "mcp-client-2025-11-20"},
    default_parameters={"mcp_servers": [SERVER]},
)

CASES: list[tuple[Model, Any, list[dict[str, Any]], list[str]]] = [
    (CLAUDE, "web_search", [SEARCH, FOUND], ["web_search", "web_search"]),
    (CONNECTED, TOOLSET, [ASKED, TOLD], ["look", "look"]),
    (GEMINI, "code_execution", [CODE, RAN], ["code_execution", "code_execution"]),
    *[(model, "web_search", [WEB], ["web_search"]) for model in RESPONSES],
    *[(model, STORE, [FILES], ["file_search"]) for model in RESPONSES],
    *[(model, WIKI, [LISTED, MCP], ["wiki", "look"]) for model in RESPONSES],
]


def said(model: Model, *blocks: dict[str, Any], call: bool) -> dict[str, Any]:
    """A reply with these blocks, and a call of the agent's own tool or a text."""
    match model.adapter.host.provider:
        case "anthropic":
            own: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
            last = own if call else {"type": "text", "text": "Done."}
            ended = "tool_use" if call else "end_turn"
            content = [*blocks, last]
            return {"type": "message", "role": "assistant", "content": content} | {
                "stop_reason": ended
            }
        case "gemini":
            own = {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2k="}
            parts = [*blocks, own if call else {"text": "Done."}]
            content = {"role": "model", "parts": parts}
            return {"candidates": [{"content": content, "finishReason": "STOP"}]}
        case _:
            own = {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"}
            part: dict[str, Any] = {"type": "output_text", "text": "Done.", "annotations": []}
            text = {"type": "message", "role": "assistant", "content": [part]}
            output = [*blocks, own if call else text]
            return {"object": "response", "status": "completed", "output": output}


@pytest.mark.parametrize(("model", "hosted", "blocks", "tools"), CASES)
async def test_a_hosted_tools_blocks_go_back_with_the_results_of_own_tools(
    runner: Runner, model: Model, hosted: Any, blocks: list[dict[str, Any]], tools: list[str]
) -> None:
    """In the next request of the turn, which the provider accepts, block for block."""

    @tool
    def look() -> str:
        """Look something up."""
        return "seen"

    replies = [Raw(json=said(model, *blocks, call=True)), Raw(json=said(model, call=False))]
    fake = FakeProvider(replies)
    agent = Agent(
        name="a",
        system="S",
        model=replace(model, transport=fake.transport),
        tools=[look],
        hosted_tools=[hosted],
    )
    result = await runner.run(agent, "x")
    assert (result.text, fake.rejections) == ("Done.", [])
    body = str(fake.requests[1].body)
    assert all(str(block) in body for block in blocks)
    assert "seen" in body
    names = [message.tool for message in result.history if message.type == "opaque"]
    assert names == tools
