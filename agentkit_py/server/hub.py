"""The hub: channels that keep the last chunks, and readers that follow them at their own pace.

A reader holds a position, not a queue: what it has not read yet stays in its channel's ring, once
for all readers. So memory is bounded by the rings and one small batch for each reader, however slow
it is; one that the ring has overtaken is told so. Publishing never waits.

A hub belongs to one event loop; all of it is called there.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from agentkit_py._core.json import as_object, dumps
from agentkit_py.codec import escape_surrogates
from agentkit_py.errors import ConfigurationError

Missed: TypeAlias = Literal["too_old", "unknown"]
"""Why a reader could not be given all that it missed: the ring has dropped some of it, or its
position is none of this channel's (e.g. of a server that was restarted)."""

_OVERHEAD = 150
"""Bytes that an entry takes beside its text, about."""

_BATCH = 2**16
"""Characters that a reader gets at once, but for one chunk that is longer: a reader that has
stopped reading keeps that much."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One published chunk."""

    number: int
    """Counts from 1 in its channel."""

    id: str
    """What a reader gives to come back to the place after it."""

    text: str
    """The chunk as compact JSON, without line breaks."""

    thread_id: str | None = None
    """The thread that the chunk names."""

    @property
    def size(self) -> int:
        """Bytes that it takes in memory, where a character may take four."""
        return sys.getsizeof(self.text) + _OVERHEAD


@dataclass(frozen=True, slots=True, kw_only=True)
class HubLimits:
    """How much a hub keeps.

    Raises:
        ConfigurationError: A limit is not positive.
    """

    channel_chunks: int = 8192
    """Chunks that one channel keeps."""

    channel_bytes: int = 2 * 2**20
    """Bytes that one channel keeps."""

    idle_channels: int = 1024
    """Channels without readers and without running runs that are kept for those who come back."""

    idle_bytes: int = 256 * 2**20
    """Bytes that these channels keep together; those used longest ago are forgotten first."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("channel_chunks", "channel_bytes", "idle_channels", "idle_bytes"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"HubLimits: {name} must be 1 or more")


@dataclass(slots=True)
class _Channel:
    limits: HubLimits
    epoch: str = field(default_factory=lambda: secrets.token_hex(6))
    ring: deque[Entry] = field(default_factory=deque[Entry])
    next: int = 1
    size: int = 0
    readers: int = 0
    open: dict[str, int] = field(default_factory=dict[str, int])
    """Of each run that has not ended, by its message id: the number of its first chunk."""

    waiting: set[asyncio.Future[None]] = field(default_factory=set[asyncio.Future[None]])

    @property
    def first(self) -> int:
        """Number of the oldest chunk that is kept."""
        return self.next - len(self.ring)

    @property
    def idle(self) -> bool:
        return not self.readers and not self.open

    def add(self, chunk: Mapping[str, Any]) -> Entry:
        data = as_object(chunk.get("data")) or {}
        self._note(str(chunk.get("event")), data)
        thread = data.get("threadId")
        entry = Entry(
            self.next,
            f"{self.epoch}-{self.next}",
            escape_surrogates(dumps(chunk)),
            thread if isinstance(thread, str) else None,
        )
        self.ring.append(entry)
        self.next += 1
        self.size += entry.size
        limits = self.limits
        while len(self.ring) > limits.channel_chunks or (
            self.size > limits.channel_bytes and len(self.ring) > 1
        ):
            self.size -= self.ring.popleft().size
        self._wake()
        return entry

    def _note(self, event: str, data: Mapping[str, Any]) -> None:
        """Keep track of runs that go on: the outermost begins without parent, and ends a stream."""
        message = data.get("messageId")
        if not isinstance(message, str):
            return
        if event == "run.started" and "parentRunId" not in data:
            self.open.setdefault(message, self.next)
        elif event == "stream.ended":
            self.open.pop(message, None)

    def _wake(self) -> None:
        waiting, self.waiting = self.waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self) -> None:
        """Until something is published."""
        future = asyncio.get_running_loop().create_future()
        self.waiting.add(future)
        try:
            await future
        finally:
            self.waiting.discard(future)

    def after(self, number: int, limit: int) -> list[Entry]:
        """Up to ``limit`` chunks that follow the one with this number."""
        start = max(0, number + 1 - self.first)
        found: list[Entry] = []
        size = 0
        for index in range(start, min(len(self.ring), start + limit)):
            entry = self.ring[index]
            size += len(entry.text)
            if found and size > _BATCH:
                break
            found.append(entry)
        return found

    def going_on(self) -> int:
        """The number before the first chunk of the oldest run that goes on."""
        return min(self.open.values(), default=self.next) - 1


@dataclass(frozen=True, slots=True)
class Batch:
    """What a reader gets at once."""

    entries: list[Entry]
    lost: int = 0
    """How many chunks before these were dropped unread, since the reader was too slow."""


class Subscription:
    """One reader's place in a channel; leave it with `close`, or use it in ``with``.

    Attributes:
        missed: Why the reader was not given everything since the position it named; None: it was.
    """

    def __init__(self, hub: Hub, channel: _Channel, place: int, missed: Missed | None) -> None:
        """Begin after the chunk number ``place``."""
        self._hub = hub
        self._channel = channel
        self._place = place
        self._closed = False
        self.missed = missed
        channel.readers += 1

    @property
    def place(self) -> str:
        """Where the reader is: what comes after this has not been read."""
        return f"{self._channel.epoch}-{self._place}"

    @property
    def resume_from(self) -> str:
        """A place that repeats the runs that go on now, for a reader that may have lost some."""
        return f"{self._channel.epoch}-{min(self._place, self._channel.going_on())}"

    async def next(self, limit: int = 256) -> Batch:
        """The next chunks, at least one, waiting if there are none yet.

        What the ring has dropped before it was read is counted in `Batch.lost` and left out.
        """
        while self._channel.next - 1 <= self._place:
            await self._channel.wait()
        lost = max(0, self._channel.first - 1 - self._place)
        self._place += lost
        entries = self._channel.after(self._place, limit)
        self._place = entries[-1].number
        return Batch(entries, lost)

    def close(self) -> None:
        """Stop reading."""
        if not self._closed:
            self._closed = True
            self._channel.readers -= 1
            self._hub.trim()

    def __enter__(self) -> Subscription:
        """The subscription itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Stop reading."""
        self.close()


class Hub:
    """Channels by name.

    Example:
        ::

            hub = Hub()
            await network.run("Hi", streaming=StreamingConfig(publish=hub.publisher("user:ada")))

            with hub.subscribe("user:ada") as reader:
                batch = await reader.next()
                for entry in batch.entries:
                    print(entry.id, entry.text)
    """

    def __init__(self, limits: HubLimits | None = None) -> None:
        """Begin without channels."""
        self.limits: HubLimits = limits or HubLimits()
        self._channels: OrderedDict[str, _Channel] = OrderedDict()
        self._kept = 0

    def _channel(self, name: str) -> _Channel:
        found = self._channels.get(name)
        if found is None:
            found = self._channels[name] = _Channel(self.limits)
            self.trim()
        self._channels.move_to_end(name)
        return found

    def publish(self, channel: str, chunk: Mapping[str, Any]) -> Entry:
        """Add a chunk to a channel, and wake who waits for it.

        Args:
            channel: Its name.
            chunk: A streaming chunk ``{event, data, …}``.

        Raises:
            TypeError: The chunk is not JSON.
        """
        found = self._channel(channel)
        before = found.size
        entry = found.add(chunk)
        self._kept += found.size - before
        return entry

    def publisher(self, channel: str) -> Any:
        """A ``publish`` for `StreamingConfig` that sends to one channel."""

        def publish(chunk: dict[str, Any]) -> None:
            self.publish(channel, chunk)

        return publish

    def subscribe(self, channel: str, after: str | None = None) -> Subscription:
        """Follow a channel.

        Args:
            channel: Its name.
            after: The id of the last chunk that the reader has. Without, it begins with the runs
                that go on; so it does, with `Subscription.missed` set, where ``after`` cannot be
                gone on from.
        """
        found = self._channel(channel)
        place, missed = _place_of(found, after)
        return Subscription(self, found, place, missed)

    def holds(self, channel: str, message_id: str) -> bool:
        """Whether a run goes on, and all that it has published is still there."""
        found = self._channels.get(channel)
        return found is not None and found.open.get(message_id, 0) >= found.first

    @property
    def kept_bytes(self) -> int:
        """How much all rings hold, about."""
        return self._kept

    @property
    def readers(self) -> int:
        """How many readers there are."""
        return sum(channel.readers for channel in self._channels.values())

    def trim(self) -> None:
        """Forget channels that nobody uses, those used last kept longest."""
        limits = self.limits
        if len(self._channels) <= limits.idle_channels and self._kept <= limits.idle_bytes:
            return
        idle = [name for name, channel in self._channels.items() if channel.idle]
        count, size = len(idle), sum(self._channels[name].size for name in idle)
        for name in idle:
            if count <= limits.idle_channels and size <= limits.idle_bytes:
                return
            dropped = self._channels.pop(name).size
            count, size, self._kept = count - 1, size - dropped, self._kept - dropped


_DIGITS = 15
"""Of a chunk's number, at most."""


def _place_of(channel: _Channel, after: str | None) -> tuple[int, Missed | None]:
    begin = max(channel.going_on(), channel.first - 1)
    if after is None:
        return begin, None
    epoch, _, digits = after.rpartition("-")
    number = (
        int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS else -1
    )
    if epoch != channel.epoch or not 0 <= number < channel.next:
        return begin, "unknown"
    if number + 1 < channel.first:
        return begin, "too_old"
    return number, None
