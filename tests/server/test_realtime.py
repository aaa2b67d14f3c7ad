"""The WebSocket: what Inngest's realtime client, which the hook uses, finds here."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from agentkit_py.inngest.realtime import TOPIC, channel_of
from agentkit_py.server import HubLimits, ServerLimits, lifespan, realtime_app
from agentkit_py.testing import tool_call
from tests.server.world import (
    app_of,
    client_of,
    eventually,
    listening,
    message,
    post,
    said,
    served,
    support,
    wait_until_idle,
    waiting,
)


async def token_of(url: str, user: str = "ada", path: str = "") -> dict[str, Any]:
    """Return the token that the hook gets."""
    answer = await post(f"{url}{path}", "/api/realtime/token", {"threadId": "t1"}, user)
    return answer.json()


@asynccontextmanager
async def subscribed(token: dict[str, Any]) -> AsyncGenerator[ClientConnection]:
    """Connect like the hook's client: to a path of its own on ``app.apiBaseUrl``."""
    base = token["app"]["apiBaseUrl"].replace("http", "ws", 1)
    async with connect(f"{base}/v1/realtime/connect?token={token['key']}") as socket:
        yield socket


async def until(socket: ClientConnection, event: str) -> list[dict[str, Any]]:
    """The messages up to this event."""
    found: list[dict[str, Any]] = []
    while not found or found[-1]["data"]["event"] != event:
        found.append(json.loads(await socket.recv()))
    return found


async def test_the_realtime_client_gets_the_run() -> None:
    """Chunks come in Inngest's envelope, on the token's channel and topic."""
    async with served(app_of(support("Hello."))) as url:
        token = await token_of(url)
        assert token["channel"] == channel_of("ada")
        assert token["topics"] == [TOPIC]
        assert token["app"] == {"apiBaseUrl": url}
        async with subscribed(token) as socket:
            await post(url, "/api/chat", message("Hi", "t1"))
            found = await until(socket, "stream.ended")
    assert {(m["channel"], m["topic"], m["kind"]) for m in found} == {
        ("user:ada", "agent_stream", "data")
    }
    numbers = [m["data"]["sequenceNumber"] for m in found]
    assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize(
    ("origin", "status"), [("https://evil.example", 403), ("https://shop.example", 101)]
)
async def test_a_page_of_a_foreign_origin_may_not_listen_with_a_token(
    origin: str, status: int
) -> None:
    """The same rule as for `GET /api/stream`; pages that `origins` names may."""
    async with served(app_of(support("Hello."), origins=["https://shop.example"])) as url:
        token = await token_of(url)
        base = url.replace("http", "ws", 1)
        address = f"{base}/v1/realtime/connect?token={token['key']}"
        try:
            async with connect(address, additional_headers={"Origin": origin}) as socket:
                assert socket.response is not None
                found = socket.response.status_code
        except InvalidStatus as error:
            found = error.response.status_code
    assert found == status


async def test_a_realtime_client_that_reconnects_gets_the_run_again() -> None:
    """The runs in progress are sent from their beginning; the client drops known chunks."""
    wait, begun, go = waiting()
    app = app_of(support(tool_call("wait", {}), "done", tools=(wait,)))
    async with served(app) as url:
        token = await token_of(url)
        async with subscribed(token) as socket:
            await post(url, "/api/chat", message("Hi", "t1"))
            first = await until(socket, "tool_call.arguments.delta")
            await begun.wait()
        await eventually(lambda: app.state.api.hub.readers == 0)
        go.set()
        await wait_until_idle(app)
        async with subscribed(token) as socket:
            second = await until(socket, "stream.ended")
        assert second[: len(first)] == first
        await eventually(lambda: app.state.api.hub.readers == 0)
        async with subscribed(token) as socket:
            model: Any = app.state.api.settings.target(None, None).default_model
            model.reply("two")
            await post(url, "/api/chat", message("Hi", "t2"))
            third = await until(socket, "stream.ended")
            third += await until(socket, "stream.ended")
        assert third[: len(second)] == second, "what it may have lost, and no more"
        assert {one["data"]["data"].get("threadId") for one in third[len(second) :]} == {"t2"}


async def test_a_client_that_reconnects_at_once_gets_chunks_that_it_may_have_lost() -> None:
    """Although the server takes its first connection for open still, and the run has ended."""
    app = app_of(support("Hello."))
    async with served(app) as url:
        token = await token_of(url)
        async with subscribed(token) as lost:
            await post(url, "/api/chat", message("Hi", "t1"))
            first = await until(lost, "stream.ended")
            async with subscribed(token) as socket:
                assert await until(socket, "stream.ended") == first


async def test_a_client_gets_the_end_that_was_sent_to_a_connection_that_was_gone() -> None:
    """The run had ended before the server noticed: the page would wait for the end for ever."""
    app = app_of(support("Hello.", "Bye."))
    hub = app.state.api.hub
    async with served(app) as url:
        token = await token_of(url)
        async with subscribed(token):
            await post(url, "/api/chat", message("Hi", "t1"))
            await wait_until_idle(app)
        await eventually(lambda: hub.readers == 0)
        async with subscribed(token) as socket:
            found = await until(socket, "stream.ended")
    numbers = [one["data"]["sequenceNumber"] for one in found]
    assert numbers == list(range(len(numbers)))


async def test_a_slow_realtime_client_is_closed() -> None:
    """The close code asks it to come back later."""
    app = app_of(
        support(), hub_limits=HubLimits(channel_chunks=2), limits=ServerLimits(stream_seconds=0.2)
    )
    hub = app.state.api.hub
    async with served(app) as url:
        token = await token_of(url)
        async with subscribed(token) as socket:
            for number in range(5):  # no turn for the reader in between
                hub.publish("user:ada", {"event": "x", "data": {"n": number}})
            await socket.wait_closed()
            assert socket.close_code == 1013
        await eventually(lambda: hub.readers == 0)


@pytest.mark.parametrize(
    ("headers", "base"),
    [
        ({}, "http://localhost"),
        ({"origin": "https://localhost"}, "https://localhost"),
        ({"origin": "https://elsewhere.example", "sec-fetch-site": "same-origin"},
         "http://localhost"),
    ],
)  # fmt: skip
async def test_the_token_names_the_host_of_the_page(headers: dict[str, str], base: str) -> None:
    """Behind a proxy that ends TLS, the page knows the scheme."""
    async with client_of(app_of(support()), "ada", **headers) as client:
        found = (await client.post("/api/realtime/token", json={})).json()
    assert found["app"]["apiBaseUrl"] == base


async def test_realtime_url_overrides_the_tokens_address() -> None:
    """The option replaces the address of the request."""
    app = app_of(support(), realtime_url="https://realtime.example")
    async with client_of(app) as client:
        found = (await client.post("/api/realtime/token", json={})).json()
    assert found["app"]["apiBaseUrl"] == "https://realtime.example"


async def test_the_api_can_be_mounted_in_fastapi() -> None:
    """The API has a prefix, its WebSocket is at the root, and it shares the lifespan."""
    api: Starlette = app_of(support("Hello.", "Hello."))

    @asynccontextmanager
    async def whole(_app: FastAPI) -> AsyncGenerator[None]:
        async with lifespan(api):
            yield

    main = FastAPI(lifespan=whole)

    @main.get("/health")
    async def health() -> str:
        return "well"

    main.mount("/support", api)
    main.mount("/v1/realtime", realtime_app(api))
    async with served(main) as url:
        token = await token_of(url, path="/support")
        async with subscribed(token) as socket, listening(f"{url}/support") as stream:
            answer = await post(f"{url}/support", "/api/chat", message("Hi", "t1"))
            assert answer.status_code == 200
            await until(socket, "stream.ended")
            await stream.until("stream.ended")
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"{url}/health")).json() == "well"
            assert (await client.get(f"{url}/support/openapi.json")).status_code == 200


async def test_messages_from_a_realtime_client_are_ignored() -> None:
    """It can only listen."""
    app = app_of(support("Hello."))
    async with served(app) as url, subscribed(await token_of(url)) as socket:
        await socket.send("subscribe user:eve")
        await said(app, "Hi", "t9", "eve")
        app.state.api.hub.publish("user:ada", {"event": "x", "data": {}})
        found = await until(socket, "x")
    assert len(found) == 1
