"""Messages that come again: a client that died sends its message again, under the same id."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from a2a.server.agent_execution import RequestContext, SimpleRequestContextBuilder
from a2a.server.context import ServerCallContext
from a2a.server.events import Event
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.types import (
    GetTaskRequest,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskState,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError, UnsupportedOperationError
from a2a.utils.task import apply_history_length

_IN_PROGRESS = frozenset({TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING})


class OnceHandler(DefaultRequestHandler):
    """Answers a message that comes again with the task that it began, or continued."""

    def __init__(self, works_on: Callable[[str], bool], **options: Any) -> None:
        """Take what says whether a task is being worked on here, and the SDK's options."""
        super().__init__(**options, request_context_builder=_TasksOfMessages())
        self._works_on = works_on
        self._beginning: dict[tuple[str, str, str], asyncio.Event] = {}
        """Messages whose tasks are not stored yet, by their user, task and id."""

    async def on_message_send(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> Message | Task:
        """Return the task of a message, once it has ended or waits."""
        async with self._first(params, context) as (task, _):
            if task is None:
                sdk: Any = super()  # the decorators of its methods have no types
                sent: Message | Task = await sdk.on_message_send(params, context)
                return sent
        if _is_in_progress(task) and not params.configuration.return_immediately:
            async with aclosing(self._events_of(task.id, context)) as events:
                async for _ in events:
                    pass
            task = await self._get(task.id, context)
        return apply_history_length(task, params.configuration)

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of a message's task; of one that has ended, the task."""
        async with self._first(params, context) as (task, begun):
            if task is None:
                sdk: Any = super()
                events: AsyncGenerator[Event, None] = sdk.on_message_send_stream(params, context)
            elif _is_in_progress(task):
                events = self._events_of(task.id, context)
            else:
                yield apply_history_length(task, params.configuration)
                return
            async with aclosing(events):
                async for event in events:
                    begun()  # the task is stored before its first event
                    yield event

    @asynccontextmanager
    async def _first(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[tuple[Task | None, Callable[[], None]]]:
        """Give the task that has the message; None: it is new.

        The same message waits until the block of a new one ends, or calls what it gets here.
        """
        message = params.message
        task_id = message.task_id or _task_id(message, context)
        key = context.user.user_name, task_id, message.message_id
        while key in self._beginning:
            await self._beginning[key].wait()
        self._beginning[key] = event = asyncio.Event()

        def begun() -> None:
            if not event.is_set():
                event.set()
                del self._beginning[key]

        try:
            task = await self._task_of(task_id, message, context)
            if task is not None:
                begun()
            yield task, begun
        finally:
            begun()

    async def _events_of(
        self, task_id: str, context: ServerCallContext
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of a task until it ends, or waits: the SDK's continue to its end."""
        sdk: Any = self
        request = SubscribeToTaskRequest(id=task_id)
        events: AsyncGenerator[Event, None] = sdk.on_subscribe_to_task(request, context)
        try:
            async with aclosing(events):
                async for event in events:
                    yield event
                    is_state = isinstance(event, Task | TaskStatusUpdateEvent)
                    if is_state and not _is_in_progress(event):
                        return
        except UnsupportedOperationError:  # it has ended since it was read
            yield await self._get(task_id, context)

    async def _get(self, task_id: str, context: ServerCallContext) -> Task:
        sdk: Any = self
        task: Task = await sdk.on_get_task(GetTaskRequest(id=task_id), context)
        return task

    async def _task_of(
        self, task_id: str, message: Message, context: ServerCallContext
    ) -> Task | None:
        """Return the task that has the message; None: the message is new, or its process died.

        Raises:
            InvalidParamsError: The id is that of another message.
        """
        is_worked_on = self._works_on(task_id)  # it may end, and wait, while it is read
        try:
            task = await self._get(task_id, context)
        except TaskNotFoundError:
            return None
        known = [one for one in task.history if one.message_id == message.message_id]
        if not known:
            return None
        if list(known[0].parts) != list(message.parts):
            raise InvalidParamsError(
                f"messageId {message.message_id!r} is the id of another message of the task"
            )
        message.task_id, message.context_id = task.id, task.context_id
        if _is_in_progress(task) and not is_worked_on and not self._works_on(task.id):
            return None  # the task is continued by the message
        return task


class _TasksOfMessages(SimpleRequestContextBuilder):
    """Names tasks after the messages that begin them."""

    async def build(
        self,
        context: ServerCallContext,
        params: SendMessageRequest | None = None,
        task_id: str | None = None,
        context_id: str | None = None,
        task: Task | None = None,
    ) -> RequestContext:
        if task_id is None and params is not None and params.message.message_id:
            task_id = _task_id(params.message, context)
        return await super().build(context, params, task_id, context_id, task)


def _is_in_progress(one: Task | TaskStatusUpdateEvent) -> bool:
    return one.status.state in _IN_PROGRESS


def _task_id(message: Message, context: ServerCallContext) -> str:
    """Return the id of the task that a user's message begins."""
    return str(uuid5(NAMESPACE_URL, f"{context.user.user_name}\0{message.message_id}"))
