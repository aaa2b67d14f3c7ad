"""Talk to the shop over HTTP, as a page without React would. Offline."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncGenerator
from typing import Any

import httpx
import uvicorn
from app import app
from httpx_sse import aconnect_sse
from websockets.asyncio.client import connect
from with_fastapi import app as mounted
from with_inngest import app as durable


# --8<-- [start:listen]
async def listen(
    client: httpx.AsyncClient, last_id: str = ""
) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
    """Yield the user's chunks after ``last_id``, each with its id."""
    headers = {"last-event-id": last_id} if last_id else {}
    async with aconnect_sse(client, "GET", "/api/stream", headers=headers) as source:
        async for event in source.aiter_sse():
            if event.event == "reset":
                print("something was lost: read the thread again")
            elif event.event == "ready":
                yield event.id, {"event": "ready", "data": {}}
            elif event.event == "message":
                yield event.id, json.loads(event.data)
    # --8<-- [end:listen]


# --8<-- [start:talk]
async def talk(
    client: httpx.AsyncClient, text: str = "", last_id: str = "", until: str = "stream.ended"
) -> str:
    """Send a message once the stream is open, print the reply, and return the last chunk's id."""
    async with contextlib.aclosing(listen(client, last_id)) as chunks:
        async for event_id, chunk in chunks:
            last_id, data = event_id, chunk["data"]
            match chunk["event"]:
                case "ready" if text:
                    body = {"userMessage": {"content": text, "role": "user"}, "threadId": "t1"}
                    (await client.post("/api/chat", json=body)).raise_for_status()
                case "text.delta":
                    print(data["delta"], end="", flush=True)
                case "hitl.requested":
                    call = data["toolCalls"][0]
                    print(f"{call['toolName']} {call['toolInput']}? yes")
                    question, mia = data["requestId"], {"authorization": "Bearer 9d2e11"}
                    said = await client.post(
                        f"/api/approvals/{question}", json={"action": "approve"}, headers=mia
                    )
                    said.raise_for_status()
                case _:
                    pass
            if chunk["event"] == until:
                break
    print()
    return last_id
    # --8<-- [end:talk]


# --8<-- [start:socket]
async def ask_by_socket(client: httpx.AsyncClient, text: str) -> str:
    """Send a message, and return the text of its reply, which comes by a WebSocket."""
    token = (await client.post("/api/realtime/token", json={})).json()
    address = token["app"]["apiBaseUrl"].replace("http", "ws", 1)
    said = ""
    async with connect(f"{address}/v1/realtime/connect?token={token['key']}") as socket:
        body = {"userMessage": {"content": text, "role": "user"}, "threadId": "t2"}
        (await client.post("/api/chat", json=body)).raise_for_status()
        async for message in socket:
            chunk = json.loads(message)["data"]
            if chunk["event"] == "text.delta":
                said += chunk["data"]["delta"]
            if chunk["event"] == "stream.ended":
                break
    return said
    # --8<-- [end:socket]


async def converse(client: httpx.AsyncClient) -> None:
    """A question, a break in the middle of the answer, and a refund that a person approves."""
    # --8<-- [start:break]
    last_id = await talk(client, "What did I buy?", until="tool_call.arguments.delta")
    print("(the connection was lost, the run continues)")
    await talk(client, last_id=last_id)
    # --8<-- [end:break]
    await talk(client, "I want my money back.")
    thread = (await client.get("/api/threads/t1")).json()
    print(thread["thread"]["title"], [m["type"] for m in thread["messages"]])
    assert len(thread["messages"]) == 6
    print(await ask_by_socket(client, "What did I buy?"))


async def main() -> None:
    """Serve the API on a free port, and talk to it."""
    paths = {getattr(route, "path", "") for route in (*mounted.routes, *durable.routes)}
    assert {"/support", "/v1/realtime", "/api/inngest"} <= paths
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    headers = {"authorization": "Bearer 5f8e03"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=20) as client:
        await converse(client)
    server.should_exit = True
    await serving


asyncio.run(main())
