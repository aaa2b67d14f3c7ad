"""Runs as Inngest functions: this process sends events and hands out tokens."""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable
from contextlib import suppress
from time import monotonic
from typing import Any, TypeVar

from starlette.requests import HTTPConnection

from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import ConfigurationError, ThreadNotFoundError
from agentkit_py.events.replies import QUEUED, ReplyStatus, reply_id
from agentkit_py.history.questions import Question
from agentkit_py.inngest.functions import GOES_ON_WITH
from agentkit_py.inngest.sending import Client, Sender, send_answers, stop_questions
from agentkit_py.results import USER
from agentkit_py.server.auth import StreamTokens
from agentkit_py.server.config import ServerSettings
from agentkit_py.server.errors import ApiError
from agentkit_py.server.hub import Entry, Hub
from agentkit_py.server.responses import TokenResponse
from agentkit_py.server.runs import APPROVALS, Backend, Job, channel_of, given_by_client, state_of
from agentkit_py.server.streams import own_token
from agentkit_py.server.workers import Workers
from agentkit_py.stores import HistoryStore
from agentkit_py.stores.wrappers import for_user

_SENDING_SECONDS = 60.0

_MOST_SENT = 10_000
"""Messages that are remembered until their functions begin."""

_LAST = 50
"""Results among which a message that is sent again is looked for."""

T = TypeVar("T")
logger: logging.Logger = get_logger("agentkit_py.server")


class InngestRuns(Backend):
    """Runs as Inngest functions, which do not stop with this process.

    Inngest's ``concurrency`` bounds how many run at once.

    Raises:
        ConfigurationError: A network's threads are not in the store that the API uses.
    """

    def __init__(
        self, settings: ServerSettings, client: Client, hub: Hub, tokens: StreamTokens
    ) -> None:
        for (kind, name), target in settings.targets.items():
            if target.history is not settings.store:
                raise ConfigurationError(
                    f"create_app: with client=…, {kind} {name!r} runs elsewhere and uses its own "
                    "history: give it the store that the API uses"
                )
        self.streams: bool = settings.realtime == "store"
        if self.streams and settings.store.broadcast() is None:
            raise ConfigurationError(
                'create_app: realtime="store" needs a store that carries streams from a process '
                f"to another, SqliteHistory or PostgresHistory, not {settings.store!r:.80}"
            )
        self._settings = settings
        self._sender = Sender(client)
        self._next_sending = 0.0
        self._hub = hub
        self._tokens = tokens
        self._workers = Workers(hub)
        self._workers.on_chunk = self._begun
        self._sent: OrderedDict[tuple[str, str, str], None] = OrderedDict()
        """Channel, thread and id of messages whose functions have not begun, the oldest first."""

    async def join(self) -> None:
        """Take the chunks of functions, and of staff who use another process, from the store."""
        if self.streams:
            await self._workers.join(self._settings.store)

    async def leave(self) -> None:
        """Stop taking them."""
        if self.streams:
            await self._workers.leave()

    def replayed(self, user_id: str, thread_id: str) -> list[str]:
        """Return ids of the messages whose replies the hub holds from their start."""
        return self._hub.answered(channel_of(user_id), thread_id)

    def awaited(self, user_id: str, thread_id: str) -> list[str]:
        """Return ids of the messages that functions answer, or are about to."""
        channel = channel_of(user_id)
        sent = self._not_begun(channel, thread_id)
        return [*self._hub.answered_elsewhere(channel, thread_id), *sent]

    async def status_of(self, user_id: str, thread_id: str, message_id: str) -> ReplyStatus | None:
        """Return whether a function answers a message, or is about to."""
        if message_id in self._not_begun(channel_of(user_id), thread_id):
            return QUEUED
        return await super().status_of(user_id, thread_id, message_id)

    def _not_begun(self, channel: str, thread_id: str) -> list[str]:
        return [one[2] for one in self._sent if one[:2] == (channel, thread_id)]

    def _begun(self, entry: Entry, channel: str) -> None:
        self._sent.pop((channel, entry.thread_id or "", entry.answers or ""), None)

    async def start(self, job: Job) -> None:
        """Send the event that begins the run; a message that was sent before begins none."""
        store = for_user(self._settings.store, job.user_id)
        state = await state_of(job, self._settings, store)
        messages = [
            {"type": "text", "role": text.role, "content": text.text}
            for text in job.client_history or ()
        ]
        data: dict[str, Any] = {
            "input": _message(job),
            "threadId": job.thread_id,
            "userId": job.user_id,
            # Only answers that name this user are accepted.
            "answerableBy": job.user_id,
            "extended": self._settings.extended,
            "state": {"data": state.dump(), "messages": messages},
            # Another run may change the thread's data before this run has the thread.
            GOES_ON_WITH: given_by_client(job, self._settings, state),
        }
        if job.on_busy is not None:
            data["onBusy"] = job.on_busy
        key = "\n".join([job.user_id, job.thread_id, job.message.id or ""])
        event_id = f"agentkit-{hashlib.sha256(key.encode()).hexdigest()}"
        await _sent(self._sender.start(job.target, event_id, data))
        if self.streams and not await self._was_answered(store, job):
            self._sent[channel_of(job.user_id), job.thread_id, job.message.id or ""] = None
            if len(self._sent) > _MOST_SENT:
                self._sent.popitem(last=False)

    async def _was_answered(self, store: HistoryStore, job: Job) -> bool:
        """Return whether a message is sent again that a function has begun to answer."""
        _, known = await store.newest(job.thread_id, _LAST)
        return any(one.result.id == job.message.id for one in known)

    async def cancel(self, user_id: str, thread_id: str) -> int:
        """Send the event that stops the user's runs in a thread; their number is not known."""
        publish = self._stopped if self.streams else None
        last = await self._last_message(user_id, thread_id)
        await _sent(self._sender.cancel(user_id, thread_id, publish, answers=last))
        for one in list(self._sent):
            if one[:2] == (channel_of(user_id), thread_id):
                del self._sent[one]
        await stop_questions(self._settings.store, None, thread_id)
        self._hub.publish(APPROVALS, {"event": "approval.changed", "data": {}})
        return 1

    async def _last_message(self, user_id: str, thread_id: str) -> str | None:
        """Return the id of the user's last message in a thread, also if no function has begun."""
        if sent := self._not_begun(channel_of(user_id), thread_id):
            return sent[-1]
        with suppress(ThreadNotFoundError):
            store = for_user(self._settings.store, user_id)
            _, known = await store.newest(thread_id, _LAST)
            said = [one.result.id for one in known if one.result.agent_name == USER]
            return said[-1] if said else None
        return None

    async def _stopped(self, chunk: dict[str, Any]) -> None:
        """Publish that a thread's runs have ended: of each that is open, or has not begun."""
        data = chunk["data"]
        channel, thread_id = channel_of(data["userId"]), data["threadId"]
        sent = {reply_id(one): one for one in self._not_begun(channel, thread_id)}
        runs = {**self._hub.open_runs(channel, thread_id), **sent} or {data["messageId"]: None}
        for message_id, answers in runs.items():
            own = {**chunk, "data": {**data, "messageId": message_id}}
            self._hub.publish(
                channel, {**own, "id": f"{chunk['id']}/{message_id}"}, answers=answers
            )

    async def go_on(self, question: Question) -> None:
        """Send the answer to the function that waits for it."""
        await _sent(self._sender.answer(question))

    async def send_answers(self) -> None:
        """Send those answers again that functions do not have yet, once in a minute."""
        if monotonic() < self._next_sending:
            return
        self._next_sending = monotonic() + _SENDING_SECONDS
        try:
            await send_answers(self._sender.client, self._settings.store)
        except Exception:
            logger.exception("Answers could not be sent again; it is tried again")

    async def token(self, request: HTTPConnection, user_id: str) -> TokenResponse:
        """Return a token for this server's stream, or the Inngest server's."""
        if self.streams:
            return own_token(self._settings, self._tokens, request, user_id)
        found = await _sent(self._sender.token(user_id))
        url = self._settings.realtime_url or self._sender.api_origin
        return {
            "channel": found["channel"],
            "topics": found["topics"],
            "key": found["key"],
            "token": found["key"],
            "app": {"apiBaseUrl": url},
        }


def _message(job: Job) -> dict[str, Any]:
    """Return the user's message as functions read it."""
    message = job.message
    found: dict[str, Any] = {"content": message.content, "id": message.id}
    if message.state is not None:
        found["state"] = dict(message.state)
    if message.client_timestamp is not None:
        found["clientTimestamp"] = message.client_timestamp.isoformat()
    return found


async def _sent(call: Awaitable[T]) -> T:
    try:
        return await call
    except Exception:
        logger.exception("Inngest could not be reached, or refused")
        raise ApiError(
            502, "unavailable", "The agents cannot be reached. Please try again."
        ) from None
