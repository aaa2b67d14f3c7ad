"""A server that is not ours, and the agent behind it."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from a2a.helpers import new_task, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    SendMessageRequest,
    Task,
    TaskState,
)
from starlette.applications import Starlette

from agentkit_py.a2a import A2AAgent

from .world import URL


class Foreign(AgentExecutor):
    """A server that is not ours: it does as its message says."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, list[str]]] = []
        """Context, task, and the parts, of each message."""

        self.ids: list[str] = []
        """The ids of the messages."""

        self.looks = 0
        """How often a task was read."""

        self.looked_at = asyncio.Event()
        """Set once a task was read several times."""

        self.free = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.words = "For which order?"

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message = context.message
        assert message is not None
        texts = [part.text for part in message.parts]
        self.said.append((message.context_id, message.task_id, texts))
        self.ids.append(message.message_id)
        task = TaskUpdater(event_queue, message.task_id, message.context_id)
        if context.current_task is None:
            state = TaskState.TASK_STATE_SUBMITTED
            await event_queue.enqueue_event(
                new_task(message.task_id, message.context_id, state, history=[message])
            )
        words = task.new_agent_message([new_text_part(self.words)])
        match texts[-1]:
            case "ask":
                await task.requires_input(words)
            case "fail":
                await task.failed(words)
            case "hang":
                await task.start_work()
                await asyncio.Event().wait()
            case "long":
                await task.add_artifact([new_text_part("x" * 100)])
                await task.complete()
            case "note" | "same" as case:
                text = "Order 7." if case == "note" else self.words
                await task.add_artifact([new_text_part(text)])
                await task.complete(words)
            case "draft":
                await task.add_artifact([new_text_part("Draft.")], "a")
                await task.requires_input(words)
            case "more":
                await task.add_artifact([new_text_part("More.")], "b")
                await task.complete()
            case "final":
                await task.add_artifact([new_text_part("Final.")], "a")
                await task.complete()
            case _:
                await self._stream(task, texts[-1])

    async def _stream(self, task: TaskUpdater, text: str) -> None:
        """Answer slowly, or in pieces."""
        words = task.new_agent_message([new_text_part(self.words)])
        match text:
            case "slow":
                await task.start_work()
                await self.free.wait()
                await task.add_artifact([new_text_part("Slowly.")])
                await task.complete()
            case "login":
                await task.requires_auth(words)
            case "several":
                await task.add_artifact([new_text_part("One")], "a", last_chunk=False)
                await task.add_artifact([new_text_part(".")], "a", append=True, last_chunk=False)
                await task.add_artifact([new_text_part("One.")], "a", last_chunk=True)
                await task.add_artifact([new_text_part("Two.")], "b")
                await task.complete()
            case "endless":
                await task.add_artifact([new_text_part("x")], "a", last_chunk=False)
                while not self.cancelled.is_set():
                    piece = [new_text_part("x" * 100)]
                    await task.add_artifact(piece, "a", append=True, last_chunk=False)
                    await asyncio.sleep(0)
            case _:
                await task.add_artifact([new_text_part("You said "), new_text_part(text)])
                await task.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.cancelled.set()


class Looks(InMemoryTaskStore):
    """Tasks that count how often they are asked for."""

    def __init__(self, executor: Foreign) -> None:
        super().__init__()
        self.executor = executor

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        self.executor.looks += 1
        if self.executor.looks > 5:
            self.executor.looked_at.set()
        return await super().get(task_id, context)


class Impatient(DefaultRequestHandler):
    """A server that does not wait for its tasks."""

    async def on_message_send(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> Message | Task:
        params.configuration.return_immediately = True
        sdk_handler: Any = super()
        sent: Message | Task = await sdk_handler.on_message_send(params, context)
        return sent


SERVERS: list[Starlette] = []
"""The servers of a test, kept until the next: the SDK's tasks end badly if they are collected."""


def foreign_app(executor: Foreign, *, streams: bool = True) -> Starlette:
    """The SDK's own server."""
    card = AgentCard(
        name="foreign",
        description="d",
        version="1",
        supported_interfaces=[
            AgentInterface(url=f"{URL}/rpc", protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        capabilities=AgentCapabilities(streaming=streams),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="s", name="s", description="d", tags=["t"])],
    )
    kind = DefaultRequestHandler if streams else Impatient
    handler = kind(executor, Looks(executor), card)
    app = Starlette(
        routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/rpc")]
    )
    app.state.card = card
    SERVERS.append(app)
    return app


def remote(app: Any, name: str = "billing", **options: Any) -> A2AAgent:
    """The agent behind an app."""
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    return A2AAgent(name=name, url=URL, transport=transport, **options)
