"""The hub: channels that keep the last chunks, and readers that follow them at their own pace.

A reader holds a position, not a queue: unread chunks stay in its channel's ring, once for all
readers. So memory is bounded by the rings and a small batch for each reader, however slow it is;
a reader that the ring has overtaken learns how much it lost. Publishing never waits.

A hub belongs to a single event loop; all methods are called there.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias

from agentkit_py._core.json import as_object, dumps
from agentkit_py.errors import ConfigurationError

Missed: TypeAlias = Literal["too_old", "unknown"]
"""The reason why a reader cannot get all missed chunks: the ring has dropped some of it, or its
position is not of this channel (e.g. of a server that was restarted)."""

_OVERHEAD = 150
"""Bytes that an entry takes in addition to its text, estimated."""

_UNSURE = 60.0
"""Seconds for which it is unknown whether a reader has received its chunks: a connection that is
gone is noticed after 40 (two of uvicorn's pings)."""

_MARKED = 10.0
"""Seconds between two places of a reader that are remembered."""

_BATCH = 2**16
"""Characters that a reader gets at once, unless a chunk is longer: a reader that has stopped
reading holds that much."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One published chunk."""

    number: int
    """Counts from 1 in its channel."""

    id: str
    """The position after it, for a reader that comes back."""

    text: str
    """The chunk as compact JSON, without line breaks."""

    thread_id: str | None = None
    """The thread that the chunk names."""

    answers: str | None = None
    """The id of the user's message that the chunk's run answers."""

    source: str | None = None
    """The worker process that published it; None: this process."""

    @property
    def size(self) -> int:
        """Bytes that it takes in memory, where a character may take four."""
        return sys.getsizeof(self.text) + _OVERHEAD


@dataclass(frozen=True, slots=True, kw_only=True)
class HubLimits:
    """Limits of a hub's memory.

    Raises:
        ConfigurationError: A limit is not positive.
    """

    channel_chunks: int = 8192
    """Chunks that a channel keeps."""

    channel_bytes: int = 2 * 2**20
    """Bytes that a channel keeps."""

    ended_bytes: int = 256 * 2**10
    """Bytes of runs that have ended which a channel keeps when the next run begins."""

    idle_channels: int = 1024
    """Channels without readers and runs that are kept for readers who come back."""

    idle_bytes: int = 256 * 2**20
    """Bytes that these channels keep together; the least recently used are dropped first."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        for one in fields(self):
            if getattr(self, one.name) < 1:
                raise ConfigurationError(f"HubLimits: {one.name} must be 1 or more")


@dataclass(slots=True)
class _OpenRun:
    """A run that has not ended."""

    first: int
    """The number of its first chunk."""

    thread_id: str | None
    answers: str | None
    source: str | None
    last: int = -1
    """The highest sequence number of its chunks."""


@dataclass(frozen=True, slots=True)
class LostRun:
    """A run whose process has died while its stream was open."""

    channel: str
    thread_id: str
    answers: str
    """The id of the user's message."""

    message_id: str
    """The id of the message that it wrote."""

    last: int
    """The highest sequence number of its chunks."""


@dataclass(slots=True)
class _Channel:
    name: str
    limits: HubLimits
    epoch: str = field(default_factory=lambda: secrets.token_hex(6))
    ring: deque[Entry] = field(default_factory=deque[Entry])
    next: int = 1
    size: int = 0
    readers: int = 0
    open: dict[str, _OpenRun] = field(default_factory=dict[str, _OpenRun])
    """The runs that have not ended, by message id."""

    gaps: int = 0
    """Number of times that chunks of other processes may have been lost."""

    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by the next chunk, which brings a new event."""

    @property
    def first(self) -> int:
        """Number of the oldest chunk that is kept."""
        return self.next - len(self.ring)

    @property
    def idle(self) -> bool:
        return not self.readers and not self.open

    def add(
        self, chunk: Mapping[str, Any], answers: str | None = None, source: str | None = None
    ) -> Entry:
        data = as_object(chunk.get("data")) or {}
        thread = data.get("threadId")
        entry = Entry(
            self.next,
            f"{self.epoch}-{self.next}",
            dumps(chunk),
            thread if isinstance(thread, str) else None,
            answers,
            source,
        )
        self._track_run(str(chunk.get("event")), chunk.get("sequenceNumber"), data, entry)
        self.ring.append(entry)
        self.next += 1
        self.size += entry.size
        limits = self.limits
        while len(self.ring) > limits.channel_chunks or (
            self.size > limits.channel_bytes and len(self.ring) > 1
        ):
            self.size -= self.ring.popleft().size
        self.wake()
        return entry

    def wake(self) -> None:
        """Let readers look again."""
        news, self.news = self.news, asyncio.Event()
        news.set()

    def _track_run(self, event: str, number: object, data: Mapping[str, Any], entry: Entry) -> None:
        """Keep track of open runs: the outermost run begins without parent, and ends a stream.

        A paused run may resume in another process, and then belongs to it.
        """
        for run in self.open.values():
            if run.answers == entry.answers is not None:
                run.source = entry.source
                if isinstance(number, int):
                    run.last = max(run.last, number)
        message = data.get("messageId")
        if not isinstance(message, str):
            return
        if event == "run.started" and "parentRunId" not in data:
            while not self.open and self.size > self.limits.ended_bytes and self.ring:
                self.size -= self.ring.popleft().size
            last = number if isinstance(number, int) else -1
            run = _OpenRun(entry.number, entry.thread_id, entry.answers, entry.source, last)
            self.open.setdefault(message, run)
        elif event == "stream.ended":
            self.open.pop(message, None)

    def after(self, number: int, limit: int) -> list[Entry]:
        """Return up to ``limit`` chunks that follow the chunk with this number."""
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

    @property
    def open_keys(self) -> frozenset[tuple[str | None, str | None]]:
        """Thread of each open run, and the message that it answers."""
        return frozenset((run.thread_id, run.answers) for run in self.open.values())

    @property
    def before_open_runs(self) -> int:
        """The number before the first chunk of the oldest open run."""
        return min((run.first for run in self.open.values()), default=self.next) - 1


@dataclass(frozen=True, slots=True)
class Batch:
    """Chunks that a reader gets at once."""

    entries: list[Entry]
    lost: int = 0
    """Number of chunks before these that were dropped unread, since the reader was too slow."""


@dataclass(frozen=True, slots=True)
class ReaderPlace:
    """The position at which a reader resumes; runs that were open then are announced again."""

    seen: str
    """The id of the last chunk that it surely had, or of the last before it joined."""

    begin: int
    """The number before the first chunk of those runs."""

    open: frozenset[tuple[str | None, str | None]]
    """Thread of each, and the message that it answers."""


class Subscription:
    """One reader's position in a channel; leave it with `close`, or use it in ``with``.

    Attributes:
        missed: The reason why something since the position that the reader named is lost, or None.
    """

    def __init__(self, hub: Hub, channel: _Channel, after: str | ReaderPlace | None) -> None:
        self._hub = hub
        self._channel = channel
        self._gaps = channel.gaps
        self._closed = False
        known = after if isinstance(after, ReaderPlace) else None
        number, self.missed = _number_of(
            channel, after.seen if isinstance(after, ReaderPlace) else after
        )
        self._seen = self._read = channel.next - 1 if number is None else number
        """Chunks up to this place are read only if their run was open at the start."""

        self._open = channel.open_keys
        if number is None or known is not None:
            begin = min(self._seen, channel.before_open_runs)
            if number is not None and known is not None:
                begin, self._open = min(begin, known.begin), self._open | known.open
            self._read = max(begin, channel.first - 1)
        self._read_at = self._hub.clock()
        self._marks = deque([(self._read_at, self._read)])
        """Times, with the number of the last chunk read by then."""

        channel.readers += 1

    @property
    def position(self) -> str:
        """The id of the last chunk that was read."""
        return f"{self._channel.epoch}-{self._read}"

    @property
    def place(self) -> ReaderPlace:
        """The place of a reader that may have lost sent chunks."""
        channel, sure = self._channel, self._surely_received()
        seen = max(sure, self._seen)
        begin = min(sure, channel.before_open_runs)
        return ReaderPlace(f"{channel.epoch}-{seen}", begin, self._open | channel.open_keys)

    def _surely_received(self) -> int:
        """Return the number of the last chunk that was sent long enough ago."""
        known = self._hub.clock() - _UNSURE
        if self._read_at <= known:
            return self._read
        while len(self._marks) > 1 and self._marks[1][0] <= known:
            self._marks.popleft()
        return self._marks[0][1]

    @property
    def is_behind(self) -> bool:
        """True if there are chunks that were not read."""
        return self._channel.next - 1 > self._read

    async def next(self, limit: int = 256) -> Batch:
        """Return the next chunks, waiting if there are none yet; none only if some were lost.

        Chunks that the ring has dropped unread are counted in `Batch.lost`.
        """
        channel = self._channel
        while True:
            while not self.is_behind and self._gaps == channel.gaps:
                await channel.news.wait()
            lost = max(0, channel.first - 1 - self._read)
            self._read += lost
            entries = channel.after(self._read, limit)
            if entries:
                self._note_time()
                self._read = entries[-1].number
            if self._gaps != channel.gaps:
                self._gaps = channel.gaps
                lost += 1
            found = [one for one in entries if self._wants(one)]
            if found or lost:
                return Batch(found, lost)

    def _note_time(self) -> None:
        """Record the number of the last chunk read by now."""
        now = self._hub.clock()
        if now - self._marks[-1][0] >= _MARKED:
            self._marks.append((self._read_at, self._read))
            self._surely_received()
        self._read_at = now

    def _wants(self, entry: Entry) -> bool:
        """Return whether an entry is new, or of a run that was open when the reader came.

        A front end that lacks the beginning of a reply would attach its end to the next reply.
        """
        return entry.number > self._seen or (entry.thread_id, entry.answers) in self._open

    def close(self) -> None:
        """Stop reading."""
        if not self._closed:
            self._closed = True
            self._channel.readers -= 1
            self._hub.settle(self._channel)

    def __enter__(self) -> Subscription:
        """Return the subscription itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Stop reading."""
        self.close()


class Hub:
    """Channels by name.

    Args:
        limits: Limits of the memory.
        clock: A monotonic clock in seconds: chunks of the last minute may not have arrived.

    Example:
        ::

            hub = Hub()
            await network.run("Hi", streaming=StreamingConfig(publish=hub.publisher("user:ada")))

            with hub.subscribe("user:ada") as reader:
                batch = await reader.next()
                for entry in batch.entries:
                    print(entry.id, entry.text)
    """

    def __init__(
        self, limits: HubLimits | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits: HubLimits = limits or HubLimits()
        self.clock: Callable[[], float] = clock
        self._channels: dict[str, _Channel] = {}
        self._kept = 0
        self._idle: OrderedDict[str, int] = OrderedDict()
        """Bytes of the idle channels, the least recently used first."""

        self._idle_bytes = 0
        self.on_publish: Callable[[str, Entry], None] | None = None
        """Called with each chunk of this process, to forward it to others."""

    @property
    def limits(self) -> HubLimits:
        """How much it keeps."""
        return self._limits

    def _channel(self, name: str) -> _Channel:
        found = self._channels.get(name)
        if found is None:
            found = self._channels[name] = _Channel(name, self._limits)
        return found

    def publish(
        self,
        channel: str,
        chunk: Mapping[str, Any],
        *,
        answers: str | None = None,
        local: bool = False,
    ) -> Entry:
        """Add a chunk to a channel, and wake its readers.

        Args:
            channel: Its name.
            chunk: A streaming chunk ``{event, data, …}``.
            answers: The id of the user's message that the chunk's run answers.
            local: For readers of this process only, since each process publishes it itself.

        Raises:
            TypeError: The chunk is not JSON.
        """
        entry = self._add(channel, chunk, answers, None)
        if self.on_publish is not None and not local:
            self.on_publish(channel, entry)
        return entry

    def receive(
        self, channel: str, chunk: Mapping[str, Any], answers: str | None, source: str
    ) -> Entry:
        """Add a chunk that another process published."""
        return self._add(channel, chunk, answers, source)

    def _add(
        self, channel: str, chunk: Mapping[str, Any], answers: str | None, source: str | None
    ) -> Entry:
        found = self._channel(channel)
        before = found.size
        entry = found.add(chunk, answers, source)
        self._kept += found.size - before
        self.settle(found)
        return entry

    def publisher(self, channel: str) -> Any:
        """Return a ``publish`` for `StreamingConfig` that sends to a channel."""

        def publish(chunk: dict[str, Any]) -> None:
            self.publish(channel, chunk)

        return publish

    def subscribe(self, channel: str, after: str | ReaderPlace | None = None) -> Subscription:
        """Follow a channel.

        Args:
            channel: Its name.
            after: The id of the last chunk that the reader has, or its place. Without it, the
                reader begins with the open runs; also where ``after`` is not kept, with
                `Subscription.missed` set.
        """
        found = self._channel(channel)
        reader = Subscription(self, found, after)
        self.settle(found)
        return reader

    def _open(self, channel: str) -> Mapping[str, _OpenRun]:
        found = self._channels.get(channel)
        return {} if found is None else found.open

    def holds(self, channel: str, message_id: str) -> bool:
        """Return whether a run is open and all its chunks are still kept."""
        found = self._channels.get(channel)
        run = None if found is None else found.open.get(message_id)
        return found is not None and run is not None and run.first >= found.first

    def works_on(self, channel: str, message_id: str) -> bool:
        """Return whether a run that answers a message of the user is open in any process."""
        return any(run.answers == message_id for run in self._open(channel).values())

    def answered_elsewhere(self, channel: str, thread_id: str) -> list[str]:
        """Return ids of the user's messages that other processes answer in a thread."""
        return [
            run.answers
            for run in self._open(channel).values()
            if run.source is not None and run.thread_id == thread_id and run.answers is not None
        ]

    def has_open_run(self, channel: str, thread_id: str) -> bool:
        """Return whether a run of a thread has begun, and has not ended."""
        return any(run.thread_id == thread_id for run in self._open(channel).values())

    def open_runs(self, channel: str, thread_id: str) -> dict[str, str | None]:
        """Return the messages of a thread's open runs, with the messages that they answer."""
        runs = self._open(channel).items()
        return {name: run.answers for name, run in runs if run.thread_id == thread_id}

    def place_of(self, channel: str, thread_id: str, answers: str) -> tuple[str | None, int]:
        """Return the id of the message that an open run writes, and its last sequence number."""
        for name, run in self._open(channel).items():
            if (run.thread_id, run.answers) == (thread_id, answers):
                return name, run.last
        return None, -1

    def answered(self, channel: str, thread_id: str) -> list[str]:
        """Return ids of the user's messages whose open runs are held from their start."""
        return [
            run.answers or ""
            for name, run in self._open(channel).items()
            if run.thread_id == thread_id and self.holds(channel, name)
        ]

    def has_open_runs(self, source: str | None) -> bool:
        """Return whether a process has runs that have not ended; None: this process."""
        every = self._channels.values()
        return any(run.source == source for channel in every for run in channel.open.values())

    def own_open_entries(self) -> Iterator[tuple[str, Entry]]:
        """Yield channel and chunk of all that is kept of this process's open runs."""
        for channel in self._channels.values():
            runs = [run for run in channel.open.values() if run.source is None]
            first = min((run.first for run in runs), default=channel.next)
            keys = {(run.thread_id, run.answers) for run in runs}
            for entry in channel.ring if runs else ():
                is_open = (entry.thread_id, entry.answers) in keys
                if is_open and entry.number >= first and entry.source is None:
                    yield channel.name, entry

    def end_runs_of(self, source: str) -> list[LostRun]:
        """Forget the open runs of a process that is gone, and return them.

        Their readers read their threads.
        """
        found: list[LostRun] = []
        for channel in list(self._channels.values()):
            runs = {name: run for name, run in channel.open.items() if run.source == source}
            found += [
                LostRun(channel.name, run.thread_id, run.answers, name, run.last)
                for name, run in runs.items()
                if run.thread_id is not None and run.answers is not None
            ]
            self._forget(channel, [*runs])
        return found

    def end_own_run(self, channel: str, message_id: str) -> None:
        """Drop an open run of this process that another process resumed unnoticed."""
        found = self._channels.get(channel)
        run = None if found is None else found.open.get(message_id)
        if found is not None and run is not None and run.source is None:
            self._forget(found, [message_id])

    def _forget(self, channel: _Channel, names: Sequence[str]) -> None:
        for name in names:
            del channel.open[name]
        if names:
            channel.gaps += 1
            channel.wake()
            self.settle(channel)

    def interrupt(self, channel: str | None = None) -> None:
        """Notify readers of a channel, or of all, of possibly lost chunks of other processes."""
        for one in self._channels.values():
            if channel in (None, one.name):
                one.gaps += 1
                one.wake()

    @property
    def kept_bytes(self) -> int:
        """Bytes that all rings hold, estimated."""
        return self._kept

    @property
    def readers(self) -> int:
        """Number of readers."""
        return sum(channel.readers for channel in self._channels.values())

    def settle(self, channel: _Channel) -> None:
        """Note whether a channel that was used is idle now, and drop the idle ones of long ago."""
        self._idle_bytes -= self._idle.pop(channel.name, 0)
        if not channel.idle:
            return
        self._idle[channel.name] = channel.size
        self._idle_bytes += channel.size
        limits = self._limits
        while len(self._idle) > limits.idle_channels or self._idle_bytes > limits.idle_bytes:
            name, size = self._idle.popitem(last=False)
            self._idle_bytes -= size
            self._kept -= size
            del self._channels[name]


_CHUNK_NUMBER = re.compile("[0-9]{1,15}")


def _number_of(channel: _Channel, after: str | None) -> tuple[int | None, Missed | None]:
    """Return the number of the last chunk that a reader has, or why that is not known."""
    if after is None:
        return None, None
    epoch, _, digits = after.rpartition("-")
    number = int(digits) if _CHUNK_NUMBER.fullmatch(digits) else -1
    if epoch != channel.epoch or not 0 <= number < channel.next:
        return None, "unknown"
    if number + 1 < channel.first:
        return None, "too_old"
    return number, None
