"""The threads in which a file's queries are done: they never keep anybody waiting for nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


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
