"""Servers at a URL: streamable HTTP, and SSE."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agentkit_py.mcp import SSE, MCPConnectionError, MCPProtocolError, MCPServer, StreamableHTTP

from .world import Served, eventually, notes, served, text_of


@pytest.mark.parametrize(("how", "kind"), [("http", StreamableHTTP), ("sse", SSE)])
async def test_a_server_at_a_url_is_used_like_any_other(
    tmp_path: Path, how: str, kind: Any
) -> None:
    """List, call, results, calls at the same time."""
    with served(how, tmp_path) as found:
        async with MCPServer("m", kind(found.url)) as server:
            listing: Any = await server.listing()
            assert [tool["name"] for tool in listing["tools"]][:2] == ["add", "fail"]
            calls = [server.call("add", {"a": n, "b": 1}) for n in range(5)]
            assert [text_of(each) for each in await asyncio.gather(*calls)] == [
                f"{n + 1} cm" for n in range(5)
            ]


class _Auth(httpx2.Auth):
    def __init__(self) -> None:
        self.asked = 0

    def auth_flow(self, request: httpx2.Request) -> Any:
        self.asked += 1
        request.headers["Authorization"] = "Bearer t0k3n"
        yield request


async def test_headers_and_an_auth_provider_are_used_and_not_shown(tmp_path: Path) -> None:
    """They reach the HTTP client, and no repr."""
    auth = _Auth()
    with served("http", tmp_path) as found:
        transport = StreamableHTTP(found.url, headers={"X-Key": "s3cret"}, auth=auth)
        async with MCPServer("m", transport) as server:
            await server.call("pid")
    assert auth.asked >= 2
    assert "s3cret" not in repr(server)


async def test_a_server_that_is_started_again_is_used_again(tmp_path: Path) -> None:
    """A call while it is down fails, and says so."""
    first = Served("http", tmp_path)
    async with MCPServer("m", StreamableHTTP(first.url)) as server:
        before = text_of(await server.call("pid"))
        first.kill()
        with pytest.raises((MCPConnectionError, MCPProtocolError)):
            await server.call("pid")
        with served("http", tmp_path, first.port):
            assert text_of(await server.call("pid")) != before


async def test_cancelling_reaches_a_server_at_a_url(tmp_path: Path) -> None:
    """The tool there ends."""
    with served("http", tmp_path) as found:
        async with MCPServer("m", StreamableHTTP(found.url)) as server:
            call = asyncio.ensure_future(server.call("hang"))
            await eventually(lambda: notes(tmp_path) == ["hang begins"])
            call.cancel()
            await eventually(lambda: "hang cancelled" in notes(tmp_path))
