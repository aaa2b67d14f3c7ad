"""The threads in which a file's queries are done: they never keep anybody waiting for nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentkit_py._core.lanes import Lane


def done(script: str, path: Path) -> str:
    """What a script prints that has a file to work on; it has to end."""
    head = "import asyncio, sys; from agentkit_py.stores import SqliteHistory\n"
    command = [sys.executable, "-c", head + script, str(path)]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def test_a_store_that_is_closed_as_the_process_ends_does_not_keep_it(path: Path) -> None:
    """Handlers that were registered before its first use are called after its threads ended."""
    script = (
        "import atexit; store = SqliteHistory(sys.argv[1])\n"
        "atexit.register(lambda: asyncio.run(store.close()))\n"
        "asyncio.run(store.setup()); print('used')"
    )
    assert done(script, path) == "used"
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_query_is_known_by_its_caller(path: Path) -> None:
    """Those who trace or log what a database is asked find the run by its context."""
    script = (
        "from contextvars import ContextVar; run = ContextVar('run', default='nobody')\n"
        "def hook(name, values):\n"
        "    if name == 'sqlite3.connect' and str(values[0]) == sys.argv[1]: print(run.get())\n"
        "sys.addaudithook(hook); run.set('ada'); asyncio.run(SqliteHistory(sys.argv[1]).setup())"
    )
    assert set(done(script, path).splitlines()) == {"ada"}  # who is refused tries again


def test_a_system_without_threads_is_said_and_does_no_lasting_harm(path: Path) -> None:
    """A stack of this size is given to nobody."""
    script = (
        "import threading; store = SqliteHistory(sys.argv[1]); threading.stack_size(1 << 46)\n"
        "try: asyncio.run(store.setup())\n"
        "except RuntimeError as error: print(error)\n"
        "threading.stack_size(0); asyncio.run(store.setup()); print('used')"
    )
    assert done(script, path).splitlines() == ["can't start new thread", "used"]


async def test_threads_without_work_end_and_others_take_their_place() -> None:
    """A process may have a file for each of its customers."""
    lane = Lane("idle-lane", 2, idle=0)
    assert [await lane.run(lambda n=n: n) for n in range(200)] == list(range(200))
    for thread in threading.enumerate():
        if thread.name == "idle-lane":
            thread.join(20)
    assert "idle-lane" not in {thread.name for thread in threading.enumerate()}
    assert await lane.run(lambda: "again") == "again"


@pytest.mark.parametrize(
    ("work", "error"),
    [
        pytest.param(lambda: sys.exit("enough"), SystemExit, id="exit"),
        pytest.param(lambda: next(iter(())), RuntimeError, id="stop-iteration"),
    ],
)
async def test_whatever_is_raised_is_raised_where_the_work_was_given(
    work: object, error: type[BaseException]
) -> None:
    """Nobody waits for a thread that has ended, and the thread goes on."""
    lane = Lane("raising-lane", 1)
    with pytest.raises(error):
        await lane.run(work)  # pyright: ignore[reportArgumentType] - it raises
    assert await lane.run(lambda: "next") == "next"
