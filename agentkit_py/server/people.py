"""The staff on a thread, as its user sees them: in the thread, and in the stream."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_OID, uuid4, uuid5

from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import ThreadNotFoundError
from agentkit_py.history.abilities import abilities_of
from agentkit_py.history.staff import Takeover, TakeoverStore
from agentkit_py.results import AgentResult
from agentkit_py.server.hub import Hub
from agentkit_py.server.responses import StaffOnThread
from agentkit_py.server.runs import TAKEOVERS, channel_of
from agentkit_py.stores import HistoryStore

logger: logging.Logger = get_logger("agentkit_py.server")

_LOOK_SECONDS = 2.0
"""Seconds between two checks for changes of other processes."""

_ASIDE = -1
"""The number of a chunk of no run: the hook takes it at once, whatever number it waits for."""

_RECENT = 50
"""Entries of a thread among which new words of staff are looked for."""


async def staff_on(store: object, thread_id: str) -> StaffOnThread:
    """Return who is on a thread, by name."""
    takeovers = abilities_of(store).takeovers
    return shown(None if takeovers is None else await takeovers.load_takeover(thread_id))


def shown(takeover: Takeover | None) -> StaffOnThread:
    """Return who is on a thread as its user may know it."""
    if takeover is None:
        return {"state": "none", "names": []}
    return {"state": takeover.status or "none", "names": [one.name for one in takeover.people]}


class StaffNews:
    """Publishes to users' channels who joins and leaves their threads, and the staff's messages.

    It looks into the store, so that the words of staff who use another process come, too.
    """

    def __init__(self, store: HistoryStore, hub: Hub) -> None:
        """Keep where to look, and where to publish."""
        self._store = store
        self._hub = hub
        self._known: dict[str, Takeover] = {}
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to look."""
        takeovers = self._store.abilities.takeovers
        if takeovers is not None:
            self._news = asyncio.Event()
            self._task = asyncio.create_task(self._watch(takeovers))

    async def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def look(self) -> None:
        """Look at once."""
        self._news.set()

    async def _watch(self, store: TakeoverStore) -> None:
        is_first = True
        while True:
            self._news.clear()
            try:
                found = {one.thread_id: one for one in await store.list_takeovers(limit=None)}
                if not is_first:
                    await self._compare(found)
                self._known, is_first = found, False
            except Exception:
                logger.exception("Threads of staff could not be looked after; it is tried again")
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._news.wait()

    async def _compare(self, found: dict[str, Takeover]) -> None:
        changed = False
        for thread_id in [*found, *(self._known.keys() - found.keys())]:
            before, after = self._known.get(thread_id), found.get(thread_id)
            user_id = (after or before or Takeover(thread_id="")).user_id
            if before == after:
                continue
            changed = True
            if user_id is None:
                continue
            channel = channel_of(user_id)
            for entry in await self._spoken(thread_id, before, after):
                ends = not self._hub.has_open_run(channel, thread_id)
                for chunk in chunks_of(entry, thread_id, user_id, ends=ends):
                    self._hub.publish(channel, chunk, local=True)
            if shown(before) != shown(after):
                chunk = changed_chunk(thread_id, user_id, after)
                self._hub.publish(channel, chunk, local=True)
        if changed:
            news: dict[str, Any] = {"event": "takeover.changed", "data": {}}
            self._hub.publish(TAKEOVERS, news, local=True)

    async def _spoken(
        self, thread_id: str, before: Takeover | None, after: Takeover | None
    ) -> list[AgentResult]:
        """Return the staff's messages since the last check."""
        last = None if before is None else before.spoke_at
        if after is not None and after.spoke_at in (None, last):
            return []
        since = last or (before or after or Takeover(thread_id="")).since
        try:
            _, page = await self._store.newest(thread_id, _RECENT)
        except ThreadNotFoundError:  # it is deleted meanwhile
            return []
        entries = [row.result for row in page]
        return [
            one
            for one in entries
            if one.staff is not None
            and one.staff.to == "user"
            and (since is None or one.created_at > since)
        ]


def changed_chunk(thread_id: str, user_id: str, takeover: Takeover | None) -> dict[str, Any]:
    """Return the chunk that lists the staff on a thread."""
    return {
        "event": "staff.changed",
        "data": {"threadId": thread_id, "userId": user_id, **shown(takeover)},
        "timestamp": int(datetime.now(UTC).timestamp() * 1000),
        "sequenceNumber": _ASIDE,
        "id": f"staff-{uuid4()}:staff.changed",
    }


def chunks_of(
    entry: AgentResult, thread_id: str, user_id: str, *, ends: bool = True
) -> list[dict[str, Any]]:
    """Return a staff member's message as chunks that the hook shows under their name.

    They begin no run, so that they may come between the chunks of a run. Ids derive from the
    entry's, so that two processes publish the same chunks.

    Args:
        entry: What the person wrote.
        thread_id: Its thread.
        user_id: The thread's user.
        ends: End the stream; not if a run continues.
    """
    assert entry.staff is not None
    message_id = entry.id or ""
    run_id = str(uuid5(NAMESPACE_OID, message_id))
    where = {"threadId": thread_id, "userId": user_id}
    part = {"partId": f"{message_id}-0", "runId": run_id, "messageId": message_id}
    author = {"agentName": entry.staff.name, "byStaff": True}
    text = entry.text
    events: list[tuple[str, dict[str, Any]]] = [
        ("part.created", {**part, **where, "type": "text", "metadata": author}),
        ("text.delta", {**part, **where, "delta": text}),
        ("part.completed", {**part, **where, "type": "text", "finalContent": text}),
    ]
    if ends:
        events.append(("stream.ended", {**where, "scope": "agent", "messageId": message_id}))
    time = int(entry.created_at.timestamp() * 1000)
    return [
        {
            "event": event,
            "data": data,
            "timestamp": time,
            "sequenceNumber": _ASIDE,
            "id": f"staff-{message_id}-{number}:{event}",
        }
        for number, (event, data) in enumerate(events)
    ]
