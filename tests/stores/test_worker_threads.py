"""Worker threads of stores: they run queries in their caller's context and never block the exit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def done(script: str, path: Path) -> str:
    """Return the output of a script that works on a file; it has to end."""
    head = "import asyncio, sys; from agentkit_py.stores import SqliteHistory\n"
    command = [sys.executable, "-c", head + script, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_closing_a_store_at_exit_does_not_block(path: Path) -> None:
    """Exit handlers that were registered before its first use run after its threads ended."""
    script = (
        "import atexit; store = SqliteHistory(sys.argv[1])\n"
        "atexit.register(lambda: asyncio.run(store.close()))\n"
        "asyncio.run(store.setup()); print('used')"
    )
    assert done(script, path) == "used"
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_query_runs_in_the_context_of_its_caller(path: Path) -> None:
    """Traces and logs of queries find the run by its context."""
    script = (
        "from contextvars import ContextVar; run = ContextVar('run', default='nobody')\n"
        "def hook(name, values):\n"
        "    if name == 'sqlite3.connect' and str(values[0]) == sys.argv[1]: print(run.get())\n"
        "sys.addaudithook(hook); run.set('ada'); asyncio.run(SqliteHistory(sys.argv[1]).setup())"
    )
    assert set(done(script, path).splitlines()) == {"ada"}  # who is refused tries again


def test_a_worker_thread_that_cannot_start_is_an_error(
    path: Path,
) -> None:
    """No system grants a stack of this size; later the store works."""
    script = (
        "import threading; store = SqliteHistory(sys.argv[1]); threading.stack_size(1 << 46)\n"
        "try: asyncio.run(store.setup())\n"
        "except RuntimeError as error: print(error)\n"
        "threading.stack_size(0); asyncio.run(store.setup()); print('used')"
    )
    assert done(script, path).splitlines() == ["can't start new thread", "used"]
