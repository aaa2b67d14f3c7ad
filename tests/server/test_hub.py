"""The hub: rings that are bounded, and readers that go at their own pace."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit_py.errors import ConfigurationError
from agentkit_py.server import Hub, HubLimits
from agentkit_py.server.hub import Subscription


def chunk(number: int, event: str = "text.delta", **data: Any) -> dict[str, Any]:
    """One chunk."""
    return {"event": event, "data": {"n": number, **data}, "sequenceNumber": number}


async def read(reader: Subscription, last: int) -> tuple[list[int], int]:
    """Numbers of the entries up to ``last``, and how many were lost."""
    numbers: list[int] = []
    lost = 0
    while not numbers or numbers[-1] < last:
        batch = await reader.next(limit=3)
        numbers += [entry.number for entry in batch.entries]
        lost += batch.lost
    return numbers, lost


@given(
    st.lists(st.one_of(st.just("publish"), st.just("read"), st.just("again")), max_size=60),
    st.integers(1, 8),
)
def test_a_reader_gets_everything_in_order_or_learns_how_much_it_lost(
    steps: list[str], room: int
) -> None:
    """The order of publishing, reading and reconnecting must not matter."""

    async def go() -> None:
        hub = Hub(HubLimits(channel_chunks=room))
        reader = hub.subscribe("c")
        published, seen, lost = 0, 0, 0
        for step in steps:
            if step == "publish":
                published += 1
                hub.publish("c", chunk(published))
            elif step == "again":
                place = reader.position
                reader.close()
                reader = hub.subscribe("c", place)
                if reader.missed is not None:
                    assert reader.missed == "too_old"
                    assert published - seen - lost > room
                    lost = published - seen
            elif published > seen + lost:
                batch = await reader.next(limit=2)
                assert batch.lost == max(0, published - room - seen - lost)
                lost += batch.lost
                assert batch.entries[0].number == seen + lost + 1
                seen += len(batch.entries)
        assert hub.readers == 1
        reader.close()
        assert hub.readers == 0

    asyncio.run(go())


async def test_readers_of_a_channel_do_not_wait_for_each_other() -> None:
    """Each gets all of it."""
    hub = Hub()
    with hub.subscribe("c") as one, hub.subscribe("c") as two:
        waiting = asyncio.create_task(read(one, 3))
        await asyncio.sleep(0)
        for number in range(1, 4):
            hub.publish("c", chunk(number))
        assert await waiting == ([1, 2, 3], 0)
        assert await read(two, 3) == ([1, 2, 3], 0)
    assert hub.readers == 0


async def test_a_channel_is_bounded_in_bytes() -> None:
    """One chunk is always kept, however long."""
    hub = Hub(HubLimits(channel_bytes=10_000))
    for number in range(100):
        hub.publish("c", chunk(number, text="x" * 1000))
        assert hub.kept_bytes <= 10_000
    hub.publish("c", chunk(100, text="x" * 50_000))
    with hub.subscribe("c") as reader:
        hub.publish("c", chunk(101))
        assert (await reader.next()).entries[-1].number == 102


async def test_idle_channels_are_dropped() -> None:
    """Those used last are kept; those with readers or with runs always."""
    hub = Hub(HubLimits(idle_channels=2))
    hub.publish("running", chunk(0, "run.started", messageId="m1", scope="network"))
    reader = hub.subscribe("read")
    places: dict[str, str] = {}
    for name in "abcd":
        places[name] = hub.publish(name, chunk(0)).id
    for name, missed in (("a", "unknown"), ("d", None)):
        with hub.subscribe(name, places[name]) as again:
            assert again.missed == missed, name
    assert hub.holds("running", "m1")
    hub.publish("running", chunk(1, "stream.ended", messageId="m1"))
    assert not hub.holds("running", "m1")
    reader.close()


async def test_a_new_reader_begins_with_the_oldest_open_run() -> None:
    """Runs that are in another are part of it."""
    hub = Hub()
    hub.publish("c", chunk(1, "run.started", messageId="old"))
    hub.publish("c", chunk(2, "stream.ended", messageId="old"))
    hub.publish("c", chunk(3, "run.started", messageId="m"))
    hub.publish("c", chunk(4, "run.started", messageId="n", parentRunId="r"))
    with hub.subscribe("c") as reader:
        assert await read(reader, 4) == ([3, 4], 0)
        hub.publish("c", chunk(5, "stream.ended", messageId="m"))
    with hub.subscribe("c") as reader:
        hub.publish("c", chunk(6))
        assert await read(reader, 6) == ([6], 0)


@pytest.mark.parametrize(
    "name", ["channel_chunks", "channel_bytes", "ended_bytes", "idle_channels"]
)
def test_limits_are_positive(name: str) -> None:
    """The error names the limit."""
    with pytest.raises(ConfigurationError, match=name):
        HubLimits(**{name: 0})


async def test_a_publisher_serves_a_run() -> None:
    """`StreamingConfig(publish=…)` takes a publisher."""
    hub = Hub()
    hub.publisher("c")(chunk(1))
    with pytest.raises(TypeError):
        hub.publish("c", {"event": "x", "data": {"y": object()}})
    hub.publish("c", chunk(2, text="two\nlines\u2028"))
    with hub.subscribe("c", "") as reader:
        assert reader.missed == "unknown"
    assert "\n" not in hub.publish("c", chunk(3, text="a\nb")).text


def reply(hub: Hub, message: str, *events: str) -> None:
    """Publish chunks of a reply in a thread of its own."""
    for event in events:
        facts = {"messageId": message, "threadId": message}
        hub.publish("c", chunk(0, event, **facts), answers=message)


async def test_a_new_reader_gets_no_end_of_a_reply_without_its_beginning() -> None:
    """A front end would take it for a part of the next reply in its thread."""
    hub = Hub()
    reply(hub, "ended", "run.started", "text.delta")
    reply(hub, "open", "run.started", "text.delta")
    reply(hub, "ended", "text.delta", "stream.ended")
    with hub.subscribe("c") as reader:
        reply(hub, "open", "text.delta")
        reply(hub, "next", "run.started")
        threads = [one.thread_id for one in (await reader.next()).entries]
    assert threads == ["open", "open", "open", "next"]


@pytest.mark.parametrize("taken", [0, 1, 3])
async def test_a_reader_that_was_cut_off_gets_the_open_replies_again(taken: int) -> None:
    """Wherever it was, and although it has ended since; nothing else comes twice."""
    hub = Hub()
    reply(hub, "before", "run.started")
    reply(hub, "open", "run.started", "text.delta")
    reply(hub, "before", "text.delta", "stream.ended")
    with hub.subscribe("c") as reader:
        reply(hub, "open", "text.delta")
        if taken:
            await reader.next(taken)
        place = reader.place
    reply(hub, "open", "text.delta", "stream.ended")
    with hub.subscribe("c", place) as reader:
        threads = [one.thread_id for one in (await reader.next()).entries]
    assert threads == ["open"] * 5


async def test_a_place_is_that_of_a_minute_ago() -> None:
    """What was sent later may have been lost with the connection; the rest is not told again."""
    times = [0.0]
    hub = Hub(clock=lambda: times[0])
    with hub.subscribe("c") as reader:
        for number, now in enumerate((0.0, 30.0, 55.0, 100.0), start=1):
            times[0] = now
            hub.publish("c", chunk(number))
            await read(reader, number)
        for now, told in ((100.0, [3, 4]), (116.0, [4]), (161.0, [])):
            times[0] = now
            with hub.subscribe("c", reader.place) as again:
                last = hub.publish("c", chunk(6)).number
                numbers, lost = await read(again, last)
            assert (numbers, lost) == ([*told, *range(5, last + 1)], 0)


def test_a_process_that_begins_is_sent_the_open_runs_and_none_that_has_ended() -> None:
    """One may wait for a person while many others begin and end."""
    hub = Hub()

    def publish(run: str, event: str) -> None:
        data = {"messageId": run, "threadId": "t"}
        hub.publish("user:ada", {"event": event, "data": data}, answers=run)

    publish("before", "run.started")
    publish("before", "stream.ended")
    publish("waits", "run.started")
    publish("short", "run.started")
    publish("waits", "hitl.requested")
    publish("short", "stream.ended")
    found = [json.loads(entry.text) for _, entry in hub.own_open_entries()]
    assert [(one["data"]["messageId"], one["event"]) for one in found] == [
        ("waits", "run.started"),
        ("waits", "hitl.requested"),
    ]
