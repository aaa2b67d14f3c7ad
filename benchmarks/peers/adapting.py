"""What all adapters share: a framework says how it makes and runs an agent, the rest is here.

Runs inside the environment of one framework, so it imports nothing but the standard library.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sized
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from measuring import Contender, Imported, NotHere, Retained, Sample, Session, Timed
from problem import ANSWER, called, track_async, track_sync

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / ".cache" / "peers" / "data"
WINDOW = 40
"""How many messages of a stored thread the model is to see."""

AT_ONCE = 1_000
SLEEP = 0.05
"""Seconds that the model takes where a thousand runs go on at once."""

NETWORKS = 10_000
AGENTS_EACH = 5
MANY = 10_000
"""Messages that history filters get."""

LIMIT = 2_000
"""Tokens that a token limiter leaves."""


class Steps:
    """What a model does next: so many tool calls, then the answer, and from the beginning."""

    def __init__(self, calls: int = 0, *, seconds: float = 0.0) -> None:
        self.calls = calls
        self.seconds = seconds
        self.asked = 0
        self.sizes: set[int] = set()
        """How many messages the model got: runs of the same conversation differ in nothing."""

    def next(self) -> int | None:
        """The number of the tool call that the model makes, None for the answer."""
        step = self.asked % (self.calls + 1)
        self.asked += 1
        return step if step < self.calls else None

    async def later(self, messages: Sized) -> int | None:
        """The same, after the time that the model takes; at once if it takes none."""
        self.sizes.add(len(messages))
        if self.seconds:
            await asyncio.sleep(self.seconds)
        return self.next()


def arguments(number: int) -> dict[str, Any]:
    """What the model calls the tool with."""
    return {"parcel": number, "detailed": False}


Conversation: TypeAlias = Callable[[], Awaitable[Any]]
"""Begins a conversation without a past, asks the question, and gives the result."""


class Framework(ABC):
    """One framework, run as its documentation says."""

    packages: tuple[str, ...]
    """The distributions whose versions the page names."""

    statement: str
    """What a program with one agent and one tool imports, without a provider's client."""

    notes: tuple[str, ...] = ()
    """Which documented options are set and why, for the page."""

    absent: dict[str, str] = {}  # noqa: RUF012 - overwritten as a whole
    """Why a work is left out, for the page."""

    @abstractmethod
    def tool(self, function: Callable[..., Any]) -> Any:
        """The tool ``track``, made once."""

    @abstractmethod
    def model(self, steps: Steps) -> Any:
        """A new model that does ``steps``; agents share it, as they share a provider's client."""

    @abstractmethod
    def agent(self, model: Any, tools: list[Any]) -> Any:
        """A new agent."""

    @abstractmethod
    async def run(self, agent: Any) -> Any:
        """Ask it the question."""

    @abstractmethod
    def answer(self, result: Any) -> str:
        """What it said in the end."""

    @property
    def data(self) -> str:
        """What its stored threads are called: other versions may store them in another way."""
        return f"{self.packages[0]}@{version(self.packages[0])}"

    def extra(self) -> dict[str, Callable[[Session], Contender]]:
        """Works that only some frameworks have something for."""
        return {}

    def conversations(self, model: Any, tools: list[Any]) -> Conversation:
        """What begins a new conversation and asks the question, again and again; all is timed."""
        return partial(self.run, self.agent(model, tools))

    def conversations_at_once(self, model: Any) -> Conversation:
        """The same where many go on at once."""
        return self.conversations(model, [])

    async def first(self, model: Any, tools: list[Any]) -> Any:
        """A new agent's first run, all of it."""
        return await self.run(self.agent(model, tools))

    def works(self) -> dict[str, Callable[[Session], Contender]]:
        """All works that this framework does."""
        found: dict[str, Callable[[Session], Contender]] = {
            "import": lambda _: Imported("import", self.statement),
            "create": self._create,
            "first_run": self._first_run,
            "memory": self._memory,
            "text": partial(self._runs, 0, None),
            "tool1_async": partial(self._runs, 1, track_async),
            "tool1_sync": partial(self._runs, 1, track_sync),
            "tool10_async": partial(self._runs, 10, track_async),
            "tool10_sync": partial(self._runs, 10, track_sync),
            "concurrent": self._concurrent,
            **self.extra(),
        }
        return {key: make for key, make in found.items() if key not in self.absent}

    def _create(self, session: Session) -> Contender:
        model, tools = self.model(Steps()), [self.tool(track_async)]

        def verify(agent: Any, _: int) -> None:
            assert agent is not None

        return Timed("create", lambda _: self.agent(model, tools), session.loop, verify=verify)

    def _first_run(self, session: Session) -> Contender:
        """What lazy frameworks put off: a new agent, offered its tool, answers with a text."""
        steps, tools = Steps(), [self.tool(track_async)]
        model = self.model(steps)

        async def do(_: object) -> Any:
            return await self.first(model, tools)

        return Timed("first run", do, session.loop, verify=checked(steps, self.answer))

    def _memory(self, _: Session) -> Contender:
        model, tools = self.model(Steps()), [self.tool(track_async)]
        return Retained("memory", lambda: self.agent(model, tools))

    def _runs(self, calls: int, function: Callable[..., Any] | None, session: Session) -> Contender:
        steps = Steps(calls)
        tools = [self.tool(function)] if function is not None else []
        ask = self.conversations(self.model(steps), tools)
        return Timed("run", awaited(ask), session.loop, verify=checked(steps, self.answer))

    def _concurrent(self, session: Session) -> Contender:
        steps = Steps(seconds=SLEEP)
        ask = self.conversations_at_once(self.model(steps))

        async def do(_: object) -> list[Any]:
            return await asyncio.gather(*(ask() for _ in range(AT_ONCE)))

        def verify(results: list[Any], done: int) -> None:
            assert all(self.answer(result) == ANSWER for result in results)
            assert len(results) == AT_ONCE
            assert steps.asked == done * AT_ONCE
            assert len(steps.sizes) == 1, steps.sizes

        return Timed("at once", do, session.loop, verify=verify)


def checked(
    steps: Steps, answer: Callable[[Any], str], asked: int | None = None, *, anew: bool = True
) -> Callable[[Any, int], None]:
    """What asserts that each run was answered, asked the model and called its tools as often.

    ``anew``: that each began without a past, too.
    """
    before = called[0]
    per_run = steps.calls + 1 if asked is None else asked

    def verify(last: Any, done: int) -> None:
        assert answer(last) == ANSWER, answer(last)
        assert steps.asked == done * per_run, (steps.asked, done)
        assert not anew or len(steps.sizes) <= per_run, steps.sizes
        assert called[0] - before == done * steps.calls, (called[0] - before, done)

    return verify


def pair(
    session: Session, steps: Steps, ask: Conversation, answer: Callable[[Any], str]
) -> Contender:
    """Two agents, one after the other, in a conversation of their own."""
    return Timed("two agents", awaited(ask), session.loop, verify=checked(steps, answer, 2))


def awaited(ask: Conversation) -> Callable[[object], Awaitable[Any]]:
    """The same as `Timed` calls it."""

    async def do(_: object) -> Any:
        return await ask()

    return do


def counted(
    session: Session,
    do: Callable[[Any], Any],
    size: Callable[[Any], int],
    expected: range,
    prepare: Callable[[], Any] | None = None,
) -> Contender:
    """Something that leaves some of many messages."""

    def verify(left: Any, _: int) -> None:
        assert size(left) in expected, size(left)

    return Timed("filter", do, session.loop, prepare=prepare, verify=verify)


TURNS_BEFORE = 600
"""By then an SQLite file's journal has the size it keeps (1,000 pages), as it has where a store is
in use. Until then each save makes a file longer, which takes the disk longer; and the longer, the
fewer pages are written: plain inserts would have been measured so, and stores not."""


def saved_before(session: Session, do: Callable[[Any], Any], make: Callable[[], Any]) -> None:
    """Take these turns; they are not timed."""

    async def turns() -> None:
        for _ in range(TURNS_BEFORE):
            done = do(make())
            if asyncio.iscoroutine(done):
                await done

    session.loop.run(turns())


# ------------------------------------------------------------------------------- stored threads


async def stored(session: Session, name: str, build: Callable[[Path], Awaitable[None]]) -> Path:
    """A folder of its own with what ``build`` once wrote; kept, as long threads take minutes."""
    kept = DATA / name
    if not kept.exists():
        who, _, rest = name.partition("@")
        for outdated in DATA.glob(f"{who}@*-{rest.rpartition('-')[2]}"):
            shutil.rmtree(outdated)
        fresh = kept.with_name(f"{kept.name}.{os.getpid()}")
        fresh.mkdir(parents=True)
        await build(fresh)
        fresh.rename(kept)
    folder = session.stack.enter_context(tempfile.TemporaryDirectory(prefix="agentkit-bench-"))
    shutil.copytree(kept, folder, dirs_exist_ok=True)
    return Path(folder)


def fingerprint(*folders: Path) -> str:
    """Eight letters that change with the source in these folders."""
    text = b"".join(file.read_bytes() for one in folders for file in sorted(one.glob("*.py")))
    return hashlib.sha256(text).hexdigest()[:8]


# ------------------------------------------------------------------------------- memory


@dataclass(frozen=True, slots=True)
class Idle:
    """The most memory of a new process that makes many networks and keeps them."""

    adapter: str
    name: str = "idle networks"

    def sample(self, count: int) -> Sample:
        """Run ``count`` processes, in bytes."""
        command = [sys.executable, str(HERE / "worker.py"), self.adapter, "--idle"]
        found: list[int] = []
        for _ in range(count):
            done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own command
            found.append(int(done.stdout.split()[-1]))
        return Sample(sum(found) / count)

    def check(self) -> None:
        """The process asserts that it made them."""


def idle(make: Callable[[], Any] | None) -> int:
    """Make them, and say by how many bytes this process grew at the most."""
    if make is None:
        raise NotHere("it has no networks")
    kept = [make()]
    before = _peak()
    kept += [make() for _ in range(NETWORKS - 1)]
    assert len({id(one) for one in kept}) == NETWORKS
    return _peak() - before


def _peak() -> int:
    """The most bytes so far. Linux's rusage would count those of the process that started this."""
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def threads(
    name: str,
    sizes: tuple[int, ...],
    build: Callable[[Path, int], Awaitable[None]],
    contender: Callable[[Session, Path], Contender],
) -> dict[str, Callable[[Session], Contender]]:
    """A run on a stored thread, for each of these lengths."""

    def make(size: int, session: Session) -> Contender:
        folder = session.loop.run(stored(session, f"{name}-{size}", lambda path: build(path, size)))
        return contender(session, folder)

    return {f"thread_{size}": partial(make, size) for size in sizes}


def adds_to(
    session: Session,
    steps: Steps,
    run: Conversation,
    answer: Callable[[Any], str],
    seen: Callable[[], int],
) -> Contender:
    """A run that goes on with a stored thread; ``seen``: how many messages the model was given."""
    verify_run = checked(steps, answer, anew=False)

    def verify(last: Any, done: int) -> None:
        verify_run(last, done)
        assert WINDOW // 2 <= seen() <= 2 * WINDOW, seen()

    return Timed("stored thread", awaited(run), session.loop, verify=verify)
