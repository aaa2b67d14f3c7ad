"""Growth: the hub's work for one channel does not depend on others; a stream is two tasks."""

from __future__ import annotations

import asyncio
import gc
import sys
from types import FrameType
from typing import Any

from agentkit_py.server import Hub, HubLimits, lifespan
from tests.server.world import app_of, eventually, support


def _instructions(channels: int) -> int:
    """Return the instructions of one connect, one run and one disconnect among so many."""
    hub = Hub(HubLimits(idle_channels=10))
    readers = [hub.subscribe(f"user:{number}") for number in range(channels)]
    counted = 0

    def seen(frame: FrameType, event: str, _: object) -> Any:
        nonlocal counted
        frame.f_trace_opcodes = True
        counted += event == "opcode"
        return seen

    def use(name: str) -> None:
        reader = hub.subscribe(name)
        hub.publish(name, {"event": "run.started", "data": {"messageId": "m"}})
        hub.publish(name, {"event": "stream.ended", "data": {"messageId": "m"}})
        reader.close()

    use("warm")
    before = sys.gettrace()
    gc.collect()
    gc.disable()
    sys.settrace(seen)
    try:
        use("one")
    finally:
        sys.settrace(before)
        gc.enable()
    assert hub.readers == len(readers)
    return counted


def test_a_connection_costs_the_same_among_many() -> None:
    """Counted in instructions; comparing all channels would make it a hundred times as many."""
    few = _instructions(20)
    assert _instructions(2000) <= 1.1 * few


def _kept_after(runs: int) -> int:
    hub, chunk = Hub(HubLimits(ended_bytes=10_000)), {"messageId": "m", "delta": "x" * 500}
    with hub.subscribe("c"):
        for _ in range(runs):
            for event in ("run.started", *["text.delta"] * 30, "stream.ended"):
                hub.publish("c", {"event": event, "data": chunk})
    return hub.kept_bytes


def test_a_channel_keeps_the_same_after_many_runs() -> None:
    """The last run whole, for readers that come back, and little of those before it."""
    one = _kept_after(1)
    assert one + 8_000 < _kept_after(20) == _kept_after(100) < one + 12_000


def test_of_the_unused_channels_the_newest_are_kept() -> None:
    """A reader that comes back in time finds its place."""
    hub = Hub(HubLimits(idle_channels=2))
    for name in ("a", "b", "c"):
        hub.publish(name, {"event": "text.delta", "data": {}})
    with hub.subscribe("b", "x-1") as reader:
        assert reader.missed == "unknown"
        sizes = [
            hub.publish(name, {"event": "text.delta", "data": {"delta": "x" * size}}).size
            for name, size in (("d", 100), ("e", 10))
        ]
        one = Hub().publish("b", {"event": "text.delta", "data": {}}).size
        assert hub.kept_bytes == one + sum(sizes)
    names = [name for name in "abcde" if hub.subscribe(name).position.endswith("-1")]
    assert names == ["b", "e"]


async def test_a_stream_that_waits_takes_two_tasks() -> None:
    """Its request, and one that notices that the client is gone."""
    app = app_of(support("Yes."))
    hub: Hub = app.state.api.hub
    gone = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(_message: Any) -> None:
        await asyncio.sleep(0)

    async def read(user: str) -> None:
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/api/stream",
            "query_string": b"",
            "headers": [(b"x-user", user.encode())],
            "client": ("127.0.0.1", 1),
        }
        await app(scope, receive, send)

    async def opened(first: int, last: int) -> int:
        """Open streams; return how many tasks there are more."""
        before = len(asyncio.all_tasks())
        reading.extend(asyncio.create_task(read(f"user{n}")) for n in range(first, last))
        await eventually(lambda: hub.readers == last)
        return len(asyncio.all_tasks()) - before

    reading: list[asyncio.Task[None]] = []
    async with lifespan(app):
        await opened(0, 10)  # and what notices for all of them that the server stops
        for _ in range(20):
            await asyncio.sleep(0)
        assert await opened(10, 20) == 20
        gone.set()
        await asyncio.gather(*reading)
        assert hub.readers == 0
