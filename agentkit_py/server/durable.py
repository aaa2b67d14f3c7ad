"""Runs as Inngest functions: this process sends events and hands out tokens."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable
from typing import Any, TypeVar

from starlette.requests import HTTPConnection

from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import ConfigurationError
from agentkit_py.history.questions import Question
from agentkit_py.inngest.sending import Client, Sender
from agentkit_py.server.config import Settings
from agentkit_py.server.runs import Backend, Job, state_of
from agentkit_py.server.schemas import ApiError, TokenResponse
from agentkit_py.stores.wrappers import for_user

T = TypeVar("T")
logger: logging.Logger = get_logger("agentkit_py.server")


class InngestRuns(Backend):
    """Runs as Inngest functions, which do not stop with this process.

    Inngest's ``concurrency`` bounds how many run at once.

    Raises:
        ConfigurationError: A network's threads are not in the store that the API uses.
    """

    streams = False

    def __init__(self, settings: Settings, client: Client) -> None:
        for (kind, name), target in settings.targets.items():
            if target.history is not settings.store:
                raise ConfigurationError(
                    f"create_app: with client=…, {kind} {name!r} runs elsewhere and uses its own "
                    "history: give it the store that the API uses"
                )
        self._settings = settings
        self._sender = Sender(client)

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
        }
        if job.on_busy is not None:
            data["onBusy"] = job.on_busy
        key = "\n".join([job.user_id, job.thread_id, job.message.id or ""])
        event_id = f"agentkit-{hashlib.sha256(key.encode()).hexdigest()}"
        await _sent(self._sender.start(job.target, event_id, data))

    async def cancel(self, user_id: str, thread_id: str) -> int:
        """Send the event that stops the user's runs in a thread; their number is not known."""
        await _sent(self._sender.cancel(user_id, thread_id))
        return 1

    async def go_on(self, question: Question) -> None:
        """Send the answer to the function that waits for it."""
        await _sent(self._sender.answer(question))

    async def token(self, request: HTTPConnection, user_id: str) -> TokenResponse:
        """Return a subscription token of the Inngest server."""
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
