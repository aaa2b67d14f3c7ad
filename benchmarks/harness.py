"""Measure contenders that do the same work, each in a process of its own.

A `Framework` says how one library makes and runs an agent; the works that all contenders do are
here. Runs inside the environment of one framework, so it imports only the standard library.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tracemalloc
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence, Sized
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from problem import ANSWER, call_reply, called, text_reply, track_async, track_sync

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / ".cache" / "peers" / "data"
WINDOW = 40
"""Messages of a stored thread that the model sees."""

AT_ONCE = 1_000
MODEL_SECONDS = 0.05
"""Time the model takes in the row of a thousand concurrent runs."""

MANY = 10_000
"""Messages that history filters get."""

MOST_OPERATIONS = 20_000
"""Operations in one round at most."""


@dataclass(frozen=True, slots=True)
class Effort:
    """The length of a measurement."""

    rounds: int
    seconds: float
    """Length of one contender's part of a round, roughly."""

    budget: float
    """Seconds for one row, roughly; slow rows get fewer rounds."""

    least: int
    """Rounds that a slow row gets all the same."""


THOROUGH = Effort(rounds=15, seconds=0.03, budget=20.0, least=3)
QUICK = Effort(rounds=3, seconds=0.01, budget=2.0, least=1)


@dataclass(frozen=True, slots=True)
class Session:
    """The event loop and the resources of one row; the stack is closed after it."""

    loop: asyncio.Runner
    stack: ExitStack


class NotHere(Exception):  # noqa: N818 - no error: the row says why it is empty
    """A row cannot be measured on this machine; the text says why."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Cost of one operation in one round."""

    value: float
    """Wall seconds, or bytes."""

    cpu: float | None = None
    prepared: float = 0.0
    """Seconds that making its input took; not part of the others."""

    @property
    def own(self) -> float:
        """CPU time where it is known, else wall time or bytes."""
        return self.cpu or self.value


class Contender(Protocol):
    """One way of doing a row's work."""

    def sample(self, count: int) -> Sample:
        """Do it ``count`` times."""
        ...

    def check(self) -> None:
        """Assert that everything done so far was what the row says."""
        ...


@dataclass(slots=True)
class Timed:
    """Time a function, sync or async, per call."""

    do: Callable[[Any], Any]
    """Takes what `prepare` made for this call, or None."""

    loop: asyncio.Runner
    prepare: Callable[[], Any] | None = None
    verify: Callable[[Any, int], None] | None = None
    """Takes the last call's result and the number of calls altogether."""

    done: int = 0
    _last: Any = field(default=None, init=False)

    def sample(self, count: int) -> Sample:
        """Call it once untimed, then ``count`` times with the clock running.

        The calls follow one another in one coroutine, as in a server that has been running for a
        while: worker threads and caches are there when the clock starts.
        """
        began = time.perf_counter()
        inputs = [self.prepare() if self.prepare else None for _ in range(count + 1)]
        prepared = (time.perf_counter() - began) / (count + 1)
        gc.collect()
        gc.freeze()  # only garbage of the calls themselves is collected
        wall, cpu = self.loop.run(self._run(inputs))
        gc.unfreeze()
        self.done += count + 1
        return Sample(wall / count, cpu / count, prepared)

    def check(self) -> None:
        """Assert that the calls did the work."""
        if self.verify is not None:
            self.verify(self._last, self.done)

    async def _run(self, inputs: Sequence[Any]) -> tuple[float, float]:
        do, waits, last = self.do, inspect.iscoroutinefunction(self.do), None
        _ = await do(inputs[0]) if waits else do(inputs[0])
        start, cpu = time.perf_counter(), time.process_time()
        for item in inputs[1:]:
            last = await do(item) if waits else do(item)
        end, used = time.perf_counter(), time.process_time()
        self._last = last
        return end - start, used - cpu


@dataclass(slots=True)
class Retained:
    """Bytes that stay allocated for each object."""

    make: Callable[[], Any]

    def sample(self, count: int) -> Sample:
        """Make ``count`` and keep them."""
        self.make()  # made once for all
        gc.collect()
        tracemalloc.start()
        kept: list[Any] = [None] * count
        before = tracemalloc.get_traced_memory()[0]
        for index in range(count):
            kept[index] = self.make()
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert len({id(item) for item in kept}) == count
        return Sample(used / count)

    def check(self) -> None:
        """Counted in `sample`."""


@dataclass(frozen=True, slots=True)
class Imported:
    """Time of an import statement in a new process."""

    statement: str

    def sample(self, count: int) -> Sample:
        """Run ``count`` processes."""
        script = (
            "import time; start, cpu = time.perf_counter(), time.process_time()\n"
            f"{self.statement}\n"
            "print(time.perf_counter() - start, time.process_time() - cpu)"
        )
        outputs = [_output(sys.executable, "-c", script) for _ in range(count)]
        pairs = [tuple(map(float, text.split())) for text in outputs]
        return Sample(sum(p[0] for p in pairs) / count, sum(p[1] for p in pairs) / count)

    def check(self) -> None:
        """The process fails where the import does."""


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own command
    return done.stdout


def calibrate(contender: Contender, fixed: int | None, effort: Effort) -> int:
    """Warm up, check the work, and return how often to do it in a round."""
    found = contender.sample(1)
    contender.check()
    if fixed is not None:
        return fixed
    if found.value > 10 * effort.seconds:
        return 1
    count, most = 1, _most(found, effort)
    end = time.perf_counter() + effort.budget / 5
    while count * found.own < effort.seconds / 4 and count < most and time.perf_counter() < end:
        count = min(4 * count, most)
        found = contender.sample(count)
        most = _most(found, effort)
    return max(1, min(most, round(effort.seconds / max(found.own, 1e-7))))


def _most(found: Sample, effort: Effort) -> int:
    """Operations in a round at most, so that preparing inputs does not take all the time."""
    return max(1, round(min(MOST_OPERATIONS, effort.budget / 10 / max(found.prepared, 1e-7))))


# ------------------------------------------------------------------------- frameworks


class Steps:
    """A model's script: so many tool calls, then the answer, then again."""

    def __init__(self, calls: int = 0, *, seconds: float = 0.0) -> None:
        self.calls = calls
        self.seconds = seconds
        self.asked = 0
        self.sizes: set[int] = set()
        """Message counts of the requests: equal runs have equal ones."""

    def next(self) -> int | None:
        """Return the number of the tool call to make, None for the answer."""
        step = self.asked % (self.calls + 1)
        self.asked += 1
        return step if step < self.calls else None

    async def later(self, messages: Sized) -> int | None:
        """Return the same after the model's time."""
        self.sizes.add(len(messages))
        if self.seconds:
            await asyncio.sleep(self.seconds)
        return self.next()


def scripted(steps: Steps) -> Callable[[dict[str, Any]], Awaitable[Any]]:
    """Return what answers request bodies in OpenAI's format as ``steps`` say."""
    calls = [call_reply(number) for number in range(steps.calls)]
    last = text_reply()

    async def respond(body: dict[str, Any]) -> Any:
        number = await steps.later(body["messages"])
        return last if number is None else calls[number]

    return respond


def arguments(number: int) -> dict[str, Any]:
    """Return the arguments of the tool call."""
    return {"parcel": number, "detailed": False}


Conversation: TypeAlias = Callable[[], Awaitable[Any]]
"""Begin a conversation without a past, ask the question, return the result."""


class Framework(ABC):
    """One framework, used as its documentation says."""

    packages: tuple[str, ...]
    """Distributions whose versions the page names."""

    statement: str
    """Imports of a program with one agent and one tool, without a provider's client."""

    notes: tuple[str, ...] = ()
    absent: dict[str, str] = {}  # noqa: RUF012 - overwritten as a whole
    """Works that are left out, with the reason."""

    @abstractmethod
    def tool(self, function: Callable[..., Any]) -> Any:
        """Make the tool ``track``."""

    @abstractmethod
    def model(self, steps: Steps) -> Any:
        """Make a model that follows ``steps``; agents share it, as they share a client."""

    @abstractmethod
    def agent(self, model: Any, tools: list[Any]) -> Any:
        """Make an agent."""

    @abstractmethod
    async def run(self, agent: Any) -> Any:
        """Ask it the question."""

    @abstractmethod
    def answer(self, result: Any) -> str:
        """Return its final text."""

    @property
    def data(self) -> str:
        """Name of its stored threads, with the version that wrote them."""
        return f"{self.packages[0]}@{version(self.packages[0])}"

    def extra(self) -> dict[str, Callable[[Session], Contender]]:
        """Works beyond runs that this framework has something for."""
        return {}

    def conversations(self, model: Any, tools: list[Any]) -> Conversation:
        """Return what begins a new conversation and asks; all of it is timed."""
        return partial(self.run, self.agent(model, tools))

    def conversations_at_once(self, model: Any) -> Conversation:
        """Return the same for many at once."""
        return self.conversations(model, [])

    def works(self) -> dict[str, Callable[[Session], Contender]]:
        """Return all works of this framework by key."""
        found: dict[str, Callable[[Session], Contender]] = {
            "import": lambda _: Imported(self.statement),
            "create": self._create,
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

        return Timed(lambda _: self.agent(model, tools), session.loop, verify=verify)

    def _memory(self, _: Session) -> Contender:
        model, tools = self.model(Steps()), [self.tool(track_async)]
        return Retained(lambda: self.agent(model, tools))

    def _runs(self, calls: int, function: Callable[..., Any] | None, session: Session) -> Contender:
        steps = Steps(calls)
        tools = [self.tool(function)] if function is not None else []
        ask = self.conversations(self.model(steps), tools)
        return Timed(ignoring_input(ask), session.loop, verify=checked(steps, self.answer))

    def _concurrent(self, session: Session) -> Contender:
        steps = Steps(seconds=MODEL_SECONDS)
        ask = self.conversations_at_once(self.model(steps))

        async def do(_: object) -> list[Any]:
            return await asyncio.gather(*(ask() for _ in range(AT_ONCE)))

        def verify(results: list[Any], done: int) -> None:
            assert [self.answer(result) for result in results] == [ANSWER] * AT_ONCE
            assert steps.asked == done * AT_ONCE
            assert len(steps.sizes) == 1, steps.sizes

        return Timed(do, session.loop, verify=verify)


def checked(
    steps: Steps, answer: Callable[[Any], str], asked: int | None = None, *, anew: bool = True
) -> Callable[[Any, int], None]:
    """Return a check that each run was answered and asked the model and tools as often.

    Args:
        steps: The model's script.
        answer: Reads a result's text.
        asked: Model calls a run, if not one for each tool call and the answer.
        anew: Assert that each run began without a past.
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
    return Timed(ignoring_input(ask), session.loop, verify=checked(steps, answer, 2))


def ignoring_input(ask: Conversation) -> Callable[[object], Awaitable[Any]]:
    """Return ``ask`` in the form that `Timed` calls."""

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
    """A work whose result has an expected size."""

    def verify(left: Any, _: int) -> None:
        assert size(left) in expected, size(left)

    return Timed(do, session.loop, prepare=prepare, verify=verify)


async def stored(session: Session, name: str, build: Callable[[Path], Awaitable[None]]) -> Path:
    """Return a private copy of a folder that ``build`` wrote once; long threads take minutes."""
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


def source_digest(*folders: Path) -> str:
    """Return eight letters that change with the source in these folders."""
    text = b"".join(file.read_bytes() for one in folders for file in sorted(one.glob("*.py")))
    return hashlib.sha256(text).hexdigest()[:8]


def threads(
    name: str,
    sizes: tuple[int, ...],
    build: Callable[[Path, int], Awaitable[None]],
    contender: Callable[[Session, Path], Contender],
) -> dict[str, Callable[[Session], Contender]]:
    """Works that run on a stored thread of each of these lengths."""

    def make(size: int, session: Session) -> Contender:
        folder = session.loop.run(stored(session, f"{name}-{size}", lambda path: build(path, size)))
        return contender(session, folder)

    return {f"thread_{size}": partial(make, size) for size in sizes}


def adds_to(
    session: Session,
    steps: Steps,
    run: Conversation,
    answer: Callable[[Any], str],
    shown: Callable[[], int],
) -> Contender:
    """A run that continues a stored thread; ``shown`` counts the messages the model was given."""
    verify_run = checked(steps, answer, anew=False)

    def verify(last: Any, done: int) -> None:
        verify_run(last, done)
        assert WINDOW // 2 <= shown() <= 2 * WINDOW, shown()

    return Timed(ignoring_input(run), session.loop, verify=verify)
