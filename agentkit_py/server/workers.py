"""Workers: the processes of a server, each of which streams the chunks of all.

Each worker sends the chunks that its hub publishes to the other workers, whose hubs add them. A
worker that starts, or reconnects, sends "hello", followed by its own open runs; the others accept
its chunks from there on. Each answers with its open runs, up to "ready". Broadcasts before "ready"
are ignored, and so are answers to other workers, since no chunk may come twice. Readers are
notified of runs whose end was missed. The functions' chunks of open runs are in the store.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from agentkit_py._core.json import as_list, as_object, dumps, strict_loads
from agentkit_py._core.untrusted import get_logger
from agentkit_py.errors import ConfigurationError, ThreadNotFoundError
from agentkit_py.history.abilities import abilities_of
from agentkit_py.server.hub import Entry, Hub, LostRun
from agentkit_py.stores import HistoryStore
from agentkit_py.stores.broadcast import FUNCTION_RUN, STREAMS, Broadcast, stream_box

logger: logging.Logger = get_logger("agentkit_py.server")

_BEAT_SECONDS = 3.0
"""Seconds between two signs of life of a process whose runs are open."""

_DEAD_SECONDS = 15.0
"""Seconds without a message after which its runs count as ended."""


class Workers:
    """The other processes of a server, as its hub knows them."""

    def __init__(self, hub: Hub) -> None:
        """Remember the hub; `join` begins."""
        self._hub = hub
        self.name: str = uuid4().hex
        """The name of this process."""

        self._broadcast: Broadcast | None = None
        self._heard: dict[str, float] = {}
        """The time of the last message of each process with known open runs."""

        self._joined = float("-inf")
        """When it began to listen to the others; it never did where there can be none."""

        self._beating: asyncio.Task[None] | None = None
        self._early: list[str] | None = None
        """Chunks of functions that arrive while their earlier chunks are read from the store."""

        self._kept: dict[str, set[str]] = {}
        """Ids of chunks that were in the store, by the function's run, until its stream ends."""

        self.on_cancel: Callable[[str, str], object] = lambda _user, _thread: None
        """Called with user and thread where another process was asked to stop their runs."""

        self.is_busy: Callable[[], bool] = lambda: False
        """Says whether the others must know that this process lives, even if no run is open."""

        self.on_death: Callable[[Sequence[LostRun]], object] = lambda _runs: None
        """Called with the open runs of a process that has died."""

        self.on_chunk: Callable[[Entry, str], object] = lambda _entry, _channel: None
        """Called with a chunk that another process published, and its channel."""

    async def join(self, store: HistoryStore) -> None:
        """Begin to share chunks with the processes that use the same store.

        Raises:
            ConfigurationError: Another process serves the same app, and the store cannot carry
                anything between them.
        """
        self._broadcast = store.broadcast()
        if self._broadcast is None:
            _check_alone(store)
            return
        self._joined = asyncio.get_running_loop().time()
        self._early = []
        await self._broadcast.open(self)
        await self._take_kept(store)
        self._hub.on_publish = self._publish
        self._begin_with_all(lost=False)
        self._beating = asyncio.create_task(self._beat())

    async def leave(self) -> None:
        """Send the remaining messages, and stop."""
        self._hub.on_publish = None
        if self._beating is not None:
            self._beating.cancel()
        if self._broadcast is not None:
            await self._broadcast.close()

    async def _take_kept(self, store: object) -> None:
        """Take the functions' stored chunks of open runs, then the chunks that arrived since."""
        try:
            mailbox = abilities_of(store).mail
            if mailbox is not None:
                for run_id, _ in await mailbox.list_mail(STREAMS):
                    mail = await mailbox.list_mail(stream_box(run_id))
                    texts = [one for _, kept in mail for one in as_list(kept["sent"]) or ()]
                    sent = [as_object(one) or {} for one in texts]
                    if await _is_over(store, sent):  # and could not say so
                        await mailbox.remove_mail(STREAMS, run_id)
                        await mailbox.remove_mail(stream_box(run_id))
                        continue
                    for said in sent:
                        self._take_sent(said, keep=True)
        except Exception:
            logger.exception("Replies of functions that are under way are shown at their end")
        early, self._early = self._early or [], None
        for text in early:
            self.receive(text)

    def _take_sent(self, said: dict[str, Any], *, keep: bool = False) -> None:
        """Take a function's chunk once: it may come from the store and directly."""
        sender, kind = str(said.get("from")), said.get("kind")
        if kind == "gone":
            self._kept.pop(sender, None)
            self._hub.end_runs_of(sender)
            return
        chunk = as_object(said["chunk"]) or {}
        known = self._kept.get(sender, set[str]())
        if chunk["id"] in known:
            return
        if keep:
            self._kept.setdefault(sender, known).add(chunk["id"])
        elif chunk["event"] == "stream.ended":
            self._kept.pop(sender, None)
        self._take(sender, "chunk", said)

    def cancel(self, user_id: str, thread_id: str) -> None:
        """Let the others stop their runs of a thread."""
        self._send("cancel", lasting=True, user=user_id, thread=thread_id)

    def is_alive(self, name: str) -> bool:
        """Return whether another process sent a message recently, or had no time to."""
        heard = self._heard.get(name, self._joined)
        return heard >= asyncio.get_running_loop().time() - _DEAD_SECONDS

    def _send(self, kind: str, *, lasting: bool = False, **facts: Any) -> None:
        if self._broadcast is not None:
            text = dumps({"from": self.name, "kind": kind, **facts})
            self._broadcast.send(text, lasting=lasting)

    def _publish(self, channel: str, entry: Entry, *, to: str | None = None) -> None:
        if self._broadcast is not None:
            facts = {"from": self.name, "kind": "chunk", "to": to, "channel": channel}
            head = dumps({**facts, "answers": entry.answers})
            self._broadcast.send(f'{head[:-1]},"chunk":{entry.text}}}')

    def receive(self, text: str) -> None:
        """Handle a message of another process."""
        said = as_object(strict_loads(text)) or {}
        sender, kind, to = str(said.get("from")), said.get("kind"), said.get("to")
        if to not in (None, self.name):
            return
        if sender.startswith(FUNCTION_RUN):
            if self._early is not None:
                self._early.append(text)
            else:
                self._take_sent(said)
        elif kind == "hello":
            self._greet(sender, lost=said.get("lost") is True)
        elif kind == "ready":
            self._note(sender)
        elif (sender in self._heard) == (to is None):
            self._take(sender, str(kind), said)
        elif to is None and kind == "chunk":
            self._pass_over(said)

    def _note(self, sender: str) -> None:
        self._heard[sender] = asyncio.get_running_loop().time()

    def _begin_with_all(self, *, lost: bool) -> None:
        """Say hello, and send the open runs of this process; lost: others may have missed some."""
        self._send("hello", lost=lost)
        self._send_open_runs(None)

    def _greet(self, sender: str, *, lost: bool) -> None:
        """Accept a process's chunks from now on, and send it the open runs of this process."""
        self._forget(sender)
        self._note(sender)
        if lost:  # runs of it may have begun and ended unheard
            self._hub.interrupt()
        self._send_open_runs(sender)
        self._send("ready", to=sender)

    def _send_open_runs(self, to: str | None) -> None:
        for channel, entry in self._hub.own_open_entries():
            self._publish(channel, entry, to=to)

    def _pass_over(self, said: Mapping[str, Any]) -> None:
        """Leave out a chunk of a run that will be sent from its start, unless it ends with this."""
        if (as_object(said["chunk"]) or {}).get("event") == "stream.ended":
            self._hub.interrupt(said["channel"])

    def _take(self, sender: str, kind: str, said: Any) -> None:
        if sender in self._heard:
            self._note(sender)
        if kind == "chunk":
            chunk = as_object(said["chunk"]) or {}
            channel = said["channel"]
            self.on_chunk(self._hub.receive(channel, chunk, said["answers"], sender), channel)
        elif kind == "cancel":
            self.on_cancel(said["user"], said["thread"])

    def lost(self) -> None:
        """Let all readers reload their threads, and join the other processes again."""
        for sender in list(self._heard):
            self._forget(sender)
        self._hub.interrupt()
        self._begin_with_all(lost=True)

    def _forget(self, sender: str) -> None:
        self._heard.pop(sender, None)
        self._hub.end_runs_of(sender)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            if self._hub.has_open_runs(None) or self.is_busy():
                self._send("beat")
            for sender in self._heard:
                if not self.is_alive(sender) and self._hub.has_open_runs(sender):
                    logger.warning("A worker process has ended in the middle of its runs")
                    self.on_death(self._hub.end_runs_of(sender))


async def _is_over(store: object, sent: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the run that sent these chunks has ended, as its thread says."""
    chunk = as_object(sent[0]["chunk"]) if sent else None
    thread_id = (as_object((chunk or {}).get("data")) or {}).get("threadId")
    answers = sent[0]["answers"] if sent else None
    runs = abilities_of(store).runs
    if thread_id is None or answers is None or runs is None:
        return not sent
    with suppress(ThreadNotFoundError):
        run = await runs.load_run(thread_id, answers)
        return run is not None and run.status in ("completed", "stopped")
    return True


_held: list[int] = []
"""The lock file of this process, open until it ends."""


def _check_alone(store: HistoryStore) -> None:
    """Refuse to be the second of several worker processes, which could not share their streams.

    They have the same parent, and a lock file is named after it.
    """
    if _held or not (multiprocessing.parent_process() or "gunicorn" in sys.modules):
        return
    try:
        import fcntl  # noqa: PLC0415 - not on Windows
    except ImportError:
        return
    path = Path(tempfile.gettempdir(), f"agentkit-workers-{os.getuid()}-{os.getppid()}.lock")
    lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise ConfigurationError(
            f"create_app: another worker process serves already, and {type(store).__name__} does "
            "not carry streams between processes: answers of a worker would be missing "
            "in the others. Use SqliteHistory (one machine) or PostgresHistory, or a single worker."
        ) from error
    _held.append(lock)
