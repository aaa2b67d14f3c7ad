"""Notices to users without an open page, by e-mail, push or another channel of the application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import quote

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.untrusted import get_logger
from agentkit_py.history.questions import Question
from agentkit_py.server.following import OpenStreams

logger: logging.Logger = get_logger("agentkit_py.server")

NoticeKind: TypeAlias = Literal[
    "question_open", "question_answered", "question_expired", "staff_wrote"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something that happened in a thread while its user was away."""

    kind: NoticeKind
    thread_id: str
    link: str = ""
    """The page of the conversation: ``thread_url`` with the thread's id; empty: not set.
    """

    text: str = ""
    """The words of staff, also those to the user that go with an answer."""

    name: str = ""
    """The name of the staff member who wrote."""

    question: Question | None = None
    """The question, for the application: it holds ids and words of staff that are not the user's.
    """


Notify: TypeAlias = Callable[[str, Notice], "Awaitable[None] | None"]
"""Gets the user's id and the notice; its errors are only logged."""


class Notifier:
    """Calls the application's hook for users who have no stream open in this process.

    Args:
        notify: The hook; None: no notifications.
        thread_url: The page of a thread, with ``{thread_id}``.
        streams: The streams that are open.
    """

    def __init__(self, notify: Notify | None, thread_url: str, streams: OpenStreams) -> None:
        self._notify = notify
        self._url = thread_url
        self._streams = streams
        self._tasks: set[asyncio.Task[None]] = set()

    def tell(
        self,
        user_id: str | None,
        kind: NoticeKind,
        thread_id: str,
        *,
        text: str = "",
        name: str = "",
        question: Question | None = None,
    ) -> None:
        """Notify the user, if they are away; return at once."""
        if self._notify is None or not user_id or self._streams.count(user_id):
            return
        link = self._url.replace("{thread_id}", quote(thread_id, safe=""))
        notice = Notice(
            kind=kind, thread_id=thread_id, link=link, text=text, name=name, question=question
        )
        task = asyncio.create_task(self._call(self._notify, user_id, notice))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _call(self, notify: Notify, user_id: str, notice: Notice) -> None:
        try:
            await resolve(notify(user_id, notice))
        except Exception:
            logger.exception(
                "notify failed: the user of thread %r was not notified of %r",
                *(notice.thread_id, notice.kind),
            )

    async def idle(self) -> None:
        """Wait until all notices have been delivered or have failed."""
        while self._tasks:
            await asyncio.wait(self._tasks)
