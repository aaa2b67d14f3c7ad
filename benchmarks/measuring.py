"""How things are measured: contenders take turns, round by round, and every round gives a ratio.

A `Case` is one row: what is measured, in which unit, and its contenders. The first contender is
ours, the others are what it is compared with: a floor in plain Python today, other libraries later.
A machine that is busy for a moment slows all contenders of a round, so ratios are taken within
rounds and are steadier than times.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Effort:
    """How thoroughly to measure."""

    rounds: int
    """At the most."""

    seconds: float
    """How long one contender works in one round, roughly; longer if one operation takes longer."""

    budget: float
    """Seconds for one row, roughly; slow rows get fewer rounds."""

    least: int
    """Rounds that also a slow row gets."""

    sizes: tuple[int, ...]
    """How many messages processors get."""


MOST = 20_000
"""Operations in a round at the most."""

SIZES = (1_000, 10_000, 100_000)
THOROUGH = Effort(rounds=11, seconds=0.02, budget=1.0, least=3, sizes=SIZES)
QUICK = Effort(rounds=1, seconds=0.001, budget=0.05, least=1, sizes=SIZES[:2])


@dataclass(frozen=True, slots=True)
class Session:
    """What cases may use while they are measured; the stack is closed after each case."""

    effort: Effort
    loop: asyncio.Runner
    stack: ExitStack


class NotHere(Exception):  # noqa: N818 - no error: the row says why it is empty
    """A case cannot be measured on this machine; the text says why."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one contender needed per operation, in one round."""

    value: float
    cpu: float | None = None
    """The process's CPU seconds per operation, where time is what is measured."""

    prepared: float = 0.0
    """Seconds per operation that making its input took; they are in none of the others."""

    @property
    def own(self) -> float:
        """CPU time where there is one, else wall time or bytes."""
        return self.cpu or self.value


class Contender(Protocol):
    """One way of doing what a row is about."""

    @property
    def name(self) -> str:
        """What the table calls it."""
        ...

    def sample(self, count: int) -> Sample:
        """Do it ``count`` times."""
        ...

    def check(self) -> None:
        """Assert that everything done so far was what the row says."""
        ...


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


@dataclass(slots=True)
class Timed:
    """Times a function, sync or async, in seconds per call."""

    name: str
    do: Callable[[Any], Any]
    """Gets what `prepare` made for this call, or None."""

    loop: asyncio.Runner
    prepare: Callable[[], Any] | None = None
    """Makes the input of one call; this is not timed, so nothing that a call needs belongs here."""

    verify: Callable[[Any, int], None] | None = None
    """Gets what the last call returned, and how many calls there were altogether."""

    done: int = 0
    clock: Callable[[], tuple[float, float]] = _now
    """Seconds on the wall, and of the process's CPU."""

    _last: Any = field(default=None, init=False)

    def sample(self, count: int) -> Sample:
        """Call it once, and then ``count`` times with the clock running.

        Async calls are all made in one coroutine, which runs as long as a server would: what lives
        with it, worker threads for one, is there when the clock starts, as are caches.
        """
        make = self.prepare
        begun = time.perf_counter()
        inputs = [None if make is None else make() for _ in range(count + 1)]
        prepared = (time.perf_counter() - begun) / (count + 1)
        # What was there before is not looked at again: only what the calls make is collected.
        gc.collect()
        gc.freeze()
        if inspect.iscoroutinefunction(self.do):
            wall, cpu = self.loop.run(self._run_async(inputs))
        else:
            wall, cpu = self._run(inputs)
        gc.unfreeze()
        self.done += count + 1
        return Sample(wall / count, cpu / count, prepared)

    def check(self) -> None:
        """Assert that the calls did what the row says."""
        if self.verify is not None:
            self.verify(self._last, self.done)

    def _run(self, inputs: Sequence[Any]) -> tuple[float, float]:
        do, last = self.do, None
        first, *others = inputs
        do(first)
        start, cpu = self.clock()
        for item in others:
            last = do(item)
        end, used = self.clock()
        self._last = last
        return end - start, used - cpu

    async def _run_async(self, inputs: Sequence[Any]) -> tuple[float, float]:
        do, last = self.do, None
        first, *others = inputs
        await do(first)
        start, cpu = self.clock()
        for item in others:
            last = await do(item)
        end, used = self.clock()
        self._last = last
        return end - start, used - cpu


@dataclass(slots=True)
class Retained:
    """Memory that is still held after creation, in bytes per object."""

    name: str
    make: Callable[[], Any]

    def sample(self, count: int) -> Sample:
        """Make ``count`` and keep them."""
        self.make()  # what is made once for all
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
    """How long a statement of imports takes in a new process."""

    name: str
    statement: str

    def sample(self, count: int) -> Sample:
        """Run ``count`` processes."""
        found = [self._once() for _ in range(count)]
        return Sample(sum(w for w, _ in found) / count, sum(c for _, c in found) / count)

    def check(self) -> None:
        """Assert that they are imported; byte code is compiled then."""
        assert self._once()[0] > 0

    def _once(self) -> tuple[float, float]:
        script = (
            "import time; start, cpu = time.perf_counter(), time.process_time()\n"
            f"{self.statement}\n"
            "print(time.perf_counter() - start, time.process_time() - cpu)"
        )
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own command
        wall, cpu = done.stdout.split()
        return float(wall), float(cpu)


@dataclass(frozen=True, slots=True)
class Case:
    """One row."""

    name: str
    unit: str
    """What the figure counts, e.g. ``"µs"``; see `SCALES`."""

    make: Callable[[Session], Sequence[Contender]]
    """Sets everything up and gives the contenders, ours first."""

    fixed_count: int | None = None
    """Operations per round, where the time they take must not decide."""


SCALES = {"µs": 1e6, "ms": 1e3, "KiB": 1 / 1024}
"""By what a sample's seconds or bytes are multiplied for a unit."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Median, least and most of the rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Figure:
        """The figure of some values."""
        found = sorted(values)
        return cls(statistics.median(found), found[0], found[-1])


@dataclass(frozen=True, slots=True)
class Line:
    """One contender's figures."""

    name: str
    rounds: int
    value: Figure
    cpu: Figure | None
    ratio: Figure | None
    """Ours divided by this one, within each round; None for ours."""

    cpu_ratio: Figure | None
    """The same for CPU time, which a busy machine disturbs less."""


@dataclass(frozen=True, slots=True)
class Row:
    """A case with its figures, or with the reason why there are none."""

    case: Case
    lines: tuple[Line, ...] = ()
    missing: str = ""
    failed: bool = False
    """Whether what was done was not what the row says."""


def measure(case: Case, session: Session) -> Row:
    """Measure one case."""
    try:
        contenders = case.make(session)
    except NotHere as reason:
        return Row(case, missing=str(reason))
    counts = [calibrate(one, case.fixed_count, session.effort) for one in contenders]
    samples: list[list[Sample]] = [[] for _ in contenders]
    start = time.perf_counter()
    for number in range(session.effort.rounds):
        order = range(len(contenders))
        for index in order if number % 2 == 0 else reversed(order):
            samples[index].append(contenders[index].sample(counts[index]))
        spent = time.perf_counter() - start
        if number + 1 >= session.effort.least and spent > session.effort.budget:
            break
    for one in contenders:
        one.check()
    return Row(case, tuple(_line(case, one, samples, i) for i, one in enumerate(contenders)))


def calibrate(contender: Contender, fixed_count: int | None, effort: Effort) -> int:
    """Warm up, check that it does what it should, and find how often to do it in a round.

    By CPU time where there is one: on a busy machine wall time would make rounds so short that
    cold caches are measured.
    """
    found = contender.sample(1)
    contender.check()
    if fixed_count is not None:
        return fixed_count
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
    """How many operations a round may have, so that preparing them does not take all the time."""
    return max(1, round(min(MOST, effort.budget / 10 / max(found.prepared, 1e-7))))


def _line(
    case: Case, contender: Contender, samples: Sequence[Sequence[Sample]], index: int
) -> Line:
    scale = SCALES[case.unit]
    ours, own = samples[0], samples[index]
    cpu = [one.cpu * scale for one in own if one.cpu is not None]
    ratios = [a.value / b.value for a, b in zip(ours, own, strict=True) if b.value > 0]
    cpu_ratios = [a.cpu / b.cpu for a, b in zip(ours, own, strict=True) if a.cpu and b.cpu]
    return Line(
        name=contender.name,
        rounds=len(own),
        value=Figure.of(one.value * scale for one in own),
        cpu=Figure.of(cpu) if cpu else None,
        ratio=Figure.of(ratios) if index and ratios else None,
        cpu_ratio=Figure.of(cpu_ratios) if index and cpu_ratios else None,
    )
