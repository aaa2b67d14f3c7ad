"""The time that each entry takes for grown inputs of many shapes: linear, and off the loop.

As a program it prints the whole table: ``make attacks``.
"""

# ruff: noqa: RUF001, T201 - characters that look like others; a program that prints figures

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.attacks.entries import ENTRIES

SIZES = (2**10, 2**14, 2**16, 2**18, 2**20)
SMALL, LARGE = 2**16, 2**20
SLOPE = 1.2
"""Linear is 1, quadratic 2; the rest is for caches and a busy machine."""

LOOP_SECONDS = 1.0
"""Processor time that one input of a mebibyte may hold the loop's thread without a pause.

A machine that takes longer than ``REFERENCE_SECONDS`` for ``reference`` has as much more.
"""

REFERENCE_SECONDS = 0.005

TICK = 0.005
"""Seconds between two looks at the time of the loop's thread."""

LEAST = 0.02
"""Seconds; what takes less does not grow in a way that could be measured."""

ROUNDS = 5

SHAPES: Mapping[str, str] = {
    "letters": "a",
    "capitals": "A",
    "words": "lorem ipsum dolor ",
    "long words": "a" * 997 + " ",
    "sentences": "This is one. ",
    "digits": "7",
    "hex": "0f3a",
    "numbers": "1234 ",
    "cards": "4111 1111 1111 1111a ",
    "phones": "+12345678901234567890a ",
    "account numbers": "de89 3704 0044 ",
    "addresses": "ada@example.com ",
    "addresses cut off": "ada@example ",
    "letters with at signs": "a@",
    "at signs": "@",
    "dots": ".",
    "spaced letters": "a b ",
    "spaces": " ",
    "tabs": "\t",
    "line feeds": "\n",
    "paragraphs": "words here\n\n",
    "carriage returns": "\r",
    "quotes": '"',
    "backslashes": "\\",
    "escaped quotes": '\\"',
    "open braces": "{",
    "open brackets": "[",
    "objects": '{"a":',
    "pairs": '{"a":[1,2]},',
    "tags": "<a>",
    "open tags": "<",
    "Markdown": "# T\n\n- *a* `b` [c](d)\n\n| x | y |\n|---|---|\n",
    "fences": "```",
    "stars": "*",
    "dashes": "-",
    "escapes": "\x1b[31m",
    "zero width": "a\u200b",
    "full width": "４１",
    "Chinese": "中文。",
    "emoji": "👩‍👧",
    "combining": "e\u0301",
    "surrogates": "a\ud800",
    "nulls": "\x00",
    "mentions": "@a ",
}


def grown(shape: str, size: int) -> str:
    """Return a text of so many characters."""
    piece = SHAPES[shape]
    return (piece * (size // len(piece) + 1))[:size]


@dataclass(slots=True)
class Measured:
    """The best times of one entry for one shape, by size."""

    entry: str
    shape: str
    used: dict[int, float] = field(default_factory=dict[int, float])
    """Seconds of the process: of the loop's thread and of workers."""

    loop: dict[int, float] = field(default_factory=dict[int, float])
    """The longest time, in seconds of the loop's thread, in which it did nothing else."""

    pace: float = 1.0
    """Times as long as a quiet machine takes for the same work."""

    @property
    def slope(self) -> float:
        """The power of the size that time grows with between 64 kB and 1 MB."""
        small, large = (max(self.used[size], LEAST) for size in (SMALL, LARGE))
        return math.log(large / small) / math.log(LARGE / SMALL)

    @property
    def fits(self) -> bool:
        """True if time grows with the size, and the loop is free enough."""
        return self.slope <= SLOPE and self.loop_is_free

    @property
    def loop_is_free(self) -> bool:
        """True if the loop's thread was held no longer than the bound, at this machine's pace."""
        return max(self.loop.values()) <= LOOP_SECONDS * self.pace


class Watch:
    """Looks at the time of the loop's thread again and again."""

    def __init__(self) -> None:
        self._last = time.thread_time()
        self._longest = 0.0
        self._next = asyncio.get_running_loop().call_later(TICK, self._look)

    def _look(self) -> None:
        self._note()
        self._next = asyncio.get_running_loop().call_later(TICK, self._look)

    def _note(self) -> None:
        now = time.thread_time()
        self._longest, self._last = max(self._longest, now - self._last), now

    def end(self) -> float:
        """Return the longest time between two looks."""
        self._next.cancel()
        self._note()
        return self._longest


def reference() -> float:
    """Return the seconds that this thread takes now for some fixed work of the interpreter."""
    started = time.thread_time()
    letters = 0
    for number in range(50_000):
        letters += len(str(number))
    return time.thread_time() - started


@contextmanager
def untraced() -> Generator[None]:
    """Measure the work, not the coverage of its lines, which takes several times as long."""
    tracer = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(tracer)


async def measure(
    entry: str, shape: str, sizes: Iterable[int] = (SMALL, LARGE), rounds: int = ROUNDS
) -> Measured:
    """Return the best times; a further round only where the best do not fit yet."""
    work = ENTRIES[entry]
    found = Measured(entry, shape)
    texts = {size: grown(shape, size) for size in sizes}
    for _ in range(rounds):
        for size, text in texts.items():
            watch = Watch()
            process = time.process_time()
            with untraced():
                await work(text)
                used, held = time.process_time() - process, watch.end()
                found.pace = max(found.pace, reference() / REFERENCE_SECONDS)
            found.used[size] = min(used, found.used.get(size, math.inf))
            found.loop[size] = min(held, found.loop.get(size, math.inf))
        if found.fits:
            break
    return found


async def warm_up(entries: Iterable[str]) -> None:
    """Load what is loaded on first use."""
    for entry in entries:
        await ENTRIES[entry]("warm up")


def _line(measured: Measured) -> str:
    used = "".join(f"{1000 * measured.used[size]:>9.1f}" for size in SIZES)
    end = f"{1000 * measured.loop[LARGE]:>9.1f}{measured.slope:>7.2f}"
    return f"{measured.entry:36}{measured.shape:24}{used}{end}{'' if measured.fits else '  FAILED'}"


async def _run(entries: list[str], shapes: list[str], *, as_json: bool) -> int:
    await warm_up(entries)
    kilobytes = "".join(f"{size // 1024:>6} kB" for size in SIZES)
    if not as_json:
        print(f"{'ms of the processor':60}{kilobytes}{'loop':>9}{'slope':>7}")
    failed = 0
    for entry in entries:
        for shape in shapes:
            measured = await measure(entry, shape, SIZES)
            failed += not measured.fits
            if as_json:
                facts = {"entry": entry, "shape": shape, "slope": round(measured.slope, 3)}
                print(json.dumps({**facts, "used": measured.used, "loop": measured.loop}))
            else:
                print(_line(measured), flush=True)
    print(f"{len(entries)} entries, {len(shapes)} shapes, {failed} failed", file=sys.stderr)
    return failed


def main() -> None:
    """Print the table; exit with 1 where something does not fit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entry", action="append", choices=list(ENTRIES))
    parser.add_argument("--shape", action="append", choices=list(SHAPES))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    work = _run(given.entry or list(ENTRIES), given.shape or list(SHAPES), as_json=given.json)
    sys.exit(bool(asyncio.run(work)))


if __name__ == "__main__":
    main()
