"""Serve the default network of an HTTP API over A2A, with that API's users, tenants and rights."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from functools import partial
from typing import Any, TypeAlias

import httpx
from a2a.helpers import get_data_parts, new_data_part, new_task, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    PushNotificationConfigStore,
    PushNotificationEvent,
    TaskStore,
    TaskUpdater,
)
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
)
from a2a.utils.push_url_validator import validate_push_notification_url
from starlette.applications import Starlette
from starlette.authentication import SimpleUser
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import Message as AsgiMessage
from starlette.types import Scope

from agentkit_py._core.json import JsonObject, as_list, as_object, dumps
from agentkit_py._core.validation import slugify
from agentkit_py.a2a.repeated import OnceHandler
from agentkit_py.errors import ConfigurationError
from agentkit_py.events.chunks import FAILED
from agentkit_py.events.replies import (
    PartChange,
    Progressed,
    ReplyChange,
    ReplyReader,
    Rewritten,
    part_id,
    part_to_dict,
    reply_id,
)
from agentkit_py.network import Target
from agentkit_py.server.api import Api, guarded, read_body
from agentkit_py.server.app import lifespan
from agentkit_py.server.formats import format_of
from agentkit_py.server.frontends import respond_to

PATH = "/a2a"
"""The path of the JSON-RPC endpoint."""

MOST_TASKS = 10_000
"""Tasks that are kept in memory, where no ``task_store`` is given; the oldest are dropped."""

PushUrlCheck: TypeAlias = Callable[[str], Awaitable[bool]]
"""Says whether push notifications may be sent to a URL, which a client has named."""

_APPROVALS: Mapping[str, bool] = {"yes": True, "approve": True, "no": False, "deny": False}
_HOW_TO_ANSWER = (
    'Answer with yes or no, or with a data part: {"approved": true, "reason": "…"}, or '
    '{"answers": {"QUESTION_ID": {"approved": true}}} where there are several questions.'
)
_PUSH_SECONDS = 10.0
_PARKED_SECONDS = 600.0
"""Seconds after which a task that waits for input is kept only in the store."""


def create_a2a_app(
    api: Starlette,
    *,
    url: str,
    task_store: TaskStore | None = None,
    push_url_check: PushUrlCheck = validate_push_notification_url,
    http_client: httpx.AsyncClient | None = None,
) -> Starlette:
    """Return an app that serves the default target of ``api`` over A2A, and ``api`` itself.

    A context of A2A is a thread: it belongs to the user that the API's ``auth`` names, and runs,
    limits, tenants and questions are those of the API. Its default network or agent answers.

    Args:
        api: The app that `create_app` made, with runs in this process.
        url: The address at which clients call the app, for its card.
        task_store: The store of tasks, e.g. the SDK's ``DatabaseTaskStore``; in this process's
            memory unless given, the last `MOST_TASKS`.
        push_url_check: Says whether push notifications may go to a client's URL; public addresses
            only unless given.
        http_client: The client that sends push notifications.

    Raises:
        ConfigurationError: ``api`` is another app, or its replies do not pass through it.
    """
    parts = getattr(getattr(api, "state", None), "api", None)
    if not isinstance(parts, Api):
        raise ConfigurationError(f"create_a2a_app takes the app of create_app, got {api!r:.80}")
    if not parts.backend.streams:
        raise ConfigurationError(
            "create_a2a_app: the replies of create_app(client=…) do not pass through this process; "
            'leave client out, or use realtime="store"'
        )
    card = _card(parts.settings.target(None, None), url.rstrip("/"))
    client = http_client or httpx.AsyncClient(timeout=_PUSH_SECONDS)
    configs = InMemoryPushNotificationConfigStore()
    executor = _Executor(parts)
    handler = OnceHandler(
        executor.works_on,
        agent_executor=executor,
        task_store=task_store or _RecentTasks(configs),
        agent_card=card,
        push_config_store=configs,
        push_sender=_PushSender(client, configs, push_url_validator=push_url_check),
        push_url_validator=push_url_check,
        interrupted_task_timeout=_PARKED_SECONDS,
    )
    (rpc,) = create_jsonrpc_routes(handler, PATH)

    async def serve(request: Request) -> Response:
        user_id = await parts.authenticator.user_of(request)
        body = await read_body(request, parts.settings.limits.body_bytes)
        known = {**request.scope, "user": SimpleUser(user_id)}
        return await rpc.endpoint(Request(known, _body_of(body)))

    @asynccontextmanager
    async def both(_app: Starlette) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            if http_client is None:
                stack.push_async_callback(client.aclose)
            stack.push_async_callback(handler.aclose)
            await stack.enter_async_context(lifespan(api))
            yield

    routes = [
        *create_agent_card_routes(card),
        Route(PATH, guarded(serve), methods=["POST"]),
        Mount("/", api),
    ]
    return Starlette(routes=routes, lifespan=both)


def _card(target: Target, url: str) -> AgentCard:
    """Return the public card, which says nothing of the agents in a network."""
    description = target.description or f"Ask {target.name}."
    skill = AgentSkill(
        id=slugify(target.name) or "ask", name=target.name, description=description, tags=["chat"]
    )
    return AgentCard(
        name=target.name,
        description=description,
        version="1",
        supported_interfaces=[
            AgentInterface(url=url + PATH, protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[skill],
    )


class _RecentTasks(InMemoryTaskStore):
    """The tasks that changed last, in memory, with the configurations of their notifications."""

    def __init__(self, configs: PushNotificationConfigStore) -> None:
        super().__init__()
        self._configs = configs
        self._owners = OrderedDict[str, ServerCallContext]()

    async def save(self, task: Task, context: ServerCallContext) -> None:
        await super().save(task, context)
        self._owners[task.id] = ServerCallContext(user=context.user)
        self._owners.move_to_end(task.id)
        while len(self._owners) > MOST_TASKS:
            task_id, owner = self._owners.popitem(last=False)
            await self.delete(task_id, owner)
            if await self._configs.get_info(task_id, owner):
                await self._configs.delete_info(task_id, owner)


class _PushSender(BasePushNotificationSender):
    """Sends states and whole texts, and no piece of a text."""

    async def send_notification(self, task_id: str, event: PushNotificationEvent) -> None:
        if not isinstance(event, TaskArtifactUpdateEvent) or event.last_chunk:
            await super().send_notification(task_id, event)


class _Executor(AgentExecutor):
    """Sends a task's messages to the HTTP API, and writes the reply into the task."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._tasks: set[str] = set()
        """The tasks that it works on."""

    def works_on(self, task_id: str) -> bool:
        """Return whether a task's reply is being written here."""
        return task_id in self._tasks

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer a message, or take it as the answer to a task's questions."""
        message = context.message
        assert message is not None
        self._tasks.add(message.task_id)
        try:
            await self._execute(message, context, event_queue)
        finally:
            self._tasks.discard(message.task_id)

    async def _execute(
        self, message: Message, context: RequestContext, event_queue: EventQueue
    ) -> None:
        task = context.current_task
        updater = TaskUpdater(event_queue, message.task_id, message.context_id)
        if task is None:
            state = TaskState.TASK_STATE_SUBMITTED
            submitted = new_task(message.task_id, message.context_id, state, history=[message])
            await event_queue.enqueue_event(submitted)
        questions = _questions_in(task)
        body = _answer_body(message, questions) if questions else _message_body(message)
        if isinstance(body, str):
            refuse = updater.requires_input if questions else updater.reject
            await refuse(_message(updater, body, questions))
            return
        await updater.start_work()
        reply = _Reply(updater)
        user_id = context.call_context.user.user_name
        async with aclosing(self._events(user_id, body)) as events:
            async for event in events:
                await reply.take(event)
        await reply.finish(questions)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop the user's runs in the task's context."""
        task_id, thread_id = context.task_id or "", context.context_id or ""
        await self._api.backend.cancel(context.call_context.user.user_name, thread_id)
        await TaskUpdater(event_queue, task_id, thread_id).cancel()

    async def _events(self, user_id: str, body: JsonObject) -> AsyncGenerator[JsonObject]:
        """Yield the events of the reply to a request in the format of `stream_response`."""
        scope: Scope = {"type": "http", "method": "POST", "path": PATH, "headers": []}
        say = partial(respond_to, format_of("agentkit"), self._api, user_id=user_id)
        response = await guarded(say)(Request(scope, _body_of(dumps(body).encode())))
        if response.status_code != 200:  # noqa: PLR2004 - HTTP's
            problem = json.loads(bytes(response.body))["error"]["message"]
            yield {"event": "reply.ended", "data": {"reason": "refused", "error": problem}}
            return
        pieces = asyncio.Queue[bytes | None]()

        async def send(message: AsgiMessage) -> None:
            pieces.put_nowait(message.get("body", b""))

        async def respond() -> None:
            try:
                await response(scope, _no_disconnect, send)
            finally:
                pieces.put_nowait(None)

        responding = asyncio.create_task(respond())
        try:
            while (piece := await pieces.get()) is not None:
                for line in piece.split(b"\n"):
                    if line.startswith(b"data: "):
                        yield json.loads(line.removeprefix(b"data: "))
            await responding
        finally:
            responding.cancel()


def _body_of(body: bytes) -> Callable[[], Awaitable[AsgiMessage]]:
    async def receive() -> AsgiMessage:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _no_disconnect() -> AsgiMessage:
    await asyncio.Event().wait()
    return {}


def _message_body(message: Message) -> JsonObject | str:
    """Return the request for a message, or the reason why it is refused."""
    texts = [part.text for part in message.parts if part.HasField("text")]
    if len(texts) < len(message.parts) or not any(text.strip() for text in texts):
        return "Send text parts only, and at least one that is not empty."
    user_message = {"content": "\n".join(texts), "id": message.message_id}
    return {"userMessage": user_message, "threadId": message.context_id}


def _answer_body(message: Message, questions: list[JsonObject]) -> JsonObject | str:
    """Return the request that answers questions, or how they are answered."""
    texts = [part.text.strip() for part in message.parts if part.HasField("text")]
    found = [as_object(one) or {} for one in get_data_parts(message.parts)]
    given = found[0] if len(found) == 1 else {}
    answers = as_object(given.get("answers")) or {}
    whole: Any = given if "approved" in given else _APPROVALS.get(" ".join(texts).casefold())
    if not answers and whole is not None:
        answers = {str(one["id"]): whole for one in questions}
    if not answers or not answers.keys() <= {str(one["id"]) for one in questions}:
        return _HOW_TO_ANSWER
    return {"threadId": message.context_id, "answers": answers}


def _questions_in(task: Task | None) -> list[JsonObject]:
    """Return the questions that a task waits for."""
    if task is None or task.status.state != TaskState.TASK_STATE_INPUT_REQUIRED:
        return []
    sent = [as_object(one) or {} for one in get_data_parts(task.status.message.parts)]
    found = [as_object(one) or {} for each in sent for one in as_list(each.get("questions")) or ()]
    return [one for one in found if isinstance(one.get("id"), str)]


def _words_of(question: JsonObject) -> str:
    call = f"{question['tool']} {dumps(question['arguments'])}"
    return f"{call}: {question['message']}" if question["message"] else call


def _message(updater: TaskUpdater, text: str, questions: list[JsonObject] | None = None) -> Message:
    parts = [new_text_part(text)]
    if questions:
        parts.append(new_data_part({"questions": questions}))
    return updater.new_agent_message(parts)


class _Reply:
    """Writes a reply into a task: each text is an artifact; calls and progress are its status."""

    def __init__(self, updater: TaskUpdater) -> None:
        self._updater = updater
        self._reader = ReplyReader()
        self._message_id = ""
        self._parts: list[JsonObject] | None = None
        """The parts, where they are not those that were streamed."""

        self._written: dict[int, list[str]] = {}
        """The texts in the task, in pieces, by their places in the reply."""

        self._end: JsonObject = {"reason": "failed", "error": FAILED}

    async def take(self, event: JsonObject) -> None:
        """Take an event of the reply."""
        data = as_object(event["data"]) or {}
        match event["event"]:
            case "reply.started":
                self._message_id = str(data["messageId"])
            case "reply.replaced":
                self._parts = [as_object(one) or {} for one in as_list(data["parts"]) or ()]
                await self._rewrite(self._parts)
            case "reply.status":
                if data["status"] == "waiting":
                    await self._show("Waiting for a person's decision.")
            case "reply.ended":
                self._end = data
            case "state.updated":
                pass
            case _:
                for change in self._reader.feed(event):
                    await self._change(change)

    async def finish(self, questions: list[JsonObject]) -> None:
        """Write how it ended.

        Args:
            questions: The questions that the message answers; they stay open if it is refused.
        """
        updater, words = self._updater, str(self._end.get("error") or "")
        match self._end["reason"]:
            case "completed":
                await updater.complete()
            case "asked":
                asked = self._questions()
                words = "\n".join(
                    ["A person has to decide.", *map(_words_of, asked), _HOW_TO_ANSWER]
                )
                await updater.requires_input(_message(updater, words, asked))
            case "stopped":
                await updater.cancel()
            case "refused" if questions:
                await updater.requires_input(_message(updater, words, questions))
            case "refused":
                await updater.reject(_message(updater, words))
            case _:
                await updater.failed(_message(updater, words))

    def _questions(self) -> list[JsonObject]:
        streamed = self._reader.parts
        messages = {p.approval.id: p.approval.message for p in streamed if p.approval is not None}
        parts = [part_to_dict(one) for one in streamed] if self._parts is None else self._parts
        found: list[JsonObject] = []
        for part in parts:
            approval = as_object(part.get("approval"))
            if approval is not None and approval.get("approved") is None:
                name = str(approval["id"])
                asked = {"tool": part.get("toolName"), "arguments": part.get("input")}
                found.append({"id": name, **asked, "message": messages.get(name) or ""})
        return found

    async def _change(self, change: ReplyChange) -> None:
        match change:
            case PartChange(kind="grew", part=part, delta=delta) if part.type == "text":
                await self._write(change.place, part.agent, delta, grows=True)
            case PartChange(kind="ended", part=part) if part.type == "text":
                await self._write(change.place, part.agent, part.text, cut=part.cut)
            case PartChange(kind="opened", part=part) if part.type == "tool-call":
                await self._show(f"{part.agent} calls {part.tool}")
            case Progressed(facts=facts):
                words = facts.get("text") or facts["toolName"]
                await self._show(str(words), dict(facts))
            case Rewritten(parts=parts):
                await self._rewrite([part_to_dict(part) for part in parts])
            case _:
                pass

    async def _write(
        self, place: int, agent: str, text: str, *, grows: bool = False, cut: str = ""
    ) -> None:
        before = self._written.get(place)
        if grows and before is not None:
            before.append(text)
        else:
            self._written[place] = [text]
        await self._updater.add_artifact(
            [new_text_part(text)],
            part_id(reply_id(self._message_id), place),
            name=agent,
            metadata={"cut": cut} if cut else None,
            append=grows and before is not None,
            last_chunk=not grows,
        )

    async def _rewrite(self, parts: list[JsonObject]) -> None:
        texts = {place: one for place, one in enumerate(parts) if one["type"] == "text"}
        for place in sorted({*texts, *self._written}):
            part = texts.get(place, {})
            text, cut = str(part.get("text", "")), str(part.get("cut", ""))
            if text != "".join(self._written.get(place, ())) or cut:
                await self._write(place, str(part.get("agentName", "")), text, cut=cut)

    async def _show(self, words: str, facts: dict[str, Any] | None = None) -> None:
        message = self._updater.new_agent_message([new_text_part(words)], metadata=facts)
        await self._updater.update_status(TaskState.TASK_STATE_WORKING, message)
