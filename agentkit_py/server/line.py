"""Messages in line: accepted while another run works on their thread, and stored until they begin.

Each process keeps those that it will answer, as mail of the store. If it dies, another process
finds them: the next to start, or a running worker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from agentkit_py._core.json import JsonObject, as_object
from agentkit_py._core.untrusted import get_logger
from agentkit_py.codec import (
    message_from_dict,
    message_to_dict,
    user_message_from_dict,
    user_message_to_dict,
)
from agentkit_py.errors import InvalidRecordError
from agentkit_py.messages import TextMessage
from agentkit_py.network import Network
from agentkit_py.server.config import ServerSettings
from agentkit_py.server.runs import Job

logger: logging.Logger = get_logger("agentkit_py.server")

_BOX = "agentkit server line"
"""The mailbox of all processes."""

_NEWS_TIME = timedelta(seconds=15)
"""The time in which a process notices a new process that keeps messages."""


class Line:
    """The messages that wait in this process, as the store keeps them."""

    def __init__(
        self, settings: ServerSettings, name: str, is_alive: Callable[[str], bool]
    ) -> None:
        """Remember the store.

        Args:
            settings: The server's.
            name: The name of this process.
            is_alive: Returns whether the process of a name is running.
        """
        self._settings = settings
        self._name = name
        self._is_alive = is_alive
        self._kept = set[str]()

    def __len__(self) -> int:
        """Return the number of messages that this process keeps."""
        return len(self._kept)

    async def keep(self, job: Job) -> bool:
        """Keep a message; return False where the store cannot.

        It is masked as its run would mask it.
        """
        store = self._settings.store.abilities.mail
        if store is None:
            return False
        mail_id = self._id(job)
        self._kept.add(mail_id)
        await store.put_mail(_BOX, mail_id, _to_dict(job), thread_id=job.thread_id)
        return True

    async def drop(self, job: Job) -> None:
        """Keep a message no longer."""
        store = self._settings.store.abilities.mail
        mail_id = self._id(job)
        if store is not None and mail_id in self._kept:
            await store.remove_mail(_BOX, mail_id)
            self._kept.discard(mail_id)

    async def holds(self, thread_id: str, message_id: str) -> bool:
        """Return whether any process keeps a message in line."""
        store = self._settings.store.abilities.mail
        if store is None:
            return False
        kept = [mail_id.split("/", 3) for mail_id, _ in await store.list_mail(_BOX)]
        return any(one[1:3] == [thread_id, message_id] for one in kept)

    async def left_behind(self) -> list[Job]:
        """Return the messages of processes that have died; this process keeps them now."""
        store = self._settings.store.abilities.mail
        if store is None:
            return []
        found: list[Job] = []
        for mail_id, content in await store.list_mail(_BOX):
            name, thread_id, message_id, user_id = mail_id.split("/", 3)
            is_new = datetime.now(UTC) - datetime.fromisoformat(str(content["at"])) < _NEWS_TIME
            if mail_id in self._kept or is_new or self._is_alive(name):
                continue
            try:
                job = self._read(content, user_id, thread_id, message_id)
            except InvalidRecordError:
                logger.exception("A message in line cannot be read; it is left there")
                continue
            await self.keep(job)
            if name == self._name or await store.remove_mail(_BOX, mail_id):
                found.append(job)
            else:
                await self.drop(job)  # another process was quicker
        return found

    def put_off(self, job: Job) -> None:
        """Let `left_behind` return a message again, which could not be answered yet."""
        self._kept.discard(self._id(job))

    def _id(self, job: Job) -> str:
        return f"{self._name}/{job.thread_id}/{job.message.id}/{job.user_id}"

    def _read(self, content: JsonObject, user_id: str, thread_id: str, message_id: str) -> Job:
        where = f"The message {message_id!r} in line"
        kind, name = str(content.get("kind")), str(content.get("name"))
        targets = self._settings.targets
        target = targets.get((kind, name))
        if target is None:
            target = next(iter(targets.values()))
            logger.warning("%s: there is no %s %r any more; %r answers", where, kind, name, target)
        message = user_message_from_dict(content.get("message"), where=where)
        history: Any = content.get("history")
        texts = [message_from_dict(one, where=where) for one in history or ()]
        return Job(
            user_id=user_id,
            thread_id=thread_id,
            target=target,
            message=replace(message, id=message_id),
            client_state=as_object(content.get("state")) or {},
            client_history=[one for one in texts if isinstance(one, TextMessage)] or None,
        )


def _to_dict(job: Job) -> dict[str, Any]:
    message = job.message
    for redactor in job.target.input_masks:
        message = redactor.user_message(message)
    return {
        "at": datetime.now(UTC).isoformat(),
        "kind": "network" if isinstance(job.target, Network) else "agent",
        "name": job.target.name,
        "message": user_message_to_dict(message),
        "state": dict(job.client_state),
        "history": [message_to_dict(one) for one in job.client_history or ()],
    }
