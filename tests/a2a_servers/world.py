"""A network behind A2A, and the SDK's own client, in one process and without a network."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.helpers import get_artifact_text, new_data_part, new_text_part
from a2a.types import (
    ListTasksRequest,
    Message,
    Role,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
)
from starlette.applications import Starlette

from agentkit_py.a2a import create_a2a_app
from tests.server.world import app_of, support

URL = "http://localhost"


@asynccontextmanager
async def serving(
    *replies: Any, tools: tuple[Any, ...] = (), serve: dict[str, Any] | None = None, **options: Any
) -> AsyncGenerator[Starlette]:
    """A network of one clerk behind A2A; ``options`` are those of the HTTP API."""
    network = support(*replies, tools=tools, description="Sells hats.")
    app = create_a2a_app(app_of(network, **options), url=URL, **(serve or {}))
    async with app.router.lifespan_context(app):
        yield app


def http_of(app: Starlette, user: str | None = "ada") -> httpx.AsyncClient:
    """An HTTP client of a user."""
    named = {} if user is None else {"x-user": user}
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    return httpx.AsyncClient(transport=transport, headers=named)


@asynccontextmanager
async def sdk(app: Starlette, user: str | None = "ada", **config: Any) -> AsyncGenerator[Client]:
    """The SDK's client of a user, which has read the card."""
    async with http_of(app, user) as http:
        factory = ClientFactory(ClientConfig(httpx_client=http, **config))
        async with await factory.create_from_url(URL) as client:
            yield client


def saying(text: str = "", data: Any = None, **fields: Any) -> SendMessageRequest:
    """A message of the user, of a text or of data."""
    parts = [new_text_part(text)] if data is None else [new_data_part(data)]
    named: dict[str, Any] = {"message_id": uuid4().hex, **fields}
    return SendMessageRequest(message=Message(role=Role.ROLE_USER, parts=parts, **named))


async def events_of(client: Client, request: SendMessageRequest) -> list[StreamResponse]:
    """All events of a reply."""
    return [event async for event in client.send_message(request)]


async def task_of(client: Client) -> Task:
    """The user's only task, once it is stored."""
    while True:
        for task in (await client.list_tasks(ListTasksRequest())).tasks:
            return task
        await asyncio.sleep(0)


def last_state(events: list[StreamResponse]) -> str:
    """The state in which a reply's last event leaves the task."""
    last = events[-1]
    state = last.task.status.state if last.HasField("task") else last.status_update.status.state
    return TaskState.Name(state).removeprefix("TASK_STATE_").lower()


def texts_of(task: Task) -> list[str]:
    """The texts of a task's artifacts."""
    return [get_artifact_text(artifact) for artifact in task.artifacts]


def artifacts_of(events: list[StreamResponse]) -> list[TaskArtifactUpdateEvent]:
    """The pieces of texts among a reply's events."""
    return [event.artifact_update for event in events if event.HasField("artifact_update")]
