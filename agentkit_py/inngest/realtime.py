"""Streaming through Inngest realtime, as the useAgent React hook reads it.

A replay repeats every event up to the first step that is new. What belongs to the repeated part was
published before, so `LivePublisher` holds chunks back until their code is known to be new: a step's
handler is called, or no remembered step is left. What is held when a remembered step comes back is
dropped. Chunk ids are computed, so consumers recognise repeated chunks all the same.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

import inngest
from inngest.experimental import realtime

from agentkit_py._core.awaiting import resolve
from agentkit_py._core.json import as_object, dumps
from agentkit_py._core.untrusted import get_logger
from agentkit_py.history.abilities import abilities_of
from agentkit_py.runtime.port import Publisher
from agentkit_py.stores.broadcast import FUNCTION_RUN, STREAMS, Broadcast, stream_box

if TYPE_CHECKING:
    from agentkit_py.stores import HistoryStore

logger: logging.Logger = get_logger("agentkit_py.inngest")

T = TypeVar("T")

TOPIC = "agent_stream"
"""The topic on which the useAgent hook listens."""

_PAUSE = 0.02
"""Seconds for which pieces of texts are collected."""

Publish: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
"""Sends a chunk."""


def channel_of(user_id: str) -> str:
    """Return the channel of a user, as the useAgent hook names it."""
    return f"user:{user_id}"


def publisher(client: inngest.Inngest, user_id: str, *, topic: str = TOPIC) -> Publish:
    """Return a ``publish`` for `StreamingConfig` or the middleware: it sends to the user's channel.

    Args:
        client: Whose key is used.
        user_id: Who may listen.
        topic: The topic on the channel.
    """
    channel = channel_of(user_id)

    async def publish(chunk: dict[str, Any]) -> None:
        await realtime.publish(client, channel, topic, chunk)

    return publish


Realtime: TypeAlias = Literal["inngest", "store"]
"""The way of chunks from functions to front ends: Inngest's realtime, or the store of the threads.
"""


class StoreChannel:
    """Sends the chunks of functions through a store, to the processes that serve the HTTP API.

    Pieces of texts are collected for a moment; anything else, and the text before it, is sent
    before the function continues, so that the order holds where another process does the next step.
    What an open stream has sent is kept as mail, for processes that begin meanwhile.
    """

    _of_loop: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, StoreChannel]]] = (
        WeakKeyDictionary()
    )

    def __init__(self, store: HistoryStore, broadcast: Broadcast) -> None:
        self._store = store  # as long as it is here, its `id()` is its own
        self._broadcast = broadcast
        self._lock = asyncio.Lock()
        self._waiting: list[tuple[str, dict[str, Any]]] = []
        """Ids of runs, with their chunks."""

        self._later: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, store: HistoryStore) -> StoreChannel | None:
        """Return the channel of a store in this event loop; None: the store carries nothing."""
        known = cls._of_loop.setdefault(asyncio.get_running_loop(), {})
        if id(store) not in known:
            broadcast = store.broadcast()
            if broadcast is None:
                return None
            known[id(store)] = cls(store, broadcast)
        return known[id(store)]

    def publisher(self, user_id: str, answers: str | None, run_id: str) -> Publish:
        """Return a ``publish`` for a function run.

        Args:
            user_id: Who may listen.
            answers: The id of the user's message.
            run_id: The id of the function's run.
        """
        facts = {"kind": "chunk", "to": None, "channel": channel_of(user_id), "answers": answers}

        async def publish(chunk: dict[str, Any]) -> None:
            said = {"from": sender_of(run_id), **facts, "chunk": chunk}
            self._waiting.append((run_id, said))
            if not chunk["event"].endswith(".delta"):
                await self._send()
            elif self._later is None or self._later.done():
                self._later = asyncio.create_task(self._send_later())

        return publish

    async def end(self, run_id: str) -> None:
        """Say that a function's run was stopped, and could not say so itself."""
        self._waiting.append((run_id, {"from": sender_of(run_id), "kind": "gone", "to": None}))
        await self._send()

    async def _send_later(self) -> None:
        await asyncio.sleep(_PAUSE)
        await self._send()

    async def _send(self) -> None:
        async with self._lock:
            taken, self._waiting = self._waiting, []
            if not taken:
                return
            try:
                await self._keep(taken)
            except Exception:
                logger.warning("%d chunks could not be kept", len(taken), exc_info=True)
            try:
                await self._broadcast.post([dumps(said) for _, said in taken])
            except Exception:
                logger.warning("%d chunks could not be published", len(taken), exc_info=True)

    async def _keep(self, taken: Sequence[tuple[str, dict[str, Any]]]) -> None:
        """Store chunks until their stream ends: before they are sent, so that none is missed."""
        store = abilities_of(self._store).mail
        if store is None:
            return
        for run_id in dict.fromkeys(run_id for run_id, _ in taken):
            sent = [said for one, said in taken if one == run_id]
            if any(_ends_stream(said) for said in sent):
                await store.remove_mail(STREAMS, run_id)
                await store.remove_mail(stream_box(run_id))
                continue
            chunks = [as_object(said["chunk"]) or {} for said in sent]
            threads = [(as_object(one["data"]) or {}).get("threadId") for one in chunks]
            thread_id = next((one for one in threads if isinstance(one, str)), None)
            await store.put_mail(
                stream_box(run_id), uuid4().hex, {"sent": sent}, thread_id=thread_id
            )
            if any(one["event"] == "run.started" for one in chunks):
                await store.put_mail(STREAMS, run_id, {}, thread_id=thread_id)


def _ends_stream(said: Mapping[str, Any]) -> bool:
    return said["kind"] == "gone" or said["chunk"]["event"] == "stream.ended"


def sender_of(run_id: str) -> str:
    """Return the name under which a function's run sends its chunks."""
    return f"{FUNCTION_RUN}{run_id}"


async def subscription_token(client: inngest.Inngest, user_id: str) -> dict[str, Any]:
    """Return a token with which a browser may listen to a user's channel, and to no other."""
    return dict(await realtime.get_subscription_token(client, channel_of(user_id), [TOPIC]))


class Remaining(Protocol):
    """The remembered steps of an execution, counted."""

    @property
    def left(self) -> int:
        """Number of steps that have not been asked for yet."""
        ...


class LivePublisher:
    """Publishes the chunks of an execution that no earlier execution has published."""

    def __init__(self, send: Publish | None, steps: Remaining) -> None:
        self._send = send
        self._steps = steps
        self._held: list[tuple[Publisher[Any] | None, Any]] = []
        self._calls: list[Callable[[], None]] = []
        self._groups = 0
        self._holding = False

    def publish_with(self, send: Publish) -> None:
        """Send chunks with another function from now on."""
        self._send = send

    @property
    def is_new(self) -> bool:
        """True if no remembered step is left, so that all code from here on is new."""
        return not self._steps.left

    async def publish(
        self, chunk: Any, *, inside: bool, send: Publisher[Any] | None = None
    ) -> None:
        """Send the chunk now, or hold it back until its code is known to be new.

        Args:
            chunk: The chunk, or the event of an observer.
            inside: It comes from a step that really runs now.
            send: Sends it; the function that all chunks are sent with unless given.
        """
        if self._send is None and send is None:
            return
        self._held.append((send, chunk))
        if inside or (self.is_new and not self._holding):
            await self._flush()

    @contextmanager
    def hold(self) -> Generator[None]:
        """Hold the chunks of the block, also if it is new, until a step begins."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False

    def when_new(self, call: Callable[[], None]) -> None:
        """Make a call that belongs to new code only, now or when that is known."""
        if self.is_new:
            call()
        else:
            self._calls.append(call)

    async def begin(self) -> None:
        """Publish the held chunks: a step's handler is called, so the code before it is new."""
        calls, self._calls = self._calls, []
        for call in calls:
            call()
        await self._flush()

    async def remembered(self, step: Awaitable[T]) -> T:
        """Await a step, and drop the held chunks if it was remembered: then they are published.

        A step that is new does not come back in the request that asks for it.
        """
        try:
            found = await step
        except inngest.StepError:
            await self._passed()
            raise
        await self._passed()
        return found

    async def _passed(self) -> None:
        if not self._groups:
            self._held.clear()
            self._calls.clear()
        elif self.is_new:  # another branch of the group may have had something new to say
            await self.begin()

    async def _flush(self) -> None:
        held, self._held = self._held, []
        for own, chunk in held:
            send = own or self._send
            try:
                if send is not None:
                    await resolve(send(chunk))
            except Exception:
                logger.warning("A chunk could not be published", exc_info=True)

    @contextmanager
    def group(self) -> Generator[None]:
        """Mark steps that run at the same time: no step shows the published chunks of others."""
        self._groups += 1
        try:
            yield
        finally:
            self._groups -= 1


# Inngest stops a function between two steps. A step that is asking a model continues to its end,
# and so would its stream, although the front end has already received the run's end.

_REMEMBERED = 1000
_stopped: OrderedDict[tuple[str, str], float] = OrderedDict()
"""The times at which runs were stopped, by user and thread; the latest is last."""


def stop(user_id: str, thread_id: str) -> None:
    """Drop the further chunks of this user's runs in this thread from this process."""
    key = (user_id, thread_id)
    _stopped[key] = time.monotonic()
    _stopped.move_to_end(key)
    if len(_stopped) > _REMEMBERED:
        _stopped.popitem(last=False)


def unless_stopped(send: Publish, user_id: str, thread_id: object) -> Publish:
    """Return ``send`` for an execution that begins now; it sends nothing after a later `stop`."""
    if not isinstance(thread_id, str):
        return send
    began = time.monotonic()
    key = (user_id, thread_id)

    async def publish(chunk: dict[str, Any]) -> None:
        if _stopped.get(key, began) <= began:
            await send(chunk)

    return publish
