"""The Inngest mode: runs are functions; this process sends events and hands out tokens."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import HTTPConnection

from agentkit_py.errors import ConfigurationError
from agentkit_py.events import ApprovalAnswer, Decision
from agentkit_py.inngest.sending import Sender
from agentkit_py.server.answers import TokenAnswer
from agentkit_py.server.config import Settings
from agentkit_py.server.jobs import Job
from agentkit_py.server.refusals import Refusal
from agentkit_py.server.states import begin_state, previous_data
from agentkit_py.stores.scoped import for_user

if TYPE_CHECKING:
    import inngest

T = TypeVar("T")
logger: logging.Logger = logging.getLogger("agentkit_py.server")


class InngestRuns:
    """Runs as Inngest functions."""

    streams = False

    def __init__(self, settings: Settings, client: inngest.Inngest) -> None:
        """Keep the client.

        Raises:
            ConfigurationError: A network's threads are not where the API looks for them.
        """
        for (kind, name), target in settings.targets.items():
            if target.history is not settings.store:
                raise ConfigurationError(
                    f"create_app: with client=…, {kind} {name!r} runs elsewhere and uses its own "
                    "history: give it the store that the API uses"
                )
        self._settings = settings
        self._sender = Sender(client)

    def open(self) -> None:
        """Nothing: functions do not stop with this process."""

    def check_room(self, user_id: str) -> None:
        """Nothing: how many functions run at once, Inngest's ``concurrency`` says."""

    async def start(self, job: Job) -> None:
        """Send the event that begins the run; a message that was sent before begins none.

        Raises:
            Refusal: Inngest does not take it.
        """
        store = for_user(self._settings.store, job.user_id)
        previous = await previous_data(store, job.thread_id)
        state = begin_state(
            job.target, job.user_id, job.client_state, self._settings.rules, previous
        )
        messages = [
            {"type": "text", "role": text.role, "content": text.text}
            for text in job.client_history or ()
        ]
        data = {
            "input": _message(job),
            "threadId": job.thread_id,
            "userId": job.user_id,
            # Only answers that name this user are taken.
            "answerableBy": job.user_id,
            "extended": self._settings.extended,
            "state": {"data": state.dump(), "messages": messages},
        }
        key = "\n".join([job.user_id, job.thread_id, job.message.id or ""])
        event_id = f"agentkit-{hashlib.sha256(key.encode()).hexdigest()}"
        await _sent(self._sender.start(job.target, event_id, data))

    async def cancel(self, user_id: str, thread_id: str) -> int:
        """Send the event that stops the user's runs in a thread; how many there are is not known.

        Raises:
            Refusal: Inngest does not take it.
        """
        await _sent(self._sender.cancel(user_id, thread_id))
        return 1

    async def answer(self, user_id: str, thread_id: str, call_id: str, decision: Decision) -> bool:  # noqa: ARG002 - the interface's argument
        """Send the answer to the question with this ``requestId``, for all its calls.

        Whether such a question waits, only its run knows; it takes answers of its own user.

        Raises:
            Refusal: Inngest does not take it.
        """
        answer = ApprovalAnswer(approved=decision.approved, reason=decision.reason)
        await _sent(self._sender.answer(user_id, call_id, answer))
        return True

    async def token(self, request: HTTPConnection, user_id: str) -> TokenAnswer:  # noqa: ARG002 - the interface's argument
        """A subscription token of the Inngest server's.

        Raises:
            Refusal: It gives none.
        """
        found = await _sent(self._sender.token(user_id))
        url = self._settings.realtime_url or self._sender.api_origin
        return TokenAnswer(
            channel=found["channel"],
            topics=found["topics"],
            key=found["key"],
            token=found["key"],
            app={"apiBaseUrl": url},
        )

    def replayed(self, user_id: str, thread_id: str) -> list[str]:  # noqa: ARG002 - the interface's argument
        """None: chunks do not pass through here."""
        return []

    async def close(self) -> None:
        """Nothing: functions go on."""


def _message(job: Job) -> dict[str, Any]:
    """The user's message as functions read it."""
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
        raise Refusal(
            502, "unavailable", "The agents cannot be reached. Please try again."
        ) from None
