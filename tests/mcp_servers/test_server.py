"""A server over stdio: its tools, its results, and what may go wrong."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from agentkit_py import Agent, gemini, openai
from agentkit_py._core.validation import TOOL_NAME
from agentkit_py.errors import ConfigurationError, ToolSourceError
from agentkit_py.mcp import (
    SSE,
    MCPConnectionError,
    MCPProtocolError,
    MCPResultTooLargeError,
    MCPServer,
    MCPTimeoutError,
    MCPToolError,
    Stdio,
    StreamableHTTP,
)
from agentkit_py.mcp.tools import offered_name
from agentkit_py.messages import TextMessage
from agentkit_py.models.base import ModelRequest
from agentkit_py.server import create_app
from agentkit_py.server.chat import agents_of
from agentkit_py.testing import ScriptedModel
from agentkit_py.tools.values import InvalidArguments

from .world import ProgressLog, eventually, handwritten, is_alive, modern, notes, said, text_of


async def test_results_keep_images_resources_and_links(tmp_path: Path) -> None:
    """Content blocks come under the names that MCP gives their fields."""
    async with modern(tmp_path) as server:
        assert await server.call("add", {"a": 1, "b": 2}) == [{"type": "text", "text": "3 cm"}]
        shown: Any = await server.call("show")
    assert [block["type"] for block in shown] == ["image", "resource", "resource_link"]
    assert shown[0] == {"type": "image", "data": "cG5n", "mimeType": "image/png"}
    assert shown[1]["resource"]["text"] == "A"


async def test_a_structured_result_that_a_text_repeats_is_kept_once(tmp_path: Path) -> None:
    """The SDK's servers send both."""
    async with modern(tmp_path) as server:
        value = await server.call("structured")
    assert json.loads(text_of(value)) == {"total": 3}


async def test_a_result_with_is_error_is_raised(tmp_path: Path) -> None:
    """The error's message is the tool's text."""
    async with modern(tmp_path) as server:
        with pytest.raises(MCPToolError, match="no such order"):
            await server.call("fail")


async def test_a_server_that_dies_in_a_call_is_started_anew_for_the_next(tmp_path: Path) -> None:
    """The call is not repeated by itself: it may have been carried out."""
    async with modern(tmp_path) as server:
        first = text_of(await server.call("pid"))
        with pytest.raises(MCPConnectionError, match="not known"):
            await server.call("die")
        assert notes(tmp_path) == [f"die {first}"]
        assert text_of(await server.call("pid")) != first


async def test_a_call_that_hangs_ends_in_time_and_is_cancelled_on_the_server(
    tmp_path: Path,
) -> None:
    """The server hears of it, and the connection stays."""
    async with modern(tmp_path) as server:
        before = text_of(await server.call("pid"))
        server.timeout = 0.3
        with pytest.raises(MCPTimeoutError, match=r"0\.3 s"):
            await server.call("hang")
        await eventually(lambda: notes(tmp_path) == ["hang begins", "hang cancelled"])
        server.timeout = 60
        assert text_of(await server.call("pid")) == before


async def test_cancelling_a_call_cancels_it_on_the_server(tmp_path: Path) -> None:
    """A run's tool_timeout cancels it in this way."""
    async with modern(tmp_path) as server:
        call = asyncio.ensure_future(server.call("hang"))
        await eventually(lambda: notes(tmp_path) == ["hang begins"])
        call.cancel()
        await eventually(lambda: "hang cancelled" in notes(tmp_path))


async def test_progress_is_reported_and_restarts_the_time_limit(tmp_path: Path) -> None:
    """Each report begins the time again."""
    progress = ProgressLog()
    server = modern(tmp_path, timeout=4, on_progress=progress)
    async with server:
        assert text_of(await server.call("slow", {"steps": 3, "seconds": 1.5})) == "done"
    assert progress.facts == [("slow", float(n), 3.0, f"step {n}") for n in (1, 2, 3)]


async def test_a_result_above_the_limit_is_an_error(tmp_path: Path) -> None:
    """A larger limit allows it."""
    async with modern(tmp_path) as server:
        with pytest.raises(MCPResultTooLargeError, match="10,000,027 bytes"):
            await server.call("big", {"size": 10_000_000})
        server.max_result_bytes = 20_000_000
        assert len(text_of(await server.call("big", {"size": 10_000_000}))) == 10_000_000


async def test_a_malformed_result_is_an_error_and_a_line_of_garbage_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The connection outlives both."""
    with caplog.at_level(logging.CRITICAL, "mcp"):
        async with handwritten() as server:
            with pytest.raises(MCPProtocolError, match="no MCP result"):
                await server.call("malformed")
            assert said(await server.call("garbage", {"a": 1}))["arguments"] == {"a": 1}


async def test_the_list_is_asked_for_again_when_it_has_changed(tmp_path: Path) -> None:
    """Both protocols' ways of saying so."""
    for server in (handwritten(), modern(tmp_path)):
        async with server:
            before: Any = await server.listing()
            assert before["changes"] is True
            await server.call("grow")
            with anyio.fail_after(120):
                while await server.listing() == before:
                    await anyio.lowlevel.checkpoint()
            after: Any = await server.listing()
            new = [tool["name"] for tool in after["tools"][len(before["tools"]) :]]
            assert new in (["grown"], ["grown0"])


async def test_schemas_reach_models_undamaged() -> None:
    """References, recursion, enums, minimums and descriptions; Gemini gets it written out."""
    async with handwritten() as server:
        listing: Any = await server.listing()
    tree = server.tools(listing)[0]
    assert tree.parameters == listing["tools"][0]["inputSchema"]
    request = ModelRequest(messages=(TextMessage("user", "hi"),), tools=(tree.spec,))
    body = openai("gpt-4o", api_key="k").encode(request)
    function = body["tools"][0]["function"]
    assert function.get("strict") is not True
    node = function["parameters"]["definitions"]["node"]
    assert node["properties"]["value"] == {
        "type": "integer",
        "minimum": 1,
        "description": "how much",
    }
    assert node["properties"]["children"]["items"] == {"$ref": "#/definitions/node"}
    shown = json.dumps(gemini("gemini-2.5-flash", api_key="k").encode(request)["tools"])
    assert "how much" in shown
    assert "$ref" not in shown


async def test_arguments_are_validated_through_references() -> None:
    """A recursive schema too; what is wrong is named by its path."""
    async with handwritten() as server:
        tree = server.tools(await server.listing())[0]
    good = {"root": {"value": 1, "children": [{"value": 2, "kind": "leaf"}]}}
    assert tree.arguments.validate(good) == good
    with pytest.raises(Exception, match=r"root\.children\.0\.value"):
        tree.arguments.validate({"root": {"value": 1, "children": [{"value": 0}]}})


async def test_names_and_schemas_that_cannot_be_used_are_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Names are mapped; tools whose schemas no model takes are left out."""
    async with handwritten() as server:
        listing = await server.listing()
    with caplog.at_level(logging.WARNING, "agentkit_py.mcp"):
        names = [tool.name for tool in server.tools(listing)]
        said_once = caplog.messages.copy()
        assert [tool.name for tool in server.tools(listing)] == names
    assert caplog.messages == said_once
    assert server.names["h-odd_name_1"] == "odd name/1"
    assert sorted(server.names.values()) == sorted(
        {t["name"] for t in listing["tools"]} - {"broken", "elsewhere"}  # type: ignore[index] - asserted just before
    )
    assert all(TOOL_NAME.fullmatch(name) for name in names)
    assert any("'broken' is left out" in message for message in said_once)
    assert any("'odd name/1' is offered as 'h-odd_name_1'" in message for message in said_once)


@pytest.mark.parametrize(
    ("server", "tool", "taken", "name"),
    [
        ("a", "b", (), "a-b"),
        ("2", "b", (), "_2-b"),
        ("a b", "ü", (), "a_b-_"),
        ("a", "b", ("a-b",), "a-b_"),
        ("a", "x" * 80, (), "a-" + "x" * 53 + "_"),
    ],
)
def test_offered_names_depend_only_on_server_and_tool(
    server: str, tool: str, taken: tuple[str, ...], name: str
) -> None:
    """The names are made of the two names and those already taken."""
    made = offered_name(server, tool, taken)
    assert made == offered_name(server, tool, taken)
    assert made.startswith(name)
    assert made not in taken
    assert len(made) <= 64


async def test_include_and_exclude_choose_the_tools(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A chosen tool that does not exist is logged."""
    async with modern(tmp_path, include=["add", "pid", "ad"], exclude=["pid"]) as server:
        tools = server.tools(await server.listing())
    assert [tool.name for tool in tools] == ["m-add"]
    assert any("'ad'" in message for message in caplog.messages)


async def test_titles_of_a_server_are_one_clean_line_that_fills_in_nothing(tmp_path: Path) -> None:
    """A stranger wrote them; front ends get them with the titles of the agent's own tools."""
    server = modern(tmp_path, include=["add", "fail", "pid"])
    agent = Agent(name="desk", system="S", model=ScriptedModel("Hi."), mcp_servers=[server])
    async with server:
        titles = {tool.name: tool.title for tool in server.tools(await server.listing())}
    long = titles["m-add"]
    assert long.startswith("[31mAdd {{two}} lengths and more")
    assert len(long.format()) <= 80
    assert (titles["m-fail"], titles["m-pid"]) == ("Give up", "")
    app = create_app(agents=[agent], auth="local")
    assert agents_of(app.state.api.settings)[0]["tools"] == {"m-add": long, "m-fail": "Give up"}


async def test_a_process_gets_only_the_environment_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our keys are not its business."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ours")
    transport = modern(tmp_path).transport
    assert isinstance(transport, Stdio)
    given = Stdio(transport.command, transport.args, env={"TOKEN": "t0k3n"})
    async with MCPServer("m", given) as server:
        found = json.loads(text_of(await server.call("environment")))
    assert found["TOKEN"] == "t0k3n"
    assert "PATH" in found
    assert "OPENAI_API_KEY" not in found
    assert "t0k3n" not in repr(server)


async def test_a_process_ends_when_the_last_one_closes(tmp_path: Path) -> None:
    """Others that share the server keep it until then; a later use starts it again."""
    server = modern(tmp_path)
    async with server:
        async with server:
            pid = int(text_of(await server.call("pid")))
        assert int(text_of(await server.call("pid"))) == pid
    assert not is_alive(pid)
    async with server:
        assert int(text_of(await server.call("pid"))) != pid


def test_a_process_ends_with_the_event_loop_that_used_it(tmp_path: Path) -> None:
    """This holds without `async with`; another loop gets a connection of its own."""
    server = modern(tmp_path)

    async def use() -> int:
        return int(text_of(await server.call("pid")))

    first, second = asyncio.run(use()), asyncio.run(use())
    assert first != second
    assert not is_alive(first)
    assert not is_alive(second)


@pytest.mark.parametrize(
    ("transport", "words"),
    [
        (Stdio("no-such-command-anywhere"), "the command 'no-such-command-anywhere'"),
        (Stdio(sys.executable, ["-c", "pass"]), "cannot be used"),
        (StreamableHTTP("http://u:secret@127.0.0.1:9/mcp?key=secret"), "http://127.0.0.1:9/mcp "),
        (SSE("http://127.0.0.1:9/sse"), "http://127.0.0.1:9/sse"),
    ],
)
async def test_an_unreachable_server_is_an_error_that_names_it(transport: Any, words: str) -> None:
    """The message says which, and no secret."""
    with pytest.raises(ToolSourceError) as caught:
        async with MCPServer("gone", transport, connect_timeout=10):
            pass
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_server_that_never_answers_is_an_error_after_connect_timeout() -> None:
    """The error comes after the configured time."""
    with pytest.raises(ToolSourceError, match=r"did not answer in 0\.3 s"):
        await handwritten(mode="silent", connect_timeout=0.3).listing()


async def test_an_optional_server_that_cannot_be_reached_is_logged_and_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """This includes a server that does not list its tools."""
    for server in (
        MCPServer("gone", Stdio("no-such-command-anywhere"), required=False),
        handwritten(mode="no-list", required=False),
    ):
        caplog.clear()
        async with server:
            listing = await server.listing()
        assert server.tools(listing) == []
        assert "missing" in listing
        assert any("going on without its tools" in message for message in caplog.messages)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("ws://127.0.0.1/mcp", "no WebSocket transport"),
        ({"type": "ws", "url": "ws://x"}, "StreamableHTTP"),
        ({"type": "carrier-pigeon"}, "streamable-http and sse"),
        ({"type": "stdio", "comand": "secret"}, "unexpected keyword argument 'comand'"),
        ("npx -y server", "Stdio"),
        (7, "is not a transport"),
    ],
)
def test_unknown_transports_are_refused(given: Any, words: str) -> None:
    """The error names the known transports and no values."""
    with pytest.raises(ConfigurationError, match=words) as caught:
        MCPServer("x", given)
    assert "secret" not in str(caught.value)


def test_typescripts_transport_settings_are_accepted() -> None:
    """Those of createAgent({mcpServers: [{name, transport: {…}}]})."""
    stdio = MCPServer("a", {"type": "stdio", "command": "npx", "args": ["x"], "env": {"A": "1"}})
    assert stdio.transport == Stdio("npx", ["x"], {"A": "1"})
    http = MCPServer("a", {"type": "streamable-http", "url": "https://x/mcp"})
    assert http.transport == MCPServer("a", "https://x/mcp").transport
    assert MCPServer("a", {"type": "sse", "url": "https://x"}).transport == SSE("https://x")
    with pytest.raises(ConfigurationError, match="needs a name"):
        MCPServer("", "https://x/mcp")
    with pytest.raises(ConfigurationError, match="list of names"):
        MCPServer("a", "https://x/mcp", exclude="add")


def nested(levels: int) -> dict[str, Any]:
    """Return a schema of objects in objects."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def doubling(levels: int, **more: Any) -> dict[str, Any]:
    """Return a schema each of whose parts refers to the next one twice."""
    parts: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(levels)
    }
    return {
        "type": "object",
        "$defs": {**parts, f"d{levels}": {"type": "string"}},
        "properties": {"x": {"$ref": "#/$defs/d0"}, **more},
    }


def tools_of(schema: dict[str, Any]) -> list[Any]:
    """Return the tools of a server that lists one with this schema."""
    server = MCPServer("s", "http://127.0.0.1:1/mcp")
    return list(server.tools({"tools": [{"name": "t", "inputSchema": schema}], "changes": False}))


@pytest.mark.parametrize("schema", [nested(3000), doubling(100)])
def test_a_schema_that_grows_without_bound_leaves_its_tool_out(
    schema: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A warning is logged; expanding the schema would never end."""
    assert tools_of(schema) == []
    assert "'t' is left out" in caplog.text


def test_a_recursive_schema_that_doubles_is_offered_and_left_to_the_server() -> None:
    """Validation stops where too many references were followed."""
    (tool,) = tools_of(doubling(100, again={"$ref": "#"}))
    assert tool.arguments.validate({"x": 1}) == {"x": 1}


def test_regular_expressions_of_a_server_are_not_run() -> None:
    """One that backtracks for ever would block every run of the process."""
    evil = "^(a+)+$"
    (tool,) = tools_of(
        {
            "type": "object",
            "properties": {"x": {"type": "string", "pattern": evil}},
            "patternProperties": {evil: {"type": "string"}},
            "additionalProperties": False,
        }
    )
    given = {"x": "a" * 100 + "!", "a" * 100 + "!": "b"}
    assert tool.arguments.validate(given) == given
    with pytest.raises(InvalidArguments, match="x: 1 is not of type"):
        tool.arguments.validate({"x": 1})


@pytest.mark.parametrize(
    "transport",
    [
        Stdio("server", ["--token", "hunter2"], env={"KEY": "hunter2"}),
        StreamableHTTP("https://ada:hunter2@example.com/mcp?key=hunter2"),
        SSE("https://example.com/sse?key=hunter2", headers={"Authorization": "hunter2"}),
        "https://example.com/mcp?key=hunter2",
    ],
)
def test_the_repr_of_a_server_shows_no_secret(transport: Any) -> None:
    """No argument, environment, header, user or query."""
    shown = repr(MCPServer("s", transport))
    assert "hunter2" not in shown
    assert "server" in shown or "example.com" in shown
