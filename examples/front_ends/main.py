"""One conversation in each protocol, in this process, as the clients of npm have it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
from lamps import app
from route import service


async def events(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> list[Any]:
    """Return the events with which a request is answered."""
    answer = await client.post(path, json=body)
    answer.raise_for_status()
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def client_of(program: Any, **headers: str) -> httpx.AsyncClient:
    """Return a client that needs no server."""
    transport = httpx.ASGITransport(program, client=("127.0.0.1", 1))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers)


async def main() -> None:
    """Ask for a refund in AG-UI, allow it, and say hello to the others."""
    text = {"role": "user", "id": "m1", "content": "Refund order A1"}
    run: dict[str, Any] = {"threadId": "t1", "runId": "r1", "messages": [text]}
    async with client_of(app) as client:
        asked = (await events(client, "/api/ag-ui", run))[-1]["outcome"]["interrupts"][0]
        print("AG-UI asks:", asked["message"])
        answer = {"interruptId": asked["id"], "status": "resolved", "payload": True}
        found = await events(client, "/api/ag-ui", {**run, "resume": [answer]})
        words = [e["delta"] for e in found if e["type"] == "TEXT_MESSAGE_CONTENT"]
        print("AG-UI:", "".join(words))
        parts = [{"type": "text", "text": "Hello"}]
        said = {"id": "t2", "messages": [{"id": "m1", "role": "user", "parts": parts}]}
        found = await events(client, "/api/vercel", said)
        print("useChat:", "".join(e["delta"] for e in found if e["type"] == "text-delta"))
    async with client_of(service, authorization="Bearer 5f8e03") as client:
        found = await events(client, "/ask", {"userMessage": {"content": "Hello"}})
        own = [e["data"]["delta"] for e in found if e["event"] == "text.delta"]
        print("A route of one's own:", "".join(own))


if __name__ == "__main__":
    asyncio.run(main())
