"""All orders of what can happen to one message with one question, up to a length.

Run:
    python -m tests.server.small_states --depth 3 --store memory leased

An order is a word of letters: A answer (approve), D answer (deny), S stop, X all readers go away,
R a reader comes, T the message is sent again, G the tool at work comes to its end, K the process is
killed and another one starts. Each order is tried in three paces: settled after each letter; with
each request's answer waited for; all at once.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar
from unittest.mock import patch

import httpx
from starlette.requests import Request
from starlette.types import Message

from agentkit_py import Agent, MemoryHistory, Network, SqliteHistory, openai, tool
from agentkit_py._core.json import dumps
from agentkit_py.history.leases import ThreadLease
from agentkit_py.history.runs import RunRecord, RunWorker
from agentkit_py.models import RetryPolicy
from agentkit_py.routing import once
from agentkit_py.server import ServerLimits
from agentkit_py.server.formats import format_of
from agentkit_py.server.frontends import respond_to
from agentkit_py.stores._sql_session import Session
from agentkit_py.testing import FakeProvider, ReceivedRequest, text, tool_call
from tests.server.world import app_of, client_of, message

T = TypeVar("T")

LETTERS = "ADSXRTGK"
STREAMS = ("agentkit", "vercel", "ag-ui", "hook")
STORES = ("memory", "memory leased", "sqlite", "sqlite leased")
THREAD, MESSAGE, USER = "t1", "m1", "ada"
AG_UI: dict[str, Any] = {"threadId": THREAD, "runId": "r", "tools": [], "context": []}


class Mortal:
    """A store whose process can die: from then on it neither reads nor writes."""

    dead = False

    def die(self) -> None:
        """Do nothing any more."""
        self.dead = True

    async def _run(
        self, work: Callable[[Session], T], *, write: bool = False, repeatable: bool = True
    ) -> T:
        if self.dead:
            raise RuntimeError("the process is dead")
        parent: Any = super()
        return await parent._run(work, write=write, repeatable=repeatable)

    async def pass_time(self) -> None:
        """Let leases and signs of life of the processes before this one end."""
        store: Any = self
        await self._run(lambda session: session.execute("DELETE FROM {leases}"), write=True)
        past = datetime.now(UTC) - timedelta(seconds=1)

        def late(run: RunRecord) -> RunRecord | None:
            if run.worker is None:
                return None
            return replace(run, worker=RunWorker(name=run.worker.name, alive_until=past))

        await store.change_run(THREAD, MESSAGE, late)


class MortalMemory(Mortal, MemoryHistory):
    """A store in memory that outlives the process."""

    def share(self, other: MortalMemory) -> MortalMemory:
        """Hold what another one holds."""
        self._memory: Any = other._memory
        return self


class MortalSqlite(Mortal, SqliteHistory):
    """A store in a file."""


@dataclass
class Reader:
    """One connection: what it has read, and whether it has come to its end."""

    task: asyncio.Task[None]
    left: asyncio.Event
    pieces: list[bytes]
    is_hook: bool

    @property
    def has_begun(self) -> bool:
        """True once something was read."""
        return self.task.done() or any(self.pieces)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events so far."""
        lines = b"".join(self.pieces).decode().splitlines()
        datas = [line[6:] for line in lines if line.startswith("data: ")]
        return [json.loads(one) for one in datas if one != "[DONE]"]


async def turns(seconds: float = 0) -> None:
    """Let everything else have some turns."""
    for _ in range(10):
        await asyncio.sleep(seconds / 10)


def reply(request: ReceivedRequest) -> Any:
    """The model asks for a refund, and is done with its result."""
    last = request.body["messages"][-1]
    return text("done") if last["role"] == "tool" else tool_call("refund", {"amount": 5})


class World:
    """One message in one store, the processes that serve it, and its readers."""

    def __init__(self, store: str, stream: str, folder: str) -> None:
        self.kind = store
        self.stream = stream
        self.folder = folder
        self.first: Any = None
        self.store: Any = None
        self.app: Any = None
        self.readers: list[Reader] = []
        self.gates: list[asyncio.Event] = []
        self.held = True
        self.ours = asyncio.all_tasks()
        """Tasks of the test itself."""

        self.paid = 0
        self.approved = 0

    def start(self) -> None:
        """Start a process."""
        lease = ThreadLease() if self.kind.endswith("leased") else None
        if self.kind.startswith("sqlite"):
            self.store = MortalSqlite(f"{self.folder}/threads.db", lease=lease)
        else:
            self.store = MortalMemory(lease=lease)
            self.first = self.first or self.store
            self.store.share(self.first)

        @tool(needs_approval=True)
        async def refund(amount: int) -> str:
            """Pay money back."""
            self.paid += 1
            if self.held:
                gate = asyncio.Event()
                self.gates.append(gate)
                try:
                    await gate.wait()
                finally:
                    self.gates.remove(gate)
            return f"paid {amount}"

        model = openai("m", api_key="k", retry=RetryPolicy(attempts=1))
        model = replace(model, transport=FakeProvider(reply, strict=False).transport)
        clerk = Agent(name="clerk", system="S", tools=[refund], max_iter=5, model=model)
        network = Network(name="support", agents=[clerk], router=once(clerk), history=self.store)
        limits = ServerLimits(streams_per_user=1000, runs_per_user=100)
        app = self.app = app_of(network, limits=limits)

        async def ask(request: Request) -> Any:
            return await respond_to(format_of("agentkit"), app.state.api, request, USER)

        app.add_route("/ask", ask, ["POST"])
        app.state.api.backend.open()

    async def kill(self) -> None:
        """Kill the process, and start another one after a while."""
        self.store.die()
        await turns()  # what has just begun is cancelled in its work, not before it
        own = asyncio.current_task()
        lost = [one for one in asyncio.all_tasks() if one is not own and one not in self.ours]
        for _ in range(3):  # what tidies up may take some turns; it reaches nothing
            for one in lost:
                one.cancel()
            await turns()
            lost = [one for one in lost if not one.done()]
        self.gates.clear()
        self.readers.clear()
        if self.kind.startswith("sqlite"):
            await self.store.close()
        self.start()
        await self.store.pass_time()

    def read(self, path: str, body: Any = None) -> Reader:
        """Open a connection."""
        left, pieces = asyncio.Event(), list[bytes]()
        told = False

        async def receive() -> Message:
            nonlocal told
            if not told:
                told = True
                return {"type": "http.request", "body": dumps(body).encode(), "more_body": False}
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(piece: Message) -> None:
            pieces.append(piece.get("body", b""))
            await asyncio.sleep(0)

        headers = [(b"x-user", USER.encode()), (b"content-type", b"application/json")]
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET" if body is None else "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 80),
        }
        task: asyncio.Task[None] = asyncio.create_task(self.app(scope, receive, send))
        reader = Reader(task, left, pieces, path == "/api/stream")
        self.readers.append(reader)
        return reader

    def read_reply(self, stream: str) -> Reader:
        """Read the reply, and say nothing."""
        if stream == "hook":
            return self.read("/api/stream")
        if stream == "vercel":
            return self.read(f"/api/vercel/{THREAD}/stream")
        if stream == "ag-ui":
            return self.read("/api/ag-ui", {**AG_UI, "messages": []})
        return self.read("/ask", {"threadId": THREAD})

    async def say(self) -> None:
        """Send the message."""
        said = {"id": MESSAGE, "role": "user"}
        if self.stream == "hook":
            async with client_of(self.app) as client:
                await client.post("/api/chat", json=message("Pay", THREAD, id=MESSAGE))
        elif self.stream == "vercel":
            parts = [{"type": "text", "text": "Pay"}]
            body = {
                "id": THREAD,
                "trigger": "submit-message",
                "messages": [{**said, "parts": parts}],
            }
            self.read("/api/vercel", body)
        elif self.stream == "ag-ui":
            self.read("/api/ag-ui", {**AG_UI, "messages": [{**said, "content": "Pay"}]})
        else:
            self.read("/ask", message("Pay", THREAD, id=MESSAGE))

    async def answer(self, action: str) -> None:
        """Answer the last question, open or not."""
        asked = await self.store.list_questions(thread_id=THREAD, status=None, limit=None)
        if asked:
            async with client_of(self.app) as client:
                path = f"/api/approvals/{asked[-1].id}"
                answer = await client.post(path, json={"action": action})
            self.approved += action == "approve" and answer.status_code == 200

    async def stop(self) -> None:
        """Press stop."""
        async with client_of(self.app) as client:
            await client.post("/api/chat/cancel", json={"threadId": THREAD})

    async def leave(self) -> None:
        """Let all readers go away."""
        for one in self.readers:
            one.left.set()
        gone, self.readers = self.readers, []
        if gone:
            await asyncio.wait([one.task for one in gone])

    async def come(self) -> None:
        """Let a reader come."""
        self.read_reply(self.stream)

    async def release(self) -> None:
        """Let the tool at work come to its end."""
        for gate in self.gates:
            gate.set()

    def do(self, letter: str) -> Awaitable[None]:
        """Begin what a letter says."""
        acts: dict[str, Callable[[], Awaitable[None]]] = {
            "A": partial(self.answer, "approve"),
            "D": partial(self.answer, "deny"),
            "S": self.stop,
            "X": self.leave,
            "R": self.come,
            "T": self.say,
            "G": self.release,
            "K": self.kill,
        }
        return acts[letter]()

    async def look(self) -> str:
        """Read the thread as a page does; return the status of its reply."""
        async with client_of(self.app) as client:
            thread = (await client.get(f"/api/threads/{THREAD}")).json()
        return str(thread["reply"]["status"])

    @property
    def is_quiet(self) -> bool:
        """True if no run is at work, but for a tool that is held."""
        api = self.app.state.api
        at_work = api.backend.working(USER, THREAD)
        return not api.decisions.is_busy and (not at_work or bool(self.gates))

    async def settle(self) -> None:
        """Wait until nothing happens any more."""
        await turns()
        while not self.is_quiet or not all(one.has_begun for one in self.readers):
            await turns(0.001)

    async def rest(self) -> None:
        """Wait until nothing happens, and each stream has ended that has no reason to be open."""
        await self.settle()
        if self.gates:
            return
        for one in [one for one in self.readers if not one.is_hook]:
            await asyncio.wait([one.task])
        for one in [one for one in self.readers if one.is_hook]:
            while not await self._heard_whole(one):
                await turns(0.001)

    async def _heard_whole(self, reader: Reader) -> bool:
        """Return whether a page of the hook that heard of a run's start has heard of its end."""
        if reader.task.done():
            return True
        names = [
            one.get("event") for one in reader.events if "parentRunId" not in one.get("data", {})
        ]
        if names.count("run.started") <= names.count("stream.ended"):
            return True
        run = await self.store.load_run(THREAD, MESSAGE)
        return run is not None and run.status == "paused"


async def check(world: World) -> str:
    """Check what has to hold after every order; return the state in which it was found."""
    await world.rest()
    await world.look()
    await world.rest()
    run = await world.store.load_run(THREAD, MESSAGE)
    asked = await world.store.list_questions(thread_id=THREAD, limit=None)
    state = "none" if run is None else run.status
    if state == "paused":
        assert asked, "a paused run waits for no question"
    elif state == "running":
        assert world.gates, "a run is at work, and no process works on it"
    else:
        assert not asked or world.gates, f"a question of a run that is {state} is open"
    found = f"{state}, {len(asked)} open, {len(world.gates)} at work"
    world.held = False
    await world.release()
    await world.rest()
    assert world.paid <= world.approved, "more was paid than approved"
    ends = await how_it_ends(world)
    assert len(set(ends.values())) == 1, f"front ends do not agree: {ends}"
    await bring_to_its_end(world)
    return found


async def how_it_ends(world: World) -> dict[str, str]:
    """Return how each front end says that the reply ended, to a reader who comes now."""
    found: dict[str, str] = {}
    for stream in ("agentkit", "ag-ui", "vercel"):
        reader = world.read_reply(stream)
        await asyncio.wait([reader.task])
        last = reader.events[-1] if reader.events else {}
        found[stream] = _end_in(last)
    status = await world.look()
    found["hook"] = {"waiting": "asked"}.get(status, status)
    return found


def _end_in(last: dict[str, Any]) -> str:
    if last.get("event") == "reply.ended":
        return str(last["data"]["reason"])
    if last.get("type") in ("RUN_ERROR", "error"):
        return "failed"
    told: dict[str, Any] = last.get("outcome") or {}
    outcome = told.get("type") or last.get("finishReason")
    words = {"success": "completed", "stop": "completed", "cancelled": "stopped"}
    words |= {"interrupted": "stopped", "interrupt": "asked", "tool-calls": "asked"}
    return words.get(str(outcome), str(outcome))


async def bring_to_its_end(world: World) -> None:
    """Send the message again, approve what is asked, and check that it has one answer."""
    await world.say()
    await world.rest()
    await world.answer("approve")
    await world.rest()
    ends = await how_it_ends(world)
    assert set(ends.values()) == {"completed"}, f"it cannot be brought to its end: {ends}"
    assert world.paid <= world.approved, "more was paid than approved"
    rows = [str(one) for one in await world.store.load(THREAD)]
    assert rows.count("user: Pay") == 1, rows
    assert rows.count("clerk: done") == 1, rows


async def try_order(word: str, pace: str, store: str, stream: str, folder: str) -> str:
    """Let an order happen, and check what holds then."""
    world = World(store, stream, folder)
    world.start()
    if stream == "hook":
        world.read("/api/stream")
    await world.say()
    await world.settle()
    if pace == "at once":
        await asyncio.gather(*(world.do(letter) for letter in word))
    else:
        for letter in word:
            await world.do(letter)
            if pace == "settled":
                await world.settle()
    found = await check(world)
    await world.leave()
    if store.startswith("sqlite"):
        await world.store.close()
    return found


def orders(depth: int) -> Iterator[tuple[str, str]]:
    """Yield each order up to a length, with each pace that makes a difference."""
    for length in range(1, depth + 1):
        for letters in itertools.product(LETTERS, repeat=length):
            word = "".join(letters)
            yield word, "settled"
            if length > 1:
                yield word, "awaited"
            if length > 1 and "K" not in word:
                yield word, "at once"


@asynccontextmanager
async def quick_signs() -> AsyncGenerator[None]:
    """Let a process look for what others have done in milliseconds."""
    with (
        patch("agentkit_py.server.frontends._POLL_SECONDS", 0.005),
        patch("agentkit_py.server.local.PAUSE_TIME", timedelta(0)),
        patch("agentkit_py.server.upkeep.PAUSE_TIME", timedelta(0)),
    ):
        yield


def cases(
    depth: int, stores: Sequence[str], streams: Sequence[str], *, whole: bool = False
) -> Iterator[tuple[str, str, str, str]]:
    """Yield each order with a store and a stream, which take turns; with each, if ``whole``."""
    every = [*itertools.product(stores, streams)]
    for number, (word, pace) in enumerate(orders(depth)):
        for store, stream in every if whole else [every[number % len(every)]]:
            yield word, pace, store, stream


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def explore(
    depth: int, stores: list[str], streams: list[str], seconds: float, *, whole: bool
) -> int:
    """Try all orders; print those that break a rule; return their number."""
    logging.disable(logging.CRITICAL)
    states, broken, begun = Counter[str](), 0, time.monotonic()
    async with quick_signs():
        for word, pace, store, stream in cases(depth, stores, streams, whole=whole):
            with tempfile.TemporaryDirectory() as folder:
                try:
                    async with asyncio.timeout(seconds):
                        states[await try_order(word, pace, store, stream, folder)] += 1
                except (AssertionError, TimeoutError, httpx.HTTPError) as error:
                    broken += 1
                    say(f"{word} {pace}, {store}, {stream}: {error!r:.300}")
                own = asyncio.current_task()
                left = [one for one in asyncio.all_tasks() if one is not own]
                for one in left:
                    one.cancel()
                await asyncio.gather(*left, return_exceptions=True)
    took = time.monotonic() - begun
    say(f"{sum(states.values())} orders hold, {broken} do not; {took:.0f} s")
    for state, count in states.most_common():
        say(f"  {count:6} end: {state}")
    return broken


def main() -> int:
    """Explore as the options say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--depth", type=int, default=3, help="letters of an order (3)")
    parser.add_argument("--store", nargs="*", default=[*STORES], choices=STORES)
    parser.add_argument("--stream", nargs="*", default=[*STREAMS], choices=STREAMS)
    parser.add_argument("--seconds", type=float, default=30, help="until an order counts as stuck")
    parser.add_argument("--all", action="store_true", help="each order with each store and stream")
    given = parser.parse_args()
    options = given.depth, given.store, given.stream, given.seconds
    return asyncio.run(explore(*options, whole=given.all))


if __name__ == "__main__":
    sys.exit(bool(main()))
